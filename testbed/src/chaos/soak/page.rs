//! A soak as one page for people: its figures, and a small picture of every process's memory. Pure.

use std::fmt::Write as _;

use super::slope::Series;
use super::{Report, Shown};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Soak</title>\n\
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}\
td.n{text-align:right;font-variant-numeric:tabular-nums}.bad{background:#fdd}svg{width:15em;height:3em}\
polyline{fill:none;stroke:#36c;stroke-width:1.5;vector-effect:non-scaling-stroke}</style></head><body>\n";

/// Text as it may stand in a page.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Memory over time; the height is from 0 to the most.
fn picture(series: &Series) -> String {
    let most = series.readings.iter().map(|reading| reading.rss_mib).fold(1e-9, f64::max);
    let end = series.readings.last().map_or(1.0, |reading| reading.t_s).max(1e-9);
    let step = series.readings.len().div_ceil(300).max(1);
    let mut points = String::new();
    for reading in series.readings.iter().step_by(step) {
        _ = write!(points, "{:.2},{:.2} ", reading.t_s / end * 100.0, 20.0 - reading.rss_mib / most * 19.0);
    }
    format!(
        "<svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\"><polyline points=\"{}\"/></svg>",
        points.trim_end()
    )
}

fn part(text: &mut String, shown: &Shown) {
    let title = match shown.part {
        super::Part::Thousand => "A thousand hosts, ten minutes of virtual time",
        super::Part::Day => "Eight hosts, a day of virtual time, with faults",
        super::Part::Daemons => "Real daemons under faults",
        super::Part::Flows => "Thousands of flows on one real daemon",
    };
    _ = writeln!(text, "<h2>{title}: {}</h2>", if shown.passes() { "pass" } else { "fail" });
    if !shown.why.is_empty() {
        _ = writeln!(text, "<p class=\"bad\">{}</p>", plain(&shown.why));
    }
    if !shown.figures.is_empty() {
        text.push_str("<table><tr><th>figure</th><th>seen</th><th>bar</th><th></th></tr>\n");
        for figure in &shown.figures {
            let class = if figure.passes(0.0) { "" } else { " class=\"bad\"" };
            _ = writeln!(
                text,
                "<tr{class}><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                plain(&figure.what),
                plain(&figure.seen_text()),
                plain(&figure.bar_text()),
                plain(&figure.note)
            );
        }
        text.push_str("</table>\n");
    }
    let read: Vec<&Series> = shown.series.iter().filter(|series| series.readings.len() > 1).collect();
    if !read.is_empty() {
        text.push_str("<table><tr><th>process</th><th>memory</th><th>most</th><th>growth</th></tr>\n");
        for series in read {
            let most = series.readings.iter().map(|reading| reading.rss_mib).fold(0.0, f64::max);
            let slope = series.memory();
            _ = writeln!(
                text,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{most:.1} MiB</td><td class=\"n\">{:.2} ± {:.2} MiB/h</td></tr>",
                plain(&series.name),
                picture(series),
                slope.per_hour,
                slope.error
            );
        }
        text.push_str("</table>\n");
    }
}

/// The page.
pub(super) fn of(report: &Report) -> String {
    let mut text = HEAD.to_owned();
    _ = writeln!(
        text,
        "<h1>Soak: {}</h1><p>{} h for each part with real daemons, seed {}, load {:.1} at the end.</p>",
        if report.pass { "pass" } else { "fail" },
        report.hours,
        report.seed,
        report.load
    );
    report.parts.iter().for_each(|shown| part(&mut text, shown));
    text + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::super::slope::Reading;
    use super::*;
    use crate::chaos::figure::{Figure, Unit};

    #[test]
    fn what_failed_is_marked_and_nothing_is_markup() {
        let reading = |n: u32| Reading { t_s: f64::from(n), rss_mib: 40.0, descriptors: 9, threads: 3 };
        let series = vec![Series { name: "<x>".into(), readings: (0..10).map(reading).collect() }];
        let figures = vec![Figure::at_most("a & b", 2.0, Unit::Count, 1.0)];
        let shown = Shown { part: Part::Flows, figures, series, why: String::new() };
        let report = Report { hours: 1.0, seed: 7, load: 0.5, parts: vec![shown], pass: false, page: "x".into() };
        let text = of(&report);
        assert!(text.contains("a &amp; b") && text.contains("&lt;x&gt;") && text.contains("class=\"bad\""), "{text}");
        assert!(text.contains("polyline points=\"0.00,1.00"), "{text}");
    }
}
