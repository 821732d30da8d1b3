//! The search for a period among pauses: which fixed number of bytes lies between them again and again.
//!
//! A shorter period that divides the one found counts only if the pauses at its own boundaries are of the same kind: the
//! steps of a ring within an iteration are as regular as the iterations, but nothing is computed between them. And where
//! pauses of a longer kind have begun to come, shorter ones have to wait until another one is overdue.

use sluice_schedule::Nanos;

use super::{Learned, Pause};

/// Counts agree if they differ by less than this part of the period: the 0.1 % that headers may vary by.
pub(super) const TOLERANCE: u64 = 1000;
/// No iteration is smaller.
pub(super) const MIN_BYTES: u64 = 64 << 10;
/// Periods in a row that have to be seen before one is believed: two more for every four-fold number of pauses in it,
/// since the more pauses, the more likely one lies in the right place by chance.
const PROOF: u32 = 2;
/// ... and they have to take this long together: before that the first steps of the first iteration look the same.
pub(super) const MIN_SPAN: Nanos = Nanos::from_millis(1_000);
/// Levels of length looked at: half of the longest pause, a quarter, ...
pub(super) const LEVELS: u32 = 7;
/// Pauses so many times as long are of a longer kind.
pub(super) const KIND: u64 = 4;
/// The same for the medians of many pauses, which vary less.
pub(super) const MEDIAN_KIND: u64 = 3;
/// Pauses that are so many times as long again and again, in halves, are of a longer kind too.
pub(super) const APART: (u64, u64) = (3, 2);
/// Most equal parts of an iteration that are told from it by their pauses alone.
pub(super) const MAX_PARTS: usize = 8;
/// Iterations wanted for that.
pub(super) const MIN_PARTED: u64 = 3;
/// Most boundaries that are compared.
const MAX_COMPARED: usize = 512;
/// So many pauses of a longer kind without a period among them are exceptions, not the ends of iterations.
pub(super) const EXCEPTIONS: usize = 4;
/// Another pause of a longer kind is overdue after this many times the bytes between the last two.
pub(super) const OVERDUE: u64 = 2;

/// How far counts may differ that are the same boundary of a period of so many bytes.
pub(super) fn slack(bytes: u64) -> u64 {
    bytes / TOLERANCE
}

/// Is this pause of a longer kind than that one?
pub(super) fn kind_above(long: Nanos, short: Nanos) -> bool {
    long.0 >= short.0.max(1).saturating_mul(KIND)
}

/// How many times the short period the long one is, if it is a multiple: two at least.
pub(super) fn multiple(long: u64, short: u64) -> Option<u64> {
    let times = long.saturating_add(short / 2).checked_div(short).filter(|times| *times >= 2)?;
    (times.saturating_mul(short).abs_diff(long) <= slack(long)).then_some(times)
}

/// Periods wanted as proof where so many pauses lie within one.
pub(super) fn proof(pauses: usize) -> u64 {
    u64::from(PROOF + 2 * pauses.max(1).ilog(4))
}

/// The period that fits the pauses, if one does.
pub(super) fn learn(pauses: &[Pause]) -> Option<Learned> {
    let longest = pauses.iter().map(|pause| pause.length.0).max()?;
    let mut best: Option<Learned> = None;
    for level in 1..=LEVELS {
        let points: Vec<Pause> = pauses.iter().filter(|pause| pause.length.0 >= longest >> level).copied().collect();
        let Some(found) = fit(&points).filter(|found| !awaits_longer(pauses, found)) else { continue };
        // Where the first pause was very long, only the oldest ones reach the upper levels: what they prove is out of date.
        let better_proved = |known: &Learned| known.is_same(&found) && found.periods > known.periods;
        let finer = |known: &Learned| found.bytes < known.bytes && of_one_kind(pauses, known, &found);
        if best.as_ref().is_none_or(|known| better_proved(known) || finer(known)) {
            best = Some(found);
        }
    }
    best.map(|found| longer_kind_within(pauses, &found).unwrap_or(found))
}

/// The multiple of the period at whose boundaries the pauses are of a longer kind than at the others: two halves of an
/// iteration that wait for each other, each as long as the other.
fn longer_kind_within(pauses: &[Pause], found: &Learned) -> Option<Learned> {
    let grid = grid(pauses, found.at, found.bytes);
    for times in 2..=MAX_PARTS {
        for phase in 0..times {
            let (both, mut only): (Vec<_>, Vec<_>) = grid.iter().enumerate().partition(|(i, _)| i % times == phase);
            let (Some((_, newest)), Some((_, oldest))) = (both.first(), both.last()) else { continue };
            let mut lengths: Vec<u64> = both.iter().map(|(_, point)| point.1).collect();
            let mut only: Vec<u64> = only.drain(..).map(|(_, point)| point.1).collect();
            let periods = both.len() as u64 - 1;
            if periods >= MIN_PARTED && kind_above_others(&mut lengths, &mut only) {
                let pause = Nanos(lengths.get(lengths.len() / 4).copied().unwrap_or_default());
                let bytes = (newest.0 - oldest.0) / periods;
                return Some(Learned { bytes, at: newest.0, pause, periods, ..*found });
            }
        }
    }
    None
}

/// The shortest distance from the last pause back to another one that fits again and again.
fn fit(points: &[Pause]) -> Option<Learned> {
    let last = points.last()?;
    let distance = |point: &Pause| last.count.saturating_sub(point.count);
    let candidates = points.iter().rev().enumerate().skip(1).map(|(within, point)| (within, distance(point)));
    candidates.filter(|(_, bytes)| *bytes >= MIN_BYTES).find_map(|(within, bytes)| {
        let mut lengths = vec![last.length];
        let mut first = last;
        // Each boundary is looked for one period before the one found, so that a drift does not add up.
        while let Some(wanted) = first.count.checked_sub(bytes)
            && let Some(point) = at(points, wanted, slack(bytes))
        {
            first = point;
            lengths.push(point.length);
        }
        let periods = lengths.len() as u64 - 1;
        if periods < proof(within) || last.over.minus(first.over) < MIN_SPAN {
            return None;
        }
        lengths.sort_unstable();
        let pause = lengths.get(lengths.len() / 4).copied().unwrap_or_default();
        let bytes = (last.count - first.count) / periods;
        Some(Learned { bytes, at: last.count, pause, periods, since: last.over })
    })
}

/// Has a pause of a longer kind come, and may another one still come as far from it as it lies from the one before? What
/// lies before the oldest pause that is remembered is not known, so that one alone says nothing.
fn awaits_longer(pauses: &[Pause], found: &Learned) -> bool {
    let mut longer = pauses.iter().enumerate().filter(|(_, pause)| kind_above(pause.length, found.pause)).rev();
    let (Some((place, last)), before) = (longer.next(), longer.next()) else { return false };
    let many = longer.nth(EXCEPTIONS - 2).is_some();
    let before = before.map_or_else(|| pauses.first().map_or(0, |first| first.count), |(_, pause)| pause.count);
    let since = found.at.saturating_sub(last.count);
    place > 0 && !many && since <= last.count.saturating_sub(before).saturating_mul(OVERDUE)
}

/// Are the pauses at the boundaries that only the shorter period has as long as those that both have, nearly?
pub(super) fn of_one_kind(pauses: &[Pause], long: &Learned, short: &Learned) -> bool {
    let Some(times) = multiple(long.bytes, short.bytes) else { return short.pause.0 >= long.pause.0 / KIND };
    let (mut both, mut only) = (Vec::new(), Vec::new());
    for ((_, length), step) in grid(pauses, long.at, short.bytes).into_iter().zip(0_u64..) {
        if step % times == 0 { both.push(length) } else { only.push(length) }
    }
    !kind_above_others(&mut both, &mut only)
}

/// Are these of a longer kind than the others: by their medians, or all but the shortest quarter of these against all but
/// the longest of the others? Sorts both.
fn kind_above_others(these: &mut [u64], others: &mut [u64]) -> bool {
    these.sort_unstable();
    others.sort_unstable();
    let of = |lengths: &[u64], quarters: usize| lengths.get(lengths.len() * quarters / 4).copied();
    let above = |these: Option<u64>, others: Option<u64>, (times, of): (u64, u64)| {
        these.zip(others).is_some_and(|(these, others)| these.saturating_mul(of) > others.saturating_mul(times))
    };
    // Of few pauses, some lie apart by chance.
    let enough = these.len() as u64 > MIN_PARTED && others.len() as u64 >= MIN_PARTED;
    above(of(these, 2), of(others, 2), (MEDIAN_KIND, 1)) || enough && above(of(these, 1), of(others, 3), APART)
}

/// Could the period be half of an iteration? Every second pause is longer than all others so far, and it is too early to
/// tell whether by chance.
pub(super) fn may_be_half(pauses: &[Pause], known: &Learned) -> bool {
    let lengths: Vec<u64> = grid(pauses, known.at, known.bytes).into_iter().map(|(_, length)| length).collect();
    let of = |phase: usize| lengths.iter().skip(phase).step_by(2).copied().filter(|length| *length > 0);
    let longer = |phase: usize| {
        let (least, most) = (of(phase).min(), of(1 - phase).max());
        least.zip(most).is_some_and(|(least, most)| least.saturating_mul(APART.1) > most.saturating_mul(APART.0))
    };
    let seen = of(0).count() + of(1).count();
    seen as u64 <= 2 * MIN_PARTED + 1 && (longer(0) || longer(1))
}

/// Count and length of the pause at each boundary, back from one; 0 where there is none. Each is looked for one period
/// before the one found, so that a drift does not add up.
fn grid(pauses: &[Pause], newest: u64, bytes: u64) -> Vec<(u64, u64)> {
    let oldest = pauses.first().map_or(0, |pause| pause.count);
    let mut found = Vec::new();
    let mut count = newest;
    while found.len() < MAX_COMPARED && count >= oldest {
        let longest = around(pauses, count, slack(bytes)).iter().max_by_key(|point| point.length);
        let (here, length) = longest.map_or((count, 0), |point| (point.count, point.length.0));
        found.push((here, length));
        let Some(before) = here.checked_sub(bytes) else { break };
        count = before;
    }
    found
}

/// The pause nearest to a count, if it is as near as that; counts rise.
fn at(points: &[Pause], wanted: u64, slack: u64) -> Option<&Pause> {
    around(points, wanted, slack).iter().min_by_key(|point| point.count.abs_diff(wanted))
}

/// The pauses as near to a count as that; counts rise. A library's words lie between several at the end of an iteration.
fn around(points: &[Pause], wanted: u64, slack: u64) -> &[Pause] {
    let from = points.partition_point(|point| point.count < wanted.saturating_sub(slack));
    let to = points.partition_point(|point| point.count <= wanted.saturating_add(slack));
    points.get(from..to).unwrap_or_default()
}
