//! A picture of how the bounds of a fluid program closed in on each other, round by round: first R, then the cost.

use std::fmt::Write as _;

use sluice_formats::topology::draw::escape;
use sluice_planners_lp::fluid::master::Iteration;

use crate::plan::shown::short;

/// Width of the picture, and where the curves begin and end in it.
const WIDTH: f64 = 720.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 696.0;
/// Height of one panel with its words, and of the curves in it.
const PANEL: f64 = 230.0;
const CURVES: f64 = 160.0;
const UPPER: &str = "#d95f02";
const LOWER: &str = "#1b6ca8";

/// One panel per objective.
pub fn draw(iterations: &[Iteration], title: &str) -> String {
    let title = escape(title);
    let of = |of_cost| iterations.iter().filter(move |round| round.of_cost == of_cost).collect::<Vec<_>>();
    let mut stages = vec![("R", of(false)), ("cost at that R", of(true))];
    stages.retain(|(_, rounds)| !rounds.is_empty());
    let height = 34.0 + PANEL * stages.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"16\" y=\"20\" font-size=\"13\">{title}</text>\n"
    );
    for (row, (name, rounds)) in stages.iter().enumerate() {
        panel(&mut out, rounds, name, 34.0 + PANEL * row as f64);
    }
    out.push_str("</svg>\n");
    out
}

/// The curves of one objective.
fn panel(out: &mut String, rounds: &[&Iteration], name: &str, top: f64) {
    let Some(last) = rounds.last() else { return };
    let most = rounds.iter().map(|round| round.upper).fold(last.upper, f64::max);
    // A first bound may be far below anything: it comes in from the lower edge.
    let first = rounds.iter().map(|round| round.lower).filter(|lower| lower.is_finite()).fold(last.lower, f64::min);
    let depth = (most - last.upper).max(last.upper.abs() * 0.02);
    let least = first.max(last.lower - 2.0 * depth).min(last.upper - 0.1 * depth);
    let (base, span) = (top + 24.0 + CURVES, (most - least).max(f64::MIN_POSITIVE));
    let y = |value: f64| base - CURVES * ((value - least) / span).clamp(0.0, 1.0);
    let x = |round: usize| {
        LEFT + (RIGHT - LEFT) * if rounds.len() > 1 { round as f64 / (rounds.len() - 1) as f64 } else { 0.5 }
    };
    let _ = writeln!(out, "<g>\n<text x=\"16\" y=\"{:.1}\" fill=\"#3c4753\">{name}, by round</text>", top + 12.0);
    for value in [most, last.upper, least] {
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT:.0}\" x2=\"{RIGHT:.0}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#d7dde3\"/>\
             <text x=\"{1:.0}\" y=\"{2:.1}\" text-anchor=\"end\" fill=\"#3c4753\">{3}</text>",
            y(value),
            LEFT - 8.0,
            y(value) + 4.0,
            short(value)
        );
    }
    for (colour, words, of) in [
        (UPPER, "best mixture", (|round: &Iteration| round.upper) as fn(&Iteration) -> f64),
        (LOWER, "proved bound", |round: &Iteration| round.lower),
    ] {
        let points = rounds.iter().enumerate().filter(|(_, round)| of(round).is_finite());
        let points: Vec<String> = points.map(|(at, round)| format!("{:.1},{:.1}", x(at), y(of(round)))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{words}</title></polyline>",
            points.join(" ")
        );
        for (at, round) in rounds.iter().enumerate().filter(|_| rounds.len() <= 60) {
            let value = of(round);
            if value.is_finite() {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\"><title>round {}: {words} {:e}</title></circle>",
                    x(at),
                    y(value),
                    at + 1,
                    value
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT:.0}\" y=\"{0:.1}\" fill=\"#3c4753\">round 1</text>\
         <text x=\"{RIGHT:.0}\" y=\"{0:.1}\" text-anchor=\"end\" fill=\"#3c4753\">round {1}</text>\n\
         <text x=\"320\" y=\"{0:.1}\" fill=\"{UPPER}\">— best mixture</text>\
         <text x=\"430\" y=\"{0:.1}\" fill=\"{LOWER}\">— proved bound</text>\n</g>",
        base + 18.0,
        rounds.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iteration(of_cost: bool, lower: f64, upper: f64) -> Iteration {
        Iteration { of_cost, lower, upper }
    }

    #[test]
    fn a_panel_per_objective_with_every_round() {
        let rounds = [
            iteration(false, f64::NEG_INFINITY, 4.0),
            iteration(false, 1.0, 2.0),
            iteration(false, 2.0, 2.0),
            iteration(true, 10.0, 12.0),
        ];
        let picture = draw(&rounds, "a & b");
        assert_eq!(picture.matches("<polyline").count(), 4);
        assert_eq!(picture.matches("<circle").count(), 3 + 2 + 2);
        assert!(picture.contains("a &amp; b") && picture.contains("R, by round") && picture.contains("round 3"));
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
        assert_eq!(draw(&rounds[..3], "t").matches("<polyline").count(), 2);
    }
}
