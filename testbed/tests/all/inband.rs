//! The whole system in band: every switch is a `sluice-switch` that forwards all packets in its kernel's place, and daemons
//! speak to it only by datagrams along the paths of their flows.

use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, metrics, privileged};
use sluice_scenario::Transport;
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::{Cable, FabricSpec, NetNs};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{FixedQueue, Placement, Policy, RunPlan, Session, Silent, inband, run_once};

/// The sum of the lines of a switch's metric that contain all of these.
pub fn metric(ns: &NetNs, name: &'static str, parts: &[&str]) -> f64 {
    let text = ns.run(|| metrics("127.0.0.1:9606")).unwrap().unwrap_or_default();
    let ours = |line: &&str| line.starts_with(name) && parts.iter().all(|part| line.contains(part));
    text.lines().filter(ours).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn counter(live: &Live, host: usize, name: &str) -> u64 {
    let text = live.daemons.get(host, "/api/v1/snapshot").unwrap_or_default();
    let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    snapshot["counters"][name].as_u64().unwrap_or(0)
}

/// Of all flows across the spines those whose links are known by their signatures and kept by hosts, and the others.
fn ways(live: &Live) -> (usize, usize) {
    let (mut known, mut others) = (0, 0);
    for host in 0..4 {
        let text = live.daemons.get(host, "/api/v1/snapshot").unwrap_or_default();
        let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let listed = |what: &str| snapshot[what].as_array().cloned().unwrap_or_default();
        let word = |of: &serde_json::Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
        let by_host = |link: &serde_json::Value| word(link, "holder").starts_with('h');
        let inside = |link: &serde_json::Value| word(link, "name").starts_with(['l', 's']);
        let in_use = |link: &serde_json::Value| link["managed_bps"].as_u64() > Some(0);
        let links = listed("links").iter().filter(|link| inside(link) && by_host(link) && in_use(link)).count();
        for flow in listed("flows").iter().filter(|flow| word(flow, "state") == "managed") {
            // One up and one down, at least.
            if word(flow, "path") == "signature" && links >= 2 {
                known += 1;
            } else {
                others += 1;
            }
        }
    }
    (known, others)
}

/// Longer than a flow is plain that was given back for what a first collision lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two chunks a flow promises nothing for a moment.
fn all_ways_are_known(live: &mut Live) {
    let began = Instant::now();
    while ways(live) != (4, 0) {
        assert!(began.elapsed() < PATIENCE, "flows with known ways and others: {:?}", ways(live));
        live.run_for(Duration::from_millis(20)).unwrap();
    }
}

#[test]
fn jobs_behind_two_leaves_are_managed_without_a_word_to_any_switch() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let mut work = vec![job("a", Arch::Ring, 3, 0, 2_000_000, 8), job("b", Arch::Ps, 2, 1, 2_000_000, 8)];
    work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(60)]);
    let transport = Transport::Inband;
    let plan = RunPlan { fabric: leaf_spine(), jobs: work, transport, ..RunPlan::default() };
    let places = vec![
        Placement { workers: vec![0, 2, 1], servers: vec![] },
        Placement { workers: vec![0, 3], servers: vec![2] },
    ];
    let programs = daemons();
    let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let policy = "sluice".parse::<Policy>().unwrap();
    let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
    assert!(run.jobs.iter().all(|result| result.rounds.len() == 8), "{:?}", run.jobs);
    for host in &plan.fabric.hosts[..3] {
        let file = dir.join(format!("sluiced-{host}.snapshot.json"));
        let snapshot: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let count = |name: &str| snapshot["counters"][name].as_u64().unwrap();
        let [managed, other] = ["acked_managed_bytes", "acked_other_bytes"].map(count);
        assert!(managed > 9 * other && managed > 16_000_000, "{host}: {managed} managed, {other} not");
        assert!(count("decisions_feedback") > 0, "{host}: nothing was heard");
        let [sent, answered] = ["datagrams_sent", "datagrams_answered"].map(count);
        if host == "h1" {
            assert_eq!(sent, 0, "what it sends stays behind one leaf, of which its receiver knows all");
        } else {
            assert!(sent > 30 && answered * 10 > sent * 9, "{host}: {answered} echoes of {sent}");
        }
    }
}

/// Two leaves of two hosts each, and two spines.
pub fn leaf_spine() -> FabricSpec {
    let cable = |a: &str, b: &str| Cable::plain(a, b, Rate::mbps(200), Bytes(200_000));
    let (leaves, spines) = (["l0", "l1"], ["s0", "s1"]);
    let mut cables: Vec<Cable> = (0..4).map(|host| cable(&format!("h{host}"), leaves[host / 2])).collect();
    cables.extend(leaves.iter().flat_map(|leaf| spines.map(|spine| cable(leaf, spine))));
    FabricSpec {
        hosts: (0..4).map(|host| format!("h{host}")).collect(),
        switches: leaves.into_iter().chain(spines).map(String::from).collect(),
        cables,
        ..FabricSpec::default()
    }
}

/// Promises: P-32
#[test]
fn a_way_that_is_lost_is_left_and_noticed_and_no_flow_stops() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let programs = daemons();
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let plan = RunPlan {
        name: "ways".into(),
        fabric: leaf_spine(),
        jobs: vec![job("a", Arch::Ring, 4, 0, 2_000_000, 1_000_000)],
        transport: Transport::Inband,
        ..RunPlan::default()
    };
    // Every hop of the ring crosses the spines.
    let place = Placement { workers: vec![0, 2, 1, 3], servers: vec![] };
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 20).unwrap();
    live.until(0, true, Duration::from_secs(20)).unwrap();
    live.run_for(Duration::from_secs(2)).unwrap();

    // Switches are spoken to in band, and receivers tell of their own links.
    let text = live.daemons.get(0, "/api/v1/snapshot").unwrap_or_default();
    let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
    let holders = snapshot["switches"].as_array().unwrap();
    let (peers, switches): (Vec<_>, Vec<_>) = holders.iter().partition(|holder| holder["peer"].as_bool() == Some(true));
    assert!(
        !switches.is_empty() && switches.iter().all(|switch| switch["transport"].as_str() == Some("inband")),
        "{text}"
    );
    assert!(switches.iter().all(|switch| switch["rejects"].as_u64() == Some(0)), "{text}");
    let heard = |holder: &&serde_json::Value| holder["received_messages"].as_u64() > Some(10);
    assert!(switches.iter().any(heard) && peers.iter().any(heard), "{text}");

    // Announcements are counted at every hop, echoes at none.
    let at = |live: &Live, switch: usize, what: &str| {
        metric(&live.fabric.switches[switch].ns, "sluice_switchd_inband_packets_total", &[&format!("what=\"{what}\"")])
    };
    let counted: Vec<f64> = (0..4).map(|switch| at(&live, switch, "counted")).collect();
    assert!(counted[0] > 20.0 && counted[1] > 20.0 && counted[2] + counted[3] > 20.0, "{counted:?}");
    // What the data plane counts: it forwarded, and nothing came too fast to be read.
    let plane = |name: &'static str, parts: &[&str]| metric(&live.fabric.switches[0].ns, name, parts);
    assert!(plane("sluice_switchd_forwarded_frames_total", &[]) > 100.0);
    assert!(plane("sluice_switchd_forwarded_bytes_total", &[]) > 1e6);
    assert_eq!(plane("sluice_switchd_dropped_frames_total", &[]), 0.0);
    let edge = metric(&live.fabric.switches[0].ns, "sluice_switchd_inband_packets_total", &["interface=\"p0\""]);
    assert_eq!(edge, 0.0, "what leads to a host its receiver keeps");
    assert_eq!((0..4).map(|switch| at(&live, switch, "guarded")).sum::<f64>(), 0.0);
    all_ways_are_known(&mut live);
    let hosts = 0..4;
    let moved = |live: &Live| hosts.clone().map(|host| counter(live, host, "paths_moved")).sum::<u64>();
    assert_eq!(moved(&live), 0, "paths are what they were");

    // The spine that carries more is gone: its switch stands still, and the leaves' tables do without it.
    let busy = if counted[2] > counted[3] { 2 } else { 3 };
    let spine = plan.fabric.hosts.len() + busy;
    let mut layout = live.fabric.layout.clone();
    for leaf in 4..6 {
        for hops in &mut layout.next[leaf] {
            hops.retain(|hop| layout.links[*hop].to.node != spine);
        }
    }
    let delivered = |live: &Live| live.samples.iter().rev().find(|s| s.rank == 0).map_or(0, |s| s.flows[0].0);
    let before = delivered(&live);
    inband::rewrite(&live.fabric, &layout, &dir.join("live")).unwrap();
    let began = Instant::now();
    while moved(&live) == 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "nobody noticed another path");
        live.run_for(Duration::from_millis(20)).unwrap();
    }
    println!("another path was noticed within {:?}", began.elapsed());
    live.run_for(Duration::from_secs(1)).unwrap();
    all_ways_are_known(&mut live);
    let left = at(&live, busy, "counted");
    live.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(at(&live, busy, "counted"), left, "nothing goes by the lost way");
    assert!(delivered(&live) > before + 10_000_000, "the job went on: {before}, {}", delivered(&live));
    live.until(0, true, PATIENCE).unwrap();
}
