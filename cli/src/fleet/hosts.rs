//! Asking many hosts at once over their read-only HTTP, so many at a time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluice_fleet::judge::Seen;
use sluice_fleet::key::Name;
use sluice_fleet::value::HostValue;
use sluice_wire::snapshot::{Brief, SCHEMA};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::desk::Desk;
use crate::client;

/// For one host. One that takes longer is as good as silent.
const TIME: Duration = Duration::from_secs(3);
/// Bytes of an answer: 256 jobs and all conditions are a tenth of it.
const MAX_BYTES: usize = 1 << 20;

/// What the hosts of some groups say now, by group; every host is there, those that do not answer with the reason.
pub fn ask(desk: &Desk, groups: &[(Name, Vec<HostValue>)], parallel: NonZeroUsize) -> BTreeMap<Name, Vec<Seen>> {
    let turns = Arc::new(Semaphore::new(parallel.get()));
    let mut seen: BTreeMap<Name, Vec<Seen>> = groups.iter().map(|(group, _)| (group.clone(), Vec::new())).collect();
    desk.runtime.block_on(async {
        let mut asked = JoinSet::new();
        for (group, host) in groups.iter().flat_map(|(group, hosts)| hosts.iter().map(move |host| (group, host))) {
            let (group, host, turns) = (group.clone(), host.clone(), turns.clone());
            asked.spawn(async move {
                let _turn = turns.acquire_owned().await;
                let answer = brief(&host).await.map(Box::new);
                (group, Seen { host: host.name, http: host.http, answer })
            });
        }
        while let Some(Ok((group, one))) = asked.join_next().await {
            seen.entry(group).or_default().push(one);
        }
    });
    seen.values_mut().for_each(|hosts| hosts.sort_by(|a, b| a.host.cmp(&b.host)));
    seen
}

async fn brief(host: &HostValue) -> Result<Brief, String> {
    let answer = client::fetch(&host.http, "/api/v1/host", TIME, MAX_BYTES).await?;
    let brief: Brief = serde_json::from_slice(&answer).map_err(|error| format!("not an answer of sluiced: {error}"))?;
    if brief.schema != SCHEMA {
        return Err(format!("it answers in schema {}, this command reads {SCHEMA}", brief.schema));
    }
    if brief.host != host.name.as_str() {
        return Err(format!("the host that answers there is {}", brief.host));
    }
    Ok(brief)
}
