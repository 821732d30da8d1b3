//! C6 and C7: a switch that starts anew again and again, and one that is slow, deaf or miserly beside a healthy one.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use sluice_scenario::{Fault, FaultKind, NodeIx};
use sluice_schedule::{Nanos, Rate};
use sluice_wire::snapshot::holder::HolderSnapshot;
use sluice_wire::snapshot::{Histogram, View};

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, also, ring, sluice};
use crate::chaos::proxy::{Proxy, Way};
use crate::experiment::capacity::queue;
use crate::experiment::live::Live;
use crate::fabric::{Cable, FabricSpec};
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

const RATE: Rate = Rate::mbps(200);
const EVERY: Nanos = Nanos::from_millis(2_000);
/// P-3 for faults that keep happening.
const SLOWER: f64 = 1.10;
/// Beyond the capacity by so much is overshoot.
const OVER: f64 = 1.05;
const SLOT: Duration = Duration::from_millis(60);
/// P-17: decisions beside a slow switch, over those without.
const AS_QUICK: f64 = 1.10;
const TRIES: usize = 3;

/// Two rings that meet at host 0, where every member of one waits for the other.
fn meeting(name: &str, iterations: u64) -> (RunPlan, Vec<Placement>) {
    let fabric = FabricSpec::star(3, RATE, queue(RATE));
    let job = |id: &str| JobPlan {
        iterations,
        ..ring(id, 2, fabric.payload(RATE), Nanos::from_millis(150), Nanos::from_millis(100))
    };
    let jobs = vec![job("a"), job("b")];
    let place = |workers: &[usize]| Placement { workers: workers.into(), servers: Vec::new() };
    // In different places on the host that they share: a member's port goes by its place.
    let places = vec![place(&[0, 1]), place(&[2, 0])];
    (RunPlan { name: name.into(), fabric, jobs, ..RunPlan::default() }, places)
}

/// Mean iteration of all jobs of a plan under a policy, s.
fn iteration(ground: &Ground<'_>, plan: &RunPlan, places: &[Placement], policy: &Policy) -> Result<f64, Unrun> {
    let bench = ground.bench(&plan.name)?;
    let run = bench.run(plan, &mut FixedQueue::new(places.to_vec()), policy, "run")?;
    let all: Vec<f64> = run.jobs.iter().map(|job| job.figures.iteration_s).collect();
    Ok(sluice_report::stats::mean(&all))
}

/// C6: the switch is killed or told to end every two seconds.
/// Promises: P-3, P-16
pub fn restarts(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let seconds = ground.core_sized(30, 16, 8);
    let iterations = seconds * 1000 / 320;
    let (mut plan, places) = meeting("restarts", iterations);
    let plain = iteration(ground, &plan, &places, &Policy::Fair(Some("cubic".into())))?;
    let switch = NodeIx(plan.fabric.hosts.len());
    let fault = |turn: u64| Fault {
        at: Nanos(EVERY.0 * (turn + 1)),
        kind: FaultKind::SwitchRestart,
        target: switch,
        lasts: Some(Nanos::from_millis(300)),
        slots: 0.0,
        before: turn,
    };
    plan.faults = (0..seconds / 2).map(fault).collect();
    let stormy = iteration(ground, &plan, &places, &sluice())?;
    let mut figures = vec![
        Figure::at_most(
            "mean iteration while the switch is killed every 2 s, over plain TCP",
            stormy / plain,
            Unit::Ratio,
            SLOWER,
        )
        .noted(format!("{:.0} ms, plain {:.0} ms", stormy * 1e3, plain * 1e3)),
    ];
    figures.extend(overshoot(ground, seconds)?);
    Ok(figures)
}

/// What the switch's table has of its link to host 0 in the present slot, as a part of what that carries. `None`: it does not answer.
/// The hosts' own words would not do: each is up to a quarter of a second old, and rounds are hardly longer.
fn promised(live: &Live) -> Option<f64> {
    let text = live.daemons.get_of_switch(&live.fabric, 0, "/api/v1/snapshot")?;
    let seen: HolderSnapshot = serde_json::from_str(&text).ok()?;
    let link = seen.links.iter().find(|link| link.to == "h0")?;
    Some(link.next_bps.first().copied().unwrap_or(0) as f64 / link.capacity_bps.max(1) as f64)
}

/// How much is promised while a switch restarts again and again. It is shown and has no bar: what P-10 allows holds of a slot's
/// begin and of many runs together, and a look from outside is at any moment, also between two words of hosts that hand over.
fn overshoot(ground: &Ground<'_>, seconds: u64) -> Result<Vec<Figure>, Unrun> {
    let (mut plan, places) = meeting("overshoot", 1_000_000);
    plan.learned_routes = true;
    let bench = ground.bench(&plan.name)?;
    let [first, second] = &places[..] else { return Err(RunError::Plan("two jobs".into()).into()) };
    let mut live = Live::start(&bench, &plan, first, &sluice(), 50)?;
    live.start_beside(&bench, &plan, 1, second)?;
    live.run_for(Duration::from_secs(3))?;
    let (mut seen, mut over, mut most) = (0_usize, 0_usize, 0.0_f64);
    let mut last_up = Instant::now();
    let mut turn = 0;
    let (began, mut next) = (Instant::now(), Instant::now() + Duration::from_millis(EVERY.0 / 1_000_000));
    while began.elapsed() < Duration::from_secs(seconds) {
        if Instant::now() >= next {
            // By turns: without a chance to say anything, and in order.
            if turn % 2 == 0 {
                live.daemons.kill_switch(0);
            } else {
                live.daemons.end_switch(0)?;
            }
            live.run_for(Duration::from_millis(100))?;
            live.daemons.start_switch_again(&live.fabric, 0)?;
            (turn, last_up, next) = (turn + 1, Instant::now(), next + Duration::from_millis(EVERY.0 / 1_000_000));
        }
        // Counted from two slots after the fault has ended; until hosts are back they do not see each other.
        if last_up.elapsed() > SLOT * 2
            && let Some(part) = promised(&live)
        {
            seen += 1;
            over += usize::from(part > OVER);
            most = most.max(part);
        }
        live.run_for(SLOT)?;
    }
    let part = over as f64 / seen.max(1) as f64;
    Ok(vec![
        Figure::at_least("switch restarts, by kill and in order", turn as f64, Unit::Count, (seconds / 2 - 1) as f64),
        Figure::at_least("looks at the switch's table", seen as f64, Unit::Count, 4.0 * seconds as f64),
        Figure::shown("part of looks at which a link is promised above its capacity by 5 %", part, Unit::Ratio)
            .noted(format!("{over} of {seen} looks, from two slots after each restart")),
        Figure::shown("most that was promised, over the capacity", most, Unit::Ratio),
    ])
}

/// Four hosts behind two switches: what crosses both is announced to both.
fn two_switches(rate: Rate) -> FabricSpec {
    let queue = queue(rate);
    let cable = |a: &str, b: &str| Cable::plain(a, b, rate, queue);
    FabricSpec {
        hosts: (0..4).map(|i| format!("h{i}")).collect(),
        switches: vec!["s0".into(), "s1".into()],
        cables: vec![cable("h0", "s0"), cable("h1", "s0"), cable("h2", "s1"), cable("h3", "s1"), cable("s0", "s1")],
        ..FabricSpec::default()
    }
}

/// What was observed between two looks.
pub fn between(before: &Histogram, after: &Histogram) -> Histogram {
    let counts = after.counts.iter().zip(&before.counts).map(|(after, before)| after.saturating_sub(*before)).collect();
    Histogram { bounds: after.bounds.clone(), counts, sum: after.sum - before.sum }
}

/// Where so large a part of the observations ends, ms, evenly spread inside a bucket.
pub fn within(histogram: &Histogram, part: f64) -> f64 {
    let wanted = histogram.count() as f64 * part;
    let (mut seen, mut low) = (0.0, 0.0);
    for (count, high) in histogram.counts.iter().zip(histogram.bounds.iter().chain(histogram.bounds.last())) {
        let count = *count as f64;
        if seen + count >= wanted && count > 0.0 {
            return (low + (high - low) * (wanted - seen) / count) * 1e3;
        }
        (seen, low) = (seen + count, *high);
    }
    low * 1e3
}

/// What a daemon observed of its decisions and of being late at a slot's edge, over some time.
#[derive(Clone, Debug)]
pub struct Deciding {
    decisions: Histogram,
    lateness: Histogram,
}

impl Deciding {
    /// p99 of both, ms.
    pub fn p99(&self) -> [f64; 2] {
        [&self.decisions, &self.lateness].map(|histogram| within(histogram, 0.99))
    }

    /// With what was observed at another time.
    fn with(self, other: &Deciding) -> Deciding {
        Deciding {
            decisions: together(&self.decisions, &other.decisions),
            lateness: together(&self.lateness, &other.lateness),
        }
    }
}

/// What was observed at two times, as one.
fn together(one: &Histogram, other: &Histogram) -> Histogram {
    let counts = one.counts.iter().zip(&other.counts).map(|(one, other)| one + other).collect();
    Histogram { bounds: one.bounds.clone(), counts, sum: one.sum + other.sum }
}

/// What host 0's daemon observes while the job runs for so long.
///
/// # Errors
/// The daemon does not answer, or the job failed.
pub fn deciding(stage: &mut Stage, time: Duration) -> Result<Deciding, RunError> {
    let gone = || RunError::Plan("the daemon of h0 does not answer".into());
    let before = stage.snapshot(0).ok_or_else(gone)?.counters;
    stage.live.run_for(time)?;
    let after = stage.snapshot(0).ok_or_else(gone)?.counters;
    let decisions = between(&before.decision_s, &after.decision_s);
    Ok(Deciding { decisions, lateness: between(&before.lateness_s, &after.lateness_s) })
}

/// What one way of being slow was seen to cost.
#[derive(Clone, Debug)]
struct Compared {
    slow: [f64; 2],
    /// Of the turns without, the odd ones together and the even ones: what they differ by is the machine's.
    quick: [[f64; 2]; 2],
}

impl Compared {
    /// By turns, a quick one first and last; half of those without before each with, so that what else the machine does falls
    /// on both.
    fn take(
        stage: &mut Stage,
        turns: usize,
        time: Duration,
        slows: &impl Fn(&mut Stage, bool) -> Result<(), Unrun>,
    ) -> Result<Compared, Unrun> {
        let first = deciding(stage, time)?;
        let mut quick = [Some(first), None];
        let mut slow: Option<Deciding> = None;
        for turn in 0..turns {
            slows(stage, true)?;
            let seen = deciding(stage, time)?;
            slow = Some(slow.map_or(seen.clone(), |before| before.with(&seen)));
            slows(stage, false)?;
            let seen = deciding(stage, time)?;
            let half = &mut quick[(turn + 1) % 2];
            *half = Some(half.take().map_or(seen.clone(), |before| before.with(&seen)));
        }
        let p99 = |seen: &Option<Deciding>| seen.as_ref().map_or([f64::NAN; 2], Deciding::p99);
        Ok(Compared { slow: p99(&slow), quick: [p99(&quick[0]), p99(&quick[1])] })
    }

    /// Decisions, or lateness, over the slower half of those without.
    fn ratio(&self, which: usize) -> f64 {
        self.slow[which] / self.quick[0][which].max(self.quick[1][which]).max(1e-9)
    }
}

/// C7: one switch is in trouble; the decisions of a host that talks to both are as quick as before.
/// Promises: P-17
pub fn slow(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let setting = Setting::of("slow-switch", 12, RATE);
    let mut stage = ground.stage_with(&setting, |plan| plan.fabric = two_switches(RATE))?;
    let to = SocketAddrV4::new(stage.live.fabric.management_address, 9604);
    let proxy = Proxy::start(&stage.live.fabric.hosts[0].ns, std::net::Ipv4Addr::LOCALHOST, to)?;
    also(&stage.dir, "h0", &format!("[[switches]]\nname = \"s1\"\naddress = \"{}\"\n", proxy.address))?;
    stage.live.daemons.end(0)?;
    stage.restart(0)?;
    stage.captured()?;
    let both = |seen: &sluice_wire::snapshot::Snapshot| {
        seen.switches.len() >= 2 && seen.switches.iter().all(|switch| switch.view == View::Fresh)
    };
    if stage.until(0, Duration::from_secs(15), both)?.is_none() {
        return Err(RunError::Plan("both switches are not heard before one is slow".into()).into());
    }
    let time = Duration::from_secs(ground.sized(6, 2));
    let mut figures = Vec::new();
    for (what, way) in
        [("answers after 5 s", Way::Late), ("reads nothing", Way::Unread), ("a byte a second", Way::Trickle)]
    {
        let slows = |stage: &mut Stage, slow: bool| -> Result<(), Unrun> {
            match (slow, way) {
                (false, _) => proxy.set(Way::Open),
                (true, Way::Late) => proxy.delay(Duration::from_secs(5)),
                (true, way) => proxy.set(way),
            }
            if !slow {
                stage.until(0, Duration::from_secs(15), both)?;
            }
            Ok(())
        };
        // A decision takes a fraction of a millisecond, and of a few hundred the slowest three say what the machine did.
        let mut tries = Vec::new();
        while tries.len() < TRIES && tries.last().is_none_or(|last: &Compared| last.ratio(0) > AS_QUICK) {
            tries.push(Compared::take(&mut stage, ground.sized(3, 1), time, &slows)?);
        }
        let Some(last) = tries.last() else { continue };
        let said =
            |of: &Compared| format!("{:.3} ms, without {:.3} and {:.3} ms", of.slow[0], of.quick[0][0], of.quick[1][0]);
        let said: Vec<String> = tries.iter().map(said).collect();
        figures.push(
            Figure::at_most(
                format!("{what}: p99 of a decision, over that without"),
                last.ratio(0),
                Unit::Ratio,
                AS_QUICK,
            )
            .noted(format!("by turns, without twice; tries: {}", said.join("; "))),
        );
        figures.push(
            Figure::shown(
                format!("{what}: p99 of being late at an edge, over that without"),
                last.ratio(1),
                Unit::Ratio,
            )
            .noted(format!("{:.2} ms, without {:.2} and {:.2} ms", last.slow[1], last.quick[0][1], last.quick[1][1])),
        );
    }
    figures.push(Figure::at_least("connections through the relay", proxy.accepted() as f64, Unit::Count, 1.0));
    let healthy = stage.until(0, Duration::from_secs(5), |seen| {
        seen.switches.iter().any(|switch| switch.name == "s0" && switch.view == View::Fresh)
    })?;
    figures.push(Figure::holds("the healthy switch is fresh all along", healthy.is_some()));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_inside_its_bucket() {
        let histogram = Histogram { bounds: vec![0.001, 0.002], counts: vec![50, 50, 0], sum: 0.0 };
        assert!((within(&histogram, 0.5) - 1.0).abs() < 1e-9, "{}", within(&histogram, 0.5));
        assert!((within(&histogram, 0.75) - 1.5).abs() < 1e-9);
        let later = Histogram { bounds: vec![0.001, 0.002], counts: vec![50, 60, 0], sum: 0.0 };
        assert_eq!(between(&histogram, &later).counts, [0, 10, 0]);
        assert_eq!(within(&Histogram::default(), 0.99), 0.0);
    }
}
