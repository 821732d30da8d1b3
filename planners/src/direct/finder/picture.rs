//! The frontier as a picture: steps to the right, time upwards, one point per graph.

use std::fmt::Write as _;

use super::Candidate;
use crate::direct::bfb::{fewest_steps, least_bandwidth};
use sluice_formats::topology::draw::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 48.0;

/// The picture of a frontier of one size and degree, as the text of an SVG file. Dashed lines: no graph has fewer steps,
/// no schedule takes less time.
pub fn frontier_svg(points: &[Candidate]) -> String {
    let (n, d) = points.first().map_or((1, 0), |point| (point.n, point.d));
    let floor = (f64::from(fewest_steps(n, d).unwrap_or(0)), least_bandwidth(n).to_f64());
    let most_steps = points.iter().map(|point| f64::from(point.t_l)).fold(floor.0 + 1.0, f64::max);
    let most_time = points.iter().map(|point| point.t_b.to_f64()).fold(floor.1 + 0.01, f64::max);
    let across = |steps: f64| LEFT + (WIDTH - LEFT - RIGHT) * (steps - floor.0 + 0.3) / (most_steps - floor.0 + 1.0);
    let up = |time: f64| {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (0.06 + 0.86 * (time - floor.1) / (most_time - floor.1))
    };
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>{n} machines of {d} ports</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{n} machines of {d} ports</text>\n\
         <path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#5b6875\"/>\n\
         <path d=\"M{x:.1} {TOP}V{bottom}M{LEFT} {y:.1}H{right}\" stroke=\"#c3ccd5\" stroke-dasharray=\"4 4\"/>\n\
         <text x=\"{right}\" y=\"{label}\" text-anchor=\"end\">steps</text>\n\
         <text x=\"{LEFT}\" y=\"{above}\" text-anchor=\"middle\">time, M/B</text>\n",
        x = across(floor.0),
        y = up(floor.1),
        label = HEIGHT - 12.0,
        above = TOP - 6.0,
    );
    // From a point to the next the fewest steps and the least time that can be had together.
    let mut path = String::new();
    for (i, point) in points.iter().enumerate() {
        let (x, y) = (across(point.t_l.into()), up(point.t_b.to_f64()));
        let _ = if i == 0 { write!(path, "M{x:.1} {y:.1}") } else { write!(path, "H{x:.1}V{y:.1}") };
    }
    let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"#2b6cb0\" stroke-width=\"1.5\"/>");
    for (i, point) in points.iter().enumerate() {
        let (x, y) = (across(point.t_l.into()), up(point.t_b.to_f64()));
        // Names of neighbours stand at different heights.
        let lift = if i % 2 == 0 { -9.0 } else { -22.0 };
        let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
        let name = escape(&point.expr.to_string());
        let short: String = if name.chars().count() > 44 {
            format!("{}…", name.chars().take(43).collect::<String>())
        } else {
            name.clone()
        };
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#2b6cb0\"><title>{name}: {} steps, {}</title></circle>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{short}</text>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{:.3}</text>",
            point.t_l,
            point.t_b,
            y + lift,
            bottom + 16.0,
            point.t_l,
            LEFT - 6.0,
            point.t_b.to_f64(),
        );
    }
    out + "</svg>\n"
}
