//! Schedules without a solver: chunk after chunk as early as can be, in several orders, and the best of them.
//!
//! Where a fabric is made of groups joined by thin links, what crosses these comes first, as in an open shop: the chunks of
//! every group in turn to the groups after it, so that all entrances are busy all the time.

use super::demand::Demand;
use super::groups::groupings;
use super::lane::Lanes;
use super::route::{Goal, Hops, Router};
use super::schedule::{Schedule, keeps_buffers};
use crate::random::Random;
use crate::run::{Run, Stage, Stopped};
use sluice_formats::quantity::Rational;

/// Orders that are tried at most.
const MAX_TRIES: u64 = 240;
/// Hops and epochs looked at over all tries, after which no further one begins: some seconds, on any machine the same.
const MAX_STEPS: u64 = 150_000_000;

/// The best schedule of several orders; ends early with one of `bound` epochs, which is the least.
///
/// # Errors
/// Only if called off; when time runs out, with the best until then, `TimeLimit` without any. `Ok(None)`: no order of
/// chunks leads to a schedule.
pub fn best(
    lanes: &Lanes,
    hops: &Hops,
    demand: &Demand,
    bound: u64,
    seed: u64,
    run: &Run<'_>,
) -> Result<Option<Schedule>, Stopped> {
    let groupings = groupings(lanes);
    let attempt = |number: u64| {
        // Each with random numbers of its own, so that it is the same whoever makes the others.
        let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        let ties =
            if number < 6 { vec![0; lanes.nodes.len()] } else { lanes.nodes.iter().map(|_| random.half()).collect() };
        let grouping = groupings.get(number as usize % (groupings.len() + 1));
        let attempt = Attempt { lanes, demand, order: number / (groupings.len() as u64 + 1), grouping };
        let mut router = Router::new(lanes, hops, demand, ties);
        let schedule = attempt.schedule(&mut router, &mut random);
        (schedule.filter(|schedule| keeps_buffers(lanes, demand, schedule)), router.steps)
    };
    let (mut best, mut steps, mut number): (Option<Schedule>, u64, u64) = (None, 0, 0);
    while number < MAX_TRIES {
        let found = best.as_ref().map_or(u64::MAX, |best: &Schedule| best.finish);
        run.tell(Stage::Greedy, number, MAX_TRIES, format_args!("{}", Epochs { found, bound }));
        // One alone first, which often is enough.
        let together = if number == 0 { 1 } else { run.threads as u64 }.min(MAX_TRIES - number);
        let made = match run.each(together as usize, || (), |(), i| attempt(number + i as u64)) {
            Ok(made) => made,
            Err(Stopped::TimeLimit) if best.is_some() => break,
            Err(stopped) => return Err(stopped),
        };
        number += together;
        for (schedule, tried) in made {
            let found = best.as_ref().map_or(u64::MAX, |best| best.finish);
            if found <= bound || steps > MAX_STEPS {
                return Ok(best);
            }
            steps += tried;
            best = schedule.filter(|schedule| schedule.finish < found).or(best);
        }
        if steps > MAX_STEPS || best.as_ref().is_some_and(|best| best.finish <= bound) {
            break;
        }
    }
    Ok(best)
}

/// How far a search is, in words.
struct Epochs {
    found: u64,
    bound: u64,
}

impl std::fmt::Display for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.found {
            u64::MAX => write!(f, "{} epochs or more", self.bound),
            found => write!(f, "{} to {found} epochs", self.bound),
        }
    }
}

/// One order of work.
struct Attempt<'a> {
    lanes: &'a Lanes,
    demand: &'a Demand,
    /// 0: farthest first; 1: nearest first; 2: as given; others at random.
    order: u64,
    /// By node the group it is in; `None`: no groups.
    grouping: Option<&'a Vec<usize>>,
}

impl Attempt<'_> {
    fn schedule(&self, router: &mut Router<'_>, random: &mut Random) -> Option<Schedule> {
        let chunks = &self.demand.chunks;
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        if let Some(groups) = self.grouping {
            self.cross(router, groups, random)?;
            // What is in a group first is spread in it first.
            let there = |chunk: usize| chunks[chunk].wanted_by.iter().map(|node| router.held(chunk, *node)).min();
            order.sort_by_cached_key(|chunk| (there(*chunk), *chunk));
        }
        match self.order {
            _ if self.grouping.is_some() && self.order < 3 => {}
            0 => order.sort_by_cached_key(|chunk| std::cmp::Reverse(self.farthest(*chunk))),
            1 => order.sort_by_cached_key(|chunk| self.farthest(*chunk)),
            2 => {}
            _ => random.shuffle(&mut order),
        }
        if self.has_ranks() {
            order.sort_by(|one, other| self.weight(*other).cmp(self.weight(*one)));
        }
        for chunk in order {
            if !router.bring(chunk, Goal::All(&chunks[chunk].wanted_by)) {
                return None;
            }
        }
        Schedule::pruned(self.lanes, self.demand, &router.sends).ok()
    }

    /// Do tenants that count more go first? In all orders that are not left to chance.
    fn has_ranks(&self) -> bool {
        self.order < 3 && self.demand.tenants.len() > 1
    }
    fn weight(&self, chunk: usize) -> &Rational {
        &self.demand.tenants[self.demand.chunks[chunk].tenant].weight
    }

    /// Epochs to the farthest node that wants a chunk.
    fn farthest(&self, chunk: usize) -> u64 {
        let chunk = &self.demand.chunks[chunk];
        let distances = self.lanes.distances(chunk.source);
        chunk.wanted_by.iter().map(|node| distances[*node]).max().unwrap_or(0)
    }

    /// Every chunk crosses into every group where it is wanted.
    fn cross(&self, router: &mut Router<'_>, groups: &[usize], random: &mut Random) -> Option<()> {
        let count = groups.iter().filter(|group| **group != usize::MAX).max().map_or(0, |last| last + 1);
        let mut jobs = Vec::new();
        // Epochs to the nearest way out of the group, and from the nearest way in.
        for (chunk, of) in self.demand.chunks.iter().enumerate() {
            let home = groups[of.source];
            let distances = self.lanes.distances(of.source);
            let elsewhere = (0..groups.len()).filter(|node| groups[*node] != home);
            let release = elsewhere.map(|node| distances[node]).min().unwrap_or(0);
            for group in (0..count).filter(|group| *group != home) {
                let wanting = of.wanted_by.iter().filter(|node| groups[**node] == group);
                let Some(far) = wanting.map(|node| distances[*node]).max() else { continue };
                let turn = (group + count - home) % count;
                jobs.push(Crossing { chunk, home, group, turn, release, far, place: 0 });
            }
        }
        match self.order % 3 {
            0 => jobs.sort_by_key(|job| (job.home, job.release, job.chunk, job.turn)),
            1 => jobs.sort_by_key(|job| (job.home, std::cmp::Reverse(job.far - job.release), job.release, job.chunk)),
            _ => jobs.sort_by_key(|job| (job.home, job.release, std::cmp::Reverse(job.far), job.chunk, job.turn)),
        }
        if self.order > 2 {
            // A little disorder: neighbours change places.
            for i in 1..jobs.len() {
                if random.half().is_multiple_of(4) {
                    jobs.swap(i - 1, i);
                }
            }
            jobs.sort_by_key(|job| job.home);
        }
        if self.has_ranks() {
            jobs.sort_by(|one, other| {
                one.home.cmp(&other.home).then(self.weight(other.chunk).cmp(self.weight(one.chunk)))
            });
        }
        let mut next = vec![0; count + 1];
        for job in &mut jobs {
            let next = &mut next[job.home.min(count)];
            (job.place, *next) = (*next, *next + 1);
        }
        jobs.sort_by_key(|job| (job.place, job.turn, job.home));
        jobs.into_iter().all(|job| router.bring(job.chunk, Goal::Group(groups, job.group))).then_some(())
    }
}

/// A chunk that crosses from one group into another.
struct Crossing {
    chunk: usize,
    home: usize,
    group: usize,
    /// How many groups on.
    turn: usize,
    /// The epochs until it can be out of its group.
    release: u64,
    /// The epochs until it can be where it is wanted.
    far: u64,
    /// Its place among those from its group.
    place: usize,
}
