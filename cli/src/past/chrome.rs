//! From Chrome's trace JSON, as the daemon writes it. Any file of that form is survived; what is not of the daemon is left out.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use sluice_formats::problem::printable;
use sluice_wire::snapshot::{ConditionCode, Mode};

use super::{Held, Load, Past, PastFlow, PastJob, Round, Run};

/// A trace of more slots is no timeline of a daemon's ring: an hour of 5 ms.
const MAX_SLOTS: u64 = 720_000;
/// Longest name that is kept.
const MAX_NAME: usize = 128;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    other_data: Other,
    trace_events: Vec<Event>,
}

#[derive(Deserialize)]
struct Other {
    #[serde(default)]
    host: String,
    #[serde(default)]
    version: String,
    slot_length_ns: u64,
    #[serde(default)]
    first_slot: u32,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    name: String,
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ts: f64,
    dur: Option<f64>,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    args: Map<String, Value>,
}

/// Reads a whole trace.
///
/// # Errors
/// What is wrong with it, in a clause.
pub fn read(bytes: &[u8]) -> Result<Past, String> {
    let trace: Trace =
        serde_json::from_slice(bytes).map_err(|error| format!("not a trace of sluice timeline: {error}"))?;
    let other = trace.other_data;
    if !(1_000_000..=1_000_000_000).contains(&other.slot_length_ns) {
        return Err(format!("slot_length_ns is {}, allowed: 1 ms to 1 s", other.slot_length_ns));
    }
    let mut past = Past {
        host: printable(&other.host, MAX_NAME),
        version: printable(&other.version, MAX_NAME),
        slot_length_ns: other.slot_length_ns,
        first_slot: other.first_slot,
        ..Past::default()
    };
    let mut reader = Reader { past: &mut past, jobs: BTreeMap::new(), flows: BTreeMap::new() };
    // Names stand anywhere in a trace.
    trace.trace_events.iter().filter(|event| event.ph == "M").for_each(|event| reader.name(event));
    trace.trace_events.iter().filter(|event| event.ph != "M").for_each(|event| reader.event(event));
    for flow in &mut past.flows {
        flow.runs.sort_by_key(|run| run.from);
    }
    past.flows.retain(|flow| !flow.runs.is_empty());
    Ok(past)
}

struct Reader<'p> {
    past: &'p mut Past,
    /// Index of a job by process id.
    jobs: BTreeMap<u64, usize>,
    /// Index of a flow by process and thread id.
    flows: BTreeMap<(u64, u64), usize>,
}

impl Reader<'_> {
    fn name(&mut self, event: &Event) {
        let name = event.args.get("name").and_then(Value::as_str).unwrap_or_default();
        if event.name == "process_name" {
            let Some(rest) = name.strip_prefix("job ") else { return };
            let name = rest.rsplit_once(" on ").map_or(rest, |(name, _)| name);
            let job = self.job(event.pid);
            if let Some(job) = self.past.jobs.get_mut(job) {
                job.name = printable(name, MAX_NAME);
            }
        } else if event.name == "thread_name" {
            let id = printable(name, MAX_NAME);
            let flow = self.flow(event.pid, event.tid);
            if let Some(flow) = self.past.flows.get_mut(flow) {
                flow.id = id;
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let Some(from) = self.slot(event.ts) else { return };
        match event.ph.as_str() {
            "X" => self.run(event, from),
            "C" => self.load(event, from),
            "b" | "e" if event.cat == "condition" => self.condition(event, from),
            "b" | "e" => self.round(event),
            "i" => {
                let word = event.name.strip_prefix("mode ").unwrap_or_default();
                if let Some(mode) = Mode::ALL.into_iter().find(|mode| mode.as_str() == word) {
                    self.past.modes.push((from, mode));
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, event: &Event, from: u64) {
        let number = |key: &str| event.args.get(key).and_then(Value::as_u64);
        let word = |key: &str| printable(event.args.get(key).and_then(Value::as_str).unwrap_or_default(), MAX_NAME);
        // Of another program.
        if !event.args.contains_key("ordered_bps") {
            return;
        }
        let slots = self.slot(event.dur.unwrap_or(0.0)).unwrap_or(1).max(1);
        let run = Run {
            from,
            slots,
            ordered_bps: number("ordered_bps"),
            delivered_bps: number("delivered_bps").unwrap_or(0),
            remaining_bytes: number("remaining_bytes"),
            why: word("why"),
            trigger: word("trigger"),
        };
        let flow = self.flow(event.pid, event.tid);
        if let Some(flow) = self.past.flows.get_mut(flow) {
            flow.runs.push(run);
        }
        self.reaches(from.saturating_add(slots));
    }

    fn load(&mut self, event: &Event, from: u64) {
        let bps = |key: &str| (event.args.get(key).and_then(Value::as_f64).unwrap_or(0.0).max(0.0) * 1e6) as u64;
        let load = Load {
            scheduled_bps: bps("scheduled_mbps"),
            managed_bps: bps("delivered_mbps"),
            other_bps: bps("other_mbps"),
            capacity_bps: bps("capacity_mbps"),
        };
        self.past.links.entry(printable(&event.name, MAX_NAME)).or_default().insert(from, load);
        self.reaches(from.saturating_add(1));
    }

    fn round(&mut self, event: &Event) {
        let Some(number) = event.name.strip_prefix("round ").and_then(|number| number.parse::<u64>().ok()) else {
            return;
        };
        let at = (event.ts.max(0.0) * 1e3) as u64;
        let job = self.job(event.pid);
        let Some(job) = self.past.jobs.get_mut(job) else { return };
        match (event.ph.as_str(), job.rounds.iter_mut().rev().find(|round| round.number == number)) {
            ("b", _) => job.rounds.push(Round { number, began_ns: at, ended_ns: None }),
            (_, Some(round)) => round.ended_ns = Some(at),
            // It began before the trace does.
            (_, None) => {}
        }
    }

    fn condition(&mut self, event: &Event, at: u64) {
        let word = |key: &str| event.args.get(key).and_then(Value::as_str).unwrap_or_default();
        let Some(&code) = ConditionCode::ALL.iter().find(|code| code.as_str() == word("code")) else { return };
        let subject = printable(word("subject"), MAX_NAME);
        if event.ph == "b" {
            self.past.conditions.push(Held { code, subject, from: at, to: None });
            return;
        }
        let mut known = self.past.conditions.iter_mut().rev();
        if let Some(held) = known.find(|held| held.code == code && held.subject == subject && held.to.is_none()) {
            held.to = Some(at);
        }
    }

    /// The slot of a time in microseconds; `None`: beyond any that a trace may have.
    fn slot(&self, micros: f64) -> Option<u64> {
        let slot = (micros * 1e3 / self.past.slot_length_ns as f64).round();
        (slot >= 0.0 && slot < MAX_SLOTS as f64).then_some(slot as u64)
    }

    fn reaches(&mut self, end: u64) {
        self.past.slots = self.past.slots.max(end.min(MAX_SLOTS));
    }

    fn job(&mut self, pid: u64) -> usize {
        *self.jobs.entry(pid).or_insert_with(|| {
            self.past.jobs.push(PastJob { name: format!("pid-{pid}"), ..PastJob::default() });
            self.past.jobs.len() - 1
        })
    }

    fn flow(&mut self, pid: u64, tid: u64) -> usize {
        let job = self.job(pid);
        *self.flows.entry((pid, tid)).or_insert_with(|| {
            self.past.flows.push(PastFlow { id: format!("{tid:016x}"), job, ..PastFlow::default() });
            self.past.flows.len() - 1
        })
    }
}
