//! What daemons recorded of a run, done again by the simulator: the jobs are found again, and their rounds take as long.
//! Needs root, BPF and the built daemons.

use std::path::Path;

use sluice_formats::recording;
use sluice_report::PolicyRun;
use sluice_scenario::replay::replay;
use sluice_scenario::{Arch, Notation, Scenario};
use sluice_schedule::{Nanos, Rate};
use sluice_simulate::Watch;
use sluice_simulate::runs::{Task, one};
use sluice_testbed::job::{self as jobs};
use sluice_testbed::run::daemons::RECORDING;
use sluice_testbed::run::{FixedQueue, Placement, Policy, RunPlan, Session, Silent, run_once};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, privileged, quiet, star};

/// How far the mean round of a recording may be from that of the run: begins and ends are seen once in a turn of the loop.
const RECORDED: f64 = 0.05;
/// How far the mean round over both jobs in the simulator may be from that of the run, which has packets and late timers. Of
/// a single job it may be further: which of the two goes first hangs on a millisecond.
const SIMULATED: f64 = 0.15;

fn mean_round(run: &PolicyRun, job: usize) -> f64 {
    let rounds = &run.jobs[job].rounds;
    rounds.iter().map(|(began, ended)| ended - began).sum::<f64>() / rounds.len() as f64
}

#[test]
fn what_daemons_recorded_is_done_again_in_as_much_time() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let mut work =
        vec![job("ring", jobs::Arch::Ring, 3, 0, 12_000_000, 8), job("servers", jobs::Arch::Ps, 2, 1, 6_000_000, 8)];
    work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(250)]);
    work[1].arrival = Nanos::from_millis(700);
    let plan = RunPlan { fabric: star(3, Rate::mbps(200)), jobs: work, record: true, ..RunPlan::default() };
    let ring = Placement { workers: vec![0, 1, 2], servers: vec![] };
    let places = vec![ring, Placement { workers: vec![0, 1], servers: vec![2] }];
    let policy = "sluice".parse::<Policy>().unwrap();
    // How far the worst of both jobs is off, as parts of what is allowed, in the quietest of some tries.
    let off = quiet(|| {
        let (_keep, dir) = dir();
        let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
        let run = run_once(&plan, &mut FixedQueue::new(places.clone()), &policy, &session, &mut Silent).unwrap();
        let recordings = plan.fabric.hosts.iter().map(|host| {
            let file = dir.join(format!("run-{host}")).join(RECORDING);
            (host.clone(), recording::load(&file).unwrap_or_else(|e| panic!("{e}")))
        });
        let made = replay(&recordings.collect::<Vec<_>>(), None).unwrap_or_else(|e| panic!("{e}"));
        let text = made.scenario.to_string();
        let scenario =
            Scenario::parse(&text, Notation::Json, "replay.json", Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
        let [ring, servers] = &scenario.jobs[..] else { panic!("two jobs: {text}") };
        // Both were recorded as what they are, with as many rounds and bytes.
        assert_eq!((ring.id.as_str(), ring.arch, ring.workers), ("ring", Arch::Ring, 3), "{:?}\n{text}", made.notes);
        assert_eq!(
            (servers.id.as_str(), servers.arch, servers.workers),
            ("servers", Arch::Ps, 2),
            "{:?}\n{text}",
            made.notes
        );
        for (job, plan) in scenario.jobs.iter().zip(&plan.jobs) {
            assert!(job.iterations.abs_diff(8) <= 1, "{text}");
            assert!((job.bytes as f64 / plan.bytes.0 as f64 - 1.0).abs() < 0.03, "{text}");
        }
        let task = Task { scenario: &scenario, policy: "sluice".parse().unwrap(), profile: false };
        let ran = one(&task, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut worst: f64 = 0.0;
        let mut sums = [0.0; 2];
        for (at, log) in ran.outcome.jobs.iter().enumerate() {
            let measured = mean_round(&run, at);
            let rounds = log.rounds.iter().map(|round| round.ended.minus(round.began).as_secs_f64());
            let simulated = rounds.sum::<f64>() / log.rounds.len() as f64;
            let recorded = made.jobs[at].round_s;
            println!(
                "{}: measured {measured:.3} s, recorded {recorded:.3} s, simulated {simulated:.3} s",
                made.jobs[at].id
            );
            worst = worst.max((recorded / measured - 1.0).abs() / RECORDED);
            sums = [sums[0] + simulated, sums[1] + measured];
        }
        worst.max((sums[0] / sums[1] - 1.0).abs() / SIMULATED)
    });
    assert!(off < 1.0, "{off:.2} of what is allowed");
}
