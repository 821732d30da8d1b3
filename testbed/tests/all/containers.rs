//! A job in a container: network, pid and mount namespaces of its own on a host, no page and no library. Needs root, BPF,
//! iperf3 and the built daemons.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged, star};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::fabric::Fabric;
use sluice_testbed::fabric::layout::container_address;
use sluice_testbed::run::daemons::Daemons;
use sluice_testbed::run::{Policy, RunPlan, Session};

/// Killed when dropped.
struct Running(Child);
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// iperf3 with the environment that torchrun would give it.
fn rank(n: usize, args: &[&str]) -> Command {
    let mut command = Command::new("iperf3");
    command.args(args).env("RANK", n.to_string()).env("WORLD_SIZE", "2");
    command.env("MASTER_ADDR", "10.0.0.9").env("MASTER_PORT", "29500").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[test]
fn a_job_in_a_container_is_found_and_managed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip!(Thing, "no iperf3");
    }
    let (_keep, dir) = dir();
    let mut spec = star(2, Rate::mbps(200));
    spec.containers = vec![0];
    let plan = RunPlan { fabric: spec.clone(), ..RunPlan::default() };
    let fabric = Fabric::build(spec).unwrap();
    let policy = "sluice".parse::<Policy>().unwrap();
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let running = Daemons::start(&fabric, &plan, &policy, &session).unwrap();
    let to = fabric.hosts[1].address.to_string();
    let server = rank(1, &["-s", "-1", "-B", &to]);
    let _server = Running(fabric.hosts[1].ns.spawn(server, Some(fabric.cgroups.jobs(1).procs().unwrap())).unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let mut client = Running(match fabric.run_in_container(0, &rank(0, &["-c", &to, "-t", "8"])) {
        Ok(child) => child,
        Err(why) => return skip!(Kernel, "{why}"),
    });
    // Its own namespaces: it is process 1 of one, and its address is not the host's.
    let from = container_address(0, 2).to_string();
    let (mut managed, mut last) = (false, String::new());
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end && !managed {
        last = running.get(0, "/api/v1/snapshot").unwrap_or_default();
        let snapshot: serde_json::Value = serde_json::from_str(&last).unwrap_or_default();
        let flows = snapshot["flows"].as_array().cloned().unwrap_or_default();
        managed = flows.iter().any(|flow| {
            let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
            text("local").starts_with(&from) && text("job").starts_with("torch-") && text("state") == "managed"
        });
        std::thread::sleep(Duration::from_millis(100));
    }
    if !managed {
        let conditions = running.get(0, "/api/v1/conditions").unwrap_or_default();
        if conditions.contains("backend") {
            return skip!(Kernel, "nothing is enforced here: {conditions}");
        }
        panic!("the container's flow is not managed: {last} {conditions}");
    }
    assert!(client.0.wait().unwrap().success(), "the job ends as it would");
}
