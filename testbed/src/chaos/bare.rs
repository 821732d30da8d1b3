//! A fabric with daemons and no job: what flows there are is up to the row.

use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Rate};
use sluice_wire::snapshot::{ConditionCode, Snapshot};

use super::ground::{Ground, Unrun, also, sluice};
use crate::fabric::{Fabric, FabricSpec};
use crate::run::RunPlan;
use crate::run::daemons::Daemons;

/// A fabric with daemons and no job: flows are this process's own.
#[derive(Debug)]
pub struct Bare {
    /// One a host.
    pub daemons: Daemons,
    /// The network.
    pub fabric: Fabric,
}

impl Bare {
    /// Starts it, with more settings for all daemons.
    ///
    /// # Errors
    /// As a run.
    pub fn start(ground: &Ground<'_>, name: &str, hosts: usize, rate: Rate, more: &str) -> Result<Bare, Unrun> {
        Bare::on(ground, name, FabricSpec::star(hosts, rate, Bytes(250_000)), more)
    }

    /// The same on any network.
    ///
    /// # Errors
    /// As a run.
    pub fn on(ground: &Ground<'_>, name: &str, spec: FabricSpec, more: &str) -> Result<Bare, Unrun> {
        let bench = ground.bench(name)?;
        let session = bench.session("live")?;
        for host in &spec.hosts {
            also(&session.dir, host, more)?;
        }
        let plan = RunPlan { name: name.into(), fabric: spec.clone(), ..RunPlan::default() };
        let fabric = Fabric::build(spec)?;
        let daemons = Daemons::start(&fabric, &plan, &sluice(), &session)?;
        Ok(Bare { daemons, fabric })
    }

    /// What host 0's daemon says of itself; `None`: it does not answer.
    pub fn snapshot(&self) -> Option<Snapshot> {
        serde_json::from_str(&self.daemons.get(0, "/api/v1/snapshot")?).ok()
    }

    /// Waits until something is so; how long it took, ms. `None`: not in this time.
    pub fn until(&self, time: Duration, mut so: impl FnMut(&Bare) -> bool) -> Option<f64> {
        let began = Instant::now();
        while began.elapsed() < time {
            if so(self) {
                return Some(began.elapsed().as_secs_f64() * 1e3);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    /// Rows of host 0's table in use.
    pub fn used(&self) -> usize {
        self.snapshot().map_or(0, |seen| seen.enforcement.rows_used as usize)
    }

    /// Host 0's metrics whose names hold one of these words, as lines of their text without what they have in common.
    pub fn counted(&self, words: &[&str]) -> String {
        let text = self.daemons.get(0, "/metrics").unwrap_or_default();
        let lines = text.lines().filter(|line| words.iter().any(|word| line.contains(word)));
        lines.filter_map(|line| line.strip_prefix("sluice_")).collect::<Vec<_>>().join(", ")
    }

    /// Is nothing enforced here?
    pub fn lacks(&self) -> bool {
        self.snapshot().is_some_and(|seen| {
            seen.conditions.iter().any(|condition| condition.code == ConditionCode::EnforcementNone)
        })
    }
}
