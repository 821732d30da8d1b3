//! The picture of a scoreboard: a panel per case and load, a dot per run. Across: what unmanaged traffic received a
//! second, or the turn where there is none; up: mean job completion time. Axes of amounts begin at 0.

use std::fmt::Write as _;

use super::board::{Board, Dot, Row, place};
use crate::page::svg::{number, ticks};
use crate::page::text;

/// Panels side by side.
const COLUMNS: usize = 2;
const PANEL: Size = Size { width: 470.0, height: 300.0 };
/// Room inside a panel for names and numbers.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Height of the legend over all panels.
const LEGEND: f64 = 34.0;

/// A colour for each of [`super::board::ORDER`] and one for all others; by light, then by dark.
const COLOURS: [[&str; 2]; 7] = [
    ["#6b7885", "#98a6b3"],
    ["#b06a00", "#f0a63c"],
    ["#7a4fb5", "#b592ea"],
    ["#b8336a", "#ff86b4"],
    ["#0b66c2", "#5fb0ff"],
    ["#14805a", "#4fcf9d"],
    ["#8a6d3b", "#d6b374"],
];

struct Size {
    width: f64,
    height: f64,
}

/// One self-contained file, legible on light and dark ground.
pub fn svg(board: &Board) -> String {
    let columns = COLUMNS.min(board.rows.len().max(1));
    let lines = board.rows.len().div_ceil(columns);
    let policies = board.policies();
    // One panel may be narrower than the legend.
    let width = policies.iter().fold(LEFT, |x, policy| x + entry(policy)).max(PANEL.width * columns as f64);
    let height = LEGEND + PANEL.height * lines as f64;
    let mut out = String::new();
    _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"Mean job completion times, a dot per run\"><style>{}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>",
        style()
    );
    legend(&policies, &mut out);
    for (at, row) in board.rows.iter().enumerate() {
        let (x, y) = (PANEL.width * (at % columns) as f64, LEGEND + PANEL.height * (at / columns) as f64);
        _ = write!(out, "<g transform=\"translate({x} {y})\">");
        panel(row, &mut out);
        out.push_str("</g>");
    }
    out.push_str("</svg>\n");
    out
}

fn style() -> String {
    let colours = |side: usize| {
        let dots = COLOURS.iter().enumerate();
        dots.map(|(at, pair)| format!(".p{at}{{fill:{}}}", pair[side])).collect::<String>()
    };
    format!(
        "text{{font:12px system-ui,sans-serif;fill:#3f4852}}.title{{font-weight:600;fill:#1b1f24}}.ground{{fill:#fff}}.axis{{stroke:#d5dbe1;fill:none}}circle{{fill-opacity:.8;stroke:#fff;stroke-width:.8}}{}@media (prefers-color-scheme:dark){{text{{fill:#aeb8c2}}.title{{fill:#e4e8ec}}.ground{{fill:#14181d}}.axis{{stroke:#343c45}}circle{{stroke:#14181d}}{}}}",
        colours(0),
        colours(1)
    )
}

/// Width of a policy in the legend.
fn entry(policy: &str) -> f64 {
    26.0 + 7.0 * policy.chars().count() as f64
}

fn legend(policies: &[&str], out: &mut String) {
    let mut x = LEFT;
    for policy in policies {
        _ = write!(
            out,
            "<circle class=\"p{}\" cx=\"{x:.1}\" cy=\"18\" r=\"5\"/><text x=\"{:.1}\" y=\"22\">{}</text>",
            place(policy),
            x + 9.0,
            text(policy)
        );
        x += entry(policy);
    }
}

/// About so many round numbers at an axis.
const MARKS: usize = 6;

/// The value at the right or upper end: the first round number that nothing is beyond.
fn end(values: impl Iterator<Item = f64>) -> f64 {
    let top = values.fold(0.0, f64::max);
    let step = ticks(top, MARKS).get(1).copied().unwrap_or(1.0);
    (top / step).ceil().max(1.0) * step
}

fn panel(row: &Row, out: &mut String) {
    let across = |dot: &Dot| match dot.unmanaged_bytes_s {
        Some(bytes) if row.unmanaged => bytes / 1e6,
        _ => dot.turn as f64,
    };
    let right = if row.unmanaged {
        end(row.dots.iter().map(across))
    } else {
        // Half a turn of room behind the last one.
        row.dots.iter().map(across).fold(1.0, f64::max) + 0.5
    };
    let top = end(row.dots.iter().map(|dot| dot.jct_mean_s));
    let at_x = |x: f64| LEFT + x / right * (PANEL.width - LEFT - RIGHT);
    let at_y = |y: f64| PANEL.height - BOTTOM - y / top * (PANEL.height - BOTTOM - TOP);
    let (left, bottom) = (at_x(0.0), at_y(0.0));
    _ = write!(
        out,
        "<text class=\"title\" x=\"{left}\" y=\"14\">{}</text><text x=\"{left}\" y=\"29\">mean job completion time, s</text>",
        text(&format!("{}, {}", row.case, row.load))
    );
    for value in ticks(top, MARKS) {
        let y = at_y(value);
        _ = write!(
            out,
            "<path class=\"axis\" d=\"M{left:.1} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at_x(right),
            left - 6.0,
            y + 4.0,
            number(value)
        );
    }
    let marks = if row.unmanaged { ticks(right, MARKS) } else { turns(right) };
    for value in marks {
        let x = at_x(value);
        _ = write!(
            out,
            "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 17.0,
            number(value)
        );
    }
    let name = if row.unmanaged { "unmanaged traffic received, MB/s" } else { "turn" };
    _ = write!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>", at_x(right), bottom + 34.0);
    for dot in &row.dots {
        let unmanaged = dot.unmanaged_bytes_s.map(|bytes| format!(", {:.2} MB/s unmanaged", bytes / 1e6));
        _ = write!(
            out,
            "<circle class=\"p{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"><title>{}</title></circle>",
            place(&dot.policy),
            at_x(across(dot)),
            at_y(dot.jct_mean_s),
            text(&format!(
                "{}, turn {}: {:.2} s{}",
                dot.policy,
                dot.turn,
                dot.jct_mean_s,
                unmanaged.unwrap_or_default()
            ))
        );
    }
}

/// Turns that get a number: all of few, about eight of many.
fn turns(right: f64) -> Vec<f64> {
    let last = right as usize;
    (1..=last).step_by(last.div_ceil(8).max(1)).map(|turn| turn as f64).collect()
}
