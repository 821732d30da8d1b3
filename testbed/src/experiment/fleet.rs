//! A fleet of daemons in namespaces with an etcd: it is killed, started again and cut off; rollouts go through, and one
//! returns because of a job that Sluice slows down.
//!
//! The job is made worse on purpose: the network carries five times what the daemons of its two hosts are told, so that
//! they hold it at a fifth. That it is slower is found by their own windows without Sluice.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use sluice_schedule::{Nanos, Rate};

use super::Bench;
use super::capacity::queue;
use super::live::Live;
use crate::fabric::FabricSpec;
use crate::fabric::layout::management_address;
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan, write};

/// Options of `sluice-experiment fleet`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Daemons, each in a namespace of its own.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(6..=60))]
    pub daemons: u8,
    /// How long etcd is away, and how long hosts are cut off from it, in seconds.
    #[arg(long, default_value_t = 20)]
    pub away: u64,
}

/// Racks that the hosts are in.
const RACKS: usize = 5;
/// What the network carries, and what the daemons of the job's hosts are told.
const CARRIES: Rate = Rate::mbps(200);
const TOLD_GBPS: f64 = 0.04;
/// Until a daemon's first slots count for little.
const SETTLE: Duration = Duration::from_secs(30);
/// Rollouts that may return because of the machine before one goes through, and times that a daemon is asked.
const TRIES: usize = 5;
/// Long, so that two processors carry fifty daemons.
const SLOT: Nanos = Nanos::from_millis(200);
/// For things that take a moment.
const PATIENCE: Duration = Duration::from_secs(60);
/// For the job's hosts to find that it is slower: ten windows, one in 26 s.
const UNTIL_FOUND: Duration = Duration::from_secs(300);

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Daemons in namespaces.
    pub daemons: usize,
    /// From a rollout's first step until all of its hosts were active and their waits were over, seconds, and its waits.
    pub through: Through,
    /// While etcd was dead.
    pub killed: Away,
    /// The mode in which a daemon began that was killed and started while etcd was dead.
    pub began_without_etcd: String,
    /// While hosts were cut off, and their rack was given another mode.
    pub cut: Away,
    /// From the end of the cut until those hosts had the mode, seconds.
    pub followed_after_s: f64,
    /// The rollout with the job that gets slower.
    pub returned: Returned,
}

/// A rollout that went through.
#[derive(Clone, Debug, Serialize)]
pub struct Through {
    /// Groups.
    pub groups: usize,
    /// All of it, seconds.
    pub seconds: f64,
    /// Of that, waits that were asked for.
    pub waits_s: u64,
    /// Rollouts before it that returned, and why each.
    pub returned_before: Vec<String>,
}

/// A time without etcd.
#[derive(Clone, Debug, Serialize)]
pub struct Away {
    /// How long.
    pub seconds: f64,
    /// Hosts concerned.
    pub hosts: usize,
    /// Answers about their mode that were looked at.
    pub looks: usize,
    /// Of them, those with another mode than before.
    pub changed: usize,
    /// From its end until every host heard etcd again, seconds.
    pub heard_again_s: f64,
}

/// A rollout that returned.
#[derive(Clone, Debug, Serialize)]
pub struct Returned {
    /// The command's exit status: 3.
    pub exit: Option<i32>,
    /// Why, as it says.
    pub ended_by: String,
    /// Groups touched of those that it was to touch.
    pub touched: u64,
    /// How long the job's group was active, seconds.
    pub seconds: f64,
    /// Modes of all hosts afterwards, with how many are in each.
    pub modes: BTreeMap<String, usize>,
}

/// Killed when dropped.
struct Etcd(Child);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Fleet<'a> {
    bench: &'a Bench<'a>,
    live: Live,
    hosts: usize,
}

/// All of it.
///
/// # Errors
/// As a run; or hosts that do not follow within a minute.
pub fn fleet(bench: &Bench<'_>, settings: &Settings) -> Result<Seen, RunError> {
    let hosts = usize::from(settings.daemons);
    let spec = FabricSpec::star(hosts, CARRIES, queue(CARRIES));
    for host in 0..hosts {
        let dir = bench.dir.join(format!("live/run-h{host}/state/sluiced.d"));
        std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        write(&dir.join("50-fleet.toml"), drop_in(host))?;
    }
    // 10 ms on the wire as the network is, 50 ms as it is said to be.
    let job = JobPlan {
        compute: vec![Nanos::from_millis(20)],
        ..JobPlan::ring("slowed", 2, sluice_schedule::Bytes(250_000), 1_000_000)
    };
    let place = Placement { workers: vec![0, 1], servers: vec![] };
    let plan = RunPlan { name: "fleet".into(), fabric: spec, jobs: vec![job], slot: SLOT, ..RunPlan::default() };
    let policy = Policy::Sluice { policy: None, nic: false };
    let live = Live::start(bench, &plan, &place, &policy, 1000)?;
    let mut fleet = Fleet { bench, live, hosts };
    let etcd = fleet.start_etcd()?;
    fleet.until("every daemon hears etcd", |brief| brief["fleet"]["connected"] == true, 0..hosts)?;
    let rack = |host: usize| host % RACKS;
    let entry = |host: usize| {
        format!(
            "[[hosts]]\nname = \"h{host}\"\nhttp = \"{}:9605\"\ngroup = \"rack{}\"\n",
            management_address(host),
            rack(host)
        )
    };
    write(&bench.dir.join("fleet.toml"), format!("version = 1\n{}", (0..hosts).map(entry).collect::<String>()))?;
    fleet.sluice(&["import", &bench.dir.join("fleet.toml").display().to_string()])?;
    fleet.until_mode("observe", 0..hosts)?;

    // Through all racks but the job's. What it is to be judged by is a daemon that has run for a while: of its first slots
    // many are late where fifty begin at once.
    fleet.live.run_for(SETTLE)?;
    let waits_s = 3;
    let groups = ["rack2", "rack3", "rack4"];
    let pause = format!("{waits_s}s");
    let mut returned_before = Vec::new();
    let seconds = loop {
        let began = Instant::now();
        let arguments = ["--to", "active", "--groups", &groups.join(","), "--pause", &pause, "--look", "500ms"];
        let (exit, told) = fleet.rollout(&arguments)?;
        let why = told["ended_by"].as_str().unwrap_or_default().to_owned();
        match exit {
            Some(0) => break began.elapsed().as_secs_f64(),
            // A machine that carries fifty daemons beside its own work may well be late; that is told, and tried again.
            Some(3) if returned_before.len() < TRIES => returned_before.push(why),
            _ => return Err(RunError::Plan(format!("a rollout with nothing wrong ended so: {told}"))),
        }
        fleet.live.run_for(SETTLE)?;
    };
    let through = Through { groups: groups.len(), seconds, waits_s: waits_s * 3, returned_before };
    let active: Vec<usize> = (0..hosts).filter(|host| rack(*host) >= 2).collect();
    fleet.until_mode("active", active.iter().copied())?;

    // etcd is killed; a daemon is killed and started meanwhile.
    let before = fleet.modes()?;
    drop(etcd);
    let gone = Instant::now();
    let restarted = 2;
    fleet.live.daemons.kill(restarted);
    let (mut looks, mut changed) = (0, 0);
    fleet.live.daemons.restart(&fleet.live.fabric, restarted)?;
    let began_without_etcd = fleet.mode(restarted)?;
    while gone.elapsed() < Duration::from_secs(settings.away) {
        fleet.live.run_for(Duration::from_secs(1))?;
        let now = fleet.modes()?;
        looks += now.len();
        changed += now.iter().zip(&before).filter(|(now, before)| now != before).count();
    }
    let seconds = gone.elapsed().as_secs_f64();
    let (_etcd, back) = (fleet.start_etcd()?, Instant::now());
    fleet.until("every daemon hears etcd again", |brief| brief["fleet"]["connected"] == true, 0..hosts)?;
    let killed = Away { seconds, hosts, looks, changed, heard_again_s: back.elapsed().as_secs_f64() };

    // A rack is cut off, and given another mode.
    let rack4: Vec<usize> = (0..hosts).filter(|host| rack(*host) == 4).collect();
    for host in &rack4 {
        fleet.live.fabric.set_link(&format!("h{host}"), "mgmt0", false)?;
    }
    let gone = Instant::now();
    fleet.sluice(&["set", "mode", "rack4", "observe"])?;
    let (mut looks, mut changed) = (0, 0);
    while gone.elapsed() < Duration::from_secs(settings.away) {
        fleet.live.run_for(Duration::from_secs(1))?;
        for host in &rack4 {
            looks += 1;
            changed += usize::from(fleet.mode(*host)? != "active");
        }
    }
    let seconds = gone.elapsed().as_secs_f64();
    for host in &rack4 {
        fleet.live.fabric.set_link(&format!("h{host}"), "mgmt0", true)?;
    }
    let back = Instant::now();
    fleet.until_mode("observe", rack4.iter().copied())?;
    let followed_after_s = back.elapsed().as_secs_f64();
    fleet.until("every daemon hears etcd after the cut", |brief| brief["fleet"]["connected"] == true, 0..hosts)?;
    let cut = Away { seconds, hosts: rack4.len(), looks, changed, heard_again_s: back.elapsed().as_secs_f64() };

    // The job's racks: it gets slower, and both get their earlier mode.
    let began = Instant::now();
    let wait = format!("{}s", UNTIL_FOUND.as_secs());
    let (exit, told) =
        fleet.rollout(&["--to", "active", "--groups", "rack0,rack1,rack4", "--pause", &wait, "--look", "1s"])?;
    let seconds = began.elapsed().as_secs_f64();
    let racks = (0..hosts).filter(|host| matches!(rack(*host), 0 | 1 | 4));
    fleet.until_mode("observe", racks)?;
    let mut modes = BTreeMap::new();
    fleet.modes()?.into_iter().for_each(|mode| *modes.entry(mode).or_default() += 1);
    let returned = Returned {
        exit,
        ended_by: told["ended_by"].as_str().unwrap_or_default().to_owned(),
        touched: told["touched"].as_u64().unwrap_or_default(),
        seconds,
        modes,
    };
    Ok(Seen { daemons: hosts, through, killed, began_without_etcd, cut, followed_after_s, returned })
}

/// What a daemon's configuration has besides.
fn drop_in(host: usize) -> String {
    let address = management_address(host);
    let etcd = crate::fabric::layout::MANAGEMENT_BRIDGE;
    let told = if host < 2 { format!("[[links]]\nname = \"eth0\"\ngbps = {TOLD_GBPS}\n") } else { String::new() };
    // Windows of 16 slots in every 128, so that what takes hours is over in minutes.
    format!(
        "[fleet]\netcd = [\"http://{etcd}:2379\"]\nplaintext = true\ngroup = \"rack{}\"\n[http]\nlisten = [\"{address}:9605\"]\ndetails = \"all\"\n\
         [enforce]\nbenefit = true\nbenefit_slots = 16\nbenefit_part = 8\n{told}",
        host % RACKS
    )
}

impl Fleet<'_> {
    fn start_etcd(&self) -> Result<Etcd, RunError> {
        let client = format!("http://{}:2379", self.live.fabric.management_address);
        let peer = format!("http://{}:2380", self.live.fabric.management_address);
        let mut etcd = Command::new("etcd");
        etcd.arg("--data-dir").arg(self.bench.dir.join("etcd")).args(["--name", "one", "--log-level", "error"]);
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
        etcd.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("one={peer}")]);
        etcd.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Etcd(self.live.fabric.management.spawn(etcd, None)?))
    }

    fn command(&self, arguments: &[&str]) -> Result<Command, RunError> {
        let mut command = Command::new(self.bench.binaries.sluice()?);
        let etcd = format!("http://{}:2379", self.live.fabric.management_address);
        command
            .args(["fleet", "--json", "--config", "/nonexistent", "--cluster", "testbed", "--etcd", &etcd])
            .args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(command)
    }

    fn sluice(&mut self, arguments: &[&str]) -> Result<Value, RunError> {
        let (exit, told) = self.ended(arguments)?;
        if exit == Some(0) {
            Ok(told)
        } else {
            Err(RunError::Plan(format!("sluice fleet {}: {exit:?} {told}", arguments.join(" "))))
        }
    }

    fn rollout(&mut self, arguments: &[&str]) -> Result<(Option<i32>, Value), RunError> {
        self.ended(&[&["rollout"][..], arguments].concat())
    }

    /// The command's exit status and document; the job goes on meanwhile.
    fn ended(&mut self, arguments: &[&str]) -> Result<(Option<i32>, Value), RunError> {
        let mut child = self.live.fabric.management.spawn(self.command(arguments)?, None)?;
        let io = || RunError::io("waiting for sluice fleet".to_owned());
        loop {
            if child.try_wait().map_err(io())?.is_some() {
                let output = child.wait_with_output().map_err(io())?;
                return Ok((output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)));
            }
            self.live.run_for(Duration::from_millis(200))?;
        }
    }

    fn brief(&self, host: usize) -> Result<Value, RunError> {
        // Each try takes two seconds at most; a machine that is as busy as that answers later.
        let text = (0..TRIES).find_map(|_| self.live.daemons.get(host, "/api/v1/host"));
        let text = text.ok_or_else(|| RunError::Plan(format!("the daemon of h{host} does not answer")))?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    fn mode(&self, host: usize) -> Result<String, RunError> {
        Ok(self.brief(host)?["mode"].as_str().unwrap_or_default().to_owned())
    }

    fn modes(&self) -> Result<Vec<String>, RunError> {
        (0..self.hosts).map(|host| self.mode(host)).collect()
    }

    fn until_mode(&mut self, mode: &str, hosts: impl Iterator<Item = usize>) -> Result<(), RunError> {
        self.until(&format!("hosts are in {mode}"), |brief| brief["mode"] == json!(mode), hosts)
    }

    fn until(
        &mut self,
        what: &str,
        is: impl Fn(&Value) -> bool,
        hosts: impl Iterator<Item = usize>,
    ) -> Result<(), RunError> {
        let end = Instant::now() + PATIENCE;
        for host in hosts {
            while !is(&self.brief(host)?) {
                if Instant::now() > end {
                    return Err(RunError::Plan(format!("not within a minute: {what}; h{host}: {}", self.brief(host)?)));
                }
                self.live.run_for(Duration::from_millis(50))?;
            }
        }
        Ok(())
    }
}
