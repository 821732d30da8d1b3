//! Chrome's trace JSON: one process per job and one for links, one thread per flow, a slice per run of slots with the
//! same order, counters per link, rounds and conditions as asynchronous spans, and instants for everything else.
//!
//! Times are microseconds from the first slot's edge; the slot itself is in `otherData`. Slices of a thread never
//! overlap: a second record of the same flow and slot is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sluice_schedule::{FlowId, JobId, Rate, Slot};

use super::{EventKind, EventRecord, Filter, FlowRecord, Subject, Timeline};
use crate::snapshot::ConditionCode;

/// Process id of links and of the host's own events.
const HOST_PID: u64 = 1;
/// First process id of jobs.
const FIRST_JOB_PID: u64 = 2;

/// One event of the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct ChromeEvent {
    /// What is shown on the bar.
    name: String,
    /// Kind: `M` name, `X` slice, `C` counter, `b`/`e` span, `i` instant.
    ph: &'static str,
    /// Microseconds from the first slot's edge.
    ts: f64,
    /// How long it lasts, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// Job, or 1 for links and host.
    pid: u64,
    /// Flow within its job, or 0.
    tid: u64,
    /// Category; needed for spans.
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    /// Id that joins begin and end of a span.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Reach of an instant.
    #[serde(skip_serializing_if = "str::is_empty")]
    s: &'static str,
    /// Further values, shown when the bar is chosen.
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

/// Slots of one flow with the same order.
struct Run {
    /// The record of the first slot, with the bytes of all of them and what remained at the end of the last.
    record: FlowRecord,
    last: Slot,
}

impl Timeline {
    /// Writes the trace as one JSON document.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn chrome(&self, out: &mut impl Write, filter: &Filter) -> io::Result<()> {
        let first = self.first_slot(filter).unwrap_or_default();
        let other = json!({
            "schema": 1,
            "host": self.host.as_str(),
            "version": env!("CARGO_PKG_VERSION"),
            "slot_length_ns": self.slot_length.0,
            "first_slot": first.0,
        });
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[")?;
        let mut comma = false;
        self.chrome_events(filter, &mut |event| {
            out.write_all(if comma { b",\n" } else { b"\n" })?;
            comma = true;
            serde_json::to_writer(&mut *out, &event).map_err(io::Error::from)
        })?;
        out.write_all(b"\n]}\n")
    }

    fn chrome_events(&self, filter: &Filter, emit: &mut impl FnMut(ChromeEvent) -> io::Result<()>) -> io::Result<()> {
        let first = self.first_slot(filter).unwrap_or_default();
        let mut pids: BTreeMap<JobId, u64> = BTreeMap::new();
        let mut tids: BTreeMap<FlowId, u64> = BTreeMap::new();
        emit(named("process_name", HOST_PID, 0, format!("links on {}", self.host)))?;
        let kept = || self.flows.iter().filter(|record| self.keeps(filter, record.slot, Some(record.job)));
        let jobs = kept().map(|record| record.job).chain(self.events.iter().filter_map(job_of));
        for job in jobs.filter(|&job| filter.job.as_ref().is_none_or(|wanted| self.is_named(job, wanted))) {
            let next = FIRST_JOB_PID + pids.len() as u64;
            if *pids.entry(job).or_insert(next) == next {
                emit(named("process_name", next, 0, format!("job {} on {}", self.job_name(job), self.host)))?;
            }
        }
        for record in kept() {
            let next = 1 + tids.len() as u64;
            if *tids.entry(record.flow).or_insert(next) == next {
                let pid = pids.get(&record.job).copied().unwrap_or(HOST_PID);
                emit(named("thread_name", pid, next, record.flow.to_string()))?;
            }
        }
        self.slices(kept(), first, &pids, &tids, emit)?;
        self.counters(filter, first, emit)?;
        self.held_before(filter, emit)?;
        for record in self.events.iter().filter(|record| self.keeps(filter, record.slot, job_of(record))) {
            emit(self.instant(record, first, &pids))?;
        }
        Ok(())
    }

    /// Conditions that held when the first slot began, from there on: one has no end as long as it holds.
    fn held_before(&self, filter: &Filter, emit: &mut impl FnMut(ChromeEvent) -> io::Result<()>) -> io::Result<()> {
        let mut began = BTreeSet::new();
        let mut before: BTreeMap<(ConditionCode, Subject), Option<Slot>> = BTreeMap::new();
        for record in self.events.iter().filter(|record| self.keeps(filter, record.slot, None)) {
            match record.kind {
                EventKind::ConditionBegan(code, subject) => {
                    began.insert((code, subject));
                }
                EventKind::ConditionEnded(code, subject) => {
                    let began_within = began.remove(&(code, subject));
                    if !began_within {
                        before.insert((code, subject), None);
                    }
                }
                _ => {}
            }
        }
        let holding = self.holding.iter().filter(|(condition, _)| !began.contains(*condition));
        before.extend(holding.map(|(condition, since)| (*condition, Some(*since))));
        for ((code, subject), since) in before {
            let mut event = self.condition("b", 0.0, code, subject);
            if let Some(since) = since {
                event.args.insert("since_slot".into(), since.0.into());
            }
            emit(event)?;
        }
        Ok(())
    }

    /// A condition begins (`b`) or ends (`e`).
    fn condition(&self, ph: &'static str, ts: f64, code: ConditionCode, subject: Subject) -> ChromeEvent {
        let about = self.subject_names.get(&subject).unwrap_or_default();
        let name = if about.is_empty() { code.as_str().to_owned() } else { format!("{} {about}", code.as_str()) };
        let args = json!({ "code": code.as_str(), "subject": about, "cost": code.cost() });
        ChromeEvent {
            id: Some(name.clone()),
            name,
            ph,
            ts,
            pid: HOST_PID,
            cat: "condition",
            args: object(args),
            ..ChromeEvent::default()
        }
    }

    fn slices<'a>(
        &self,
        records: impl Iterator<Item = &'a FlowRecord>,
        first: Slot,
        pids: &BTreeMap<JobId, u64>,
        tids: &BTreeMap<FlowId, u64>,
        emit: &mut impl FnMut(ChromeEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut open: BTreeMap<FlowId, Run> = BTreeMap::new();
        let place = |flow: FlowId, job: JobId| {
            (pids.get(&job).copied().unwrap_or(HOST_PID), tids.get(&flow).copied().unwrap_or(0))
        };
        for record in records {
            let fresh = Run { record: *record, last: record.slot };
            let Some(run) = open.get_mut(&record.flow) else {
                open.insert(record.flow, fresh);
                continue;
            };
            match record.slot.since(run.last) {
                1 if run.record.ordered == record.ordered && run.record.job == record.job => {
                    run.last = record.slot;
                    run.record.delivered = run.record.delivered.plus(record.delivered);
                    run.record.remaining = record.remaining;
                }
                gap if gap > 0 => {
                    let done = std::mem::replace(run, fresh);
                    emit(self.slice(&done, first, place(record.flow, done.record.job)))?;
                }
                _ => {}
            }
        }
        for (flow, run) in open {
            emit(self.slice(&run, first, place(flow, run.record.job)))?;
        }
        Ok(())
    }

    fn slice(&self, Run { record, last }: &Run, first: Slot, (pid, tid): (u64, u64)) -> ChromeEvent {
        let slots = last.since(record.slot).max(0) as u64 + 1;
        let time = self.slot_length.times(slots);
        let args = json!({
            "ordered_bps": record.ordered.0,
            "delivered_bps": Rate::needed(record.delivered, time).0,
            "bytes": record.delivered.0,
            "remaining_bytes": record.remaining.0,
            "why": record.why.as_str(),
            "trigger": record.trigger.as_str(),
            "slot": record.slot.0,
        });
        ChromeEvent {
            name: record.ordered.to_string(),
            ph: "X",
            ts: self.micros(record.slot, first, 0),
            dur: Some(time.0 as f64 / 1e3),
            pid,
            tid,
            args: object(args),
            ..ChromeEvent::default()
        }
    }

    fn counters(
        &self,
        filter: &Filter,
        first: Slot,
        emit: &mut impl FnMut(ChromeEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        for record in self.links.iter().filter(|record| self.keeps(filter, record.slot, None)) {
            let mbps = |rate: Rate| rate.0 as f64 / 1e6;
            let args = json!({
                "scheduled_mbps": mbps(record.scheduled),
                "delivered_mbps": mbps(record.managed),
                "other_mbps": mbps(record.other),
                "capacity_mbps": mbps(record.capacity),
            });
            emit(ChromeEvent {
                name: self.link_name(record.link),
                ph: "C",
                ts: self.micros(record.slot, first, 0),
                pid: HOST_PID,
                args: object(args),
                ..ChromeEvent::default()
            })?;
        }
        Ok(())
    }

    fn instant(&self, record: &EventRecord, first: Slot, pids: &BTreeMap<JobId, u64>) -> ChromeEvent {
        let ts = self.micros(record.slot, first, record.into_slot.0);
        let span = |ph, job: JobId, round: u64| ChromeEvent {
            name: format!("round {round}"),
            ph,
            ts,
            pid: pids.get(&job).copied().unwrap_or(HOST_PID),
            cat: "round",
            id: Some(format!("{job}-{round}")),
            ..ChromeEvent::default()
        };
        match record.kind {
            EventKind::RoundBegan(job, round) => span("b", job, round),
            EventKind::RoundEnded(job, round) => span("e", job, round),
            EventKind::ConditionBegan(code, subject) => self.condition("b", ts, code, subject),
            EventKind::ConditionEnded(code, subject) => self.condition("e", ts, code, subject),
            EventKind::Mode(mode) => ChromeEvent {
                name: format!("mode {}", mode.as_str()),
                ph: "i",
                ts,
                pid: HOST_PID,
                s: "g",
                ..ChromeEvent::default()
            },
            EventKind::Benefit(job, state) => ChromeEvent {
                name: format!("sluice: {}", state.as_str()),
                ph: "i",
                ts,
                pid: job.and_then(|job| pids.get(&job).copied()).unwrap_or(HOST_PID),
                s: if job.is_some() { "p" } else { "g" },
                ..ChromeEvent::default()
            },
        }
    }

    fn micros(&self, slot: Slot, first: Slot, into_ns: u64) -> f64 {
        f64::from(slot.since(first)) * self.slot_length.0 as f64 / 1e3 + into_ns as f64 / 1e3
    }
}

fn job_of(record: &EventRecord) -> Option<JobId> {
    match record.kind {
        EventKind::RoundBegan(job, _) | EventKind::RoundEnded(job, _) => Some(job),
        EventKind::Benefit(job, _) => job,
        EventKind::Mode(_) | EventKind::ConditionBegan(..) | EventKind::ConditionEnded(..) => None,
    }
}

fn named(what: &str, pid: u64, tid: u64, name: String) -> ChromeEvent {
    ChromeEvent {
        name: what.into(),
        ph: "M",
        pid,
        tid,
        args: object(json!({ "name": name })),
        ..ChromeEvent::default()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
