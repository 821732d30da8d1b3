//! The end of the way: what orders of rounds come to in the simulator for the same jobs, which arrive and are placed alike,
//! on links that carry payload as a full segment does. One mind that knows everything at once, without losses and
//! bursts; the lowest mean of those that are tried.

use sluice_report::scoreboard::{Bound, Source, Tried};
use sluice_scenario::arrivals::isolated_s;
use sluice_scenario::{NodeIx, Policy, Scenario, Set};
use sluice_schedule::Rate;
use sluice_simulate::Watch;
use sluice_simulate::policy::static_order::MAX_JOBS;
use sluice_simulate::runs::{RunsError, Task, one};
use thiserror::Error;

use super::cases::Case;
use sluice_formats::problem::Problems;

/// Payload of a full segment with timestamps, and what it takes on a cable.
const PAYLOAD: u64 = 1448;
const FRAME: u64 = 1514;

/// Why there is no bound.
#[derive(Debug, Error)]
pub(super) enum OrderError {
    /// The scenario cannot be read in the simulator's mode.
    #[error(transparent)]
    Scenario(#[from] Problems),
    /// The simulator did not get to its end.
    #[error(transparent)]
    Run(#[from] RunsError),
}

/// Runs them all, in mode `event`.
pub(super) fn bound(case: &Case, source: &Source) -> Result<Bound, OrderError> {
    let mode = Set { key: "time.mode".into(), value: "event".into() };
    let sets: Vec<Set> = case.sets.iter().cloned().chain([mode]).collect();
    let mut scenario = Scenario::load_with(&case.file, &sets)?.for_testbed(&[])?;
    for link in &mut scenario.network.links {
        link.rate = payload(link.rate);
    }
    let mut tried = vec![run(&scenario, "sincronia", "sincronia".into())?];
    if scenario.jobs.len() <= MAX_JOBS {
        scenario.schedulers.options.static_search = true;
        tried.push(run(&scenario, "static", "the best static order of all".into())?);
    } else {
        for order in orders(&scenario) {
            scenario.schedulers.options.static_order = order.ids;
            tried.push(run(&scenario, "static", format!("static, {}", order.by))?);
        }
    }
    // Cards of one host end at switches of their own; between other switches there may be several ways.
    let own_routes = scenario.network.rails == 1 && scenario.network.switches.len() > 1;
    Ok(Bound { case: case.name.clone(), scenario: source.clone(), tried, own_routes })
}

fn payload(rate: Rate) -> Rate {
    Rate((u128::from(rate.0) * u128::from(PAYLOAD) / u128::from(FRAME)) as u64)
}

fn run(scenario: &Scenario, name: &str, by: String) -> Result<Tried, RunsError> {
    let policy = Policy { name: name.into(), variant: None };
    let ran = one(&Task { scenario, policy, profile: false }, &Watch::default())?;
    Ok(Tried { by, jct_mean_s: ran.result.result.figures.jct_mean_s })
}

/// A static order that is worth a try.
struct Ordered {
    by: &'static str,
    ids: Vec<String>,
}

/// Of more jobs than all orders can be tried of.
fn orders(scenario: &Scenario) -> Vec<Ordered> {
    let alone = |job: &sluice_scenario::Job| {
        let nic = scenario.network.nic(NodeIx(0));
        isolated_s(job.arch, job.bytes, job.workers, job.servers, nic)
    };
    let by = |by, value: &dyn Fn(&sluice_scenario::Job) -> f64| {
        let mut jobs: Vec<&sluice_scenario::Job> = scenario.jobs.iter().collect();
        jobs.sort_by(|a, b| value(a).total_cmp(&value(b)));
        Ordered { by, ids: jobs.into_iter().map(|job| job.id.clone()).collect() }
    };
    vec![
        by("shortest round first", &alone),
        by("shortest job first", &|job| f64::from(job.iterations) * (job.compute.as_secs_f64() + alone(job))),
        by("first come", &|job| job.arrival.as_secs_f64()),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::cases::chosen;
    use super::*;

    fn bound_of(name: &str) -> Bound {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let case = chosen(&[name.into()], &scenarios).expect("a case").remove(0);
        bound(&case, &Source::default()).expect("a bound")
    }

    #[test]
    fn few_jobs_have_the_best_order_of_all() {
        let bound = bound_of("two-rings");
        let names: Vec<&str> = bound.tried.iter().map(|t| t.by.as_str()).collect();
        assert_eq!(names, ["sincronia", "the best static order of all"]);
        // Computing as long as sending: taking turns, 50 iterations take 50 · 2 parts of 0.4597 s, at payload rates a
        // little more; in step they would take 3 parts.
        let (part, best) = (0.459_735_168, bound.best().expect("some").jct_mean_s);
        assert!(best > 100.0 * part && best < 115.0 * part, "{bound:?}");
        assert!(!bound.own_routes);
    }

    #[test]
    fn many_jobs_have_some_and_the_lowest_is_taken() {
        let bound = bound_of("demo-alone");
        assert_eq!(bound.tried.len(), 4, "{bound:?}");
        let least = bound.tried.iter().map(|t| t.jct_mean_s).fold(f64::INFINITY, f64::min);
        assert_eq!(bound.best().map(|t| t.jct_mean_s), Some(least));
        assert!(least > 0.0 && bound.tried.iter().any(|t| t.jct_mean_s > least), "{bound:?}");
    }

    #[test]
    fn a_link_carries_its_payload() {
        assert_eq!(payload(Rate(1_514_000)), Rate(1_448_000));
        assert_eq!(payload(Rate(u64::MAX)).0, (u128::from(u64::MAX) * 1448 / 1514) as u64);
    }
}
