//! The specification's ten worked examples, exact: equal shares, start-after, and every static order.
//! `testbed/simulate/tests/vectors/simulation.json` is a copy of the specification's public vectors.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_formats::quantity::Rational;
use sluice_scenario::{Dependency, Notation, Scenario};

use super::{Strict, fair, go};
use crate::Outcome;

const VECTORS: &str = include_str!("../../../tests/vectors/simulation.json");

/// A fraction of the file in nanoseconds.
fn ns(value: &Value) -> f64 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Rational::parse_setting(&text).unwrap_or_else(|e| panic!("{text}: {e:?}")).to_f64() * 1e9
}

/// The clock has nanoseconds, and an end is rounded up: a nanosecond for each event on the way.
fn near(got: u64, want: &Value, what: &str) {
    assert!((got as f64 - ns(want)).abs() <= 10.0, "{what}: {got} ns, {want} s");
}

fn check(name: &str, scenario: &Scenario, outcome: &Outcome, want: &Value) {
    for (job, spec) in outcome.jobs.iter().zip(&scenario.jobs) {
        let what = format!("{name}, job {}", spec.id);
        let ended = job.ended.unwrap_or_else(|| panic!("{what} has no end"));
        near(ended.minus(job.arrival).0, &want["jct"][&spec.id], &what);
        near(job.started.unwrap_or_default().0, &want["start"][&spec.id], &what);
        let rounds = want["rounds"][&spec.id].as_array().cloned().unwrap_or_default();
        assert_eq!(rounds.len(), job.rounds.len(), "{what}");
        for (got, want) in job.rounds.iter().zip(&rounds) {
            near(got.began.0, &want[0], &what);
            near(got.ended.0, &want[1], &what);
        }
    }
    let Some(links) = want["bytes_per_link"].as_object() else { return };
    let mut carried: BTreeMap<String, f64> = BTreeMap::new();
    for (log, link) in outcome.links.iter().zip(&scenario.network.links) {
        let ends = format!("{}>{}", scenario.network.name(link.from), scenario.network.name(link.to));
        *carried.entry(ends).or_default() += log.bytes;
    }
    for (link, bytes) in carried {
        let want = links.get(&link).map_or(0.0, |b| ns(b) / 1e9);
        assert!((bytes - want).abs() <= 1e-9 * want, "{name}, {link}: {bytes} for {want}");
    }
}

#[test]
fn the_worked_examples() {
    let file: Value = serde_json::from_str(VECTORS).unwrap_or_else(|e| panic!("{e}"));
    let vectors = file["vectors"].as_array().cloned().unwrap_or_default();
    assert_eq!(vectors.len(), 10);
    for v in &vectors {
        let name = v["name"].as_str().unwrap_or_default();
        let mut s = Scenario::parse(&v["scenario"].to_string(), Notation::Json, name, std::path::Path::new("."))
            .unwrap_or_else(|e| panic!("{e}"));
        let outcome = fair(&s);
        check(name, &s, &outcome, &v["fair"]);
        for (job, spec) in outcome.jobs.iter().zip(&s.jobs) {
            near(job.isolated_run.0, &v["isolated_jct"][&spec.id], name);
        }
        for (order, mean) in v["ideal_order"]["mean_jct_by_order"].as_object().into_iter().flatten() {
            let ids: Vec<String> = order.split(',').map(str::to_owned).collect();
            let got = go(&s, &mut Strict(ids)).unwrap_or_else(|e| panic!("{e}"));
            let sum: u64 = got.jobs.iter().map(|j| j.ended.unwrap_or_default().minus(j.arrival).0).sum();
            near(sum / s.jobs.len() as u64, mean, &format!("{name} in order {order}"));
        }
        let best: Vec<String> = v["ideal_order"]["order"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|o| Some(o.as_str()?.to_owned()))
            .collect();
        check(name, &s, &go(&s, &mut Strict(best)).unwrap_or_else(|e| panic!("{e}")), &v["ideal_order"]);
        s.jobs.iter_mut().for_each(|j| j.dependency = Dependency::StartAfter);
        check(name, &s, &fair(&s), &v["fair_start_after"]);
    }
}
