//! Daemons that begin with nothing, and after those that they serve: after a reboot, and in any order.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged, quiet, snapshot};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::fail_open::plan;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{JobPlan, Placement, Policy};

/// From its start to the first orders, at most.
const FIRST_ORDERS: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(20);

/// Leaves host 0 as a reboot does: no daemon, no pin, and no file but the progress pages of jobs that run here all the time.
fn reboot(live: &mut Live, program: &std::path::Path) {
    let run_dir = live.daemons.hosts[0].run_dir.clone();
    let config = run_dir.with_file_name(format!("sluiced-{}.toml", live.fabric.hosts[0].name));
    assert!(config.is_file(), "{}", config.display());
    live.daemons.kill(0);
    let mut cleanup = Command::new(program);
    cleanup.arg("--config").arg(config).arg("cleanup");
    let done = live.fabric.hosts[0].ns.spawn(cleanup, None).expect("it starts").wait().expect("it ends");
    assert!(done.success(), "{done}");
    for entry in std::fs::read_dir(&run_dir).expect("a run directory").flatten() {
        let path = entry.path();
        match entry.file_name() == "progress" {
            true => {}
            false if path.is_dir() => std::fs::remove_dir_all(&path).expect("removed"),
            false => std::fs::remove_file(&path).expect("removed"),
        }
    }
    live.until(0, false, PATIENCE).expect("its flows are plain");
}

/// Promises: P-25, P-26
#[test]
fn a_host_that_begins_with_nothing_orders_within_three_seconds_also_jobs_that_began_before_it() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let program = programs.daemon().expect("built");
    let took = quiet(|| {
        let (_keep, dir) = dir();
        let bench = Bench { binaries: &programs, dir, stop: &NEVER };
        let (mut plan, place) = plan(Rate::mbps(200), 2);
        let later = JobPlan { arch: Arch::Ps, servers: 1, ..JobPlan::ring("later", 1, plan.jobs[0].bytes, 100) };
        plan.jobs.push(JobPlan { compute: vec![Nanos::from_millis(5)], ..later });
        let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 4).unwrap();
        if let Err(error) = live.until(0, true, PATIENCE) {
            let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
            assert!(conditions.contains("backend"), "not managed, and no condition says why: {error} {conditions}");
            return Err(conditions);
        }
        reboot(&mut live, &program);
        // While nobody is there to see it.
        live.start_beside(&bench, &plan, 1, &Placement { workers: vec![1], servers: vec![0] }).expect("it runs");
        let began = Instant::now();
        live.daemons.restart(&live.fabric, 0).expect("it starts with nothing");
        live.until(0, true, PATIENCE).expect("its flows are managed again");
        let took = began.elapsed();
        let managed = |live: &Live| {
            let snapshot = snapshot(&live.daemons, 0);
            let flows = snapshot["flows"].as_array().cloned().unwrap_or_default();
            flows
                .iter()
                .any(|flow| flow["job"].as_str().is_some_and(|id| id.contains("later")) && flow["state"] == "managed")
        };
        while !managed(&live) {
            assert!(began.elapsed() < PATIENCE, "the job that began before it is not seen");
            live.run_for(Duration::from_millis(50)).unwrap();
        }
        Ok(took)
    });
    match took {
        Ok(took) => {
            eprintln!("first orders {took:?} after the start");
            assert!(took <= FIRST_ORDERS, "{took:?}");
        }
        Err(conditions) => skip!(Kernel, "nothing is enforced here: {conditions}"),
    }
}
