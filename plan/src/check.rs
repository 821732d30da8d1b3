//! The checker: does a plan do what its collective owes, within the fabric, and is what it claims true?
//!
//! It shares no code with any planner. Everything is recomputed from the plan and the topology: coverage, loads, time, bandwidth,
//! and the lower bound from its certificate. Arithmetic is exact, but for replays of flows, which round in fixed point
//! (`flows::fixed`); no float decides anything. It says what it proved, or the first violation with its place; what cannot be
//! rechecked is said too.
//!
//! | module | is |
//! | --- | --- |
//! | `fabric` | the topology as the checker sees it: who takes part, capacity from node to node |
//! | `trees`, `hops` | coverage of a forest by its edges, and by what switches really forward |
//! | `paths` | shares and loads of paths |
//! | `ledger` | who holds how many copies of what |
//! | `steps`, `step_loads` | synchronised steps, replayed; their loads and times |
//! | `overlap` | which parts of sums are copied before they are complete |
//! | `chunks`, `demand` | who wants which chunk, and chunks that go from one node to the same others |
//! | `sends` | chunks in epochs, replayed with their model of time |
//! | `flows`, `rates`, `order` | flows on routes, replayed: rates and weights, and orders |
//! | `shards` | the shards of a step schedule, who has them and who is owed them |
//! | `achieved`, `claims`, `bound`, `cost` | what the plan achieves and costs, the claim against it, and certificates |
//! | `dual`, `ways` | what prices of the limits prove, and what moving the data costs at least under them |
//! | `arborescence`, `ascent` | the cheapest tree, and a lower bound of it where not everybody must be reached |

mod achieved;
mod arborescence;
mod ascent;
mod bound;
mod chunks;
mod claims;
mod cost;
mod demand;
mod dual;
mod fabric;
mod flows;
mod hops;
mod ledger;
mod load;
mod order;
mod overlap;
mod paths;
mod rates;
mod sends;
mod shards;
mod step_loads;
mod steps;
mod trees;
mod violation;
mod ways;

pub use achieved::Quantity;
pub(crate) use fabric::Fabric;
pub(crate) use sends::{Pace, Timed};
pub(crate) use shards::Shards;
pub use violation::{Code, Violation};

use serde::Serialize;

use crate::plan::{Certificate, CertificateKind, Content, Plan, Sends};
use sluice_formats::quantity::{Rational, Unit, common_denominator};
use sluice_formats::topology::Topology;

/// What checking found: what was proved, and the first thing that is wrong.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was proved, in sentences.
    pub proved: Vec<String>,
    /// What was taken on trust, in sentences.
    pub not_rechecked: Vec<String>,
    /// What is allowed and still worth a look, in sentences.
    pub warnings: Vec<String>,
    /// The first thing that is wrong; `None`: the plan is good.
    pub violation: Option<Violation>,
    /// The recomputed figures, as far as checking came.
    pub figures: Option<Figures>,
    /// How good the plan is proved to be; `None`: it names no certificate.
    pub proof: Option<Proof>,
}

/// How good a plan is proved to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// The kind of certificate that proves it.
    pub kind: CertificateKind,
    /// The quantity that `value` and `bound` are in.
    pub quantity: Quantity,
    /// What the plan achieves.
    pub value: Rational,
    /// No plan has less: as recomputed, else as claimed.
    pub bound: Option<Rational>,
    /// Does the plan reach its bound?
    pub optimal: bool,
    /// Was the bound recomputed?
    pub rechecked: bool,
}

/// What a plan of trees, paths or steps achieves, recomputed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// T/M in seconds per byte, or abstract.
    pub time_per_byte: Rational,
    /// M/T in the unit of the first link; `None`: no link limits it.
    pub algorithm_bandwidth: Option<Rational>,
    /// The unit of the first link.
    pub unit: Unit,
    /// The lower bound of T/M that the certificate proves, if one was rechecked.
    pub lower_bound: Option<Rational>,
    /// Sum over the links of their cost and what they carry, in units; `None`: costs too fine to be added up.
    pub cost: Option<Rational>,
    /// The least cost of any plan of this time that `cost_prices` prove, if they were rechecked.
    pub cost_lower_bound: Option<Rational>,
    /// The link or group that takes longest.
    pub bottleneck: String,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    ok: bool,
    proved: &'a [String],
    not_rechecked: &'a [String],
    warnings: &'a [String],
    violation: Option<&'a Violation>,
}

impl Report {
    /// Of a plan that nothing is known of yet.
    fn new() -> Report {
        Report {
            proved: Vec::new(),
            not_rechecked: Vec::new(),
            warnings: Vec::new(),
            violation: None,
            figures: None,
            proof: None,
        }
    }
    /// Is the plan good?
    pub fn ok(&self) -> bool {
        self.violation.is_none()
    }
    /// `{"schema": 1, "ok", "proved", "not_rechecked", "warnings", "violation"}`.
    pub fn to_json(&self) -> String {
        let Report { proved, not_rechecked, warnings, violation, .. } = self;
        let violation = violation.as_ref();
        let document = Document { schema: 1, ok: self.ok(), proved, not_rechecked, warnings, violation };
        // Strings only: there is nothing in it that could fail to serialise.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// Checks a plan against `topology`, whose digest must then be the plan's, or against the one it carries.
pub fn check(plan: &Plan, topology: Option<&Topology>) -> Report {
    let mut report = Report::new();
    if let Err(violation) = run(plan, topology, &mut report) {
        report.violation = Some(violation);
    }
    report
}

fn run(plan: &Plan, given: Option<&Topology>, report: &mut Report) -> Result<(), Violation> {
    let built;
    let topology = match given {
        Some(topology) => topology,
        None => {
            built = inline(plan)?;
            &built
        }
    };
    let (digest, claimed) = (topology.digest(), &*plan.body.topology.sha256);
    if digest != claimed {
        let message = format!("the plan is for a topology with digest {}, this one has {digest}", quoted(claimed));
        return Err(Violation::new(Code::DigestMismatch, "/topology/sha256", message));
    }
    report.proved.push(format!("the topology is the one the plan was made for (SHA-256 {digest})"));
    let fabric = fabric::Fabric::new(plan, topology)?;
    for key in plan.body.ignored.iter().flatten() {
        report.not_rechecked.push(format!("checked without `{}`, which the planner was told to ignore", quoted(key)));
    }
    match &plan.body.content {
        Content::Trees(trees) => {
            let (loads, exactness) = trees::check(plan, &fabric, trees, report)?;
            claims::check_loads(plan, &fabric, &loads, exactness, report)
        }
        Content::Paths(paths) => {
            let (loads, exactness) = paths::check(plan, &fabric, paths, report)?;
            claims::check_loads(plan, &fabric, &loads, exactness, report)
        }
        Content::Steps(steps) => steps::check(plan, &fabric, steps, report),
        Content::Sends(sends) => {
            let achieved = sends::check(plan, &fabric, sends, report)?;
            claims::check(plan, &fabric, &achieved, report)
        }
        Content::Rates(rates) => rates::check_rates(plan, &fabric, rates, report),
        Content::Weights(weights) => rates::check_weights(plan, &fabric, weights, report),
        Content::Order(order) => order::check(plan, &fabric, order, report),
    }
}

/// What a certificate proves of this plan, whoever asks and whatever the plan claims: a lower bound of its time per byte, its
/// steps, its epochs or its mean completion time. `None` for what cannot be rechecked, or not in reasonable time.
///
/// # Errors
/// A certificate that cannot be one, or not one of such a plan.
pub fn proves(plan: &Plan, topology: &Topology, certificate: &Certificate) -> Result<Option<Rational>, Violation> {
    let quantity = match &plan.body.content {
        Content::Steps(_) if certificate.kind == CertificateKind::Diameter => Quantity::Steps,
        Content::Trees(_) | Content::Paths(_) | Content::Steps(_) => Quantity::TimePerByte,
        Content::Sends(_) => Quantity::Epochs,
        Content::Rates(_) | Content::Weights(_) | Content::Order(_) => Quantity::MeanSeconds,
    };
    bound::recompute(plan, &Fabric::new(plan, topology)?, certificate, quantity)
}

/// What the `cost_prices` of a certificate prove of this plan, whoever asks: no plan that takes no longer costs less.
/// `None` where there are none, or finding out would take too long.
///
/// # Errors
/// What is wrong with the plan's content, prices that cannot be any, or a kind of plan that has no cost.
pub fn proves_cost(plan: &Plan, topology: &Topology, certificate: &Certificate) -> Result<Option<Rational>, Violation> {
    let fabric = Fabric::new(plan, topology)?;
    let time = match &plan.body.content {
        Content::Trees(trees) => trees::check(plan, &fabric, trees, &mut Report::new())?.0.slowest(&fabric).time,
        Content::Paths(paths) => paths::check(plan, &fabric, paths, &mut Report::new())?.0.slowest(&fabric).time,
        Content::Steps(steps) => step_loads::Loaded::new(plan, &fabric, steps)?.time,
        Content::Sends(_) | Content::Rates(_) | Content::Weights(_) | Content::Order(_) => {
            return Err(bound::foreign(plan, "cost_prices"));
        }
    };
    cost::bound(plan, &fabric, certificate, &time)
}

/// When the sends of a plan are under way, by epoch.
///
/// # Errors
/// What is wrong with the model, the demands, or a send by itself.
pub(crate) fn timed(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<Vec<Timed>, Violation> {
    sends::timed(plan, &Fabric::new(plan, topology)?, sends)
}

/// How fast each link is for the sends of a plan, by its index.
///
/// # Errors
/// What is wrong with the model.
pub(crate) fn paces(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<Vec<Pace>, Violation> {
    sends::paces(plan, &Fabric::new(plan, topology)?, sends)
}

/// The topology that the plan carries.
fn inline(plan: &Plan) -> Result<Topology, Violation> {
    let Some(file) = &plan.body.topology.inline else {
        let message = "the plan carries no topology; give it with --topology";
        return Err(Violation::new(Code::TopologyMissing, "/topology/inline", message));
    };
    Topology::build((**file).clone(), "").map_err(|errors| {
        let first = errors.all().first();
        let (key, code, message) = first.map_or(("", "", ""), |error| (&error.key, error.code, &error.message));
        Violation::new(Code::TopologyInvalid, format!("/topology/inline{key}"), format!("{code}: {message}"))
    })
}

/// Refuses fractions whose sums would grow without end.
fn check_common_denominator<'a>(numbers: impl IntoIterator<Item = &'a Rational>, at: &str) -> Result<(), Violation> {
    match common_denominator(numbers) {
        Some(_) => Ok(()),
        None => Err(Violation::new(Code::TooFine, at, "no common denominator of at most 4096 bits")),
    }
}

/// A text from a file, for a message.
fn quoted(text: &str) -> String {
    sluice_formats::problem::printable(text, 80)
}
