//! Which conditions hold, judged once per slot.

use std::collections::{BTreeMap, BTreeSet};

use sluice_ebpf::Tier;
use sluice_realtime::Standing;
use sluice_schedule::host::ViewState;
use sluice_schedule::{HolderId, Nanos, Now, Refusal};
use sluice_wire::snapshot::certificate;

use super::Core;
use super::doubt::Doubt;
use crate::conditions::{Condition, ConditionCode, Severity};
use crate::config::{Backend, ClockSource, Mode, Policy, Unproven};
use crate::fabric::Overstated;
use crate::monitor::namespaces::Uncovered;
use crate::rdma::Device;

/// What an unsynchronised clock costs where the configuration trusts it.
const TRUSTED_ALL_THE_SAME: &str = "nothing so far: clock.require_sync = false trusts it; hosts whose clocks drift apart by \
                                    half a slot stop hearing each other";

/// What was counted this long ago is no trouble of now.
const LATELY: Nanos = Nanos::from_millis(60_000);

/// Counts whose growth is a condition for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growths {
    events_lost: Growth,
    table_full: Growth,
    foreign: Growth,
    clock_steps: Growth,
}

/// When a count last grew; what was counted before the first look is of an earlier process.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    count: Option<u64>,
    at: Option<Nanos>,
}

impl Growth {
    /// Has the count grown lately?
    fn lately(&mut self, now: Now, count: u64) -> bool {
        if self.count.replace(count).is_some_and(|before| count > before) {
            self.at = Some(now.mono);
        }
        self.at.is_some_and(|at| now.mono.minus(at) < LATELY)
    }
}

/// Slots of silence after which a holder counts as unreachable.
pub const SILENT_SLOTS: u64 = 3;

impl Core {
    pub(super) fn judge(&mut self, now: Now) {
        self.judge_clock(now);
        self.judge_holders(now);
        let unix = now.wall.0;
        // The kernel is not asked for more rows than there are, nor for more than a user may have: it counts those that the
        // daemon did not know of.
        let full = self.datapath.counters().table_full;
        let lately = self.growths.table_full.lately(now, full);
        let crowded = self.monitor.sockets.iter().filter(|socket| socket.crowded_out).count();
        let text =
            || format!("{crowded} flows find no place in the table; sockets found no free row {full} times in all");
        self.conditions.hold(unix, ConditionCode::FlowTableFull, "", (lately || crowded > 0).then(text));
        let guarded = self.monitor.sockets.iter().filter(|socket| socket.stats.loss_guard).count();
        let text = || format!("{guarded} flows lose segments and are held at what they deliver");
        self.conditions.hold(unix, ConditionCode::LossGuard, "", (guarded > 0).then(text));
        let lost = self.datapath.counters().events_lost;
        let text = || format!("the kernel had no room for what it had to tell, {lost} times in all");
        let lately = self.growths.events_lost.lately(now, lost);
        self.conditions.hold(unix, ConditionCode::EventsLost, "", lately.then(text));
        let foreign = self.datapath.counters().foreign;
        let text = || format!("{foreign} managed sockets were given another congestion control by somebody else");
        let lately = self.growths.foreign.lately(now, foreign);
        self.conditions.hold(unix, ConditionCode::ForeignChange, "", lately.then(text));
        let Uncovered { count, why } = &self.monitor.uncovered;
        let text = || format!("{count} network namespaces of jobs cannot be entered: {why}");
        self.conditions.hold(unix, ConditionCode::NetnsUncovered, "", (*count > 0).then(text));
        self.judge_paths(unix);
        self.judge_ranks(unix);
        self.judge_plans(unix);
        self.judge_probes(unix);
        // One late slot in a minute of slots says nothing; one in twenty does.
        let missed = self.counters.slots_stopped + self.counters.slots_late;
        let text = || format!("{missed} of {} slots passed without a decision in time", self.counters.slots);
        let late = self.counters.slots > 100 && missed * 20 > self.counters.slots;
        self.conditions.hold(unix, ConditionCode::SlotsLate, "", late.then(text));
        self.note_conditions(now);
    }

    /// Does this host know what its flows cross, and how much its own links carry?
    fn judge_paths(&mut self, unix: u64) {
        let (config, fabric) = (&self.config, &self.monitor.fabric);
        let others = !config.switches.is_empty() || config.peer.beyond_loopback().is_some();
        let text = match (fabric.topology(), fabric.is_in_topology()) {
            _ if !others => None,
            (None, _) if config.switches.is_empty() => Some("no topology says who the other hosts are".to_owned()),
            (None, _) => Some("there are switches, and no topology says what crosses them".to_owned()),
            (Some(_), false) => Some(format!("the topology has no node {:?}", config.node.name)),
            (Some(_), true) => None,
        };
        match text {
            // Who only looks promises nothing to anybody and loses nothing.
            Some(text) if self.mode != Mode::Active => {
                let mut condition = Condition::new(ConditionCode::PathsUnknown, "", text);
                condition.severity = Severity::Info;
                self.conditions.put(unix, condition);
            }
            text => self.conditions.hold(unix, ConditionCode::PathsUnknown, "", text),
        }
        let known = self.conditions.iter().filter(|condition| condition.code == ConditionCode::LinkSpeedUnknown);
        let named: BTreeSet<String> = known.map(|condition| condition.subject.clone()).collect();
        let unknown = fabric.links.iter().filter(|link| link.capacity.is_none());
        let unknown: BTreeSet<String> = unknown.map(|link| link.name.clone()).collect();
        for name in named.union(&unknown) {
            let text = unknown.contains(name).then(|| format!("the rate of {name} is not known"));
            self.conditions.hold(unix, ConditionCode::LinkSpeedUnknown, name, text);
        }
        self.judge_speeds(unix);
    }

    /// Is a link said to carry more than its card does?
    fn judge_speeds(&mut self, unix: u64) {
        let overstated = self.monitor.fabric.overstated.clone();
        let known = self.conditions.iter().filter(|condition| condition.code == ConditionCode::LinkSpeedDiffers);
        let holds = |name: &str| overstated.iter().any(|link| link.name == name);
        let over: Vec<String> = known.map(|c| c.subject.clone()).filter(|name| !holds(name)).collect();
        over.iter().for_each(|name| self.conditions.clear(ConditionCode::LinkSpeedDiffers, name));
        for Overstated { name, told, speed } in &overstated {
            let text = format!("{name} is said to carry {told} and its card carries {speed}; the smaller one counts");
            self.conditions.set(unix, ConditionCode::LinkSpeedDiffers, name, text);
        }
    }

    /// Is there a switch to which no ranks travel, under a policy that goes by them?
    fn judge_ranks(&mut self, unix: u64) {
        let by_rank = self.config.schedule.policy == Policy::SrptP;
        let names: Vec<&str> = self.config.by_datagrams().map(|switch| switch.name.as_str()).collect();
        let text = || format!("datagrams to {} carry sums of rates, and srpt-p goes by ranks", names.join(", "));
        self.conditions.hold(unix, ConditionCode::RanksUnknown, "", (by_rank && !names.is_empty()).then(text));
    }

    /// Plans that cannot be followed, per job.
    fn judge_plans(&mut self, unix: u64) {
        let why = |name: &str| {
            let mut jobs = self.monitor.jobs.values().filter(|job| job.name == name);
            jobs.find_map(|job| job.following.refused())
        };
        let known = self.conditions.iter().filter(|condition| condition.code == ConditionCode::PlanRejected);
        let over: Vec<String> = known.filter(|c| why(&c.subject).is_none()).map(|c| c.subject.clone()).collect();
        over.iter().for_each(|subject| self.conditions.clear(ConditionCode::PlanRejected, subject));
        for job in self.monitor.jobs.values() {
            if let Some(why) = job.following.refused() {
                let text = format!("job {}: {why}", job.name);
                self.conditions.set(unix, ConditionCode::PlanRejected, &job.name, text);
            }
        }
    }

    pub(super) fn judge_clock(&mut self, now: Now) {
        let unix = now.wall.0;
        let tai = self.config.clock.source == ClockSource::Tai
            && self.clock.kernel.is_some_and(|kernel| kernel.tai_offset != self.config.clock.tai_offset_s as i64);
        let code = if tai { ConditionCode::ClockTaiUnset } else { ConditionCode::ClockUnsafe };
        let other = if tai { ConditionCode::ClockUnsafe } else { ConditionCode::ClockTaiUnset };
        self.conditions.clear(other, "");
        let steps = self.clock.steps.forward + self.clock.steps.back;
        let stepped = self.growths.clock_steps.lately(now, steps);
        let stepped = stepped.then(|| format!("the clock was set by more than a slot, {steps} times since the start"));
        let why = self.clock.why.clone();
        let wrong = match (stepped, why.clone().filter(|_| !self.clock.trust.is_trusted())) {
            (Some(stepped), Some(why)) => Some(format!("{stepped}; {why}")),
            (stepped, why) => stepped.or(why),
        };
        match (wrong, why) {
            (None, Some(why)) => {
                let mut condition = Condition::new(code, "", why);
                condition.severity = Severity::Info;
                condition.cost = TRUSTED_ALL_THE_SAME.into();
                self.conditions.put(unix, condition);
            }
            (wrong, _) => self.conditions.hold(unix, code, "", wrong),
        }
    }

    fn judge_holders(&mut self, now: Now) {
        let slot = self.config.slot_length();
        let asked = self.mode == Mode::Active;
        let (mut views, mut local) = (0, 0);
        let mut states: Vec<(HolderId, ViewState)> = self.host.views().collect();
        states.retain(|(holder, _)| *holder != self.host.config().host.holder());
        for (holder, view) in states {
            let name = self.holder_name(holder);
            let state = self.holders.get(holder);
            views += 1;
            local += usize::from(view == ViewState::Local);
            let silence = state.and_then(|state| state.heard).map(|heard| now.mono.minus(heard));
            let connected = state.is_some_and(|state| state.connected);
            // At the start nobody has answered yet; that is no silence.
            let silent = asked
                && self.ended_slots > SILENT_SLOTS
                && (!connected || silence.is_some_and(|age| age > slot.times(SILENT_SLOTS)));
            let error = state.map(|state| state.error.as_str()).filter(|error| !error.is_empty());
            let text = silent.then(|| {
                let why = error.map(|error| format!(": {error}")).unwrap_or_default();
                match silence {
                    Some(age) => format!("{name} silent for {age} ({} slots){why}", age.0 / slot.0.max(1)),
                    None => format!("{name} never answered{why}"),
                }
            });
            let mismatch = state.is_some_and(|state| state.mismatch)
                || state.is_some_and(|state| state.refused == Some(Refusal::SlotGuard));
            let text_mismatch =
                mismatch.then(|| format!("{name} lives on another time grid: {}", error.unwrap_or("slot guard")));
            let stale = asked && !silent && matches!(view, ViewState::Decaying | ViewState::Local);
            let text_stale = stale.then(|| format!("the view of {name} is {view:?}").to_lowercase());
            self.conditions.hold(now.wall.0, ConditionCode::SwitchUnreachable, &name, text);
            self.conditions.hold(now.wall.0, ConditionCode::ClusterMismatch, &name, text_mismatch);
            self.conditions.hold(now.wall.0, ConditionCode::FeedbackStale, &name, text_stale);
        }
        let all_local = asked && views > 0 && local == views && self.ended_slots > 10;
        let text = || "no holder's view counts; only this host's own links are known".to_owned();
        self.conditions.hold(now.wall.0, ConditionCode::FeedbackLocalOnly, "", all_local.then(text));
    }

    /// Says which holders are not believed, and why.
    pub(super) fn judge_doubts(&mut self, now: Now) {
        let doubted: BTreeMap<String, Doubt> =
            self.doubts.doubted(now.mono).map(|(holder, doubt)| (self.holder_name(holder), doubt)).collect();
        let known = self.conditions.iter().filter(|condition| condition.code == ConditionCode::FeedbackDoubted);
        let over: Vec<String> = known.map(|c| c.subject.clone()).filter(|name| !doubted.contains_key(name)).collect();
        over.iter().for_each(|name| self.conditions.clear(ConditionCode::FeedbackDoubted, name));
        for (name, doubt) in doubted {
            let text = match doubt {
                Doubt::Boots => format!("{name} says that it began anew again and again, on one connection"),
                Doubt::Contradicted => format!("what {name} says of its links is not what flows there get"),
            };
            self.conditions.set(now.wall.0, ConditionCode::FeedbackDoubted, &name, text);
        }
    }

    /// A holder's name: a switch of the configuration, a host of the topology, or its id.
    pub fn holder_name(&self, holder: HolderId) -> String {
        let switch = self.config.switches.iter().find(|switch| HolderId::of(&switch.name) == holder);
        let host = || self.monitor.fabric.name_of(sluice_schedule::HostId(holder.0)).map(str::to_owned);
        switch.map(|switch| switch.name.clone()).or_else(host).unwrap_or_else(|| holder.to_string())
    }

    /// A new configuration was refused, or some of it waits, as `sentence` says; `None`: it holds whole.
    pub fn config_rejected(&mut self, unix_ns: u64, sentence: Option<String>) {
        self.conditions.hold(unix_ns, ConditionCode::ConfigRejected, "", sentence);
    }

    /// Tells of a peer service that lets everybody connect.
    pub fn judge_peers(&mut self, unix_ns: u64) {
        let open = self.config.peer.beyond_loopback().filter(|_| self.config.peer.open);
        let text =
            |address| format!("everybody who reaches {address} may connect to the peer service (peer.open = true)");
        self.conditions.hold(unix_ns, ConditionCode::PeersOpen, "", open.map(text));
        let unproven = self.config.unproven().map(|what| match what {
            Unproven::Peers(address) => {
                format!("whoever connects to {address} proves nothing of who it is (unauthenticated = true)")
            }
            Unproven::Along(switch) => {
                format!(
                    "whoever sends datagrams to {} proves nothing of who it is (unauthenticated = true)",
                    switch.address
                )
            }
            Unproven::Switch(switch) => {
                format!(
                    "nothing proves that switch {} is what answers at {}, or to it who this host is",
                    switch.name, switch.address
                )
            }
        });
        self.conditions.hold(unix_ns, ConditionCode::Unauthenticated, "", unproven);
    }

    /// How this host's certificate stands; `None`: it has none and needs none.
    pub fn judge_certificate(&mut self, unix_ns: u64, standing: Option<sluice_identity::Standing>) {
        let standing = standing.unwrap_or_default();
        for (code, text) in certificate::conditions(&standing) {
            self.conditions.hold(unix_ns, code, "", text);
        }
        self.certificate_not_after = standing.not_after;
    }

    /// Tells of RDMA devices, whose traffic nobody sees here.
    pub fn note_rdma(&mut self, unix_ns: u64, devices: &[Device]) {
        let names = || devices.iter().map(Device::to_string).collect::<Vec<_>>().join(", ");
        let text = (!devices.is_empty()).then(|| format!("this host has RDMA devices: {}", names()));
        self.conditions.hold(unix_ns, ConditionCode::RdmaUnmanaged, "", text);
    }

    /// Tells whether the deciding loop is the real-time thread that it wants to be.
    pub fn note_realtime(&mut self, unix_ns: u64, standing: Standing) {
        let refused = match standing {
            Standing::Refused(why) => Some(format!("the deciding loop is no real-time thread: {why}")),
            _ => None,
        };
        let overran = match standing {
            Standing::Overran(how) => Some(format!("the deciding loop is no real-time thread for a while: {how}")),
            _ => None,
        };
        self.conditions.hold(unix_ns, ConditionCode::RealtimeRefused, "", refused);
        self.conditions.hold(unix_ns, ConditionCode::RealtimeOverrun, "", overran);
    }

    /// Says how orders are enforced, and why not better.
    pub fn note_tier(&mut self, unix_ns: u64, tier: Tier, reasons: &[String]) {
        let asked_none = self.config.enforce.backend == Backend::None || self.mode != Mode::Active;
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        self.conditions.clear(ConditionCode::EnforcementFallback, "");
        self.conditions.clear(ConditionCode::EnforcementNone, "");
        match tier {
            Tier::StructOps => {}
            Tier::StructOpsNoLink | Tier::SetSockOpt => {
                let text = format!("orders are enforced by the second choice{why}");
                self.conditions.set(unix_ns, ConditionCode::EnforcementFallback, "", text);
            }
            Tier::None => {
                let text = if asked_none {
                    "nothing is enforced, as configured".into()
                } else {
                    format!("nothing can be enforced here{why}")
                };
                let mut condition = Condition::new(ConditionCode::EnforcementNone, "", text);
                if asked_none {
                    condition.severity = Severity::Info;
                }
                self.conditions.put(unix_ns, condition);
            }
        }
    }
}
