//! What each host would have seen, and written into its flight record, while a scheduler runs: counts of sockets that follow
//! from what holds a fluid's flow, slot by slot, with noise. It also does to flows what a case injects.

use std::collections::BTreeMap;

use sluice_attribution::Hosts;
use sluice_attribution::seen::{ArrivalSeen, FlowSeen, Held, JobBytes, JobSeen, Limits, LinkSeen, Mark, Seen};
use sluice_scenario::random::Stream;
use sluice_scenario::{LinkIx, NodeIx, Scenario};
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Rate};

use super::draw::{Case, Injected};
use super::progress::{bound, carried};
use crate::scheduler::{Change, Needs, Orders, Scheduler};
use crate::sluice::SluiceScheduler;
use crate::world::{FlowIx, FlowPhase, JobIx, World};

/// Between two looks at all flows.
const LOOK: Nanos = Nanos::from_millis(2);
/// Payload of a segment.
const SEGMENT: f64 = 1448.0;
/// A flow within this part of a bound is at it.
const AT: f64 = 0.97;
/// Counts are wrong by so much.
const NOISE: f64 = 0.05;
/// The kernel was not asked, the slot was not written, in this part of all slots.
const NOT_ASKED: f64 = 0.1;
const NOT_WRITTEN: f64 = 0.01;
/// The clock of a host is wrong by up to this.
const CLOCK: f64 = 2e6;

/// The scheduler that is watched.
pub(super) enum Inner {
    Sluice(Box<SluiceScheduler>),
    Other(Box<dyn Scheduler>),
}

impl Inner {
    fn as_dyn(&self) -> &dyn Scheduler {
        match self {
            Inner::Sluice(of) => &**of,
            Inner::Other(of) => &**of,
        }
    }
    fn as_mut(&mut self) -> &mut dyn Scheduler {
        match self {
            Inner::Sluice(of) => &mut **of,
            Inner::Other(of) => &mut **of,
        }
    }
}

/// Of one flow in the slot under way.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Delivered since it exists, at the last look.
    carried: f64,
    delivered: f64,
    idle: f64,
    receiver: f64,
    resent: f64,
    /// ns × ns, to be divided by the time.
    queueing: f64,
    /// Its sender had something to send that it did not, though it had come.
    lazy: bool,
}

/// A scheduler with hosts that write down what they see.
pub(super) struct Watching {
    inner: Inner,
    injected: Injected,
    /// Bytes per second that everybody believes of the links.
    believed: Vec<f64>,
    random: Stream,
    last: Nanos,
    edge: Nanos,
    counts: BTreeMap<usize, Count>,
    /// Bytes of each job (`None`: of nobody's) on each link in the slot under way.
    carried: BTreeMap<(usize, Option<usize>), f64>,
    held_until: Nanos,
    marks: Vec<(NodeIx, JobIx, Mark)>,
    queue: f64,
    written: BTreeMap<usize, Vec<Seen>>,
}

impl Watching {
    pub fn new(case: &Case, disturbed: bool, inner: Inner) -> Watching {
        let mut random = Stream::new(case.seed, if disturbed { "disturbed" } else { "usual" });
        let queue = 3e6 + 7e6 * random.uniform();
        Watching {
            inner,
            injected: if disturbed { case.injected } else { Injected::Nothing },
            believed: case.usual.network.links.iter().map(|link| link.rate.0 as f64 / 8.0).collect(),
            random,
            last: Nanos::ZERO,
            edge: Nanos::ZERO,
            counts: BTreeMap::new(),
            carried: BTreeMap::new(),
            held_until: Nanos::ZERO,
            marks: Vec::new(),
            queue,
            written: BTreeMap::new(),
        }
    }

    /// What the hosts wrote, each by its own clock.
    pub fn records(mut self, scenario: &Scenario) -> Hosts {
        let mut hosts = Hosts::default();
        for (host, mut slots) in std::mem::take(&mut self.written) {
            let off = Nanos((CLOCK * self.random.uniform()) as u64);
            for slot in &mut slots {
                (slot.from, slot.to) = (slot.from.plus(off), slot.to.plus(off));
                slot.jobs.iter_mut().flat_map(|job| &mut job.marks).for_each(|mark| mark.at = mark.at.plus(off));
            }
            hosts.add(scenario.network.name(NodeIx(host)), slots);
        }
        hosts
    }

    fn noisy(&mut self, value: f64) -> f64 {
        (value * (1.0 + NOISE * self.random.normal())).max(0.0)
    }

    fn capacity(&self, path: &[LinkIx]) -> f64 {
        path.iter().filter_map(|link| self.believed.get(link.0)).copied().fold(f64::INFINITY, f64::min)
    }

    /// What happened since the last look, at the rates that held until now.
    fn look(&mut self, world: &World<'_>, orders: &Orders) {
        let time = world.now.minus(self.last).0 as f64;
        if time <= 0.0 {
            return;
        }
        self.last = world.now;
        let flows: Vec<usize> = (0..world.flows.len()).filter(|at| !world.flows[*at].path.is_empty()).collect();
        let mut load: BTreeMap<usize, f64> = BTreeMap::new();
        for at in &flows {
            let rate = world.rate(FlowIx(*at));
            world.flows[*at].path.iter().for_each(|link| *load.entry(link.0).or_default() += rate);
        }
        for at in flows {
            let flow = &world.flows[at];
            let now = carried(world, FlowIx(at));
            let capacity = self.capacity(&flow.path);
            let tight = bound(world, FlowIx(at)) || flow.phase == FlowPhase::Waiting;
            let capped = world.rate(FlowIx(at)) >= AT * orders.get(FlowIx(at)).cap;
            let full = flow.path.iter().any(|link| {
                let real = world.capacity.get(link.0).copied().unwrap_or(f64::INFINITY);
                load.get(&link.0).copied().unwrap_or(0.0) >= AT * real
            });
            let held = orders.get(FlowIx(at)).hold > world.now;
            let (sends, takes) = self.slowed(world, FlowIx(at));
            let queue = self.queue;
            let count = self.counts.entry(at).or_insert_with(|| Count { carried: now, ..Count::default() });
            let moved = (now - count.carried).max(0.0);
            count.carried = now;
            count.delivered += moved;
            count.resent += moved * flow.loss / (1.0 - flow.loss).max(0.01) / SEGMENT;
            let busy = (moved / (1.0 - flow.loss).max(0.01) * 1e9 / capacity).min(time);
            let sending = flow.phase == FlowPhase::Active;
            match () {
                () if flow.job.is_none() => {}
                () if !sending || held || tight => count.idle += time - busy,
                () if capped && sends => {
                    count.idle += time - busy;
                    count.lazy = true;
                }
                () if capped && takes => count.receiver += time - busy,
                () => {}
            }
            // A window that losses keep small, and a rate that is ordered, leave no queue.
            let stands = full && !tight && flow.loss == 0.0;
            count.queueing += time * if stands { queue } else { 1e5 };
            for link in &flow.path {
                *self.carried.entry((link.0, flow.job.map(|job| job.0))).or_default() += moved;
            }
        }
    }

    /// Is a flow of the asked job slowed by its sender, or by its receiver?
    fn slowed(&self, world: &World<'_>, flow: FlowIx) -> (bool, bool) {
        let Some(of) = world.flows.get(flow.0).filter(|of| of.job == Some(JobIx(0))) else { return (false, false) };
        match self.injected {
            Injected::Sends { host, .. } => (of.src == host, false),
            Injected::Takes { host, .. } => (false, of.dst == host),
            _ => (false, false),
        }
    }

    fn inject(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        let began = changes.contains(&Change::RoundBegan(JobIx(0)));
        if let Injected::Computes { more, .. } = self.injected
            && began
        {
            self.held_until = world.now.plus(more);
        }
        for (flow, of) in world.flows_of(JobIx(0)) {
            let mut order = orders.get(flow);
            match self.injected {
                Injected::Computes { host, .. } if of.src == host => order.hold = self.held_until,
                Injected::Sends { host, rate } if of.src == host => order.cap = order.cap.min(rate),
                Injected::Takes { host, rate } if of.dst == host => order.cap = order.cap.min(rate),
                _ => {}
            }
            orders.set(flow, order);
        }
    }

    fn note_marks(&mut self, world: &World<'_>, changes: &[Change]) {
        for change in changes {
            let (job, ended) = match change {
                Change::RoundBegan(job) => (*job, false),
                Change::RoundEnded(job) => (*job, true),
                _ => continue,
            };
            let Some(state) = world.jobs.get(job.0) else { continue };
            let round = state.rounds + u64::from(!ended);
            let members = state.placement.workers.iter().chain(&state.placement.servers);
            let mut members: Vec<NodeIx> = members.copied().collect();
            members.sort_unstable();
            members.dedup();
            for host in members {
                let later = matches!(self.injected, Injected::Computes { host: slow, .. } if slow == host);
                let at = if later && !ended && job == JobIx(0) { self.held_until } else { world.now };
                self.marks.push((host, job, Mark { at, round, ended }));
            }
        }
    }

    /// A slot is over: every host with a job writes down what it saw.
    fn write(&mut self, world: &World<'_>, orders: &Orders) {
        let (from, to) = (std::mem::replace(&mut self.edge, world.now), world.now);
        if to <= from {
            return;
        }
        let counts = std::mem::take(&mut self.counts);
        for (at, count) in &counts {
            self.counts.insert(*at, Count { carried: count.carried, ..Count::default() });
        }
        let links = std::mem::take(&mut self.carried);
        for host in 0..world.scenario.network.hosts.len() {
            let seen = self.seen(world, orders, NodeIx(host), (from, to), &counts, &links);
            if let Some(seen) = seen.filter(|_| self.random.uniform() >= NOT_WRITTEN) {
                self.written.entry(host).or_default().push(seen);
            }
        }
        self.marks.retain(|(.., mark)| mark.at > to);
    }

    fn seen(
        &mut self,
        world: &World<'_>,
        orders: &Orders,
        host: NodeIx,
        (from, to): (Nanos, Nanos),
        counts: &BTreeMap<usize, Count>,
        carried: &BTreeMap<(usize, Option<usize>), f64>,
    ) -> Option<Seen> {
        let mut seen = Seen { from, to, enforces: matches!(self.inner, Inner::Sluice(_)), ..Seen::default() };
        let mut places: BTreeMap<usize, u32> = BTreeMap::new();
        for (at, state) in world.jobs.iter().enumerate() {
            let members = state.placement.workers.iter().chain(&state.placement.servers);
            if state.started.is_none() || state.ended.is_some() || !members.clone().any(|member| *member == host) {
                continue;
            }
            let marks = self.marks.iter().filter(|(of, job, mark)| (*of, job.0) == (host, at) && mark.at <= to);
            let marks = marks.map(|(.., mark)| *mark).collect();
            let name = world.scenario.jobs.get(at).map_or_else(String::new, |job| job.id.clone());
            places
                .insert(at, push(&mut seen.jobs, JobSeen { id: JobId(at as u64), name, marks, ..JobSeen::default() }));
        }
        if places.is_empty() {
            return None;
        }
        let length = to.minus(from).0 as f64;
        let mut links: BTreeMap<usize, u32> = BTreeMap::new();
        let out = world.scenario.network.out(host).first().copied().unwrap_or(LinkIx(0));
        self.link(world, host, out, false, &places, carried, length, &mut links, &mut seen);
        self.link(world, host, LinkIx(out.0 ^ 1), true, &places, carried, length, &mut links, &mut seen);
        let mut peers: BTreeMap<NodeIx, u32> = BTreeMap::new();
        for (at, count) in counts {
            let Some(flow) = world.flows.get(*at) else { continue };
            let Some(job) = flow.job.and_then(|job| places.get(&job.0)).copied() else { continue };
            let mut peer = |node: NodeIx, seen: &mut Seen| {
                let name = world.scenario.network.name(node).to_owned();
                *peers.entry(node).or_insert_with(|| push(&mut seen.peers, name))
            };
            if flow.dst == host && count.delivered > 0.0 {
                let (peer, link) = (peer(flow.src, &mut seen), links.get(&(out.0 ^ 1)).copied());
                // Who sends slowly leaves what has come.
                let lazy = counts
                    .iter()
                    .any(|(of, count)| count.lazy && world.flows.get(*of).is_some_and(|of| of.src == host));
                let received = Bytes(self.noisy(count.delivered) as u64);
                seen.arrivals.push(ArrivalSeen {
                    job,
                    peer,
                    link,
                    received,
                    unread: Bytes(if lazy { 64 << 20 } else { 0 }),
                });
            }
            let under_way = matches!(flow.phase, FlowPhase::Active | FlowPhase::Waiting);
            if flow.src != host || count.delivered <= 0.0 && !under_way {
                continue;
            }
            let peer = peer(flow.dst, &mut seen);
            let mut path = Vec::new();
            for link in &flow.path {
                path.push(self.link(world, host, *link, false, &places, carried, length, &mut links, &mut seen));
            }
            let time = |of: f64| Nanos(of as u64);
            let limits = Limits {
                idle: time(self.noisy(count.idle)),
                receiver: time(self.noisy(count.receiver)),
                buffer: Nanos::ZERO,
            };
            let held = match &self.inner {
                Inner::Sluice(of) => of.why(host, FlowIx(*at)).map_or(Held::Not, Held::of),
                Inner::Other(_) => Held::Not,
            };
            let cap = orders.get(FlowIx(*at)).cap;
            seen.flows.push(FlowSeen {
                flow: FlowId(*at as u64),
                job,
                peer,
                path,
                ordered: if seen.enforces && cap.is_finite() { Rate((cap * 8.0) as u64) } else { Rate::ZERO },
                delivered: Bytes(self.noisy(count.delivered) as u64),
                remaining: Bytes(flow.remaining() as u64),
                queued: Bytes(if !under_way { 0 } else { written(count.idle < length / 2.0) }),
                resent: self.noisy(count.resent) as u64,
                segment: Bytes(SEGMENT as u64),
                queueing: time(self.noisy(count.queueing / length)),
                rtt_min: time(self.noisy(2e5)),
                held,
                limits: (self.random.uniform() >= NOT_ASKED).then_some(limits),
            });
        }
        Some(seen)
    }

    /// A link's place; `inwards`: the host receives by it, and reads its card's counter.
    #[allow(clippy::too_many_arguments, reason = "one slot, put together in one place")]
    fn link(
        &mut self,
        world: &World<'_>,
        host: NodeIx,
        link: LinkIx,
        inwards: bool,
        places: &BTreeMap<usize, u32>,
        carried: &BTreeMap<(usize, Option<usize>), f64>,
        length: f64,
        links: &mut BTreeMap<usize, u32>,
        seen: &mut Seen,
    ) -> u32 {
        if let Some(place) = links.get(&link.0) {
            return *place;
        }
        let network = &world.scenario.network;
        let (from, to) = network.link(link).map_or((host, host), |link| (link.from, link.to));
        let name = if network.is_host(from) {
            format!("{}:eth0", network.name(from))
        } else {
            format!("{}:in", network.name(to))
        };
        let own = inwards || from == host;
        let mut found = LinkSeen { name, inwards, ..LinkSeen::default() };
        found.capacity = Rate((self.believed.get(link.0).copied().unwrap_or(0.0) * 8.0) as u64);
        let rate = |bytes: f64| Rate((bytes * 8e9 / length) as u64);
        let mine = |job: usize| -> f64 {
            // Of a link further on a host knows its own flows, and others' promises.
            let flows = world.flows_of(JobIx(job)).filter(|(_, flow)| inwards || flow.src == host);
            flows.filter(|(_, flow)| flow.path.contains(&link)).count() as f64
        };
        let mut others = 0.0;
        for ((_, job), bytes) in carried.iter().filter(|((of, _), _)| *of == link.0) {
            match job {
                Some(job) => {
                    let all = world.flows_of(JobIx(*job)).filter(|(_, flow)| flow.path.contains(&link)).count() as f64;
                    let part = if all > 0.0 { bytes * mine(*job) / all } else { 0.0 };
                    if let Some(place) = places.get(job) {
                        found.jobs.push(JobBytes { job: *place, bytes: Bytes(self.noisy(part) as u64) });
                        others += bytes - part;
                    } else {
                        others += bytes;
                    }
                }
                // The own card counts all bytes; of a link further on its keeper says it, where there is one.
                None if own || seen.enforces => found.other = rate(self.noisy(*bytes)),
                None => {}
            }
        }
        if inwards {
            // Bytes of jobs that are not on this host do not come by its card.
            found.promised = Rate::ZERO;
        } else if seen.enforces {
            found.promised = rate(self.noisy(others));
        }
        let place = push(&mut seen.links, found);
        links.insert(link.0, place);
        place
    }
}

/// What stands in a socket that has all its process wants to send, and in one whose process waits.
fn written(has_more: bool) -> u64 {
    if has_more { 4 << 20 } else { 16 << 10 }
}

fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    (list.len() - 1) as u32
}

impl Scheduler for Watching {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        self.look(world, orders);
        // It is woken more often than the scheduler asked for.
        let early = self.inner.as_dyn().wake().is_none_or(|at| at > world.now);
        let told: Vec<Change> = changes.iter().filter(|change| !early || **change != Change::Woken).cloned().collect();
        if !told.is_empty() {
            self.inner.as_mut().decide(world, &told, orders);
        }
        self.inject(world, changes, orders);
        self.note_marks(world, changes);
        if changes.contains(&Change::SlotEdge) {
            self.write(world, orders);
        }
    }
    fn wake(&self) -> Option<Nanos> {
        let look = self.last.plus(LOOK);
        Some(self.inner.as_dyn().wake().map_or(look, |at| at.min(look)))
    }
    fn needs(&self) -> Needs {
        Needs::ALL
    }
}
