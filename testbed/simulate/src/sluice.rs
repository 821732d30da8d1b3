//! The product itself as a scheduler of the simulator: one brain per host, one per keeper of tables, the very structs of
//! the daemon and of the emulated switch, with virtual clocks and messages that take time (`simulation.md` section 6).
//!
//! Nothing is decided here. Changes of the world become the events a daemon would see, orders become caps, and
//! announcements and feedback travel over a road that delays, loses and weighs them. In event mode a daemon turns when
//! something happens on its host, when it hears something, at its slot edges and while it is busy. In the slot modes it
//! hears of new rounds at slot edges only, and what it orders holds from the next edge on; in between it hears and plans.
//! With `sluice.events = false` it decides at slot edges only. An idle host costs nothing.
//!
//! | module | is |
//! | --- | --- |
//! | `agenda` | messages and timers in order of time |
//! | `clock` | a machine's clock, right or skewed |
//! | `daemon` | a host's brain and how it is fed |
//! | `exchange` | what daemons and keepers of tables say to each other |
//! | `fabric` | ids and paths as the product has them |
//! | `faults` | deaths, restarts, partitions, wrong clocks |
//! | `holder` | a table's brain and how it speaks |
//! | `jobs` | changes of the world as events |
//! | `post` | delay, loss and weight of messages |
//! | `rhythm` | when daemons look |
//! | `tally` | what is counted |
//! | `traffic` | what interface counters show |

mod agenda;
mod clock;
mod daemon;
mod exchange;
mod fabric;
mod faults;
mod holder;
mod jobs;
mod post;
mod rhythm;
mod tally;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use sluice_schedule::host::{Host, HostConfig, PolicyName, SurplusRule};
use sluice_schedule::policy::Why;
use sluice_schedule::switch::{Limits, LinkConfig};
use sluice_schedule::{Action, BootId, Nanos, Rate};
use sluice_wire::record::Recorder;

use super::scheduler::{Change, Needs, Order, Orders, Scheduler};
use super::world::{FlowIx, World};
use agenda::{Agenda, Due};
use clock::Clock;
use daemon::Daemon;
use fabric::{Fabric, flow_ix, host_id, node_of};
use faults::Faults;
use holder::Holder;
use post::Post;
pub use post::Sum;
use rhythm::Rhythm;
use sluice_scenario::random::mix;
use sluice_scenario::scheduler::SluiceOptions;
use sluice_scenario::{NodeIx, Policy, Scenario, Tables};
use tally::Tally;
use traffic::Traffic;

/// Slots an order lives in the kernel (`enforce.deadline_slots`).
const ORDER_SLOTS: u64 = 3;
/// Slots a round is held at the floor at most (`schedule.max_wait_ms` by default).
const MAX_WAIT_SLOTS: u64 = 20;
/// First part of the slot over which hosts spread their repeats (`slot.spread`).
const SPREAD: f64 = 0.5;

/// What is known of a flow by its place in the world.
#[derive(Clone, Copy, Debug, Default)]
struct FlowRecord {
    /// Its job runs; the flow is managed.
    open: bool,
    sender: usize,
    /// Its demand of this round was told.
    told: bool,
    /// When its order runs out; zero: it has none.
    until: Nanos,
}

/// The product under test.
#[derive(Debug)]
pub struct SluiceScheduler {
    rhythm: Rhythm,
    options: SluiceOptions,
    slot: Nanos,
    horizon: usize,
    rule: PolicyName,
    fabric: Fabric,
    /// Counters of interfaces matter: there is unmanaged traffic.
    measures: bool,
    daemons: Vec<Daemon>,
    holders: BTreeMap<usize, Holder>,
    flows: Vec<FlowRecord>,
    /// Hosts of each running job.
    members: BTreeMap<usize, Vec<usize>>,
    /// Hosts with jobs and a daemon.
    awake: BTreeSet<usize>,
    /// Daemons that turn in this call.
    turns: BTreeSet<usize>,
    agenda: Agenda,
    next: Option<Nanos>,
    last_beat: Option<u64>,
    post: Post,
    tally: Tally,
    faults: Faults,
    actions: Vec<Action>,
    began: Option<Nanos>,
    now: Nanos,
}

impl SluiceScheduler {
    /// The product for this scenario; `policy` says with which rule (`sluice`, `sluice:primal-dual`, …).
    pub fn new(scenario: &Scenario, policy: &Policy) -> SluiceScheduler {
        let options = scenario.schedulers.options.sluice.clone();
        let rule = match policy.variant.as_deref() {
            Some("primal-dual") => PolicyName::PrimalDual,
            Some("primal-dual-literal") => PolicyName::PrimalDualLiteral,
            Some("fair") => PolicyName::Fair,
            _ => PolicyName::SrptP,
        };
        let mut scheduler = SluiceScheduler {
            rhythm: Rhythm::of(scenario.time.mode, options.events),
            slot: scenario.time.slot,
            horizon: scenario.time.horizon as usize,
            rule,
            fabric: Fabric::new(scenario, &options),
            measures: scenario.cross_traffic.is_some() || !scenario.cross_flows.is_empty(),
            daemons: Vec::new(),
            holders: BTreeMap::new(),
            flows: Vec::new(),
            members: BTreeMap::new(),
            awake: BTreeSet::new(),
            turns: BTreeSet::new(),
            agenda: Agenda::default(),
            next: None,
            last_beat: None,
            post: Post::new(&scenario.control, scenario.seed),
            tally: Tally::default(),
            faults: Faults::default(),
            actions: Vec::new(),
            began: None,
            now: Nanos::ZERO,
            options,
        };
        scheduler.daemons = (0..scenario.network.hosts.len()).map(|node| scheduler.daemon(scenario, node)).collect();
        scheduler
    }

    /// Records what the brain of `host` is told and says, in the form of [`sluice_wire::record`]. Call it before the run.
    pub fn record(&mut self, host: NodeIx, out: Box<dyn Write + Send>) {
        if let Some(daemon) = self.daemons.get_mut(host.0) {
            daemon.recorder = Some(Recorder::new(out));
        }
    }

    /// Messages and bytes over the connections of each keeper of tables.
    pub fn sums(&self) -> impl Iterator<Item = (NodeIx, Sum)> + '_ {
        self.post.sums.iter().map(|(node, sum)| (NodeIx(*node), *sum))
    }

    /// The brain of a host, to look at; `None` before its first job and while its daemon is dead.
    pub fn brain(&self, host: NodeIx) -> Option<&Host> {
        self.daemons.get(host.0).and_then(Daemon::brain)
    }

    /// Why a flow that a host sends has its rate; `None`: its daemon knows no such flow.
    pub fn why(&self, host: NodeIx, flow: FlowIx) -> Option<Why> {
        self.brain(host)?.flows().find(|status| flow_ix(status.spec.flow) == flow).map(|status| status.why)
    }

    fn daemon(&self, scenario: &Scenario, node: usize) -> Daemon {
        let name = scenario.network.name(NodeIx(node));
        let place = mix(sluice_schedule::units::fnv1a64(name.as_bytes())) >> 11;
        let by_events = self.rhythm != Rhythm::Edges;
        // Where hosts look at slot edges only, that is when they repeat what they promise.
        let spread = if self.rhythm == Rhythm::Events { SPREAD * place as f64 / (1_u64 << 53) as f64 } else { 0.0 };
        let defaults = HostConfig::new(host_id(node), BootId(0));
        let options = &self.options;
        let config = HostConfig {
            slot: self.slot,
            horizon: self.horizon,
            phase: self.slot.scaled(spread),
            relay: self.fabric.tables == Tables::Nic,
            switches: self.fabric.switches(scenario),
            ingress: self.fabric.ingress(scenario, node),
            policy: self.rule,
            fair_floor: options.fair_floor.unwrap_or(defaults.fair_floor),
            fair_floor_alone: options.fair_floor_alone.unwrap_or(defaults.fair_floor_alone),
            fair_floor_brief: options.fair_floor_brief.unwrap_or(defaults.fair_floor_brief),
            newcomer_share: options.newcomer_share.unwrap_or(defaults.newcomer_share),
            promote_kappa: options.promote_kappa.unwrap_or(defaults.promote_kappa),
            work_conserving: options.work_conserving.unwrap_or(defaults.work_conserving),
            chunk_lead: options.chunk_lead.unwrap_or(defaults.chunk_lead),
            announce_gap: options.announce_gap.unwrap_or(defaults.announce_gap),
            events: by_events,
            max_wait: options.max_wait.unwrap_or(self.slot.times(MAX_WAIT_SLOTS)),
            reserve: options.reserve.unwrap_or(0.0),
            // Here an order is a cap in every case.
            surplus: SurplusRule::Never,
            ..defaults
        };
        let traffic = self.measures.then(|| {
            let mut traffic = Traffic::default();
            let own = scenario.network.out(NodeIx(node));
            own.iter().for_each(|&link| traffic.watch(link, self.fabric.link(link)));
            for (ingress, out) in config.ingress.iter().zip(own) {
                traffic.watch(sluice_scenario::LinkIx(out.0 ^ 1), ingress.link);
            }
            traffic
        });
        Daemon::new(node, config, Clock::new(self.slot), traffic)
    }

    /// The keeper of tables at a node; made when it is first spoken to.
    fn holder(&mut self, scenario: &Scenario, node: usize, at: Nanos) -> &mut Holder {
        let (fabric, daemons, slot, horizon) = (&self.fabric, &self.daemons, self.slot, self.horizon);
        self.holders.entry(node).or_insert_with(|| {
            let own_table = fabric.is_host(node);
            let link =
                |link, capacity, to| LinkConfig { link, capacity, cross: Rate::ZERO, attached: Some(host_id(to)) };
            let links: Vec<LinkConfig> = if own_table {
                fabric.ingress(scenario, node).iter().map(|hop| link(hop.link, hop.capacity, node)).collect()
            } else {
                let out = scenario.network.out(NodeIx(node)).iter();
                let known = out.filter_map(|&l| Some((fabric.link(l), scenario.network.link(l)?)));
                known.map(|(id, known)| link(id, known.rate, known.to.0)).collect()
            };
            let limits = Limits { horizon, ..Limits::default() };
            let clock = daemons.get(node).filter(|_| own_table).map(|daemon| daemon.clock.restarted());
            Holder::new(node, links, limits, clock.unwrap_or_else(|| Clock::new(slot)), own_table, at)
        })
    }

    /// Everything on the agenda up to `until`, in order.
    fn run(&mut self, until: Nanos, world: &World<'_>, orders: &mut Orders) {
        while let Some((at, due)) = self.agenda.pop(until) {
            match due {
                Due::Tick { host, stamp } => {
                    if self.daemons.get(host).is_some_and(|daemon| daemon.stamp == stamp) {
                        self.turn(at, host, world, orders);
                    }
                }
                Due::ToHolder { holder, announcement } => self.holder_hears(at, holder, &announcement, world),
                Due::ToHost { host, holder, feedback } => self.host_hears(at, host, holder, *feedback),
                Due::Answer(holder) => self.answer(at, holder),
                Due::Push(holder) => self.push(at, holder),
                Due::HolderEdge { holder, life } => self.holder_edge(at, holder, life),
                Due::Apply { host, life, actions } => {
                    if self.daemons.get(host).is_some_and(|daemon| daemon.life == life) {
                        self.apply(at, host, actions, world, orders);
                    }
                }
                Due::Expire { flow, until } => self.expire(flow, until, orders),
                Due::Silent { node, since } => self.silent(at, node, since),
                Due::Link { host, holder, up } => self.link(at, host, holder, up),
            }
        }
    }

    /// Lets one daemon take in what came, decide and send.
    fn turn(&mut self, at: Nanos, host: usize, world: &World<'_>, orders: &mut Orders) {
        let Some(daemon) = self.daemons.get_mut(host) else { return };
        let mut actions = std::mem::take(&mut self.actions);
        if let Some(seconds) = daemon.turn(at, world, &mut actions) {
            self.tally.decided(seconds);
            if self.options.charge_decision > Nanos::ZERO {
                let life = daemon.life;
                let actions = std::mem::take(&mut actions);
                self.agenda.add(at.plus(self.options.charge_decision), Due::Apply { host, life, actions });
            } else {
                self.apply(at, host, actions.drain(..), world, orders);
            }
            self.drop_old_orders(at, host, orders);
        }
        actions.clear();
        self.actions = actions;
        self.plan_look(at, host);
    }

    /// Sets the daemon's timer for its next look of its own accord.
    fn plan_look(&mut self, at: Nanos, host: usize) {
        let Some(daemon) = self.daemons.get_mut(host) else { return };
        daemon.stamp += 1;
        daemon.look_at = (self.rhythm == Rhythm::Events && daemon.awake()).then(|| daemon.next_look(at));
        if let Some(look) = daemon.look_at {
            self.agenda.add(look, Due::Tick { host, stamp: daemon.stamp });
        }
    }

    /// Carries out what a daemon decided.
    fn apply(
        &mut self,
        at: Nanos,
        host: usize,
        actions: impl IntoIterator<Item = Action>,
        world: &World<'_>,
        orders: &mut Orders,
    ) {
        for action in actions {
            match action {
                Action::Order { flow, rate, .. } => self.order(at, host, flow_ix(flow), rate, orders),
                Action::Release { flow, .. } => {
                    let flow = flow_ix(flow);
                    if self.sent_by(flow, host) {
                        self.tally.released += 1;
                        self.free(flow, orders);
                    }
                }
                Action::Routed { flow, holder, link } => {
                    self.routed(at, host, flow, (node_of(holder.0), link), world);
                }
                Action::Announce { holder, announcement } => {
                    self.announce(at, host, node_of(holder.0), announcement, world);
                }
            }
        }
    }

    fn sent_by(&self, flow: FlowIx, host: usize) -> bool {
        self.flows.get(flow.0).is_some_and(|known| known.open && known.sender == host)
    }

    fn order(&mut self, at: Nanos, host: usize, flow: FlowIx, rate: Rate, orders: &mut Orders) {
        if !self.sent_by(flow, host) {
            return; // The flow ended while the decision was under way.
        }
        if let Some(known) = self.flows.get_mut(flow.0) {
            known.until = at.plus(self.slot.times(ORDER_SLOTS));
        }
        self.tally.orders += 1;
        orders.set(flow, Order { cap: rate.0 as f64 / 8.0, ..Order::default() });
    }

    /// The flow is under ordinary congestion control again.
    fn free(&mut self, flow: FlowIx, orders: &mut Orders) {
        if let Some(known) = self.flows.get_mut(flow.0) {
            known.until = Nanos::ZERO;
        }
        orders.set(flow, Order::default());
    }

    /// The kernel's dead man: an order that was not renewed in time is dropped.
    fn expire(&mut self, flow: FlowIx, until: Nanos, orders: &mut Orders) {
        if self.flows.get(flow.0).is_some_and(|known| known.open && known.until == until) {
            self.tally.expired += 1;
            self.free(flow, orders);
        }
    }

    /// The same for a daemon that lives but did not renew, because its clock stood still.
    fn drop_old_orders(&mut self, at: Nanos, host: usize, orders: &mut Orders) {
        let Some(daemon) = self.daemons.get(host) else { return };
        let old = |flow: &&FlowIx| {
            let until = self.flows.get(flow.0).map_or(Nanos::ZERO, |known| known.until);
            until > Nanos::ZERO && until <= at
        };
        let old: Vec<FlowIx> = daemon.own.iter().filter(old).copied().collect();
        for flow in old {
            self.tally.expired += 1;
            self.free(flow, orders);
        }
    }
}

impl Scheduler for SluiceScheduler {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        self.now = world.now;
        self.began.get_or_insert(world.now);
        // What was on its way came before what happened at this instant.
        self.run(world.now.minus(Nanos(1)), world, orders);
        for change in changes {
            self.take(change, world, orders);
        }
        match self.rhythm {
            Rhythm::Events => {
                for host in std::mem::take(&mut self.turns) {
                    self.turn(world.now, host, world, orders);
                }
            }
            Rhythm::Heard | Rhythm::Edges => {
                self.turns.clear();
                self.beats(world, orders);
            }
        }
        self.run(world.now, world, orders);
        self.plan_wake(world);
    }

    fn wake(&self) -> Option<Nanos> {
        self.next
    }

    /// It asks for the flows of the hosts that turn, and a message concerns few.
    fn needs(&self) -> Needs {
        Needs::EDGES
    }

    fn decision_times(&self) -> &[f64] {
        self.tally.times()
    }

    fn counters(&self) -> Vec<(&'static str, f64)> {
        let (mut messages, mut bytes, mut most) = (0, 0, 0);
        for sum in self.post.sums.values() {
            messages += sum.messages;
            bytes += sum.bytes;
            most = most.max(sum.bytes);
        }
        let seconds = self.now.minus(self.began.unwrap_or_default()).as_secs_f64();
        let per_second = |bytes: f64| if seconds > 0.0 { bytes * 8.0 / seconds } else { 0.0 };
        let holders = self.post.sums.len().max(1) as f64;
        let guards: u64 = self.faults.guards
            + self.holders.values().filter_map(Holder::brain).map(|brain| brain.counters().guard_rejects).sum::<u64>();
        vec![
            ("control_messages", messages as f64),
            ("control_bytes", bytes as f64),
            ("control_bps_per_switch_mean", per_second(bytes as f64 / holders)),
            ("control_bps_per_switch_max", per_second(most as f64)),
            ("control_lost", self.post.lost as f64),
            ("decisions", self.tally.decisions as f64),
            ("orders", self.tally.orders as f64),
            ("orders_expired", self.tally.expired as f64),
            ("flows_released", self.tally.released as f64),
            ("promotions", self.tally.promotions() as f64),
            ("slot_guard_rejects", guards as f64),
            ("connections_lost", self.tally.connections_lost as f64),
        ]
    }
}
