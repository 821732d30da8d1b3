//! C6 and C7: a switch that starts anew again and again, and one that is slow, deaf or miserly beside a healthy one.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use sluice_scenario::{Fault, FaultKind, NodeIx};
use sluice_schedule::{Nanos, Rate};
use sluice_wire::snapshot::holder::HolderSnapshot;
use sluice_wire::snapshot::{Snapshot, View};

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, also, ring, sluice, struck};
use crate::chaos::proxy::{Proxy, Way};
use crate::chaos::rows::deciding::{Deciding, shown};
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
/// There must be as many of them: a loop that waits for a switch decides less often, and what it decides may be quick.
const AS_MANY: f64 = 0.9;
/// Part of the looks at which the healthy switch may not be fresh, or as many as there are without a slow one.
const STALE: f64 = 0.01;
/// Part of the looks at which the slow one may be fresh: in the first slots of a turn it still is, and a look sees what was
/// shown a quarter of a second before.
const UNHARMED: f64 = 0.5;
const TRIES: usize = 3;
/// The switch that is well beside the one that is not.
const HEALTHY: &str = "s0";
const SLOW: &str = "s1";
/// Between two looks at what the host knows of both. It shows something new as often.
const LOOK: Duration = Duration::from_millis(250);

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

/// Mean iteration of all jobs of a plan under a policy, s, and what the run notes.
fn iteration(
    ground: &Ground<'_>,
    plan: &RunPlan,
    places: &[Placement],
    policy: &Policy,
) -> Result<(f64, Vec<String>), Unrun> {
    let bench = ground.bench(&plan.name)?;
    let run = bench.run(plan, &mut FixedQueue::new(places.to_vec()), policy, "run")?;
    let all: Vec<f64> = run.jobs.iter().map(|job| job.figures.iteration_s).collect();
    Ok((sluice_report::stats::mean(&all), run.notes))
}

/// C6: the switch is killed or told to end every two seconds.
/// Promises: P-3, P-16
pub fn restarts(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let seconds = ground.core_sized(30, 16, 8);
    let iterations = seconds * 1000 / 320;
    let (mut plan, places) = meeting("restarts", iterations);
    let (plain, _) = iteration(ground, &plan, &places, &Policy::Fair(Some("cubic".into())))?;
    let switch = NodeIx(plan.fabric.hosts.len());
    let fault = |turn: u64| Fault {
        at: Nanos(EVERY.0 * (turn + 1)),
        kind: FaultKind::SwitchRestart,
        target: switch,
        lasts: Some(Nanos::from_millis(300)),
        slots: 0.0,
        before: turn,
    };
    let turns = seconds / 2;
    plan.faults = (0..turns).map(fault).collect();
    let (stormy, notes) = iteration(ground, &plan, &places, &sluice())?;
    let mut figures = vec![
        Figure::at_most(
            "mean iteration while the switch is killed every 2 s, over plain TCP",
            stormy / plain,
            Unit::Ratio,
            SLOWER,
        )
        .noted(format!("{:.0} ms, plain {:.0} ms", stormy * 1e3, plain * 1e3)),
        // Whoever is done sooner has seen fewer of them.
        Figure::at_least(
            "times that the switch was killed meanwhile",
            struck(&notes, "switch-restart of s0") as f64,
            Unit::Count,
            (turns / 2) as f64,
        )
        .noted(format!("{turns} at most")),
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

/// Looks at what a host knows of the two switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Looks {
    all: usize,
    /// At which the healthy one was not fresh, or nothing was heard of it.
    stale: usize,
    /// At which the slow one was fresh.
    unharmed: usize,
}

impl Looks {
    fn look(&mut self, seen: Option<&Snapshot>) {
        let is_fresh = |name: &str| {
            let mut switches = seen.iter().flat_map(|seen| &seen.switches);
            switches.any(|switch| switch.name == name && switch.view == View::Fresh)
        };
        self.all += 1;
        self.stale += usize::from(!is_fresh(HEALTHY));
        self.unharmed += usize::from(is_fresh(SLOW));
    }

    fn and(self, other: Looks) -> Looks {
        Looks { all: self.all + other.all, stale: self.stale + other.stale, unharmed: self.unharmed + other.unharmed }
    }

    /// NaN: there was none.
    fn part(self, count: usize) -> f64 {
        count as f64 / self.all as f64
    }
}

/// What host 0's daemon observes in one turn, with looks at its switches all along.
fn turn(stage: &mut Stage, time: Duration, looks: &mut Looks) -> Result<Deciding, RunError> {
    let before = shown(stage)?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        stage.live.run_for(LOOK)?;
        looks.look(stage.snapshot(0).as_ref());
    }
    Ok(Deciding::between(&before, &shown(stage)?))
}

/// What one way of being slow was seen to cost.
#[derive(Clone, Debug)]
struct Compared {
    slow: [f64; 2],
    /// Of the turns without, the odd ones together and the even ones: what they differ by is the machine's.
    quick: [[f64; 2]; 2],
    /// Decisions at slots' edges in a second, over those without.
    decisions: f64,
    /// Looks in the slow turns.
    with: Looks,
    /// Looks in those without.
    without: Looks,
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
        let (mut with, mut without) = (Looks::default(), Looks::default());
        let first = turn(stage, time, &mut without)?;
        let mut quick = [Some(first), None];
        let mut slow: Option<Deciding> = None;
        for at in 0..turns {
            slows(stage, true)?;
            let seen = turn(stage, time, &mut with)?;
            slow = Some(slow.map_or(seen.clone(), |before| before.with(&seen)));
            slows(stage, false)?;
            let seen = turn(stage, time, &mut without)?;
            let half = &mut quick[(at + 1) % 2];
            *half = Some(half.take().map_or(seen.clone(), |before| before.with(&seen)));
        }
        let p99 = |seen: &Option<Deciding>| seen.as_ref().map_or([f64::NAN; 2], Deciding::p99);
        let each_second = |seen: &Option<Deciding>| seen.as_ref().map_or(f64::NAN, Deciding::each_second);
        let all_quick = quick.iter().flatten().cloned().reduce(|all, half| all.with(&half));
        let decisions = each_second(&slow) / each_second(&all_quick);
        Ok(Compared { slow: p99(&slow), quick: [p99(&quick[0]), p99(&quick[1])], decisions, with, without })
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
    let both =
        |seen: &Snapshot| seen.switches.len() >= 2 && seen.switches.iter().all(|switch| switch.view == View::Fresh);
    if stage.until(0, Duration::from_secs(15), both)?.is_none() {
        return Err(RunError::Plan("both switches are not heard before one is slow".into()).into());
    }
    let time = Duration::from_secs(ground.sized(6, 2));
    let mut figures = Vec::new();
    let (mut with, mut without) = (Looks::default(), Looks::default());
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
        with = tries.iter().fold(with, |all, one| all.and(one.with));
        without = tries.iter().fold(without, |all, one| all.and(one.without));
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
        figures.push(Figure::at_least(
            format!("{what}: decisions at slots' edges, over those without"),
            last.decisions,
            Unit::Ratio,
            AS_MANY,
        ));
        figures.push(Figure::at_most(
            format!("{what}: part of {} looks at which that switch is fresh", last.with.all),
            last.with.part(last.with.unharmed),
            Unit::Ratio,
            UNHARMED,
        ));
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
    let undisturbed = without.part(without.stale);
    figures.push(
        Figure::at_most(
            "part of looks in slow turns at which the healthy switch is not fresh",
            with.part(with.stale),
            Unit::Ratio,
            STALE.max(undisturbed),
        )
        .noted(format!("{} of {}, without {} of {}", with.stale, with.all, without.stale, without.all)),
    );
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use sluice_wire::snapshot::SwitchStatus;

    use super::*;

    fn seen(views: [View; 2]) -> Snapshot {
        let switch = |(name, view): (&str, View)| SwitchStatus { name: name.into(), view, ..SwitchStatus::default() };
        let switches = [(HEALTHY, views[0]), (SLOW, views[1])].map(switch).into();
        Snapshot { switches, ..Snapshot::default() }
    }

    #[test]
    fn a_switch_of_which_nothing_is_heard_is_not_fresh() {
        let mut looks = Looks::default();
        assert!(looks.part(looks.stale).is_nan());
        looks.look(None);
        looks.look(Some(&Snapshot::default()));
        looks.look(Some(&seen([View::Fresh, View::Holding])));
        looks.look(Some(&seen([View::Decaying, View::Fresh])));
        assert_eq!(looks, Looks { all: 4, stale: 3, unharmed: 1 });
        assert_eq!(looks.and(looks), Looks { all: 8, stale: 6, unharmed: 2 });
        assert!((looks.part(looks.stale) - 0.75).abs() < 1e-9);
    }
}
