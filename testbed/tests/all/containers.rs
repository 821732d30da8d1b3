//! A job in a container: network, pid and mount namespaces of its own on a host, no page and no library. Needs root, BPF,
//! iperf3 and the built daemons.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged, star};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::fabric::layout::container_address;
use sluice_testbed::fabric::{Fabric, NetNs};
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

/// Says that it is in its namespaces, waits for its network, then becomes the program.
const BEGIN: &str = "echo ready; read -r line; exec \"$@\"";
/// `ip` in the network namespace of a process.
const WITHIN: &str = "exec nsenter --net=/proc/$0/ns/net ip -batch -";

/// A container as far as the kernel knows containers: a process in network, pid and mount namespaces of its own, joined
/// to its host by a cable and routed behind the host's address, in the host's cgroup for jobs. The host is one of the
/// spec's `containers`.
fn run_in_container(fabric: &Fabric, host: usize, command: &Command) -> Result<Running> {
    let ns = &fabric.hosts[host].ns;
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BEGIN, "sh"]);
    unshare.arg(command.get_program()).args(command.get_args());
    unshare.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped());
    let procs = fabric.cgroups.jobs(host).procs().map_err(Error::other)?;
    let mut child = Running(ns.spawn(unshare, Some(procs)).map_err(Error::other)?);
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
    let mut client = match run_in_container(&fabric, 0, &rank(0, &["-c", &to, "-t", "5"])) {
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
