//! From the recordings of several hosts to a scenario with the same work: the same jobs on the same hosts, as many rounds of
//! the same size, with the same time to compute between them.
//!
//! What a recording has not is not made up: how long rounds took is left to the scheduler under test, traffic that is no job's
//! is left out, and without a topology every host hangs with its own rate on one switch that is never full.

mod merge;
mod shape;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sluice_formats::problem::{E_DUP, E_MISSING, Problem, Problems};
use sluice_formats::recording::Recording;
use sluice_schedule::Nanos;

use merge::Merged;
use shape::Shape;

/// GPUs of every host of a replay: nobody waits for one, since jobs came when they came.
const GPUS: u32 = 1024;

/// The work of recordings as a scenario, and what was seen of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The scenario.
    pub scenario: Value,
    /// The jobs as they were seen, in the order of the scenario.
    pub jobs: Vec<SeenJob>,
    /// What is left out or taken to be otherwise, in sentences.
    pub notes: Vec<String>,
}

/// A job as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenJob {
    /// Its id in the scenario.
    pub id: String,
    /// How many hosts sent for it.
    pub hosts: usize,
    /// Rounds in which it sent.
    pub rounds: usize,
    /// Mean length of a round, s.
    pub round_s: f64,
    /// From its arrival in the scenario to the end of its last round, s.
    pub time_s: f64,
    /// Bytes of a round over all its flows, as it is replayed.
    pub bytes: u64,
    /// Sum over the rounds as seen, over `bytes` times the rounds: 1 where all rounds are alike.
    pub bytes_ratio: f64,
}

/// Makes a scenario of recordings, one for each host. `topology`: the file that the network is read from.
///
/// # Errors
/// Two recordings of one host; nothing to replay.
pub fn replay(recordings: &[(String, Recording)], topology: Option<&str>) -> Result<Replay, Problems> {
    let mut notes = Vec::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, recording) in recordings {
        let name = recording.host.name.as_str();
        if let Some(other) = names.insert(name, file) {
            let what = format!("the recording is of host {name:?}, and so is {other}");
            return Err(Problem::new(E_DUP, "/host", what).allowed("one file for each host").in_file(file).into());
        }
        if recording.lost > 0 {
            notes.push(format!("{file}: {} lines are lost", recording.lost));
        }
        if recording.full {
            notes.push(format!("{file}: it ends where it reached its bound"));
        }
    }
    let merged = merge::merge(recordings, &mut notes);
    let start = merged.iter().map(Merged::began).min();
    let Some(start) = start else {
        let problem = Problem::new(E_MISSING, "", "no job has a whole round with bytes for another host");
        let file = recordings.first().map_or("", |(file, _)| file);
        return Err(problem.allowed("recordings of hosts whose jobs communicate").in_file(file).into());
    };
    let mut ids = BTreeSet::new();
    let (mut jobs, mut seen) = (Vec::new(), Vec::new());
    let mut order: Vec<&Merged> = merged.iter().collect();
    order.sort_by_key(|job| job.began());
    let mut hosts: BTreeSet<String> = recordings.iter().map(|(_, r)| id_of(&r.host.name)).collect();
    for job in order {
        let id = unique(id_of(&job.name), &mut ids);
        let shape = Shape::of(job);
        if let Some(note) = shape.note(job) {
            notes.push(format!("{id}: {note}"));
        }
        hosts.extend(job.flows.keys().flat_map(|flow| [flow.from.clone(), flow.to.clone()]));
        let (arrival, computes) = job.computes(start);
        let mut entry = shape.entry(job);
        entry["id"] = json!(id);
        entry["iterations"] = json!(job.rounds.len());
        entry["arrival_s"] = seconds(arrival);
        entry["compute_list_s"] = computes.iter().map(|time| seconds(*time)).collect();
        jobs.push(entry);
        seen.push(job.seen(id, start, arrival));
    }
    let scenario = json!({
        "version": 1,
        "name": "replay",
        "time": {"slot_ms": recordings.iter().map(|(_, r)| r.slot_ms).max().unwrap_or(60)},
        "network": topology.map_or_else(|| star(recordings, &hosts, &mut notes), |file| json!({"kind": "topology", "file": file, "gpus": GPUS})),
        "placement": {"policy": "explicit", "server_gpus": 0},
        "jobs": jobs,
        "scheduler": {"name": "fair", "sweep": ["fair", "sluice", "oracle"]},
    });
    Ok(Replay { scenario, jobs: seen, notes })
}

/// Every host with the sum of its links on one switch.
fn star(recordings: &[(String, Recording)], hosts: &BTreeSet<String>, notes: &mut Vec<String>) -> Value {
    let sum = |recording: &Recording| recording.host.links.iter().map(|link| link.rate).fold(0, u64::saturating_add);
    let rates: BTreeMap<String, u64> =
        recordings.iter().map(|(_, r)| (id_of(&r.host.name), sum(r))).filter(|(_, rate)| *rate > 0).collect();
    // Where nobody knows better: 10 Gbit/s.
    let usual = rates.values().copied().max().unwrap_or(10_000_000_000);
    let unknown: Vec<&str> = hosts.iter().filter(|host| !rates.contains_key(*host)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let usual = usual as f64 / 1e9;
        notes.push(format!("{} is taken to have {usual:.3} Gbit/s: nothing recorded its rate", unknown.join(", ")));
    }
    if recordings.iter().any(|(_, r)| r.host.links.len() > 1) {
        notes.push("hosts with several links have one, as fast as all of them".into());
    }
    notes.push("without a topology the network between hosts is never full".into());
    let links = hosts.iter().map(|host| {
        let rate = rates.get(host).copied().unwrap_or(usual);
        json!({"a": host, "b": SWITCH, "gbps": number(rate)})
    });
    json!({
        "kind": "explicit",
        "hosts": hosts.iter().map(|host| json!({"id": host, "gpus": GPUS})).collect::<Vec<_>>(),
        "switches": [{"id": SWITCH}],
        "links": links.collect::<Vec<_>>(),
    })
}

/// The switch in the middle; no host's id begins so, since ids of the format's hosts are lower case.
const SWITCH: &str = "SWITCH";

/// Nanoseconds as seconds, bits as gigabits: exact up to 2^53.
fn number(billionths: u64) -> Value {
    json!(billionths as f64 / 1e9)
}

fn seconds(time: Nanos) -> Value {
    number(time.0)
}

/// A name as a scenario's id.
fn id_of(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let text: String = name.chars().map(plain).take(56).collect();
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) { text } else { format!("x{text}") }
}

fn unique(id: String, taken: &mut BTreeSet<String>) -> String {
    let mut free = id.clone();
    let mut next = 2_u32;
    while !taken.insert(free.clone()) {
        free = format!("{id}-{next}");
        next += 1;
    }
    free
}

#[cfg(test)]
mod tests;
