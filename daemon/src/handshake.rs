//! One hello to every switch of a configuration, for whoever looks whether they would be understood. It gives the name of this
//! host, which is what its certificate proves; it promises nothing, reads no table, and needs no daemon.

use std::time::Duration;

use sluice_schedule::{BootId, HolderId};
use sluice_wire::calls::CallClient;
use sluice_wire::session::SessionError;

use crate::clock::Wall;
use crate::config::{Loaded, SwitchEntry, Transport};
use crate::exchange::{Identity, backoff};

/// What a switch said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It understands this host: its version of the process is on the same grid. With the names of its switches.
    Understood(Vec<String>),
    /// It answers, and refuses, or is on another grid.
    Refused(String),
    /// It does not answer, or is no switch of Sluice.
    Silent(String),
    /// It is spoken to by datagrams, which have no hello.
    NotAsked,
}

/// A switch of the configuration and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeted {
    /// Its name.
    pub name: String,
    /// Where it answers.
    pub address: String,
    /// What came back.
    pub answer: Answer,
}

/// Says hello to all switches at the same time; none is waited for longer than `limit`.
///
/// # Errors
/// No runtime could be started.
pub fn greet(loaded: &Loaded, limit: Duration) -> std::io::Result<Vec<Greeted>> {
    let identity = Identity::new(&loaded.config, BootId(backoff::random()), Wall::new(&loaded.config));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let asked = tokio::task::LocalSet::new();
        let tasks: Vec<_> = (loaded.config.switches.iter().cloned())
            .map(|switch| asked.spawn_local(one(switch, identity.clone(), limit)))
            .collect();
        asked
            .run_until(async {
                let mut all = Vec::new();
                for task in tasks {
                    all.extend(task.await.ok());
                }
                all
            })
            .await
    }))
}

async fn one(switch: SwitchEntry, identity: Identity, limit: Duration) -> Greeted {
    let address = switch.address.to_string();
    let answer = match switch.transport {
        Transport::Udp | Transport::Inband => Answer::NotAsked,
        Transport::Session | Transport::Unary => match tokio::time::timeout(limit, call(&switch, &identity)).await {
            Ok(answer) => answer,
            Err(_) => Answer::Silent(format!("no answer within {:.1} s", limit.as_secs_f64())),
        },
    };
    Greeted { name: switch.name, address, answer }
}

/// A table that nobody keeps: whoever asks for it is greeted and told nothing.
const NO_TABLE: HolderId = HolderId(0);

async fn call(switch: &SwitchEntry, identity: &Identity) -> Answer {
    let exchange = async {
        let dial = identity.dial(sluice_identity::Kind::Switch, vec![switch.name.clone()]);
        let mut client = CallClient::connect_by(&dial, &format!("http://{}", switch.address)).await?;
        client.fetch(&identity.hello(), &[NO_TABLE]).await
    };
    match exchange.await {
        Ok(answer) => match answer.welcome.hello.check(&identity.grid, identity.slot_now()) {
            Ok(()) => Answer::Understood(answer.welcome.holders.into_iter().map(|holder| holder.name).collect()),
            Err(mismatch) => Answer::Refused(mismatch.to_string()),
        },
        Err(error @ SessionError::Status { .. }) if error.refusal_id().is_some() => Answer::Refused(error.to_string()),
        Err(error) => Answer::Silent(error.to_string()),
    }
}
