//! What a case may say: every number in its range, and every host, holder and flow that it names is there.
//!
//! Ranges are those in which a run comes to an end and no time overflows; what a seed decides lies well inside.

use std::fmt::{Arguments, Display};
use std::ops::RangeInclusive;

use crate::options::{Broken, Core, JobOptions, Limits, Mode, Options};
use crate::plan::{Fate, Faults, Number};
use crate::setup::edges;

/// A number that may not be what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The path to it, by names and places.
    pub field: String,
    /// What it is.
    pub seen: String,
    /// What it may be.
    pub allowed: String,
}

/// Hosts of a cluster.
const HOSTS: RangeInclusive<usize> = 2..=64;
/// Jobs of a cluster: their number is a part of their flows' ids.
const JOBS: RangeInclusive<usize> = 1..=64;
/// Slots of a time at most.
const SLOTS: u64 = 1_000_000;
/// How long a fault lasts, and how far a clock is set or wrong, at most, in slots.
const FAULT_SLOTS: i64 = 10_000;
/// Faults that happen at a time: clocks that are set back so often stay above zero.
const TIMED: RangeInclusive<usize> = 0..=10_000;
/// The first slot: before and behind the wrap of slot numbers, and so far from zero that no clock can be set back to it.
const FIRST_SLOT: RangeInclusive<u64> = 1 << 30..=1 << 35;

/// Is all of it allowed?
pub fn check(options: &Options, faults: &Faults) -> Result<(), Wrong> {
    of_cluster(options)?;
    of_chance(options)?;
    within(format_args!("options.jobs, how many"), options.jobs.len(), JOBS)?;
    for (n, job) in options.jobs.iter().enumerate() {
        of_job(n, job, options.hosts)?;
    }
    if let Some(lasting) = options.lasting {
        within(format_args!("options.lasting.host"), lasting.host, 0..=options.hosts - 1)?;
    }
    match (&options.core, options.mode) {
        (None, Mode::Safety) => {}
        (Some(core), Mode::Liveness) => of_core(core, options)?,
        (None, Mode::Liveness) => return Err(wrong("options.core", "null", "a core, in mode liveness")),
        (Some(_), Mode::Safety) => return Err(wrong("options.core", "a core", "null, in mode safety")),
    }
    of_faults(options, faults)
}

fn of_cluster(options: &Options) -> Result<(), Wrong> {
    let Limits { rows, hosts, promises } = options.limits;
    within(format_args!("options.slot_ms"), options.slot_ms, 5..=200)?;
    within(format_args!("options.horizon"), options.horizon, 4..=32)?;
    within(format_args!("options.hosts"), options.hosts, HOSTS)?;
    within(format_args!("options.leaves"), options.leaves, 0..=*HOSTS.end())?;
    within(format_args!("options.capacity_mbps"), options.capacity_mbps, 1..=1_000_000)?;
    within(format_args!("options.uplink_percent"), options.uplink_percent, 1..=10_000)?;
    within(format_args!("options.planes"), options.planes, 1..=if options.leaves > 1 { 2 } else { 1 })?;
    within(format_args!("options.first_slot"), options.first_slot, FIRST_SLOT)?;
    within(format_args!("options.fair_floor"), options.fair_floor, 0..=100)?;
    within(format_args!("options.coast_ms"), options.coast_ms, 0..=10_000)?;
    within(format_args!("options.limits.rows"), rows, 1..=4096)?;
    within(format_args!("options.limits.hosts"), hosts, 1..=4096)?;
    within(format_args!("options.limits.promises"), promises, 1..=8192)?;
    within(format_args!("options.fault_slots"), options.fault_slots, 1..=SLOTS)?;
    within(format_args!("options.calm_slots"), options.calm_slots, 1..=SLOTS)
}

/// How much there is of what: only a run that is drawn anew looks at most of it.
fn of_chance(options: &Options) -> Result<(), Wrong> {
    let (network, amounts) = (options.network, options.amounts);
    within(format_args!("options.network.loss"), network.loss, 0..=100)?;
    within(format_args!("options.network.copies"), network.copies, 0..=100)?;
    within(format_args!("options.network.jitter"), network.jitter, 0..=10_000)?;
    within(format_args!("options.drift_ppm"), options.drift_ppm, 0..=10_000)?;
    within(format_args!("options.amounts.other_version"), amounts.other_version, 0..=100)?;
    within(format_args!("options.amounts.late_events"), amounts.late_events, 0..=100)?;
    within(format_args!("options.amounts.step_tenths"), amounts.step_tenths, 0..=1_000)?;
    let counts = [
        ("cuts", amounts.cuts),
        ("resets", amounts.resets),
        ("crashes", amounts.crashes),
        ("stops", amounts.stops),
        ("hangs", amounts.hangs),
        ("slow", amounts.slow),
        ("holder_restarts", amounts.holder_restarts),
        ("holder_hangs", amounts.holder_hangs),
        ("steps", amounts.steps),
        ("pauses", amounts.pauses),
        ("reconnects", amounts.reconnects),
        ("redraws", amounts.redraws),
    ];
    counts.into_iter().try_for_each(|(name, count)| within(format_args!("options.amounts.{name}"), count, 0..=10_000))
}

fn of_job(n: usize, job: &JobOptions, hosts: usize) -> Result<(), Wrong> {
    let members = format!("options.jobs[{n}].members");
    within(format_args!("{members}, how many"), job.members.len(), 2..=hosts)?;
    all_different(&members, &job.members, hosts)?;
    within(format_args!("options.jobs[{n}].tenths"), job.tenths, 1..=10_000)?;
    within(format_args!("options.jobs[{n}].compute_tenths"), job.compute_tenths, 0..=10_000)?;
    within(format_args!("options.jobs[{n}].claim_percent"), job.claim_percent, 1..=10_000)?;
    within(format_args!("options.jobs[{n}].born"), job.born, 0..=SLOTS)?;
    within(format_args!("options.jobs[{n}].dies"), job.dies.unwrap_or(0), 0..=SLOTS)
}

fn of_core(core: &Core, options: &Options) -> Result<(), Wrong> {
    within(format_args!("options.core.hosts, how many"), core.hosts.len(), 2..=options.hosts)?;
    all_different("options.core.hosts", &core.hosts, options.hosts)?;
    within(format_args!("options.core.leaves, how many"), core.leaves.len(), 0..=options.leaves)?;
    all_different("options.core.leaves", &core.leaves, options.leaves)?;
    let (others, leaves) = (options.hosts - core.hosts.len(), options.leaves - core.leaves.len());
    within(format_args!("options.core.others, how many"), core.others.len(), others..=others)?;
    within(format_args!("options.core.other_leaves, how many"), core.other_leaves.len(), leaves..=leaves)?;
    for (name, all) in [("others", &core.others), ("other_leaves", &core.other_leaves)] {
        for (at, how) in all.iter().enumerate() {
            match *how {
                Broken::Dead | Broken::Flapping | Broken::Mute(_) => {}
                Broken::Clock(slots) => {
                    within(format_args!("options.core.{name}[{at}].Clock"), slots, -FAULT_SLOTS..=FAULT_SLOTS)?;
                }
                Broken::Slow(tenths) => within(format_args!("options.core.{name}[{at}].Slow"), tenths, 0..=1_000)?,
            }
        }
    }
    Ok(())
}

fn of_faults(options: &Options, faults: &Faults) -> Result<(), Wrong> {
    let holders = if options.leaves == 0 { options.hosts } else { options.leaves };
    let flows: usize = options.jobs.iter().map(|job| edges(job).len()).sum();
    let slot = options.slot_ms * 1_000_000;
    let step = FAULT_SLOTS * slot as i64;
    let longest = step.unsigned_abs();
    within(format_args!("faults.timed, how many"), faults.timed.len(), TIMED)?;
    for (n, fault) in faults.timed.iter().enumerate() {
        within(format_args!("faults.timed[{n}].at"), fault.at, 0..=SLOTS * slot)?;
        for (name, number) in fault.what.numbers() {
            let field = format_args!("faults.timed[{n}].what.{name}");
            match number {
                Number::Host(host) => within(field, host, 0..=options.hosts - 1)?,
                Number::Holder(holder) => within(field, holder, 0..=holders - 1)?,
                Number::Flow(flow) => within(field, flow, 0..=flows - 1)?,
                Number::Time(time) => within(field, time, 0..=longest)?,
                Number::Step(by) => within(field, by, -step..=step)?,
            }
        }
    }
    for (n, fault) in faults.messages.iter().enumerate() {
        within(format_args!("faults.messages[{n}].host"), fault.host, 0..=options.hosts - 1)?;
        within(format_args!("faults.messages[{n}].holder"), fault.holder, 0..=holders - 1)?;
        let late = match fault.fate {
            Fate::Lost => 0,
            Fate::Late(by) => by,
            Fate::Twice([first, second]) => first.max(second),
        };
        within(format_args!("faults.messages[{n}].fate"), late, 0..=longest)?;
    }
    Ok(())
}

/// Numbers below `end`, each once.
fn all_different(field: &str, numbers: &[usize], end: usize) -> Result<(), Wrong> {
    for (at, &number) in numbers.iter().enumerate() {
        within(format_args!("{field}[{at}]"), number, 0..=end.saturating_sub(1))?;
        if numbers.iter().take(at).any(|earlier| *earlier == number) {
            return Err(wrong(&format!("{field}[{at}]"), &number.to_string(), "each once"));
        }
    }
    Ok(())
}

fn within<T: PartialOrd + Display>(field: Arguments<'_>, seen: T, allowed: RangeInclusive<T>) -> Result<(), Wrong> {
    if allowed.contains(&seen) {
        return Ok(());
    }
    let (least, most) = (allowed.start(), allowed.end());
    let allowed = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Err(wrong(&field.to_string(), &seen.to_string(), &allowed))
}

fn wrong(field: &str, seen: &str, allowed: &str) -> Wrong {
    Wrong { field: field.to_owned(), seen: seen.to_owned(), allowed: allowed.to_owned() }
}
