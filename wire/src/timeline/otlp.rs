//! Rounds as OpenTelemetry spans: one line of OTLP/JSON, as the collector's `otlpjsonfile` receiver reads files and its HTTP
//! receiver takes bodies. Nothing is sent from here, and no tracing library is linked.
//!
//! A span is one round of one job on this host, from its first to its last byte. Hosts that have seen a job from its start
//! number its rounds alike, so the spans of a round on all hosts are one trace.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use sluice_schedule::units::{fnv1a64, mixed};
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Slot};

use super::{EventKind, Filter, Timeline};

/// A round that has begun.
struct Open {
    slot: Slot,
    begin: u64,
}

/// Which moment a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// A slot ...
    pub slot: Slot,
    /// ... and when it began, nanoseconds since 1970 (UTC).
    pub unix: Nanos,
}

impl Timeline {
    /// Writes the rounds that have ended.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn otlp(&self, out: &mut impl Write, filter: &Filter, anchor: Anchor) -> io::Result<()> {
        let attributes = [text("service.name", "sluiced"), text("host.name", self.host.as_str())];
        let head = json!({ "attributes": attributes });
        let scope = json!({ "name": "sluice", "version": env!("CARGO_PKG_VERSION") });
        write!(out, "{{\"resourceSpans\":[{{\"resource\":{head},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[")?;
        let mut open: BTreeMap<(JobId, u64), Open> = BTreeMap::new();
        let mut comma = "";
        for record in self.events.iter() {
            let at = self.unix(record.slot, record.into_slot, anchor);
            match record.kind {
                EventKind::RoundBegan(job, round) if self.keeps(filter, record.slot, Some(job)) => {
                    open.insert((job, round), Open { slot: record.slot, begin: at });
                }
                EventKind::RoundEnded(job, round) => {
                    if let Some(began) = open.remove(&(job, round)) {
                        let span = self.span((job, round), &began, record.slot, at.max(began.begin));
                        write!(out, "{comma}{span}")?;
                        comma = ",";
                    }
                }
                _ => {}
            }
        }
        out.write_all(b"]}]}]}\n")
    }

    fn span(&self, (job, round): (JobId, u64), began: &Open, last: Slot, end: u64) -> Value {
        let mut flows: BTreeMap<FlowId, u64> = BTreeMap::new();
        let within = |slot: Slot| slot.since(began.slot) >= 0 && last.since(slot) >= 0;
        for record in self.flows.iter().filter(|record| record.job == job && within(record.slot)) {
            let bytes = flows.entry(record.flow).or_default();
            *bytes = Bytes(*bytes).plus(record.delivered).0;
        }
        let bytes: u64 = flows.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        let name = self.job_name(job);
        json!({
            "traceId": format!("{:016x}{:016x}", job.0, mixed(round ^ job.0)),
            "spanId": format!("{:016x}", mixed(fnv1a64(self.host.as_str().as_bytes()) ^ mixed(round) ^ job.0).max(1)),
            "name": format!("round {round}"),
            // SPAN_KIND_INTERNAL
            "kind": 1,
            "startTimeUnixNano": began.begin.to_string(),
            "endTimeUnixNano": end.to_string(),
            "attributes": [
                text("sluice.job", &name),
                number("sluice.round", round),
                number("sluice.flows", flows.len() as u64),
                // Whole slots: those in which the round began and ended count with all that was sent in them.
                number("sluice.sent_bytes", bytes),
                number("sluice.first_slot", u64::from(began.slot.0)),
                number("sluice.last_slot", u64::from(last.0)),
            ],
        })
    }

    fn unix(&self, slot: Slot, into: Nanos, anchor: Anchor) -> u64 {
        let away =
            i64::from(slot.since(anchor.slot)).saturating_mul(i64::try_from(self.slot_length.0).unwrap_or(i64::MAX));
        anchor.unix.0.saturating_add_signed(away).saturating_add(into.0)
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Numbers of 64 bits are texts in JSON, as Protobuf maps them.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use sluice_schedule::Rate;
    use sluice_schedule::policy::Why;

    use super::super::{EventRecord, FlowRecord, Limits, Trigger};
    use super::*;

    const SLOT: Nanos = Nanos(60_000_000);

    /// Rounds 1, 2 and 3 of a job, the second across the wrap of slot numbers, the third not ended.
    fn timeline(host: &str) -> Timeline {
        let mut timeline = Timeline::new(host, SLOT, Limits::default());
        let job = JobId::of("a");
        timeline.name_job(job, "a ring");
        let at = |n: i32| Slot(0u32.wrapping_add_signed(n));
        for (slot, into, kind) in [
            (-10, 5, EventKind::RoundBegan(job, 1)),
            (-8, 7, EventKind::RoundEnded(job, 1)),
            (-2, 0, EventKind::RoundBegan(job, 2)),
            (3, 9, EventKind::RoundEnded(job, 2)),
            (5, 0, EventKind::RoundBegan(job, 3)),
        ] {
            timeline.event(EventRecord { slot: at(slot), into_slot: Nanos(into), kind });
        }
        for slot in -10..6 {
            for flow in 1..3 {
                timeline.flow(FlowRecord {
                    flow: FlowId(flow),
                    job,
                    ordered: Rate::mbps(1),
                    delivered: Bytes(100 * flow),
                    remaining: Bytes(0),
                    slot: at(slot),
                    why: Why::Rank,
                    trigger: Trigger::Slot,
                });
            }
        }
        timeline
    }

    fn spans(timeline: &Timeline, filter: &Filter) -> Vec<Value> {
        let anchor = Anchor { slot: Slot(2), unix: Nanos(1_800_000_000_000_000_000) };
        let mut out = Vec::new();
        timeline.otlp(&mut out, filter, anchor).expect("writing to memory");
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        let document: Value = serde_json::from_slice(&out).expect("one JSON document");
        let resource = &document["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0], text("service.name", "sluiced"));
        resource["scopeSpans"][0]["spans"].as_array().cloned().expect("spans")
    }

    fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
        let all = span["attributes"].as_array().expect("attributes");
        &all.iter().find(|one| one["key"] == key).expect("it has it")["value"]
    }

    #[test]
    fn every_round_that_has_ended_is_a_span_with_its_time_and_bytes() {
        let spans = spans(&timeline("h0"), &Filter::default());
        assert_eq!(spans.len(), 2);
        let time =
            |span: &Value, key: &str| span[key].as_str().and_then(|text| text.parse::<i64>().ok()).expect("a time");
        // Ten slots back and one over the wrap are twelve before slot 2.
        let of = |slots: i64, into: i64| 1_800_000_000_000_000_000 + slots * 60_000_000 + into;
        let found: Vec<(i64, i64)> =
            spans.iter().map(|span| (time(span, "startTimeUnixNano"), time(span, "endTimeUnixNano"))).collect();
        assert_eq!(found, [(of(-12, 5), of(-10, 7)), (of(-4, 0), of(1, 9))]);
        assert_eq!(attribute(&spans[0], "sluice.sent_bytes"), &json!({ "intValue": "900" }));
        assert_eq!(attribute(&spans[1], "sluice.sent_bytes"), &json!({ "intValue": "1800" }));
        assert_eq!(attribute(&spans[1], "sluice.flows"), &json!({ "intValue": "2" }));
        assert_eq!(attribute(&spans[1], "sluice.job"), &json!({ "stringValue": "a ring" }));
    }

    #[test]
    fn a_round_is_one_trace_on_all_hosts_with_a_span_of_each() {
        let (here, there) = (spans(&timeline("h0"), &Filter::default()), spans(&timeline("h1"), &Filter::default()));
        for (a, b) in here.iter().zip(&there) {
            assert!(a["traceId"] == b["traceId"] && a["spanId"] != b["spanId"], "{a} {b}");
            assert_eq!((a["traceId"].as_str().map(str::len), a["spanId"].as_str().map(str::len)), (Some(32), Some(16)));
        }
        assert_ne!(here[0]["traceId"], here[1]["traceId"]);
    }

    #[test]
    fn filters_leave_out_other_jobs_and_what_began_too_early() {
        let timeline = timeline("h0");
        let job = |name: &str| Filter { job: Some(name.into()), ..Filter::default() };
        assert_eq!((spans(&timeline, &job("a")).len(), spans(&timeline, &job("b")).len()), (2, 0));
        assert_eq!(spans(&timeline, &Filter { last: Some(SLOT.times(9)), ..Filter::default() }).len(), 1);
        assert_eq!(spans(&Timeline::new("h", SLOT, Limits::default()), &Filter::default()), Vec::<Value>::new());
    }
}
