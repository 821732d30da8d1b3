//! What the flight recorder is told of a slot: this host's jobs, flows and links as the loop knows them at the slot's edge.

use std::collections::{BTreeMap, BTreeSet};

use sluice_attribution::seen::{FlowSeen, Held, JobBytes, JobSeen, LinkSeen, MAX_FLOWS, MAX_LIST, Mark, Seen};
use sluice_schedule::{Bytes, Event, JobId, LinkId, Nanos, Now, Rate};

use super::Core;
use crate::flight::{Connection, Flight, Kept, Listed, ListedConnection, Told};
use crate::monitor::processes::Process;
use crate::monitor::sockets::Socket;
use crate::monitor::tuple::Tuple;

/// The file, where none is configured: in the state directory.
const FILE: &str = "flight.ring";

/// Places of links and peers while a slot is put together.
#[derive(Default)]
struct Places {
    links: BTreeMap<LinkId, u32>,
    peers: BTreeMap<String, u32>,
    /// The same by address: a host that sends by hundreds of connections is named once a slot.
    addresses: BTreeMap<[u8; 16], u32>,
    jobs: BTreeMap<JobId, u32>,
}

impl Places {
    /// The place of a connection's other end, which has this name.
    fn peer(&mut self, tuple: &Tuple, name: impl FnOnce(&Tuple) -> String, seen: &mut Seen) -> u32 {
        *self.addresses.entry(tuple.remote.0).or_insert_with(|| {
            let name = name(tuple);
            *self.peers.entry(name).or_insert_with_key(|name| push(&mut seen.peers, name.clone()))
        })
    }
}

/// Adds to a list; gives the place.
fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
}

impl Core {
    /// Begins, ends or changes the flight record to what the configuration says.
    pub fn fly_as_configured(&mut self) {
        let settings = &self.config.flight;
        let path = settings.file.clone().or_else(|| {
            // What makes no directory there wants no file there either.
            let dir = &self.config.node.state_dir;
            dir.is_dir().then(|| dir.join(FILE))
        });
        let time = Nanos::from_millis(settings.seconds.saturating_mul(1000));
        let kept = path.filter(|_| settings.max_bytes > 0 && settings.seconds > 0);
        let kept = kept.map(|path| Kept { path, time, max_bytes: settings.max_bytes });
        if self.flight.as_ref().map(|flight| &flight.kept) == kept.as_ref() {
            return;
        }
        // Its file is free again before another one is opened: it may be the same.
        self.end_flight();
        let Some(kept) = kept else { return };
        let file = kept.path.display().to_string();
        match Flight::start(kept, &self.config.node.name, self.config.slot_length(), self.monitor.others_eyes()) {
            Ok(flight) => {
                tracing::info!(event = "flight", file, "the last minutes of this host's jobs are recorded");
                self.flight = Some(flight);
            }
            Err(error) => tracing::warn!(
                event = "flight-failed",
                file,
                %error,
                cost = "sluice why knows nothing of the rounds from here on",
                next = "reload when the machine has threads to spare",
                "the flight recorder did not start"
            ),
        }
    }

    /// Ends it, and waits a moment for its last slots.
    pub fn end_flight(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.finish();
        }
    }

    /// Where it is.
    pub fn flight_path(&self) -> Option<&std::path::Path> {
        self.flight.as_ref().map(|flight| flight.kept.path.as_path())
    }

    /// Rounds that end and begin in this turn, in that order.
    pub(super) fn note_marks(&mut self, now: Now) {
        let Some(flight) = &mut self.flight else { return };
        let at = now.wall;
        let ended = self.monitor.ended_rounds.iter().map(|of| (of.job, Mark { at, round: of.round, ended: true }));
        flight.marks.extend(ended);
        for event in &self.events {
            if let Event::RoundBegan { job, .. } = event {
                let round = self.monitor.jobs.get(job).map_or(0, |job| job.rounds);
                flight.marks.push((*job, Mark { at, round, ended: false }));
            }
        }
    }

    /// Tells of the slot that is over.
    pub(super) fn fly(&mut self, now: Now) {
        let Some(mut flight) = self.flight.take() else { return };
        let since = flight.since.replace(now.wall);
        let marks = std::mem::take(&mut flight.marks);
        // A clock that was set makes a slot without a length, of which nothing can be said.
        if let Some(since) = since.filter(|since| *since < now.wall)
            && !self.monitor.jobs.is_empty()
        {
            let told = self.told(since, now, marks, &mut flight.listed);
            flight.say(told);
        }
        self.flight = Some(flight);
    }

    fn told(&self, from: Nanos, now: Now, marks: Vec<(JobId, Mark)>, listed: &mut Listed) -> Told {
        let mut told = Told::default();
        let mut places = Places::default();
        let seen = &mut told.seen;
        (seen.from, seen.to, seen.enforces) = (from, now.wall, self.enforces());
        for (id, job) in &self.monitor.jobs {
            let marks = marks.iter().filter(|(of, _)| of == id).map(|(_, mark)| *mark).collect();
            let mut processes = job.processes.iter().filter_map(|key| self.monitor.processes.get(key));
            let inferred = processes.all(|process| process.view.is_none());
            let job = JobSeen { id: *id, name: job.name.clone(), inferred, marks };
            places.jobs.insert(*id, push(&mut seen.jobs, job));
        }
        self.own_links(&mut told, &mut places);
        self.flows_seen(&mut told, &mut places);
        if listed.matching != Some(self.monitor.matchings) {
            *listed = Listed { matching: Some(self.monitor.matchings), connections: self.list_connections() };
        }
        self.connections(&listed.connections, &mut told, &mut places);
        told
    }

    fn own_links(&self, told: &mut Told, places: &mut Places) {
        let host = &self.config.node.name;
        for (index, link) in self.monitor.fabric.links.iter().enumerate() {
            let load = self.traffic.loads.get(index).copied().unwrap_or_default();
            let known = self.host.links().find(|status| status.link == link.egress);
            let capacity = known.map(|status| status.capacity).or(link.capacity).unwrap_or(Rate::ZERO);
            let name = format!("{host}:{}", link.name);
            let seen = LinkSeen { name, capacity, other: load.other, ..LinkSeen::default() };
            places.links.insert(link.egress, push(&mut told.seen.links, seen));
            let capacity = self.monitor.fabric.ingress(index).map(|hop| hop.capacity).or(link.capacity);
            let name = if index == 0 { format!("{host}:in") } else { format!("{host}:in{index}") };
            let capacity = capacity.unwrap_or(Rate::ZERO);
            let inwards = push(&mut told.seen.links, LinkSeen { name, capacity, inwards: true, ..LinkSeen::default() });
            let length = told.seen.to.minus(told.seen.from);
            told.received.push((inwards, load.received.over(length)));
        }
    }

    fn flows_seen(&self, told: &mut Told, places: &mut Places) {
        // As many as have rows, mostly: grown step by step they would be copied several times.
        let many = self.monitor.sockets.rows().min(MAX_FLOWS);
        told.seen.flows.reserve(many);
        told.flows.reserve(many);
        let statuses = self.host.links().map(|status| (status.link, status)).collect::<BTreeMap<_, _>>();
        let enforces = self.enforces();
        for status in self.host.flows() {
            if told.seen.flows.len() >= MAX_FLOWS {
                break;
            }
            let Some(socket) = self.monitor.sockets.of_flow(status.spec.flow) else { continue };
            let Some(job) = places.jobs.get(&status.spec.job).copied() else { continue };
            let active = status.demand > status.delivered || socket.moved_in_slot > Bytes::ZERO;
            if !active {
                continue;
            }
            let mut path = Vec::new();
            for hop in &status.spec.path {
                let place = places.links.entry(hop.link).or_insert_with(|| {
                    let known = statuses.get(&hop.link);
                    let rate = |of: Option<Rate>| of.unwrap_or(Rate::ZERO);
                    let link = LinkSeen {
                        name: crate::snapshot::link_name(self, hop.link),
                        capacity: known.map_or(hop.capacity, |status| status.capacity),
                        promised: rate(known.and_then(|status| status.load.first().copied())),
                        other: rate(known.map(|status| status.cross)),
                        ..LinkSeen::default()
                    };
                    push(&mut told.seen.links, link)
                });
                path.push(*place);
                if let Some(link) = told.seen.links.get_mut(*place as usize) {
                    add(&mut link.jobs, job, socket.moved_in_slot);
                }
            }
            let peer = places.peer(&socket.tuple, |tuple| self.peer_name(tuple), &mut told.seen);
            let spared = self.is_spared(status.spec.job);
            let stats = &socket.stats;
            told.seen.flows.push(FlowSeen {
                flow: status.spec.flow,
                job,
                peer,
                path,
                ordered: if enforces && !spared { status.order } else { Rate::ZERO },
                delivered: socket.moved_in_slot,
                remaining: status.demand.minus(status.delivered),
                queued: stats.queued,
                resent: socket.retransmitted_in_slot,
                segment: stats.segment,
                queueing: stats.srtt.minus(stats.rtt_min),
                rtt_min: stats.rtt_min,
                held: match stats.loss_guard {
                    true => Held::Guard,
                    false if enforces && !spared => Held::of(status.why),
                    false => Held::Not,
                },
                limits: None,
            });
            told.flows.push(connection(socket, job, peer));
        }
    }

    /// Every connection of every process, by which it sends, or receives, or both.
    fn list_connections(&self) -> Vec<ListedConnection> {
        let mut listed = Vec::new();
        for process in self.monitor.processes.values() {
            let Some(pid) = process.pid else { continue };
            // A page may name what was found as well.
            for tuple in tuples(process).collect::<BTreeSet<Tuple>>() {
                if listed.len() >= MAX_LIST {
                    return listed;
                }
                let link = self.monitor.fabric.link_between(tuple.local_ip(), tuple.remote_ip());
                let flow = tuple.outgoing(self.monitor.fabric.host);
                listed.push(ListedConnection { pid, netns: process.netns, tuple, flow, job: process.job, link });
            }
        }
        listed
    }

    /// The same with their places in this slot.
    fn connections(&self, listed: &[ListedConnection], told: &mut Told, places: &mut Places) {
        told.connections.reserve(listed.len());
        for of in listed {
            let &ListedConnection { pid, netns, tuple, flow, job, link } = of;
            let Some(job) = places.jobs.get(&job).copied() else { continue };
            if told.seen.peers.len() >= MAX_LIST {
                return;
            }
            let peer = places.peer(&tuple, |tuple| self.peer_name(tuple), &mut told.seen);
            // An inward link stands behind the outward one of the same card.
            let link = link.and_then(|link| told.received.get(link)).map(|(place, _)| *place);
            let out = link.and_then(|link| link.checked_sub(1));
            told.connections.push(Connection { pid, netns, tuple, flow, job, peer, link, out });
        }
    }

    fn peer_name(&self, tuple: &Tuple) -> String {
        let fabric = &self.monitor.fabric;
        let named = fabric.name_of(fabric.host_of(tuple.remote_ip())).map(str::to_owned);
        named.unwrap_or_else(|| tuple.remote_ip().to_string())
    }
}

fn connection(socket: &Socket, job: u32, peer: u32) -> Connection {
    let &Socket { pid, netns, tuple, flow, .. } = socket;
    Connection { pid, netns, tuple, flow, job, peer, link: None, out: None }
}

fn add(jobs: &mut Vec<JobBytes>, job: u32, bytes: Bytes) {
    match jobs.iter_mut().find(|of| of.job == job) {
        Some(of) => of.bytes = of.bytes.plus(bytes),
        None => jobs.push(JobBytes { job, bytes }),
    }
}

/// The connections of a process, as its page names them and as they were found.
fn tuples(process: &Process) -> impl Iterator<Item = Tuple> {
    let page = process.view.iter().flat_map(|view| &view.peers).map(|peer| Tuple::of(peer.local, peer.remote));
    page.chain(process.claims.iter().map(|claim| claim.tuple))
}
