//! By which of several equal paths flows go: what probes find, and how often they and the switches were asked.

use sluice_schedule::host::RouteCounts;
use sluice_schedule::{Action, Nanos, Now};
use sluice_wire::snapshot::PathSource;

use super::Core;
use crate::conditions::ConditionCode;
use crate::fabric::By;
use crate::hops::prober::{Counts, Subject};
use crate::monitor::namespaces;
use crate::monitor::sockets::Socket;
use crate::monitor::tuple::NetNs;

impl Core {
    /// At each slot's edge: hears what routers said, and asks one thing more, if it is time.
    pub(super) fn probe_routes(&mut self, now: Now) {
        self.count_questions();
        if !self.config.probe.routes || !self.enforces() {
            if self.hops.end(self.repeat()) {
                self.monitor.fabric.learned.forget(By::Probe);
                self.monitor.redraw_all();
            }
            return;
        }
        if !self.hops.begin() {
            return;
        }
        let fabric = self.monitor.fabric.clone();
        self.hops.hear(now.mono, |address| fabric.topology()?.switch_at(address));
        if self.hops.prober.is_ready(now.mono) {
            let own = namespaces::of(std::process::id()).unwrap_or_default();
            let subjects = self.monitor.sockets.iter().filter_map(|socket| self.subject(socket, own));
            let subjects: Vec<Subject> = subjects.collect();
            self.hops.prober.follow(now.mono, subjects.into_iter());
            if let Some(probe) = self.hops.prober.next(now.mono) {
                self.hops.send(&probe);
            }
        }
        for action in self.hops.prober.take_news() {
            if let Action::Routed { flow, holder, link } = action {
                self.monitor.routed(flow, holder, link, By::Probe);
            }
        }
    }

    /// A socket as one to ask for: of IPv4, in the daemon's own network, with several paths of which no switch says which it
    /// takes. It is not asked for while it has no row, as in a window in which nothing is paced.
    fn subject(&self, socket: &Socket, own: NetNs) -> Option<Subject> {
        let here = socket.netns == own || socket.netns == NetNs::default();
        let sequence = socket.stats.sequence.filter(|_| socket.row.is_some());
        let flow = socket.told.as_ref().filter(|_| here)?.flow;
        let fabric = &self.monitor.fabric;
        let source = fabric.way(flow, &socket.tuple)?.source;
        if matches!(source, PathSource::Only | PathSource::Switch | PathSource::Signature)
            || !socket.tuple.local_ip().is_ipv4()
        {
            return None;
        }
        Some(Subject { flow, connection: socket.tuple.connection(), sequence, ladder: fabric.ladder(&socket.tuple)? })
    }

    fn repeat(&self) -> Nanos {
        Nanos::from_millis(self.config.probe.repeat_s.saturating_mul(1000))
    }

    /// The configuration or the network is another one.
    pub(super) fn reprobe(&mut self) {
        let repeat = self.repeat();
        self.hops.prober.set_repeat(repeat);
        self.hops.prober.doubt();
        self.hops.retry();
    }

    fn count_questions(&mut self) {
        let RouteCounts { asked, answered, unanswered } = self.host.take_route_counts();
        self.counters.route_asked_switch += asked;
        self.counters.route_answered_switch += answered;
        self.counters.route_unanswered_switch += unanswered;
        let Counts { asked, answered, unanswered } = self.hops.prober.take_counts();
        self.counters.route_asked_probe += asked;
        self.counters.route_answered_probe += answered;
        self.counters.route_unanswered_probe += unanswered;
    }

    /// Are probes asked for that cannot be, or cannot say anything?
    pub(super) fn judge_probes(&mut self, unix: u64) {
        let topology = self.monitor.fabric.topology();
        let text = if !self.config.probe.routes {
            None
        } else if !topology.is_some_and(|topology| topology.has_port_addresses()) {
            Some("no switch of the topology has port_addresses, by which it could be known".to_owned())
        } else if self.config.switches.is_empty() {
            Some("no switch keeps the tables of its links, so that a path is of no use".to_owned())
        } else {
            self.hops.trouble().map(str::to_owned)
        };
        let text = text.map(|text| format!("probe.routes is on, but {text}"));
        self.conditions.hold(unix, ConditionCode::RoutesUnprobed, "", text);
    }
}
