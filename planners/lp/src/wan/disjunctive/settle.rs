//! What follows from the orders that are known, under a limit on the sum of last ends.
//!
//! Heads and tails grow by the work of those that come before or after on one link, whose own order need not be
//! known. A pair one order of which would break the limit takes the other, and on each link edge finding adds orders
//! with sets. This goes on until nothing new follows.

use super::bits;
use super::edges::{self, Edge, Stay};
use super::jobs::Pair;
use super::order::Order;

/// A job that comes before (or after) another: when it can start (or how far it is from the end), and how long it
/// takes.
#[derive(Clone, Copy, Debug)]
struct Work {
    from: f64,
    duration: f64,
}

/// Scratch space for working out what follows, and what never changes about links.
#[derive(Debug)]
pub struct Settler {
    words: usize,
    /// By link the jobs on it, as sets one after the other.
    on_link: Vec<u64>,
    /// By job those that share a link with it or depend on it directly, or it on them.
    near: Vec<u64>,
    /// Links on which edges are to be looked for.
    stale_links: Vec<u64>,
    work: Vec<Work>,
    stays: Vec<Stay>,
    edges: Vec<Edge>,
    /// By owner: does the latest end of the job at hand depend on it?
    depends: Vec<bool>,
}

impl Settler {
    /// For the jobs of an order.
    pub fn new(order: &Order<'_>) -> Settler {
        let jobs = order.jobs;
        let words = bits::words(jobs.count());
        let mut on_link = vec![0; jobs.links.len() * words];
        let mut near = vec![0; jobs.count() * words];
        for (link, members) in jobs.links.iter().enumerate() {
            let set = &mut on_link[link * words..][..words];
            members.iter().for_each(|job| bits::insert(set, *job));
            for &job in members {
                near[job * words..][..words].iter_mut().zip(&*set).for_each(|(near, set)| *near |= set);
            }
        }
        for job in 0..jobs.count() {
            let direct = jobs.earlier[job].iter().chain(&jobs.later[job]);
            direct.for_each(|other| bits::insert(&mut near[job * words..][..words], *other));
        }
        Settler {
            words,
            on_link,
            near,
            stale_links: vec![0; bits::words(jobs.links.len())],
            work: Vec::new(),
            stays: Vec::new(),
            edges: Vec::new(),
            depends: vec![false; jobs.owner_count],
        }
    }

    /// Works out what follows where the sum of last ends is to be below the limit. False where nothing is.
    pub fn settle(&mut self, order: &mut Order<'_>, limit: f64) -> bool {
        let fits = self.follow(order, limit);
        order.forget_stale();
        self.stale_links.fill(0);
        fits
    }

    fn follow(&mut self, order: &mut Order<'_>, limit: f64) -> bool {
        loop {
            self.heads(order);
            (0..order.jobs.owner_count).for_each(|owner| self.tails(order, owner));
            if !self.latest(order, limit) {
                return false;
            }
            order.sift();
            match self.pairs(order) {
                None => return false,
                Some(true) => continue,
                Some(false) => {}
            }
            if limit == f64::INFINITY {
                return true;
            }
            match self.sets(order) {
                None => return false,
                Some(true) => {}
                Some(false) => return true,
            }
        }
    }

    /// Earliest starts; of the earlier jobs first, from which the others follow.
    fn heads(&mut self, order: &mut Order<'_>) {
        let jobs = order.jobs;
        while let Some(job) = bits::first_by(&order.stale_heads, |job| order.head(job)) {
            bits::remove(&mut order.stale_heads, job);
            let mut head = order.head(job);
            for &earlier in &jobs.earlier[job] {
                head = head.max(order.end(earlier));
            }
            let mut work = std::mem::take(&mut self.work);
            for &link in &jobs.on[job] {
                work.clear();
                for other in self.shared(link, order.before(job)) {
                    work.push(Work { from: order.head(other), duration: jobs.durations[other] });
                }
                head = head.max(done(&mut work));
            }
            self.work = work;
            if head > order.head(job) {
                order.set_head(job, head);
                bits::insert(&mut order.moved, job);
                for word in 0..self.words {
                    order.stale_heads[word] |= order.after(job)[word] & self.near[job * self.words + word];
                }
            }
        }
    }

    /// Longest ways to an owner's last end; of the later jobs first, from which the others follow.
    fn tails(&mut self, order: &mut Order<'_>, owner: usize) {
        let jobs = order.jobs;
        while let Some(job) = bits::first_by(&order.stale_tails[owner], |job| -order.head(job)) {
            bits::remove(&mut order.stale_tails[owner], job);
            let mut tail = order.tail(job, owner);
            for &later in &jobs.later[job] {
                tail = tail.max(jobs.durations[later] + order.tail(later, owner));
            }
            let mut work = std::mem::take(&mut self.work);
            for &link in &jobs.on[job] {
                work.clear();
                for other in self.shared(link, order.after(job)) {
                    let from = order.tail(other, owner);
                    if from > f64::NEG_INFINITY {
                        work.push(Work { from, duration: jobs.durations[other] });
                    }
                }
                tail = tail.max(done(&mut work));
            }
            self.work = work;
            if tail > order.tail(job, owner) {
                order.set_tail(job, owner, tail);
                bits::insert(&mut order.moved, job);
                for word in 0..self.words {
                    let stale = order.before(job)[word] & self.near[job * self.words + word];
                    order.stale_tails[owner][word] |= stale;
                }
            }
        }
    }

    /// Those of a set that are on a link.
    fn shared(&self, link: usize, set: &[u64]) -> impl Iterator<Item = usize> {
        let on_link = &self.on_link[link * self.words..][..self.words];
        bits::numbers(on_link.iter().zip(set).map(|(one, other)| one & other))
    }

    /// Least last ends, and the latest ends that they leave under the limit. False where the limit is reached.
    fn latest(&mut self, order: &mut Order<'_>, limit: f64) -> bool {
        let jobs = order.jobs;
        let mut all = limit != order.limit();
        for job in bits::numbers(order.moved.clone().into_iter()) {
            for owner in 0..jobs.owner_count {
                let least = order.end(job) + order.tail(job, owner);
                if least > order.least(owner) {
                    order.set_least(owner, least);
                    all = true;
                }
            }
        }
        if order.total() >= limit {
            return false;
        }
        order.set_limit(limit);
        for job in 0..jobs.count() {
            if !all && !bits::has(&order.moved, job) {
                continue;
            }
            let latest = self.latest_end(order, job, limit);
            if latest < order.latest(job) {
                order.set_latest(job, latest);
                bits::insert(&mut order.moved, job);
            }
            if order.end(job) >= latest {
                return false;
            }
            if bits::has(&order.moved, job) {
                jobs.on[job].iter().for_each(|link| bits::insert(&mut self.stale_links, *link));
            }
        }
        true
    }

    /// The end of a job at which Σ over owners of max(least last end, end + tail) is the limit.
    fn latest_end(&mut self, order: &Order<'_>, job: usize, limit: f64) -> f64 {
        let owners = order.jobs.owner_count;
        for owner in 0..owners {
            self.depends[owner] = order.tail(job, owner) > f64::NEG_INFINITY;
        }
        loop {
            let (mut room, mut count) = (limit, 0_usize);
            for owner in 0..owners {
                if self.depends[owner] {
                    room -= order.tail(job, owner);
                    count += 1;
                } else {
                    room -= order.least(owner);
                }
            }
            let latest = room / count.max(1) as f64;
            // An owner who ends later anyway takes its own part of the room.
            let mut fewer = false;
            for owner in 0..owners {
                if self.depends[owner] && count > 1 && latest + order.tail(job, owner) < order.least(owner) {
                    self.depends[owner] = false;
                    fewer = true;
                }
            }
            if !fewer || !self.depends.contains(&true) {
                return latest;
            }
        }
    }

    /// Orders of pairs of which one job moved. Was there any? `None` where neither order of a pair fits.
    fn pairs(&mut self, order: &mut Order<'_>) -> Option<bool> {
        let jobs = order.jobs;
        let mut any = false;
        for at in 0..order.open().len() {
            let Pair { one, other } = order.pairs[order.open()[at]];
            if !bits::has(&order.moved, one) && !bits::has(&order.moved, other) {
                continue;
            }
            let fits = |first: usize, then: usize| {
                order.end(first).max(order.head(then)) + jobs.durations[then] < order.latest(then)
            };
            let put = match (fits(one, other), fits(other, one)) {
                (true, true) => continue,
                (false, false) => return None,
                (true, false) => order.put(one, other),
                (false, true) => order.put(other, one),
            };
            if !put {
                return None;
            }
            any = true;
        }
        order.moved.fill(0);
        Some(any)
    }

    /// Orders that edge finding adds. Was there any? `None` where no order fits.
    fn sets(&mut self, order: &mut Order<'_>) -> Option<bool> {
        let jobs = order.jobs;
        let mut any = false;
        while let Some(link) = bits::pop(&mut self.stale_links) {
            self.stays.clear();
            self.stays.extend(jobs.links[link].iter().map(|job| Stay {
                job: *job,
                duration: jobs.durations[*job],
                head: order.head(*job),
                latest: order.latest(*job),
            }));
            self.edges.clear();
            if !edges::find(&mut self.stays, &mut self.edges) {
                return None;
            }
            for edge in &self.edges {
                if !order.precedes(edge.one, edge.other) {
                    if !order.put(edge.one, edge.other) {
                        return None;
                    }
                    any = true;
                }
            }
        }
        Some(any)
    }
}

/// When all of this work is done at the earliest, one piece at a time; −∞ for no work.
fn done(work: &mut [Work]) -> f64 {
    work.sort_unstable_by(|one, other| one.from.total_cmp(&other.from));
    work.iter().fold(f64::NEG_INFINITY, |at, work| at.max(work.from) + work.duration)
}
