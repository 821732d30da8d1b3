//! What is over: a trace that is explained and played, and a ring that is followed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use super::desk::{Desk, stderr, stdout};

const TRACE: &str = r#"{"displayTimeUnit":"ms","otherData":{"schema":1,"host":"gpu-17","version":"0.1.0","slot_length_ns":60000000,"first_slot":100},
"traceEvents":[
{"name":"process_name","ph":"M","ts":0.0,"pid":2,"tid":0,"args":{"name":"job 4711 ring rank 3/8 on gpu-17"}},
{"name":"thread_name","ph":"M","ts":0.0,"pid":2,"tid":1,"args":{"name":"00000000000001a3"}},
{"name":"1 Gbit/s","ph":"X","ts":0.0,"dur":120000.0,"pid":2,"tid":1,"args":{"ordered_bps":1000000000,"delivered_bps":900000000,"bytes":13500000,"remaining_bytes":500,"why":"rank","trigger":"start","slot":100}},
{"name":"2 Gbit/s","ph":"X","ts":120000.0,"dur":60000.0,"pid":2,"tid":1,"args":{"ordered_bps":2000000000,"delivered_bps":2000000000,"bytes":15000000,"remaining_bytes":0,"why":"price","trigger":"slot","slot":102}},
{"name":"eth0","ph":"C","ts":60000.0,"pid":1,"tid":0,"args":{"scheduled_mbps":7000.0,"delivered_mbps":900.0,"other_mbps":0.0,"capacity_mbps":10000.0}}
]}"#;

#[test]
fn a_slot_that_is_over_is_explained_by_its_trace() {
    let desk = Desk::new();
    desk.write("t.json", TRACE);
    let value = desk.json("explain 0x1a3 --slot 101 --from t.json");
    let reason = &value["reasons"][0];
    assert_eq!(
        (&reason["ordered_bps"], &reason["why"], &reason["slots"]),
        (&1_000_000_000.into(), &"rank".into(), &2.into())
    );
    assert_eq!(reason["links"][0]["scheduled_bps"], 7_000_000_000_u64);
    let said = stdout(&desk.run("explain 4711 --slot -1 --from t.json"));
    let after = ["after      2.00 Gbit/s", "after      2 Gbit/s"];
    assert!(said.contains("slot 101") && after.iter().any(|after| said.contains(after)), "{said}");
    for (line, status, word) in [
        ("explain 0x1a3 --slot 99 --from t.json", 2, "slots 100 to 102"),
        ("explain 0x1a3 --slot -9 --from t.json", 2, "-2 to -1"),
        ("explain 0x9 --slot 101 --from t.json", 2, "0x1a3"),
        ("explain 0x1a3 --slot 101 --from none.json", 2, "cannot be read"),
    ] {
        let output = desk.run(line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{line}: {}", stderr(&output));
    }
}

#[test]
fn a_trace_is_played() {
    let desk = Desk::new();
    desk.write("t.json", TRACE);
    let first = stdout(&desk.run("top --replay t.json --once"));
    for piece in ["gpu-17", "4711", "0x1a3", "slot 1 of 3 x1", "rank"] {
        assert!(first.contains(piece), "{piece} in\n{first}");
    }
    let last = stdout(&desk.run("top --replay t.json --once --at 1m"));
    assert!(last.contains("slot 3 of 3") && last.contains("price"), "{last}");
    desk.write("x.json", "{}");
    let refused = desk.run("top --replay x.json --once");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("neither a trace nor a recording"), "{}", stderr(&refused));
    assert_eq!(desk.run("top --at 1m").status.code(), Some(2), "there is nothing to begin in");
}

#[test]
fn a_ring_is_followed_without_a_slot_twice_or_left_out() {
    let desk = Desk::new();
    let listener = UnixListener::bind(desk.path("d.sock")).expect("a socket");
    static NEWEST: AtomicU32 = AtomicU32::new(3);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 2048];
            let _ = stream.read(&mut request);
            let newest = NEWEST.fetch_add(2, Ordering::Relaxed);
            let rows: String = (1..=newest).map(|slot| format!("{slot},a\n")).collect();
            let text = format!("slot,flow\n{rows}");
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        }
    });
    let mut command = desk.command("timeline --follow --format csv --socket d.sock");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
    let reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let lines: Vec<String> = reader.lines().map_while(Result::ok).take(7).collect();
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert_eq!(lines, ["slot,flow", "1,a", "2,a", "3,a", "4,a", "5,a", "6,a"]);
    let refused = desk.run("timeline --follow --socket d.sock");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("csv or jsonl"), "{}", stderr(&refused));
}
