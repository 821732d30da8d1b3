//! A job that carries out a plan of rates, over real sockets in namespaces: every word is right, flows begin when what
//! they wait for has come, every lane has a connection of its own, and daemons hold each to its rate. Needs root.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, daemons, dir, everywhere, follower, privileged, seen, star};
use sluice_formats::topology::Topology;
use sluice_plan::follow::{Followed, Job};
use sluice_planners::Run;
use sluice_planners_wan::from_topology::Task;
use sluice_planners_wan::generate::{Normal, Workload};
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method::{Method, Options, propose};
use sluice_planners_wan::{bound, form, import, to_plan};
use sluice_schedule::Rate;
use sluice_schedule::host::config::RESERVE;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::FabricSpec;
use sluice_testbed::job::PlanFile;
use sluice_testbed::run::{FixedQueue, JobPlan, Policy, RunPlan, Session, Silent, run_once};

const HOSTS: usize = 4;
const ITERATIONS: u64 = 2;

/// Two ring all-reduces on a ring of sites, some 50 kB a flow.
fn plan() -> String {
    let graph = Graph::ring(HOSTS).unwrap();
    let size = Normal { mean: 0.05, deviation: 0.02, least: 0.001 };
    let workload = Workload { participants: HOSTS, size, ..Workload::new(&graph, 2, 1) };
    let instance = form::write(&workload.generate().unwrap());
    let (topology, wanted) = import::read(instance.as_bytes(), "instance.json").unwrap();
    let task = Task::new(&topology, &wanted, &[], "instance.json").unwrap();
    let plan = propose(Method::DataAware, &task.instance, &Options::default(), None, &Run::quiet(1)).unwrap().plan;
    let outcome = plan.execute(&task.instance).unwrap();
    to_plan::make(&task, &plan, &outcome, &bound::of_each(&task.instance), false).unwrap().plan.to_text()
}

#[test]
fn flows_of_rates_come_word_for_word_after_what_they_wait_for() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let (programs, spec, text) = (binaries(), star(HOSTS, Rate::mbps(200)), plan());
    let file = dir.join("plan.json");
    std::fs::write(&file, &text).unwrap();
    // One collective goes by the plan's own order of ranks, the other by ours.
    let ranks = ["3", "1", "0", "2"].map(str::to_owned).to_vec();
    let of = |collective: u64, ranks: Vec<String>| {
        let asked = (!ranks.is_empty()).then_some(&ranks[..]);
        let job = Job { ranks: asked, collective: Some(collective) };
        let followed = Followed::by(text.as_bytes(), "plan.json", job, None).unwrap();
        let plan = Some(PlanFile { file: file.clone(), ranks, collective: Some(collective) });
        let id = format!("collective-{collective}");
        (followed, JobPlan { plan, ..follower(&id, file.clone(), &spec, 1_000_000, ITERATIONS) })
    };
    let (followed, jobs): (Vec<_>, Vec<_>) = [of(0, Vec::new()), of(1, ranks)].into_iter().unzip();
    let places = vec![everywhere(&spec); jobs.len()];
    let plan = RunPlan { name: "transfers".into(), fabric: spec, jobs, ..RunPlan::default() };
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let run = run_once(&plan, &mut FixedQueue::new(places), &Policy::Fair(None), &session, &mut Silent).unwrap();
    for (job, followed) in run.jobs.iter().zip(&followed) {
        let lanes = &followed.transfers.lanes;
        assert_eq!((job.rounds.len() as u64, job.tcp.values().sum::<usize>()), (ITERATIONS, lanes.len()), "{job:?}");
        let flow = |of: &sluice_report::FlowTimes| {
            let times = of.began_s.zip(of.ended_s).expect("both ends say when");
            assert!(times.0 < times.1, "{of:?}");
            ((of.iteration, of.lane, of.flow), times)
        };
        let times: HashMap<_, _> = job.flows.iter().map(flow).collect();
        let flows: usize = lanes.iter().map(|lane| lane.flows.len()).sum();
        assert_eq!((flows, times.len()), (HOSTS * 2 * (HOSTS - 1), flows * ITERATIONS as usize));
        let mut waits = 0;
        for iteration in 0..ITERATIONS {
            let of = |lane: usize, flow: usize| times[&(iteration, lane, flow)];
            for (number, lane) in lanes.iter().enumerate() {
                for (at, flow) in lane.flows.iter().enumerate() {
                    for arrival in &flow.after {
                        let before = lanes[arrival.lane].flows.iter().position(|flow| flow.end == arrival.bytes);
                        let (before, began) = (of(arrival.lane, before.unwrap()), of(number, at).0);
                        assert!(before.1 <= began, "flow {at} of lane {number} began before {arrival:?} had come");
                        waits += 1;
                    }
                }
            }
        }
        // Every hop of a chunk but its first waits for the hop before.
        assert_eq!(waits, ITERATIONS * (flows - HOSTS) as u64);
    }
}

/// Rates for flows from the first host to the second and the third, which together leave most of its cable free; with
/// `fills`, what is left is theirs.
fn rates(spec: &FabricSpec, fills: bool) -> String {
    let hosts = &spec.hosts;
    let nodes = hosts.iter().map(|id| json!({"id": id, "kind": "host"})).chain([json!({"id": "s", "kind": "switch"})]);
    let link = |id: &String| json!({"from": id, "to": "s", "capacity": "100Mbit/s", "duplex": true});
    let links = hosts.iter().map(link).collect::<Vec<_>>();
    let inline = json!({"sluice_topology": 1, "nodes": nodes.collect::<Vec<_>>(), "links": links});
    let digest = Topology::read(inline.to_string().as_bytes(), "t").unwrap().digest();
    let flow = |id: u64, to: usize, rate: &str| {
        json!({"id": id, "collective": 0, "group": id, "order": 0, "src": hosts[0], "dst": hosts[to],
            "path": [0, 2 * to + 1], "size": "20MB", "rate": rate})
    };
    let execution = if fills { "work_conserving" } else { "static" };
    let flows = [flow(0, 1, "24Mbit/s"), flow(1, 2, "12Mbit/s")];
    let content = json!({"kind": "rates", "execution": execution, "flows": flows});
    let topology = json!({"sha256": digest, "inline": inline});
    json!({"sluice_plan": 1, "collective": "custom", "claim": {}, "topology": topology, "content": content}).to_string()
}

#[test]
fn daemons_hold_every_lane_to_what_its_plan_gives_it() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let spec = star(3, Rate::mbps(100));
    for fills in [false, true] {
        let file = dir.join(format!("{fills}.json"));
        std::fs::write(&file, rates(&spec, fills)).unwrap();
        // In payload of what daemons do not leave free of 100 Mbit/s: that is kept from everybody alike.
        let all = if fills { 100.0 } else { 36.0 } * 1448.0 / 1514.0 * (1.0 - RESERVE) * 1e6;
        let wanted = |of: &serde_json::Value| {
            let flows = of["flows"].as_array().map_or(&[][..], Vec::as_slice);
            let rates = |key: &str| flows.iter().filter_map(|flow| flow[key].as_f64()).collect::<Vec<_>>();
            let (mut ordered, delivered) = (rates("ordered_bps"), rates("delivered_bps"));
            ordered.sort_by(f64::total_cmp);
            let near = |is: f64, wanted: f64| is > 0.9 * wanted && is < 1.02 * wanted;
            let as_planned = matches!(ordered[..], [less, more] if near(less, all / 3.0) && near(more, all / 1.5));
            as_planned && delivered.iter().sum::<f64>() > 0.8 * all
        };
        let snapshot = seen(follower("held", file, &spec, 1_000_000, 10_000), spec.clone(), wanted);
        assert_eq!(snapshot["jobs"][0]["plan"], format!("{fills}.json"));
        let why: Vec<_> = snapshot["flows"].as_array().unwrap().iter().map(|flow| flow["why"].clone()).collect();
        assert_eq!(why, [if fills { "work-conserving" } else { "plan" }; 2]);
    }
}

#[test]
fn a_killed_daemon_leaves_its_lanes_to_ordinary_tcp_and_the_job_ends() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let (programs, spec, file) = (daemons(), star(3, Rate::mbps(100)), dir.join("plan.json"));
    std::fs::write(&file, rates(&spec, false)).unwrap();
    // At its rate the longer lane takes 13 s.
    let plan = RunPlan { jobs: vec![follower("left", file, &spec, 1_000_000, 1)], fabric: spec, ..RunPlan::default() };
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let policy = "sluice".parse::<Policy>().unwrap();
    let mut live = Live::start(&bench, &plan, &everywhere(&plan.fabric), &policy, 5).unwrap();
    let began = Instant::now();
    live.until(0, true, Duration::from_secs(5)).unwrap();
    live.run_for(Duration::from_millis(500)).unwrap();
    live.daemons.kill(0);
    live.until(0, false, Duration::from_secs(5)).unwrap();
    live.until_done(Duration::from_secs(30)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "held to its plan's rates: {:?}", began.elapsed());
}
