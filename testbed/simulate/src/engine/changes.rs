//! What the scheduler will be told, in the order of `simulation.md` section 3.1: jobs by (arrival, file position), flows
//! by creation, then everything else.

use crate::scheduler::Change;

/// Changes since the scheduler was last asked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    jobs: Vec<Noted>,
    flows: Vec<Noted>,
    rest: Vec<Change>,
    sorted: Vec<Change>,
}

/// A change about one job or flow.
#[derive(Debug)]
struct Noted {
    /// Rank of the job, or number of the flow in the order of creation.
    of: u64,
    /// How many were noted before it.
    nth: u32,
    change: Change,
}

impl Changes {
    /// Something about the job of this rank.
    pub(super) fn job(&mut self, rank: u32, change: Change) {
        let nth = self.jobs.len() as u32;
        self.jobs.push(Noted { of: rank.into(), nth, change });
    }

    /// Something about the flow with this number in the order of creation.
    pub(super) fn flow(&mut self, serial: u64, change: Change) {
        let nth = self.flows.len() as u32;
        self.flows.push(Noted { of: serial, nth, change });
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
        for noted in [&mut self.jobs, &mut self.flows] {
            noted.sort_unstable_by_key(|c| (c.of, c.nth));
            self.sorted.extend(noted.drain(..).map(|c| c.change));
        }
        self.sorted.append(&mut self.rest);
        &self.sorted
    }
}
