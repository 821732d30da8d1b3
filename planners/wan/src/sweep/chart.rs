//! The mean time against the number of collectives: a line for each method, and one for the bound that none goes below.

use std::fmt::Write as _;

use sluice_formats::topology::draw::escape;

use super::{Spread, Sweep};
use crate::drawing::{number, ticks};

/// The picture, and the room of the axes in it; the names of the lines stand on the right.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 46.0;
/// The least distance of two names.
const ROW: f64 = 16.0;
/// Colours that the page knows, `--c0` and so on.
pub const COLOURS: usize = 12;
/// Patterns of lines, so that colours are not all that tells them apart.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "10 3 2 3"];
/// What the bound is called.
const BOUND: &str = "lower bound";

/// A line: its name, its colour, its pattern, and its points.
struct Line {
    name: String,
    colour: String,
    dash: &'static str,
    points: Vec<(usize, Spread)>,
}

fn lines(sweep: &Sweep) -> Vec<Line> {
    let along = |spread: &dyn Fn(usize) -> Option<Spread>| {
        sweep.collectives.iter().filter_map(|count| Some((*count, spread(*count)?))).collect::<Vec<_>>()
    };
    let method = |(place, method): (usize, &crate::method::Method)| Line {
        name: method.word().to_owned(),
        colour: format!("--c{}", place % COLOURS),
        dash: DASHES[place / COLOURS % DASHES.len()],
        points: along(&|count| sweep.spread(place, count)),
    };
    let mut lines: Vec<Line> = sweep.methods.iter().enumerate().map(method).collect();
    let (name, colour) = (BOUND.to_owned(), "--soft".to_owned());
    lines.push(Line { name, colour, dash: "2 3", points: along(&|count| sweep.bounds(count)) });
    lines
}

/// The picture, for a page that knows the colours.
pub fn svg(sweep: &Sweep) -> String {
    let lines = lines(sweep);
    let most = lines.iter().flat_map(|line| &line.points).map(|(_, spread)| spread.mean).fold(0.0, f64::max);
    let counts = || sweep.collectives.iter().copied();
    let (least_k, most_k) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let top = if most > 0.0 { most * 1.04 } else { 1.0 };
    let x = |count: usize| match most_k.saturating_sub(least_k) {
        0 => (LEFT + right) / 2.0,
        span => LEFT + 12.0 + (count - least_k) as f64 / span as f64 * (right - LEFT - 24.0),
    };
    let y = |value: f64| bottom - value / top * (bottom - TOP);
    let title = escape(&format!("mean time against the number of collectives on {}", sweep.graph));
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" role=\"img\" aria-label=\"{title}\">");
    for value in ticks(top, 8) {
        let (at, label) = (y(value), number(value));
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT:.1} {at:.1}H{right:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label} s</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for count in &sweep.collectives {
        let at = x(*count);
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v5\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
            bottom + 19.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">collectives</text>",
        (LEFT + right) / 2.0,
        bottom + 38.0
    );
    for line in &lines {
        draw(&mut out, line, &x, &y);
    }
    names(&mut out, &lines, right, &y);
    out.push_str("</svg>");
    out
}

/// A line with a dot for every point, which says its figures when it is pointed at.
fn draw(out: &mut String, line: &Line, x: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64) {
    let name = escape(&line.name);
    let path: Vec<String> =
        line.points.iter().map(|(count, spread)| format!("{:.1} {:.1}", x(*count), y(spread.mean))).collect();
    if path.is_empty() {
        return;
    }
    let dash = if line.dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", line.dash) };
    let _ = write!(
        out,
        "<g><title>{name}</title><path d=\"M{}\" fill=\"none\" stroke=\"var({})\" stroke-width=\"2.2\" stroke-linejoin=\"round\"{dash}/>",
        path.join("L"),
        line.colour
    );
    for (count, Spread { mean, deviation, count: of }) in &line.points {
        let _ = write!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"var({})\"><title>{name}, {count} collectives: {mean:.3} s ± {deviation:.3} s, {of} seeds</title></circle>",
            x(*count),
            y(*mean),
            line.colour
        );
    }
    out.push_str("</g>");
}

/// The names behind the last points, moved apart where lines end close to each other.
fn names(out: &mut String, lines: &[Line], right: f64, y: &dyn Fn(f64) -> f64) {
    let end = |line: &Line| line.points.last().map(|(_, spread)| y(spread.mean));
    let mut ends: Vec<(f64, &Line)> = lines.iter().filter_map(|line| Some((end(line)?, line))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Names go down where there is no room, and all together up again where the last would leave the picture.
    let mut places: Vec<f64> = Vec::with_capacity(ends.len());
    for (at, _) in &ends {
        let least = places.last().map_or(TOP, |last| last + ROW);
        places.push(at.max(least));
    }
    let mut most = HEIGHT - BOTTOM + 4.0;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - ROW;
    }
    for ((at, line), place) in ends.iter().zip(places) {
        let (from, to) = (right - 10.0, right + 10.0);
        let _ = write!(
            out,
            "<path d=\"M{from:.1} {at:.1}L{to:.1} {place:.1}\" stroke=\"var({0})\" fill=\"none\" opacity=\"0.6\"/>\
             <text x=\"{1:.1}\" y=\"{2:.1}\" style=\"fill:var({0})\">{3}</text>",
            line.colour,
            to + 4.0,
            place + 4.0,
            escape(&line.name)
        );
    }
}
