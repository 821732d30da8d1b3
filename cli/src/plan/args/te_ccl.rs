//! The command line of `sluice plan te-ccl`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use sluice_formats::quantity::{self, Rational};
use sluice_plan::plan::Collective;
use sluice_planners::teccl;
use sluice_planners::teccl::Objective;
use sluice_planners::teccl::lane::EpochLength;

use super::{PlanningArgs, collective};
use crate::plan::form::FabricArgs;
use crate::words::{Choices, choice};

#[derive(Clone, Debug, ClapArgs)]
pub struct TeCclArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// allgather, alltoall, broadcast, scatter, gather, reduce_scatter, reduce or allreduce; also all-gather, AllToAll …
    #[arg(long, value_name = "C", value_parser = collective, required_unless_present = "demands", conflicts_with = "demands")]
    pub collective: Option<Collective>,
    /// Who wants what, in JSON: tenants with a collective or with triples of source, chunk and destination; needs --chunk
    #[arg(long, value_name = "FILE", requires = "chunk", conflicts_with_all = ["size", "chunks", "root"])]
    pub demands: Option<PathBuf>,
    /// Bytes, as in 1GB or 64MiB: what each participant ends with (all-gather), begins with (sums), owns (all-to-all), or
    /// the root's data
    #[arg(long, value_name = "SIZE", required_unless_present = "chunk", conflicts_with = "chunk")]
    pub size: Option<String>,
    /// Bytes of each chunk, instead of --size
    #[arg(long, value_name = "SIZE")]
    pub chunk: Option<String>,
    /// Chunks per source, of sums per owner, of an all-to-all, a scatter and a gather per pair; none: one
    #[arg(long, value_name = "C")]
    pub chunks: Option<u64>,
    /// Length of an epoch: what the fastest link takes for a chunk, what the slowest takes, or a time with unit
    #[arg(long, default_value = "fast", value_name = "fast|slow|TIME", value_parser = epoch)]
    pub epoch: EpochLength,
    /// Times that; longer epochs plan sooner and end later
    #[arg(long, default_value = "1", value_name = "EM", value_parser = number)]
    pub epoch_multiplier: Rational,
    /// A latency of at most this share of an epoch counts as none
    #[arg(long, default_value = "0.1", value_name = "T", value_parser = number)]
    pub theta: Rational,
    /// From a switch on to a GPU a chunk costs the latency alone
    #[arg(long)]
    pub free_second_hop: bool,
    /// Ways through a switch are links of their own, one chunk at a time in every port
    #[arg(long)]
    pub hyper_edges: bool,
    /// Any schedule of --epochs, one of the fewest epochs, or the one that gains most by --objective
    #[arg(long, value_parser = choice(MODES), default_value = "min-epochs", value_name = "MODE")]
    pub mode: Sought,
    /// Epochs: those of a feasible schedule; those within which the objective counts (none: the fewest there can be); with
    /// --solver astar those of a round
    #[arg(long, value_name = "N", required_if_eq("mode", "feasible"))]
    pub epochs: Option<u64>,
    /// What --mode objective is about; none: harmonic
    #[arg(long, value_parser = choice(OBJECTIVES), value_name = "OBJECTIVE")]
    pub objective: Option<Objective>,
    /// Who plans what bounds and orders leave open
    #[arg(long, value_parser = choice(SOLVERS), default_value = "auto", value_name = "SOLVER")]
    pub solver: Decider,
    /// Who takes part, by rank; none: all gpu, host and site nodes in file order
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub participants: Vec<String>,
    /// Where a broadcast or scatter begins, or a gather ends
    #[arg(long, value_name = "NODE")]
    pub root: Option<String>,
    /// Plan without keys of the topology that schedules of sends know nothing of; the plan lists them
    #[arg(long, value_delimiter = ',', value_name = "KEY", value_parser = PossibleValuesParser::new(teccl::SUPPORT.ignorable))]
    pub ignore: Vec<String>,
    /// A link that is slower than the topology says: its index, a latency to add, a factor of the time per byte
    #[arg(long = "slow-link", value_name = "LINK,+TIME,xFACTOR", value_parser = slow)]
    pub slow_links: Vec<Slow>,
    /// The same for all links of a node, named by its id
    #[arg(long = "slow-node", value_name = "NODE,+TIME,xFACTOR", value_parser = slow)]
    pub slow_nodes: Vec<Slow>,
    /// Where random orders and the solver's random numbers begin; the same seed gives the same plan
    #[arg(long, default_value_t = 0, value_name = "SEED", value_parser = clap::value_parser!(u32))]
    pub seed: u32,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// What is sought, but for the number of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    Feasible,
    MinEpochs,
    Objective,
}

const MODES: Choices<Sought> = &[
    ("feasible", "Any schedule of --epochs", Sought::Feasible),
    ("min-epochs", "One of the fewest epochs", Sought::MinEpochs),
    ("objective", "The schedule that gains most by --objective", Sought::Objective),
];

const OBJECTIVES: Choices<Objective> = &[
    ("harmonic", "A chunk that is there by the end of epoch a gains 1/(a+1) + … + 1/N", Objective::Harmonic),
    ("sum-completion", "The sum of the epochs in which chunks are there is least", Objective::SumCompletion),
];

/// Who decides where bounds and orders leave something open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    Auto,
    Milp,
    Lp,
    Astar,
    Nobody,
}

const SOLVERS: Choices<Decider> = &[
    ("auto", "An integer program where this program was built with a solver", Decider::Auto),
    ("milp", "An integer program", Decider::Milp),
    ("lp", "A linear program of chunks that may be cut and are not copied", Decider::Lp),
    (
        "astar",
        "Short integer programs, round by round, without the orders: for what is too large for one",
        Decider::Astar,
    ),
    ("none", "Nothing: the best order tried", Decider::Nobody),
];

/// Somebody slow, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// An index or an id.
    pub place: String,
    /// Seconds more of latency.
    pub alpha_add: Rational,
    /// Factor of the time per byte.
    pub beta_mul: Rational,
}

fn epoch(text: &str) -> Result<EpochLength, String> {
    match text {
        "fast" => Ok(EpochLength::Fast),
        "slow" => Ok(EpochLength::Slow),
        _ => seconds(text).map(EpochLength::Fixed).map_err(|error| format!("{error}; or `fast`, `slow`")),
    }
}

fn seconds(text: &str) -> Result<Rational, String> {
    match quantity::latency(text) {
        Ok((seconds, true)) => Ok(seconds),
        Ok((_, false)) => Err("a time has a unit: 5us, 1.25us, 120s".into()),
        Err(misread) => Err(format!("not {}; allowed: {}", misread.what, misread.allowed)),
    }
}

fn number(text: &str) -> Result<Rational, String> {
    Rational::parse(text).map_err(|_| "not a number: 4, 0.1 or 7/2".into())
}

/// Reads `12,+0.5us,x2`.
fn slow(text: &str) -> Result<Slow, String> {
    let mut slow = Slow { place: String::new(), alpha_add: Rational::ZERO, beta_mul: Rational::ONE };
    for (i, part) in text.split(',').enumerate() {
        match (i, part.strip_prefix('+'), part.strip_prefix('x')) {
            (0, ..) => part.clone_into(&mut slow.place),
            (_, Some(time), _) => slow.alpha_add = seconds(time)?,
            (_, None, Some(factor)) => slow.beta_mul = number(factor)?,
            _ => return Err(format!("`{part}` is neither +TIME nor xFACTOR, as in 12,+0.5us,x2")),
        }
    }
    Ok(slow)
}
