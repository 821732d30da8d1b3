//! The command line of `sluice plan`.

mod compare;
mod export;
mod fluid_lp;
mod te_ccl;
mod timed;
mod wan;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Subcommand};
use sluice_formats::problem::{hint, printable};
use sluice_formats::quantity;
use sluice_formats::topology::Kind;
use sluice_plan::plan::Collective;
use sluice_planners::direct::{self, Proof};
use sluice_planners::forestcoll::{self, Way};

use super::form::{FabricArgs, PlanFabricArgs};
use crate::shard::{Shard, shard};
use crate::words::MACHINES;
use crate::words::{Choices, choice};
pub use compare::CompareArgs;
pub use export::ExportArgs;
pub use fluid_lp::FluidLpArgs;
#[cfg(feature = "lp")]
pub use fluid_lp::{Method as FluidMethod, Strength as FluidStrength};
pub use te_ccl::{Decider, Slow, Sought, TeCclArgs};
#[cfg(feature = "lp")]
pub use timed::Model as TimedModel;
pub use wan::{
    DEFAULT_GRAPH as WAN_GRAPH, METHODS as WAN_METHODS, Numbers, OptionArgs as WanOptionArgs,
    SourceArgs as WanSourceArgs, WanArgs,
};

#[derive(Clone, Debug, Subcommand)]
pub enum PlanCmd {
    /// Spanning trees that reach the best rate the fabric allows, with the cut that proves it
    ///
    /// Every participant is the root of k trees over all participants; data flows along all of them at once, in small
    /// pieces. No schedule of any kind is faster than a bottleneck cut allows: what must leave a set of nodes, over the
    /// capacity out of it. These trees reach that rate exactly. Reduce-scatter and reduce turn the trees round, an
    /// all-reduce does both. The plan carries its topology, its exact claim and the cut; `sluice plan check` verifies
    /// all of it with other code. Time for latency and for filling pipes is not in it.
    ///
    /// Example: sluice plan forestcoll --topology a100.json --collective all-gather --out plan.json
    ///
    /// Example: sluice plan forestcoll --topology a100.json --collective all-reduce --fixed-k 1 --size 1GB --json
    ///
    /// Example: sluice plan forestcoll --topology mi250.json --collective all-gather --best-k 1..9 --out plan.json
    Forestcoll(Box<ForestcollArgs>),
    /// Graphs for machines with ports and no switches: fewest steps against least time
    ///
    /// Which of N machines' d ports should be cabled to which, if collectives run in synchronised steps? Few steps suit
    /// small data, little time on the links suits large data, and most graphs lose on both. This lists the graphs that no
    /// other beats: families of graphs and what line graphs, copies, powers and products make of smaller ones. T_B is in
    /// units of M/B; (N-1)/N is the least. `at most`: the graph is too large to be evaluated here, the formula's bound
    /// stands. Values of graphs are kept in a cache.
    ///
    /// Example: sluice plan find-topology --nodes 1024 --degree 4 --size 1MiB --alpha 10us --bandwidth 100Gbit/s
    ///
    /// Example: sluice plan find-topology --nodes 12 --degree 4 --bidirectional --out-dir graphs
    FindTopology(Box<FindTopologyArgs>),
    /// Synchronised steps for a graph without switches: the best breadth-first schedule, exact
    ///
    /// All nodes take part, in file order. Every shard travels on shortest paths only, and each node takes what is t hops
    /// away in step t, spread over its links as evenly as can be; no schedule has fewer steps. The figures: T_L steps of
    /// latency, and T_B times M/B, with M the data and B the bandwidth of all ports of a node together; (N−1)/N is the best
    /// possible. Reduce-scatter is the same backwards on the reversed graph, an all-reduce both. Links may differ in
    /// capacity and latency. Nodes that only forward are refused: for switched fabrics there is `sluice plan forestcoll`.
    ///
    /// Example: sluice plan bfb --topology torus.json --collective all-reduce --out plan.json
    ///
    /// Example: sluice plan bfb --topology torus.json --collective all-gather --size 1MiB --chunks 4 --json
    Bfb(Box<BfbArgs>),
    /// When each chunk starts on which link: the fewest epochs, with latencies, switches and limited buffers
    ///
    /// Time is cut into epochs, data into whole chunks, and every link takes so many chunks in so many epochs. What no
    /// schedule beats is known from distances, ports and the only ways there are; several orders of work look for a schedule
    /// that reaches it, and an integer program decides what is left between. The plan says who sends which chunk in which
    /// epoch; `sluice plan check` replays it and recomputes the bound. With a switch between, two transmissions are counted
    /// unless --free-second-hop says otherwise.
    ///
    /// Example: sluice plan te-ccl --topology ndv2-2.json --collective allgather --size 1GB --epoch slow --out plan.json
    ///
    /// Example: sluice plan te-ccl --topology DGX2.json --form teccl --collective alltoall --size 1MB --free-second-hop --json
    TeCcl(Box<TeCclArgs>),
    /// The least time any schedule can take, on any fabric, the least traffic at that time, and trees or paths that do it
    ///
    /// Data is a fluid. Some nodes copy, some add up, some only pass on; links have limits of their own and limits that they
    /// share. R is the least time for a unit of data (per GB where capacities have units): of every node in an all-gather,
    /// for every pair in an all-to-all, of the whole vector or the root's data else. The second objective is the least sum of
    /// link costs at that time. Where memories may copy, links are unequal or limits are shared, trees that `sluice plan
    /// forestcoll` packs are no longer the best; these are, and the plan carries prices of the limits that prove it. R is what
    /// ever more and smaller pieces come to; --model counts steps instead, of a fluid or of whole pieces.
    ///
    /// Example: sluice plan fluid-lp --topology dgx.json --collective allgather --strength dup --out plan.json
    ///
    /// Example: sluice plan fluid-lp --topology box.json --collective allgather --model cm2 --chunks 2 --horizon 4 --out plan.json
    ///
    /// Example: sluice plan fluid-lp --topology dgx.json --collective alltoall --latency-only --json
    FluidLp(Box<FluidLpArgs>),
    /// Several collectives between sites at once: rates, weights or an order for every flow over fixed routes
    ///
    /// Flows of a collective wait for each other in chains, one chain for each chunk of a ring. A method that divides links
    /// without knowing that reserves for flows that are not there yet. What is to be small is the mean over collectives of the
    /// time at which the last flow ends; links are fixed, and so are routes. `portfolio` plays what every method proposes and
    /// keeps the best. The plan says who sends how fast or who goes first, and proves a bound that no plan goes below;
    /// `sluice plan check` replays it. --sweep generates instances instead and compares methods on them.
    ///
    /// Example: sluice plan wan --topology abilene.json --flows flows.json --out plan.json
    ///
    /// Example: sluice plan wan --topology instance.json --form wan --method rate_alloc --json
    ///
    /// Example: sluice plan wan --sweep K=2..8 --seeds 1..10 --topology Abilene.graphml --form graphml --report sweep.html
    Wan(Box<WanArgs>),
    /// Verify a plan without the planner that made it
    ///
    /// Everything is recomputed in exact arithmetic from the plan and its topology: that all participants end with what
    /// the collective owes them, that every hop is a link, loads, time, bandwidth, and the lower bound from its
    /// certificate. Says what was proved, or the first violation with its place; exit status 3 if there is one.
    ///
    /// Example: sluice plan check plan.json && echo good
    Check(CheckArgs),
    /// Plans of one collective on one topology side by side: which is the fastest for which size
    ///
    /// One column per plan, and one for a ring over all participants; `*` marks the fastest for each size. Times come from
    /// the plan and its topology alone. Trees and paths are pipelines filled with ever smaller pieces: the latencies of the
    /// longest way, and the size times the time per byte of the busiest link. Steps come one after the other, each as long as
    /// its slowest link needs, latency and bytes over capacity. Sends are replayed without epochs: chunks grow with the size,
    /// and each send begins once its chunk is there and its link is free, in the plan's order. Nothing is in it of what
    /// beginning a message, cutting data and adding up cost. What is proved holds in the quantity of its certificate:
    /// bandwidth, steps, or epochs at the size that the plan was made for.
    ///
    /// Example: sluice plan compare trees.json sends.json steps.json
    ///
    /// Example: sluice plan compare trees.json sends.json --sizes 4KiB,1MiB,256MiB --svg times.svg --json
    Compare(CompareArgs),
    /// Write a plan of trees, steps or sends for somebody else: a runtime, another checker, or people
    ///
    /// msccl-xml is a program for MSCCL and RCCL: a plan that the checker refuses becomes none, and what the runtime has no
    /// channels, blocks or steps for is refused with the counts. --verify also executes it, step by step, and proves that
    /// every rank ends with what the collective owes it. forest-json and tree-xml are the trees alone, teccl-json the sends;
    /// dot and svg are pictures. html, of sends, is one page that loads nothing, with a slider over epochs: what is on each
    /// link, and who holds what. oneccl-xml is a list of instructions per rank for oneCCL, of steps and sends. Plans of other
    /// kinds are not exported.
    ///
    /// Example: sluice plan export plan.json --format msccl-xml --verify --out plan.xml
    ///
    /// Example: sluice plan export plan.json --format svg --tree 0 --out tree.svg
    Export(Box<ExportArgs>),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ForestcollArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// allgather, reduce_scatter, allreduce, broadcast or reduce; also all-gather, AllReduce …
    #[arg(long, value_name = "C", value_parser = collective)]
    pub collective: Collective,
    /// Bytes to show a time for, as in 1GB or 64MiB: what each participant ends with (all-gather), else the vector
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// So many trees per root instead of as many as the best rate needs; 1 is usual on switched fabrics
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub fixed_k: Option<i64>,
    /// Try each of these numbers of trees per root and give the best plan, as in 1..9; --json lists what each came to.
    /// More trees are not always better
    #[arg(long, value_name = "FROM..TO", value_parser = numbers, conflicts_with = "fixed_k")]
    pub best_k: Option<RangeInclusive<i64>>,
    /// Refuse a plan with more trees per root
    #[arg(long, value_name = "K")]
    pub most_k: Option<u64>,
    /// Who takes part, by rank; none: all gpu, host and site nodes in file order
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub participants: Vec<String>,
    /// Where a broadcast begins or a reduce ends
    #[arg(long, value_name = "NODE")]
    pub root: Option<String>,
    /// Let switches that can copy or add up do so
    #[arg(long)]
    pub in_network: bool,
    /// Plan without keys of the topology that trees know nothing of; the plan lists them
    #[arg(long, value_delimiter = ',', value_name = "KEY", value_parser = PossibleValuesParser::new(forestcoll::SUPPORT.ignorable))]
    pub ignore: Vec<String>,
    /// How an all-reduce is planned
    #[arg(long, default_value = "auto", value_name = "WAY", value_parser = choice(WAYS))]
    pub all_reduce: Way,
    /// Accept unequal bandwidth in and out of a node where there is no switch
    #[arg(long)]
    pub relaxed: bool,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct BfbArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// allgather, reduce_scatter or allreduce; also all-gather, AllReduce …
    #[arg(long, value_name = "C", value_parser = collective)]
    pub collective: Collective,
    /// Bytes to show a time for, as in 1GB or 64MiB: what each node ends with (all-gather), else the vector. Needed
    /// where latencies differ, since the best schedule then depends on it
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Cut every shard into so many units, which are never cut; none: the fewest that lose nothing (where links differ,
    /// 2520)
    #[arg(long, value_name = "P")]
    pub chunks: Option<u32>,
    /// What the plan's lower bound is about
    #[arg(long, default_value = "bandwidth", value_name = "WHAT", value_parser = choice(PROOFS))]
    pub proof: Proof,
    /// Plan without keys of the topology that steps know nothing of; the plan lists them
    #[arg(long, value_delimiter = ',', value_name = "KEY", value_parser = PossibleValuesParser::new(direct::SUPPORT.ignorable))]
    pub ignore: Vec<String>,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// What the planners of collectives have in common.
#[derive(Clone, Debug, ClapArgs)]
pub struct PlanningArgs {
    /// Threads; the plan is the same for any number. None: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// End after this time, as in 120s, with the best plan until then where there is one (exit status 5)
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub time_limit: Option<Duration>,
    /// Write into the plan how long planning took; without it the same input gives the same bytes
    #[arg(long)]
    pub timing: bool,
    /// Write the plan to this file; `-` is stdout, instead of the figures
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Reads a time with a unit, or seconds.
pub fn limit(text: &str) -> Result<Duration, String> {
    const ALLOWED: &str = "1ms to 86400s";
    let time = quantity::duration(text).map_err(|_| format!("not a time; allowed: {ALLOWED}, as in 120s"))?;
    let time = time.to_f64();
    if !(0.001..=86_400.0).contains(&time) {
        return Err(format!("allowed: {ALLOWED}"));
    }
    Ok(Duration::from_secs_f64(time))
}

/// What the lower bound of a step schedule is about.
const PROOFS: Choices<Proof> = &[
    ("bandwidth", "The time per byte of long transfers", Proof::Bandwidth),
    ("diameter", "The number of steps; the plan then claims no time per byte", Proof::Diameter),
];

/// How an all-reduce is planned.
pub const WAYS: Choices<Way> = &[
    ("auto", "The phases; on small fabrics where no cut proves them best, the program if it is better", Way::Auto),
    ("phases", "A reduce-scatter and an all-gather", Way::Phases),
    ("program", "One exact linear program over where to root how much; small fabrics only", Way::Program),
];

#[derive(Clone, Debug, ClapArgs)]
pub struct FindTopologyArgs {
    /// How many machines: one number, or several sizes and ranges as in 32,64,100-120
    #[arg(long, value_name = "N", value_parser = sizes)]
    pub nodes: Sizes,
    /// Ports of a machine
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub degree: u32,
    /// Bytes of the all-reduce to time, as in 1MB or 1MiB
    #[arg(long, value_name = "SIZE", requires_all = ["alpha", "bandwidth"])]
    pub size: Option<String>,
    /// Latency of a step, as in 10us
    #[arg(long, value_name = "TIME")]
    pub alpha: Option<String>,
    /// Bandwidth of a machine, all its ports together, as in 100Gbit/s
    #[arg(long, value_name = "CAPACITY")]
    pub bandwidth: Option<String>,
    /// Write a directory per graph (topology.json, plan.json, topology.svg) and a picture of each frontier into this one
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// What the plans do: allgather, reduce_scatter or allreduce
    #[arg(long, default_value = "allreduce", value_name = "C", value_parser = collective)]
    pub collective: Collective,
    /// What the machines are, in the files
    #[arg(long, default_value = "host", value_name = "KIND", value_parser = choice(MACHINES))]
    pub kind: Kind,
    /// Only graphs whose links all have their opposites, as full-duplex cables give
    #[arg(long)]
    pub bidirectional: bool,
    /// Only these families, by the first word of an expression
    #[arg(long, value_delimiter = ',', value_name = "FAMILY")]
    pub allow: Vec<String>,
    /// None of these families
    #[arg(long, value_delimiter = ',', value_name = "FAMILY")]
    pub deny: Vec<String>,
    /// Begin also with this graph; may stand several times
    #[arg(long, value_name = "EXPR")]
    pub also: Vec<String>,
    /// Look for better circulants and Cayley graphs at random for so long, for each size and those it can be made from
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub search: Option<u32>,
    /// Where the search's random numbers begin
    #[arg(long, default_value_t = 1, value_name = "SEED", requires = "search")]
    pub seed: u64,
    /// Also how long an all-to-all of this size takes at least: a linear program per graph, minutes for a thousand machines
    #[arg(long, requires = "size")]
    pub all_to_all: bool,
    /// Also graphs that are published as pictures only and cannot be built
    #[arg(long)]
    pub with_pictures: bool,
    /// Expansions up to this size are evaluated exactly, larger ones by their formulas
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub exact_limit: u32,
    /// Where values of graphs are kept; none: sluice/graph-values in the user's cache directory
    #[arg(long, value_name = "FILE")]
    pub cache: Option<PathBuf>,
    /// Keep no values of graphs
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// Only this share of the sizes of --nodes, as in 2/8; other machines take the rest, each with a --cache of its own
    #[arg(long, requires = "cache", conflicts_with_all = ["search", "all_to_all"], value_parser = shard, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Take the values that a share kept in this file (its --cache), so that they are not computed again; repeat it
    #[arg(long, conflicts_with = "shard", value_name = "FILE")]
    pub merge: Vec<PathBuf>,
    /// Threads; the result is the same for any number. None: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Sizes to look for, in the order in which they were given.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<u32>);

/// Reads `32,64,100-120`.
fn sizes(text: &str) -> Result<Sizes, String> {
    const MAX_NODES: u32 = 1 << 20;
    let number = |text: &str| match text.trim().parse() {
        Ok(size @ 1..=MAX_NODES) => Ok(size),
        _ => Err(format!("`{}` is no size; allowed: 1 to {MAX_NODES}, ranges as in 100-120", printable(text, 40))),
    };
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || sizes.len() + (last - first) as usize >= 100_000 {
            return Err(format!("`{}`: a range ascends, and 100000 sizes are enough", printable(part, 40)));
        }
        sizes.extend(first..=last);
    }
    Ok(Sizes(sizes))
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CheckArgs {
    /// The plan; `-` is stdin
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    #[command(flatten)]
    pub fabric: PlanFabricArgs,
}

/// Reads `1..9`, both ends included.
fn numbers(text: &str) -> Result<RangeInclusive<i64>, String> {
    const MAX_K: i64 = 1000;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|k| (1..=MAX_K).contains(k));
    let ends = text.split_once("..").and_then(|(first, last)| Some((number(first)?, number(last)?)));
    match ends {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err(format!("not a range of numbers of trees; allowed: FROM..TO between 1 and {MAX_K}, as in 1..9")),
    }
}

fn collective(text: &str) -> Result<Collective, String> {
    Collective::parse_loosely(text).ok_or_else(|| {
        let words: Vec<&str> = Collective::ALL.iter().map(|collective| collective.word()).collect();
        let hint = hint(&text.to_lowercase().replace('-', "_"), words.iter().copied());
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("no such collective{hint}\nallowed: {}", words.join(", "))
    })
}
