//! A schedule of sends as SVG: links down, epochs across, and a bar for every chunk on a link, as long as it is under way.
//!
//! The full part of a bar is the time in which the chunk is pushed through, the pale part its latency. Where sources are few
//! each has its colour; else colours follow the order of the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::dot::quote;
use super::look::{ROW, TREES};
use super::svg::begin;
use crate::check::{Timed, timed};
use crate::export::refused;
use crate::plan::{Plan, Sends};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_formats::topology::draw::escape;

/// Links in use that are drawn at most.
const MAX_LINKS: usize = 2_000;
/// Sends that are drawn at most.
const MAX_SENDS: usize = 200_000;
/// Width of the links' names.
const NAMES: f64 = 150.0;
/// Width of the epochs together at most, and of one epoch at most.
const WIDTH: f64 = 1_100.0;
const MAX_EPOCH: f64 = 42.0;
/// Epochs between two lines: the least of these that leaves room for its number.
const TICKS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
/// Room for the number of an epoch.
const TICK: f64 = 26.0;

/// Draws the sends.
///
/// # Errors
/// `E_LIMIT` for more than a picture holds; what the checker says where sends name nodes or links that are not there.
pub fn svg(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<String, Problems> {
    let (timed, rows) = looked_up(plan, topology, sends)?;
    let mut sources: Vec<usize> = timed.iter().map(|send| send.source).collect();
    sources.sort_unstable();
    sources.dedup();
    let epochs = timed.iter().map(|send| send.usable).max().unwrap_or(1).max(1);
    let wide = (WIDTH / epochs as f64).min(MAX_EPOCH);
    let high = if rows.len() > 80 { 9.0 } else { 15.0 };
    let few = sources.len() <= TREES.len();
    let id = |node: usize| &*topology.nodes()[node].id;
    let legend: Vec<(&'static str, String)> = match few {
        true => sources.iter().zip(TREES).map(|(node, colour)| (colour, format!("from {}", id(*node)))).collect(),
        false => vec![(TREES[0], format!("{} sources, colours in the order of nodes", sources.len()))],
    };
    let top = 52.0 + ROW * legend.len() as f64;
    let (width, bottom) = (NAMES + wide * epochs as f64 + 24.0, top + high * rows.len() as f64);
    let unit = sends.epoch_us.as_ref().map_or(String::new(), |us| format!(" of {} µs", us.value().to_f64()));
    let title = format!("{} on {}: {epochs} epochs{unit}", plan.body.collective.word(), topology.name());
    let mut out = begin(width.max(420.0), bottom + 16.0, &title, &legend);
    let step = TICKS.into_iter().find(|step| *step as f64 * wide >= TICK).unwrap_or(epochs);
    let _ = writeln!(out, "<g stroke=\"#dde3e9\" fill=\"#6a7682\" font-size=\"9\">");
    for epoch in (0..=epochs).step_by(step as usize) {
        let x = NAMES + wide * epoch as f64;
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" stroke=\"none\">{epoch}</text>",
            top - 4.0,
            x + 2.0,
            top - 6.0
        );
    }
    out.push_str("</g>\n");
    for (row, ((from, to), sends)) in rows.iter().enumerate() {
        let y = top + high * row as f64;
        let name = format!("{} → {}", id(*from), id(*to));
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"{:.0}\" fill=\"#3c4753\">{}</text>",
            NAMES - 6.0,
            y + high * 0.72,
            high * 0.68,
            escape(&name)
        );
        for send in sends {
            let place = sources.binary_search(&send.source).unwrap_or(0);
            let colour = TREES[place % TREES.len()];
            let x = NAMES + wide * send.epoch as f64;
            let pushed = send.busy.min(send.usable.saturating_sub(send.epoch)).max(1);
            let bar = |epochs: u64| (wide * epochs as f64 - 0.6).max(0.4);
            let words = format!(
                "chunk {} of {}: {name}, epoch {}, there from epoch {} on",
                send.number,
                id(send.source),
                send.epoch,
                send.usable
            );
            let _ = writeln!(
                out,
                "<g fill=\"{colour}\"><title>{}</title><rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" \
                 opacity=\"0.3\"/><rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\"/></g>",
                escape(&words),
                y + 1.0,
                bar(send.usable.saturating_sub(send.epoch).max(1)),
                high - 2.0,
                y + 1.0,
                bar(pushed),
                high - 2.0
            );
        }
    }
    out.push_str("</svg>\n");
    Ok(out)
}

/// The sends, and those of every pair of nodes.
type LookedUp = (Vec<Timed>, BTreeMap<(usize, usize), Vec<Timed>>);

fn looked_up(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<LookedUp, Problems> {
    let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    let mut rows: BTreeMap<(usize, usize), Vec<Timed>> = BTreeMap::new();
    for send in &timed {
        rows.entry((send.from, send.to)).or_default().push(*send);
    }
    if rows.len() > MAX_LINKS || timed.len() > MAX_SENDS {
        let error = Problem::new(E_LIMIT, "/content/sends", "too much for a picture");
        let found = format!("{} sends over {} links", timed.len(), rows.len());
        return Err(error
            .found(found)
            .allowed(format!("at most {MAX_SENDS} over {MAX_LINKS}"))
            .help("`html` holds more")
            .into());
    }
    Ok((timed, rows))
}

/// Draws the sends as a graph: a node stands once in every epoch in which it sends, or can send what it got.
///
/// # Errors
/// As [`svg`].
pub fn dot(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<String, Problems> {
    let (timed, _) = looked_up(plan, topology, sends)?;
    let mut epochs: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for send in &timed {
        epochs.entry(send.epoch).or_default().insert(send.from);
        epochs.entry(send.usable).or_default().insert(send.to);
    }
    let id = |node: usize| &*topology.nodes()[node].id;
    let title = quote(&format!("{} on {}", plan.body.collective.word(), topology.name()));
    let mut out = format!("digraph sends {{\n  label={title};\n  node [shape=box, fontsize=9];\n");
    for (epoch, nodes) in &epochs {
        let _ = writeln!(out, "  {{ rank=same; \"epoch {epoch}\" [shape=plaintext];");
        for node in nodes {
            let _ = writeln!(out, "    \"{node}@{epoch}\" [label={}];", quote(id(*node)));
        }
        out.push_str("  }\n");
    }
    let order: Vec<String> = epochs.keys().map(|epoch| format!("\"epoch {epoch}\"")).collect();
    let _ = writeln!(out, "  {} [style=invis];", order.join(" -> "));
    for Timed { epoch, usable, from, to, source, number, .. } in timed {
        let label = quote(&format!("{}:{number}", id(source)));
        let _ = writeln!(out, "  \"{from}@{epoch}\" -> \"{to}@{usable}\" [label={label}, fontsize=8];");
    }
    out.push_str("}\n");
    Ok(out)
}
