//! The invariants of a host's orders and announcements, checked at every single one, and what the checks remember.
//!
//! Numbers: 1 own link, 2 fabric links, 3 leases, 4 floor and expiry, 5 fairness, 6 slots, 7 nothing held for nothing,
//! 8 orders for recycled rows, 9 bounds, 10 steps, 11 storms, 12 tables, 13 stalls, 14 conservation, 15 a job's hosts hear each
//! other, 16 routes, 17 everybody is reached again, and asked by who is in doubt of its clock, 18 a healed core gets on.

use std::collections::BTreeMap;
use std::fmt;

use sluice_schedule::Now;
use sluice_schedule::message::{Announcement, Feedback, FlowPromise};
use sluice_schedule::units::{BootId, Bytes, FlowId, HolderId, HostId, LinkId, Nanos, Rate, Slot};

use crate::options::Options;
use crate::routes::LEARNING;
use crate::tables::Counted;
use crate::world::World;

/// A broken invariant.
#[derive(Debug)]
pub struct Violation {
    /// The number of the invariant.
    pub invariant: u8,
    /// When, from the beginning of the run.
    pub at: Nanos,
    /// The same in slots.
    pub slot: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} at {} (slot {} of the run): {}", self.invariant, self.at, self.slot, self.what)
    }
}

/// What a daemon heard last of a holder.
pub struct Heard {
    pub at: Nanos,
    /// The last answer whose views count.
    pub last: Feedback,
}

/// The processes of a holder, as a daemon's process sees them.
#[derive(Debug)]
struct Processes {
    last: BootId,
    changes: u32,
    /// Since when they are counted.
    since: Nanos,
}

/// What the checks remember.
pub struct Measures {
    /// Slots for which all must be well until calm bounds hold.
    pub rest: u64,
    pub heard: BTreeMap<(usize, HolderId), Heard>,
    processes: BTreeMap<(usize, HolderId), Processes>,
    /// Number of the last announcement to a holder that said nothing and watched nothing.
    questions: BTreeMap<(usize, HolderId), u64>,
    /// How often a flow was asked for since an answer came to its host.
    pub asked: BTreeMap<FlowId, u32>,
    spoken: BTreeMap<(usize, BootId, HolderId), (Slot, u64)>,
    /// Highest sequence number that reached a holder's process of a host's.
    pub reached: BTreeMap<(BootId, BootId), u64>,
    /// Since when a cable has been promised too much.
    pub over_since: Vec<Option<Nanos>>,
    pub last_kernel: Nanos,
    pub honest: bool,
    /// What double buffers counted, by process of the holder and host.
    pub counted: BTreeMap<(BootId, HostId), Counted>,
    /// For how many slots in a row links have been promised too much.
    pub promised_over: BTreeMap<(LinkId, bool), u64>,
    /// What each host said in its slot so far.
    said_in_slot: BTreeMap<usize, SaidInSlot>,
    /// When something moved last, or a host was told that something had.
    pub moved: Nanos,
    /// When the core could talk again, and how many rounds its job had finished twenty slots later.
    pub core_ready: Option<Nanos>,
    pub core_rounds: Option<u64>,
}

/// What a host said to all holders since its slot began, or for a slot's time of one that a step of the clock made longer.
#[derive(Clone, Copy, Debug)]
struct SaidInSlot {
    /// When it said the first of it, on its monotonic clock.
    first: Nanos,
    count: u64,
}

impl Measures {
    pub fn new(options: &Options, cables: usize) -> Measures {
        Measures {
            // Two for leases, two for views, two to be warm again.
            rest: 7 + if options.planes > 1 { LEARNING } else { 0 },
            heard: BTreeMap::new(),
            processes: BTreeMap::new(),
            questions: BTreeMap::new(),
            asked: BTreeMap::new(),
            spoken: BTreeMap::new(),
            reached: BTreeMap::new(),
            over_since: vec![None; cables],
            last_kernel: Nanos::ZERO,
            honest: options.jobs.iter().all(|job| job.claim_percent == 100),
            counted: BTreeMap::new(),
            promised_over: BTreeMap::new(),
            said_in_slot: BTreeMap::new(),
            moved: Nanos::ZERO,
            core_ready: None,
            core_rounds: None,
        }
    }
}

impl World {
    /// Do the bounds of the calm hold?
    pub fn settled(&self) -> bool {
        self.settled_at.is_some()
    }

    /// Looks whether they begin to: no clock is waited for, everybody who can be is connected, nobody is in doubt to whom nobody
    /// speaks, and that for a while. Such a host asks others seldom, so that it may take long to hear that its clock is right.
    pub fn settle(&mut self) {
        if self.settled_at.is_some() || self.options.core.is_some() {
            return;
        }
        if self.options.faultless() {
            self.settled_at = Some(self.now).filter(|now| *now >= self.slot.times(12));
            return;
        }
        if !self.calm {
            return;
        }
        let lasting = self.options.lasting.map(|lasting| lasting.host);
        let waits = |clock: &crate::actors::Clock, grid: &sluice_schedule::clock::SlotClock| {
            grid.until_edge(clock.wall(self.now)) > self.slot
        };
        let waiting = self.cluster.daemons.iter().any(|daemon| waits(&daemon.clock, &daemon.grid))
            || self.cluster.holders.iter().any(|holder| waits(&holder.clock, &holder.grid));
        let talking = (0..self.cluster.daemons.len()).filter(|host| Some(*host) != lasting);
        let reached = |host: usize| (0..self.cluster.holders.len()).all(|holder| self.is_connected(host, holder));
        let doubts = self.cluster.daemons.iter().any(|daemon| {
            let told = daemon.offsets.values().any(|shown| self.now.minus(shown.at) <= self.slot.times(3));
            daemon.brain.is_some() && !daemon.trust.is_trusted() && !told
        });
        if waiting || doubts || !talking.into_iter().all(reached) {
            self.unsettled = self.now;
        } else if self.now.minus(self.unsettled) >= self.slot.times(self.measures.rest) {
            self.settled_at = Some(self.now);
        }
    }

    /// At the end of a run: it came to rest, and what is measured over all of it is right.
    pub fn check_end(&mut self) {
        match self.options.core {
            Some(_) => self.check_core_end(),
            None if self.settled_at.is_none() => {
                self.blame(17, "not all hosts and holders are connected long after all faults".into());
            }
            None => self.check_windows(),
        }
    }

    /// A slot began for a daemon. Of a flow whose order has run out nothing from before counts any more.
    pub fn note_slot(&mut self, host: usize) {
        self.measures.said_in_slot.remove(&host);
        let daemon = &mut self.cluster.daemons[host];
        let mut orders = BTreeMap::new();
        for flow in self.cluster.kernel.flows.iter_mut().filter(|flow| flow.open && flow.host == host) {
            if let Some(rate) = flow.live_order(self.now) {
                orders.insert(flow.id, rate);
            } else if flow.order.is_some() {
                daemon.best.remove(&flow.id);
            }
        }
        daemon.orders.rotate_right(1);
        daemon.orders[0] = orders;
        for best in daemon.best.values_mut().filter(|best| best.last() != Some(&0.0)) {
            best.push(0.0);
            let surplus = best.len().saturating_sub(64);
            best.drain(..surplus);
        }
    }

    /// Best rates of the slot, and of the time since the daemon looked last.
    pub fn note_rates(&mut self, host: usize) {
        let own = self.cluster.kernel.flows.iter_mut().filter(|flow| flow.open && flow.host == host);
        for flow in own {
            let peak = std::mem::replace(&mut flow.peak, flow.rate);
            let best = self.cluster.daemons[host].best.entry(flow.id).or_insert_with(|| vec![0.0]);
            best.iter_mut().last().into_iter().for_each(|last| *last = last.max(peak));
        }
    }

    /// A daemon's process is new and has heard nothing.
    pub fn note_restarted(&mut self, host: usize) {
        self.measures.heard.retain(|(at, _), _| *at != host);
        self.measures.processes.retain(|(at, _), _| *at != host);
        self.measures.questions.retain(|(at, _), _| *at != host);
    }

    /// Was a holder's process another one four times within a minute? Until that is over nobody believes it.
    fn keeps_changing(&mut self, host: usize, holder: HolderId, boot: BootId) -> bool {
        let first = Processes { last: boot, changes: 0, since: Nanos::ZERO };
        let processes = self.measures.processes.entry((host, holder)).or_insert(first);
        if self.now.minus(processes.since) > Nanos::from_millis(60_000) {
            (processes.changes, processes.since) = (0, self.now);
        }
        processes.changes += u32::from(processes.last != boot);
        processes.last = boot;
        processes.changes >= 4
    }

    pub fn note_heard(&mut self, host: usize, holder: HolderId, feedback: &Feedback) {
        for answer in &feedback.routes {
            self.measures.asked.remove(&answer.flow);
        }
        if self.keeps_changing(host, holder, feedback.boot) {
            return;
        }
        // Whoever only asked for a slot watched no links.
        let asked = self.measures.questions.get(&(host, holder)) == Some(&feedback.seq);
        if asked && self.cluster.daemons[host].trust.is_trusted() {
            return;
        }
        match self.measures.heard.get_mut(&(host, holder)) {
            Some(known) => {
                known.at = self.now;
                if feedback.warm {
                    known.last = feedback.clone();
                }
            }
            None => {
                self.measures.heard.insert((host, holder), Heard { at: self.now, last: feedback.clone() });
            }
        }
    }

    /// Invariants 1, 4 and 10, after each single order.
    pub fn check_order(&mut self, host: usize, now: Now, at: usize, before: Option<Rate>) {
        let rate = self.cluster.kernel.flows[at].order.map_or(Rate::ZERO, |order| order.rate);
        let kernel = &self.cluster.kernel;
        let flow = &kernel.flows[at];
        let slowest = flow.path.iter().map(|&link| kernel.cables[link].capacity).min().unwrap_or(Rate::ZERO);
        let config = &self.cluster.daemons[host].config;
        // Whoever ever crossed a link may still be counted there, by a lease or an old view; where a clock was stepped, twice
        // in a double buffer.
        let twins = &self.cluster.twins;
        let crowd = |link: &usize| {
            let crosses = |own: &usize| own == link || twins.get(own) == Some(link);
            let flows = kernel.flows.iter().filter(|other| other.path.iter().any(crosses)).count() as u64;
            if self.options.double_buffer { 2 * flows } else { flows }
        };
        let floor = |link: &usize| {
            let (capacity, crowd) = (kernel.cables[*link].capacity, crowd(link).max(1));
            let alone = config.floor.max(capacity.times(config.floor_ratio)).min(capacity.share(10));
            alone
                .min(capacity.share(10 * crowd).max(Rate::mbps(1)))
                .min(capacity.times(1.0 - config.reserve).share(crowd))
        };
        let least = flow.path.iter().map(floor).min().unwrap_or(Rate::ZERO);
        if rate > slowest || rate < Rate(least.0 - least.0 / 100) {
            return self.blame(4, format!("host {host} orders {rate} for {}, path {slowest}, floor {least}", flow.id));
        }
        // Lowering one order of several cannot do harm; what is raised must fit.
        if before.is_none_or(|before| rate > before) {
            self.check_egress(host);
        }
        self.check_step(host, now, at, rate);
    }

    /// Invariant 1: what is ordered on the own link fits, but for flows without demand, which keep their floor.
    pub fn check_egress(&mut self, host: usize) {
        let daemon = &self.cluster.daemons[host];
        let Some(brain) = &daemon.brain else { return };
        // A new daemon does not know the orders of the dead one until it has replaced them all.
        if daemon.life > 0 && self.now.minus(daemon.born) < self.slot {
            return;
        }
        let kernel = &self.cluster.kernel;
        let own = kernel.flows.iter().filter(|flow| flow.open && flow.host == host);
        let sum: u64 = own.filter_map(|flow| flow.live_order(self.now)).map(|rate| rate.0).sum();
        let idle = brain.flows().filter(|flow| flow.demand <= flow.delivered).count() as u64;
        let egress = Rate::mbps(self.options.capacity_mbps);
        let floor = daemon.config.floor.max(egress.times(daemon.config.floor_ratio)).min(egress.share(10));
        if sum > egress.0 + idle * floor.0 {
            self.blame(1, format!("host {host} ordered {} on its own {egress} in all", Rate(sum)));
        }
    }

    fn check_step(&mut self, host: usize, now: Now, at: usize, rate: Rate) {
        let daemon = &self.cluster.daemons[host];
        let flow = &self.cluster.kernel.flows[at];
        let Some(brain) = &daemon.brain else { return };
        let busy: Vec<_> = brain.flows().filter(|flow| flow.demand > flow.delivered).collect();
        let Some(status) = busy.iter().find(|status| status.spec.flow == flow.id) else { return };
        let slots = |n: f64| self.slot.scaled(n);
        let (mut stale, mut share) = (false, u64::MAX);
        for hop in &status.spec.path {
            let own = busy.iter().filter(|other| other.spec.path.iter().any(|h| h.link == hop.link)).count() as u64;
            let heard = hop.holder.and_then(|holder| self.measures.heard.get(&(host, holder)));
            // What was said longer ago than the horizon is forgotten (P-15): there the own flows alone make the share, also
            // where the view of another link of the path is younger.
            let known = heard.filter(|heard| self.now.minus(heard.at) < slots(self.options.horizon as f64));
            let view = known.and_then(|known| known.last.links.iter().find(|view| view.link == hop.link));
            // A promise says when it ends (within half a millisecond); after that it takes nothing of a share.
            let lasts = |until: Nanos| until == Nanos::ZERO || until > now.wall.plus(Nanos(500_000));
            let counts = |flow: &&FlowPromise| flow.rate(0) > Rate::ZERO && lasts(flow.until);
            let others = view.map_or(0, |view| view.flows.iter().filter(counts).count());
            let age = heard.map(|heard| self.now.minus(heard.at).minus(now.into_slot));
            // Held views only: later ones are given up slot by slot, and without any the own links alone decide.
            let held = age.is_some_and(|age| age > slots(1.6) && age < slots(self.options.horizon as f64 - 2.0));
            stale |= hop.holder.is_some() && held;
            share = share.min(hop.capacity.0 / (own + others as u64));
        }
        let before = daemon.orders[0].get(&flow.id).copied().unwrap_or(Rate::ZERO);
        let best = daemon.best.get(&flow.id).into_iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
        let limit = (before.0 as f64).max(best) * daemon.config.max_step_up;
        // What a look sees may be a twelfth of a slot old, so that between two of them more seems to have come than did.
        if stale && daemon.trust.is_trusted() && rate.0 as f64 > limit.max(share as f64) * 1.1 + 1.0 {
            let why = format!("had {before}, delivered {}, share {}", Rate(best as u64), Rate(share));
            self.blame(10, format!("host {host} raises {} to {rate} on an old view: {why}", flow.id));
        }
    }

    /// Invariant 17: a host in doubt of its clock asks those whom its flows need in every slot; how else would it hear that it is
    /// right?
    pub fn check_questions(&mut self, host: usize) {
        let daemon = &mut self.cluster.daemons[host];
        daemon.speechless = if daemon.trust.is_trusted() { 0 } else { daemon.speechless + 1 };
        let speechless = daemon.speechless;
        let Some(brain) = &self.cluster.daemons[host].brain else { return };
        let needs = |id: HolderId| {
            let place = self.cluster.holders.iter().position(|holder| holder.id == id);
            place.is_some_and(|place| self.is_connected(host, place))
        };
        let asks = brain.flows().flat_map(|flow| &flow.spec.path).filter_map(|hop| hop.holder).any(needs);
        if asks && speechless > 4 {
            self.blame(17, format!("host {host} is in doubt of its clock and asked nobody for {speechless} slots"));
        }
    }

    /// Invariants 6 and 14 of what a host says.
    pub fn check_announcement(&mut self, host: usize, holder: HolderId, said: &Announcement) {
        self.cluster.daemons[host].speechless = 0;
        for question in &said.routes {
            *self.measures.asked.entry(question.flow).or_default() += 1;
        }
        if said.flows.is_empty() && said.jobs.is_empty() && said.watch.is_empty() && said.routes.is_empty() {
            self.measures.questions.insert((host, holder), said.seq);
        }
        let key = (host, said.boot, holder);
        if let Some((slot, seq)) = self.measures.spoken.insert(key, (said.slot, said.seq))
            && (said.slot.since(slot) < 0 || said.seq <= seq)
        {
            return self
                .blame(6, format!("host {host} says slot {} after {slot}, seq {} after {seq}", said.slot, said.seq));
        }
        self.report.announcements += 1;
        for promise in &said.flows {
            let Some(at) = self.cluster.kernel.find(promise.flow) else { continue };
            let real = self.cluster.kernel.flows[at].delivered;
            let long = promise.rates.len() > self.options.horizon;
            if long || promise.delivered > promise.demand || promise.delivered.0 as f64 > real + 1.0 {
                let what = format!("{} of {}, really {}", promise.delivered, promise.demand, Bytes(real as u64));
                return self.blame(14, format!("host {host} says {} has delivered {what}", promise.flow));
            }
        }
    }

    /// Invariant 11 of messages to one holder.
    pub fn check_storm(&mut self, host: usize, now: Now, holder: HolderId) {
        let gap = self.cluster.daemons[host].config.announce_gap;
        let spoken = self.cluster.daemons[host].spoken.entry(holder).or_default();
        // By the monotonic clock: a step of the other one makes a slot longer.
        spoken.push(now.mono);
        spoken.retain(|at| now.mono.minus(*at) < self.slot);
        let (count, most) = (spoken.len() as u64, self.slot.0 / gap.0 + 2);
        self.check_quiet(host, now);
        if count > most && self.calm {
            self.blame(11, format!("host {host} says {count} things to {holder} within a slot"));
        }
    }

    /// Invariant 11: where nothing has moved for three slots a host says one thing to each holder in a slot, and two more. A
    /// round of which more is claimed than is sent goes on for its hosts: that it is promoted, or that others' flows there are
    /// over by their word, is news, which each holder is told once. (Where tables keep sums alone its hosts' offers may swing for ever, and
    /// then the least gap alone bounds what is said.) Where a clock that was set back is waited for, a slot lasts
    /// longer, and what is said in it is counted anew after a slot's time.
    fn check_quiet(&mut self, host: usize, now: Now) {
        let began = SaidInSlot { first: now.mono, count: 0 };
        let said = self.measures.said_in_slot.entry(host).or_insert(began);
        if now.mono.minus(said.first) >= self.slot {
            *said = began;
        }
        said.count += 1;
        let said = said.count;
        let running = self.cluster.jobs.iter().any(|job| job.running);
        let still = !running && self.now.minus(self.measures.moved) > self.slot.times(3);
        let goes_on = self.options.jobs.iter().any(|job| job.claim_percent > 100);
        let most = self.cluster.holders.len() as u64 * if goes_on { 2 } else { 1 } + 2;
        let swings = goes_on && self.options.double_buffer;
        if still {
            self.report.most_said_at_rest = self.report.most_said_at_rest.max(said);
        }
        if still && said > most && self.calm && !swings {
            self.blame(11, format!("host {host} says {said} things in a slot in which nothing moves, {most} are due"));
        }
    }
}
