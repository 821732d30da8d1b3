//! The figures of a step schedule: one JSON document, or a few lines for people.

use serde::Serialize;
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::Topology;
use sluice_plan::plan::Collective;
use sluice_planners::direct::Figures;

use crate::failure::Failure;
use crate::plan::shown::{Head, seconds, short};

/// Loads that are shown before they are only counted.
const MAX_LOADS: usize = 12;

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    head: Head,
    #[serde(rename = "N")]
    n: u32,
    d: Option<u32>,
    #[serde(rename = "T_L")]
    t_l: u32,
    #[serde(rename = "T_B")]
    t_b: Option<String>,
    load_sum: String,
    #[serde(rename = "P")]
    p: u32,
    bw_optimal: bool,
    moore_optimal: bool,
    loads: Vec<String>,
    /// Bytes asked about, exactly, and their time with latencies: in microseconds, or abstract as the capacities are.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    seconds: f64,
}

impl Shown {
    /// The figures of a plan; `size` in bytes, `seconds` that planning took, `out` is where the plan was written.
    pub fn new(
        topology: &Topology,
        collective: Collective,
        figures: &Figures,
        size: Option<&Rational>,
        seconds: f64,
        out: Option<String>,
    ) -> Result<Shown, Failure> {
        let time = figures.time.as_ref().map(Rational::to_f64);
        let is_abstract = topology.unit() == Unit::Abstract;
        Ok(Shown {
            head: Head::new("bfb", collective, (&figures.claim, None), out)?,
            n: figures.n,
            d: figures.d,
            t_l: figures.cost.t_l(),
            t_b: figures.cost.t_b.as_ref().map(Rational::to_string),
            load_sum: figures.cost.load_sum.to_string(),
            p: figures.units,
            bw_optimal: figures.bandwidth_optimal,
            moore_optimal: figures.moore_optimal,
            loads: figures.cost.loads.iter().map(Rational::to_string).collect(),
            size: size.map(Rational::to_string),
            total_us: time.filter(|_| !is_abstract).map(|time| time * 1e6),
            time: time.filter(|_| is_abstract),
            seconds,
        })
    }

    pub fn text(&self, topology: &Topology, figures: &Figures, ignored: &[&str]) -> String {
        let name = if topology.name().is_empty() { "this graph" } else { topology.name() };
        let degree = self.d.map_or("nodes or links that differ".into(), |d| format!("degree {d}"));
        let mut text = format!("{} on {name}, {} nodes, {degree}\n", self.head.collective, self.n);
        let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
        let fewest = if self.moore_optimal { ", as few as any graph of this size and degree allows" } else { "" };
        line("steps", format!("{}{fewest}", self.t_l));
        let best = if self.bw_optimal { ", the best possible" } else { "" };
        match &self.t_b {
            Some(t_b) => line("bandwidth", format!("{t_b} M/B = {}{best}", short(ratio(figures)))),
            None => line("bandwidth", "no single figure where nodes or links differ".into()),
        }
        let shown = self.loads.iter().take(MAX_LOADS).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.loads.len() > MAX_LOADS { ", …" } else { "" };
        line("loads", format!("{shown}{more}; together {} shards on a link", self.load_sum));
        line("units", format!("{} per shard", self.p));
        if let Some(size) = &self.size {
            match (self.total_us, self.time) {
                (Some(us), _) => line("time", format!("{} for {size} bytes, latencies included", seconds(us / 1e6))),
                (None, Some(time)) => line("time", format!("{} for {size}, latencies included", short(time))),
                (None, None) => {}
            }
        }
        text + &self.head.closing(&ignored.join(", "), self.seconds)
    }
}

fn ratio(figures: &Figures) -> f64 {
    figures.cost.t_b.as_ref().map_or(f64::NAN, Rational::to_f64)
}
