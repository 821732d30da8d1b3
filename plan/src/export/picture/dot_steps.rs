//! A schedule in steps for Graphviz: every node once per step, each row below the last, and an edge for what is sent.

use std::fmt::Write as _;

use super::dot::{edge, quote};
use super::steps::{Panels, Slice};
use crate::plan::Plan;
use sluice_formats::topology::Topology;

pub fn draw(plan: &Plan, topology: &Topology, panels: &Panels) -> String {
    let mut out = String::from("digraph steps {\n");
    let title = format!("{} on {}", plan.body.collective.word(), topology.name());
    let _ = writeln!(out, "  label={};\n  rankdir=TB;", quote(&title));
    out.push_str("  node [shape=circle, style=wedged, fontsize=9];\n  edge [fontsize=8];\n");
    let used = |node: usize| {
        let ends = |stroke: &super::strokes::Stroke| stroke.from == node || stroke.to == node;
        panels.ranks[node].is_some() || panels.list.iter().any(|panel| panel.strokes.iter().any(ends))
    };
    let nodes: Vec<usize> = (0..topology.nodes().len()).filter(|node| used(*node)).collect();
    for row in 0..=panels.list.len() {
        let (name, pies) = match row.checked_sub(1) {
            None => ("at first".to_owned(), &panels.begin),
            Some(step) => (panels.list[step].title.clone(), &panels.list[step].pies),
        };
        let _ =
            writeln!(out, "  {{\n    rank=same;\n    t{row} [shape=plaintext, style=solid, label={}];", quote(&name));
        for node in &nodes {
            let (label, look) = (quote(&topology.nodes()[*node].id), wedges(&pies[*node]));
            let _ = writeln!(out, "    n{node}_{row} [label={label}, {look}];");
        }
        out.push_str("  }\n");
    }
    for (row, panel) in panels.list.iter().enumerate() {
        let _ = writeln!(out, "  t{row} -> t{} [style=invis, weight=100];", row + 1);
        for node in &nodes {
            let _ = writeln!(out, "  n{node}_{row} -> n{node}_{} [style=dotted, arrowhead=none, weight=10];", row + 1);
        }
        for stroke in &panel.strokes {
            edge(&mut out, stroke, [&format!("_{row}"), &format!("_{}", row + 1)], "weight=0, ");
        }
    }
    out.push_str("}\n");
    out
}

/// A pie in the words of Graphviz.
fn wedges(slices: &[Slice]) -> String {
    let count = slices.len() as f64;
    let full: Vec<(&str, f64)> =
        slices.iter().filter(|slice| slice.full > 0.0).map(|slice| (slice.colour, slice.full / count)).collect();
    let sum: f64 = full.iter().map(|(_, part)| part).sum();
    match full.as_slice() {
        [] => "style=filled, fillcolor=\"#ffffff\"".into(),
        [(colour, part)] if *part > 0.999 => format!("style=filled, fillcolor=\"{colour}\""),
        parts => {
            let mut list: Vec<String> = parts.iter().map(|(colour, part)| format!("{colour};{part:.4}")).collect();
            if sum < 0.999 {
                list.push("#ffffff".into());
            }
            format!("fillcolor=\"{}\"", list.join(":"))
        }
    }
}
