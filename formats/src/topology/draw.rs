//! A topology as a picture: one self-contained SVG, switches above, machines framed, links as wide as they are fast.
//!
//! Up to 64 nodes it is meant to be read; with more of them links get thin and labels go into the legend alone.

mod groups;
mod layout;

pub use layout::{Frame, Layout, Place, layout};

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Kind, Topology};
use crate::quantity::{Capacity, Rational, Unit};

/// Cables up to which every one carries its label.
const MAX_LABELS: usize = 24;
/// Cables from which on they are drawn thin and pale.
const MANY_CABLES: usize = 300;
/// Rows of the legend at most.
const MAX_LEGEND: usize = 8;
/// Height of one of them.
const ROW: f64 = 18.0;

/// Of links that are nobody's limit.
const UNLIMITED: &str = "#9aa5b1";
/// Of all others.
const LIMITED: &str = "#4a7fb5";

/// All links between two nodes.
struct Cable {
    forward: Capacity,
    backward: Capacity,
    /// The least and the most that one of them costs.
    costs: (Rational, Rational),
}

/// Cables that are alike.
struct Class {
    /// Capacity and cost.
    words: String,
    colour: &'static str,
    width: f64,
}

/// The picture of a topology, as the text of an SVG file.
pub fn svg(topology: &Topology) -> String {
    svg_around(topology, "")
}

/// The same with more SVG above the links and below the nodes, so that names stay readable.
pub fn svg_around(topology: &Topology, above_links: &str) -> String {
    let layout = layout(topology);
    let cables = cables(topology);
    let classes = classes(topology, &cables);
    let rows = classes.len().min(MAX_LEGEND + 1) + groups::rows(topology);
    let (width, height) = (layout.width.max(320.0), layout.height + 14.0 + ROW * rows as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escape(topology.name())
    );
    for frame in &layout.frames {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" fill=\"#f4f6f8\" stroke=\"#c3ccd5\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#5b6875\">{}</text>",
            frame.x,
            frame.y,
            frame.width,
            frame.height,
            frame.x + 8.0,
            frame.y + frame.height - 7.0,
            escape(&short(&frame.label, 24))
        );
    }
    draw_cables(&mut out, topology, &layout, &cables, &classes);
    groups::draw(&mut out, topology, &layout);
    out.push_str(above_links);
    for (node, place) in topology.nodes().iter().zip(&layout.places) {
        draw_node(&mut out, node.kind, &node.id, *place);
    }
    let below = legend(&mut out, &classes, layout.height + 14.0);
    groups::legend(&mut out, topology, below);
    out.push_str("</svg>\n");
    out
}

fn cables(topology: &Topology) -> BTreeMap<(usize, usize), Cable> {
    let mut cables: BTreeMap<(usize, usize), Cable> = BTreeMap::new();
    let nothing = || Capacity::Finite(Rational::ZERO);
    for link in topology.links().iter().filter(|link| link.from != link.to) {
        let key = (link.from.min(link.to), link.from.max(link.to));
        let costs = || (link.cost.clone(), link.cost.clone());
        let none = || Cable { forward: nothing(), backward: nothing(), costs: costs() };
        let cable = cables.entry(key).or_insert_with(none);
        if link.cost < cable.costs.0 {
            cable.costs.0 = link.cost.clone();
        }
        if link.cost > cable.costs.1 {
            cable.costs.1 = link.cost.clone();
        }
        let side = if link.from < link.to { &mut cable.forward } else { &mut cable.backward };
        *side = side.plus(&link.capacity);
    }
    cables
}

/// A capacity in the topology's unit, as people write it: `12.5 Gbit/s`.
fn words(unit: Unit, capacity: &Capacity) -> String {
    let Some(base) = capacity.finite() else { return "unlimited".into() };
    let number = unit.express(base).to_f64();
    let mut text = format!("{number:.2}");
    while text.ends_with('0') || text.ends_with('.') {
        let dot = text.pop() == Some('.');
        if dot {
            break;
        }
    }
    match unit {
        Unit::Abstract => text,
        Unit::Bytes(unit) => format!("{text} {}", unit.word()),
    }
}

fn label(unit: Unit, cable: &Cable) -> String {
    let capacity = match (&cable.forward, &cable.backward) {
        (a, b) if a == b => words(unit, a),
        (Capacity::Finite(a), b) if a.is_zero() => format!("{} one way", words(unit, b)),
        (a, Capacity::Finite(b)) if b.is_zero() => format!("{} one way", words(unit, a)),
        (a, b) => format!("{} / {}", words(unit, a), words(unit, b)),
    };
    match &cable.costs {
        (least, most) if least != most => format!("{capacity}, costs {least} to {most}"),
        (cost, _) if *cost != Rational::ONE => format!("{capacity}, cost {cost}"),
        _ => capacity,
    }
}

/// Every label that occurs, the widest first.
fn classes(topology: &Topology, cables: &BTreeMap<(usize, usize), Cable>) -> Vec<Class> {
    let size = |cable: &Cable| {
        let value = |capacity: &Capacity| capacity.finite().map_or(f64::INFINITY, Rational::to_f64);
        value(&cable.forward).max(value(&cable.backward))
    };
    let most = cables.values().map(size).filter(|size| size.is_finite()).fold(0.0, f64::max);
    // Where all are the same, width says nothing and only hides what is behind.
    let alike = cables.values().all(|cable| size(cable) == most);
    let thickest = if cables.len() > MANY_CABLES {
        1.6
    } else if alike {
        2.0
    } else {
        5.0
    };
    let mut classes: BTreeMap<String, Class> = BTreeMap::new();
    for cable in cables.values() {
        let share = if most > 0.0 { (size(cable) / most).min(1.0) } else { 1.0 };
        let words = label(topology.unit(), cable);
        // The square root keeps a slow link visible beside one twenty times as fast.
        let width = (thickest * share.sqrt()).max(0.4);
        let colour = if size(cable).is_finite() { LIMITED } else { UNLIMITED };
        classes.entry(words.clone()).or_insert(Class { words, colour, width });
    }
    let mut classes: Vec<Class> = classes.into_values().collect();
    classes.sort_by(|a, b| b.width.total_cmp(&a.width).then_with(|| a.words.cmp(&b.words)));
    classes
}

fn draw_cables(
    out: &mut String,
    topology: &Topology,
    layout: &Layout,
    cables: &BTreeMap<(usize, usize), Cable>,
    classes: &[Class],
) {
    let opacity = if cables.len() > MANY_CABLES { 0.25 } else { 0.75 };
    let _ = writeln!(out, "<g stroke=\"{LIMITED}\" stroke-opacity=\"{opacity}\" stroke-linecap=\"round\">");
    let mut labels = String::new();
    for (i, ((a, b), cable)) in cables.iter().enumerate() {
        let (from, to) = (layout.places[*a], layout.places[*b]);
        let text = label(topology.unit(), cable);
        let class = classes.iter().find(|class| class.words == text);
        let (width, colour) = class.map_or((1.0, LIMITED), |class| (class.width, class.colour));
        let colour = if colour == LIMITED { String::new() } else { format!(" stroke=\"{colour}\"") };
        let _ = writeln!(
            out,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"{colour} stroke-width=\"{width:.1}\"/>",
            from.x, from.y, to.x, to.y
        );
        if cables.len() <= MAX_LABELS {
            // Cables that meet in one switch would have their labels in one spot: they take turns along the line.
            let share = [0.36, 0.5, 0.64][i % 3];
            let (x, y) = (from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share);
            let _ = writeln!(labels, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&text));
        }
    }
    let _ = writeln!(
        out,
        "</g>\n<g font-size=\"8\" text-anchor=\"middle\" fill=\"#24405c\" stroke=\"#ffffff\" stroke-width=\"2\" \
         paint-order=\"stroke\">\n{labels}</g>"
    );
}

fn draw_node(out: &mut String, kind: Kind, id: &str, place: Place) {
    let (fill, stroke) = match kind {
        Kind::Gpu | Kind::Host | Kind::Site => ("#dff0d8", "#4f8a3c"),
        Kind::Switch => ("#fde8cf", "#c07a1f"),
        Kind::Nic => ("#f6e3f3", "#9a4f8d"),
        Kind::Memory => ("#e3e3f6", "#5a5aa8"),
    };
    let round = if matches!(kind, Kind::Switch | Kind::Nic) { 3.0 } else { place.height / 2.0 };
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round:.1}\" \
         fill=\"{fill}\" stroke=\"{stroke}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
         font-size=\"9\">{}</text></g>",
        escape(id),
        place.x - place.width / 2.0,
        place.y - place.height / 2.0,
        place.width,
        place.height,
        place.x,
        place.y + 3.0,
        escape(&short(id, 9))
    );
}

/// One row per class of cables; gives back where the next row would be.
fn legend(out: &mut String, classes: &[Class], top: f64) -> f64 {
    for (row, Class { words, colour, width }) in classes.iter().take(MAX_LEGEND).enumerate() {
        let y = top + ROW * row as f64;
        let _ = writeln!(
            out,
            "<line x1=\"16\" y1=\"{y:.1}\" x2=\"46\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"/>\
             <text x=\"54\" y=\"{:.1}\" fill=\"#24405c\">{}</text>",
            y + 4.0,
            escape(words)
        );
    }
    if classes.len() > MAX_LEGEND {
        let y = top + ROW * MAX_LEGEND as f64;
        let _ = writeln!(out, "<text x=\"54\" y=\"{y:.1}\">and {} more</text>", classes.len() - MAX_LEGEND);
    }
    top + ROW * classes.len().min(MAX_LEGEND + 1) as f64
}

/// The end of a long id says more than its beginning.
fn short(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(length + 1 - most).collect::<String>())
}

/// Text as XML has it; control characters, which XML 1.0 forbids, become a question mark.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
