//! A job's iterations, cut out of the slots of one host: each goes from the end of a round to the end of the next one.

use sluice_schedule::{JobId, Nanos};

use crate::seen::Seen;

/// Slots further apart than this many of their lengths have a hole between them: what began before it ends unknown.
const HOLE: u64 = 3;

/// One iteration of a job on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    /// The number of its round.
    pub round: u64,
    /// The round before it had ended.
    pub from: Nanos,
    /// Its own round began: compute was over.
    pub began: Nanos,
    /// Its round had ended.
    pub to: Nanos,
}

impl Iteration {
    /// How long it took.
    pub fn took(&self) -> Nanos {
        self.to.minus(self.from)
    }

    /// From when to when it computed and communicated, apart, so that each moment has causes of its own; what took no time
    /// is left out.
    pub(crate) fn halves(&self) -> impl Iterator<Item = (Nanos, Nanos)> {
        [(self.from, self.began), (self.began, self.to)].into_iter().filter(|(from, to)| from < to)
    }
}

/// The whole iterations of a job in these slots, which are in the order of time.
pub fn iterations(slots: &[Seen], job: JobId) -> Vec<Iteration> {
    let mut found = Vec::new();
    let (mut last_end, mut began, mut seen_to): (Option<Nanos>, Option<(u64, Nanos)>, Option<Nanos>) =
        (None, None, None);
    for slot in slots {
        let Some(here) = slot.jobs.iter().find(|seen| seen.id == job) else { continue };
        if seen_to.is_some_and(|to| slot.from.minus(to) > Nanos(slot.length().0.saturating_mul(HOLE))) {
            (last_end, began) = (None, None);
        }
        seen_to = Some(slot.to);
        for mark in &here.marks {
            match (mark.ended, began) {
                (false, _) => began = Some((mark.round, mark.at)),
                (true, Some((round, at))) if round == mark.round => {
                    if let Some(from) = last_end.filter(|from| *from <= at && at <= mark.at && *from < mark.at) {
                        found.push(Iteration { round, from, began: at, to: mark.at });
                    }
                    (last_end, began) = (Some(mark.at), None);
                }
                (true, _) => (last_end, began) = (Some(mark.at), None),
            }
        }
    }
    found
}

/// The part of a slot between these times, ns.
pub(crate) fn overlap(slot: &Seen, from: Nanos, to: Nanos) -> f64 {
    slot.to.min(to).minus(slot.from.max(from)).0 as f64
}

/// The slots that have a part between these times.
pub(crate) fn between(slots: &[Seen], from: Nanos, to: Nanos) -> &[Seen] {
    let first = slots.partition_point(|slot| slot.to <= from);
    let last = slots.partition_point(|slot| slot.from < to).max(first);
    slots.get(first..last).unwrap_or_default()
}

/// So many iterations are needed to tell usual ones from others.
const ENOUGH: usize = 8;
/// The quickest of so many are the usual ones.
const QUICKEST_OF: usize = 4;

/// What these iterations take where nothing holds them up: the quickest quarter of them. Empty where they are too few.
pub fn usual(all: &[Iteration]) -> Vec<Iteration> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|iteration| (iteration.took(), iteration.to));
    sorted.truncate(if all.len() >= ENOUGH { all.len() / QUICKEST_OF } else { 0 });
    sorted
}
