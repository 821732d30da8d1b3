//! C20: thirty faults of the other rows, drawn by a seed, one after the other over ten minutes on one cluster.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_schedule::Rate;

use crate::chaos::figure::{Figure, Unit, quantile, worst};
use crate::chaos::ground::{Ground, HOSTS, PATIENCE, Setting, Stage, Unrun, silence_bound};
use crate::chaos::inventory;
use crate::chaos::rows::partition::{dropper, is_fresh};
use crate::chaos::rows::release::{empty_cgroup, fill_cgroup};
use crate::chaos::wedge::Wedged;
use crate::run::RunError;

const FLOWS: usize = 8;
/// After a fault something moves within this.
const MOVES: Duration = Duration::from_millis(500);
/// How many faults the row has, whatever its length.
const FAULTS: u32 = 30;

/// Numbers that look random and follow from a seed (splitmix64).
#[derive(Debug)]
pub struct Draws(u64);

impl Draws {
    /// From this seed.
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

/// What is done to one host, or to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// C1.
    Kill,
    /// C2.
    Stop,
    /// C3.
    Wedge,
    /// C5, both ways.
    Cut,
    /// C5, half of what the host says.
    Loss,
    /// C5, all that the host says.
    Mute,
    /// C5, all that is said to the host.
    Deaf,
    /// C6, without a chance to say anything.
    SwitchKill,
    /// C6, in order.
    SwitchEnd,
    /// C9.
    Clock,
    /// C10, in order.
    Restart,
    /// C15, removed and made again.
    Cgroup,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Kill,
        Kind::Stop,
        Kind::Wedge,
        Kind::Cut,
        Kind::Loss,
        Kind::Mute,
        Kind::Deaf,
        Kind::SwitchKill,
        Kind::SwitchEnd,
        Kind::Clock,
        Kind::Restart,
        Kind::Cgroup,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Stop => "stop",
            Kind::Wedge => "wedge",
            Kind::Cut => "cut",
            Kind::Loss => "loss",
            Kind::Mute => "mute",
            Kind::Deaf => "deaf",
            Kind::SwitchKill => "switch-kill",
            Kind::SwitchEnd => "switch-end",
            Kind::Clock => "clock",
            Kind::Restart => "restart",
            Kind::Cgroup => "cgroup",
        }
    }

    /// Are flows of its host to be plain while it lasts?
    fn releases(self) -> bool {
        matches!(self, Kind::Kill | Kind::Stop | Kind::Wedge)
    }
}

/// A fault that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// What.
    pub kind: Kind,
    /// To which host.
    pub host: usize,
    /// For how long.
    pub lasts: Duration,
}

impl Drawn {
    /// Must the flows of host 0, the one that is looked at, be seen to become plain? In a shorter time orders may not have run
    /// out.
    fn is_seen_to_release(&self) -> bool {
        self.kind.releases() && self.host == 0 && self.lasts > Duration::from_millis(600)
    }
}

/// The faults of a seed.
pub fn drawn(seed: u64, count: u32) -> Vec<Drawn> {
    let mut draws = Draws::new(seed);
    let one = |_| Drawn {
        kind: Kind::ALL[draws.below(Kind::ALL.len() as u64) as usize],
        // Every other one hits the host that sends.
        host: if draws.below(2) == 0 { 0 } else { draws.below(HOSTS as u64) as usize },
        lasts: Duration::from_millis(300 + draws.below(3_700)),
    };
    (0..count).map(one).collect()
}

/// Does one fault from its beginning to its end.
pub fn strike(stage: &mut Stage, fault: Drawn) -> Result<(), Unrun> {
    let Drawn { kind, host, lasts } = fault;
    let name = stage.live.fabric.hosts[host].name.clone();
    match kind {
        Kind::Kill => {
            stage.live.daemons.kill(host);
            stage.live.run_for(lasts)?;
            stage.restart(host)?;
        }
        Kind::Restart => {
            stage.live.daemons.end(host)?;
            stage.restart(host)?;
            stage.live.run_for(lasts)?;
        }
        Kind::Stop => {
            stage.live.daemons.signal(host, Signal::SIGSTOP);
            let ran = stage.live.run_for(lasts);
            stage.live.daemons.signal(host, Signal::SIGCONT);
            ran?;
        }
        Kind::Wedge => {
            let wedge = Wedged::thread(stage.live.daemons.pid(host), "loop")?;
            stage.live.run_for(lasts)?;
            drop(wedge);
        }
        Kind::Cut => {
            stage.live.fabric.set_link(&name, "mgmt0", false)?;
            stage.live.run_for(lasts)?;
            stage.live.fabric.set_link(&name, "mgmt0", true)?;
        }
        Kind::Loss | Kind::Mute | Kind::Deaf => {
            let fabric = &stage.live.fabric;
            let lossy = match kind {
                Kind::Loss => dropper(&fabric.hosts[host].ns, "mgmt0", 0.5)?,
                Kind::Mute => dropper(&fabric.hosts[host].ns, "mgmt0", 1.0)?,
                // Its end in the bridge.
                _ => dropper(&fabric.management, &format!("m{host}"), 1.0)?,
            };
            stage.live.run_for(lasts)?;
            drop(lossy);
        }
        Kind::Cgroup => {
            let path = stage.live.fabric.cgroups.jobs(host).path().to_owned();
            let moved = empty_cgroup(&path)?;
            let ran = stage.live.run_for(lasts);
            fill_cgroup(&path, &moved)?;
            ran?;
        }
        Kind::SwitchKill | Kind::SwitchEnd => {
            if kind == Kind::SwitchKill {
                stage.live.daemons.kill_switch(0);
            } else {
                stage.live.daemons.end_switch(0)?;
            }
            stage.live.run_for(lasts)?;
            stage.live.daemons.start_switch_again(&stage.live.fabric, 0)?;
        }
        Kind::Clock => {
            let wrong = lasts.as_secs_f64() * 1e3 * if host.is_multiple_of(2) { 1.0 } else { -1.0 };
            stage.live.daemons.set_clock(host, wrong)?;
            let ran = stage.live.run_for(lasts);
            stage.live.daemons.set_clock(host, 0.0)?;
            ran?;
        }
    }
    Ok(())
}

/// After a fault everything is as before: flows managed, the switch heard by all.
fn heal(stage: &mut Stage, after: Drawn) -> Result<f64, Unrun> {
    let began = Instant::now();
    stage.captured()?;
    for host in 0..HOSTS {
        if stage.until(host, PATIENCE, is_fresh)?.is_none() {
            let heard = stage.snapshot(host).map(|seen| format!("{:?}", seen.switches));
            let what = format!("h{host} does not hear the switch again within {PATIENCE:?} after {after:?}: {heard:?}");
            return Err(RunError::Plan(what).into());
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// C20.
pub fn faults(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let count = if ground.minutes >= 1.0 { FAULTS } else { (ground.minutes * 12.0).ceil().max(1.0) as u32 };
    let each = Duration::from_secs_f64(ground.minutes * 60.0 / f64::from(count));
    let setting = Setting { own_switches: true, ..Setting::of("random", FLOWS, Rate::mbps(200)) };
    let mut stage = ground.stage(&setting)?;
    let (mut healed, mut silences, mut released) = (Vec::new(), Vec::new(), Vec::new());
    // What flows do to each other between faults.
    let mut undisturbed = 0.0_f64;
    let before: Vec<_> = (0..HOSTS).map(|host| inventory::descriptors(stage.live.daemons.pid(host))).collect();
    let mut kinds = std::collections::BTreeMap::<&str, usize>::new();
    let mut due = 0;
    for fault in drawn(ground.seed, count) {
        let began = Instant::now();
        *kinds.entry(fault.kind.name()).or_default() += 1;
        // What was seen of earlier ones is not needed any more.
        stage.live.samples.clear();
        let at = Stage::now();
        strike(&mut stage, fault)?;
        let struck = Stage::now();
        if fault.is_seen_to_release() {
            due += FLOWS;
            // Until it ends: a successor may take its flows before it is known to be ready.
            released.extend(stage.released_within(at, at + fault.lasts.as_nanos() as u64));
        }
        healed.push(heal(&mut stage, fault)?);
        silences.push(stage.silence(at, Stage::now()));
        // Of a fault that was over at once there would be no two looks to compare.
        stage.live.run_for(MOVES)?;
        if stage.live.rate(0, struck, Stage::now()) <= 0.0 {
            return Err(RunError::Plan(format!("nothing moved after {fault:?}")).into());
        }
        let rests = Stage::now();
        stage.live.run_for(each.saturating_sub(began.elapsed()))?;
        undisturbed = undisturbed.max(stage.silence(rests, Stage::now()));
        if ground.bench.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(RunError::Interrupted.into());
        }
    }
    let after: Vec<_> = (0..HOSTS).map(|host| inventory::descriptors(stage.live.daemons.pid(host))).collect();
    // Of a daemon that is gone nothing is known, which is no good sign.
    let more = before.iter().zip(&after).map(|(before, after)| match (before, after) {
        (Some(before), Some(after)) => after.saturating_sub(*before) as f64,
        _ => f64::NAN,
    });
    let all: Vec<String> = kinds.iter().map(|(kind, times)| format!("{times} {kind}")).collect();
    let flows = released.len();
    let mut figures = vec![
        Figure::shown(format!("faults, seed {}", ground.seed), f64::from(count), Unit::Count).noted(all.join(", ")),
    ];
    // Not every seed has faults after which flows must be plain.
    if due > 0 {
        figures.push(Figure::exactly("flows that were seen while they had to become plain", flows, due));
        figures.push(Figure::at_most(
            format!("until a flow is plain, p99 of {flows}"),
            quantile(&mut released, 0.99),
            Unit::Ms,
            250.0,
        ));
    }
    figures.extend([
        Figure::at_most(
            "longest silence of a flow",
            worst(silences.iter().copied(), f64::max),
            Unit::Ms,
            silence_bound(Rate::mbps(10)).max(undisturbed),
        )
        .noted(format!(
            "median over the faults {:.0} ms; between faults at most {undisturbed:.0} ms",
            quantile(&mut silences, 0.5)
        )),
        Figure::at_most("until everything is as before, most", worst(healed, f64::max), Unit::Ms, 10_000.0),
        Figure::exactly("flows managed at the end", stage.managed(0), FLOWS),
        Figure::at_most("descriptors of a daemon more than at first", worst(more, f64::max), Unit::Count, 4.0),
    ]);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_faults_and_another_seed_others() {
        let first = drawn(7, FAULTS);
        assert_eq!(first, drawn(7, FAULTS));
        assert_ne!(first, drawn(8, FAULTS));
        for kind in Kind::ALL {
            assert!((0..20).any(|seed| drawn(seed, FAULTS).iter().any(|fault| fault.kind == kind)), "{kind:?}");
        }
        assert!(first.iter().all(|fault| fault.host < HOSTS && fault.lasts < Duration::from_secs(4)));
    }

    #[test]
    fn flows_are_seen_to_become_plain_after_faults_of_their_own_host_that_last() {
        let lasts = Duration::from_secs(1);
        let kill = Drawn { kind: Kind::Kill, host: 0, lasts };
        assert!(kill.is_seen_to_release());
        let others = [
            Drawn { host: 1, ..kill },
            Drawn { kind: Kind::Cut, ..kill },
            Drawn { lasts: Duration::from_millis(500), ..kill },
        ];
        assert!(others.iter().all(|fault| !fault.is_seen_to_release()));
    }
}
