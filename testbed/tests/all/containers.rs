//! A job in a container: network, pid and mount namespaces of its own on a host, no page and no library. Needs root, BPF,
//! iperf3 and the built daemons.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, Running, also, daemons, dir, privileged, snapshot, star};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::fabric::layout::container_address;
use sluice_testbed::fabric::{Fabric, NetNs};
use sluice_testbed::run::daemons::Daemons;
use sluice_testbed::run::{Policy, RunPlan, Session};

/// Says that it is in its namespaces, waits for its network, then becomes the program.
const BEGIN: &str = "echo ready; read -r line; exec \"$@\"";
/// `ip` in the network namespace of a process.
const WITHIN: &str = "exec nsenter --net=/proc/$0/ns/net ip -batch -";

/// A container as far as the kernel knows containers: a process in network, pid and mount namespaces of its own, joined
/// to its host by a cable and routed behind the host's address, in a cgroup. The host is one of the
/// spec's `containers`.
fn run_in_container(fabric: &Fabric, host: usize, command: &Command, procs: Option<OwnedFd>) -> Result<Running> {
    let ns = &fabric.hosts[host].ns;
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BEGIN, "sh"]);
    unshare.arg(command.get_program()).args(command.get_args());
    unshare.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Running(ns.spawn(unshare, procs).map_err(Error::other)?);
    let mut out = BufReader::with_capacity(1, child.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line)?;
    if line.trim() != "ready" {
        return Err(Error::other("unshare (util-linux) cannot make a container"));
    }
    let (pid, gso) = (child.0.id(), fabric.spec.gso_max.0);
    let (outside, inside) = (container_address(host, 1), container_address(host, 2));
    ip(
        ns,
        "self".into(),
        format!(
            "link add name ct0 type veth peer name eth0 netns {pid}\naddr add {outside}/24 dev ct0\n\
             link set ct0 gso_max_size {gso}\nlink set ct0 up\n"
        ),
    )?;
    let lines =
        format!("link set lo up\naddr add {inside}/24 dev eth0\nlink set eth0 up\nroute add default via {outside}\n");
    ip(ns, pid.to_string(), lines)?;
    child.0.stdin.take().expect("a pipe").write_all(b"go\n")?;
    Ok(child)
}

/// Runs lines of `ip` in the network namespace of a process, from a host's.
fn ip(ns: &NetNs, process: String, lines: String) -> Result<()> {
    let ran = ns.run(move || {
        let mut shell = Command::new("sh");
        shell.args(["-c", WITHIN, &process]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn()?;
        child.stdin.take().expect("a pipe").write_all(lines.as_bytes())?;
        child.wait_with_output()
    });
    let output = ran.map_err(Error::other)??;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(Error::other(said)) }
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
    let mut client = match run_in_container(
        &fabric,
        0,
        &rank(0, &["-c", &to, "-t", "5"]),
        Some(fabric.cgroups.jobs(0).procs().unwrap()),
    ) {
        Ok(child) => child,
        Err(why) => return skip!(Kernel, "{why}"),
    };
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

/// A rank that sends two megabytes every 300 ms, and looks before and after each burst at all that a daemon could change of
/// its socket. It ends with 0 if nothing ever did.
const RANK: &str = r#"
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def settings():
    control = s.getsockopt(socket.IPPROTO_TCP, 13, 16)
    ceiling = s.getsockopt(socket.SOL_SOCKET, 47, 8)
    clamp = s.getsockopt(socket.IPPROTO_TCP, 10, 4)
    return control.rstrip(b"\0"), ceiling, clamp
first = settings()
assert first[1] == b"\xff" * 8, first
for _ in range(int(sys.argv[3])):
    began = time.monotonic()
    s.sendall(bytes(2 << 20))
    assert settings() == first, (first, settings())
    time.sleep(max(0.1, began + 0.3 - time.monotonic()))
    assert settings() == first, (first, settings())
"#;
const PORT: u16 = 7_778;

/// A pod's rank under a daemon that observes, with this beside its configuration: its flow, and the most rounds that were
/// told of a job. `None`: it cannot be tried here.
fn observed(more: &str, environ: &[(&str, &str)], in_cgroup: bool) -> Option<(serde_json::Value, u64)> {
    let programs = daemons();
    let (_keep, dir) = dir();
    let mut spec = star(2, Rate::mbps(200));
    spec.containers = vec![0];
    also(&dir, &spec.hosts, &format!("mode = \"observe\"\n{more}"));
    let plan = RunPlan { fabric: spec.clone(), ..RunPlan::default() };
    let fabric = Fabric::build(spec).unwrap();
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let running = Daemons::start(&fabric, &plan, &"sluice".parse::<Policy>().unwrap(), &session).unwrap();
    let at = fabric.hosts[1].address;
    let listener = fabric.hosts[1].ns.run(move || TcpListener::bind((at, PORT))).unwrap().expect("a port");
    std::thread::spawn(move || {
        let (mut stream, mut buffer) = (listener.accept().expect("the rank connects").0, vec![0; 1 << 16]);
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    let mut command = Command::new("python3");
    command.args(["-c", RANK, &at.to_string(), &PORT.to_string(), "30"]).envs(environ.iter().copied());
    let procs = in_cgroup.then(|| fabric.cgroups.jobs(0).procs().unwrap());
    let mut pod = match run_in_container(&fabric, 0, &command, procs) {
        Ok(child) => child,
        Err(why) => {
            skip!(Kernel, "{why}");
            return None;
        }
    };
    let from = container_address(0, 2).to_string();
    let (mut flow, mut rounds) = (None, 0);
    let status = loop {
        let seen = snapshot(&running, 0);
        assert_eq!(seen["daemon"]["mode"], "observe");
        let flows = seen["flows"].as_array().cloned().unwrap_or_default();
        flow = flows.into_iter().find(|flow| flow["local"].as_str().is_some_and(|l| l.starts_with(&from))).or(flow);
        let jobs = seen["jobs"].as_array().cloned().unwrap_or_default();
        rounds = jobs.iter().filter_map(|job| job["rounds_finished"].as_u64()).max().unwrap_or(0).max(rounds);
        if let Some(status) = pod.0.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(status.success(), "something of its socket changed, or it could not send: {status}");
    Some((flow.expect("the pod's flow was never seen"), rounds))
}

#[test]
fn a_pods_job_is_observed_and_nothing_of_its_sockets_changes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip!(Thing, "no python3");
    }
    // As a fresh installation, to which nobody has said where jobs are; then by its cgroup alone.
    let torch = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "10.0.0.9"), ("MASTER_PORT", "29500")].as_slice();
    let cases =
        [("[capture]\ncgroups = [\"auto\"]\n", torch, false, "torch-10.0.0.9:29500"), ("", &[], true, "cgroup-")];
    for (more, environ, in_cgroup, job) in cases {
        let Some((flow, rounds)) = observed(more, environ, in_cgroup) else { return };
        assert_eq!(flow["state"], "observed", "{flow}");
        assert!(flow["job"].as_str().is_some_and(|name| name.starts_with(job)), "{job}: {flow}");
        assert!(rounds >= 10, "{job}: {rounds} rounds of 30 were seen");
    }
}
