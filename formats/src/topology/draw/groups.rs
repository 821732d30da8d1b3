//! Joint limits in a picture: a dashed line beside each of their links, one colour per limit.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Layout, ROW, escape, short, words};
use crate::topology::Topology;

/// Limits that are told apart by colour; of more the first are drawn.
const COLOURS: [&str; 6] = ["#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b"];
/// From the middle of a cable to the first dashed line, and from line to line.
const LANE: f64 = 4.0;

/// Rows that they take in the legend.
pub fn rows(topology: &Topology) -> usize {
    topology.groups().len().min(COLOURS.len() + 1)
}

/// The lines, to the right of the direction of each link.
pub fn draw(out: &mut String, topology: &Topology, layout: &Layout) {
    let mut lanes: HashMap<(usize, usize), u32> = HashMap::new();
    for (group, colour) in topology.groups().iter().zip(COLOURS) {
        let _ = writeln!(
            out,
            "<g stroke=\"{colour}\" stroke-width=\"1.4\" stroke-dasharray=\"5 3\"><title>{}</title>",
            escape(&group.name)
        );
        let mut pairs: Vec<(usize, usize)> = group
            .links
            .iter()
            .filter_map(|link| topology.links().get(*link))
            .filter(|link| link.from != link.to)
            .map(|link| (link.from, link.to))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        for pair in pairs {
            let lane = lanes.entry(pair).or_insert(0);
            *lane += 1;
            let (from, to) = (layout.places[pair.0], layout.places[pair.1]);
            let (dx, dy) = (to.x - from.x, to.y - from.y);
            let length = dx.hypot(dy).max(1.0);
            let aside = LANE * f64::from(*lane);
            let (sx, sy) = (-dy / length * aside, dx / length * aside);
            let _ = writeln!(
                out,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
                from.x + sx,
                from.y + sy,
                to.x + sx,
                to.y + sy
            );
        }
        out.push_str("</g>\n");
    }
}

/// One row per limit, from `top` on.
pub fn legend(out: &mut String, topology: &Topology, top: f64) {
    let groups = topology.groups();
    for (row, (group, colour)) in groups.iter().zip(COLOURS).enumerate() {
        let y = top + ROW * row as f64;
        let capacity = words(topology.unit(), &group.capacity);
        let words = format!("{}: {capacity} over {} links", short(&group.name, 24), group.links.len());
        let _ = writeln!(
            out,
            "<line x1=\"16\" y1=\"{y:.1}\" x2=\"46\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"1.4\" \
             stroke-dasharray=\"5 3\"/><text x=\"54\" y=\"{:.1}\" fill=\"#24405c\">{}</text>",
            y + 4.0,
            escape(&words)
        );
    }
    if groups.len() > COLOURS.len() {
        let y = top + ROW * COLOURS.len() as f64;
        let _ = writeln!(out, "<text x=\"54\" y=\"{y:.1}\">and {} more groups</text>", groups.len() - COLOURS.len());
    }
}
