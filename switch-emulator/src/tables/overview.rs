//! What metrics and health pages show of the process and of its switches.

use sluice_schedule::Nanos;
use sluice_schedule::switch::{Counters, LinkLoad};

use super::{Held, Results, TRANSPORTS, Tables};

/// Work of the process as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pushes: u64,
    /// Hellos that did not fit.
    pub refused_hellos: u64,
    /// CPU time in the brains.
    pub table_cpu: Nanos,
    /// CPU time for unasked feedback.
    pub push_cpu: Nanos,
}

/// The process at one moment.
#[derive(Debug)]
pub struct Overview {
    pub switches: Vec<Report>,
    /// What was counted over all of them.
    pub counts: Counts,
    /// Hosts connected by a session.
    pub sessions: usize,
}

/// What metrics and health pages show of one switch.
#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub hosts: usize,
    pub leases: usize,
    pub warm: bool,
    pub counters: Counters,
    /// Announcements by transport and result.
    pub updates: [Results; TRANSPORTS.len()],
    /// Per link: the node it leads to, and its load.
    pub links: Vec<(String, LinkLoad)>,
}

impl Tables {
    pub fn overview(&self) -> Overview {
        let mut state = self.lock();
        let slot = self.now(&mut state).slot;
        let report = |held: &Held| Report {
            name: held.name.clone(),
            hosts: held.brain.hosts().count(),
            leases: held.brain.leases().map(|lease| lease.promises).sum(),
            warm: held.brain.warm(slot),
            counters: held.brain.counters(),
            updates: held.updates,
            links: held.ports.iter().map(|(_, to)| to.clone()).zip(held.brain.links()).collect(),
        };
        Overview {
            switches: state.switches.iter().map(report).collect(),
            counts: state.counts,
            sessions: state.sessions.hosts(),
        }
    }
}
