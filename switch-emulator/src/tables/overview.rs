//! What metrics and health pages show of the process and of its switches.

use std::collections::HashMap;

use sluice_schedule::switch::{Counters, HostLease, LinkLoad};
use sluice_schedule::{HostId, Nanos, Rate, Slot};
use sluice_wire::snapshot::Label;
use sluice_wire::snapshot::holder::{HeardHost, HeldLink, HeldSwitch};

use super::{Held, Results, State, TRANSPORTS, Tables};
use crate::config::Config;

/// Work of the process as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pushes: u64,
    /// Hellos that did not fit.
    pub refused_hellos: u64,
    /// CPU time in the brains.
    pub table_cpu: Nanos,
    /// CPU time for unasked feedback.
    pub push_cpu: Nanos,
}

/// The process at one moment.
#[derive(Debug)]
pub struct Overview {
    pub switches: Vec<Report>,
    /// What was counted over all of them.
    pub counts: Counts,
    /// Hosts connected by a session.
    pub sessions: usize,
    /// Messages in the name of another than their sender.
    pub impostors: u64,
    /// Speakers that were shut out for a while.
    pub bans: u64,
}

/// What metrics and health pages show of one switch.
#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub hosts: usize,
    pub leases: usize,
    pub warm: bool,
    pub counters: Counters,
    /// Announcements by transport and result.
    pub updates: [Results; TRANSPORTS.len()],
    /// Per link: the node it leads to, and its load.
    pub links: Vec<(String, LinkLoad)>,
}

/// What the page shows of the tables.
#[derive(Debug)]
pub struct Shown {
    /// The present slot.
    pub slot: Slot,
    pub switches: Vec<HeldSwitch>,
    /// Leases of hosts, so many at most.
    pub hosts: Vec<HeardHost>,
    pub hosts_in_all: u64,
    /// Links, so many at most: those with load before those without.
    pub links: Vec<HeldLink>,
    pub links_in_all: u64,
    pub sessions: usize,
    pub counts: Counts,
    /// When a host's grid did not fit last, on the monotonic clock.
    pub mismatched: Option<Nanos>,
}

impl Tables {
    /// How long ago the last slot edge was handled.
    pub fn since_tick(&self) -> Nanos {
        sluice_clock::monotonic().minus(self.lock().last_tick)
    }

    /// What the page shows, with so many hosts and links at most.
    pub fn shown(&self, most_hosts: usize, most_links: usize) -> Shown {
        let mut state = self.lock();
        let slot = self.now(&mut state).slot;
        let (mut switches, mut hosts, mut idle, mut links) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut hosts_in_all, mut links_in_all) = (0, 0);
        for held in &state.switches {
            let (mut leases, mut promises, mut most) = (0, 0, None);
            for lease in held.brain.leases() {
                leases += 1;
                promises += lease.promises as u64;
                if hosts.len() < most_hosts {
                    hosts.push(heard(&state, held, slot, &lease));
                }
            }
            for (load, (_, to)) in held.brain.links().zip(&held.ports) {
                let peak = peak(&load);
                most = Some(most.map_or(peak, |most: f64| most.max(peak)));
                let list = if peak > 0.0 { &mut links } else { &mut idle };
                if list.len() < most_links {
                    list.push(shown_link(&held.name, to, load, peak));
                }
            }
            let Counters {
                guard_rejects,
                quota_refusals,
                old,
                unknown_links,
                foreign_flows,
                foreign_links,
                unknown_hosts,
                ..
            } = held.brain.counters();
            switches.push(HeldSwitch {
                name: held.name.clone(),
                warm: held.brain.warm(slot),
                hosts: leases,
                promises,
                links: held.ports.len() as u64,
                peak_ratio: most,
                applied: held.brain.counters().updates,
                refused: guard_rejects
                    + quota_refusals
                    + old
                    + unknown_links
                    + foreign_flows
                    + foreign_links
                    + unknown_hosts,
                refused_slot: guard_rejects,
                refused_quota: quota_refusals,
                expired: held.brain.counters().expirations,
            });
            hosts_in_all += leases;
            links_in_all += held.ports.len() as u64;
        }
        links.extend(idle);
        links.truncate(most_links);
        let (sessions, counts, mismatched) = (state.sessions.hosts(), state.counts, state.hellos.mismatched);
        Shown { slot, switches, hosts, hosts_in_all, links, links_in_all, sessions, counts, mismatched }
    }

    pub fn overview(&self) -> Overview {
        let mut state = self.lock();
        let slot = self.now(&mut state).slot;
        let report = |held: &Held| Report {
            name: held.name.clone(),
            hosts: held.brain.hosts().count(),
            leases: held.brain.leases().map(|lease| lease.promises).sum(),
            warm: held.brain.warm(slot),
            counters: held.brain.counters(),
            updates: held.updates,
            links: held.ports.iter().map(|(_, to)| to.clone()).zip(held.brain.links()).collect(),
        };
        Overview {
            switches: state.switches.iter().map(report).collect(),
            counts: state.counts,
            sessions: state.sessions.hosts(),
            impostors: state.speakers.impostors,
            bans: state.speakers.bans,
        }
    }
}

/// The largest load within the horizon, of what unmanaged traffic leaves.
fn peak(load: &LinkLoad) -> f64 {
    let most = load.load.iter().copied().max().unwrap_or_default();
    if most == Rate::ZERO { 0.0 } else { most.ratio_of(load.capacity.minus(load.cross)).min(1e6) }
}

fn shown_link(switch: &str, to: &str, load: LinkLoad, peak_ratio: f64) -> HeldLink {
    HeldLink {
        switch: switch.to_owned(),
        port: load.link.port(),
        to: to.to_owned(),
        capacity_bps: load.capacity.0,
        other_bps: load.cross.0,
        next_bps: load.load.iter().map(|rate| rate.0).collect(),
        peak_ratio,
        flows: load.flows as u64,
        watchers: load.watchers as u64,
    }
}

fn heard(state: &State, held: &Held, slot: Slot, lease: &HostLease) -> HeardHost {
    let name = state.hellos.name(lease.host);
    HeardHost {
        switch: held.name.clone(),
        host: name.cloned().unwrap_or_else(|| Label::new(&lease.host.to_string())),
        boot: lease.boot.to_string(),
        session: state.sessions.has(lease.host),
        age_slots: slot.since(lease.slot),
        lease_slots: lease.ends.since(slot),
        promises: lease.promises as u64,
    }
}

/// What hosts said of themselves: the names of those that ports lead to, and of those that said theirs.
#[derive(Debug, Default)]
pub struct Hellos {
    attached: HashMap<HostId, Label>,
    said: HashMap<HostId, Label>,
    most: usize,
    /// When a host's grid did not fit last.
    mismatched: Option<Nanos>,
}

impl Hellos {
    /// The nodes that ports lead to; and room for the names of as many hosts as may have a session.
    pub fn new(config: &Config) -> Hellos {
        let ports = config.switches.iter().flat_map(|switch| &switch.ports);
        let attached = ports.map(|port| (HostId::of(&port.to), Label::new(&port.to))).collect();
        Hellos { attached, most: config.max_hosts, ..Hellos::default() }
    }

    /// A host whose grid fits has said its name. Those that were said long ago are forgotten for those that are many.
    pub fn told(&mut self, host: HostId, name: &str) {
        if self.attached.contains_key(&host) || self.said.contains_key(&host) {
            return;
        }
        if self.said.len() >= self.most {
            self.said.clear();
        }
        self.said.insert(host, Label::new(name));
    }

    /// A host's grid does not fit.
    pub fn refused(&mut self) {
        self.mismatched = Some(sluice_clock::monotonic());
    }

    fn name(&self, host: HostId) -> Option<&Label> {
        self.attached.get(&host).or_else(|| self.said.get(&host))
    }
}
