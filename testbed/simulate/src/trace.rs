//! A run as a file for Perfetto or `chrome://tracing`.

use std::io::{self, Write};

use serde_json::json;
use sluice_scenario::Scenario;
use sluice_schedule::Nanos;

use super::log::{JobLog, Outcome, Timeline};
use super::world::JobIx;

/// Writes a run as Chrome trace events: one process per job with its compute phases and rounds, and a counter of its
/// sending rate in Gbit/s where there is a timeline. Times in microseconds.
///
/// # Errors
/// What the writer says.
pub fn perfetto(scenario: &Scenario, outcome: &Outcome, mut to: impl Write) -> io::Result<()> {
    to.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    let name = json!({"name": "process_name", "ph": "M", "pid": 0, "args": {"name": scenario.name}});
    write!(to, "{name}")?;
    for (pid, (job, log)) in (1..).zip(scenario.jobs.iter().zip(&outcome.jobs)) {
        let name = json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": job.id}});
        write!(to, ",\n{name}")?;
        spans(pid, log, &mut to)?;
    }
    if let Some(timeline) = &outcome.timeline {
        counters(timeline, &mut to)?;
        if timeline.cut {
            let at = timeline.changes.last().map_or(0.0, |c| micros(c.at));
            write!(
                to,
                ",\n{}",
                json!({"name": "the log ends here", "ph": "i", "s": "g", "pid": 0, "tid": 0, "ts": at})
            )?;
        }
    }
    to.write_all(b"\n]}\n")
}

fn micros(t: Nanos) -> f64 {
    t.0 as f64 / 1e3
}

fn spans(pid: usize, log: &JobLog, to: &mut impl Write) -> io::Result<()> {
    let mut span = |name: &str, tid: u32, from: Nanos, until: Nanos| {
        let dur = micros(until.minus(from));
        write!(to, ",\n{}", json!({"name": name, "ph": "X", "pid": pid, "tid": tid, "ts": micros(from), "dur": dur}))
    };
    if let Some(started) = log.started.filter(|&s| s > log.arrival) {
        span("waits for GPUs", 0, log.arrival, started)?;
    }
    for round in &log.rounds {
        span("compute", 0, round.compute, round.began)?;
        span("round", 1, round.began, round.ended)?;
    }
    Ok(())
}

/// The sum of each job's rates after every instant at which one of them changed.
fn counters(timeline: &Timeline, to: &mut impl Write) -> io::Result<()> {
    let mut rates: std::collections::HashMap<JobIx, (f64, std::collections::HashMap<u32, f64>)> = Default::default();
    let mut instant = timeline.changes.as_slice();
    while let Some(first) = instant.first() {
        let count = instant.iter().take_while(|c| c.at == first.at).count();
        let (now, later) = instant.split_at(count);
        let mut touched: Vec<JobIx> = Vec::new();
        for change in now {
            let (sum, flows) = rates.entry(change.job).or_default();
            *sum += change.rate - flows.insert(change.flow, change.rate).unwrap_or(0.0);
            if flows.values().all(|&r| r == 0.0) {
                *sum = 0.0;
            }
            touched.push(change.job);
        }
        touched.sort_unstable();
        touched.dedup();
        for job in touched {
            let gbps = rates.get(&job).map_or(0.0, |(sum, _)| sum * 8.0 / 1e9);
            let event =
                json!({"name": "Gbit/s", "ph": "C", "pid": job.0 + 1, "ts": micros(first.at), "args": {"rate": gbps}});
            write!(to, ",\n{event}")?;
        }
        instant = later;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Change, Orders, Scheduler, Watch, World};
    use sluice_scenario::Notation;

    struct Equal;

    impl Scheduler for Equal {
        fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
    }

    #[test]
    fn the_log_has_every_rate_and_the_file_is_json() {
        let job = |id: &str, gb: u32| {
            format!(
                "[[jobs]]\nid = \"{id}\"\nbytes = {gb}000000000\ncompute_s = 1\narch = \"ring\"\nworkers = 2\niterations = 1\n"
            )
        };
        let text = format!(
            "version = 1\nname = \"t\"\noutput = {{timeline = true}}\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"spread\"\n{}{}",
            job("long", 4),
            job("short", 1)
        );
        let s = Scenario::parse(&text, Notation::Toml, "t", Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
        let o = crate::run(&s, &mut Equal, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
        let seen: Vec<(u64, usize, u32, f64)> =
            o.timeline.iter().flat_map(|t| &t.changes).map(|c| (c.at.0 / 1_000_000, c.job.0, c.flow, c.rate)).collect();
        let (half, all) = (0.5e9, 1e9);
        let want = [
            [(1000, 0, 0, half), (1000, 0, 1, half), (1000, 1, 0, half), (1000, 1, 1, half)],
            [(3000, 1, 0, 0.0), (3000, 1, 1, 0.0), (3000, 0, 0, all), (3000, 0, 1, all)],
        ];
        assert_eq!(seen.get(..8), Some(want.concat().as_slice()));
        let mut file = Vec::new();
        perfetto(&s, &o, &mut file).unwrap_or_else(|e| panic!("{e}"));
        let value: serde_json::Value = serde_json::from_slice(&file).unwrap_or_else(|e| panic!("{e}"));
        let events = value["traceEvents"].as_array().cloned().unwrap_or_default();
        let spans = events.iter().filter(|e| e["ph"] == "X").count();
        assert_eq!(spans, 4);
        let rates: Vec<f64> =
            events.iter().filter(|e| e["pid"] == 2).filter_map(|e| e["args"]["rate"].as_f64()).collect();
        assert_eq!(rates, [8.0, 0.0]);
    }
}
