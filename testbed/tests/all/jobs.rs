//! Real jobs over a real fabric under plain TCP: every iteration's sum is exact, for every pattern.
//! Needs root.

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, job, privileged, star};
use sluice_scenario::{CrossFlow, NodeIx};
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{FixedQueue, Placement, Policy, RunError, RunPlan, Session, Silent, run_once};

fn place(workers: &[usize], servers: &[usize]) -> Placement {
    Placement { workers: workers.into(), servers: servers.into() }
}

#[test]
fn every_pattern_ends_with_exact_sums() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let (programs, hosts) = (binaries(), 4);
    let mut jobs = vec![
        job("ring", Arch::Ring, 3, 0, 1_000_003, 4),
        job("ps", Arch::Ps, 2, 2, 1_000_001, 4),
        job("tree", Arch::Tree, 4, 0, 500_000, 4),
        job("alone", Arch::None, 1, 0, 4, 4),
    ];
    jobs[1].arrival = Nanos::from_millis(50);
    jobs[2].overlap = 0.5;
    let cross = CrossFlow {
        src: NodeIx(0),
        dst: NodeIx(1),
        start: Nanos::from_millis(50),
        end: Nanos::from_millis(400),
        rate: None,
    };
    let plan = RunPlan {
        name: "patterns".into(),
        fabric: star(hosts, Rate::mbps(300)),
        jobs,
        cross: vec![cross],
        ..RunPlan::default()
    };
    let places = vec![place(&[0, 1, 2], &[]), place(&[1, 2], &[3, 0]), place(&[0, 1, 2, 3], &[]), place(&[0], &[])];
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let policy = "fair:cubic".parse::<Policy>().unwrap();
    let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
    for (job, result) in plan.jobs.iter().zip(&run.jobs) {
        assert_eq!(result.rounds.len() as u64, job.iterations, "{}", job.id);
        assert!(result.figures.jct_s > 0.0 && result.figures.end_s >= result.figures.start_s, "{result:?}");
        assert!(result.tcp.keys().all(|t| t == "cubic"), "{result:?}");
    }
    // No more than the link carried while the flow lived, and no less than a tenth of it beside three flows of jobs.
    let life = plan.fabric.payload(Rate::mbps(300)).over(Nanos::from_millis(350)).0;
    assert!(run.cross_bytes > life / 10 && run.cross_bytes <= life, "{} of {life}", run.cross_bytes);
    let part = run.cross_interval_s / run.makespan_s;
    assert!((0.9..1.2).contains(&part), "{} s of {} s", run.cross_interval_s, run.makespan_s);
    // A ring moves 2(n-1)/n of the gradient per rank and iteration, to the byte of its padding; a hello is 24 bytes.
    let chunk = 1_000_003_u64.div_ceil(4).div_ceil(3) * 4;
    assert_eq!(run.jobs[0].acked, 3 * (4 * 4 * chunk + 24 + 2), "payload, hello, SYN and FIN of three flows");
    assert!(run.links.iter().any(|l| l.utilisation > 0.0));
}

#[test]
fn a_job_that_cannot_run_fails_with_its_reason() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let programs = binaries();
    let mut broken = job("broken", Arch::Ring, 2, 0, 1_000, 1);
    broken.bytes = Bytes(0);
    let plan = RunPlan { fabric: star(2, Rate::mbps(100)), jobs: vec![broken], ..RunPlan::default() };
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let mut queue = FixedQueue::new(vec![place(&[0, 1], &[])]);
    let result = run_once(&plan, &mut queue, &Policy::Fair(None), &session, &mut Silent);
    match result {
        Err(RunError::Job { job, what, .. }) => {
            assert_eq!(job, "broken");
            assert!(what.contains("bytes = 0"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}
