//! List schedules: at every end of a job each ready job starts, in order of a key, that finds its links free.

use super::jobs::Jobs;
use super::tree::Best;
use std::collections::BTreeSet;

/// Rounds in which every two owners are exchanged at most.
const ROUNDS: usize = 3;
/// List schedules times jobs of the search for an order of owners at most: some tenths of a second.
const EFFORT: usize = 2_000_000;
/// Ends within this share of the time are one.
const TOGETHER: f64 = 1e-12;

/// Starts by the order of a list of all jobs.
fn list(jobs: &Jobs, order: &[usize]) -> Vec<f64> {
    let mut rank = vec![0; jobs.count()];
    order.iter().enumerate().for_each(|(at, job)| rank[*job] = at);
    let mut missing: Vec<usize> = jobs.earlier.iter().map(Vec::len).collect();
    let mut free = vec![true; jobs.links.len()];
    let mut starts = vec![0.0; jobs.count()];
    let mut ready = BTreeSet::new();
    // Those that are not released yet, and those that run, each with the instant at which that ends.
    let mut waiting: Vec<(f64, usize)> = Vec::new();
    let mut running: Vec<(f64, usize)> = Vec::new();
    let mut now = 0.0_f64;
    let admit = |job: usize, now: f64, ready: &mut BTreeSet<usize>, waiting: &mut Vec<(f64, usize)>| {
        if jobs.releases[job] <= now {
            ready.insert(rank[job]);
        } else {
            waiting.push((jobs.releases[job], job));
        }
    };
    (0..jobs.count()).filter(|job| missing[*job] == 0).for_each(|job| admit(job, now, &mut ready, &mut waiting));
    loop {
        for at in ready.clone() {
            let job = order[at];
            if jobs.on[job].iter().all(|link| free[*link]) {
                jobs.on[job].iter().for_each(|link| free[*link] = false);
                starts[job] = now;
                running.push((now + jobs.durations[job], job));
                ready.remove(&at);
            }
        }
        let next = running.iter().chain(&waiting).map(|(end, _)| *end).fold(f64::INFINITY, f64::min);
        if next == f64::INFINITY {
            return starts;
        }
        now = next;
        let due = now + TOGETHER * now.max(1.0);
        for (_, job) in waiting.extract_if(.., |(end, _)| *end <= due) {
            ready.insert(rank[job]);
        }
        for (_, job) in running.extract_if(.., |(end, _)| *end <= due) {
            jobs.on[job].iter().for_each(|link| free[*link] = true);
            for &later in &jobs.later[job] {
                missing[later] -= 1;
                if missing[later] == 0 {
                    admit(later, now, &mut ready, &mut waiting);
                }
            }
        }
    }
}

/// List schedules, the best first: longest chains first; then owner by owner, each with its longest chains first, in
/// the order of the owners' own bounds and in orders that exchange two owners for the better.
pub fn schedules(jobs: &Jobs) -> Vec<Best> {
    let chains = jobs.chains();
    let by_owner = |owners: &[usize]| {
        let mut place = vec![0; jobs.owner_count];
        owners.iter().enumerate().for_each(|(at, owner)| place[*owner] = at);
        let mut order: Vec<usize> = (0..jobs.count()).collect();
        let owner = |job: usize| place[jobs.owners[job]];
        order.sort_by(|one, other| {
            owner(*one).cmp(&owner(*other)).then(chains[*other].total_cmp(&chains[*one])).then(one.cmp(other))
        });
        Best::of(jobs, &list(jobs, &order))
    };
    let mut order: Vec<usize> = (0..jobs.count()).collect();
    order.sort_by(|one, other| chains[*other].total_cmp(&chains[*one]).then(one.cmp(other)));
    let mut all = vec![Best::of(jobs, &list(jobs, &order))];
    let mut owners: Vec<usize> = (0..jobs.owner_count).collect();
    let bounds = bounds(jobs);
    owners.sort_by(|one, other| bounds[*one].total_cmp(&bounds[*other]).then(one.cmp(other)));
    let mut best = by_owner(&owners);
    let mut effort = EFFORT / jobs.count().max(1);
    for _ in 0..ROUNDS {
        let mut better = false;
        for one in 0..owners.len() {
            for other in one + 1..owners.len() {
                if effort == 0 {
                    break;
                }
                effort -= 1;
                owners.swap(one, other);
                let found = by_owner(&owners);
                all.push(found.clone());
                if found.total < best.total {
                    (best, better) = (found, true);
                } else {
                    owners.swap(one, other);
                }
            }
        }
        if !better {
            break;
        }
    }
    all.push(best);
    all
}

/// By owner the least last end that it could have alone.
pub fn bounds(jobs: &Jobs) -> Vec<f64> {
    let mut bounds = vec![0.0_f64; jobs.owner_count];
    for (job, chain) in jobs.chains().into_iter().enumerate() {
        // A chain ends with a job of the owner's own where dependencies stay within owners.
        let bound = &mut bounds[jobs.owners[job]];
        let own = if jobs.later[job].iter().all(|later| jobs.owners[*later] == jobs.owners[job]) { chain } else { 0.0 };
        *bound = bound.max(own);
    }
    for members in &jobs.links {
        let mut work = vec![0.0; jobs.owner_count];
        members.iter().for_each(|job| work[jobs.owners[*job]] += jobs.durations[*job]);
        bounds.iter_mut().zip(work).for_each(|(bound, work)| *bound = bound.max(work));
    }
    bounds
}
