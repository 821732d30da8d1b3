//! A job that carries out a plan of rates, over real sockets in namespaces: every word is right, flows begin when what
//! they wait for has come, and every lane has a connection of its own. Needs root.

use std::collections::HashMap;

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, everywhere, follower, privileged, star};
use sluice_plan::follow::{Followed, Job};
use sluice_planners::Run;
use sluice_planners_wan::from_topology::Task;
use sluice_planners_wan::generate::{Normal, Workload};
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method::{Method, Options, propose};
use sluice_planners_wan::{bound, form, import, to_plan};
use sluice_schedule::Rate;
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
