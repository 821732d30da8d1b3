//! C13, C14 and C18: more flows than rows, flows whose peers vanished, orders beyond the bottleneck, and an application that
//! changes its own sockets.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_wire::snapshot::{ConditionCode, FlowState, Snapshot};

use crate::chaos::bare::Bare;
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Size, Stage, Unrun, ring, sluice};
use crate::chaos::rows::environment::ways;
use crate::chaos::streams::{PORT, Streams, TOLD, allow_descriptors, control};
use crate::experiment::live::{Iteration, Live};
use crate::fabric::{FabricSpec, NetNs};
use crate::job::Arch;
use crate::run::{FixedQueue, JobPlan, KillOnDrop, Placement, Policy, RunError, RunPlan};
use crate::sys;

const RATE: Rate = Rate::mbps(500);
/// The second user.
const NOBODY: u32 = 65_534;
/// For one user's rows to be in use: one walk over the descriptors of thousands of sockets is followed by a hundred times its
/// length without one.
const TAKEN: Duration = Duration::from_secs(120);
/// A flow that found no free row in the kernel, since the one whose place it has had not left its row yet, asks again after
/// five seconds.
const GIVEN: Duration = Duration::from_secs(10);
/// A busy daemon answers within this.
const ANSWERS: Duration = Duration::from_secs(5);
/// What C14's path carries, of which its daemons believe twice as much.
const NARROW: Rate = Rate::mbps(100);
/// Flows that share it. Floors of 10 Mbit/s each are less than it carries together.
const FLOWS: usize = 8;
/// Segments that cubic sends again on it. With fewer the queue was not full more than once, and a ratio says nothing.
const FILLED: f64 = 20.0;
/// What flows must be ordered together, over what their path carries: the row is of orders that are too high.
const ORDERED: f64 = 1.5;
/// For all rounds of C14, some ten seconds under cubic.
const TWICE: Duration = Duration::from_secs(120);
/// A ceiling that an application chooses, bytes/s.
const CEILING: u64 = 5_000_000;

/// Flows of the second user, each of a process of its own.
struct Others {
    /// Their far end.
    sink: Streams,
    _processes: Vec<KillOnDrop>,
}

impl Others {
    fn start(from: &NetNs, to: &NetNs, address: Ipv4Addr, count: usize) -> Result<Others, Unrun> {
        allow_descriptors(2 * count as u64 + 64)?;
        let sink = Streams::open(from, to, address, PORT + 1, 0)?;
        let start = |_| -> Result<KillOnDrop, Unrun> {
            let mut bash = Command::new("bash");
            bash.args(["-c", &format!("exec cat /dev/zero > /dev/tcp/{address}/{}", PORT + 1)]);
            bash.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stderr(Stdio::null());
            Ok(KillOnDrop(from.spawn(bash, None)?))
        };
        let processes = (0..count).map(start).collect::<Result<_, Unrun>>()?;
        sink.accepted(count)?;
        Ok(Others { sink, _processes: processes })
    }
}

/// The middle one; of an even number the larger of the two in the middle. Of none `usize::MAX`: nothing was measured.
fn median(counts: &[usize]) -> usize {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(usize::MAX)
}

/// C13: every row taken and 200 flows more; then the peers of many vanish.
/// Promises: P-28
pub fn full(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let (rows, more, orphans) = ground.sized((4096, 200, 500), (64, 16, 20));
    let told = format!(
        "[capture]\nports = [\"{PORT}\", \"{}\"]\nthreshold_bytes = 0\n[enforce]\nmax_flows = {rows}\nfloor_mbps = 1.0\n[timeline]\nseconds = 0\n",
        PORT + 1
    );
    let mut bare = Bare::start(ground, "full", 4, RATE, &told)?;
    // What so many flows do to each other without Sluice is not because of it: first they are plain.
    bare.daemons.end(0)?;
    let to = |host: usize| (&bare.fabric.hosts[host].ns, bare.fabric.hosts[host].address);
    let from = &bare.fabric.hosts[0].ns;
    let ((near, near_address), (far, far_address)) = (to(1), to(2));
    // The last eighth is for users with less than an equal share: two users fill the table, if the one who may have less
    // comes second. What he lacks then the first one gives up. The orphans-to-be come first, so that they have rows.
    let share = rows * 7 / 8;
    let lost = Streams::open(from, far, far_address, PORT, orphans)?;
    let rest = Streams::open(from, near, near_address, PORT, share + more / 2 - orphans)?;
    // A process speaks only for sockets of its own user, so the second one's have processes of theirs.
    let others = || Others::start(from, near, near_address, rows - share + more / 2);
    let all = rows + more;
    let (time, windows) = (Duration::from_secs(ground.sized(10, 3)), ground.sized(5, 1));
    let acked = || [lost.acked(), rest.acked()].concat();
    // Of the first user's flows, those on which nothing is acknowledged for so long, several times one after the other:
    // where floors are more than there is, a few wait for ever longer retransmission time-outs, and one count is chance.
    let still = || -> Vec<usize> {
        let mut first = acked();
        let window = |_| {
            std::thread::sleep(time);
            let second = acked();
            let still = first.iter().zip(&second).filter(|(first, second)| second <= first).count();
            first = second;
            still
        };
        (0..windows).map(window).collect()
    };
    let plain = others()?;
    // As settled as they are when they are looked at again: time-outs have doubled as often.
    std::thread::sleep(GIVEN);
    let without = still();
    drop(plain);
    bare.daemons.restart(&bare.fabric, 0)?;
    let first = bare.until(TAKEN, |bare| bare.used() * 100 >= share * 99);
    if first.is_none() && bare.lacks() {
        return Err(Unrun::Lacks("nothing is enforced here".into()));
    }
    let other = others()?;
    let taken = bare.until(TAKEN, |bare| bare.used() * 100 >= rows * 99);
    std::thread::sleep(GIVEN);
    let (used, moved) = (bare.used(), other.sink.received());
    let still = still();
    let moved = other.sink.received() - moved;
    // A daemon that has no time for anything but its flows may answer at the second time only.
    let full = |seen: &Snapshot| seen.conditions.iter().any(|of| of.code == ConditionCode::FlowTableFull);
    let told = bare.until(ANSWERS, |bare| bare.snapshot().is_some_and(|seen| full(&seen))).is_some();
    let conditions = bare.snapshot().map(|seen| seen.conditions.iter().map(|of| of.code).collect::<Vec<_>>());
    let mut figures = vec![
        Figure::at_most("rows in use", used as f64, Unit::Count, rows as f64),
        Figure::at_least("rows in use, of two users", used as f64, Unit::Count, rows as f64 * 0.99).noted(format!(
            "since the daemon's start: {}",
            bare.counted(&["released_flows", "loss_guard", "table_full", "realtime", "slots_total", "slots_missed"])
        )),
        Figure::at_least(
            format!("flows without a row, of {all}"),
            all.saturating_sub(used) as f64,
            Unit::Count,
            more as f64,
        ),
        Figure::shown(
            "until the first user's rows, but one of a hundred, are in use",
            first.unwrap_or(f64::INFINITY) / 1e3,
            Unit::Seconds,
        ),
        Figure::shown(
            "until all rows but one of a hundred are in use, after the second user's flows have come",
            taken.unwrap_or(f64::INFINITY) / 1e3,
            Unit::Seconds,
        ),
        Figure::at_most(
            format!("flows that did not move within {time:?}, median of {windows}"),
            median(&still) as f64,
            Unit::Count,
            without.iter().copied().max().unwrap_or_default() as f64,
        )
        .noted(format!(
            "one after the other: {still:?}; the same flows under plain TCP, of which the most is the bar: {without:?}"
        )),
        Figure::at_least("bytes that the second user's flows moved", moved as f64, Unit::Count, 1.0),
        Figure::holds("condition flow-table-full holds", told)
            .noted(conditions.map_or("no answer".to_owned(), |all| format!("{all:?}"))),
    ];
    // A host is gone without a word: its cable, both ways. With its interface the kernel forgets ways and neighbours.
    let back = ways(far)?;
    bare.fabric.set_link("h2", "eth0", false)?;
    let (before, patience) = (bare.used(), Duration::from_secs(75));
    if ground.size == Size::Full {
        // They are looked for because fewer than a tenth of all are free. What others do not take of them stays free.
        let free = bare.until(patience, |bare| bare.used() + orphans <= before + more);
        let late = free.map_or(f64::INFINITY, |ms| ms / 1e3);
        figures.push(
            Figure::at_most(format!("until the rows of {orphans} orphans are free"), late, Unit::Seconds, 62.0)
                .noted("60 s of silence, and a look"),
        );
        let moved = rest.received();
        std::thread::sleep(Duration::from_secs(2));
        figures.push(Figure::at_least(
            "bytes that others moved afterwards",
            (rest.received() - moved) as f64,
            Unit::Count,
            1.0,
        ));
        figures.push(Figure::shown("rows in use before and after", before as f64 - bare.used() as f64, Unit::Count));
    }
    bare.fabric.set_link("h2", "eth0", true)?;
    far.ip(&back)?;
    drop((lost, rest, other));
    let empty = bare.until(Duration::from_secs(20), |bare| bare.used() == 0);
    figures.push(Figure::exactly(
        "rows in use once all flows are closed",
        if empty.is_some() { 0 } else { bare.used() },
        0,
    ));
    let _ = bare.daemons.stop();
    Ok(figures)
}

/// What C14 measures of one run.
struct Sent {
    /// Segments that were sent again.
    retransmits: u64,
    /// Mean iteration, s.
    iteration_s: f64,
}

/// Flows from one host to another by a switch whose port carries 100 Mbit/s and holds 250 kB, and as many back. Their
/// own ports are four times as fast: a host whose own port is the narrowest place keeps back what that does not carry,
/// and a flow of its loses nothing, whatever it is paced at. Eight flows leave slow start with some 130 segments under
/// way, and 165 fill the queue.
fn bottleneck(ground: &Ground<'_>) -> (RunPlan, Placement) {
    let mut fabric = FabricSpec::star(2, NARROW, Bytes(250_000));
    fabric.cables.iter_mut().for_each(|cable| cable.ab = NARROW.times(4.0));
    let round = ring("twice", 1, NARROW, Nanos::from_millis(300), Nanos::ZERO);
    let job = JobPlan { arch: Arch::Ps, servers: FLOWS, iterations: ground.sized(30, 8), ..round };
    // The brain offers twice what a flow was seen to take, and not the usual quarter more: or it would learn after some
    // slots what the path carries, and orders would be twice that only until then.
    let schedule = "probe_gain = 2.0\n".into();
    let plan = RunPlan { name: "twice".into(), fabric, jobs: vec![job], reserve: 0.0, schedule, ..RunPlan::default() };
    (plan, Placement { workers: vec![0], servers: vec![1; FLOWS] })
}

/// The same flows without Sluice.
fn under_cubic(ground: &Ground<'_>) -> Result<Sent, Unrun> {
    let (plan, place) = bottleneck(ground);
    let bench = ground.bench("twice-cubic")?;
    let run = bench.run(&plan, &mut FixedQueue::new(vec![place]), &Policy::Fair(Some("cubic".into())), "run")?;
    let job = run.jobs.first().ok_or_else(|| RunError::Plan("no job has ended".into()))?;
    Ok(Sent { retransmits: job.retransmits, iteration_s: job.figures.iteration_s })
}

/// The same under daemons and a switch that believe the narrow ports to carry twice what they do, and the most that
/// host 0's flows were ordered together, over what their path carries.
fn believed_twice(ground: &Ground<'_>) -> Result<(Sent, f64), Unrun> {
    let (plan, place) = bottleneck(ground);
    let bench = ground.bench("twice")?;
    let dir = bench.dir.join("live");
    let double = |spec: &mut FabricSpec| spec.cables.iter_mut().for_each(|cable| cable.ba = cable.ba.times(2.0));
    let live = Live::start_believing(&bench, &plan, &place, &sluice(), 100, double)?;
    let mut stage = Stage { live, plan, dir };
    let (began, mut most) = (Instant::now(), 0.0_f64);
    while !stage.live.is_done() {
        if began.elapsed() > TWICE {
            return Err(RunError::Plan(format!("the job's members were not done within {TWICE:?}")).into());
        }
        stage.live.run_for(Duration::from_millis(50))?;
        let seen = stage.snapshot(0).unwrap_or_default();
        let ordered: u64 = seen.flows.iter().filter_map(|flow| flow.ordered_bps).sum();
        most = most.max(ordered as f64 / NARROW.payload().0 as f64);
    }
    if most <= 0.0 && stage.holds(0, ConditionCode::EnforcementNone) {
        return Err(Unrun::Lacks("nothing is enforced here".into()));
    }
    let Live { retransmits, ref iterations, .. } = stage.live;
    Ok((Sent { retransmits, iteration_s: mean_s(iterations) }, most))
}

/// Mean iteration, s, as a run has it: all but the first, from the worker's begin to the last member's end. NaN: there
/// was one.
fn mean_s(iterations: &[Iteration]) -> f64 {
    let mine: Vec<&Iteration> = iterations.iter().filter(|iteration| iteration.rank == 0).collect();
    let Some((_, counted)) = mine.split_first() else { return f64::NAN };
    let began = counted.first().map_or(0, |iteration| iteration.began_ns);
    let ended = iterations.iter().map(|iteration| iteration.ended_ns).max().unwrap_or_default();
    // None of nothing is no mean.
    ended.saturating_sub(began) as f64 / 1e9 / if counted.is_empty() { f64::NAN } else { counted.len() as f64 }
}

/// C14: orders are twice what the path carries.
/// Promises: P-6
pub fn twice(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let cubic = under_cubic(ground)?;
    let (ours, ordered) = believed_twice(ground)?;
    let again = [&ours, &cubic].map(|sent| sent.retransmits as f64);
    let filled =
        if again[1] < FILLED { "cubic did not fill the queue, so there is nothing to compare with" } else { "" };
    Ok(vec![
        Figure::at_least("retransmits under cubic, with which the others are compared", again[1], Unit::Count, FILLED)
            .noted(filled),
        Figure::at_least(
            "most that flows were ordered together, over what their path carries",
            ordered,
            Unit::Ratio,
            ORDERED,
        ),
        Figure::at_most(
            "retransmits with orders of twice the bottleneck, over cubic's",
            again[0] / again[1],
            Unit::Ratio,
            5.0,
        )
        .noted(format!("{}, cubic {}", ours.retransmits, cubic.retransmits)),
        Figure::at_most("iteration over that under cubic", ours.iteration_s / cubic.iteration_s, Unit::Ratio, 1.10),
    ])
}

/// C18: the application chooses a congestion control and a ceiling of its own, again and again.
/// Promises: P-35
pub fn foreign(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let bare = Bare::start(ground, "foreign", 2, Rate::mbps(200), TOLD)?;
    let to = &bare.fabric.hosts[1];
    let streams = Streams::open(&bare.fabric.hosts[0].ns, &to.ns, to.address, PORT, 4)?;
    if bare.until(Duration::from_secs(20), |_| streams.managed() == 4).is_none() {
        let why = "flows on the port are not managed";
        return Err(if bare.lacks() { Unrun::Lacks(why.into()) } else { RunError::Plan(why.into()).into() });
    }
    let [first, second, ..] = &streams.sockets[..] else { return Err(RunError::Plan("four streams".into()).into()) };
    let (mut fights, mut turns) = (0, 0);
    let end = Instant::now() + Duration::from_secs(ground.sized(10, 3));
    while Instant::now() < end {
        let cubic = setsockopt(first, sockopt::TcpCongestion, &"cubic".into());
        cubic.map_err(|errno| RunError::io("choosing cubic")(errno.into()))?;
        let ceiling = setsockopt(second, sys::MaxPacing, &CEILING);
        ceiling.map_err(|errno| RunError::io("choosing a ceiling")(errno.into()))?;
        std::thread::sleep(Duration::from_millis(20));
        turns += 1;
        fights += usize::from(control(first) != "cubic");
        fights += usize::from(getsockopt(second, sys::MaxPacing) != Ok(CEILING));
    }
    std::thread::sleep(Duration::from_millis(500));
    let seen = bare.snapshot().ok_or_else(|| RunError::Plan("the daemon of h0 does not answer".into()))?;
    // What somebody else has taken over is no flow of its any more, and not on its list.
    let given_back = streams.sockets.len().saturating_sub(seen.flows_in(FlowState::Managed));
    let told = seen.conditions.iter().any(|condition| condition.code == ConditionCode::ForeignChange);
    let (before, began) = (streams.acked(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (after, passed) = (streams.acked(), began.elapsed().as_secs_f64());
    let moved = after.iter().zip(&before).filter(|(after, before)| after > before).count();
    let beneath = after[1].saturating_sub(before[1]) as f64 / passed / CEILING as f64;
    Ok(vec![
        Figure::exactly(format!("times that a setting of the application's was undone, of {turns} turns"), fights, 0),
        Figure::exactly("flows that the daemon let go of: the one whose congestion control is another", given_back, 1),
        Figure::at_most("rate of the one with a ceiling of its own, over that", beneath, Unit::Ratio, 1.05),
        Figure::holds("condition foreign-change holds", told),
        Figure::exactly("flows that moved afterwards", moved, 4),
        Figure::exactly(
            "the others, still managed",
            streams.sockets[2..].iter().filter(|s| control(s).starts_with("sluice")).count(),
            2,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_is_that_of_all_members_and_the_first_does_not_count() {
        let at = |rank, began_s: u64, ended_s: u64| Iteration {
            rank,
            began_ns: began_s * 1_000_000_000,
            ended_ns: ended_s * 1_000_000_000,
        };
        let all = [at(0, 0, 5), at(1, 0, 5), at(0, 5, 7), at(1, 5, 8), at(0, 8, 10), at(1, 8, 11)];
        assert!((mean_s(&all) - 3.0).abs() < 1e-9);
        assert!(mean_s(&all[..2]).is_nan() && mean_s(&[]).is_nan());
    }
}
