//! What TE-CCL makes of collectives between sites, executed as the methods here are: the other side of a comparison.
//!
//! TE-CCL knows chunks of one size and epochs, and nothing of flows that wait for each other. Two ways to put rings of an
//! all-reduce to it: every flow a demand of its own from its sender to its receiver, or reduce-scatter, as an all-gather in
//! time that runs backwards, and then the all-gather, a tenant for each collective. What it decides is a route, a rate and
//! an epoch for every chunk. That is then played by the simulator with the real sizes, the real capacities and whatever
//! waits for what, so the times are those of last bytes and no counts of epochs.
//!
//! Source: sections 12 and 13 of the allocation page, which takes the comparison from the paper and leaves open how
//! reductions were put and how large chunks are. A chunk here is the mean flow, or an equal part of it.
//!
//! | module | is |
//! | --- | --- |
//! | `asked` | the sites as a topology, the tenants as demands |
//! | `decided` | TE-CCL's own search, within some seconds |
//! | [`admission`] | who goes first where the epochs no longer tell |
//! | `flows` | every flow a demand |
//! | `halves` | reduce-scatter, then all-gather |

pub mod admission;
mod asked;
mod decided;
mod flows;
mod halves;
#[cfg(test)]
mod tests;

use std::time::Duration;

use admission::Admission;
use sluice_formats::problem::Problems;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::{Run, Stopped};
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::simulate::{Outcome, simulate};
use sluice_planners_wan::{Instance, Refusal as Unusable};

/// How long an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epochs {
    /// What the fastest link takes for a chunk.
    Fine,
    /// What the slowest link takes for a chunk.
    Coarse,
}

impl Epochs {
    /// Both.
    pub const ALL: [Epochs; 2] = [Epochs::Fine, Epochs::Coarse];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Epochs::Fine => "fine",
            Epochs::Coarse => "coarse",
        }
    }
    fn length(self) -> EpochLength {
        match self {
            Epochs::Fine => EpochLength::Fast,
            Epochs::Coarse => EpochLength::Slow,
        }
    }
}

/// How the collectives are put to TE-CCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every flow is a demand from its sender to its receiver.
    Flows,
    /// Every collective is a reduce-scatter and then an all-gather, over trees of TE-CCL's own.
    Halves,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::Flows, Form::Halves];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Form::Flows => "p2p",
            Form::Halves => "rs+ag",
        }
    }
}

/// What may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How the collectives are put.
    pub form: Form,
    /// How long an epoch is.
    pub epochs: Epochs,
    /// Chunks that a flow of mean size is cut into.
    pub chunks: u64,
    /// How long TE-CCL may look for fewer epochs, each time it is asked: once for flows, twice for halves.
    pub limit: Duration,
}

/// How good a schedule is in TE-CCL's own measure, which is epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// None has fewer epochs.
    Best,
    /// The integer program was asked too, and time ran out.
    Limited,
    /// The best of the greedy orders: the program is too large to get anywhere in that time.
    Greedy,
}

impl Standing {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Best => "fewest epochs",
            Standing::Limited => "time limit",
            Standing::Greedy => "greedy",
        }
    }
}

/// What TE-CCL decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What is executed: a flow for each chunk that moves, on the route it was given, and what it waits for.
    pub instance: Instance,
    /// By flow the rate that whole chunks in epochs have, in MB/s.
    pub rates: Vec<f64>,
    /// By flow its place in the order of the epochs in which they start.
    pub rank: Vec<usize>,
    /// Epochs, of both halves together where there are two.
    pub epochs: u64,
    /// Seconds of an epoch.
    pub epoch: f64,
    /// The worse of the halves', where there are two.
    pub standing: Standing,
}

impl Decision {
    /// Plays it: with TE-CCL's rates, each flow as soon as it may and they fit, those of earlier epochs first; or with all
    /// that links have, divided in that order.
    ///
    /// # Errors
    /// None of a decision that was made here; those of the simulator of another one.
    pub fn execute(&self, execution: Execution) -> Result<Outcome, Unusable> {
        match execution {
            Execution::Static => {
                let mut rule = Admission::new(&self.instance, self.rates.clone(), self.rank.clone())?;
                simulate(&self.instance, &mut rule)
            }
            Execution::WorkConserving => Plan::Priority { rank: self.rank.clone() }.execute(&self.instance),
        }
    }
}

/// Why there is nothing to compare.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// The instance is none that can be put.
    #[error(transparent)]
    Instance(#[from] Unusable),
    /// TE-CCL refuses what it is asked, or breaks down.
    #[error(transparent)]
    Teccl(#[from] Problems),
    /// Somebody called it off, or the limit passed before there was anything.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A send without what it hands on: a fault of the schedule.
    #[error("chunk {chunk} is sent on by node {node}, which does not have it")]
    Torn {
        /// The chunk, as the demand numbers it.
        chunk: usize,
        /// Who sends it.
        node: usize,
    },
}

/// Asks TE-CCL.
///
/// # Errors
/// `NotAChain` for flows that are no chains, `BadParticipants` for halves of what is no ring; TE-CCL's own.
pub fn decide(instance: &Instance, options: Options, run: &Run<'_>) -> Result<Decision, Refusal> {
    instance.chains()?;
    match options.form {
        Form::Flows => flows::decide(instance, options, run),
        Form::Halves => halves::decide(instance, options, run),
    }
}

/// Flows that are executed in place of an instance's own, as they come together.
#[derive(Default)]
struct Draft {
    flows: Vec<sluice_planners_wan::Flow>,
    waits: Vec<(usize, usize)>,
    rates: Vec<f64>,
    starts: Vec<u64>,
}

impl Draft {
    /// Adds a flow that starts in this epoch by TE-CCL's clock; its index.
    fn flow(&mut self, flow: sluice_planners_wan::Flow, rate: f64, start: u64) -> usize {
        self.flows.push(flow);
        self.rates.push(rate);
        self.starts.push(start);
        self.flows.len() - 1
    }

    /// The decision; every flow becomes a group of its own, since what it waits for is named.
    fn finish(mut self, of: &Instance, epochs: u64, epoch: f64, standing: Standing) -> Result<Decision, Refusal> {
        let mut next = vec![0; of.collectives()];
        for flow in &mut self.flows {
            let next = &mut next[flow.collective];
            (flow.group, flow.order, *next) = (*next, 0, *next + 1);
        }
        let mut order: Vec<usize> = (0..self.flows.len()).collect();
        order.sort_by_key(|flow| self.starts[*flow]);
        let mut rank = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(place, flow)| rank[flow] = place);
        let instance = Instance::new(of.name(), of.nodes(), of.links().to_vec(), self.flows, Some(self.waits))?;
        Ok(Decision { instance, rates: self.rates, rank, epochs, epoch, standing })
    }
}
