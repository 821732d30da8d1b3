//! The figures of a plan: one JSON document, or a few lines for people.

use std::collections::HashSet;

use serde::Serialize;
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::Topology;
use sluice_plan::plan::{CertificateKind, Collective};
use sluice_planners::Stage;
use sluice_planners::forestcoll::{Made, Tried};

use crate::failure::Failure;
use crate::plan::shown::{Head, seconds, short};
use crate::plan::watch::Spent;

/// What is shown where no size was given.
const EXAMPLE_BYTES: u64 = 1_000_000_000;
/// Nodes that are named before they are only counted.
const MAX_NAMED: usize = 4;

/// Seconds by stage, under the fixed names of the results.
#[derive(Clone, Debug, Serialize)]
struct Seconds {
    /// The best rate and its cut; with a fixed k the search for the best rounding too.
    optimum: f64,
    /// Switches replaced by direct links.
    switch_removal: f64,
    /// Trees packed, also those found by symmetry.
    tree_construction: f64,
    /// Paths found and the forest verified.
    path_recovery: f64,
    /// The all-reduce program, where it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<f64>,
    /// From reading the topology to the checked plan.
    total: f64,
}

impl Seconds {
    fn new(spent: &Spent) -> Seconds {
        let on = |stages: &[Stage]| spent.on(stages).unwrap_or_default();
        Seconds {
            optimum: on(&[Stage::Optimum, Stage::FixedK]),
            switch_removal: on(&[Stage::SwitchRemoval]),
            tree_construction: on(&[Stage::Symmetry, Stage::TreeConstruction]),
            path_recovery: on(&[Stage::PathRecovery, Stage::Verification]),
            program: spent.on(&[Stage::AllReduceProgram]),
            total: spent.total.as_secs_f64(),
        }
    }
}

/// What one number of trees per root came to, of those among which the best was sought.
#[derive(Debug, Serialize)]
struct OfK {
    k: i64,
    /// M/T in the input's unit.
    algbw: Option<f64>,
    /// T/M.
    time_per_byte: Option<String>,
    /// The code under which this number was refused.
    refused: Option<&'static str>,
}

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    head: Head,
    inverse_x: String,
    k: Option<u64>,
    #[serde(rename = "U")]
    u: String,
    algbw: f64,
    cut: Vec<String>,
    trees: u64,
    batches: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_x: Option<String>,
    /// Bytes asked about, exactly, and their time: in seconds, or abstract as the capacities are.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    /// What every number of trees came to among which the best was sought.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    best_of: Vec<OfK>,
    seconds: Seconds,
}

impl Shown {
    /// The figures of a plan; `size` in bytes, `tried` are the numbers of trees among which it is the best, if several
    /// were tried, `out` is where the plan was written.
    pub fn new(
        topology: &Topology,
        made: &Made,
        size: Option<&Rational>,
        tried: &[Tried],
        spent: &Spent,
        out: Option<String>,
    ) -> Result<Shown, Failure> {
        let time = size.map(|size| (size * &time_per_byte(made)).to_f64());
        let is_abstract = topology.unit() == Unit::Abstract;
        let body = &made.plan.body;
        Ok(Shown {
            head: Head::new("forestcoll", body.collective, (&body.claim, Some(&made.plan.names)), out)?,
            inverse_x: made.inverse_x.to_string(),
            k: made.k,
            u: made.u.to_string(),
            algbw: bandwidth(made).to_f64(),
            cut: made.cut.clone(),
            trees: made.trees,
            batches: made.batches,
            sum_x: made.sum_x.as_ref().map(Rational::to_string),
            size: size.map(Rational::to_string),
            time_s: time.filter(|_| !is_abstract),
            time: time.filter(|_| is_abstract),
            best_of: tried.iter().map(|tried| OfK::new(topology, tried)).collect(),
            seconds: Seconds::new(spent),
        })
    }

    pub fn text(&self, topology: &Topology, made: &Made) -> String {
        let body = &made.plan.body;
        let participants = body.participants.as_ref().map_or(0, Vec::len);
        let name = if topology.name().is_empty() { "this fabric" } else { topology.name() };
        let mut text = format!("{} on {name}, {participants} participants\n", self.head.collective);
        let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
        let unit = match topology.unit() {
            Unit::Abstract => String::new(),
            Unit::Bytes(unit) => format!(" {}", unit.word()),
        };
        let exact = bandwidth(made);
        let shown = if exact.is_integer() { String::new() } else { format!(" = {exact}") };
        line("bandwidth", format!("{}{unit}{shown}, {}", short(self.algbw), self.verdict(made)));
        let per_byte = time_per_byte(made);
        line(
            "time",
            match (&self.size, topology.unit()) {
                (Some(size), Unit::Abstract) => format!("{} for {size}", short(self.time.unwrap_or_default())),
                (Some(size), _) => format!("{} for {size} bytes", seconds(self.time_s.unwrap_or_default())),
                (None, Unit::Abstract) => format!("{per_byte} per unit of data"),
                (None, _) => format!("{} per GB", seconds((&Rational::from(EXAMPLE_BYTES) * &per_byte).to_f64())),
            },
        );
        let k = self.k.map_or("shares of their own per root".into(), |k| format!("k = {k} per root"));
        line("trees", format!("{} ({} different), {k}, U = {}", self.trees, self.batches, self.u));
        if !self.best_of.is_empty() {
            let each: Vec<String> = self.best_of.iter().map(|of| of.text()).collect();
            line("best of k", each.join(", "));
        }
        line("bottleneck", self.bottleneck(made));
        let ignored = body.ignored.as_ref().map(|ignored| ignored.join(", "));
        text + &self.head.closing(&ignored.unwrap_or_default(), self.seconds.total)
    }

    /// How good the plan is.
    fn verdict(&self, made: &Made) -> String {
        let claim = &made.plan.body.claim;
        let kind = claim.certificate.as_ref().map_or(CertificateKind::None, |certificate| certificate.kind);
        if claim.optimal == Some(true) {
            return match kind {
                CertificateKind::Cut => "the best possible, as the bottleneck proves".into(),
                CertificateKind::Bandwidth => "the best possible, as what must arrive proves".into(),
                CertificateKind::Dual => "the best possible by trees, as prices of its links prove".into(),
                _ => "the best possible by trees, as the linear program says".into(),
            };
        }
        let bound = claim.lower_bound.as_ref().map_or(0.0, |bound| bound.value.to_f64());
        let time = time_per_byte(made).to_f64();
        if bound > 0.0 {
            format!("at least {:.1} % of the best possible", 100.0 * bound / time)
        } else {
            "not proved best".into()
        }
    }

    /// Which nodes are inside the cut, in few words.
    fn bottleneck(&self, made: &Made) -> String {
        let body = &made.plan.body;
        let certificate = body.claim.certificate.as_ref();
        let ids = body.participants.iter().flatten().map(|node| made.plan.id(*node));
        let mut cut: HashSet<&str> = self.cut.iter().map(String::as_str).collect();
        if body.collective == Collective::AllReduce {
            // The planner's own cut is that of an all-gather.
            match certificate.map(|certificate| (certificate.kind, certificate.nodes.as_ref())) {
                Some((_, Some(nodes))) => cut = nodes.iter().map(|node| made.plan.id(*node)).collect(),
                Some((CertificateKind::Dual, _)) => return "no single cut, but links whose prices prove it".into(),
                _ => return "no cut, but what all participants together must take in".into(),
            }
        }
        let (inside, outside): (Vec<&str>, Vec<&str>) = ids.partition(|id| cut.contains(id));
        let way = match body.collective {
            Collective::ReduceScatter | Collective::Reduce => "into",
            Collective::AllReduce => "between one side and the other, one being",
            _ => "out of",
        };
        if outside.len() <= MAX_NAMED.min(inside.len()) {
            return format!("the links {way} all participants but {}", outside.join(", "));
        }
        let named =
            if inside.len() <= MAX_NAMED { String::new() } else { format!(", … ({} participants)", inside.len()) };
        format!("the links {way} {}{named}", inside.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", "))
    }
}

impl OfK {
    fn new(topology: &Topology, tried: &Tried) -> OfK {
        let time = tried.time.as_ref().ok();
        OfK {
            k: tried.k,
            algbw: time.and_then(Rational::recip).map(|rate| topology.unit().express(&rate).to_f64()),
            time_per_byte: time.map(Rational::to_string),
            refused: tried.time.as_ref().err().copied(),
        }
    }

    /// `3: 341.333`, or the code instead of the bandwidth.
    fn text(&self) -> String {
        let shown = self.algbw.map(short).or_else(|| self.refused.map(str::to_owned)).unwrap_or_default();
        format!("{}: {shown}", self.k)
    }
}

fn bandwidth(made: &Made) -> Rational {
    made.plan.body.claim.algorithm_bandwidth.as_ref().map_or(Rational::ZERO, |exact| exact.0.clone())
}

fn time_per_byte(made: &Made) -> Rational {
    made.plan.body.claim.time_per_byte.as_ref().map_or(Rational::ZERO, |time| time.value.clone())
}
