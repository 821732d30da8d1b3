//! The frontier as one JSON document, or as a table for people.

use serde::Serialize;
use sluice_formats::quantity::Rational;
use sluice_planners::direct::finder::Candidate;

use crate::output;
use crate::plan::args::FindTopologyArgs;
use crate::table::Table;

/// A point of the frontier, under its fixed names.
#[derive(Debug, Serialize)]
pub struct Point {
    #[serde(skip)]
    pub candidate: Candidate,
    expression: String,
    #[serde(rename = "N")]
    n: u32,
    d: u32,
    #[serde(rename = "T_L")]
    t_l: u32,
    #[serde(rename = "T_B")]
    t_b: String,
    /// Of a reduce-scatter, which is another schedule where the graph differs from its transpose.
    #[serde(rename = "T_B_reduce_scatter")]
    t_b_reduce: Option<String>,
    exact: bool,
    pub constructible: bool,
    bidirectional: bool,
    runtime_us: Option<f64>,
    /// Of an all-to-all at the best rate that routing achieves, at least.
    pub alltoall_us: Option<f64>,
    /// Where its files were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

impl Point {
    /// `seconds` of an all-reduce.
    pub fn new(candidate: Candidate, reduce: Option<Rational>, seconds: Option<Rational>) -> Point {
        Point {
            expression: candidate.expr.to_string(),
            n: candidate.n,
            d: candidate.d,
            t_l: candidate.t_l,
            t_b: candidate.t_b.to_string(),
            t_b_reduce: reduce.map(|reduce| reduce.to_string()),
            exact: candidate.flags.exact,
            constructible: candidate.flags.constructible,
            bidirectional: candidate.flags.bidirectional,
            runtime_us: seconds.map(|seconds| seconds.to_f64() * 1e6),
            alltoall_us: None,
            out: None,
            candidate,
        }
    }
}

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
pub struct Shown {
    schema: u32,
    planner: &'static str,
    collective: &'static str,
    frontier: Vec<Point>,
    /// Graphs evaluated in this run.
    computed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    seconds: f64,
}

impl Shown {
    /// The points of all sizes that were asked for.
    pub fn new(args: &FindTopologyArgs, frontier: Vec<Point>, computed: u64, seconds: f64) -> Shown {
        let out = args.out_dir.as_ref().map(|dir| dir.display().to_string());
        Shown { schema: 1, planner: "find-topology", collective: "allreduce", frontier, computed, out, seconds }
    }

    /// A table; `*` marks the fastest all-reduce of each size.
    pub fn text(&self) -> String {
        if self.frontier.is_empty() {
            return "no graph of this size and degree\n".into();
        }
        let timed = self.frontier.iter().any(|point| point.runtime_us.is_some());
        let mut heads = vec![">N", ">STEPS", ">T_B", ">"];
        if timed {
            heads.push(">ALL-REDUCE");
        }
        let exchanged = self.frontier.iter().any(|point| point.alltoall_us.is_some());
        if exchanged {
            heads.push(">ALL-TO-ALL");
        }
        heads.extend(["GRAPH", "NOTES"]);
        let mut table = Table::new(&heads);
        for point in &self.frontier {
            let alike = self.frontier.iter().filter(|other| other.n == point.n);
            let least = alike.filter_map(|other| other.runtime_us).fold(f64::INFINITY, f64::min);
            let mut row = vec![
                point.n.to_string(),
                point.t_l.to_string(),
                point.t_b.clone(),
                format!("{:.4}", point.candidate.t_b.to_f64()),
            ];
            if timed {
                let time = point.runtime_us.map(|us| format!("{us:.1} us{}", if us <= least { " *" } else { "  " }));
                row.push(time.unwrap_or_default());
            }
            if exchanged {
                row.push(point.alltoall_us.map(|us| format!("{us:.1} us")).unwrap_or_default());
            }
            row.push(point.expression.clone());
            let mut notes = Vec::new();
            if !point.exact {
                notes.push("at most".to_owned());
            }
            if !point.constructible {
                notes.push("picture only".to_owned());
            }
            if let Some(reduce) = point.t_b_reduce.as_ref().filter(|reduce| **reduce != point.t_b) {
                notes.push(format!("reduce-scatter {reduce}"));
            }
            row.push(notes.join(", "));
            table.row(row);
        }
        let mut text = table.render(output::width());
        if let Some(out) = &self.out {
            text += &format!("wrote {out}\n");
        }
        text
    }
}
