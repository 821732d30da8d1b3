use super::*;

const TRACE: &str = r#"{"otherData":{"schema":1,"host":"gpu-17","version":"0.1.0","slot_length_ns":60000000,"first_slot":4294967295},
"traceEvents":[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"links on gpu-17"}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"job 4711 ring rank 3/8 on gpu-17"}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":1,"args":{"name":"00000000000001a3"}},
{"name":"1 Gbit/s","ph":"X","ts":0.0,"dur":120000.0,"pid":2,"tid":1,"args":{"ordered_bps":1000000000,"delivered_bps":900000000,"remaining_bytes":500,"why":"rank","trigger":"start","slot":4294967295}},
{"name":"2 Gbit/s","ph":"X","ts":180000.0,"dur":60000.0,"pid":2,"tid":1,"args":{"ordered_bps":2000000000,"delivered_bps":2000000000,"remaining_bytes":0,"why":"price","trigger":"slot","slot":2}},
{"name":"eth0","ph":"C","ts":0.0,"pid":1,"args":{"scheduled_mbps":5000.0,"delivered_mbps":900.0,"other_mbps":100.0,"capacity_mbps":10000.0}},
{"name":"eth0","ph":"C","ts":60000.0,"pid":1,"args":{"scheduled_mbps":7000.0,"delivered_mbps":0.0,"other_mbps":0.0,"capacity_mbps":10000.0}},
{"name":"round 7","ph":"b","ts":1000.0,"pid":2,"cat":"round","id":"x-7"},
{"name":"round 7","ph":"e","ts":101000.0,"pid":2,"cat":"round","id":"x-7"},
{"name":"mode bypass","ph":"i","ts":120000.0,"pid":1,"s":"g"},
{"name":"clock-unsafe","ph":"b","ts":60000.0,"pid":1,"cat":"condition","id":"clock-unsafe","args":{"code":"clock-unsafe","subject":""}},
{"name":"clock-unsafe","ph":"e","ts":120000.0,"pid":1,"cat":"condition","id":"clock-unsafe","args":{"code":"clock-unsafe","subject":""}},
{"name":"switch-unreachable leaf-1","ph":"b","ts":120000.0,"pid":1,"cat":"condition","id":"x","args":{"code":"switch-unreachable","subject":"leaf-1"}}
]}"#;

#[test]
fn every_slot_of_a_trace_is_a_snapshot() {
    let past = Past::of_trace(TRACE.as_bytes()).expect("a trace");
    assert_eq!((past.slots, past.number(0), past.number(1), past.at(2)), (4, u32::MAX, 0, Some(3)));
    assert_eq!(past.at(3), None);
    let first = past.snapshot(0);
    assert_eq!((first.daemon.mode, first.daemon.host.as_str()), (Mode::Active, "gpu-17"));
    let flow = &first.flows[0];
    assert_eq!(
        (flow.ordered_bps, flow.delivered_bps, flow.why.as_ref()),
        (Some(1_000_000_000), Some(900_000_000), "rank")
    );
    assert!(flow.error_ratio.is_some_and(|error| (error - 0.1).abs() < 1e-9));
    assert_eq!(flow.next_bps, [1_000_000_000, 1_000_000_000, 0, 2_000_000_000]);
    let job = &first.jobs[0];
    assert_eq!((job.id.as_str(), job.flows, job.round, job.rounds_finished), ("4711", 1, 7, 0));
    assert_eq!((job.remaining_bytes, job.progress_ratio), (Some(500), None), "what the file does not say is not known");
    let link = &first.links[0];
    assert_eq!((link.name.as_str(), link.own, link.other_bps), ("eth0", true, Some(100_000_000)));
    assert_eq!(link.next_bps, [5_000_000_000, 7_000_000_000, 0, 0]);
    let third = past.snapshot(2);
    assert_eq!((third.flows.len(), third.daemon.mode), (0, Mode::Bypass));
    assert_eq!((third.jobs[0].rounds_finished, third.jobs[0].round_p50_ns), (1, Some(100_000_000)));
    assert_eq!(past.snapshot(3).flows[0].ordered_bps, Some(2_000_000_000));
    assert_eq!(past.snapshot(99).flows.len(), 0);
    let held = |at| past.snapshot(at).conditions.iter().map(|held| held.code.as_str()).collect::<Vec<_>>();
    assert_eq!([held(0), held(1), held(2)], [vec![], vec!["clock-unsafe"], vec!["switch-unreachable"]]);
    assert_eq!(past.snapshot(3).conditions[0].sentence, "leaf-1");
    assert_eq!((past.snapshot(0).daemon.state.as_str(), past.snapshot(1).daemon.state.as_str()), ("ok", "degraded"));
}

#[test]
fn a_slot_that_is_over_is_explained() {
    let past = Past::of_trace(TRACE.as_bytes()).expect("a trace");
    let why = |id: &str, at| explained::reasons(&past, id, at);
    let reason = &why("0x1a3", 1).expect("an order")[0];
    assert_eq!((reason.slot, reason.since_slot, reason.slots, reason.ago_ns), (0, u32::MAX, 2, 120_000_000));
    assert_eq!((reason.why.as_str(), reason.trigger.as_str(), reason.round), ("rank", "start", Some(7)));
    assert_eq!((reason.before_bps, reason.after_bps), (None, None));
    let text = explained::text(reason, past.slot_length_ns);
    for piece in
        ["slot 0, 120 ms before", "1.00 Gbit/s", "eth0", "promised 70 %", "a round began", "better rank go first"]
    {
        assert!(text.contains(piece), "{piece} in {text}");
    }
    assert_eq!(why("4711", 3).expect("by its job")[0].ordered_bps, Some(2_000_000_000));
    assert_eq!(why("0x1a3", 2).expect_err("no order then").code, 3);
    assert_eq!(why("0x1a4", 2).expect_err("no such flow").code, 2);
}

#[test]
fn a_recording_is_played_by_its_rounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r.jsonl");
    let lines = [
        r#"{"kind":"start","version":1,"host":"h0","addresses":["10.0.0.1"],"links":[{"name":"eth0","rate":1000000000}],"slot_ms":60,"unix_ns":600000000}"#,
        r#"{"kind":"job","job":"01","name":"vgg","pattern":"ring"}"#,
        r#"{"kind":"flow","flow":"0a","job":"01","to":"h1","role":"ring"}"#,
        r#"{"kind":"round","job":"01","began_ns":720000000,"ended_ns":840000000,"flows":[["0a",1500000]]}"#,
    ];
    std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    let past = Past::load(&path).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((past.host.as_str(), past.first_slot, past.slots), ("h0", 10, 4));
    assert_eq!(past.snapshot(0).flows.len(), 0);
    let flow = &past.snapshot(2).flows[0];
    assert_eq!((flow.to.as_str(), flow.delivered_bps, flow.ordered_bps), ("h1", Some(100_000_000), None));
    assert_eq!(past.snapshot(3).jobs[0].round, 1);
}

#[test]
fn any_file_is_survived_and_says_what_it_should_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x");
    for text in [
        "",
        "{}",
        "[]",
        "{\"traceEvents\":[]}",
        "{\"traceEvents\":1,\"otherData\":{\"slot_length_ns\":0}}",
        "\"kind\"",
        "hello",
    ] {
        std::fs::write(&path, text).expect("written");
        let failure = Past::load(&path).expect_err(text);
        assert!(failure.code == 2 && !failure.to_string().is_empty(), "{text}");
    }
    // Wild numbers and missing names.
    for (from, to) in [
        ("\"ts\":0.0", "\"ts\":1e300"),
        ("\"ts\":0.0", "\"ts\":-5.0"),
        ("\"dur\":120000.0", "\"dur\":1e18"),
        ("\"ordered_bps\":1000000000", "\"ordered_bps\":-1"),
        ("\"slot_length_ns\":60000000", "\"slot_length_ns\":1"),
        ("round 7", "round x"),
        ("\"pid\":2", "\"pid\":18446744073709551615"),
    ] {
        if let Ok(past) = Past::of_trace(TRACE.replace(from, to).as_bytes()) {
            for at in [0, 1, past.slots, u64::MAX / 4] {
                let _ = past.snapshot(at);
            }
        }
    }
}
