//! The command line of `sluice plan fluid-lp`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use sluice_plan::plan::Collective;
use sluice_planners::fluid::instance::SUPPORT;

use super::timed::TimedArgs;
use super::{PlanningArgs, collective};
use crate::plan::form::FabricArgs;
use crate::words::{Choices, choice};

#[derive(Clone, Debug, ClapArgs)]
pub struct FluidLpArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// allgather, reduce_scatter, allreduce, alltoall, broadcast, reduce, scatter or gather; also all-gather, AllToAll …
    #[arg(long, value_name = "C", value_parser = collective, required_unless_present = "demands", conflicts_with = "demands")]
    pub collective: Option<Collective>,
    /// Who wants what, in JSON: tenants with a collective or with triples of source, chunk and destination
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub demands: Option<PathBuf>,
    /// How exactly nodes that cannot copy are dealt with; none: tree, or dup where more than 12 other nodes can copy
    #[arg(long, value_parser = choice(STRENGTHS), value_name = "STRENGTH")]
    pub strength: Option<Strength>,
    /// How the programs are solved
    #[arg(long, value_parser = choice(METHODS), default_value = "auto", value_name = "METHOD")]
    pub method: Method,
    /// Without the second objective, the least cost at the least time
    #[arg(long)]
    pub latency_only: bool,
    /// Draw how the bounds closed in on each other, round by round, as SVG; of the methods with rounds, dw and mirrored
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Synchronised steps instead of trees or paths: every part is cut into K chunks that follow each other at one step's
    /// distance; T + K − 1 steps of R/K, with T links on the longest way, so that a larger K is nearer to R
    #[arg(long, value_name = "K", conflicts_with = "demands", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// Who takes part, by rank; none: all gpu, host and site nodes in file order
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub participants: Vec<String>,
    /// Where a broadcast or scatter begins, or a reduce or gather ends
    #[arg(long, value_name = "NODE")]
    pub root: Option<String>,
    /// Plan without keys of the topology that fluid programs know nothing of; the plan lists them
    #[arg(long, value_delimiter = ',', value_name = "KEY", value_parser = PossibleValuesParser::new(SUPPORT.ignorable))]
    pub ignore: Vec<String>,
    #[command(flatten)]
    pub time: TimedArgs,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// How exactly nodes that cannot copy are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Relax,
    Dup,
    Tree,
}

const STRENGTHS: Choices<Strength> = &[
    ("relax", "They take in as much as they give out: a bound from below, and no plan", Strength::Relax),
    ("dup", "They are taken apart by where their data goes next: a tighter bound; the plan has trees", Strength::Dup),
    ("tree", "Routing trees: exact", Strength::Tree),
];

/// How the programs are solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Auto,
    Direct,
    Orbit,
    Dw,
    Mirrored,
}

const METHODS: Choices<Method> = &[
    ("auto", "What suits the fabric and the strength", Method::Auto),
    ("direct", "One program over all links and roots", Method::Direct),
    ("orbit", "The same, with what symmetry makes equal as one", Method::Orbit),
    ("dw", "Routes and prices by turns (Dantzig-Wolfe), every root by itself", Method::Dw),
    ("mirrored", "Routes and prices, one root of those that symmetry makes equal", Method::Mirrored),
];
