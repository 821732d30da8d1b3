//! The deciding loop: what happened goes into the brain, what it says goes to the kernel and to other hosts.
//!
//! [`Core::step`] is one turn, with the time given from outside, so that tests run it in virtual time over a data path
//! made of plain memory. It decides nothing itself: rates come from [`sluice_schedule::host::Host`].
//!
//! Only this loop renews orders. Should it stop, every order runs out by itself and the kernel gives the flows back.
//!
//! | module | is |
//! | --- | --- |
//! | [`holders`] | what is known of each holder of tables: reachable, slot, answers |
//! | `account` | counters, time line and link use, once per slot |
//! | [`doubt`] | whether holders are believed |
//! | `taking` | orders to the kernel, and the sockets that it has to capture for them |
//! | `flight` | what the flight recorder is told of a slot |
//! | `benefit` | whether Sluice helps a job, and leaving alone one that it does not |
//! | `health` | which conditions hold |
//! | `hearing` | what comes from holders and the kernel, between turns too |
//! | `life` | mode changes, reload, giving flows back, coasting at the end |
//! | `recording` | the recording of the jobs' work, if one is asked for |
//! | `reports` | what others may see of it |
//! | `routes` | what probes find of flows' paths |
//! | [`settings`] | from the configuration to what the brain is told |

mod account;
mod benefit;
pub mod doubt;
pub mod fleet;
mod flight;
mod health;
mod hearing;
pub mod holders;
mod life;
mod recording;
mod reports;
mod routes;
pub mod settings;
mod taking;
#[cfg(any(test, feature = "testing"))]
pub mod turns;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use sluice_clock::KernelClock;
use sluice_ebpf::{Datapath, SocketEvent, Tier, Wanted};
use sluice_schedule::host::Host;
use sluice_schedule::{
    Action, Announcement, ClockTrust, Connection, Event, Feedback, FlowId, HolderId, JobId, Nanos, Now, Slot,
};
use sluice_wire::snapshot::Counters;
use sluice_wire::timeline::{Timeline, Trigger};

use crate::clock::ClockSteps;
use crate::conditions::Conditions;
use crate::config::{Config, Loaded, Mode};
use crate::exchange::book::{Passed, Tally};
use crate::fabric::{By, Fabric};
use crate::flight::Flight;
use crate::hops::Hops;
use crate::monitor::discovery::Wake;
use crate::monitor::traffic::Traffic;
use crate::monitor::{Haste, Monitor};
use crate::own_table::OwnTable;
use crate::recorder::Recorder;
use account::LinkUse;
use holders::Holders;

/// After so many slots the kernel is asked again by which card it sends to whom.
const ROUTES_ASKED_SLOTS: u64 = 512;
/// Progress alone is reason for a decision this often; everything else at once.
const DECIDE_EVERY: Nanos = Nanos::from_millis(7);
/// A turn for what others say measures the flows and looks no further, if the last whole look is not older than this.
const LOOKED_LATELY: Nanos = Nanos::from_millis(20);

/// Of so many flows each one's end frees a part of the host's link that others should hear of at once.
const FEW: usize = 10;

/// What comes in from the exchange.
#[derive(Clone, Debug)]
pub enum Inbound {
    /// A holder answered or pushed.
    Feedback {
        holder: HolderId,
        feedback: Feedback,
        /// When, CLOCK_MONOTONIC: it may have waited for others since.
        at: Nanos,
    },
    /// A connection stands; these holders are behind it.
    Back {
        holder: HolderId,
        /// Its slot minus the own one when it said hello.
        slot_diff: i32,
        /// Its clock minus the own one, ns; `None`: its transport does not say.
        offset_ns: Option<i64>,
    },
    /// The connection broke, or nothing was heard for three slots.
    Lost {
        holder: HolderId,
        why: String,
        /// The other end lives on another time grid or in another cluster.
        mismatch: bool,
    },
    /// What became of datagrams since the last word of them.
    Datagrams(Tally),
    /// By which ways flows go, where that is news.
    Passed(Vec<Passed>),
}

pub trait Outlet {
    /// Says it to the holder; a newer announcement replaces one that was not sent yet.
    fn announce(&mut self, holder: HolderId, announcement: Announcement, ends: Ends<'_>);
}

/// Which connection a flow is, for transports that say it.
pub type Ends<'a> = &'a dyn Fn(FlowId) -> Option<Connection>;

/// How the clock stands, by the kernel's word and by peers, as the shell looked last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockState {
    /// The last answer of `adjtimex`.
    pub kernel: Option<KernelClock>,
    /// May slots be used with others? What comes next is judged with it in mind.
    pub trust: ClockTrust,
    /// Why not, or not fully.
    pub why: Option<String>,
    /// How often it was set.
    pub steps: ClockSteps,
}

pub struct Core {
    config: Config,
    loaded: Loaded,
    host: Host,
    monitor: Monitor,
    traffic: Traffic,
    conditions: Conditions,
    /// When this host's certificate is over, in seconds since 1970.
    pub certificate_not_after: Option<i64>,
    counters: Counters,
    timeline: Arc<Mutex<Timeline>>,
    holders: Holders,
    doubts: doubt::Doubts,
    mode: Mode,
    /// The mode that returns, and when (CLOCK_MONOTONIC).
    mode_returns: Option<(Mode, Nanos)>,
    clock: ClockState,
    /// Steps of the clock that the last slot's edge knew of.
    steps_at_edge: ClockSteps,
    /// The time of the last turn.
    now: Now,
    /// When orders were last written.
    renewed: Option<Nanos>,
    /// Jobs that were given back by command.
    spared: BTreeSet<JobId>,
    helped: benefit::Helped,
    hops: Hops,
    /// Per own link: time with one job sending, and with several.
    link_use: Vec<LinkUse>,
    /// The tables of links that this host keeps, where no switch does.
    own_table: Option<Arc<Mutex<OwnTable>>>,
    datapath: Box<dyn Datapath>,
    recorder: Option<Recorder>,
    flight: Option<Flight>,
    /// What the fleet says, if this host is in one.
    fleet: Option<fleet::Member>,
    slot: Option<Slot>,
    growths: health::Growths,
    decided: Nanos,
    /// The last whole look at jobs and sockets.
    looked: Nanos,
    /// So long after a look only a slot's edge is reason for another.
    rest: Nanos,
    /// Others have said something on which nothing was decided yet.
    heard: bool,
    /// Flows with something to send at the last decision.
    active: usize,
    released: BTreeSet<FlowId>,
    ended_slots: u64,
    events: Vec<Event>,
    actions: Vec<Action>,
    /// How soon what the kernel told since the last turn wants a look.
    haste: Haste,
    socket_events: Vec<SocketEvent>,
    /// Sockets that are to be captured with their first orders.
    wanted: Vec<Wanted>,
}

impl Core {
    /// A loop that has not turned yet.
    pub fn new(loaded: Loaded, host: Host, fabric: Rc<Fabric>, datapath: Box<dyn Datapath>) -> Core {
        let config = loaded.config.clone();
        let limits = sluice_wire::timeline::Limits {
            time: Nanos::from_millis(config.timeline.seconds * 1000),
            bytes: usize::try_from(config.timeline.max_bytes).unwrap_or(usize::MAX),
        };
        let timeline = Timeline::new(&config.node.name, config.slot_length(), limits);
        Core {
            monitor: Monitor::new(&config, fabric),
            traffic: Traffic::new(&config),
            conditions: Conditions::default(),
            certificate_not_after: None,
            counters: Counters::default(),
            timeline: Arc::new(Mutex::new(timeline)),
            holders: Holders::default(),
            doubts: doubt::Doubts::default(),
            mode: config.mode,
            mode_returns: None,
            clock: ClockState::default(),
            steps_at_edge: ClockSteps::default(),
            now: Now::default(),
            renewed: None,
            spared: BTreeSet::new(),
            helped: benefit::Helped::new(&config),
            hops: Hops::new(Nanos::from_millis(config.probe.repeat_s.saturating_mul(1000))),
            link_use: Vec::new(),
            own_table: None,
            datapath,
            recorder: None,
            flight: None,
            fleet: None,
            slot: None,
            growths: health::Growths::default(),
            decided: Nanos::ZERO,
            looked: Nanos::ZERO,
            rest: Nanos::ZERO,
            heard: false,
            active: 0,
            released: BTreeSet::new(),
            ended_slots: 0,
            events: Vec::new(),
            actions: Vec::new(),
            haste: Haste::None,
            socket_events: Vec::new(),
            wanted: Vec::new(),
            config,
            loaded,
            host,
        }
    }

    /// Looks for jobs at once, before the first turn.
    pub fn discover(&mut self, wake: Wake) {
        self.monitor.discover(wake);
    }
    /// The kernel was asked for the state of its clock.
    pub fn clock_asked(&mut self, now: Now, clock: ClockState) {
        let ClockSteps { forward, back } = clock.steps;
        (self.counters.clock_steps_forward, self.counters.clock_steps_backward) = (forward, back);
        self.clock = clock;
        self.judge_clock(now);
    }
    /// This host keeps the table of its own ingress, since no switch does; others reach it through `table` as well.
    pub fn keep_own_table(&mut self, table: Arc<Mutex<OwnTable>>) {
        self.own_table = Some(table);
    }

    /// What a look costs asks for so long a rest.
    pub fn rest(&mut self, rest: Nanos) {
        self.rest = rest;
    }

    /// One turn: takes in what happened, decides, acts. Returns whether flows were looked at.
    pub fn step(&mut self, now: Now, inbox: &mut Vec<Inbound>, outlet: &mut dyn Outlet) -> bool {
        if let Some(table) = &self.own_table
            && now.slot != self.now.slot
        {
            table.lock().unwrap_or_else(std::sync::PoisonError::into_inner).slot_edge(now.slot, now.mono);
        }
        self.now = now;
        self.return_mode(now);
        self.take_socket_events(now);
        self.hear(now, inbox);
        self.hear_own_table(now);
        let mut trigger = if std::mem::take(&mut self.heard) { Trigger::Feedback } else { Trigger::Demand };
        let due = self.host.due_in(now) == Some(Nanos::ZERO);
        let edge = self.slot != Some(now.slot);
        self.traffic.promise(&self.promised_here(now));
        if edge {
            trigger = Trigger::Slot;
            self.slot_edge(now);
            self.ask_whether_it_helps(now);
            self.probe_routes(now);
        }
        let spent = crate::clock::thread_cpu();
        let told = !edge && (trigger == Trigger::Feedback || due);
        let since = now.mono.minus(self.looked);
        // The moment at which this host speaks to switches, or their word, costs no look where looks are dear: what wants one
        // waits for the end of the rest, and for the next edge at most.
        let looks = edge || since >= self.rest;
        let haste = if looks { std::mem::take(&mut self.haste) } else { Haste::None };
        let unstirred = haste == Haste::None && !self.monitor.waits();
        if looks && told && unstirred && since < LOOKED_LATELY {
            self.monitor.measure(now, &*self.datapath, &mut self.events);
        } else if looks {
            self.looked = now.mono;
            self.monitor.poll(now, edge, &*self.datapath, &mut self.events);
        }
        if edge {
            let received = self.monitor.received();
            let Monitor { fabric, sockets, .. } = &mut self.monitor;
            self.traffic.measure(now, fabric, sockets, received, &mut self.events);
            self.leave_measured_out();
        }
        self.counters.cpu_stats_ns += crate::clock::thread_cpu().minus(spent).0;
        for socket in self.monitor.sockets.iter_mut().filter(|_| looks) {
            if let Some(row) = socket.row
                && let Some(mark) = socket.take_mark()
            {
                self.datapath.mark(row, mark);
            }
        }
        self.record(now);
        self.note_marks(now);
        self.note_rounds(now, &mut trigger);
        self.note_ended_rounds(now);
        let only_progress = self.events.iter().all(|event| matches!(event, Event::Progress(_)));
        for event in self.events.drain(..) {
            crate::crashed::heed(now, &event);
            self.host.handle(now, event);
        }
        let decided = now.mono.minus(self.decided);
        // That a flow begins or ends is news.
        let news = !only_progress || due || self.host.has_news() || decided >= DECIDE_EVERY;
        if self.mode != Mode::Bypass && news {
            self.decided = now.mono;
            self.count_decision(trigger);
            self.decide(now, edge);
            self.active = self.host.planned();
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            self.act(now, action, outlet);
        }
        self.actions = actions;
        self.capture(now);
        if edge {
            self.account(now, trigger);
            self.doubt_holders(now);
            self.fly(now);
            self.judge(now);
        }
        looks
    }

    /// How long the loop may sleep after a turn at `now`, if nothing wakes it; `tick`: while flows have demand.
    pub fn sleep(&self, now: Now, until_edge: Nanos, tick: Nanos) -> Nanos {
        let slot = self.config.slot_length();
        // While a clock that was set back is waited for, orders are renewed all the same.
        let mut sleep = if until_edge > slot { Nanos(slot.0 / 4) } else { until_edge };
        let phase = self.host.config().phase;
        if until_edge <= slot && now.into_slot < phase && self.host.flows().next().is_some() {
            sleep = sleep.min(phase.minus(now.into_slot));
        }
        if self.host.busy() || self.monitor.busy() {
            sleep = sleep.min(tick.minus(now.mono.minus(self.looked)));
        }
        if let Some(due) = self.host.due_in(now).filter(|_| self.mode != Mode::Bypass) {
            sleep = sleep.min(due); // Another host's flow ends then, and nobody need say so.
        }
        sleep.max(Nanos(100_000))
    }

    /// Does an order of this mode reach the kernel?
    pub fn enforces(&self) -> bool {
        self.mode == Mode::Active && self.datapath.tier() != Tier::None
    }

    fn act(&mut self, now: Now, action: Action, outlet: &mut dyn Outlet) {
        match action {
            Action::Order { flow, rate, surplus } => {
                if self.enforces() {
                    self.order(now, flow, rate, surplus);
                }
            }
            Action::Release { flow, why } => {
                if self.enforces()
                    && let Some(row) = self.row(flow)
                {
                    tracing::info!(event = "flow-released", flow = %flow, why = ?why, "a flow was given back");
                    self.datapath.release(row);
                    self.counters.released_error += 1;
                }
                self.released.insert(flow);
            }
            Action::Routed { flow, holder, link } => self.monitor.routed(flow, holder, link, By::Switch),
            Action::Announce { holder, announcement } => {
                if self.mode == Mode::Active {
                    self.announce(now, holder, announcement, outlet);
                }
            }
        }
    }

    fn announce(&mut self, now: Now, holder: HolderId, announcement: Announcement, outlet: &mut dyn Outlet) {
        if holder == self.host.config().host.holder()
            && let Some(table) = &self.own_table
        {
            // Kept here: no wire in between.
            let mut table = table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let feedback = table.announce_own(now.slot, &announcement);
            drop(table);
            self.tell(now, Event::Feedback { holder, feedback });
            return;
        }
        self.holders.sent(now, holder, announcement.seq);
        let sockets = &self.monitor.sockets;
        let ends = |flow| sockets.of_flow(flow).map(|socket| socket.tuple.connection());
        outlet.announce(holder, announcement, &ends);
    }

    fn slot_edge(&mut self, now: Now) {
        if let Some(before) = self.slot {
            let missed = now.slot.since(before).saturating_sub(1).max(0) as u64;
            if self.clock.steps != self.steps_at_edge {
                self.counters.slots_clock += missed
            } else {
                self.counters.slots_stopped += missed
            }
        }
        self.steps_at_edge = self.clock.steps;
        self.slot = Some(now.slot);
        self.ended_slots += 1;
        self.counters.slots += 1;
        if self.ended_slots.is_multiple_of(ROUTES_ASKED_SLOTS) {
            self.monitor.forget_routes();
            self.monitor.fabric.learned.keep(|flow| self.monitor.sockets.of_flow(flow).is_some());
        }
        self.counters.lateness_s.observe(now.into_slot.as_secs_f64());
        self.events.push(Event::Clock(self.clock.trust));
        self.events.push(Event::SlotEdge);
        self.released.retain(|flow| self.monitor.sockets.of_flow(*flow).is_some());
    }
}

#[cfg(test)]
mod tests;
