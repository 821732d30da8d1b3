//! What happens to the packages, and what must come of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sluice_schedule::{Bytes, Rate};
use sluice_testbed::fabric::{Fabric, FabricSpec};

use crate::machine::Machine;
use crate::steady::Steady;
use crate::{Given, Result, dump};

/// Longer than a daemon takes to find a job without a page on a machine that is busy otherwise.
const PATIENCE: Duration = Duration::from_secs(120);
/// Commands and time from a fresh root to two scheduled jobs.
const COMMANDS: usize = 5;
const MINUTES: Duration = Duration::from_secs(180);
/// Upgrades in a minute, the connections meanwhile, and what they may feel of it.
const UPGRADES: u32 = 20;
const TRIES: usize = 3;
const CONNECTIONS: usize = 8;
/// How long the job is watched before they begin.
const UNDISTURBED: Duration = Duration::from_secs(15);
const LINK: Rate = Rate::mbps(500);
const SILENCE_MS: f64 = 50.0;
const GOODPUT: f64 = 0.97;

/// What is tried in a root.
struct Story {
    name: &'static str,
    tell: fn(&Given, &Arc<Fabric>) -> Result<()>,
}

const STORIES: [Story; 3] = [
    Story { name: "fresh", tell: fresh },
    Story { name: "upgrade", tell: upgrade },
    Story { name: "purge", tell: purge },
];

/// All of them, one after the other, or the one that was asked for.
pub fn all(given: &Given) -> Result<()> {
    let fabric = Fabric::build(FabricSpec::star(3, LINK, Bytes(500_000))).map_err(|e| e.to_string())?;
    let fabric = Arc::new(fabric);
    let chosen = STORIES.iter().filter(|story| given.only.as_deref().is_none_or(|only| only == story.name));
    let mut ran = 0;
    for story in chosen {
        (story.tell)(given, &fabric)?;
        ran += 1;
    }
    if ran == 0 {
        Err(format!("no such story; there are {}", STORIES.map(|story| story.name).join(", ")))
    } else {
        Ok(())
    }
}

fn machine(given: &Given, fabric: &Arc<Fabric>, name: &str) -> Result<Machine> {
    println!("\n{name}");
    let machine = Machine::new(&given.root, &given.work.join(name), fabric)?;
    machine.put(&given.old, "/tmp/sluice.deb")?;
    machine.put(&given.new, "/tmp/sluice-next.deb")?;
    machine.put(&given.switch, "/tmp/sluice-switch.deb")?;
    // Outside of every package.
    machine.put(&given.sluice, "/root/sluice")?;
    Ok(machine)
}

/// What an operator says of a host: its card and what it carries. A host without virtual cards needs none of it.
fn site(fabric: &Fabric) -> String {
    let card = fabric.layout.links.iter().find(|link| link.from.node == 0).map(|link| link.from.device.clone());
    let card = card.unwrap_or_default();
    format!(
        "[clock]\\nrequire_sync = false\\n[capture]\\ninterfaces = [\"{card}\"]\\n[[links]]\\nname = \"{card}\"\\ngbps = {}\\n",
        LINK.0 as f64 / 1e9
    )
}

/// Jobs with so many managed flows, of a daemon in this machine.
fn managed(machine: &Machine) -> Vec<(String, usize)> {
    let said = machine.runs("sluice flows -n 1000 --json").unwrap_or_default();
    let value: Value = serde_json::from_str(&said).unwrap_or_default();
    let flows = value["flows"].as_array().cloned().unwrap_or_default();
    let mut jobs: Vec<(String, usize)> = Vec::new();
    for flow in flows.iter().filter(|flow| flow["state"] == "managed") {
        let job = flow["job"].as_str().unwrap_or_default().to_owned();
        match jobs.iter_mut().find(|(name, _)| *name == job) {
            Some((_, count)) => *count += 1,
            None => jobs.push((job, 1)),
        }
    }
    jobs
}

fn until(machine: &Machine, what: &str, good: impl Fn(&[(String, usize)]) -> bool) -> Result<()> {
    let began = Instant::now();
    loop {
        let jobs = managed(machine);
        if good(&jobs) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let status = machine.tries("sluice status; sluice jobs; sluice flows").map(|(_, said)| said)?;
            return Err(format!("{what}: {jobs:?}\n{status}\n{}", machine.log()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn two_jobs(jobs: &[(String, usize)]) -> bool {
    ["left", "right"].iter().all(|name| jobs.iter().any(|(job, count)| job.contains(name) && *count > 0))
}

/// From a fresh root to two scheduled jobs.
fn fresh(given: &Given, fabric: &Arc<Fabric>) -> Result<()> {
    let machine = machine(given, fabric, "fresh")?;
    let _jobs = [Steady::start(fabric, (0, "left"), 2, false)?, Steady::start(fabric, (1, "right"), 2, false)?];
    let began = Instant::now();
    let commands = [
        "dpkg -i /tmp/sluice.deb".to_owned(),
        format!("mkdir -p /etc/sluice/sluiced.d && printf '{}' >/etc/sluice/sluiced.d/site.toml", site(fabric)),
        "systemctl restart sluiced".to_owned(),
        "sluice mode active --persist".to_owned(),
    ];
    for line in &commands {
        machine.types(line)?;
    }
    until(&machine, "two jobs are scheduled", two_jobs)?;
    let took = began.elapsed();
    println!("{}", machine.types("sluice jobs")?);
    println!("  {} commands, {:.1} s", commands.len() + 1, took.as_secs_f64());
    if commands.len() + 1 > COMMANDS || took > MINUTES {
        return Err("that is more than an operator was promised".into());
    }
    machine.runs("systemctl reload sluiced")?;
    machine.runs("printf 'mode = 3' >/etc/sluice/sluiced.d/wrong.toml")?;
    let (status, _) = machine.tries("systemctl reload sluiced")?;
    if status.success() {
        return Err("a wrong file was not refused by `systemctl reload`".into());
    }
    machine.runs("rm /etc/sluice/sluiced.d/wrong.toml && dpkg --purge sluice")?;
    Ok(())
}

/// Old to new to old, again and again, under traffic.
fn upgrade(given: &Given, fabric: &Arc<Fabric>) -> Result<()> {
    let machine = machine(given, fabric, "upgrade")?;
    machine.runs("dpkg -i /tmp/sluice.deb")?;
    machine.runs(&format!(
        "mkdir -p /etc/sluice/sluiced.d && printf '{}' >/etc/sluice/sluiced.d/site.toml",
        site(fabric)
    ))?;
    // Windows without pacing, which tell whether Sluice helps a job, would look like flows that a restart has lost.
    machine.runs("printf '[enforce]\\nbenefit = false\\n' >/etc/sluice/sluiced.d/windows.toml")?;
    machine.runs("systemctl restart sluiced")?;
    let mut job = Steady::start(fabric, (0, "steady"), CONNECTIONS, true)?;
    // In `observe`, past its rounds: what the network itself does to such connections.
    std::thread::sleep(Duration::from_secs(8));
    let begin = Instant::now();
    std::thread::sleep(UNDISTURBED);
    let plain = job.since(begin)?;
    println!("  ordinary TCP: {:.1} Mbit/s, longest silence {:.1} ms", plain.mbps, plain.silence_ms);
    machine.runs("sluice mode active --persist")?;
    let all = |jobs: &[(String, usize)]| jobs.iter().map(|(_, count)| count).sum::<usize>() == CONNECTIONS;
    until(&machine, "all are managed", all)?;
    std::thread::sleep(Duration::from_secs(3));
    let begin = Instant::now();
    std::thread::sleep(UNDISTURBED);
    let before = job.since(begin)?;
    println!("  undisturbed: {:.1} Mbit/s, longest silence {:.1} ms", before.mbps, before.silence_ms);
    let mut tries = (1..=TRIES).map(|_| minute(&machine, &mut job, before.mbps, all));
    let good = tries.by_ref().find(|seen| !matches!(seen, Ok(false)));
    match good {
        Some(seen) => drop(seen?),
        None => {
            return Err(format!("allowed are {:.0} % and {SILENCE_MS} ms, in one of {TRIES} minutes", GOODPUT * 100.0));
        }
    }
    machine.runs("dpkg --purge sluice")?;
    Ok(())
}

/// A minute of upgrades. False: the connections felt more of it than they may. Ordinary TCP has such silences too, now and then, so
/// another minute is tried; deploy/README.md says how often one was needed.
fn minute(machine: &Machine, job: &mut Steady, before: f64, all: impl Fn(&[(String, usize)]) -> bool) -> Result<bool> {
    let begin = Instant::now();
    for turn in 0..UPGRADES {
        let file = if turn % 2 == 0 { "sluice-next.deb" } else { "sluice.deb" };
        machine.runs(&format!("dpkg -i /tmp/{file}"))?;
        // Spread over a minute.
        let next = begin + Duration::from_secs(60) * (turn + 1) / UPGRADES;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let during = job.since(begin)?;
    until(machine, "all are managed in the end", all)?;
    let part = during.mbps / before;
    let longest = machine.longest_restart.lock().map_err(|e| e.to_string())?.as_millis();
    println!(
        "  {UPGRADES} upgrades, {CONNECTIONS} connections: no reset; {:.1} Mbit/s, {:.1} % of before; longest silence {:.1} ms; \
         longest restart {longest} ms",
        during.mbps,
        part * 100.0,
        during.silence_ms
    );
    Ok(part >= GOODPUT && during.silence_ms <= SILENCE_MS)
}

/// Installed, used, purged: as if it had never been there.
fn purge(given: &Given, fabric: &Arc<Fabric>) -> Result<()> {
    let machine = machine(given, fabric, "purge")?;
    let traces = |machine: &Machine| machine.tries("/root/sluice doctor --traces");
    let (_, said_before) = traces(&machine)?;
    let before = dump::all(&machine)?;
    machine.runs("dpkg -i /tmp/sluice.deb /tmp/sluice-switch.deb")?;
    machine.runs(&format!(
        "mkdir -p /etc/sluice/sluiced.d && printf '{}' >/etc/sluice/sluiced.d/site.toml",
        site(fabric)
    ))?;
    machine.runs("mkdir -p /etc/systemd/system/sluiced.service.d && cp /usr/share/doc/sluice/examples/systemd/sluiced-probes.conf /etc/systemd/system/sluiced.service.d/")?;
    // What the papers tell operators to put there.
    machine.runs(
        "cd /etc/sluice && mkdir tls && \
         touch tls/ca.pem tls/cert.pem tls/key.pem etcd-ca.pem etcd.pem etcd.key topology.json routes.json",
    )?;
    machine.runs("systemctl restart sluiced && sluice mode active --persist && systemctl start sluice-switch")?;
    {
        let _jobs = [Steady::start(fabric, (0, "left"), 2, false)?, Steady::start(fabric, (1, "right"), 2, false)?];
        until(&machine, "two jobs are scheduled", two_jobs)?;
        let used = dump::difference(&before, &dump::all(&machine)?);
        // Programs are attached to cgroups only where there is no `struct_ops`.
        let kinds = [
            "congestion control: sluice",
            "pin: /sys/fs/bpf/sluice",
            "mount:",
            "passwd: sluice",
            "file: /etc/sluice/tls/key.pem",
            "file: /etc/sluice/etcd.key",
        ];
        for kind in kinds {
            if !used.iter().any(|line| line.contains(kind)) {
                return Err(format!("nothing is seen of {kind:?} while it runs, so nothing can be said of it after"));
            }
        }
        println!("  in use: {} differences from the fresh root", used.len());
        machine.types("dpkg --purge sluice sluice-switch")?;
    }
    let left = dump::difference(&before, &dump::all(&machine)?);
    let (_, said_after) = traces(&machine)?;
    println!("  sluice doctor --traces, before:\n{said_before}  after:\n{said_after}");
    if !left.is_empty() {
        return Err(format!("left behind:\n  {}", left.join("\n  ")));
    }
    if said_before != said_after {
        return Err("`sluice doctor --traces` says something else than before".into());
    }
    println!("  after the purge: no difference from the fresh root");
    Ok(())
}
