//! Flows over time as SVG: a row per chain, the rows of a collective together, a bar for every stretch that a flow sends. A bar
//! is as high as the part of its route's smallest link that the flow has. It follows the viewer's wish for light or dark.

use std::fmt::Write as _;

use sluice_formats::topology::draw::escape;

use super::Timeline;
use crate::drawing::{number, ticks};
use crate::instance::Instance;
use crate::refusal::Refusal;

/// Width of the picture, and where time begins and ends in it.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 1076.0;
/// Above the first row, and below the last.
const TOP: f64 = 44.0;
const BOTTOM: f64 = 44.0;
/// Room between collectives.
const GAP: f64 = 10.0;
/// Height of a row where there are few, and where there are many.
const ROWS: (f64, f64) = (18.0, 7.0);
/// So many rows are few.
const FEW: usize = 80;
/// Rows at most.
const MAX_ROWS: usize = 4_000;
/// Colours for a light and for a dark ground.
const LIGHT: [&str; 8] = ["#1f6fb4", "#c8420a", "#1d8348", "#8e3fb0", "#a57300", "#0b8a99", "#b3245f", "#5b6670"];
const DARK: [&str; 8] = ["#6db5f2", "#ff9a63", "#62d394", "#d59af0", "#f2c14e", "#5cd6e4", "#ff86b3", "#b5c0ca"];

/// The picture; `name` is the id of a node by its index.
///
/// # Errors
/// `TooLarge` for more chains than a picture has rows.
pub fn svg(
    instance: &Instance,
    timeline: &Timeline,
    title: &str,
    name: &dyn Fn(usize) -> String,
) -> Result<String, Refusal> {
    let rows = instance.groups().len();
    if rows > MAX_ROWS {
        return Err(Refusal::TooLarge { what: "rows of a picture", found: rows, allowed: MAX_ROWS });
    }
    let row = if rows <= FEW { ROWS.0 } else { ROWS.1 };
    let end = timeline.outcome.t.iter().copied().fold(0.0, f64::max);
    let height = TOP + rows as f64 * row + instance.collectives() as f64 * GAP + BOTTOM;
    let scale = if end > 0.0 { (RIGHT - LEFT) / end } else { 0.0 };
    let x = |t: f64| LEFT + t * scale;
    let title = escape(title);
    let mut out = head(&title, height, instance.collectives());
    let bottom = height - BOTTOM;
    for value in ticks(end, 8) {
        let at = x(value);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP:.1}V{bottom:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            bottom + 18.0,
            number(value)
        );
    }
    let mut y = TOP;
    for (collective, time) in timeline.outcome.t.iter().enumerate() {
        let groups = instance.groups_of(collective);
        let _ = writeln!(out, "<g class=\"c{}\">", collective % LIGHT.len());
        let _ = writeln!(
            out,
            "<text x=\"8\" y=\"{:.1}\">{collective}: {} s</text>",
            y + row.max(12.0) - 4.0,
            number(*time)
        );
        let first = y;
        for group in groups {
            let chain = &instance.groups()[group];
            if row >= 12.0 {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    LEFT - 8.0,
                    y + row - 5.0,
                    chain.local
                );
            }
            for &flow in &chain.flows {
                bars(&mut out, instance, timeline, flow, (y, row), &x, name);
            }
            y += row;
        }
        let at = x(*time);
        let _ = writeln!(out, "<path class=\"end\" d=\"M{at:.1} {:.1}V{y:.1}\"/></g>", first - 2.0);
        y += GAP;
    }
    out.push_str("</svg>\n");
    Ok(out)
}

/// The picture as a page that loads nothing.
///
/// # Errors
/// As [`svg`].
pub fn html(
    instance: &Instance,
    timeline: &Timeline,
    title: &str,
    name: &dyn Fn(usize) -> String,
) -> Result<String, Refusal> {
    let picture = svg(instance, timeline, title, name)?;
    let title = escape(title);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>:root{{color-scheme:light dark}}body{{margin:0 auto;max-width:1200px;padding:16px}}svg{{display:block;width:100%;height:auto}}</style>\
         </head><body>\n{picture}</body></html>\n"
    ))
}

/// The bars of a flow.
fn bars(
    out: &mut String,
    instance: &Instance,
    timeline: &Timeline,
    flow: usize,
    (y, row): (f64, f64),
    x: &dyn Fn(f64) -> f64,
    name: &dyn Fn(usize) -> String,
) {
    let (of, alone) = (&instance.flows()[flow], instance.alone(flow));
    let (from, to) = (escape(&name(of.from)), escape(&name(of.to)));
    // Neighbours in a chain stay apart by their strength.
    let class = if of.order.is_multiple_of(2) { "a" } else { "b" };
    for stretch in timeline.stretches.get(flow).into_iter().flatten() {
        let height = ((row - 2.0) * (stretch.rate / alone).min(1.0)).max(0.8);
        let (left, right) = (x(stretch.from), x(stretch.to));
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{left:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{height:.1}\"><title>flow {flow}, {from} → {to}: \
             {} MB/s from {} to {} s</title></rect>",
            y + row - 1.0 - height,
            (right - left).max(0.3),
            number(stretch.rate),
            number(stretch.from),
            number(stretch.to)
        );
    }
}

/// The beginning: title, ground, colours.
fn head(title: &str, height: f64, collectives: usize) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n<style>\n\
         .ground{{fill:#fff}} text{{fill:#27313b;stroke:none}} .grid{{stroke:#d5dce3;fill:none}} .a{{opacity:.95}} .b{{opacity:.6}} .end{{stroke-width:1.6;fill:none}}\n"
    );
    let rules = |out: &mut String, colours: &[&str]| {
        for (place, colour) in colours.iter().enumerate().take(collectives) {
            let _ = writeln!(out, ".c{place} rect{{fill:{colour}}} .c{place} .end{{stroke:{colour}}}");
        }
    };
    rules(&mut out, &LIGHT);
    out.push_str(
        "@media (prefers-color-scheme: dark){\n.ground{fill:#12171c} text{fill:#d7dee5} .grid{stroke:#333d47}\n",
    );
    rules(&mut out, &DARK);
    let _ = writeln!(
        out,
        "}}\n</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n<text x=\"8\" y=\"22\" font-size=\"14\">{title}</text>"
    );
    out
}
