//! A network that is shared out again and again: flows come, go and change, and only the rates that may change with
//! them are computed anew.
//!
//! A flow is held back by its own cap, by a flow that it is tied to, or by a full link. So a change reaches other flows
//! only through full links and ties: from what was touched, those are followed to the flows they lead to. The flows
//! found share what the others leave; if that fills a link that was not full, its flows are found too, and all are
//! shared out again. The rates are those of the whole network shared out from scratch.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::Share;

/// From this part of its capacity on a link counts as full. More than rounding adds up to over a long run: a link that
/// is called full too early only makes more flows be looked at.
const FULL: f64 = 1.0 - 1e-6;
/// After so many times the rest that hangs together is taken as a whole.
const TRIES: u32 = 6;
/// Stands for the search that found a flow which does not send: no search has this number.
const SILENT: u64 = u64::MAX;

/// What a flow may have, whoever it is tied to; as in [`Share::flow`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Lower classes are more urgent.
    pub class: u32,
    /// Its share among its class, above 0.
    pub weight: f64,
    /// Its rate at most; infinite for none.
    pub cap: f64,
}

/// What the caller of [`Network::share`] knows of its flows. Answers may change between two sharings for flows that
/// were touched; ties must not run in a circle.
pub trait Claims {
    /// What this flow may have now.
    fn claim(&self, flow: u32) -> Claim;
    /// Names the flows that this one is tied to now, with the ratio to their rates; `None`: it gets nothing, as where
    /// the other one does not send.
    fn ties(&self, flow: u32, each: impl FnMut(u32, Option<f64>));
    /// The flows that are ever tied to this one.
    fn followers(&self, flow: u32) -> &[u32];
    /// May `flow` be tied to `to` now? True too often costs time and nothing else.
    fn rides(&self, flow: u32, to: u32) -> bool;
}

/// A stretch in the list of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path(u32, u32);

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    path: Path,
    rate: f64,
    /// The search that found it last, or [`SILENT`].
    found: u64,
    /// Its place in the last problem.
    place: u32,
}

/// What is known of a link.
#[derive(Clone, Debug, Default)]
struct Link {
    capacity: f64,
    /// Flows that send over it, in no order, and the sum of their rates; to rounding.
    flows: Vec<u32>,
    load: f64,
    /// In which search all of its flows were taken in.
    closed: u64,
    /// In which problem it has its place, and which.
    built: u64,
    place: u32,
    /// What flows outside the problem send over it.
    outside: f64,
}

/// Links, the flows that send over them, and their rates. Flows have numbers that the caller chooses, small ones.
#[derive(Debug, Default)]
pub struct Network {
    flows: Vec<Flow>,
    links: Vec<Link>,
    /// Links of all paths, one after the other.
    hops: Vec<u32>,
    paths: HashMap<Box<[u32]>, Path>,
    share: Share,
    /// Where the next sharing begins.
    dirty_flows: Vec<u32>,
    dirty_links: Vec<u32>,
    whole: bool,
    search: u64,
    problem: u64,
    touched: Vec<u32>,
    /// The flows that the present search has found, and how many of them were asked whom they reach.
    part: Vec<u32>,
    looked: usize,
    /// Links of the problem that flows outside it use too.
    open: Vec<u32>,
}

impl Network {
    /// Nothing flows over links of these capacities.
    pub fn new(capacities: impl IntoIterator<Item = f64>) -> Network {
        let links = capacities.into_iter().map(|capacity| Link { capacity, ..Link::default() });
        Network { links: links.collect(), ..Network::default() }
    }

    /// From now on every sharing is one of the whole network. The rates must be the same: this is for tests.
    pub fn share_whole(&mut self) {
        self.whole = true;
    }

    /// Remembers a path; the same path twice is one.
    pub fn path_of(&mut self, links: impl Iterator<Item = u32>) -> Path {
        let links: Box<[u32]> = links.collect();
        if let Some(&known) = self.paths.get(&links) {
            return known;
        }
        let from = self.hops.len() as u32;
        self.hops.extend_from_slice(&links);
        let path = Path(from, self.hops.len() as u32);
        self.paths.insert(links, path);
        path
    }

    /// Puts a flow that does not send yet in this number's place.
    pub fn put(&mut self, flow: u32, path: Path) {
        let at = flow as usize;
        let new = Flow { path, rate: 0.0, found: SILENT, place: 0 };
        if self.flows.len() <= at {
            self.flows.resize(at + 1, new);
        }
        self.flows[at] = new;
    }

    /// The links of a flow.
    pub fn path(&self, flow: u32) -> &[u32] {
        let Path(from, to) = self.flows[flow as usize].path;
        &self.hops[from as usize..to as usize]
    }

    /// The flow sends from now on; it gets a rate in the next sharing.
    pub fn add(&mut self, flow: u32) {
        self.flows[flow as usize].found = 0;
        self.enter_links(flow);
        self.touch(flow);
    }

    /// The flow does not send any more. Flows that were tied to it are the caller's to touch.
    pub fn remove(&mut self, flow: u32) {
        self.leave_links(flow);
        self.flows[flow as usize].rate = 0.0;
        self.flows[flow as usize].found = SILENT;
    }

    /// The flow goes over other links from now on.
    pub fn reroute(&mut self, flow: u32, path: Path) {
        let sends = self.flows[flow as usize].found != SILENT;
        if sends {
            self.leave_links(flow);
        }
        self.flows[flow as usize].path = path;
        if sends {
            self.enter_links(flow);
            self.touch(flow);
        }
    }

    /// Something about the flow is new: the next sharing begins here too.
    pub fn touch(&mut self, flow: u32) {
        self.dirty_flows.push(flow);
    }

    /// Gives a flow that sends another rate until the next sharing, at most what the last one gave; it is touched.
    pub fn slow(&mut self, flow: u32, rate: f64) {
        self.loosen(flow);
        self.set_rate(flow, rate);
        self.touch(flow);
    }

    /// True when something was touched since rates were computed.
    pub fn is_dirty(&self) -> bool {
        !self.dirty_flows.is_empty() || !self.dirty_links.is_empty()
    }

    /// Computes the rates that may change by what was touched since the last time; false if nothing was.
    pub fn share(&mut self, claims: &impl Claims) -> bool {
        if !self.is_dirty() {
            return false;
        }
        self.begin_search(claims);
        for tries in 0.. {
            self.follow(claims, tries >= TRIES);
            self.build(claims);
            self.share.solve();
            if !self.close_filled() {
                break;
            }
        }
        for at in 0..self.part.len() {
            let (flow, rate) = (self.part[at], self.share.rate(at));
            if rate != self.flows[flow as usize].rate {
                self.set_rate(flow, rate);
            }
        }
        true
    }

    /// The flows that the last sharing looked at, with their rates; all others kept theirs.
    pub fn shared(&self) -> impl Iterator<Item = (u32, f64)> {
        self.part.iter().map(|&flow| (flow, self.flows[flow as usize].rate))
    }

    /// The flows that were touched before the last sharing, each perhaps more than once.
    pub fn touched(&self) -> &[u32] {
        &self.touched
    }

    #[inline]
    fn hops_of(&self, flow: u32) -> std::ops::Range<usize> {
        let Path(from, to) = self.flows[flow as usize].path;
        from as usize..to as usize
    }

    fn enter_links(&mut self, flow: u32) {
        let rate = self.flows[flow as usize].rate;
        for hop in self.hops_of(flow) {
            let link = &mut self.links[self.hops[hop] as usize];
            link.flows.push(flow);
            link.load += rate;
        }
    }

    fn leave_links(&mut self, flow: u32) {
        self.loosen(flow);
        let rate = self.flows[flow as usize].rate;
        for hop in self.hops_of(flow) {
            let link = &mut self.links[self.hops[hop] as usize];
            if let Some(at) = link.flows.iter().position(|&f| f == flow) {
                link.flows.swap_remove(at);
            }
            // What an empty link carries is known exactly.
            link.load = if link.flows.is_empty() { 0.0 } else { link.load - rate };
        }
    }

    /// A flow gives up bandwidth: only where a link is full does anybody wait for it.
    fn loosen(&mut self, flow: u32) {
        for hop in self.hops_of(flow) {
            if self.is_full(self.hops[hop]) {
                self.dirty_links.push(self.hops[hop]);
            }
        }
    }

    fn set_rate(&mut self, flow: u32, rate: f64) {
        let more = rate - std::mem::replace(&mut self.flows[flow as usize].rate, rate);
        for hop in self.hops_of(flow) {
            self.links[self.hops[hop] as usize].load += more;
        }
    }

    /// True if this link may hold back the flows on it.
    #[inline]
    fn is_full(&self, link: u32) -> bool {
        let link = &self.links[link as usize];
        link.load >= link.capacity * FULL
    }

    /// Touched flows, and those of touched links.
    fn begin_search(&mut self, claims: &impl Claims) {
        self.search += 1;
        self.part.clear();
        self.looked = 0;
        std::mem::swap(&mut self.touched, &mut self.dirty_flows);
        self.dirty_flows.clear();
        for at in 0..self.touched.len() {
            self.reach(self.touched[at]);
            self.guess(self.touched[at], claims);
        }
        while let Some(link) = self.dirty_links.pop() {
            self.close(link);
        }
        if self.whole {
            (0..self.flows.len() as u32).for_each(|flow| self.reach(flow));
            (0..self.links.len() as u32).for_each(|link| self.close(link));
        }
    }

    /// A touched flow without a cap and without a full link will fill one: most likely the narrowest.
    fn guess(&mut self, flow: u32, claims: &impl Claims) {
        let silent = self.flows[flow as usize].found == SILENT;
        if silent || claims.claim(flow).cap.is_finite() || self.path(flow).iter().any(|&link| self.is_full(link)) {
            return;
        }
        let share = |link: u32| self.links[link as usize].capacity / self.links[link as usize].flows.len() as f64;
        let narrowest = self.path(flow).iter().copied().min_by(|&a, &b| share(a).total_cmp(&share(b)));
        if let Some(link) = narrowest {
            self.close(link);
        }
    }

    /// From the flows found so far to those that they hold back or that hold them back. With `all` through every link.
    fn follow(&mut self, claims: &impl Claims, all: bool) {
        if all {
            self.looked = 0;
        }
        while let Some(&flow) = self.part.get(self.looked) {
            self.looked += 1;
            for hop in self.hops_of(flow) {
                let link = self.hops[hop];
                if all || self.is_full(link) {
                    self.close(link);
                }
            }
            claims.ties(flow, |pred, _| self.reach(pred));
            for &next in claims.followers(flow) {
                let found = self.flows[next as usize].found;
                if found != self.search && found != SILENT && claims.rides(next, flow) {
                    self.reach(next);
                }
            }
        }
        // Sums run in order of number, whatever the way a flow was found.
        self.part.sort_unstable();
        self.looked = self.part.len();
    }

    #[inline]
    fn reach(&mut self, flow: u32) {
        let found = &mut self.flows[flow as usize].found;
        if *found != self.search && *found != SILENT {
            *found = self.search;
            self.part.push(flow);
        }
    }

    /// All flows of a link are shared out anew.
    #[inline]
    fn close(&mut self, link: u32) {
        let link = &mut self.links[link as usize];
        if std::mem::replace(&mut link.closed, self.search) == self.search {
            return;
        }
        for &flow in &link.flows {
            if std::mem::replace(&mut self.flows[flow as usize].found, self.search) != self.search {
                self.part.push(flow);
            }
        }
    }

    /// Puts `part` to the problem of sharing.
    fn build(&mut self, claims: &impl Claims) {
        self.share.clear();
        self.problem += 1;
        self.open.clear();
        for (place, &flow) in self.part.iter().enumerate() {
            self.flows[flow as usize].place = place as u32;
        }
        for &flow in &self.part {
            let Flow { path: Path(from, to), rate, .. } = self.flows[flow as usize];
            for &at in &self.hops[from as usize..to as usize] {
                let link = &mut self.links[at as usize];
                let closed = link.closed == self.search;
                if link.built != self.problem {
                    link.built = self.problem;
                    link.place = self.share.link(link.capacity);
                    if !closed {
                        link.outside = link.load;
                        self.open.push(at);
                    }
                }
                if !closed {
                    link.outside -= rate;
                }
                self.share.hop(link.place);
            }
            let Claim { class, weight, mut cap } = claims.claim(flow);
            claims.ties(flow, |pred, ratio| match ratio {
                Some(ratio) => self.share.tie(self.flows[pred as usize].place, ratio),
                None => cap = 0.0,
            });
            self.share.flow(class, weight, cap);
        }
        for &link in &self.open {
            let link = &self.links[link as usize];
            self.share.narrow(link.place, link.capacity - link.outside.max(0.0));
        }
    }

    /// Takes in all flows of the links that were not full and would be; true if there are any.
    fn close_filled(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.open.len() {
            let link = &self.links[self.open[at] as usize];
            if self.share.left(link.place) <= link.capacity * (1.0 - FULL) {
                self.close(self.open[at]);
                any = true;
            }
        }
        any
    }
}
