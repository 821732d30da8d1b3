//! A plan as SVG: the picture of its topology, with an arrow per stroke on top and a bar per limit below.

use std::fmt::Write as _;

use super::limits;
use super::look::ROW;
use super::strokes::{Stroke, Strokes};
use crate::plan::Plan;
use sluice_formats::topology::Topology;
use sluice_formats::topology::draw::{self, Place, escape};

/// From lane to lane.
const LANE: f64 = 3.0;

pub fn draw(plan: &Plan, topology: &Topology, strokes: &Strokes) -> String {
    let layout = draw::layout(topology);
    let mut arrows = String::from("<g stroke-linecap=\"round\">\n");
    for stroke in &strokes.list {
        arrow(&mut arrows, stroke, layout.places[stroke.from], layout.places[stroke.to]);
    }
    arrows.push_str("</g>\n");
    let base = draw::svg_around(topology, &arrows);
    let top = 30.0 + ROW * strokes.legend.len() as f64;
    let below = top + size(&base, "height");
    let least = if strokes.bars.is_empty() { 420.0 } else { limits::WIDTH };
    let (width, height) = (size(&base, "width").max(least), below + limits::height(&strokes.bars));
    let title = format!("{} on {}", plan.body.collective.word(), topology.name());
    let mut out = begin(width, height, &title, &strokes.legend);
    // The topology's picture is a document of its own, which may stand inside another one.
    let _ = writeln!(out, "<g transform=\"translate(0,{top:.0})\">\n{base}</g>");
    limits::draw(&mut out, &strokes.bars, below);
    out.push_str("</svg>\n");
    out
}

/// The beginning of a picture: its title and, row by row below it, what colours mean.
pub fn begin(width: f64, height: f64, title: &str, legend: &[(&'static str, String)]) -> String {
    let title = escape(title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"16\" y=\"18\" font-size=\"13\">{title}</text>\n"
    );
    for (row, (colour, words)) in legend.iter().enumerate() {
        let y = 32.0 + ROW * row as f64;
        let _ = writeln!(
            out,
            "<line x1=\"16\" y1=\"{y:.1}\" x2=\"46\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"54\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            escape(words)
        );
    }
    out
}

/// A line beside the straight one between two nodes, to the right of its direction, ending before their labels.
pub fn arrow(out: &mut String, stroke: &Stroke, from: Place, to: Place) {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = (dx * dx + dy * dy).sqrt().max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let aside = LANE * (stroke.lane as f64 + 0.8);
    let (sx, sy) = (-uy * aside, ux * aside);
    let gap = |place: Place| (place.width * ux.abs()).max(place.height * uy.abs()) / 2.0 + 2.0;
    let (begin, end) = (gap(from), gap(to));
    let (x1, y1) = (from.x + ux * begin + sx, from.y + uy * begin + sy);
    let (x2, y2) = (to.x - ux * end + sx, to.y - uy * end + sy);
    let head = |side: f64| (x2 - ux * 6.0 - uy * side, y2 - uy * 6.0 + ux * side);
    let (left, right) = (head(-2.5), head(2.5));
    let _ = writeln!(
        out,
        "<g><title>{}</title><path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{}\" stroke-width=\"{:.1}\" fill=\"none\"/>\
         <path d=\"M{x2:.1} {y2:.1}L{:.1} {:.1}L{:.1} {:.1}Z\" fill=\"{}\"/></g>",
        escape(&stroke.words),
        stroke.colour,
        stroke.width,
        left.0,
        left.1,
        right.0,
        right.1,
        stroke.colour
    );
}

/// A size that the head of our own picture states.
fn size(picture: &str, key: &str) -> f64 {
    let head = picture.split('>').next().unwrap_or("");
    let value = head.split_once(&format!(" {key}=\"")).and_then(|(_, rest)| rest.split('"').next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}
