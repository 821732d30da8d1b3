//! Jobs that carry a step schedule out between hosts without a switch, over real sockets in namespaces: exact results.
//! Needs root.

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, job, privileged};
use sluice_plan::plan::Collective;
use sluice_schedule::Rate;
use sluice_testbed::experiment::direct::{Wiring, plan_on};
use sluice_testbed::job::{Arch, PlanFile};
use sluice_testbed::run::{FixedQueue, JobPlan, Placement, Policy, RunPlan, Session, Silent, run_once};

#[test]
fn every_collective_on_a_torus_and_a_kautz_graph_ends_with_exact_floats() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = binaries();
    for wiring in [Wiring::Torus { a: 2, b: 3 }, Wiring::Kautz { d: 2, n: 7 }] {
        let (_keep, dir) = dir();
        let spec = wiring.spec(Rate::mbps(200));
        let of = |collective: Collective| {
            let file = dir.join(format!("{}.json", collective.word()));
            let planned = plan_on(&wiring, Rate::mbps(200), collective, file).unwrap();
            let plan = Some(PlanFile { file: planned.file, ranks: spec.hosts.clone(), collective: None });
            JobPlan { plan, ..job(collective.word(), Arch::Plan, spec.hosts.len(), 0, 400_003, 3) }
        };
        let jobs: Vec<JobPlan> =
            [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter].map(of).into();
        let everywhere = Placement { workers: (0..spec.hosts.len()).collect(), servers: Vec::new() };
        let places = vec![everywhere; jobs.len()];
        let plan = RunPlan { name: "direct".into(), fabric: spec, jobs, ..RunPlan::default() };
        let session = Session { binaries: &programs, dir, stop: &NEVER };
        let run = run_once(&plan, &mut FixedQueue::new(places), &Policy::Fair(None), &session, &mut Silent).unwrap();
        for job in &run.jobs {
            assert_eq!(job.rounds.len(), 3, "{}", job.figures.id);
        }
    }
}
