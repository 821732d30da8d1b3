//! A schedule in steps as SVG: one small picture of the fabric per step, in which every rank is a pie that fills up.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use super::look::ROW;
use super::steps::{Panels, Slice};
use super::strokes::Stroke;
use super::svg::{arrow, begin};
use crate::plan::Plan;
use sluice_formats::topology::Topology;
use sluice_formats::topology::draw::{self, Place, escape};

/// Width of a step's picture.
const PANEL: f64 = 330.0;
const MARGIN: f64 = 26.0;
/// Height of its title.
const TITLE: f64 = 26.0;
/// Pictures beside each other at most.
const MAX_COLUMNS: usize = 4;
/// Nodes up to which each is called by its name.
const MAX_NAMES: usize = 32;
/// Of a link that rests.
const RESTING: &str = "#dde3e9";

pub fn draw(plan: &Plan, topology: &Topology, panels: &Panels) -> String {
    let places = places(topology);
    let count = panels.list.len() + 1;
    let columns = (1..=MAX_COLUMNS).find(|columns| columns * columns >= count).unwrap_or(MAX_COLUMNS);
    let rows = count.div_ceil(columns);
    let top = 34.0 + ROW * panels.legend.len() as f64;
    let tallest = places.iter().map(|place| place.y).fold(0.0, f64::max) + MARGIN;
    let (across, down) = (PANEL + 12.0, tallest + TITLE + 12.0);
    let (width, height) = (columns as f64 * across + 12.0, top + rows as f64 * down);
    let title = format!("{} on {}, step by step", plan.body.collective.word(), topology.name());
    let mut out = begin(width, height, &title, &panels.legend);
    let mut panel = |number: usize, title: &str, strokes: &[Stroke], pies: &[Vec<Slice>]| {
        let (x, y) = (12.0 + (number % columns) as f64 * across, top + (number / columns) as f64 * down);
        let _ = writeln!(
            out,
            "<g transform=\"translate({x:.1},{y:.1})\">\n<rect width=\"{PANEL}\" height=\"{:.1}\" rx=\"8\" fill=\"#fafbfc\" \
             stroke=\"#c3ccd5\"/>\n<text x=\"10\" y=\"17\" fill=\"#3c4753\">{}</text>\n<g transform=\"translate(0,{TITLE})\">",
            tallest + TITLE,
            escape(title)
        );
        fabric(&mut out, topology, &places);
        strokes.iter().for_each(|stroke| arrow(&mut out, stroke, places[stroke.from], places[stroke.to]));
        for (node, place) in places.iter().enumerate() {
            rank(&mut out, topology, panels, node, *place, &pies[node]);
        }
        out.push_str("</g>\n</g>\n");
    };
    panel(0, "at first", &[], &panels.begin);
    for (number, step) in panels.list.iter().enumerate() {
        panel(number + 1, &step.title, &step.strokes, &step.pies);
    }
    out.push_str("</svg>\n");
    out
}

/// Where nodes stand in a panel: as in the picture of the topology, made to fit; a single row or circle of nodes without
/// anything else is a circle, in which every link is visible.
fn places(topology: &Topology) -> Vec<Place> {
    let layout = draw::layout(topology);
    let nodes = topology.nodes();
    let mut places = layout.places;
    if nodes.iter().all(|node| node.machine.is_none() && node.is_compute()) {
        for (i, place) in places.iter_mut().enumerate() {
            let turn = TAU * (i as f64 / nodes.len() as f64 - 0.25);
            (place.x, place.y) = (turn.cos(), turn.sin());
        }
    }
    let extent = |of: &dyn Fn(&Place) -> f64| {
        let least = places.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = places.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (least, (most - least).max(1e-9))
    };
    let ((left, wide), (above, high)) = (extent(&|place| place.x), extent(&|place| place.y));
    let room = PANEL - 2.0 * MARGIN;
    let scale = room / wide.max(high);
    // As large as fits, and not larger than is read well.
    let size = (2.0 * room / (nodes.len() as f64).sqrt() / 4.0).clamp(4.0, 26.0);
    let aside = (room - wide * scale) / 2.0;
    for place in &mut places {
        (place.x, place.y) = (MARGIN + aside + (place.x - left) * scale, MARGIN + (place.y - above) * scale);
        (place.width, place.height) = (size, size);
    }
    places
}

/// The links, at rest.
fn fabric(out: &mut String, topology: &Topology, places: &[Place]) {
    let mut pairs: Vec<(usize, usize)> =
        topology.links().iter().map(|link| (link.from.min(link.to), link.from.max(link.to))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let _ = writeln!(out, "<g stroke=\"{RESTING}\" stroke-width=\"1\">");
    for (a, b) in pairs.into_iter().map(|(a, b)| (places[a], places[b])) {
        let _ = writeln!(out, "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>", a.x, a.y, b.x, b.y);
    }
    out.push_str("</g>\n");
}

/// A node: a pie of what it has, a box where it takes no part.
fn rank(out: &mut String, topology: &Topology, panels: &Panels, node: usize, place: Place, slices: &[Slice]) {
    let (x, y, r) = (place.x, place.y, place.width / 2.0);
    if panels.ranks[node].is_none() {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{r:.1}\" rx=\"2\" fill=\"#fde8cf\" stroke=\"#c07a1f\"/>",
            x - r,
            y - r / 2.0,
            2.0 * r
        );
    } else {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"#ffffff\" stroke=\"#8a97a5\"/>");
        for (i, slice) in slices.iter().enumerate().filter(|(_, slice)| slice.full > 0.0) {
            wedge(out, place, slice, i as f64 / slices.len() as f64, 1.0 / slices.len() as f64);
        }
    }
    if topology.nodes().len() <= MAX_NAMES {
        // Outside, where fewer arrows end.
        let name = if y > PANEL / 2.0 { y + r + 10.0 } else { y - r - 3.0 };
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{name:.1}\" font-size=\"9\" text-anchor=\"middle\" fill=\"#24405c\" stroke=\"#fafbfc\" \
             stroke-width=\"2\" paint-order=\"stroke\">{}</text>",
            escape(&topology.nodes()[node].id)
        );
    }
}

/// A slice that begins and spans these parts of the whole turn; what is there of it grows from the middle outwards.
fn wedge(out: &mut String, place: Place, slice: &Slice, begin: f64, span: f64) {
    let (x, y, colour) = (place.x, place.y, slice.colour);
    // A single slice turns round as it fills; several each keep their place.
    let (span, r) =
        if span < 1.0 { (span, place.width / 2.0 * slice.full.sqrt()) } else { (slice.full, place.width / 2.0) };
    if span > 0.9999 {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"{colour}\"/>");
        return;
    }
    let point = |part: f64| {
        let turn = TAU * (part - 0.25);
        (x + r * turn.cos(), y + r * turn.sin())
    };
    let ((x1, y1), (x2, y2)) = (point(begin), point(begin + span));
    let long = u8::from(span > 0.5);
    let _ = writeln!(
        out,
        "<path d=\"M{x:.1} {y:.1}L{x1:.2} {y1:.2}A{r:.2} {r:.2} 0 {long} 1 {x2:.2} {y2:.2}Z\" fill=\"{colour}\"/>"
    );
}
