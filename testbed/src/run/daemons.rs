//! One real `sluiced` per host namespace, with the switches' tables beside them: their files, their start and their end.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use sluice_scenario::Transport;

use super::pins::{self, instance};
pub(crate) use super::pins::{instance as instance_of, is_own as own_instance, remove_own};
use super::process::{Process, ask_unix, await_ready};
use super::{Policy, RunError, RunPlan, Session, write};
use crate::fabric::layout::{
    DATA_NETWORKS, MANAGEMENT_BRIDGE, MANAGEMENT_NETWORK, container_address, management_address,
};
use crate::fabric::{Fabric, FabricSpec, Layout};

/// Where a daemon records its jobs' work, in its run directory, if it is to.
pub const RECORDING: &str = "recording.jsonl";
/// How long it may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);

/// The daemon of one host, which ends with this value.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    /// Its run directory; the status socket is `sluiced.sock` in it.
    pub run_dir: PathBuf,
}

/// All daemons and the switches of a run. Dropping it kills them.
#[derive(Debug)]
pub struct Daemons {
    switches: Vec<Process>,
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
        let mut daemons = Daemons { switches: Vec::new(), hosts: Vec::new() };
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
            let place = (&host.ns, &fabric.cgroups.daemon(i));
            let process = Process::start("sluiced", &host.name, place, program.clone(), config)?;
            daemons.hosts.push(Daemon { process, run_dir });
        }
        daemons.hosts.iter_mut().try_for_each(Daemon::await_ready)?;
        Ok(daemons)
    }

    /// Switches that forward, and no daemon.
    ///
    /// # Errors
    /// As [`Daemons::start`].
    pub fn forwarding(fabric: &Fabric, plan: &RunPlan, session: &Session<'_>) -> Result<Daemons, RunError> {
        let topology = session.dir.join("topology.json");
        write(&topology, topology_json(&fabric.spec, &fabric.layout, false))?;
        Ok(Daemons { switches: super::switches::start(fabric, plan, session, &topology)?, hosts: Vec::new() })
    }

    /// Where each host's jobs publish their progress.
    pub fn progress_dirs(&self) -> Vec<PathBuf> {
        self.hosts.iter().map(|d| d.run_dir.join("progress")).collect()
    }

    /// Process id of a host's daemon.
    pub fn pid(&self, host: usize) -> u32 {
        self.hosts[host].process.child.0.id()
    }

    /// Where a host's daemon answers.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.hosts[host].run_dir.join("sluiced.sock")
    }

    /// A document of a host's daemon, `/api/v1/snapshot` for instance; `None` when it does not answer with 200.
    pub fn get(&self, host: usize, route: &str) -> Option<String> {
        let (status, body) = ask_unix(&self.socket(host), route)?;
        (status == 200).then_some(body)
    }

    /// A document of a switch that has a process of its own; `None` when it does not answer with 200.
    pub fn get_of_switch(&self, fabric: &Fabric, switch: usize, route: &'static str) -> Option<String> {
        super::switches::document(&fabric.switches.get(switch)?.ns, route)
    }

    /// Sends a signal to a host's daemon.
    pub fn signal(&self, host: usize, signal: Signal) {
        self.hosts[host].process.signal(signal);
    }

    /// Kills a host's daemon at once, as `kill -9` does, and takes its status away.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].process.kill();
    }

    /// Starts a host's daemon again after [`Daemons::kill`], and waits until it is ready.
    ///
    /// # Errors
    /// As [`Daemons::start`].
    pub fn restart(&mut self, fabric: &Fabric, host: usize) -> Result<(), RunError> {
        self.start_again(fabric, host)?;
        self.hosts[host].await_ready()
    }

    /// Tells a host's daemon to end, as a service manager does, and waits until it has; how it ended.
    ///
    /// # Errors
    /// It has not ended within 5 s; it is killed then.
    pub(crate) fn end(&mut self, host: usize) -> Result<std::process::ExitStatus, RunError> {
        self.hosts[host].process.end(END)
    }

    /// Has a host's daemon ended, and how? `None`: it runs. One that is waited for here may be started again.
    pub(crate) fn ended(&mut self, host: usize) -> Option<std::process::ExitStatus> {
        self.hosts[host].process.ended()
    }

    /// A host's daemon is another program from its next start on.
    pub fn replace(&mut self, host: usize, program: PathBuf) {
        self.hosts[host].process.replace(program);
    }

    /// The main configuration of a host's daemon; its log stands beside it.
    pub(crate) fn config(&self, host: usize) -> &Path {
        self.hosts[host].process.config()
    }

    /// Ends a switch as a service manager does, and waits until it has. Only where each switch has a process of its own.
    ///
    /// # Errors
    /// It has not ended within 5 s; it is killed then.
    pub(crate) fn end_switch(&mut self, switch: usize) -> Result<std::process::ExitStatus, RunError> {
        self.switches[switch].end(END)
    }

    /// A switch is another program from its next start on.
    pub(crate) fn replace_switch(&mut self, switch: usize, program: PathBuf) {
        self.switches[switch].replace(program);
    }

    /// Process id of a switch's process.
    pub(crate) fn switch_pid(&self, switch: usize) -> u32 {
        self.switches[switch].child.0.id()
    }

    /// The same without waiting, for runs whose jobs go on meanwhile; one that runs is left alone.
    pub(crate) fn start_again(&mut self, fabric: &Fabric, host: usize) -> Result<(), RunError> {
        let process = &mut self.hosts[host].process;
        if !process.down {
            return Ok(());
        }
        process.start_again((&fabric.hosts[host].ns, &fabric.cgroups.daemon(host)))
    }

    /// Does a host's daemon say that it is ready?
    pub(crate) fn is_ready(&self, host: usize) -> bool {
        self.hosts[host].is_ready()
    }

    /// Kills a switch at once: its table is lost. Only where each switch has a process of its own.
    pub(crate) fn kill_switch(&mut self, switch: usize) {
        self.switches[switch].kill();
    }

    /// Starts a switch again with an empty table; one that runs is left alone.
    pub(crate) fn start_switch_again(&mut self, fabric: &Fabric, switch: usize) -> Result<(), RunError> {
        let process = &mut self.switches[switch];
        if !process.down {
            return Ok(());
        }
        process.start_again((&fabric.switches[switch].ns, &fabric.cgroups.switches()))
    }

    /// Makes a host's clock wrong by so many milliseconds, or right again with 0, by a configuration of its own and SIGHUP.
    pub(crate) fn set_clock(&self, host: usize, offset_ms: f64) -> Result<(), RunError> {
        let dir = self.hosts[host].run_dir.join("state/sluiced.d");
        std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        write(&dir.join("50-clock.toml"), format!("[clock]\noffset_ms = {offset_ms:?}\n"))?;
        self.hosts[host].process.signal(Signal::SIGHUP);
        Ok(())
    }

    /// Kills the switches at once, as `kill -9` does.
    pub fn kill_switches(&mut self) {
        self.switches.iter_mut().for_each(|switch| switch.kill());
    }

    /// Starts the switches again after [`Daemons::kill_switches`], and waits until they are ready.
    ///
    /// # Errors
    /// As [`Daemons::start`].
    pub fn restart_switches(&mut self, fabric: &Fabric, plan: &RunPlan, session: &Session<'_>) -> Result<(), RunError> {
        let topology = session.dir.join("topology.json");
        self.switches = super::switches::start(fabric, plan, session, &topology)?;
        Ok(())
    }

    /// Do all of them still run, but for those that were killed on purpose?
    ///
    /// # Errors
    /// Names the first that ended, with the last lines it wrote.
    pub fn check(&self) -> Result<(), RunError> {
        let mut processes = self.hosts.iter().map(|d| &d.process).chain(&self.switches);
        processes
            .find(|process| !process.is_as_it_should_be())
            .map_or(Ok(()), |p| Err(p.failed("ended during the run")))
    }

    /// Keeps what the daemons say about themselves in files beside their configuration: snapshot and metrics.
    pub fn keep_documents(&self) {
        for (i, daemon) in self.hosts.iter().enumerate() {
            for (route, ending) in [("/api/v1/snapshot", "snapshot.json"), ("/metrics", "metrics.txt")] {
                if let Some(body) = self.get(i, route) {
                    // A document for people; the run does not depend on it.
                    drop(std::fs::write(daemon.process.config().with_extension(ending), body));
                }
            }
        }
    }

    /// Ends them as a service manager does: SIGTERM, some patience, then SIGKILL. Returns what was unusual.
    pub fn stop(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let hosts = self.hosts.len();
        let mut all: Vec<Process> = self.hosts.drain(..).map(|d| d.process).chain(self.switches.drain(..)).collect();
        all.iter().for_each(|process| process.signal(Signal::SIGTERM));
        let deadline = Instant::now() + END;
        for process in all.iter_mut().filter(|process| !process.down) {
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

impl Daemon {
    fn is_ready(&self) -> bool {
        says_ready(&self.run_dir.join("sluiced.sock"))
    }

    fn await_ready(&mut self) -> Result<(), RunError> {
        let socket = self.run_dir.join("sluiced.sock");
        await_ready(&mut self.process, || says_ready(&socket))
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

fn says_ready(socket: &Path) -> bool {
    ask_unix(socket, "/readyz").is_some_and(|(status, _)| status == 200)
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
        "version = 1\nunauthenticated = true\nmode = \"active\"\ntopology = {:?}\n\
         [node]\nname = {:?}\ncluster = \"testbed\"\nrun_dir = {:?}\nstate_dir = {:?}\ninstance = {:?}\n\
         [slot]\nlength_ms = {}\nhorizon = {}\n[clock]\nrequire_sync = false\n\
         [capture]\ncgroups = [{:?}]\ninterfaces = [{}]\n[schedule]\npolicy = {:?}\n{}\
         [peer]\nlisten = [\"{}:9604\"]\npeers = [\"{MANAGEMENT_NETWORK}\", \"{DATA_NETWORKS}\"]\n\
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
    text.push_str("[metrics]\nflows = \"index\"\n");
    if let Ok(level) = std::env::var("SLUICE_DAEMON_LOG") {
        _ = writeln!(text, "[log]\nlevel = {level:?}");
    }
    if plan.record {
        _ = writeln!(text, "[record]\nfile = {:?}", run_dir.join(RECORDING).display().to_string());
    }
    text.push_str(&plan.daemon_extra);
    for (device, gbps) in devices(fabric, i) {
        _ = write!(text, "\n[[links]]\nname = {device:?}\ngbps = {gbps:.6}\nreserve = {}\n", plan.reserve);
    }
    for switch in fabric.switches.iter().filter(|_| !nic) {
        let address = match plan.transport {
            Transport::Inband => INBAND.to_owned(),
            _ => super::switches::address(fabric, plan, switch),
        };
        _ = write!(text, "[[switches]]\nname = {:?}\naddress = \"{address}\"\n", switch.name);
        _ = writeln!(text, "transport = {:?}", plan.transport.as_str());
    }
    text
}

/// Where every daemon listens for datagrams along the paths of flows.
const INBAND: &str = "0.0.0.0:9604";

/// A host's data devices and their sending rates, Gbit/s.
fn devices(fabric: &Fabric, host: usize) -> Vec<(String, f64)> {
    let links = fabric.layout.links.iter().enumerate().filter(|(_, l)| l.from.node == host);
    links.map(|(at, l)| (l.from.device.clone(), fabric.spec.rate(at).0 as f64 / 1e9)).collect()
}
