//! C1 to C4: the daemon is killed, stopped or wedged, also where what its flows would fall back on has gone.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use sluice_ebpf::Options;
use sluice_ebpf::traces;
use sluice_schedule::Rate;

use crate::chaos::figure::{Figure, Unit, quantile};
use crate::chaos::ground::{Ground, Setting, Size, Stage, Unrun, silence_bound};
use crate::chaos::wedge::Wedged;
use crate::fabric::cgroup;
use crate::run::RunError;
use crate::run::daemons::own_instance;
use crate::run::mltcp::{self, Mltcp};

/// P-1: for 99 of 100 flows, and for the last.
const P99_MS: f64 = 250.0;
const WORST_MS: f64 = 400.0;
/// After the daemon is gone, for what plain TCP shows.
const AFTER: Duration = Duration::from_millis(1_500);

/// Figures over the cases of a row.
#[derive(Debug, Default)]
struct Released {
    times: Vec<f64>,
    figures: Vec<Figure>,
}

impl Released {
    /// What flows did from a fault until now, once all of them are plain.
    fn add(&mut self, case: &str, stage: &mut Stage, at: u64, floor: Rate) -> Result<(), RunError> {
        stage.plain()?;
        let plain = Stage::now();
        stage.live.run_for(AFTER)?;
        let mut times = stage.released(at);
        self.figures.push(Figure::at_most(
            format!("{case}: until its last flow is under plain TCP"),
            quantile(&mut times, 1.0),
            Unit::Ms,
            WORST_MS,
        ));
        self.times.extend(times);
        // What the same flows do to each other without Sluice is not because of it.
        let without = stage.silence(plain, Stage::now());
        let bound = silence_bound(floor).max(without);
        let silence = stage.silence(at, plain);
        let note = format!("under plain TCP afterwards {without:.0} ms");
        self.figures
            .push(Figure::at_most(format!("{case}: longest silence of a flow"), silence, Unit::Ms, bound).noted(note));
        Ok(())
    }

    fn figures(mut self) -> Vec<Figure> {
        let p99 = quantile(&mut self.times, 0.99);
        let what = format!("p99 over all {} flows", self.times.len());
        self.figures.push(Figure::at_most(what, p99, Unit::Ms, P99_MS));
        self.figures
    }
}

/// Flows, what they are held to, and what their links carry: at the floor, or the rate of the link.
fn cases(ground: &Ground<'_>) -> Vec<(String, Setting, Rate)> {
    let case = |flows: usize, what: &str, rate: Rate, floor: Rate| {
        let setting = Setting { floor: Some(floor), ..Setting::of("release", flows, rate) };
        (format!("{flows} flows, {what}"), setting, floor)
    };
    let one = Rate::mbps(1);
    let at_floor = |flows: u64| case(flows as usize, "each at a floor of 1 Mbit/s", Rate::mbps(flows.max(10)), one);
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
    let mut released = Released::default();
    for (case, setting, floor) in cases(ground) {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        stage.live.daemons.kill(0);
        released.add(&case, &mut stage, at, floor)?;
        // Its successor takes over.
        stage.restart(0)?;
        stage.captured()?;
    }
    Ok(released.figures())
}

/// C2: stands still as a whole.
/// Promises: P-1, P-2
pub fn stopped(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut released = Released::default();
    for (case, setting, floor) in cases(ground).into_iter().filter(|(_, setting, _)| setting.rate <= Rate::mbps(512)) {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        stage.live.daemons.signal(0, Signal::SIGSTOP);
        let done = released.add(&case, &mut stage, at, floor);
        stage.live.daemons.signal(0, Signal::SIGCONT);
        done?;
        stage.captured()?;
    }
    Ok(released.figures())
}

/// C3: the deciding loop alone stands; the process lives and answers.
/// Promises: P-1
pub fn wedged(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut released = Released::default();
    let mut answered = 0;
    let cases: Vec<_> = cases(ground).into_iter().filter(|(_, setting, _)| setting.rate <= Rate::mbps(200)).collect();
    let count = cases.len();
    for (case, setting, floor) in cases {
        let mut stage = ground.stage(&setting)?;
        let at = Stage::now();
        let wedge = Wedged::thread(stage.live.daemons.pid(0), "loop")?;
        released.add(&case, &mut stage, at, floor)?;
        answered += usize::from(stage.live.daemons.get(0, "/metrics").is_some());
        drop(wedge);
        stage.captured()?;
    }
    let mut figures = released.figures();
    figures.push(Figure::exactly("wedged daemons that still answered /metrics", answered, count));
    Ok(figures)
}

/// C4: killed while something that the way back could need is gone.
/// Promises: P-1
pub fn without_ground(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut released = Released::default();
    let floor = Rate::mbps(1);
    let setting = |flows| Setting { floor: Some(floor), ..Setting::of("without-ground", flows, Rate::mbps(100)) };

    let mut stage = ground.stage(&setting(ground.sized(64, 4)))?;
    let gone = remove_pins();
    let at = Stage::now();
    stage.live.daemons.kill(0);
    // The link's pin was all that held the registration beside the daemon.
    released.add("pins removed and name unregistered", &mut stage, at, floor)?;
    let named = names().into_iter().filter(|name| name.contains(&crate::run::daemons::instance_of(0))).count();
    released.figures.push(Figure::at_least("pins that were removed", gone as f64, Unit::Count, 1.0));
    released.figures.push(Figure::exactly("names of the killed daemon that stay registered", named, 0));
    drop(stage);

    let control = Mltcp::register().map_err(|why| Unrun::Broken(why.into()))?;
    let setting_of = |tcp: &str| Setting { tcp: tcp.into(), ..setting(ground.sized(16, 4)) };
    let mut stage = ground.stage(&setting_of(mltcp::NAME))?;
    drop(control);
    let still = names().iter().any(|name| name == mltcp::NAME);
    let at = Stage::now();
    stage.live.daemons.kill(0);
    released.add("the congestion control that flows had is gone", &mut stage, at, floor)?;
    released.figures.push(Figure::holds("that control was gone before the kill", !still));
    drop(stage);

    let mut stage = ground.stage(&setting(ground.sized(64, 4)))?;
    let emptied = empty_cgroup(stage.live.fabric.cgroups.jobs(0).path())?;
    let at = Stage::now();
    stage.live.daemons.kill(0);
    released.add("the cgroup of the job is gone", &mut stage, at, floor)?;
    released.figures.push(Figure::at_least("processes that were moved out of it", emptied as f64, Unit::Count, 1.0));
    Ok(released.figures())
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

/// Moves what runs in a cgroup to the root's, and removes it; how many processes there were.
pub fn empty_cgroup(path: &Path) -> Result<usize, Unrun> {
    let root = cgroup::mount_point()?.join("cgroup.procs");
    let io = |what: &str| RunError::io(format!("{what} {}", path.display()));
    let pids = std::fs::read_to_string(path.join("cgroup.procs")).map_err(io("reading the processes of"))?;
    for pid in pids.split_whitespace() {
        std::fs::write(&root, pid).map_err(io("moving a process out of"))?;
    }
    std::fs::remove_dir(path).map_err(io("removing"))?;
    Ok(pids.split_whitespace().count())
}
