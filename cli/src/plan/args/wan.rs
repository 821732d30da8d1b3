//! The command line of `sluice plan wan`, and what `sluice sim wan` has in common with it.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use sluice_planners_wan::from_topology::SUPPORT;
use sluice_planners_wan::generate::Sizes;
use sluice_planners_wan::method::{self, Method};
use sluice_planners_wan::plan::Execution;
use sluice_planners_wan::sca::Reading;

use super::PlanningArgs;
use crate::plan::command::Command;
use crate::plan::form::{FabricArgs, Form, FormArgs};
use crate::words::{Choices, choice};

/// Where help lists what only sweeps have.
const SWEEPS: &str = "For sweeps";
/// The graph of a sweep that names none.
pub const DEFAULT_GRAPH: &str = "ring10";

#[derive(Clone, Debug, ClapArgs)]
pub struct WanArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// How to plan
    #[arg(long, value_parser = choice(METHODS), default_value = "portfolio", value_name = "METHOD")]
    pub method: Method,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub sweep: SweepArgs,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// Where the instance is.
#[derive(Clone, Debug, ClapArgs)]
pub struct SourceArgs {
    /// The network: topology.json, or the form that --form names (`wan` has the flows in it); `-` is stdin. Of a sweep also
    /// ringN
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Read it in another form than topology.json
    #[arg(long, value_enum, value_name = "FORM")]
    pub form: Option<Form>,
    /// The flows of the collectives: their groups, routes and sizes, as JSON
    #[arg(long, value_name = "FILE")]
    pub flows: Option<PathBuf>,
    /// Plan without keys of the topology that plans of flows know nothing of; the plan lists them
    #[arg(long, value_delimiter = ',', value_name = "KEY", value_parser = PossibleValuesParser::new(SUPPORT.ignorable))]
    pub ignore: Vec<String>,
    #[command(flatten)]
    pub forms: FormArgs,
}

impl SourceArgs {
    /// The network as other planners have it.
    pub fn fabric(&self) -> FabricArgs {
        let topology = self.topology.clone().unwrap_or_else(|| DEFAULT_GRAPH.into());
        FabricArgs { topology, form: self.form, forms: self.forms.clone() }
    }
}

/// What may be chosen of the methods.
#[derive(Clone, Debug, ClapArgs)]
pub struct OptionArgs {
    /// How rates and weights are carried out; none: as the method has it
    #[arg(long, value_parser = choice(EXECUTIONS), value_name = "EXECUTION")]
    pub execution: Option<Execution>,
    /// What bounds the weights in an iteration of weight_sca; none: capacity
    #[arg(long, value_parser = choice(READINGS), value_name = "READING")]
    pub sca: Option<Reading>,
    /// A flow of multiring may use all that its collective's budget means on its own route
    #[arg(long)]
    pub per_link_budget: bool,
}

impl OptionArgs {
    /// Adds what makes a command line choose the same.
    pub(in crate::plan) fn add_to(&self, command: &mut Command) {
        command.add("--execution", self.execution.and_then(|execution| word_of(EXECUTIONS, execution)));
        command.add("--sca", self.sca.and_then(|reading| word_of(READINGS, reading)));
        command.set("--per-link-budget", self.per_link_budget);
    }
    /// The same for the library.
    pub fn options(&self) -> method::Options {
        method::Options {
            reading: self.sca.unwrap_or_default(),
            per_link_budget: self.per_link_budget,
            execution: self.execution,
        }
    }
}

/// What is swept over.
#[derive(Clone, Debug, ClapArgs)]
pub struct SweepArgs {
    /// Generate instances of so many collectives instead of reading one, and give the mean time of each method, as in K=2..8
    #[arg(long, help_heading = SWEEPS, value_name = "K=FROM..TO", value_parser = swept, conflicts_with_all = ["flows", "ignore", "method", "out", "timing"])]
    pub sweep: Option<Numbers>,
    /// Seeds of the instances, as in 1..10; none: 1..5
    #[arg(long, help_heading = SWEEPS, value_name = "FROM..TO", value_parser = seeds, requires = "sweep")]
    pub seeds: Option<Numbers>,
    /// Participants of each collective; none: 4
    #[arg(long, help_heading = SWEEPS, value_name = "N", requires = "sweep")]
    pub participants: Option<usize>,
    /// What has a size of its own, drawn from N(5, 2.5) MB; none: iid_flow
    #[arg(long, help_heading = SWEEPS, value_parser = choice(SIZES), value_name = "WHAT", requires = "sweep")]
    pub sizes: Option<Sizes>,
    /// Multiply all sizes; none: 1
    #[arg(long, help_heading = SWEEPS, value_name = "X", value_parser = factor, requires = "sweep")]
    pub scale: Option<f64>,
    /// The methods to compare; none: those of the paper, and what goes beyond them
    #[arg(long, help_heading = SWEEPS, value_delimiter = ',', value_parser = choice(METHODS), value_name = "A,B,C", requires = "sweep")]
    pub methods: Vec<Method>,
    /// Write a page with a picture and the table: one HTML file
    #[arg(long, help_heading = SWEEPS, value_name = "FILE", requires = "sweep")]
    pub report: Option<PathBuf>,
    /// Write every instance in the form `wan` into this directory
    #[arg(long, help_heading = SWEEPS, value_name = "DIR", requires = "sweep")]
    pub instances: Option<PathBuf>,
}

/// Numbers in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u64>);

/// Numbers of a list at most.
const MAX_NUMBERS: u64 = 10_000;

/// Reads `2..8` or `2,4,8`, ascending.
fn numbers(text: &str, allowed: RangeInclusive<u64>, what: &str) -> Result<Numbers, String> {
    let refused = || format!("not {what}; allowed: FROM..TO or A,B,C from {} to {}", allowed.start(), allowed.end());
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| allowed.contains(number));
    let list = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = number(first).zip(number(last)).ok_or_else(refused)?;
            if first > last || last - first >= MAX_NUMBERS {
                return Err(format!("{}, and at most {MAX_NUMBERS} of them", refused()));
            }
            (first..=last).collect()
        }
        None => text.split(',').map(number).collect::<Option<Vec<u64>>>().ok_or_else(refused)?,
    };
    if list.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(format!("{}, ascending", refused()));
    }
    Ok(Numbers(list))
}

fn swept(text: &str) -> Result<Numbers, String> {
    let values = text.strip_prefix("K=").or_else(|| text.strip_prefix("k="));
    let values = values.ok_or("only the number of collectives is swept over; allowed: K=FROM..TO or K=A,B,C")?;
    numbers(values, 1..=100_000, "numbers of collectives")
}

fn seeds(text: &str) -> Result<Numbers, String> {
    numbers(text, 0..=u64::MAX, "seeds")
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "not a factor; allowed: a number above 0, as in 0.5 or 16".into())
}

/// The word that stands for a value.
fn word_of<T: PartialEq>(all: Choices<T>, value: T) -> Option<&'static str> {
    all.iter().find(|(.., of)| *of == value).map(|(word, ..)| *word)
}

const EXECUTIONS: Choices<Execution> = &[
    ("static", "Nobody uses what a group leaves that is blocked or elsewhere", Execution::Static),
    ("work_conserving", "What is left of links is divided among the flows that are ready", Execution::WorkConserving),
];

const READINGS: Choices<Reading> = &[
    ("capacity", "The sum that every link had before: the mean time never rises", Reading::Capacity),
    ("simplex", "Their sum alone", Reading::Simplex),
];

const SIZES: Choices<Sizes> = &[
    ("iid_flow", "Every hop of every chunk", Sizes::IidFlow),
    ("per_group", "Every chunk", Sizes::PerGroup),
    ("per_collective", "Every collective", Sizes::PerCollective),
];

/// The methods, with what people read of them.
pub const METHODS: Choices<Method> = &[
    ("portfolio", "The best of all others but the integer programs", Method::Portfolio),
    ("out_of_order", "Every link divided evenly among all flows over it, for good", Method::OutOfOrder),
    ("equal_alloc", "Every link divided evenly among its groups", Method::EqualAlloc),
    ("data_aware", "Every link divided among its groups by their volume", Method::DataAware),
    ("barrier_aware", "The flows of a collective end together", Method::BarrierAware),
    ("barrier_stage", "The same of each half of a collective, with a barrier between", Method::BarrierStage),
    ("barrier_step", "The same of each hop of a collective, with barriers between", Method::BarrierStep),
    ("rate_alloc", "The best constant rates (needs the solver)", Method::RateAlloc),
    ("weight_sca", "Weights of groups by successive approximation", Method::WeightSca),
    ("weight_gp", "The best weights of groups (needs the solver)", Method::WeightGp),
    ("multiring_spt", "A budget per collective, in it the shortest flow first", Method::MultiringSpt),
    ("multiring_ldv", "A budget per collective, in it the most volume behind a flow first", Method::MultiringLdv),
    ("multiring_milp", "A budget per collective, in it the best order (needs the solver)", Method::MultiringMilp),
    ("nonconcurrent_spt", "One flow at a time on a link, the shortest first", Method::NonconcurrentSpt),
    ("nonconcurrent_ldv", "One flow at a time on a link, the most volume behind it first", Method::NonconcurrentLdv),
    (
        "nonconcurrent_milp",
        "One flow at a time on a link, in the best order (needs the solver)",
        Method::NonconcurrentMilp,
    ),
    ("equal_wc", "Max-min fair among the flows that are ready; nothing reserved", Method::EqualWc),
    ("rate_wc", "rate_alloc with what is left of links divided (needs the solver)", Method::RateWc),
    ("weight_wc", "The best weights with what is left of links divided", Method::WeightWc),
    ("prio", "The collective with the least to do goes first, worked out anew whenever a flow ends", Method::Prio),
    ("perm", "Collectives go first in an order that a search finds", Method::Perm),
    ("chain_order", "Flows go first in an order that a search finds", Method::ChainOrder),
];
