use serde_json::Value;

use super::*;

const SLOT: Nanos = Nanos(60_000_000);

fn record(slot: u32, flow: u64, ordered_mbps: u64, delivered: u64) -> FlowRecord {
    FlowRecord {
        flow: FlowId(flow),
        job: JobId::of("4711"),
        ordered: Rate::mbps(ordered_mbps),
        delivered: Bytes(delivered),
        remaining: Bytes(0),
        slot: Slot(slot),
        why: Why::Rank,
        trigger: Trigger::Slot,
    }
}

fn timeline(host: &str, first: u32) -> Timeline {
    let mut timeline = Timeline::new(host, SLOT, Limits::default());
    timeline.name_job(JobId::of("4711"), "4711 ring");
    timeline.name_link(LinkId(1), "eth0");
    let began = EventKind::RoundBegan(JobId::of("4711"), 3);
    timeline.event(EventRecord { slot: Slot(first), into_slot: Nanos(1000), kind: began });
    for n in 0..10_u32 {
        let slot = first.wrapping_add(n);
        timeline.flow(record(slot, 1, if n < 4 { 100 } else { 10 }, 1000));
        timeline.flow(record(slot, 2, 50, 10));
        let rate = Rate::mbps(u64::from(n));
        let link = LinkId(1);
        timeline.link(LinkRecord {
            link,
            scheduled: rate,
            managed: rate,
            other: rate,
            capacity: rate,
            slot: Slot(slot),
        });
    }
    timeline
}

fn trace(timeline: &Timeline, filter: &Filter) -> Value {
    let mut out = Vec::new();
    timeline.chrome(&mut out, filter).expect("writing to memory");
    serde_json::from_slice(&out).expect("one JSON document")
}

fn events<'a>(trace: &'a Value, ph: &'a str) -> impl Iterator<Item = &'a Value> {
    trace["traceEvents"].as_array().expect("events").iter().filter(move |event| event["ph"] == ph)
}

#[test]
fn a_record_is_48_bytes() {
    assert_eq!((size_of::<FlowRecord>(), size_of::<LinkRecord>()), (48, 48));
}

#[test]
fn runs_of_equal_orders_become_slices_that_never_overlap() {
    let trace = trace(&timeline("gpu-17", 100), &Filter::default());
    let mut slices: Vec<_> = events(&trace, "X")
        .map(|e| {
            (e["tid"].as_u64(), e["ts"].as_f64().expect("ts"), e["dur"].as_f64().expect("dur"), &e["args"]["bytes"])
        })
        .collect();
    slices.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("finite"));
    assert_eq!(slices.len(), 3);
    assert_eq!((slices[0].1, slices[0].2, slices[0].3), (0.0, 240_000.0, &Value::from(4000)));
    for pair in slices.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1, "{pair:?}");
    }
    let bytes: u64 = slices.iter().filter_map(|slice| slice.3.as_u64()).sum();
    assert_eq!(bytes, 10 * 1010, "bytes of the slices are the bytes of the records");
    assert_eq!(trace["otherData"]["first_slot"], 100);
    assert_eq!(events(&trace, "b").count(), 1);
    assert_eq!(events(&trace, "C").count(), 10);
    let names: Vec<_> = events(&trace, "M").map(|event| event["args"]["name"].to_string()).collect();
    assert!(names.iter().any(|name| name.contains("job 4711 ring on gpu-17")), "{names:?}");
}

#[test]
fn filters_keep_the_last_slots_and_one_job() {
    let mut timeline = timeline("h", 100);
    timeline.flow(FlowRecord { job: JobId::of("other"), ..record(109, 9, 1, 1) });
    let last = Filter { last: Some(Nanos(120_000_000)), job: Some("4711".into()) };
    let trace = trace(&timeline, &last);
    assert_eq!(trace["otherData"]["first_slot"], 108);
    assert_eq!(events(&trace, "X").count(), 2);
    let mut csv = Vec::new();
    timeline.csv(&mut csv, &last).expect("writing to memory");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let mut jsonl = Vec::new();
    timeline.jsonl(&mut jsonl, &last).expect("writing to memory");
    for line in String::from_utf8(jsonl).expect("text").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["why"], "rank");
    }
}

#[test]
fn a_trace_says_when_each_condition_began_and_ended() {
    use ConditionCode::{ClockUnsafe, SwitchUnreachable};
    let mut timeline = timeline("gpu-17", 100);
    let mut at = |slot, holding: &[(ConditionCode, &str)]| {
        timeline.conditions(Slot(slot), Nanos(1_000_000), holding.iter().copied());
    };
    at(110, &[(SwitchUnreachable, "leaf-1")]);
    at(111, &[(SwitchUnreachable, "leaf-1"), (SwitchUnreachable, "leaf-2")]);
    at(112, &[(ClockUnsafe, ""), (SwitchUnreachable, "leaf-2")]);
    at(113, &[(SwitchUnreachable, "leaf-2")]);
    let told = |filter: &Filter| {
        let trace = trace(&timeline, filter);
        let told = |ph: &str| {
            let of = events(&trace, ph).filter(|event| event["cat"] == "condition");
            let mut told: Vec<(String, f64)> = of
                .map(|event| (event["id"].as_str().expect("an id").to_owned(), event["ts"].as_f64().expect("ts")))
                .collect();
            told.sort_by(|a, b| a.0.cmp(&b.0));
            told
        };
        (told("b"), told("e"))
    };
    let ts = |slot: u32| f64::from(slot) * 60_000.0 + 1_000.0;
    let (leaf_1, leaf_2) = ("switch-unreachable leaf-1".to_owned(), "switch-unreachable leaf-2".to_owned());
    let clock = "clock-unsafe".to_owned();
    let (began, ended) = told(&Filter::default());
    assert_eq!(began, [(clock.clone(), ts(12)), (leaf_1.clone(), ts(10)), (leaf_2.clone(), ts(11))]);
    assert_eq!(ended, [(clock.clone(), ts(13)), (leaf_1.clone(), ts(12))], "the other one still holds");
    // Of the last two slots: what held before begins with the first of them.
    let (began, ended) = told(&Filter { last: Some(SLOT.times(2)), ..Filter::default() });
    assert_eq!(began, [(clock.clone(), ts(0)), (leaf_1.clone(), 0.0), (leaf_2, 0.0)]);
    assert_eq!(ended, [(clock, ts(1)), (leaf_1, ts(0))]);
    // Long after it began, it is still told.
    timeline.flow(record(10_000, 1, 1, 1));
    let trace = trace(&timeline, &Filter::default());
    let left: Vec<&Value> = events(&trace, "b").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((&left[0]["args"]["subject"], &left[0]["args"]["since_slot"]), (&"leaf-2".into(), &111.into()));
}

#[test]
fn the_ring_holds_its_bounds() {
    let limits = Limits { time: Nanos(600_000_000), bytes: 48 * 100 };
    let mut timeline = Timeline::new("h", SLOT, limits);
    for slot in 0..1000 {
        for flow in 0..20 {
            timeline.flow(record(slot, flow, 1, 1));
        }
    }
    assert_eq!(timeline.flows.len(), 50);
    let mut long = Timeline::new("h", SLOT, Limits { bytes: 1 << 20, ..limits });
    (0..1000).for_each(|slot| long.flow(record(slot, 1, 1, 1)));
    assert_eq!(long.flows.len(), 11, "ten slots and the present one");
    let mut none = Timeline::new("h", SLOT, Limits { bytes: 0, ..limits });
    none.flow(record(1, 1, 1, 1));
    assert_eq!(trace(&none, &Filter::default())["traceEvents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn merging_three_hosts_keeps_slot_edges_equal_even_across_the_wrap() {
    let firsts = [u32::MAX - 2, 1, u32::MAX];
    let traces: Vec<_> = firsts
        .iter()
        .enumerate()
        .map(|(n, &first)| (format!("{n}.json"), trace(&timeline(&format!("h{n}"), first), &Filter::default())))
        .collect();
    let merged = merge(traces).expect("mergeable");
    assert_eq!(merged["otherData"]["first_slot"], u64::from(u32::MAX - 2));
    for event in events(&merged, "X") {
        let slot = event["args"]["slot"].as_u64().expect("a slot") as u32;
        let edge = f64::from(Slot(slot).since(Slot(u32::MAX - 2))) * 60_000.0;
        assert_eq!(event["ts"].as_f64(), Some(edge), "slot {slot}");
    }
    let mut pids: Vec<_> = events(&merged, "X").map(|event| event["pid"].as_u64()).collect();
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[test]
fn foreign_traces_are_refused_by_name() {
    assert_eq!(merge(vec![]), Err(MergeError::Empty));
    let foreign = merge(vec![("a.json".into(), serde_json::json!({ "traceEvents": [] }))]);
    assert_eq!(foreign, Err(MergeError::Foreign { index: 1, name: "a.json".into(), field: "slot_length_ns" }));
    for odd in [Value::Null, Value::from(3), serde_json::json!([1]), serde_json::json!({ "otherData": 3 })] {
        assert!(merge(vec![("odd".into(), odd)]).is_err());
    }
}
