//! `sluice limits`: every bound, how much of it is used, and what happens beyond: those of the daemon's program, those of its
//! configuration, and those that the kernel holds it to.

mod kernel;

use serde::Serialize;
use sluice_wire::snapshot::Snapshot;

use crate::client::Client;
use crate::failure::Failure;
use crate::format::{UNKNOWN, grouped};
use crate::global::Global;
use crate::output;
use crate::table::Table;

/// One bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    pub name: String,
    /// How much is used; null: it is not counted.
    pub used: Option<u64>,
    /// The most that may be; null: the kernel sets no bound.
    pub allowed: Option<u64>,
    pub unit: String,
    /// Who holds it: `program`, `configuration` or `kernel`.
    pub of: &'static str,
    /// What becomes of more.
    pub beyond: String,
}

pub fn run(global: &Global) -> Result<(), Failure> {
    let client = Client::new(global)?;
    let snapshot = match client.snapshot() {
        Ok(snapshot) => Some(snapshot),
        Err(failure) if failure.code == 4 => {
            eprintln!("without a daemon nothing is used: these are the limits alone");
            None
        }
        Err(failure) => return Err(failure),
    };
    let mut limits = of_program(snapshot.as_ref());
    if let Some(snapshot) = &snapshot {
        limits.extend(of_configuration(snapshot));
        // Of another host's process this kernel knows nothing.
        if global.host.is_none() {
            limits.extend(kernel::limits(snapshot.daemon.pid, std::path::Path::new("/run/sluice/progress")));
        }
    }
    output::list(global, "limits", &limits, || text(&limits))
}

fn of_program(snapshot: Option<&Snapshot>) -> Vec<Limit> {
    let used = |name: &str| {
        let snapshot = snapshot?;
        Some(match name {
            "jobs" => snapshot.jobs_running() as u64,
            "connections" => snapshot.flows.len() as u64,
            "pages" => snapshot.daemon.progress_pages,
            "links" | "metric-links" => snapshot.links.iter().filter(|link| link.own).count() as u64,
            "switches" | "metric-switches" => snapshot.switches.iter().filter(|switch| !switch.peer).count() as u64,
            "peer-connections" => snapshot.switches.iter().filter(|switch| switch.peer).count() as u64,
            _ => return None,
        })
    };
    let limit = |fixed: sluiced::limits::Limit| Limit {
        name: fixed.name.into(),
        used: used(fixed.name),
        allowed: Some(fixed.allowed),
        unit: fixed.unit.into(),
        of: "program",
        beyond: fixed.beyond.into(),
    };
    sluiced::limits::fixed().into_iter().map(limit).collect()
}

fn of_configuration(snapshot: &Snapshot) -> Vec<Limit> {
    let limit = |name: &str, used: Option<u64>, allowed: u64, unit: &str, beyond: &str| Limit {
        name: name.into(),
        used,
        allowed: Some(allowed),
        unit: unit.into(),
        of: "configuration",
        beyond: beyond.into(),
    };
    let jobs = (snapshot.jobs_running() as u64).min(snapshot.daemon.metrics_max_jobs as u64);
    let enforcement = &snapshot.enforcement;
    let error = snapshot.clock.max_error_ns.map(|ns| ns / 1000);
    vec![
        limit(
            "enforce.max_flows",
            Some(enforcement.rows_used),
            enforcement.rows,
            "flows",
            "further flows run under ordinary TCP",
        ),
        limit(
            "enforce.deadline_slots",
            enforcement.renewed_ago_ns.map(|ns| ns / 1000),
            enforcement.deadline_ns / 1000,
            "µs since orders were renewed",
            "the kernel gives the flow back",
        ),
        limit(
            "clock.max_error_ms",
            error,
            snapshot.clock.allowed_error_ns / 1000,
            "µs of error",
            "slots are not trusted: own links only",
        ),
        limit(
            "metrics.max_jobs",
            Some(jobs),
            snapshot.daemon.metrics_max_jobs as u64,
            "job ids",
            "more are summed as _other",
        ),
    ]
}

fn text(limits: &[Limit]) -> String {
    let mut table = Table::new(["LIMIT", ">USED", ">ALLOWED", "UNIT", "OF", "BEYOND"]);
    let number = |number: Option<u64>| number.map_or(UNKNOWN.into(), grouped);
    for limit in limits {
        table.row(vec![
            limit.name.clone(),
            number(limit.used),
            number(limit.allowed),
            limit.unit.clone(),
            limit.of.into(),
            limit.beyond.clone(),
        ]);
    }
    table.render(output::width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stands_beside_what_is_allowed() {
        let snapshot: Snapshot =
            serde_json::from_str(include_str!("../tests/data/snapshot.json")).expect("the committed snapshot");
        let all: Vec<Limit> = of_program(Some(&snapshot)).into_iter().chain(of_configuration(&snapshot)).collect();
        let one = |name: &str| all.iter().find(|limit| limit.name == name).expect(name);
        assert_eq!((one("jobs").used, one("jobs").allowed), (Some(snapshot.jobs_running() as u64), Some(256)));
        assert_eq!(one("enforce.max_flows").allowed, Some(snapshot.enforcement.rows));
        assert_eq!(one("message").used, None, "it is not counted");
        for limit in &all {
            let within = limit.used.zip(limit.allowed).is_none_or(|(used, allowed)| used <= allowed);
            assert!(within && !limit.beyond.is_empty(), "{limit:?}");
        }
        assert!(text(&all).lines().count() > all.len());
    }

    #[test]
    fn without_a_daemon_nothing_is_used() {
        assert!(of_program(None).iter().all(|limit| limit.used.is_none()));
    }
}
