//! C1 to C4: the daemon is killed, stopped or wedged, also where what its flows would fall back on has gone.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_ebpf::Options;
use sluice_ebpf::traces;
use sluice_schedule::Rate;

use crate::chaos::back::Back;
use crate::chaos::figure::{Figure, Unit, quantile};
use crate::chaos::given_back;
use crate::chaos::ground::{Ground, Setting, Size, Stage, Unrun, silence_bound};
use crate::chaos::halves::{Half, helper_of};
use crate::chaos::wedge::Wedged;
use crate::fabric::cgroup;
use crate::run::RunError;
use crate::run::alive;
use crate::run::daemons::own_instance;
use crate::run::mltcp::{self, Mltcp};

/// P-1: for 99 of 100 flows, and for the last.
const P99_MS: f64 = 250.0;
const WORST_MS: f64 = 400.0;
/// After so long every order has run out: three slots, and by how much the lives of orders differ.
const LEASE: Duration = Duration::from_millis(210);
/// A daemon that is told to end or to stop does within this.
const SIGNAL: Duration = Duration::from_millis(50);
/// Flows that were given back find their rates within this.
const SETTLE: Duration = Duration::from_millis(1_000);
/// After that, for what plain TCP shows; or twice as long as flows took to be plain, for in a shorter time no wait as long
/// could be seen.
const AFTER: Duration = Duration::from_millis(3_000);
/// What they had before and while nothing is wrong is seen for so long.
const BEFORE: Duration = Duration::from_millis(1_000);
/// A helper stands still for so long.
const STILL: Duration = Duration::from_millis(2_000);
/// The case of a daemon of two processes, and the floor of its flows.
const HALVED: &str = "64 flows, 100 Mbit/s, split";
const FLOOR: Rate = Rate::mbps(1);

/// What flows did from a fault until now, once all of them are plain.
///
/// An acknowledgement gives a flow back. Where plain TCP alone makes flows wait for one, those of this case wait as long, and
/// what they wait under plain TCP a moment later is added to the lease. A silence is seen as up to one look longer or
/// shorter than it was.
fn figures(case: &str, stage: &mut Stage, at: u64, floor: Rate) -> Result<Vec<Figure>, RunError> {
    stage.plain()?;
    let plain = Stage::now();
    stage.live.run_for(SETTLE)?;
    let settled = Stage::now();
    stage.live.run_for(AFTER.max(Duration::from_nanos(plain.saturating_sub(at)) * 2))?;
    let ran_out = at + (LEASE + SIGNAL).as_nanos() as u64;
    let under_fault = given_back::mine(&stage.live.samples, at, settled);
    let mut times = given_back::released(&under_fault, at);
    let look = given_back::longest_gap(&under_fault);
    let reference = given_back::waits(&given_back::mine(&stage.live.samples, settled, Stage::now()));
    let bar = |promised: f64, waits: f64| promised.max(LEASE.as_secs_f64() * 1e3 + waits);
    let waits = format!(
        "an acknowledgement under plain TCP: p99 {:.0} ms, at most {:.0} ms; looked at every {:.0} ms at least",
        reference.p99, reference.worst, look
    );
    // What the same flows do to each other without Sluice is not because of it.
    let without = stage.silence(settled, Stage::now());
    let silence = stage.silence(at, settled);
    let p99 = quantile(&mut times, 0.99);
    let due = at + Duration::from_secs_f64(WORST_MS / 1e3).as_nanos() as u64;
    Ok(vec![
        Back::of(stage, at, due, settled).figure(case),
        Figure::exactly(
            format!("{case}: flows that stay managed after an acknowledgement, their orders run out"),
            given_back::kept(&under_fault, ran_out),
            0,
        ),
        Figure::at_most(
            format!("{case}: until its last flow is under plain TCP"),
            quantile(&mut times, 1.0),
            Unit::Ms,
            bar(WORST_MS, reference.worst),
        )
        .noted(waits),
        Figure::at_most(format!("{case}: until 99 of 100 flows are"), p99, Unit::Ms, bar(P99_MS, reference.p99)),
        Figure::at_most(
            format!("{case}: longest silence of a flow"),
            silence,
            Unit::Ms,
            (silence_bound(floor) + look).max(without + 2.0 * look),
        )
        .noted(format!(
            "until all were plain {:.0} ms, under plain TCP afterwards {without:.0} ms",
            stage.silence(at, plain)
        )),
    ])
}

/// Flows, what they are held to, and what their links carry: at the floor, or the rate of the link.
fn cases(ground: &Ground<'_>) -> Vec<(String, Setting, Rate)> {
    let case = |flows: usize, what: &str, rate: Rate, floor: Rate| {
        let setting = Setting { floor: Some(floor), ..Setting::of("release", flows, rate) };
        (format!("{flows} flows, {what}"), setting, floor)
    };
    let one = Rate::mbps(1);
    // A quarter more than the floors together: on a link that floors alone overfill something is lost whoever paces.
    let at_floor =
        |flows: u64| case(flows as usize, "each at a floor of 1 Mbit/s", Rate::mbps((flows * 5 / 4).max(10)), one);
    let on = |flows, mbps| case(flows, &format!("{mbps} Mbit/s"), Rate::mbps(mbps), one);
    if ground.size == Size::Small {
        return vec![case(4, "200 Mbit/s", Rate::mbps(200), one)];
    }
    if ground.size == Size::Core {
        return vec![at_floor(512), on(1, 100), on(64, 100), on(64, 1000)];
    }
    let mut all: Vec<_> = [1, 64, 512].map(at_floor).into();
    all.extend([100, 1000].into_iter().flat_map(|mbps| [1, 64, 512].map(|flows| on(flows, mbps))));
    all
}

/// C1: killed at once.
/// Promises: P-1, P-2
pub fn killed(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut all = Vec::new();
    for (case, setting, floor) in cases(ground) {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        stage.live.daemons.kill(0);
        all.extend(figures(&case, &mut stage, at, floor)?);
        // Its successor takes over.
        stage.restart(0)?;
        stage.captured()?;
    }
    if ground.size == Size::Small {
        return Ok(all);
    }
    let mut stage = ground.stage(&halved())?;
    for half in [Half::Brain, Half::Helper, Half::Both] {
        let helper = helper(&stage)?;
        let at = Stage::now();
        if half != Half::Brain {
            send(helper, Signal::SIGKILL)?;
        }
        if half != Half::Helper {
            stage.live.daemons.kill(0);
        }
        all.extend(figures(&format!("{HALVED}, {} killed", half.word()), &mut stage, at, FLOOR)?);
        // Neither lives without the other.
        all.push(Figure::holds(
            format!("{HALVED}, {} killed: both have ended", half.word()),
            both_ended(&stage, helper),
        ));
        stage.live.daemons.kill(0);
        stage.restart(0)?;
        stage.captured()?;
        stage.live.run_for(BEFORE)?;
    }
    Ok(all)
}

fn halved() -> Setting {
    Setting { floor: Some(FLOOR), split: true, ..Setting::of("halved", 64, Rate::mbps(100)) }
}

/// The helper of host 0's daemon.
fn helper(stage: &Stage) -> Result<u32, RunError> {
    helper_of(stage.live.daemons.pid(0)).ok_or_else(|| RunError::Plan("a split daemon has no helper".into()))
}

fn send(pid: u32, signal: Signal) -> Result<(), RunError> {
    let pid = i32::try_from(pid).map_err(|_| RunError::Plan(format!("no process has the number {pid}")))?;
    kill(Pid::from_raw(pid), signal).map_err(|why| RunError::Plan(format!("{signal} to process {pid}: {why}")))
}

/// Has host 0's daemon ended, and its helper? One whose status nobody took counts as ended.
fn both_ended(stage: &Stage, helper: u32) -> bool {
    !alive(helper) && !alive(stage.live.daemons.pid(0))
}

/// C2: stands still as a whole.
/// Promises: P-1, P-2
pub fn stopped(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut all = Vec::new();
    for (case, setting, floor) in cases(ground).into_iter().filter(|(_, setting, _)| setting.rate < Rate::mbps(1000)) {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        stage.live.daemons.signal(0, Signal::SIGSTOP);
        let done = figures(&case, &mut stage, at, floor);
        stage.live.daemons.signal(0, Signal::SIGCONT);
        all.extend(done?);
        stage.captured()?;
    }
    if ground.size == Size::Small {
        return Ok(all);
    }
    let mut stage = ground.stage(&halved())?;
    let (brain, helper) = (stage.live.daemons.pid(0), helper(&stage)?);
    let at = Stage::now();
    send(brain, Signal::SIGSTOP)?;
    let done = figures(&format!("{HALVED}, the brain stopped"), &mut stage, at, FLOOR);
    send(brain, Signal::SIGCONT)?;
    all.extend(done?);
    stage.captured()?;
    stage.live.run_for(BEFORE)?;
    all.extend(helper_stands(&mut stage, helper)?);
    Ok(all)
}

/// A helper that stands still is asked for nothing that an order needs.
fn helper_stands(stage: &mut Stage, helper: u32) -> Result<Vec<Figure>, RunError> {
    let case = format!("{HALVED}, the helper stopped");
    let at = Stage::now();
    send(helper, Signal::SIGSTOP)?;
    let ran = stage.live.run_for(STILL);
    let until = Stage::now();
    send(helper, Signal::SIGCONT)?;
    ran?;
    let during = given_back::mine(&stage.live.samples, at, until);
    let least = during.iter().map(|look| look.flows.iter().filter(|flow| flow.1).count()).min().unwrap_or(0);
    let before = stage.live.rate(0, at.saturating_sub(BEFORE.as_nanos() as u64), at);
    let rate = stage.live.rate(0, at, until);
    let ratio = if before > 0.0 { rate / before } else { 0.0 };
    Ok(vec![
        Figure::exactly(format!("{case}: flows managed, the fewest in {} s", STILL.as_secs()), least, 64),
        Figure::at_least(format!("{case}: rate over that before"), ratio, Unit::Ratio, Back::LEAST)
            .noted(format!("before {before:.1}, then {rate:.1} Mbit/s, looked at {} times", during.len())),
    ])
}

/// C3: the deciding loop alone stands; the process lives and answers.
/// Promises: P-1
pub fn wedged(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut all = Vec::new();
    let mut answered = 0;
    let cases: Vec<_> = cases(ground).into_iter().filter(|(_, setting, _)| setting.rate <= Rate::mbps(200)).collect();
    let count = cases.len();
    for (case, setting, floor) in cases {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        let wedge = Wedged::thread(stage.live.daemons.pid(0), "loop")?;
        all.extend(figures(&case, &mut stage, at, floor)?);
        answered += usize::from(stage.live.daemons.get(0, "/metrics").is_some());
        drop(wedge);
        stage.captured()?;
    }
    all.push(Figure::exactly("wedged daemons that still answered /metrics", answered, count));
    Ok(all)
}

/// C4: killed while something that the way back could need is gone.
/// Promises: P-1
pub fn without_ground(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut all = Vec::new();
    let floor = Rate::mbps(1);
    let setting = |flows| Setting { floor: Some(floor), ..Setting::of("without-ground", flows, Rate::mbps(100)) };

    let mut stage = ground.stage(&setting(ground.sized(64, 4)))?;
    let gone = remove_pins();
    let at = Stage::now();
    stage.live.daemons.kill(0);
    // The link's pin was all that held the registration beside the daemon.
    all.extend(figures("pins removed and name unregistered", &mut stage, at, floor)?);
    let named = names().into_iter().filter(|name| name.contains(&crate::run::daemons::instance_of(0))).count();
    all.push(Figure::at_least("pins that were removed", gone as f64, Unit::Count, 1.0));
    all.push(Figure::exactly("names of the killed daemon that stay registered", named, 0));
    drop(stage);

    let control = Mltcp::register().map_err(|why| Unrun::Broken(why.into()))?;
    let setting_of = |tcp: &str| Setting { tcp: tcp.into(), ..setting(ground.sized(16, 4)) };
    let mut stage = ground.stage(&setting_of(mltcp::NAME))?;
    drop(control);
    let still = names().iter().any(|name| name == mltcp::NAME);
    let at = Stage::now();
    stage.live.daemons.kill(0);
    all.extend(figures("the congestion control that flows had is gone", &mut stage, at, floor)?);
    all.push(Figure::holds("that control was gone before the kill", !still));
    drop(stage);

    let mut stage = ground.stage(&setting(ground.sized(64, 4)))?;
    let emptied = empty_cgroup(stage.live.fabric.cgroups.jobs(0).path())?;
    let at = Stage::now();
    stage.live.daemons.kill(0);
    all.extend(figures("the cgroup of the job is gone", &mut stage, at, floor)?);
    all.push(Figure::at_least("processes that were moved out of it", emptied.len() as f64, Unit::Count, 1.0));
    Ok(all)
}

/// Removes the pins of this process's daemons as `rm` would; how many there were.
fn remove_pins() -> usize {
    let own = traces::pinned(&Options::default().pin_root).into_iter().filter(|place| own_instance(&place.instance));
    let files = own.flat_map(|place| place.names.iter().map(|name| place.dir.join(name)).collect::<Vec<_>>());
    files.filter(|file| std::fs::remove_file(file).is_ok()).count()
}

/// The names that sockets may ask for now.
fn names() -> Vec<String> {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// Moves what runs in a cgroup to the root's, and removes it; the processes that there were.
pub fn empty_cgroup(path: &Path) -> Result<Vec<String>, Unrun> {
    let root = cgroup::mount_point()?.join("cgroup.procs");
    let io = |what: &str| RunError::io(format!("{what} {}", path.display()));
    let pids = std::fs::read_to_string(path.join("cgroup.procs")).map_err(io("reading the processes of"))?;
    for pid in pids.split_whitespace() {
        std::fs::write(&root, pid).map_err(io("moving a process out of"))?;
    }
    std::fs::remove_dir(path).map_err(io("removing"))?;
    Ok(pids.split_whitespace().map(str::to_owned).collect())
}

/// Makes a cgroup again that [`empty_cgroup`] has removed, with the processes that it had.
pub fn fill_cgroup(path: &Path, pids: &[String]) -> Result<(), Unrun> {
    let io = |what: &str| RunError::io(format!("{what} {}", path.display()));
    std::fs::create_dir(path).map_err(io("making"))?;
    for pid in pids {
        std::fs::write(path.join("cgroup.procs"), pid).map_err(io("moving a process back to"))?;
    }
    Ok(())
}
