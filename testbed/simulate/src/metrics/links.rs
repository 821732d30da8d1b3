//! Links: what each carried, how busy it was, how often jobs met on it; and the same by tier.

use std::collections::BTreeMap;

use sluice_report::simulated::{LinkFigures, Tier};
use sluice_report::stats::mean;
use sluice_scenario::{Link, Scenario};

use crate::log::Outcome;

/// What a run's links carried.
pub(super) struct Links {
    /// Those that carried anything.
    pub(super) links: Vec<LinkFigures>,
    /// All tiers.
    pub(super) tiers: Vec<Tier>,
    /// Mean overlap of links on which jobs had flows.
    pub(super) overlap: f64,
}

pub(super) fn figures(scenario: &Scenario, outcome: &Outcome, makespan_s: f64) -> Links {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let mut links = Vec::new();
    let mut tiers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut overlaps = Vec::new();
    for (link, log) in scenario.network.links.iter().zip(&outcome.links) {
        let utilisation = share(log.bytes, link.rate.0 as f64 / 8.0 * makespan_s);
        tiers.entry(tier(scenario, link)).or_default().push(utilisation);
        let overlap = share(log.shared as f64, log.busy_jobs as f64);
        if log.busy_jobs > 0 {
            overlaps.push(overlap);
        }
        if log.busy > 0 {
            let name = |n| scenario.network.name(n);
            links.push(LinkFigures {
                link: format!("{}->{}", name(link.from), name(link.to)),
                bytes: log.bytes,
                utilisation,
                busy: share(log.busy as f64 / 1e9, makespan_s),
                overlap,
            });
        }
    }
    let tiers = tiers.into_iter().map(|(tier, values)| Tier {
        tier,
        links: values.len(),
        mean: mean(&values),
        max: values.iter().copied().fold(0.0, f64::max),
    });
    Links { links, tiers: tiers.collect(), overlap: mean(&overlaps) }
}

fn tier(scenario: &Scenario, link: &Link) -> String {
    let network = &scenario.network;
    let letters = |n| network.name(n).trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned();
    match (network.is_host(link.from), network.is_host(link.to)) {
        (true, true) => "host-host".into(),
        (true, false) => "host-up".into(),
        (false, true) => "host-down".into(),
        (false, false) => format!("{}-{}", letters(link.from), letters(link.to)),
    }
}
