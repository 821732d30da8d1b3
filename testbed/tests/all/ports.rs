//! Jobs that the operator names by a port: a program without page and environment, outside every cgroup of jobs. Needs root,
//! BPF, iperf3 and the built daemons.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, Running, also, daemons, dir, privileged, snapshot, star};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::fabric::{Fabric, Node};
use sluice_testbed::run::daemons::Daemons;
use sluice_testbed::run::{Policy, RunPlan, Session};

/// The operator names the first.
const NAMED: u16 = 5_301;
const OTHER: u16 = 5_302;

/// iperf3 with nothing in its environment but where programs are.
fn iperf(port: u16, args: &[&str]) -> Command {
    let mut command = Command::new("iperf3");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.args(args).args(["-p", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The congestion control of each of a host's connections to a port, and the bytes that were acknowledged on it.
fn controls(host: &Node, port: u16) -> Vec<(String, u64)> {
    let run = move || {
        let mut ss = Command::new("ss");
        ss.args(["-tinHO", "state", "established", "dport", "=", &format!(":{port}")]).output()
    };
    let output = host.ns.run(run).unwrap().expect("ss");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let of = |line: Vec<String>| {
        // After the ends of the connection.
        let control = line.get(4).cloned().unwrap_or_default();
        let acked = line.iter().find_map(|word| word.strip_prefix("bytes_acked:")?.parse().ok()).unwrap_or(0);
        (control, acked)
    };
    text.lines().map(|line| of(words(line))).collect()
}

#[test]
fn a_plain_program_is_managed_on_a_port_that_the_operator_names_and_on_no_other() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip!(Thing, "no iperf3");
    }
    let (_keep, dir) = dir();
    let spec = star(2, Rate::mbps(200));
    also(&dir, &spec.hosts, &format!("[capture]\nports = [\"{NAMED}\"]\n"));
    let plan = RunPlan { fabric: spec.clone(), ..RunPlan::default() };
    let fabric = Fabric::build(spec).unwrap();
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let running = Daemons::start(&fabric, &plan, &"sluice".parse::<Policy>().unwrap(), &session).unwrap();
    let (from, to) = (&fabric.hosts[0], &fabric.hosts[1]);
    let address = to.address.to_string();
    let start = |node: &Node, command| Running(node.ns.spawn(command, None).unwrap());
    let _servers = [NAMED, OTHER].map(|port| start(to, iperf(port, &["-s", "-1", "-B", &address])));
    std::thread::sleep(Duration::from_millis(300));
    let clients = [NAMED, OTHER].map(|port| start(from, iperf(port, &["-c", &address, "-t", "8"])));
    let (mut managed, mut last) = (false, serde_json::Value::Null);
    let end = Instant::now() + Duration::from_secs(30);
    let flows = |seen: &serde_json::Value| seen["flows"].as_array().cloned().unwrap_or_default();
    let leads_to =
        |flow: &serde_json::Value, port: u16| flow["to"].as_str().is_some_and(|to| to.ends_with(&format!(":{port}")));
    while Instant::now() < end && !managed {
        last = snapshot(&running, 0);
        managed = flows(&last).iter().any(|flow| {
            leads_to(flow, NAMED) && flow["job"] == format!("port-{NAMED}").as_str() && flow["state"] == "managed"
        });
        std::thread::sleep(Duration::from_millis(100));
    }
    if !managed {
        let conditions = running.get(0, "/api/v1/conditions").unwrap_or_default();
        if conditions.contains("backend") {
            return skip!(Kernel, "nothing is enforced here: {conditions}");
        }
        panic!("the connection on the port is not managed: {last} {conditions}");
    }
    // As the kernel has it: one of the two, and not the program's other connection, by which it only speaks.
    let paced = |port| controls(from, port).iter().filter(|(control, _)| control.starts_with("sluice")).count();
    assert_eq!((paced(NAMED), paced(OTHER)), (1, 0), "{:?} {:?}", controls(from, NAMED), controls(from, OTHER));
    // The other is as large as the one that is managed, and has been so for longer than that took to be found.
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        last = snapshot(&running, 0);
        assert!(!flows(&last).iter().any(|flow| leads_to(flow, OTHER)), "{last}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let largest = controls(from, OTHER).iter().map(|(_, acked)| *acked).max().unwrap_or(0);
    assert!(largest > 4 << 20, "{largest} bytes on the other port are no subject");
    assert_eq!(paced(OTHER), 0);
    for mut client in clients {
        assert!(client.0.wait().unwrap().success(), "both programs end as they would");
    }
}
