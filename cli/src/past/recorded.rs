//! From a recording: rounds with their begin, end and bytes. It knows no orders; a flow has its mean rate over its round.

use std::collections::BTreeMap;

use sluice_formats::recording::Recording;

use super::{Past, PastFlow, PastJob, Round, Run};

/// A longer file is cut: a week of 60 ms.
const MAX_SLOTS: u64 = 10_080_000;

/// The whole recording.
pub fn read(recording: &Recording) -> Past {
    let slot_ns = recording.slot_ms.max(1).saturating_mul(1_000_000);
    let first = recording.rounds.iter().map(|round| round.began).chain([recording.began]).min().unwrap_or(0) / slot_ns;
    let begin = first * slot_ns;
    let mut past = Past {
        host: recording.host.name.clone(),
        version: "(recorded)".into(),
        slot_length_ns: slot_ns,
        first_slot: first as u32,
        ..Past::default()
    };
    let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, (name, _)) in &recording.jobs {
        jobs.insert(id, past.jobs.len());
        past.jobs.push(PastJob { name: name.clone(), ..PastJob::default() });
    }
    let mut flows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for round in &recording.rounds {
        let Some(&job) = jobs.get(round.job.as_str()) else { continue };
        let from = (round.began - begin) / slot_ns;
        if from >= MAX_SLOTS {
            continue;
        }
        let slots = (round.ended.saturating_sub(round.began)).div_ceil(slot_ns).clamp(1, MAX_SLOTS - from);
        past.slots = past.slots.max(from + slots);
        if let Some(job) = past.jobs.get_mut(job) {
            let number = job.rounds.len() as u64 + 1;
            let (began_ns, ended_ns) = (round.began - begin, Some(round.ended.saturating_sub(begin)));
            job.rounds.push(Round { number, began_ns, ended_ns });
        }
        let time = (slots * slot_ns) as f64 / 1e9;
        for (place, (to, _, bytes)) in round.flows.iter().enumerate() {
            let flow = *flows.entry((job, place)).or_insert_with(|| {
                let id = format!("{:016x}", past.flows.len() + 1);
                past.flows.push(PastFlow { id, to: to.clone(), job, runs: Vec::new() });
                past.flows.len() - 1
            });
            let run = Run { from, slots, delivered_bps: (*bytes as f64 * 8.0 / time) as u64, ..Run::default() };
            // Rounds of one job do not overlap; where a file says so, the later one counts.
            if let Some(flow) = past.flows.get_mut(flow) {
                flow.runs.push(run);
            }
        }
    }
    for flow in &mut past.flows {
        flow.runs.sort_by_key(|run| run.from);
    }
    past
}
