//! In band with nobody but switches: with `peer.listen = []` no host keeps a table, every port has its link, and sums of rates
//! are all that hosts hear.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, also, daemons, dir, job, privileged, snapshot, star};
use crate::inband::metric;
use serde_json::Value;
use sluice_scenario::Transport;
use sluice_schedule::Rate;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Placement, Policy, RunPlan};

/// What every cable carries, Mbit/s.
const MBPS: u64 = 200;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where hosts speak to each other, in sessions over TCP, if they do; and where each daemon is asked.
const PEERS: u16 = 9604;
const HTTP: u16 = 9605;

/// Links for ports that lead to hosts too, which the testbed leaves to their receivers.
fn link_all_ports(tables: &Path) {
    let text = std::fs::read_to_string(tables).unwrap();
    let capacity = Rate::mbps(MBPS).payload().0 / 1_000_000;
    let ports = text.lines().filter_map(|line| line.strip_prefix("edge ")?.split(' ').next());
    let links: Vec<String> =
        ports.map(|port| format!("link {port} capacity {capacity} unit 0 signature 0x5eed000{port}\n")).collect();
    assert_eq!(links.len(), 3, "{text}");
    // At once: half a file would be none.
    let part = tables.with_extension("part");
    std::fs::write(&part, text + &links.concat()).unwrap();
    std::fs::rename(&part, tables).unwrap();
}

/// TCP sockets of this thread's network that have this port at one of their ends.
fn sockets_at(port: u16) -> usize {
    let end = format!(":{port:04X}");
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let text = ["tcp", "tcp6"].map(read).concat();
    let ends = |line: &&str| line.split_whitespace().skip(1).take(2).any(|socket| socket.ends_with(&end));
    text.lines().filter(ends).count()
}

fn until(live: &mut Live, what: &str, mut holds: impl FnMut(&Live) -> bool) {
    let began = Instant::now();
    while !holds(live) {
        assert!(began.elapsed() < PATIENCE, "never {what}: {}", snapshot(&live.daemons, 0)["conditions"]);
        live.run_for(Duration::from_millis(50)).unwrap();
    }
}

/// What host 0 has sent in band, and how much of it came back.
fn datagrams(live: &Live) -> [u64; 2] {
    let counters = snapshot(&live.daemons, 0)["counters"].clone();
    ["datagrams_sent", "datagrams_answered"].map(|name| counters[name].as_u64().unwrap_or(0))
}

/// Has a flow of host 0 an order in the kernel?
fn is_ordered(live: &Live) -> bool {
    let snapshot = snapshot(&live.daemons, 0);
    let ordered =
        |flow: &Value| flow["state"].as_str() == Some("managed") && flow["ordered_bps"].as_u64() > Some(1_000_000);
    let rows = snapshot["enforcement"]["rows_used"].as_u64();
    rows > Some(0) && snapshot["flows"].as_array().is_some_and(|flows| flows.iter().any(ordered))
}

/// Does host 0 know of a link of the switch that others will send there?
fn hears_of_others(live: &Live) -> bool {
    let snapshot = snapshot(&live.daemons, 0);
    let explained = |flow: &Value| {
        let text = live.daemons.get(0, &format!("/api/v1/explain/{}", flow["id"].as_str()?))?;
        serde_json::from_str::<Value>(&text).ok()
    };
    let loaded = |explained: &Value| {
        let ahead = |slot: &Value| slot["load_ratio"].as_f64() > Some(0.05);
        explained["link"].as_str().is_some_and(|link| link.starts_with("s0:"))
            && explained["slots"].as_array().is_some_and(|slots| slots.iter().any(ahead))
    };
    let flows = snapshot["flows"].as_array().into_iter().flatten();
    flows.filter_map(explained).any(|explained| loaded(&explained))
}

#[test]
fn sums_alone_schedule_flows_without_a_session_between_any_two() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let programs = daemons();
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let fabric = star(3, Rate::mbps(MBPS));
    also(&dir.join("live"), &fabric.hosts, "[peer]\nlisten = []\n");
    let plan = RunPlan {
        name: "sums".into(),
        fabric,
        // Both workers send to one server: on its link each has to hear of the other. Rounds of many slots: where two begin at
        // once, neither has heard of the other yet, and what they lose gives a flow back whose rounds are no longer than that.
        jobs: vec![job("a", Arch::Ps, 2, 1, 20_000_000, 1_000_000)],
        transport: Transport::Inband,
        ..RunPlan::default()
    };
    let place = Placement { workers: vec![0, 1], servers: vec![2] };
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 20).unwrap();
    link_all_ports(&dir.join("live/sluice-switch-s0.tables"));

    live.until(0, true, PATIENCE).unwrap();
    until(&mut live, "has a flow an order", is_ordered);
    until(&mut live, "is another's promise heard of", hears_of_others);
    let before = datagrams(&live);
    until(&mut live, "are a hundred datagrams sent", |live| datagrams(live)[0] >= before[0] + 100);
    let after = datagrams(&live);
    let (sent, answered) = (after[0] - before[0], after[1] - before[1]);
    // On a busy machine an echo may be late; what is said again then has one echo for two copies.
    assert!(answered * 3 > sent * 2, "{answered} echoes of {sent}");
    let at_server = |live: &Live, what: &'static str| {
        let parts = ["interface=\"p2\"", what];
        metric(&live.fabric.switches[0].ns, "sluice_switchd_inband_packets_total", &parts)
    };
    until(&mut live, "does the server's link count", |live| at_server(live, "what=\"counted\"") > 20.0);
    assert_eq!(at_server(&live, "what=\"guarded\""), 0.0);

    // Nobody is a peer of anybody, and nobody has a session with the switch.
    for host in 0..3 {
        let told = snapshot(&live.daemons, host);
        let [holder] = told["switches"].as_array().unwrap().as_slice() else { panic!("{}", told["switches"]) };
        assert_eq!((holder["name"].as_str(), holder["transport"].as_str()), (Some("s0"), Some("inband")));
        assert_eq!(holder["peer"].as_bool(), Some(false));
        assert!(holder["received_messages"].as_u64() > Some(10), "{holder}");
        let sockets = live.fabric.hosts[host].ns.run(|| [PEERS, HTTP].map(sockets_at)).unwrap();
        assert!(sockets[0] == 0 && sockets[1] > 0, "h{host}: {sockets:?}");
    }
    assert_eq!(metric(&live.fabric.switches[0].ns, "sluice_switchd_sessions", &[]), 0.0);

    let delivered = |live: &Live| live.samples.iter().rev().find(|s| s.rank == 0).map_or(0, |s| s.flows[0].0);
    let so_far = delivered(&live);
    until(&mut live, "does the job go on", |live| delivered(live) > so_far + 5_000_000);
    live.until(0, true, PATIENCE).unwrap();
}
