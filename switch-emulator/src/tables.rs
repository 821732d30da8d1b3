//! All switches of one process, on one slot grid, behind one lock.
//!
//! Whatever comes in by gRPC or UDP ends here: the slot is read once, the brain of the addressed switch answers, and the
//! lock is released before anything is sent. Nothing here waits.

mod overview;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluice_schedule::clock::SlotClock;
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{Announcement, BootId, Feedback, HolderId, HostId, LinkId, Nanos, Rate, Refusal, Route, Slot};
use sluice_wire::accept::Peer;
use sluice_wire::hello::{Grid, Hello, HolderInfo, Welcome};
use sluice_wire::refusal::RefusalId;
use sluice_wire::speakers::{Source, Speaker, Speakers};
use tokio::sync::Notify;
use tonic::{Code, Status};

use crate::background::PortLoad;
use crate::config::{Config, PortConfig};
use crate::routes::Questions;
use crate::sessions::{Queue, Sessions};
use crate::time;
pub use overview::{Counts, Hellos, Overview, Report, Shown};

/// All switches of one process.
#[derive(Debug)]
pub struct Tables {
    grid: Grid,
    boot: BootId,
    max_hosts: usize,
    max_flows: usize,
    state: Mutex<State>,
    /// Where questions for routes go to, if anybody knows them.
    questions: Option<Questions>,
    changed: Notify,
}

#[derive(Debug)]
pub(crate) struct State {
    clock: SlotClock,
    pub(crate) switches: Vec<Held>,
    index: HashMap<HolderId, usize>,
    pub(crate) sessions: Sessions,
    pub(crate) speakers: Speakers,
    promises: usize,
    pub(crate) counts: Counts,
    hellos: Hellos,
    last_tick: Nanos,
}

#[derive(Debug)]
pub(crate) struct Held {
    name: String,
    holder: HolderId,
    pub(crate) brain: Switch,
    ports: Vec<(LinkId, String)>,
    touched: bool,
    pub(crate) updates: [Results; TRANSPORTS.len()],
}

/// What became of an announcement.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Why it was refused, if it was.
    pub refused: Option<Refusal>,
    /// `None`: there is nothing to answer that is not pushed.
    pub answer: Option<Feedback>,
}

/// One reading of the grid's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) slot: Slot,
    /// Since the clock's epoch.
    pub(crate) wall: Nanos,
}

/// How a message came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One stream.
    Session,
    /// A call.
    Unary,
    Udp,
}

/// Announcements by result: applied, then one per refusal.
pub(crate) type Results = [u64; 8];

/// The names of transports, as in metrics.
pub const TRANSPORTS: [&str; 3] = ["session", "unary", "udp"];

/// The names of `Results`, as in metrics.
pub const RESULTS: [&str; 8] =
    ["applied", "slot-guard", "old", "quota", "unknown-link", "foreign-flow", "link-not-yours", "unknown-host"];

impl Tables {
    pub fn new(config: &Config, boot: BootId, questions: Option<Questions>) -> Tables {
        let limits = Limits {
            // Beside those without a session there is room for as many with one.
            hosts: config.max_hosts.saturating_mul(2),
            lease_slots: config.lease_slots,
            horizon: config.grid.horizon as usize,
            ..Limits::default()
        };
        let held = |switch: &crate::config::SwitchConfig| {
            let ports = switch.ports.iter().map(|port| (switch.link(port), port.to.clone())).collect();
            let links = switch.ports.iter();
            let links = links.map(|port| link_config(switch.link(port), port));
            let links: Vec<LinkConfig> = links.collect();
            let mut brain = Switch::with_table(boot, limits.clone(), &links, config.table);
            brain.attach(config.attached(switch));
            Held {
                name: switch.name.clone(),
                holder: switch.holder(),
                brain,
                ports,
                touched: false,
                updates: Default::default(),
            }
        };
        let switches: Vec<Held> = config.switches.iter().map(held).collect();
        let index = switches.iter().enumerate().map(|(at, held)| (held.holder, at)).collect();
        let state = State {
            clock: SlotClock::new(config.grid.slot_length),
            switches,
            index,
            sessions: Sessions::default(),
            speakers: Speakers::new(config.places.clone()),
            promises: 0,
            counts: Counts::default(),
            hellos: Hellos::new(config),
            last_tick: sluice_clock::monotonic(),
        };
        Tables {
            grid: config.grid.clone(),
            boot,
            max_hosts: config.max_hosts,
            max_flows: config.max_flows,
            state: Mutex::new(state),
            questions,
            changed: Notify::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// The grid of slots that all switches here share with their hosts.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Reads the clock; a step that it shows is told.
    pub(crate) fn now(&self, state: &mut State) -> Now {
        let wall = time::wall(self.grid.clock);
        let reading = state.clock.read(sluice_clock::monotonic(), wall);
        if let Some(step) = reading.step {
            tracing::warn!(
                event = "clock-step",
                size_ms = step.size().0 / 1_000_000,
                cost = "hosts whose slots differ are refused until it agrees with theirs again",
                next = "let the time daemon slew, not step",
                "the clock was stepped"
            );
        }
        Now { slot: reading.slot, wall }
    }

    /// Checks a host's hello against this process's grid and what the connection proves, and answers it.
    pub fn greet(&self, hello: &Hello, peer: &Peer) -> Result<Welcome, Status> {
        let mut state = self.lock();
        let Now { slot, wall } = self.now(&mut state);
        if let Err(mismatch) = hello.check(&self.grid, slot) {
            state.counts.refused_hellos += 1;
            state.hellos.refused();
            return Err(mismatch.into());
        }
        let speaker = Speaker { source: Source::of(peer), host: hello.host };
        let proven = peer.speaks_for(&self.grid.cluster, &hello.name).inspect_err(|_| state.speakers.impostors += 1);
        let heard = proven.and_then(|()| {
            let heard = state.speakers.hear(sluice_clock::monotonic(), speaker);
            heard.map_err(|why| state.speakers.denied(&hello.name, speaker.source, why))
        });
        heard?;
        state.hellos.told(hello.host, &hello.name);
        let name = state.switches.first().map_or(String::new(), |held| held.name.clone());
        let info = |held: &Held| HolderInfo {
            id: held.holder,
            name: held.name.clone(),
            boot: self.boot,
            warm: held.brain.warm(slot),
        };
        let host = HostId::of(&name);
        let holders = state.switches.iter().map(info).collect();
        Ok(Welcome { hello: Hello { grid: self.grid.clone(), name, host, boot: self.boot, slot, now: wall }, holders })
    }

    /// Takes a host's stream in. Gives its number.
    pub fn join(&self, host: HostId, queue: Queue) -> Result<u64, Status> {
        let mut state = self.lock();
        if state.sessions.hosts() >= self.max_hosts && !state.sessions.has(host) {
            let text = format!(
                "host-over-quota: {} hosts are connected; allowed {}. Raise max_hosts.",
                state.sessions.hosts(),
                self.max_hosts
            );
            return Err(RefusalId::HostOverQuota.status(Code::ResourceExhausted, text));
        }
        Ok(state.sessions.join(host, queue))
    }

    /// A stream of this host is over; what it promised goes when its lease ends.
    pub fn leave(&self, host: HostId, number: u64) {
        self.lock().sessions.leave(host, number);
    }

    pub fn end_all(&self, status: &Status) {
        self.lock().sessions.end_all(status);
    }

    /// Applies one announcement that came from there, and answers it. The caller has checked that it comes from the host
    /// it names.
    pub fn announce(&self, speaker: (Source, Transport), holder: HolderId, announcement: &Announcement) -> Taken {
        let mut state = self.lock();
        let slot = self.now(&mut state).slot;
        let taken = state.announce(self, slot, holder, announcement, speaker);
        drop(state);
        self.changed.notify_one();
        if let Some(questions) = self.questions.as_ref().filter(|_| taken.refused.is_none()) {
            questions.ask(holder, announcement.host, &announcement.routes);
        }
        taken
    }

    /// The routes of flows that hosts asked this switch for.
    pub(crate) fn routes_known(&self, holder: HolderId, routes: &[(HostId, Route)]) {
        let mut state = self.lock();
        let at = state.index.get(&holder).copied();
        if let Some(held) = at.and_then(|at| state.switches.get_mut(at)) {
            held.touched = true;
            routes.iter().for_each(|(host, route)| _ = held.brain.route_known(*host, *route));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// What `host` should see of these holders, or of all if none is named; nothing of those it has no lease at.
    pub fn fetch(&self, host: HostId, holders: &[HolderId]) -> Vec<(HolderId, Feedback)> {
        let mut state = self.lock();
        let slot = self.now(&mut state).slot;
        let asked = |held: &&mut Held| holders.is_empty() || holders.contains(&held.holder);
        let view = |held: &mut Held| Some((held.holder, held.brain.feedback(slot, host)?));
        state.switches.iter_mut().filter(asked).filter_map(view).collect()
    }

    /// Ends leases that are over; call it at every slot edge. Gives the time to the next one.
    pub fn tick(&self) -> Nanos {
        let mut state = self.lock();
        let Now { slot, wall } = self.now(&mut state);
        state.last_tick = sluice_clock::monotonic();
        let mut promises = 0;
        for held in &mut state.switches {
            held.brain.expire(slot);
            held.touched = true;
            promises += held.brain.leases().map(|lease| lease.promises).sum::<usize>();
        }
        state.promises = promises;
        let mono = state.last_tick;
        state.speakers.tick(mono);
        let next = state.clock.until_edge(wall);
        drop(state);
        self.changed.notify_one();
        next
    }

    /// Is told when something changed that hosts may want to hear.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Tells every connected host whose watched links or jobs changed since it last heard. Gives how many hosts are
    /// connected.
    pub fn push(&self) -> usize {
        let began = sluice_clock::thread_cpu();
        let mut guard = self.lock();
        let slot = self.now(&mut guard).slot;
        let state = &mut *guard;
        for held in &mut state.switches {
            if !std::mem::take(&mut held.touched) {
                continue;
            }
            for host in held.brain.take_stale() {
                if !state.sessions.has(host) {
                    continue;
                }
                if let Some(feedback) = held.brain.feedback(slot, host) {
                    state.sessions.push(host, held.holder, feedback);
                    state.counts.pushes += 1;
                }
            }
        }
        state.counts.push_cpu = state.counts.push_cpu.plus(sluice_clock::thread_cpu().minus(began));
        state.sessions.hosts()
    }

    /// What managed flows take of a port's link now; zero where it is not kept here.
    pub fn taken(&self, switch: &str, port: u32) -> Rate {
        let state = self.lock();
        let holder = HolderId::of(switch);
        let held = state.index.get(&holder).and_then(|at| state.switches.get(*at));
        held.and_then(|held| held.brain.taken(LinkId::new(holder.0, port))).unwrap_or_default()
    }

    /// The largest capacity of a link here.
    pub fn fastest(&self) -> Rate {
        let state = self.lock();
        let links =
            state.switches.iter().flat_map(|held| held.brain.links().map(|link| link.capacity).collect::<Vec<_>>());
        links.max().unwrap_or_default()
    }

    /// Sets the unmanaged load of links. Gives how many are not kept here.
    pub fn set_background(&self, loads: &[PortLoad]) -> usize {
        let mut state = self.lock();
        let mut unknown = 0;
        for load in loads {
            let holder = HolderId::of(&load.switch);
            let at = state.index.get(&holder).copied();
            let known = at.and_then(|at| state.switches.get_mut(at)).is_some_and(|held| {
                let link = LinkId::new(holder.0, load.port);
                held.touched = true;
                held.brain.set_cross(link, load.rate.payload())
            });
            unknown += usize::from(!known);
        }
        drop(state);
        self.changed.notify_one();
        unknown
    }
}

impl State {
    pub(crate) fn announce(
        &mut self,
        tables: &Tables,
        slot: Slot,
        holder: HolderId,
        announcement: &Announcement,
        (source, transport): (Source, Transport),
    ) -> Taken {
        let began = sluice_clock::thread_cpu();
        let Some(held) = self.index.get(&holder).and_then(|at| self.switches.get_mut(*at)) else {
            let refused = Some(Refusal::UnknownLink);
            let feedback = Feedback { boot: tables.boot, slot, warm: true, refused, ..Feedback::default() };
            return Taken { refused, answer: Some(feedback) };
        };
        let (host, mono) = (announcement.host, sluice_clock::monotonic());
        let speaker = Speaker { source, host };
        let banned = self.speakers.is_banned(mono, speaker);
        // Whoever greeted keeps its name by speaking.
        let _ = self.speakers.hear(mono, speaker);
        let asked: usize = announcement.flows.iter().map(|flow| flow.links.len()).sum();
        let known = |held: &Held| held.brain.lease(host).map_or(0, |lease| lease.promises);
        let full = self.promises + asked > tables.max_flows && self.promises + asked > tables.max_flows + known(held);
        // Datagrams and single calls bear as many names as somebody makes up; sessions are counted as hosts join.
        let newcomer = transport != Transport::Session && held.brain.lease(host).is_none();
        let crowded = newcomer && held.brain.host_count() >= tables.max_hosts;
        let answer = if banned || full || crowded {
            let mut feedback = held.brain.feedback(slot, host).unwrap_or_else(|| Feedback {
                boot: tables.boot,
                slot,
                warm: held.brain.warm(slot),
                ..Feedback::default()
            });
            feedback.refused = Some(Refusal::Quota);
            Some(feedback)
        } else {
            held.touched = true;
            match transport {
                // What others change is pushed.
                Transport::Session => held.brain.hear(slot, announcement),
                Transport::Unary => Some(held.brain.announce(slot, announcement)),
                // A datagram brings back what its own packet has room for.
                Transport::Udp => {
                    let refused = held.brain.take(slot, announcement);
                    refused.map(|_| Feedback { refused, ..Feedback::default() })
                }
            }
        };
        let refused = answer.as_ref().and_then(|answer| answer.refused);
        held.updates[transport as usize][result(refused)] += 1;
        match refused {
            Some(Refusal::Quota) if !banned => {
                if self.speakers.offended(mono, speaker) {
                    shut_out(speaker);
                }
            }
            None => self.speakers.behaved(mono, speaker),
            Some(_) => {}
        }
        self.counts.table_cpu = self.counts.table_cpu.plus(sluice_clock::thread_cpu().minus(began));
        Taken { refused, answer }
    }
}

fn result(refused: Option<Refusal>) -> usize {
    match refused {
        None => 0,
        Some(Refusal::SlotGuard) => 1,
        Some(Refusal::Old) => 2,
        Some(Refusal::Quota) => 3,
        Some(Refusal::UnknownLink) => 4,
        Some(Refusal::ForeignFlow) => 5,
        Some(Refusal::LinkNotYours) => 6,
        Some(Refusal::UnknownHost) => 7,
    }
}

fn shut_out(Speaker { source, host }: Speaker) {
    tracing::warn!(
        event = "host-over-quota",
        host = %host,
        cost = "it is not listened to for 60 s from where it asked",
        next = "mend its links in the topology if the host is right; log.level = \"debug\" says from where it asked",
        "a host asked for more than its quota 10 times in a row"
    );
    tracing::debug!(event = "host-over-quota", host = %host, from = %source, "it asked from there");
}

/// A link as the brain is told: payload rates. What it leads to is a host of that name, or a switch, which measures nothing.
fn link_config(link: LinkId, port: &PortConfig) -> LinkConfig {
    let attached = Some(HostId::of(&port.to));
    LinkConfig { link, capacity: port.wire.payload(), cross: port.background.payload(), attached }
}

#[cfg(test)]
mod tests;
