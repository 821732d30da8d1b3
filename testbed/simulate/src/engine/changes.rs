//! What the scheduler will be told, in the order of `simulation.md` section 3.1: jobs by (arrival, file position), flows
//! by creation, then everything else.

use crate::scheduler::Change;

/// Changes since the scheduler was last asked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    jobs: Vec<(u32, u32, Change)>,
    flows: Vec<(u64, u32, Change)>,
    rest: Vec<Change>,
    sorted: Vec<Change>,
}

impl Changes {
    /// Something about the job of this rank.
    pub(super) fn job(&mut self, rank: u32, change: Change) {
        let nth = self.jobs.len() as u32;
        self.jobs.push((rank, nth, change));
    }

    /// Something about the flow with this number in the order of creation.
    pub(super) fn flow(&mut self, serial: u64, change: Change) {
        let nth = self.flows.len() as u32;
        self.flows.push((serial, nth, change));
    }

    /// A change that is not about one flow.
    pub(super) fn other(&mut self, change: Change) {
        self.rest.push(change);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.flows.is_empty() && self.rest.is_empty()
    }

    /// Everything in order, forgotten here.
    pub(super) fn take(&mut self) -> &[Change] {
        self.sorted.clear();
        self.jobs.sort_unstable_by_key(|c| (c.0, c.1));
        self.flows.sort_unstable_by_key(|c| (c.0, c.1));
        self.sorted.extend(self.jobs.drain(..).map(|c| c.2));
        self.sorted.extend(self.flows.drain(..).map(|c| c.2));
        self.sorted.append(&mut self.rest);
        &self.sorted
    }
}
