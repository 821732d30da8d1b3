//! C15 and C17: cgroups, namespaces and interfaces come and go under live flows; directories and disks fail under a daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Rate};

use crate::chaos::bare::Bare;
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, HOSTS, Setting, Stage, Unrun, ms, silence_bound, sluice};
use crate::chaos::inventory;
use crate::chaos::mounts::{self, Hidden, Mounted};
use crate::chaos::rows::deciding::deciding;
use crate::chaos::rows::release::{empty_cgroup, fill_cgroup};
use crate::chaos::streams::{PORT, Streams, TOLD};
use crate::experiment::Bench;
use crate::experiment::live::Live;
use crate::fabric::layout::container_address;
use crate::fabric::{FabricSpec, NetNs};
use crate::run::daemons::remove_own;
use crate::run::{KillOnDrop, RunError};

const RATE: Rate = Rate::mbps(200);
/// What is dropped at the latest after this much silence.
const FORGOTTEN: Duration = Duration::from_secs(70);

/// C15: all of it, and what the daemon holds at the end.
/// Promises: P-29, P-30, P-31
pub fn comes_and_goes(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = cgroup(ground)?;
    figures.extend(namespace(ground)?);
    figures.extend(interface(ground)?);
    Ok(figures)
}

/// What a daemon holds of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holds {
    descriptors: usize,
    namespaces: usize,
    threads: usize,
}

/// For threads that answer questions, of which there are more once more are asked at once: one without work ends after ten
/// seconds.
const IDLE: Duration = Duration::from_secs(15);

impl Holds {
    fn of(pid: u32) -> Holds {
        Holds {
            descriptors: inventory::descriptors(pid).unwrap_or(0),
            namespaces: inventory::namespaces_held(pid).unwrap_or(0),
            threads: inventory::threads(pid).unwrap_or(0),
        }
    }

    /// What it holds once nobody has asked it anything for a while, at the latest when that is no more than before.
    fn settled(pid: u32, before: Holds) -> Holds {
        let end = Instant::now() + IDLE;
        loop {
            let now = Holds::of(pid);
            let fits = now.threads <= before.threads && now.descriptors <= before.descriptors;
            if fits && now.namespaces <= before.namespaces || Instant::now() > end {
                return now;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn figures(self, what: &str, before: Holds) -> Vec<Figure> {
        let more = |name: &str, now: usize, then: usize| {
            Figure::at_most(
                format!("{what}: {name} of the daemon more than before"),
                now.saturating_sub(then) as f64,
                Unit::Count,
                0.0,
            )
        };
        vec![
            more("descriptors", self.descriptors, before.descriptors),
            more("descriptors of namespaces", self.namespaces, before.namespaces),
            more("threads", self.threads, before.threads),
        ]
    }
}

fn cgroup(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("cgroup", 8, RATE))?;
    // Asked once, it has the thread that answers.
    stage.managed(0);
    let before = Holds::of(stage.live.daemons.pid(0));
    let path = stage.live.fabric.cgroups.jobs(0).path().to_owned();
    let at = Stage::now();
    let moved = empty_cgroup(&path)?;
    stage.live.run_for(Duration::from_secs(3))?;
    let without = stage.managed(0);
    fill_cgroup(&path, &moved)?;
    stage.live.run_for(Duration::from_secs(3))?;
    let silence = stage.silence(at, Stage::now());
    let mut figures = vec![
        Figure::exactly("cgroup removed: live flows that keep their orders", without, 8),
        Figure::exactly("cgroup made again: flows that are managed", stage.managed(0), 8),
        Figure::at_most("cgroup: longest silence of a flow", silence, Unit::Ms, silence_bound(Rate::mbps(10))),
    ];
    figures.extend(Holds::settled(stage.live.daemons.pid(0), before).figures("cgroup", before));
    Ok(figures)
}

/// A namespace behind host 0, joined and routed as a container's.
fn inner(bare: &Bare) -> Result<NetNs, Unrun> {
    let inner = NetNs::create("inner")?;
    let (outside, inside) = (container_address(0, 1), container_address(0, 2));
    bare.fabric.hosts[0].ns.ip(&format!(
        "link add name ct0 type veth peer name eth0 netns {}\naddr add {outside}/24 dev ct0\nlink set ct0 up\n",
        inner.tid()
    ))?;
    inner.ip(&format!(
        "link set lo up\naddr add {inside}/24 dev eth0\nlink set eth0 up\nroute add default via {outside}\n"
    ))?;
    Ok(inner)
}

/// A process in a namespace that sends all the time to a port.
fn sender(bare: &Bare, ns: &NetNs) -> Result<KillOnDrop, Unrun> {
    let to = format!("/dev/tcp/{}/{PORT}", bare.fabric.hosts[1].address);
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("exec cat /dev/zero > {to}")]).env("SLUICE_JOB_ID", "inner");
    bash.stdin(Stdio::null()).stderr(Stdio::null());
    Ok(KillOnDrop(ns.spawn(bash, Some(bare.fabric.cgroups.jobs(0).procs()?))?))
}

fn namespace(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut spec = FabricSpec::star(2, RATE, Bytes(250_000));
    spec.containers = vec![0];
    let bare = Bare::on(ground, "namespace", spec, TOLD)?;
    let to = &bare.fabric.hosts[1];
    // Only its listening end: senders are processes of the namespace.
    let sink = Streams::open(&bare.fabric.hosts[0].ns, &to.ns, to.address, PORT, 0)?;
    bare.used();
    let before = Holds::of(bare.daemons.pid(0));
    let mut figures = Vec::new();
    for (what, cut) in [("with processes inside", false), ("with orphans, cable cut first", true)] {
        let inner = inner(&bare)?;
        let senders = (0..4).map(|_| sender(&bare, &inner)).collect::<Result<Vec<_>, _>>()?;
        let seen = bare.until(Duration::from_secs(20), |bare| bare.used() >= 4);
        let moved = sink.received();
        figures.push(
            Figure::holds(format!("namespace {what}: its flows were captured"), seen.is_some())
                .noted(format!("{moved} bytes")),
        );
        if cut {
            bare.fabric.hosts[0].ns.ip("link set dev ct0 down\n")?;
        }
        drop(senders);
        drop(inner);
        let patience = ground.sized(FORGOTTEN, Duration::from_secs(10));
        let free = bare.until(patience, |bare| bare.used() == 0);
        figures.push(Figure::exactly(
            format!("namespace {what}: rows left after {} s", patience.as_secs()),
            if free.is_some() { 0 } else { bare.used() },
            0,
        ));
        // A scan later nothing is held any more.
        bare.until(Duration::from_secs(15), |bare| Holds::of(bare.daemons.pid(0)).namespaces <= before.namespaces);
        figures.extend(Holds::settled(bare.daemons.pid(0), before).figures(&format!("namespace {what}"), before));
        if !cut {
            // A kernel takes its time over a namespace that nobody holds, and a busy one more.
            let gone = |bare: &Bare| bare.fabric.hosts[0].ns.ask_ip(&["link", "show", "dev", "ct0"]).is_err();
            let gone = bare.until(Duration::from_secs(30), gone);
            figures.push(Figure::holds(format!("namespace {what}: its cable goes with it"), gone.is_some()));
        }
    }
    drop(sink);
    let _ = bare.daemons.stop();
    Ok(figures)
}

/// What a node's kernel knows of ways and neighbours, as lines that bring it back.
pub(super) fn ways(ns: &NetNs) -> Result<String, Unrun> {
    let routes = ns.ask_ip(&["route", "show"])?.replace(" linkdown", "");
    let neighbours = ns.ask_ip(&["neigh", "show", "nud", "permanent"])?;
    let routes = routes
        .lines()
        .filter(|line| !line.contains("proto kernel"))
        .map(|line| format!("route replace {}\n", line.trim()));
    let neighbours =
        neighbours.lines().map(|line| format!("neigh replace {}\n", line.replace("PERMANENT", "nud permanent").trim()));
    Ok(neighbours.chain(routes).collect())
}

fn interface(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("interface", 4, RATE))?;
    stage.managed(0);
    let before = Holds::of(stage.live.daemons.pid(0));
    let back = ways(&stage.live.fabric.hosts[0].ns)?;
    let mut figures = Vec::new();
    for (what, away, again) in [
        ("down and up", "link set dev eth0 down\n", "link set dev eth0 up\n"),
        ("renamed and back", "link set dev eth0 name lan0\n", "link set dev lan0 name eth0\n"),
    ] {
        let gone = stage.live.fabric.hosts[0].ns.ip(away);
        if let Err(why) = gone {
            figures
                .push(Figure::holds(format!("interface {what}: the kernel lets it be"), false).noted(why.to_string()));
            continue;
        }
        stage.live.run_for(Duration::from_secs(2))?;
        let alive = stage.snapshot(0).is_some();
        stage.live.fabric.hosts[0].ns.ip(again)?;
        stage.live.fabric.hosts[0].ns.ip(&back)?;
        let (at, until) = (Stage::now(), Duration::from_secs(30));
        let moves = |stage: &Stage| {
            let now = Stage::now();
            stage.live.rate(0, now.saturating_sub(500_000_000), now) > 0.5 * RATE.0 as f64 / 1e6
        };
        let mut took = None;
        while took.is_none() && ms(at, Stage::now()) < until.as_secs_f64() * 1e3 {
            stage.live.run_for(Duration::from_millis(100))?;
            took = (moves(&stage) && stage.managed(0) == 4).then(|| ms(at, Stage::now()) / 1e3);
        }
        figures.push(Figure::holds(format!("interface {what}: the daemon answers meanwhile"), alive));
        figures.push(
            Figure::at_most(
                format!("interface {what}: until all flows are managed at half the link at least"),
                took.unwrap_or(f64::INFINITY),
                Unit::Seconds,
                15.0,
            )
            .noted("TCP's own pauses after a loss of carrier included"),
        );
    }
    figures.extend(Holds::settled(stage.live.daemons.pid(0), before).figures("interface", before));
    Ok(figures)
}

/// Fills the file system under a directory; the file that does.
fn fill(dir: &Path) -> Result<std::path::PathBuf, Unrun> {
    use std::io::Write as _;
    let path = dir.join("filler");
    let mut file = std::fs::File::create(&path).map_err(RunError::io("filling a file system"))?;
    let chunk = vec![1; 64 << 10];
    // Until it is full, which is the aim.
    while file.write_all(&chunk).is_ok() {}
    let _ = file.flush();
    Ok(path)
}

/// C17: one thing after the other fails under a running daemon; then a daemon starts with nothing to log to.
/// Promises: P-33
pub fn directories(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    mounts::leave()?;
    // All files of the stage, logs and run directories among them, on a file system that can be filled.
    let dir = ground.bench("directories")?.dir;
    let _disk = Mounted::memory(&dir, 256 << 20)?;
    let (mut plan, place) = Setting::of("directories", 4, RATE).plan();
    plan.name = "directories".into();
    let bench = Bench { binaries: ground.bench.binaries, dir: dir.clone(), stop: ground.bench.stop };
    let live = Live::start(&bench, &plan, &place, &sluice(), 4)?;
    let mut stage = Stage { live, plan, dir: dir.join("live") };
    stage.captured()?;
    stage.live.run_for(Duration::from_secs(2))?;
    let time = Duration::from_secs(ground.sized(5, 2));
    let steady = Stage::now();
    let [_, before] = deciding(&mut stage, time)?.p99();
    let undisturbed = stage.silence(steady, Stage::now());
    let mut figures = vec![Figure::shown("late at an edge, p99, before anything fails", before, Unit::Ms)];
    let run_dir = stage.live.daemons.hosts[0].run_dir.clone();
    let mut look = |stage: &mut Stage, what: &str| -> Result<(), Unrun> {
        let at = Stage::now();
        let [_, late] = deciding(stage, time)?.p99();
        let silence = stage.silence(at, Stage::now());
        figures.push(
            Figure::at_most(format!("{what}: late at an edge, p99"), late, Unit::Ms, before * 1.10 + 1.0)
                .noted("as before, a tenth and 1 ms for the clock's own steps"),
        );
        figures.push(Figure::exactly(format!("{what}: flows managed"), stage.managed(0), 4));
        figures.push(
            Figure::at_most(
                format!("{what}: longest silence"),
                silence,
                Unit::Ms,
                silence_bound(Rate::mbps(10)).max(undisturbed),
            )
            .noted(format!("before anything fails {undisturbed:.0} ms")),
        );
        Ok(())
    };
    let filler = fill(&dir)?;
    // A reload, which has something to log; that its own file cannot be written is the fault.
    let _ = stage.live.daemons.set_clock(0, 0.0);
    look(&mut stage, "run directory and log disk full")?;
    let _ = std::fs::remove_file(filler);
    let read_only = Mounted::read_only(&run_dir)?;
    look(&mut stage, "run directory read-only")?;
    drop(read_only);
    let pages = run_dir.join("progress");
    std::fs::remove_dir_all(&pages).map_err(RunError::io(format!("removing {}", pages.display())))?;
    look(&mut stage, "directory of progress pages removed")?;
    let bpffs = sluice_ebpf::Options::default().pin_root;
    let hidden = Hidden::take(&bpffs, &ground.bench("bpffs")?.dir)?;
    look(&mut stage, "bpffs unmounted")?;
    let told = stage.logged(0, "state-file-unwritten").len() + stage.logged(0, "config-reloaded").len();
    // A successor mounts it anew, has nothing to log to, and must work all the same.
    let wrapper = dir.join("mute");
    let program = ground.bench.binaries.daemon()?;
    let script = format!("#!/bin/sh\nexec {:?} \"$@\" >&- 2>&-\n", program.display().to_string());
    std::fs::write(&wrapper, script).map_err(RunError::io("writing a script"))?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&wrapper, mode).map_err(RunError::io("writing a script"))?;
    stage.live.daemons.end(0)?;
    stage.live.daemons.replace(0, wrapper);
    stage.restart(0)?;
    stage.captured()?;
    look(&mut stage, "started with standard output and error closed, without bpffs")?;
    figures.push(Figure::shown("lines about it in the log, all faults", told as f64, Unit::Count));
    drop(stage);
    // What the first daemons pinned is on the file system that was away until now.
    drop(hidden);
    remove_own(HOSTS);
    Ok(figures)
}
