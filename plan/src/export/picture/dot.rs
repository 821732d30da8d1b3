//! A plan for Graphviz: machines as clusters, switches as boxes, one edge per stroke.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::strokes::{Stroke, Strokes};
use crate::plan::Plan;
use sluice_formats::topology::{Kind, Topology};

pub fn draw(plan: &Plan, topology: &Topology, strokes: &Strokes) -> String {
    let mut out = String::from("digraph plan {\n");
    let title = format!("{} on {}", plan.body.collective.word(), topology.name());
    let _ = writeln!(out, "  label={};", quote(&title));
    out.push_str("  node [shape=ellipse, style=filled, fillcolor=\"#dff0d8\", fontsize=10];\n  edge [fontsize=8];\n");
    let mut machines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, node) in topology.nodes().iter().enumerate() {
        machines.entry(node.machine.as_deref().unwrap_or("")).or_default().push(i);
    }
    for (number, (machine, nodes)) in machines.iter().enumerate() {
        let inside = !machine.is_empty();
        if inside {
            let _ = writeln!(out, "  subgraph cluster_{number} {{\n    label={};", quote(machine));
        }
        for i in nodes {
            let node = &topology.nodes()[*i];
            let look = match node.kind {
                Kind::Gpu | Kind::Host | Kind::Site => "",
                Kind::Switch => ", shape=box, fillcolor=\"#fde8cf\"",
                Kind::Nic => ", shape=box, fillcolor=\"#f6e3f3\"",
                Kind::Memory => ", shape=cylinder, fillcolor=\"#e3e3f6\"",
            };
            let _ = writeln!(out, "    n{i} [label={}{look}];", quote(&node.id));
        }
        if inside {
            out.push_str("  }\n");
        }
    }
    for stroke in &strokes.list {
        edge(&mut out, stroke, ["", ""], "");
    }
    out.push_str("}\n");
    out
}

/// A stroke from node to node, whose names have these endings; `look` is what else there is to say of it.
pub fn edge(out: &mut String, stroke: &Stroke, endings: [&str; 2], look: &str) {
    let (Stroke { from, to, colour, width, words, .. }, [begin, end]) = (stroke, endings);
    let words = quote(words);
    let _ = writeln!(
        out,
        "  n{from}{begin} -> n{to}{end} [color=\"{colour}\", penwidth={width:.1}, {look}tooltip={words}];"
    );
}

/// A text in quotes, with nothing in it that Graphviz would take for more than text.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
