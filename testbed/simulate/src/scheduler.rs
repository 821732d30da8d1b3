//! What a scheduler is told and what it may say: for each flow a class, a weight, a cap and a hold
//! (`simulation.md` section 5). The network turns that into rates; a scheduler never sets one.

use sluice_scenario::{Fault, LinkIx};
use sluice_schedule::Nanos;

use super::world::{FlowIx, JobIx, World};

/// How the flows of a round depend on each other under a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounds {
    /// As the job's own `dependency` says: pipelined, or start-after with rings in chunks.
    #[default]
    AsTheJobSays,
    /// Stages strictly one after the other, whatever the job could do (`mcs`).
    Staged {
        /// A ring is a chain of whole flows instead of 2(n−1) rounds of chunks.
        ring_chain: bool,
        /// A server's broadcasts wait for its own aggregations only, not for the whole job's.
        per_server: bool,
    },
}

/// What has changed since a scheduler was last asked. Told in the order of `simulation.md` section 3.1: jobs by (arrival,
/// file position), flows by creation.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A job got its GPUs; its flows exist, none is active.
    JobStarted(JobIx),
    /// A job ended; its flows are gone after this call.
    JobEnded(JobIx),
    /// A round began: compute is over.
    RoundBegan(JobIx),
    /// The last flow of a round ended.
    RoundEnded(JobIx),
    /// A flow became active.
    FlowActive(FlowIx),
    /// A flow delivered its last byte of the round.
    FlowEnded(FlowIx),
    /// A flow (or the flows of a job together) passed the mark that was set with [`Orders::mark`] or
    /// [`Orders::mark_job`].
    Passed(FlowIx),
    /// See [`Change::Passed`].
    JobPassed(JobIx),
    /// An unmanaged flow began: it takes its share from now on.
    CrossBegan(FlowIx),
    /// An unmanaged flow ended: its share is free.
    CrossEnded(FlowIx),
    /// A slot edge (in every mode).
    SlotEdge,
    /// The time that [`Scheduler::wake`] named has come.
    Woken,
    /// A fault of the scenario begins (at its `at`) or is over (`over`).
    Fault {
        /// Which fault it is.
        fault: Fault,
        /// True when it ends.
        over: bool,
    },
}

/// What a scheduler wants for one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Lower is more urgent. 0: with unmanaged traffic; strict priorities begin at 1.
    pub class: u32,
    /// Share among its class, more than 0.
    pub weight: f64,
    /// Bytes per second at most; infinite: none.
    pub cap: f64,
    /// It may not send before this time.
    pub hold: Nanos,
}

impl Default for Order {
    fn default() -> Order {
        Order { class: 0, weight: 1.0, cap: f64::INFINITY, hold: Nanos::ZERO }
    }
}

/// The orders in force, one per flow, and which of them were changed in the present call.
///
/// The engine sets a flow's order back to the default when its job starts, and nothing else: an order holds until the
/// scheduler changes it, also over rounds.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    of: Vec<Order>,
    marks: Vec<f64>,
    job_marks: Vec<f64>,
    changed: Vec<FlowIx>,
    routed: Vec<(FlowIx, Vec<LinkIx>)>,
    marked_jobs: Vec<JobIx>,
}

impl Orders {
    /// The order in force.
    pub fn get(&self, flow: FlowIx) -> Order {
        self.of.get(flow.0).copied().unwrap_or_default()
    }

    /// Changes the order of a flow; the same order again is no change.
    pub fn set(&mut self, flow: FlowIx, order: Order) {
        if self.of.len() <= flow.0 {
            self.of.resize(flow.0 + 1, Order::default());
        }
        if self.of[flow.0] != order {
            self.of[flow.0] = order;
            self.changed.push(flow);
        }
    }

    /// Changes the orders of all flows of a job.
    pub fn set_job(&mut self, world: &World<'_>, job: JobIx, order: Order) {
        world.flows_of(job).for_each(|(flow, _)| self.set(flow, order));
    }

    /// Be told when `sent` of the flow reaches so many bytes; infinite: never mind. Holds for one passing, in this round.
    pub fn mark(&mut self, flow: FlowIx, sent: f64) {
        if self.marks.len() <= flow.0 {
            self.marks.resize(flow.0 + 1, f64::INFINITY);
        }
        self.marks[flow.0] = sent;
        self.changed.push(flow);
    }

    /// Be told when the flows of a job have together sent so many bytes of this round.
    pub fn mark_job(&mut self, job: JobIx, sent: f64) {
        if self.job_marks.len() <= job.0 {
            self.job_marks.resize(job.0 + 1, f64::INFINITY);
        }
        self.job_marks[job.0] = sent;
        self.marked_jobs.push(job);
    }

    /// Sends a flow over other links from now on (`crux`); between the same hosts.
    pub fn route(&mut self, flow: FlowIx, path: Vec<LinkIx>) {
        self.routed.push((flow, path));
    }

    /// The mark of a flow, infinite if none.
    pub(super) fn mark_of(&self, flow: FlowIx) -> f64 {
        self.marks.get(flow.0).copied().unwrap_or(f64::INFINITY)
    }

    /// The mark of a job, infinite if none.
    pub(super) fn mark_of_job(&self, job: JobIx) -> f64 {
        self.job_marks.get(job.0).copied().unwrap_or(f64::INFINITY)
    }

    /// Flows whose order or mark was changed since the last call, each perhaps more than once, in exchange for an empty
    /// list whose memory is used again.
    pub(super) fn swap_changed(&mut self, empty: &mut Vec<FlowIx>) {
        std::mem::swap(&mut self.changed, empty);
    }

    /// A new flow stands here: no order, no mark.
    pub(super) fn reset(&mut self, flow: FlowIx) {
        if let Some(order) = self.of.get_mut(flow.0) {
            *order = Order::default();
        }
        self.unmark(flow);
    }

    /// The mark was passed, or its round is over.
    pub(super) fn unmark(&mut self, flow: FlowIx) {
        if let Some(mark) = self.marks.get_mut(flow.0) {
            *mark = f64::INFINITY;
        }
    }

    /// As [`Orders::unmark`] for a job.
    pub(super) fn unmark_job(&mut self, job: JobIx) {
        if let Some(mark) = self.job_marks.get_mut(job.0) {
            *mark = f64::INFINITY;
        }
    }

    /// Jobs with a mark were marked since the last call.
    pub(super) fn take_marked_jobs(&mut self, into: &mut Vec<JobIx>) {
        into.append(&mut self.marked_jobs);
    }

    /// Flows that were sent over other links since the last call; forgets them.
    pub(super) fn take_routed(&mut self) -> Vec<(FlowIx, Vec<LinkIx>)> {
        std::mem::take(&mut self.routed)
    }
}

/// What the engine prepares for a scheduler before it is asked; less is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// It looks at `sent` and `rate` of flows other than through [`World::sent`] and [`World::rate`]. False spares the
    /// engine bringing every active flow up to date before each call.
    pub progress: bool,
    /// It wants [`Change::SlotEdge`] in event mode. False spares a call every slot.
    pub edges: bool,
}

impl Needs {
    /// Progress and slot edges.
    pub const ALL: Needs = Needs { progress: true, edges: true };
    /// Slot edges, and no progress.
    pub const EDGES: Needs = Needs { progress: false, edges: true };
    /// Progress, and no slot edges.
    pub const PROGRESS: Needs = Needs { progress: true, edges: false };
    /// Only to be told what changes.
    pub const CHANGES: Needs = Needs { progress: false, edges: false };
}

/// A scheduler under test. It is told what changed, and answers with orders; all it knows is in the [`World`].
///
/// In event mode it is asked after every instant at which something changed; in the slot modes at slot edges only, with
/// everything that changed since the last one.
pub trait Scheduler {
    /// How the rounds of jobs are built under this scheduler.
    fn rounds(&self) -> Rounds {
        Rounds::AsTheJobSays
    }

    /// Changes orders. Flows that are not active may be given orders too; they hold when the flow becomes active.
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders);

    /// Ask again at this time at the latest (in every mode). `None`: only when something changes.
    fn wake(&self) -> Option<Nanos> {
        None
    }

    /// Seconds of the machine's clock each decision took, where the scheduler measures it; for the `machine` part of a
    /// result, which is not deterministic.
    fn decision_times(&self) -> &[f64] {
        &[]
    }

    /// Part of a link's capacity that managed flows can turn into progress, above 0 to 1: the rest of what they send is
    /// lost in bursts (`fair.efficiency`). Asked once, before the first event.
    fn efficiency(&self) -> f64 {
        1.0
    }

    /// What it needs beside the changes themselves.
    fn needs(&self) -> Needs {
        Needs::ALL
    }

    /// Counters for the result, by name, deterministic.
    fn counters(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
