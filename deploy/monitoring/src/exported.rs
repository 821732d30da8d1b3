//! What a program exports: names of metrics, their labels and, where those are words of ours, their values.

use std::collections::{BTreeMap, BTreeSet};

use crate::promql::{Matcher, Read};

/// Labels that Prometheus itself adds to every series it scrapes.
const SCRAPED: [&str; 2] = ["job", "instance"];
/// Labels whose values are an operator's or a job's.
const FREE: [&str; 12] = [
    "job",
    "instance",
    "job_id",
    "flow",
    "link",
    "switch",
    "cluster",
    "slot_ms",
    "horizon",
    "version",
    "revision",
    "interface",
];
/// What a histogram is on a page.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Metrics of one or several pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// By name: labels, each with the values that were seen.
    metrics: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Exported {
    /// Takes in a page in Prometheus' text form; lines that are none are left out.
    pub fn page(&mut self, page: &str) {
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some(end) = line.find(['{', ' ']) else { continue };
            let (name, rest) = line.split_at(end);
            let labels = self.metrics.entry(name.to_owned()).or_default();
            let Some(inside) = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')).map(|(inside, _)| inside)
            else {
                continue;
            };
            // Values of ours have no quotes in them; what is cleaned of them has none either.
            for pair in inside.split("\",") {
                if let Some((label, value)) = pair.split_once("=\"") {
                    labels.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
                }
            }
        }
    }

    /// Takes in one metric of which no series is there at the moment.
    pub fn metric(&mut self, name: &str, labels: &[&str]) {
        let known = self.metrics.entry(name.to_owned()).or_default();
        for label in labels {
            known.entry((*label).to_owned()).or_default();
        }
    }

    /// A histogram of which no series is there at the moment.
    pub fn histogram(&mut self, name: &str, labels: &[&str]) {
        for part in PARTS {
            self.metric(&format!("{name}{part}"), labels);
        }
        self.metric(&format!("{name}_bucket"), &["le"]);
    }

    /// Names of all metrics.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }

    /// What an expression says of metrics that are `mine` and is not so.
    pub fn faults(&self, read: &Read, mine: impl Fn(&str) -> bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut labels: BTreeSet<&str> = SCRAPED.into_iter().chain(read.made.iter().map(String::as_str)).collect();
        for named in read.metrics.iter().filter(|named| mine(&named.metric)) {
            let name = named.metric.as_str();
            let Some(known) = self.metrics.get(name) else {
                faults.push(format!("no metric {name} is exported"));
                continue;
            };
            labels.extend(known.keys().map(String::as_str));
            for matcher in &named.matchers {
                match known.get(&matcher.label) {
                    None if SCRAPED.contains(&matcher.label.as_str()) => {}
                    None => faults.push(format!("{name} has no label {}", matcher.label)),
                    Some(values) => faults.extend(strange(name, matcher, values)),
                }
            }
        }
        // Of an expression over several programs' metrics nobody here knows all labels.
        if read.metrics.iter().all(|named| mine(&named.metric)) {
            let unknown = read.grouped.iter().filter(|label| !labels.contains(label.as_str()));
            faults.extend(unknown.map(|label| format!("none of its metrics has the label {label}")));
        }
        faults
    }
}

/// Values that a condition waits for and that never come.
fn strange(name: &str, matcher: &Matcher, values: &BTreeSet<String>) -> Vec<String> {
    let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if FREE.contains(&matcher.label.as_str()) {
        return Vec::new();
    }
    let words: Vec<&str> =
        if matcher.operator.ends_with('~') { matcher.value.split('|').collect() } else { vec![matcher.value.as_str()] };
    let strange = words.into_iter().filter(|word| plain(word) && !values.contains(*word));
    strange.map(|word| format!("{name} never has {}=\"{word}\"", matcher.label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promql;

    fn said(expr: &str) -> Vec<String> {
        let mut exported = Exported::default();
        exported.page("# HELP a x\na{mode=\"on\",job_id=\"x,y\"} 1\na{mode=\"off\",job_id=\"z\"} 0\nb 2\n");
        exported.histogram("c", &["kind"]);
        exported.faults(&promql::read(expr).expect("readable"), |name| name != "foreign")
    }

    #[test]
    fn what_is_exported_is_no_fault() {
        for expr in [
            "a{mode=\"on\", job_id=\"whatever\"}",
            "sum by (mode) (a{mode=~\"on|off\"}) and on (instance) b{job=\"j\"}",
            "sum by (le, kind) (rate(c_bucket[5m]))",
            "sum by (mode, other) (a and foreign{x=\"y\"})",
            "count_values by (mode) (\"v\", a)",
        ] {
            assert!(said(expr).is_empty(), "{expr}: {:?}", said(expr));
        }
    }

    #[test]
    fn what_is_not_exported_is_named() {
        for (expr, fault) in [
            ("d", "no metric d"),
            ("c", "no metric c"),
            ("b{mode=\"on\"}", "b has no label mode"),
            ("a{mode=\"onn\"}", "never has mode=\"onn\""),
            ("a{mode=~\"on|of\"}", "never has mode=\"of\""),
            ("sum by (moda) (a)", "label moda"),
        ] {
            assert!(said(expr).iter().any(|said| said.contains(fault)), "{expr}: {:?}", said(expr));
        }
    }
}
