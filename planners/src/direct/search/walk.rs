//! One batch of candidates: random sets of generators, each improved by exchanging generators while that pays.
//!
//! A set is free, closed under inverses (its graph is then bidirectional), or a union of orbits of an automorphism,
//! which evens out the loads of links. An exchange is taken if it is not worse by more than a threshold that falls to
//! zero (threshold accepting: annealing without logarithms, so whole numbers suffice).

use super::Request;
use super::frontier::{Frontier, Point};
use super::group::{Element, Group};
use super::receiver::{PARTS, Receiver, Score};
use crate::random::Random;

/// Exchanges tried before the next start.
const MOVES: u64 = 600;

/// What a set is closed under.
#[derive(Clone, Copy, Debug)]
struct Closure {
    inverses: bool,
    stretch: Option<u32>,
}

/// How a candidate is judged during a walk.
#[derive(Clone, Copy, Debug)]
struct Taste {
    /// Number of steps aimed at.
    aim: u32,
    /// What a thousandth of load above the bound weighs against a vertex in a thousand that is a hop too far.
    weight: u64,
}

#[derive(Debug)]
pub(super) struct Walker<'a> {
    request: &'a Request,
    groups: &'a [Group],
    receiver: Receiver,
}

impl<'a> Walker<'a> {
    /// `groups` is not empty.
    pub(super) fn new(request: &'a Request, groups: &'a [Group]) -> Walker<'a> {
        Walker { request, groups, receiver: Receiver::new(request.n, request.d) }
    }
    /// Evaluates `evaluations` candidates and gives what `known` lacks.
    pub(super) fn batch(&mut self, known: &Frontier, batch: u64, evaluations: u64) -> Frontier {
        let mut random = Random::stream(self.request.seed, batch);
        let (mut best, mut left) = (known.clone(), evaluations);
        while left > 0 {
            // Each start uses up one evaluation even where no set of the right size comes together.
            left -= 1;
            let Some(group) = self.group(&mut random) else { break };
            let closure = self.closure(group, &mut random);
            let taste = self.taste(&best, &mut random);
            let mut set = Vec::new();
            if !self.fill(group, closure, &mut set, &mut random) {
                continue;
            }
            let mut energy = self.try_out(group, &set, taste, &mut best);
            let (moves, start) = (MOVES.min(left), energy.unwrap_or(0) / 8);
            for done in 0..moves {
                left -= 1;
                let mut other = set.clone();
                drop_one(group, closure, &mut other, &mut random);
                if !self.fill(group, closure, &mut other, &mut random) {
                    continue;
                }
                let new = self.try_out(group, &other, taste, &mut best);
                let threshold = start * (moves - done) / moves;
                let worse = |old: u64| new.is_none_or(|new| new > old + threshold);
                if !energy.is_some_and(worse) {
                    (set, energy) = (other, new);
                }
                if energy == Some(0) {
                    break;
                }
            }
        }
        best
    }
    /// The cyclic group, which stands first, every other time.
    fn group(&self, random: &mut Random) -> Option<&'a Group> {
        if random.below(2) == 0 { self.groups.first() } else { random.pick(self.groups) }
    }
    fn closure(&self, group: &Group, random: &mut Random) -> Closure {
        let inverses = self.request.bidirectional || random.below(4) == 0;
        let stretches = if random.below(3) == 0 { group.stretches(self.request.d) } else { Vec::new() };
        Closure { inverses, stretch: random.pick(&stretches).copied() }
    }
    fn taste(&self, best: &Frontier, random: &mut Random) -> Taste {
        let least = self.request.least_steps();
        let bound = PARTS * u64::from(self.request.n - 1);
        let ends = best.points().last().map(|last| {
            let optimal = last.loads * u64::from(self.request.d) == bound;
            if optimal { last.t_l - 1 } else { last.t_l + 2 }
        });
        let most = ends.unwrap_or(least + 4).max(least);
        let weight = 1 << (2 * random.below(4));
        Taste { aim: least + random.below(most - least + 1), weight }
    }
    /// Adds random orbits until there are d generators; false where that does not come out.
    fn fill(&self, group: &Group, closure: Closure, set: &mut Vec<Element>, random: &mut Random) -> bool {
        let d = self.request.d as usize;
        for _ in 0..16 * d {
            if set.len() == d {
                return true;
            }
            let s = Element { i: random.below(group.a), j: random.below(group.b) };
            let orbit = orbit(group, closure, s, d - set.len());
            if s != Element::ONE && !set.contains(&s) && orbit.len() + set.len() <= d {
                set.extend(orbit);
            }
        }
        set.len() == d
    }
    /// Scores a candidate, keeps it if it is good, and says how far it is from what is aimed at.
    fn try_out(&mut self, group: &Group, set: &[Element], taste: Taste, best: &mut Frontier) -> Option<u64> {
        let score = self.receiver.score(group, set, taste.aim, 2 * taste.aim + 4)?;
        if best.wants(score.t_l, score.loads) {
            let back: Vec<Element> = set.iter().map(|&s| group.inverse(s)).collect();
            let reduce = self.receiver.score(group, &back, taste.aim, u32::MAX).map_or(u64::MAX, |back| back.loads);
            let (mut generators, group) = (set.to_vec(), group.clone());
            generators.sort_unstable();
            best.add(Point { t_l: score.t_l, loads: score.loads, reduce, group, generators });
        }
        Some(self.energy(&score, taste))
    }
    fn energy(&self, score: &Score, taste: Taste) -> u64 {
        let (n, d) = (u64::from(self.request.n), u64::from(self.request.d));
        let bound = PARTS * (n - 1);
        score.beyond * 1024 / n + taste.weight * ((score.loads * d - bound) * 1024 / bound)
    }
}

/// Takes a random generator out, with its orbit.
fn drop_one(group: &Group, closure: Closure, set: &mut Vec<Element>, random: &mut Random) {
    if let Some(&s) = random.pick(set) {
        let orbit = orbit(group, closure, s, set.len());
        set.retain(|member| !orbit.contains(member));
    }
}

/// Everything that must come along with `s`; more than `most` members where there are too many.
fn orbit(group: &Group, closure: Closure, s: Element, most: usize) -> Vec<Element> {
    let (mut orbit, mut seen) = (vec![s], 0);
    while seen < orbit.len() && orbit.len() <= most {
        let member = orbit[seen];
        let inverse = closure.inverses.then(|| group.inverse(member));
        let stretched = closure.stretch.map(|u| group.stretched(member, u));
        for image in [inverse, stretched].into_iter().flatten() {
            if !orbit.contains(&image) {
                orbit.push(image);
            }
        }
        seen += 1;
    }
    orbit
}
