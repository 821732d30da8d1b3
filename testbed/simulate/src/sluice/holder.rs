//! One keeper of tables: the very brain of the emulated switch, with a clock, a boot id and the rhythm of its pushes.

use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{Announcement, BootId, Feedback, HostId, Nanos, Refusal, Route};

use super::clock::Clock;

/// Slots that a switch has run when the scenario begins: its tables count as full.
const RAN_BEFORE: i32 = 10;
/// Unasked feedback of a switch is at least this far apart, as in the emulated switch.
const PUSH_GAP: Nanos = Nanos::from_millis(4);
/// With many hosts the gap grows by so much for each.
const PUSH_COST: Nanos = Nanos(200_000);

/// A switch, or a host as keeper of its own ingress.
#[derive(Debug)]
pub(super) struct Holder {
    node: usize,
    links: Vec<LinkConfig>,
    limits: Limits,
    switch: Option<Switch>,
    boots: u64,
    /// Part of a daemon: it pushes at once, as the daemon does.
    own_table: bool,
    /// Whom to answer, and what was refused.
    answers: Vec<(HostId, Option<Refusal>)>,
    /// The clock of its switch or host.
    pub clock: Clock,
    /// Counts the processes, so that messages to an earlier one are lost.
    pub life: u64,
    /// A push is on the agenda.
    pub push_due: bool,
    /// A look at the next slot edge is on the agenda.
    pub edge_due: bool,
}

impl Holder {
    /// A process that has run for a while.
    pub fn new(
        node: usize,
        links: Vec<LinkConfig>,
        limits: Limits,
        clock: Clock,
        own_table: bool,
        at: Nanos,
    ) -> Holder {
        let mut holder = Holder {
            node,
            links,
            limits,
            switch: None,
            boots: 0,
            own_table,
            answers: Vec::new(),
            clock,
            life: 0,
            push_due: false,
            edge_due: false,
        };
        holder.start();
        let slot = holder.clock.now(at).slot;
        if let Some(switch) = &mut holder.switch {
            switch.expire(slot.offset(-RAN_BEFORE));
            switch.expire(slot);
        }
        holder
    }

    /// Starts a new process with empty tables, unless one runs.
    pub fn start(&mut self) {
        if self.switch.is_none() {
            self.boots += 1;
            self.clock = self.clock.restarted();
            self.switch = Some(Switch::new(self.boot(), self.limits.clone(), &self.links));
        }
    }

    /// The process ends, and its tables with it.
    pub fn stop(&mut self) {
        self.switch = None;
        self.life += 1;
        self.answers.clear();
        (self.push_due, self.edge_due) = (false, false);
    }

    pub fn boot(&self) -> BootId {
        BootId((self.node as u64 + 1) << 20 | self.boots)
    }

    /// The brain, if the process runs.
    pub fn brain(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// Applies the announcement of the host that keeps this table and answers it.
    pub fn announce_own(&mut self, at: Nanos, announcement: &Announcement) -> Option<Feedback> {
        let slot = self.clock.now(at).slot;
        self.switch.as_mut().map(|switch| switch.announce(slot, announcement))
    }

    /// Applies an announcement that arrived. It is answered with all others of the same instant: on a real stream an
    /// answer that waits to be sent is replaced by a newer one too. False if nobody is there.
    pub fn take(&mut self, at: Nanos, announcement: &Announcement) -> bool {
        let slot = self.clock.now(at).slot;
        let Some(switch) = &mut self.switch else { return false };
        let refused = switch.take(slot, announcement);
        self.answers.push((announcement.host, refused));
        true
    }

    /// It is known by which link a flow goes that a host asked for.
    pub fn route_known(&mut self, host: HostId, route: Route) {
        if let Some(switch) = &mut self.switch {
            switch.route_known(host, route);
        }
    }

    /// How many answers are due.
    pub fn waiting(&self) -> usize {
        self.answers.len()
    }

    /// The answers that are due.
    pub fn answers(&mut self, at: Nanos) -> Vec<(HostId, Feedback)> {
        let slot = self.clock.now(at).slot;
        let boot = self.boot();
        let waiting = std::mem::take(&mut self.answers);
        let Some(switch) = &mut self.switch else { return Vec::new() };
        let answer = |(host, refused)| {
            let bare = Feedback { boot, slot, warm: switch.warm(slot), ..Feedback::default() };
            (host, Feedback { refused, ..switch.feedback(slot, host).unwrap_or(bare) })
        };
        waiting.into_iter().map(answer).collect()
    }

    /// Who should hear what now.
    pub fn push(&mut self, at: Nanos) -> Vec<(HostId, Feedback)> {
        let slot = self.clock.now(at).slot;
        let Some(switch) = &mut self.switch else { return Vec::new() };
        let stale = switch.take_stale();
        stale.into_iter().filter_map(|host| Some((host, switch.feedback(slot, host)?))).collect()
    }

    /// Ends leases; true while some are left.
    pub fn edge(&mut self, at: Nanos) -> bool {
        let slot = self.clock.now(at).slot;
        let Some(switch) = &mut self.switch else { return false };
        switch.expire(slot);
        switch.hosts().next().is_some()
    }

    /// Time until its next slot edge.
    pub fn until_edge(&mut self, at: Nanos) -> Nanos {
        let now = self.clock.now(at);
        self.clock.until_edge(now).max(Nanos(1))
    }

    /// How long after a change the others concerned are told.
    pub fn push_gap(&self) -> Nanos {
        if self.own_table {
            return Nanos::ZERO;
        }
        let hosts = self.switch.as_ref().map_or(0, |switch| switch.hosts().count());
        PUSH_GAP.max(PUSH_COST.times(hosts as u64))
    }
}
