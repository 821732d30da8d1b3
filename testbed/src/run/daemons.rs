//! One real `sluiced` per host namespace, with the switches' tables beside them: their files, their start and their end.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::pins::{self, instance};
use super::{KillOnDrop, Policy, RunError, RunPlan, Session, write};
use crate::fabric::layout::{MANAGEMENT_BRIDGE, MANAGEMENT_NETWORK, container_address, management_address};
use crate::fabric::{Cgroup, Fabric, FabricSpec, Layout, NetNs};

/// How long a daemon may take until it is ready.
const READY: Duration = Duration::from_secs(20);
/// How long it may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);

/// One process of ours that is not a job.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    host: String,
    child: KillOnDrop,
    log: PathBuf,
}

/// The daemon of one host, which ends with this value.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    /// Its run directory; the status socket is `sluiced.sock` in it.
    pub run_dir: PathBuf,
    config: PathBuf,
}

/// All daemons and the switches of a run. Dropping it kills them.
#[derive(Debug)]
pub struct Daemons {
    switches: Vec<Process>,
    program: PathBuf,
    /// One per host of the fabric.
    pub hosts: Vec<Daemon>,
}

impl Daemons {
    /// Writes their files, starts them and waits until each says that it is ready.
    ///
    /// # Errors
    /// When a program is not found, ends, or is not ready in 20 s; with the last lines it wrote.
    pub fn start(fabric: &Fabric, plan: &RunPlan, policy: &Policy, session: &Session<'_>) -> Result<Daemons, RunError> {
        let Policy::Sluice { policy: rule, nic } = policy else {
            return Err(RunError::Plan(format!("{policy} needs no daemons")));
        };
        pins::remove_leftovers();
        let dir = &session.dir;
        let topology = dir.join("topology.json");
        write(&topology, topology_json(&fabric.spec, &fabric.layout, *nic))?;
        let program = session.binaries.daemon()?;
        let mut daemons = Daemons { switches: Vec::new(), program, hosts: Vec::new() };
        if !nic {
            daemons.switches = super::switches::start(fabric, plan, session, &topology)?;
        }
        for (i, host) in fabric.hosts.iter().enumerate() {
            let run_dir = dir.join(format!("run-{}", host.name));
            std::fs::create_dir_all(run_dir.join("progress"))
                .map_err(RunError::io(format!("creating {}", run_dir.display())))?;
            // Daemons of earlier runs in this directory were killed on purpose; that is no crash loop.
            let _ = std::fs::remove_file(run_dir.join("starts.json")); // Absent is as good.
            let config = dir.join(format!("sluiced-{}.toml", host.name));
            write(&config, daemon_toml(fabric, plan, i, &run_dir, &topology, rule.as_deref(), *nic))?;
            let process = daemons.spawn_daemon(fabric, i, &config)?;
            daemons.hosts.push(Daemon { process, run_dir, config });
        }
        for daemon in &mut daemons.hosts {
            let socket = daemon.run_dir.join("sluiced.sock");
            await_ready(&mut daemon.process, || ask_unix(&socket, "/readyz").is_some_and(|a| a.0 == 200))?;
        }
        Ok(daemons)
    }

    fn spawn_daemon(&self, fabric: &Fabric, host: usize, config: &Path) -> Result<Process, RunError> {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(config);
        let node = &fabric.hosts[host];
        let log = config.with_extension("log");
        spawn("sluiced", &node.name, &node.ns, command, &fabric.cgroups.daemon(host), log)
    }

    /// Where each host's jobs publish their progress.
    pub fn progress_dirs(&self) -> Vec<PathBuf> {
        self.hosts.iter().map(|d| d.run_dir.join("progress")).collect()
    }

    /// Process id of a host's daemon.
    pub fn pid(&self, host: usize) -> u32 {
        self.hosts[host].process.child.0.id()
    }

    /// A document of a host's daemon, `/api/v1/snapshot` for instance; `None` when it does not answer with 200.
    pub fn get(&self, host: usize, route: &str) -> Option<String> {
        let (status, body) = ask_unix(&self.hosts[host].run_dir.join("sluiced.sock"), route)?;
        (status == 200).then_some(body)
    }

    /// Sends a signal to a host's daemon.
    pub fn signal(&self, host: usize, signal: Signal) {
        send(&self.hosts[host].process.child, signal);
    }

    /// Kills a host's daemon at once, as `kill -9` does, and takes its status away.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].process.child.end();
    }

    /// Starts a host's daemon again after [`Daemons::kill`], and waits until it is ready.
    ///
    /// # Errors
    /// As [`Daemons::start`].
    pub fn restart(&mut self, fabric: &Fabric, host: usize) -> Result<(), RunError> {
        let config = self.hosts[host].config.clone();
        self.hosts[host].process = self.spawn_daemon(fabric, host, &config)?;
        let daemon = &mut self.hosts[host];
        let socket = daemon.run_dir.join("sluiced.sock");
        await_ready(&mut daemon.process, || ask_unix(&socket, "/readyz").is_some_and(|a| a.0 == 200))
    }

    /// Do all of them still run?
    ///
    /// # Errors
    /// Names the first that ended, with the last lines it wrote.
    pub fn check(&self) -> Result<(), RunError> {
        let processes = self.hosts.iter().map(|d| &d.process).chain(&self.switches);
        for process in processes {
            if !alive(process.child.0.id()) {
                return Err(process.failed("ended during the run"));
            }
        }
        Ok(())
    }

    /// Keeps what the daemons say about themselves in files beside their configuration: snapshot and metrics.
    pub fn keep_documents(&self) {
        for (i, daemon) in self.hosts.iter().enumerate() {
            for (route, ending) in [("/api/v1/snapshot", "snapshot.json"), ("/metrics", "metrics.txt")] {
                if let Some(body) = self.get(i, route) {
                    // A document for people; the run does not depend on it.
                    drop(std::fs::write(daemon.config.with_extension(ending), body));
                }
            }
        }
    }

    /// Ends them as a service manager does: SIGTERM, some patience, then SIGKILL. Returns what was unusual.
    pub fn stop(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let hosts = self.hosts.len();
        let mut all: Vec<Process> = self.hosts.drain(..).map(|d| d.process).chain(self.switches.drain(..)).collect();
        for process in &all {
            send(&process.child, Signal::SIGTERM);
        }
        let deadline = Instant::now() + END;
        for process in &mut all {
            loop {
                match process.child.0.try_wait() {
                    Ok(Some(status)) if status.success() => break,
                    Ok(Some(status)) => {
                        notes.push(process.failed(&format!("ended with {status}")).to_string());
                        break;
                    }
                    Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                    _ => {
                        notes.push(format!("{} on {} did not end within 5 s of SIGTERM", process.name, process.host));
                        process.child.end();
                        break;
                    }
                }
            }
        }
        pins::remove_own(hosts);
        notes.extend(all.iter().filter_map(Process::rejected));
        notes
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for process in self.hosts.iter_mut().map(|d| &mut d.process).chain(&mut self.switches) {
            process.child.end();
        }
        pins::remove_own(self.hosts.len());
    }
}

impl Process {
    /// The first plan that it refused to follow, if any.
    fn rejected(&self) -> Option<String> {
        let why = rejection(&std::fs::read_to_string(&self.log).unwrap_or_default())?;
        Some(format!("{} on {} does not follow: {why}", self.name, self.host))
    }

    fn failed(&self, what: &str) -> RunError {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        let what = format!("{what}; last lines of {}:\n  {}", self.log.display(), last.join("\n  "));
        RunError::Daemon { name: self.name, host: self.host.clone(), what }
    }
}

/// Why a daemon refused a plan, if its log says that it did.
fn rejection(log: &str) -> Option<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut rejected = lines.filter(|line| line["event"] == "plan-rejected");
    rejected.find_map(|line| line["message"].as_str().map(str::to_owned))
}

pub(super) fn spawn(
    name: &'static str,
    host: &str,
    ns: &NetNs,
    mut command: Command,
    cgroup: &Cgroup,
    log: PathBuf,
) -> Result<Process, RunError> {
    let open = || File::options().create(true).append(true).open(&log);
    let out = open().map_err(RunError::io(format!("opening {}", log.display())))?;
    let err = open().map_err(RunError::io(format!("opening {}", log.display())))?;
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let child = ns.spawn(command, Some(cgroup.procs()?))?;
    Ok(Process { name, host: host.into(), child: KillOnDrop(child), log })
}

pub(super) fn await_ready(process: &mut Process, mut ready: impl FnMut() -> bool) -> Result<(), RunError> {
    let deadline = Instant::now() + READY;
    while !ready() {
        if let Ok(Some(status)) = process.child.0.try_wait() {
            return Err(process.failed(&format!("ended with {status} before it was ready")));
        }
        if Instant::now() > deadline {
            return Err(process.failed("was not ready within 20 s"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}

fn send(child: &KillOnDrop, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.0.id()) {
        // It may have ended; then there is nobody to tell.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

fn request(stream: &mut (impl Read + Write), route: &str) -> Option<(u16, String)> {
    let text = format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(64 << 20).read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some((status, body.to_owned()))
}

fn ask_unix(socket: &Path, route: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    request(&mut stream, route)
}

pub(super) fn ask_tcp(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    drop(stream.set_read_timeout(Some(Duration::from_secs(2))));
    request(&mut stream, "/readyz").is_some_and(|(status, _)| status == 200)
}

/// A network as `topology.json`; with `nic` its switches keep no tables and have no address.
pub fn topology_json(spec: &FabricSpec, layout: &Layout, nic: bool) -> String {
    let hosts = spec.hosts.iter().enumerate().map(|(i, name)| {
        let mut addresses: Vec<String> =
            (0..layout.rails).map(|rail| layout.rail_address(i, rail).to_string()).collect();
        addresses.push(management_address(i).to_string());
        addresses.extend(spec.containers.contains(&i).then(|| format!("{}/24", container_address(i, 0))));
        let kind = if spec.memories.contains(&i) { "memory" } else { "host" };
        json!({"id": name, "kind": kind, "addresses": addresses})
    });
    let switches = spec.switches.iter().enumerate().map(|(i, name)| {
        let mut node = json!({"id": name, "kind": "switch", "port_addresses": [layout.switch_address(i).to_string()]});
        if !nic {
            node["addresses"] = json!([format!("{MANAGEMENT_BRIDGE}:9604")]);
        }
        node
    });
    let links = layout.links.iter().enumerate().map(|(at, l)| {
        let (rate, delay) = (spec.rate(at), spec.cables[l.cable].delay);
        json!({"from": layout.nodes[l.from.node], "to": layout.nodes[l.to.node],
            "capacity": format!("{}bit/s", rate.0), "latency": format!("{}ns", delay.0)})
    });
    let mut document = json!({
        "sluice_topology": 1,
        "name": "testbed",
        "nodes": hosts.chain(switches).collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    });
    let ends = |link: usize| (layout.links[link].from.node, layout.links[link].to.node);
    let member = |&link: &usize| {
        let parallel = (0..link).filter(|other| ends(*other) == ends(link)).count();
        json!([layout.nodes[ends(link).0], layout.nodes[ends(link).1], parallel])
    };
    let groups = spec.groups.iter().map(|group| {
        let links: Vec<_> = group.links.iter().map(member).collect();
        json!({"name": group.name, "capacity": format!("{}bit/s", group.rate.0), "links": links})
    });
    if !spec.groups.is_empty() {
        document["groups"] = groups.collect();
    }
    let way = |links: &Vec<usize>| {
        let (&first, inner) = links.split_first()?;
        let name = |node: usize| &layout.nodes[node];
        let via: Vec<_> = inner.iter().map(|link| name(ends(*link).0)).collect();
        Some(json!({"src": name(ends(first).0), "dst": name(ends(*links.last()?).1), "via": via}))
    };
    if !spec.routes.is_empty() {
        document["routing"] =
            json!({"kind": "explicit", "paths": spec.routes.iter().filter_map(way).collect::<Vec<_>>()});
    }
    document.to_string()
}

#[allow(clippy::too_many_arguments, reason = "one file, written from one place")]
fn daemon_toml(
    fabric: &Fabric,
    plan: &RunPlan,
    i: usize,
    run_dir: &Path,
    topology: &Path,
    rule: Option<&str>,
    nic: bool,
) -> String {
    let host = &fabric.hosts[i];
    let mut text = format!(
        "version = 1\nmode = \"active\"\ntopology = {:?}\n\
         [node]\nname = {:?}\ncluster = \"testbed\"\nrun_dir = {:?}\nstate_dir = {:?}\ninstance = {:?}\n\
         [slot]\nlength_ms = {}\nhorizon = {}\n[clock]\nrequire_sync = false\n\
         [capture]\ncgroups = [{:?}]\ninterfaces = [{}]\n[schedule]\npolicy = {:?}\n{}\
         [peer]\nlisten = [\"{}:9604\"]\npeers = [\"{MANAGEMENT_NETWORK}\"]\n\
         networks = [\"{MANAGEMENT_NETWORK}\"]\n\
         [http]\nlisten = [\"127.0.0.1:9605\"]\n",
        topology.display().to_string(),
        host.name,
        run_dir.display().to_string(),
        run_dir.join("state").display().to_string(),
        instance(i),
        plan.slot.0 / 1_000_000,
        plan.horizon,
        fabric.cgroups.jobs(i).path().display().to_string(),
        devices(fabric, i).iter().map(|(d, _)| format!("{d:?}")).collect::<Vec<_>>().join(", "),
        rule.unwrap_or("srpt-p"),
        plan.schedule,
        host.management,
    );
    // The fabric has set the system's keys alike for every policy, and a run measures one policy, not windows without.
    text.push_str("[enforce]\nsysctls = false\nbenefit = false\n");
    if let Some(floor) = plan.floor {
        _ = writeln!(text, "floor_mbps = {:.3}", floor.0 as f64 / 1e6);
    }
    if let Ok(level) = std::env::var("SLUICE_DAEMON_LOG") {
        _ = writeln!(text, "[log]\nlevel = {level:?}");
    }
    text.push_str(&plan.daemon_extra);
    for (device, gbps) in devices(fabric, i) {
        _ = write!(text, "\n[[links]]\nname = {device:?}\ngbps = {gbps:.6}\nreserve = {}\n", plan.reserve);
    }
    for switch in fabric.switches.iter().filter(|_| !nic) {
        let address = super::switches::address(fabric, plan, switch);
        _ = write!(text, "[[switches]]\nname = {:?}\naddress = \"{address}\"\n", switch.name);
    }
    text
}

/// A host's data devices and their sending rates, Gbit/s.
fn devices(fabric: &Fabric, host: usize) -> Vec<(String, f64)> {
    let links = fabric.layout.links.iter().enumerate().filter(|(_, l)| l.from.node == host);
    links.map(|(at, l)| (l.from.device.clone(), fabric.spec.rate(at).0 as f64 / 1e9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plan_that_was_refused_is_told() {
        let line = |event: &str, message: &str| serde_json::json!({"event": event, "message": message}).to_string();
        let log = [
            line("start", "sluiced runs"),
            "no JSON".into(),
            line("plan-rejected", "job a: plan.json: E_RANGE"),
            line("plan-rejected", "over: job a: plan.json: E_RANGE"),
        ];
        assert_eq!(rejection(&log.join("\n")).as_deref(), Some("job a: plan.json: E_RANGE"));
        assert_eq!(rejection(&log[..2].join("\n")), None);
        assert_eq!(rejection(""), None);
    }
}
