//! What breaks: hosts, daemons, switches, the road between them, clocks.
//!
//! A killed daemon's flows coast on their last orders until the kernel drops those, then share plainly. Whoever was
//! connected to a process that ended notices at once; across a partition a connection is given up after two seconds
//! without an answer, as the daemon's exchange does it. A daemon that stands still coasts as a killed one does and goes on where
//! it was; its own table, where hosts keep the tables, goes on answering. Connections come back after a pause that grows with the outage,
//! up to five seconds, at random inside it.

use std::collections::{BTreeMap, BTreeSet};

use sluice_scenario::{Fault, FaultKind, Tables};
use sluice_schedule::host::Host;
use sluice_schedule::{HolderId, Nanos};

use super::SluiceScheduler;
use super::agenda::Due;
use super::fabric::{holder_id, node_of};
use crate::scheduler::Orders;
use crate::world::{FlowIx, World};

/// Nothing heard for so long, although something was said: the connection is given up.
const DEAD: Nanos = Nanos::from_millis(2_000);
/// Bounds of the pause before a connection is tried again.
const PAUSE: (Nanos, Nanos) = (Nanos::from_millis(50), Nanos::from_millis(5_000));

/// What is broken at the moment.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Since when a node is cut off.
    cut: BTreeMap<usize, Nanos>,
    /// Since when a process is gone.
    down: BTreeMap<usize, Nanos>,
    /// Connections (host, holder) that were given up.
    lost: BTreeSet<(usize, usize)>,
    /// Slot-guard refusals of processes that are gone.
    pub guards: u64,
}

impl SluiceScheduler {
    /// A fault begins or is over.
    pub(super) fn fault(&mut self, fault: &Fault, over: bool, world: &World<'_>, orders: &mut Orders) {
        let (at, node) = (world.now, fault.target.0);
        match (fault.kind, over) {
            (FaultKind::HostDeath | FaultKind::DaemonKill, true) => self.daemon_returns(at, node, world),
            (FaultKind::HostDeath | FaultKind::DaemonKill, false) => {
                let coasts = fault.kind == FaultKind::DaemonKill;
                self.daemon_dies(at, node, coasts, orders);
            }
            (FaultKind::DaemonStop, over) => {
                let Some(daemon) = self.daemons.get_mut(node) else { return };
                daemon.stands = !over;
                self.turns.insert(node);
                if !over {
                    self.coast(at, node);
                }
            }
            (FaultKind::SwitchRestart, false) => {
                self.holder_stops(at, node);
                if fault.lasts.is_none() {
                    self.holder_starts(at, node);
                }
            }
            (FaultKind::SwitchRestart, true) => self.holder_starts(at, node),
            (FaultKind::Partition, false) => {
                self.post.cut(node);
                self.faults.cut.entry(node).or_insert(at);
                self.agenda.add(at.plus(DEAD), Due::Silent { node, since: at });
            }
            (FaultKind::Partition, true) => {
                if self.post.heal(node) {
                    let since = self.faults.cut.remove(&node).unwrap_or(at);
                    self.reconnect(at, node, at.minus(since));
                }
            }
            (FaultKind::ClockSkew, _) => {
                let skew = if over { Nanos::ZERO } else { self.slot.scaled(fault.slots) };
                if let Some(daemon) = self.daemons.get_mut(node) {
                    daemon.clock.skew = skew;
                    self.turns.insert(node);
                }
                if let Some(holder) = self.holders.get_mut(&node) {
                    holder.clock.skew = skew;
                }
            }
        }
    }

    fn daemon_dies(&mut self, at: Nanos, node: usize, coasts: bool, orders: &mut Orders) {
        let Some(daemon) = self.daemons.get_mut(node).filter(|daemon| daemon.runs) else { return };
        daemon.stop();
        if coasts {
            self.coast(at, node);
        } else {
            for flow in self.ordered(node) {
                self.free(flow, orders);
            }
        }
        self.awake.remove(&node);
        self.turns.remove(&node);
        self.faults.lost.retain(|(host, _)| *host != node);
        if self.fabric.tables == Tables::Nic {
            self.holder_stops(at, node);
        }
    }

    /// Nobody renews the orders of a host's flows: each ends when it runs out, if it was not renewed by then after all.
    fn coast(&mut self, at: Nanos, node: usize) {
        for flow in self.ordered(node) {
            if let Some(until) = self.flows.get(flow.0).map(|known| known.until) {
                self.agenda.add(until.max(at), Due::Expire { flow, until });
            }
        }
    }

    /// Flows of a host that are held to an order.
    fn ordered(&self, node: usize) -> Vec<FlowIx> {
        let own = self.daemons.get(node).map(|daemon| daemon.own.clone()).unwrap_or_default();
        let held = |flow: &FlowIx| self.flows.get(flow.0).is_some_and(|known| known.until > Nanos::ZERO);
        own.into_iter().filter(held).collect()
    }

    fn daemon_returns(&mut self, at: Nanos, node: usize, world: &World<'_>) {
        let Some(daemon) = self.daemons.get_mut(node).filter(|daemon| !daemon.runs) else { return };
        daemon.start();
        let jobs = daemon.jobs.clone();
        if daemon.awake() {
            self.awake.insert(node);
        }
        for job in jobs {
            self.introduce(node, job, world);
            self.tell_round(job, &[node], world);
        }
        if self.fabric.tables == Tables::Nic {
            self.holder_starts(at, node);
        }
    }

    fn holder_stops(&mut self, at: Nanos, node: usize) {
        if let Some(holder) = self.holders.get_mut(&node) {
            self.faults.guards += holder.brain().map_or(0, |brain| brain.counters().guard_rejects);
            holder.stop();
            self.faults.down.entry(node).or_insert(at);
            for (host, holder) in self.connections(node).into_iter().filter(|(_, holder)| *holder == node) {
                self.link(at, host, holder, false);
            }
        }
    }

    fn holder_starts(&mut self, at: Nanos, node: usize) {
        if let Some(holder) = self.holders.get_mut(&node) {
            holder.start();
            let since = self.faults.down.remove(&node).unwrap_or(at);
            self.reconnect(at, node, at.minus(since));
        }
    }

    /// A partition has lasted for as long as connections bear.
    pub(super) fn silent(&mut self, at: Nanos, node: usize, since: Nanos) {
        if self.post.is_cut(node) && self.faults.cut.get(&node) == Some(&since) {
            for (host, holder) in self.connections(node) {
                self.link(at, host, holder, false);
            }
        }
    }

    /// The connections of a node that were given up come back one by one.
    fn reconnect(&mut self, at: Nanos, node: usize, outage: Nanos) {
        let lost: Vec<_> = self.faults.lost.iter().filter(|(h, k)| *h == node || *k == node).copied().collect();
        for (host, holder) in lost {
            let pause = outage.max(PAUSE.0).min(PAUSE.1).scaled(self.post.uniform());
            self.agenda.add(at.plus(pause), Due::Link { host, holder, up: true });
        }
    }

    /// A connection breaks or stands.
    pub(super) fn link(&mut self, at: Nanos, host: usize, holder: usize, up: bool) {
        let broken = self.post.is_cut(host)
            || self.post.is_cut(holder)
            || self.holders.get(&holder).is_some_and(|holder| holder.brain().is_none());
        if up && broken {
            return; // The next outage began before the connection stood; its end tries again.
        }
        if up {
            self.faults.lost.remove(&(host, holder));
        } else if self.faults.lost.insert((host, holder)) {
            self.tally.connections_lost += 1;
        } else {
            return;
        }
        if let Some(daemon) = self.daemons.get_mut(host) {
            daemon.link(holder_id(holder), up);
        }
        self.wake_soon(at, host);
    }

    /// (host, holder) of every connection that ends at this node.
    fn connections(&self, node: usize) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for (host, daemon) in self.daemons.iter().enumerate() {
            let holders = daemon.brain().into_iter().flat_map(Host::views).map(|(holder, _): (HolderId, _)| holder);
            let concerned = holders.map(|holder| node_of(holder.0)).filter(|holder| *holder == node || host == node);
            all.extend(concerned.filter(|holder| *holder != host).map(|holder| (host, holder)));
        }
        all
    }
}
