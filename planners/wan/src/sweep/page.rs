//! A sweep as one HTML page that loads nothing: what was swept, the picture, and the table behind it, in the dark and on paper.

use std::fmt::Write as _;

use sluice_formats::topology::draw::escape;

use super::{Spread, Sweep, chart};

/// The sheet; its colours are variables, so that the dark and the printer get their own.
const STYLE: &str = include_str!("page.css");

/// What a page says besides the figures.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// The title.
    pub title: &'a str,
    /// Facts by name, as they are to stand there.
    pub facts: &'a [(&'a str, String)],
    /// The same figures as JSON, for programs.
    pub data: &'a str,
}

/// Writes the page.
pub fn html(sweep: &Sweep, about: &About<'_>) -> String {
    let title = escape(about.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>"
    );
    if let Some(answer) = answer(sweep) {
        let _ = write!(page, "<p class=\"answer\">{}</p>", escape(&answer));
    }
    let _ = write!(
        page,
        "<section><h2>Mean completion time</h2><p class=\"soft\">Mean over collectives, then over seeds; point at a dot for its figures. \
         No plan goes below the dotted line.</p>{}</section>",
        chart::svg(sweep)
    );
    let _ = write!(
        page,
        "<section><h2>Figures</h2><p class=\"soft\">Seconds, and the standard deviation over seeds, which is that of the instances, not of the method.</p>{}</section>",
        table(sweep)
    );
    page.push_str("<section><h2>What was swept</h2><dl>");
    for (name, fact) in about.facts {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(fact));
    }
    page.push_str("</dl></section>");
    // Inside a script element markup could end it early; JSON can say "<" without one.
    let data = about.data.replace('<', "\\u003c");
    let _ = writeln!(page, "<script type=\"application/json\" id=\"data\">{data}</script></main></body></html>");
    page
}

/// The best method and the worst at the largest number of collectives, in a sentence.
fn answer(sweep: &Sweep) -> Option<String> {
    let count = *sweep.collectives.last()?;
    let means = sweep.methods.iter().enumerate();
    let means: Vec<(&str, f64)> =
        means.filter_map(|(place, method)| Some((method.word(), sweep.spread(place, count)?.mean))).collect();
    let best = means.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let worst = means.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let bound = sweep.bounds(count)?.mean;
    Some(format!(
        "With {count} collectives {} takes {:.2} s and {} {:.2} s; no plan takes less than {bound:.2} s.",
        best.0, best.1, worst.0, worst.1
    ))
}

/// A row per method, a column per number of collectives, the best of each column marked.
fn table(sweep: &Sweep) -> String {
    let mut out = String::from("<div class=\"scroll\"><table><thead><tr><th>collectives</th>");
    sweep.collectives.iter().for_each(|count| _ = write!(out, "<th>{count}</th>"));
    out.push_str("</tr></thead><tbody>");
    let mean = |place: usize, count: usize| sweep.spread(place, count);
    let best: Vec<f64> = sweep
        .collectives
        .iter()
        .map(|count| {
            let means = (0..sweep.methods.len()).filter_map(|place| Some(mean(place, *count)?.mean));
            means.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let cell = |out: &mut String, spread: Option<Spread>, is_best: bool| {
        let class = if is_best { " class=\"good\"" } else { "" };
        _ = match spread {
            Some(Spread { mean, deviation, .. }) => {
                write!(out, "<td{class}>{mean:.2} <span class=\"soft\">± {deviation:.2}</span></td>")
            }
            None => write!(out, "<td>–</td>"),
        };
    };
    for (place, method) in sweep.methods.iter().enumerate() {
        _ = write!(out, "<tr><td>{}</td>", escape(method.word()));
        for (count, best) in sweep.collectives.iter().zip(&best) {
            let spread = mean(place, *count);
            cell(&mut out, spread, spread.is_some_and(|spread| spread.mean <= *best));
        }
        out.push_str("</tr>");
    }
    out.push_str("<tr class=\"soft\"><td>lower bound</td>");
    sweep.collectives.iter().for_each(|count| cell(&mut out, sweep.bounds(*count), false));
    out.push_str("</tr></tbody></table></div>");
    out
}
