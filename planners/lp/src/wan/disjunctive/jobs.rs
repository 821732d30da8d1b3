//! Flows with their times, links and dependencies, as a search for an order sees them.

use super::bits;
use sluice_planners_wan::Instance;

/// A pair of jobs that share a link, neither of which waits for the other through dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The job with the smaller number.
    pub one: usize,
    /// The job with the larger one.
    pub other: usize,
}

/// What is to be ordered.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// By job the flow that it is.
    pub flows: Vec<usize>,
    /// By job the time that it takes, in s.
    pub durations: Vec<f64>,
    /// By job the instant before which it does not start, in s.
    pub releases: Vec<f64>,
    /// By job who it belongs to: the last end of each owner counts.
    pub owners: Vec<usize>,
    /// How many owners there are.
    pub owner_count: usize,
    /// By job the jobs that must end before it starts.
    pub earlier: Vec<Vec<usize>>,
    /// By job the jobs that start after its end.
    pub later: Vec<Vec<usize>>,
    /// By link the jobs on it, ascending: two and more, and on no other link all of them.
    pub links: Vec<Vec<usize>>,
    /// By job the links, ascending.
    pub on: Vec<Vec<usize>>,
}

impl Jobs {
    /// The flows of an instance that `belongs` gives an owner, each with the time that `duration` gives it.
    pub fn new(
        instance: &Instance,
        owner_count: usize,
        belongs: impl Fn(usize) -> Option<usize>,
        duration: impl Fn(usize) -> f64,
    ) -> Jobs {
        let flows: Vec<usize> = (0..instance.flows().len()).filter(|flow| belongs(*flow).is_some()).collect();
        let mut job_of = vec![None; instance.flows().len()];
        flows.iter().enumerate().for_each(|(job, flow)| job_of[*flow] = Some(job));
        let jobs = |flows: &[usize]| flows.iter().filter_map(|flow| job_of[*flow]).collect::<Vec<_>>();
        let all = (0..instance.links().len()).map(|link| jobs(instance.flows_on(link)));
        let links = maximal(all.filter(|jobs| jobs.len() > 1).collect());
        let mut on = vec![Vec::new(); flows.len()];
        for (link, jobs) in links.iter().enumerate() {
            jobs.iter().for_each(|job| on[*job].push(link));
        }
        Jobs {
            durations: flows.iter().map(|flow| duration(*flow)).collect(),
            releases: flows.iter().map(|flow| instance.flows()[*flow].release).collect(),
            owners: flows.iter().filter_map(|flow| belongs(*flow)).collect(),
            owner_count,
            earlier: flows.iter().map(|flow| jobs(instance.predecessors(*flow))).collect(),
            later: flows.iter().map(|flow| jobs(instance.successors(*flow))).collect(),
            links,
            on,
            flows,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.flows.len()
    }

    /// The jobs in an order in which dependencies go forward.
    pub fn forward(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = self.earlier.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..self.count()).filter(|job| missing[*job] == 0).collect();
        let mut at = 0;
        while let Some(&job) = order.get(at) {
            for &later in &self.later[job] {
                missing[later] -= 1;
                if missing[later] == 0 {
                    order.push(later);
                }
            }
            at += 1;
        }
        order
    }

    /// By job the time from its start to the end of the longest chain of dependencies that begins with it.
    pub fn chains(&self) -> Vec<f64> {
        let mut chains = self.durations.clone();
        for &job in self.forward().iter().rev() {
            let longest = self.later[job].iter().map(|later| chains[*later]).fold(0.0, f64::max);
            chains[job] = self.durations[job] + longest;
        }
        chains
    }

    /// The sum over owners of the last end, for these starts.
    pub fn total(&self, starts: &[f64]) -> f64 {
        self.ends(starts).iter().sum()
    }

    /// By owner the last end, for these starts.
    pub fn ends(&self, starts: &[f64]) -> Vec<f64> {
        let mut ends = vec![0.0_f64; self.owner_count];
        for (job, start) in starts.iter().enumerate() {
            let end = &mut ends[self.owners[job]];
            *end = end.max(start + self.durations[job]);
        }
        ends
    }

    /// The jobs by the order in which they start.
    pub fn sequence(&self, starts: &[f64]) -> Vec<usize> {
        let mut place = vec![0; self.count()];
        self.forward().into_iter().enumerate().for_each(|(at, job)| place[job] = at);
        let mut sequence: Vec<usize> = (0..self.count()).collect();
        sequence.sort_by(|one, other| starts[*one].total_cmp(&starts[*other]).then(place[*one].cmp(&place[*other])));
        sequence
    }

    /// The earliest starts where jobs that share a link keep this sequence, which dependencies agree with.
    pub fn shifted(&self, sequence: &[usize]) -> Vec<f64> {
        let mut starts = vec![0.0_f64; self.count()];
        let mut free = vec![0.0_f64; self.links.len()];
        for &job in sequence {
            let dependencies = self.earlier[job].iter().map(|earlier| starts[*earlier] + self.durations[*earlier]);
            let links = self.on[job].iter().map(|link| free[*link]);
            starts[job] = dependencies.chain(links).fold(self.releases[job], f64::max);
            self.on[job].iter().for_each(|link| free[*link] = starts[job] + self.durations[job]);
        }
        starts
    }

    /// Every pair whose order is to be found.
    pub fn pairs(&self) -> Vec<Pair> {
        let words = bits::words(self.count());
        let mut before = vec![0; self.count() * words];
        for &job in &self.forward() {
            for &earlier in &self.earlier[job] {
                for word in 0..words {
                    before[job * words + word] |= before[earlier * words + word];
                }
                bits::insert(&mut before[job * words..][..words], earlier);
            }
        }
        let waits = |one: usize, other: usize| bits::has(&before[one * words..][..words], other);
        let mut pairs = Vec::new();
        let mut met = vec![usize::MAX; self.count()];
        for one in 0..self.count() {
            let mut others: Vec<usize> = Vec::new();
            for &other in self.on[one].iter().flat_map(|link| &self.links[*link]).filter(|other| **other > one) {
                if met[other] != one && !waits(one, other) && !waits(other, one) {
                    met[other] = one;
                    others.push(other);
                }
            }
            others.sort_unstable();
            pairs.extend(others.into_iter().map(|other| Pair { one, other }));
        }
        pairs
    }
}

/// Those sets that are no part of another, each once, in their order.
fn maximal(sets: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let part = |one: &[usize], of: &[usize]| one.iter().all(|job| of.binary_search(job).is_ok());
    let covered = |at: usize| {
        let one = &sets[at];
        sets.iter().enumerate().any(|(other, set)| {
            other != at && (set.len() > one.len() || set.len() == one.len() && other < at) && part(one, set)
        })
    };
    let kept: Vec<usize> = (0..sets.len()).filter(|at| !covered(*at)).collect();
    kept.into_iter().map(|at| sets[at].clone()).collect()
}
