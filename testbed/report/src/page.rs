//! The HTML page: one file, no request to anywhere, readable without script, in the dark and on paper.

mod charts;
mod compared;
mod sections;
mod simulated;
mod style;
pub(crate) mod svg;

// Writing into a String cannot fail.
use std::fmt::Write as _;

use sluice_scenario::Scenario;

use crate::about::About;
use crate::json::json;
use crate::measured::PolicyRun;
use crate::simulated::{SimResult, document};

pub use compared::compared;

/// The page of runs on the testbed.
pub fn html(about: &About, runs: &[PolicyRun]) -> String {
    whole(about, &sections::all(about, runs), &json(about, runs).to_string())
}

/// The page of simulated runs. `scenario` is what ran; `runs` belong to `results`, one by one.
pub fn simulated(about: &About, scenario: &Scenario, results: &[SimResult], runs: &[PolicyRun]) -> String {
    whole(about, &simulated::all(about, results, runs), &document(scenario, results).to_string())
}

fn whole(about: &About, sections: &[String], data: &str) -> String {
    wrapped(&format!("Sluice: {}", about.scenario), sections, data)
}

fn wrapped(title: &str, sections: &[String], data: &str) -> String {
    let mut page = String::with_capacity(1 << 18);
    _ = write!(page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    _ = write!(page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    _ = write!(page, "<title>{}</title><style>{}</style></head><body><main>", text(title), style::CSS);
    sections.iter().for_each(|section| page.push_str(section));
    // Inside a script element markup could end it early; JSON can say "<" without one.
    let data = data.replace('<', "\\u003c");
    _ = write!(page, "<script type=\"application/json\" id=\"data\">{data}</script>");
    page.push_str("</main></body></html>\n");
    page
}

/// Text for HTML: nothing in it is markup.
pub(crate) fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => {}
            c => out.push(c),
        }
    }
    out
}
