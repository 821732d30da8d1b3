//! What was said to a switch by datagrams, and what their echoes say of its links; pure, with the slot as an argument.
//!
//! A datagram says one flow's rates and comes back as an echo with sums over the switches that it passed: their loads
//! together, and the least room. Two things have to be made of that. The *others'* load is what is left when the own flows
//! are taken off, as the switch knew them when it wrote the echo: datagrams are numbered, those before an echo are
//! counted if their own echo says so, and one without an echo counts as the lesser of what it says and what was said
//! before, so that others are never thought less than they are. And a *link* has what the echo says where a flow passes one
//! switch of the process; where it passes several, each of its links is taken to be as full as the fullest, and several
//! flows narrow that down.
//!
//! A switch counts a flow once a slot. Who announced first in a slot keeps what he has: what others announce after that is
//! not held against him before the next slot, because they saw him.

mod read;
mod said;
mod ways;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use sluice_schedule::{FlowId, HolderId, LinkId, Slot};
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, LANES, LENGTH, Packet, Tuple};

use read::{Reading, View};
pub use said::{Ground, Said, Tally};
use said::{Promise, Told};
pub use ways::Passed;

/// Slots after which a switch has forgotten a flow that nobody announced again.
const LEASE: i32 = 2;
/// Signatures of paths kept at most.
const MAX_SIGNATURES: usize = 65_536;

/// One datagram.
pub type Datagram = [u8; LENGTH];
/// Something per slot of a datagram, in its units.
type Units = [u32; LANES];

/// What the switch has of a flow's last datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing came back yet, or some switch of several did not count it.
    Unknown,
    Counted,
    Refused,
}

/// Rates from a slot on.
#[derive(Clone, Copy, Debug)]
struct Rates {
    slot: Slot,
    units: Units,
}

impl Rates {
    /// What of it a switch still has in `slot` for the slot `ahead` slots later.
    fn at(&self, slot: Slot, ahead: usize) -> u32 {
        let age = slot.since(self.slot);
        if !(0..LEASE).contains(&age) {
            return 0;
        }
        self.units.get(ahead + age as usize).copied().unwrap_or(0)
    }

    /// At most what either of them is in any slot: a switch that has these or `newer` forgets these first.
    fn least(mut self, newer: &Rates) -> Rates {
        let later = usize::try_from(newer.slot.since(self.slot)).unwrap_or(0);
        self.units.iter_mut().skip(later).zip(newer.units).for_each(|(units, newer)| *units = newer.min(*units));
        self
    }
}

/// A flow as it was announced last.
#[derive(Debug)]
struct Flow {
    tuple: Tuple,
    links: Vec<LinkId>,
    said: Rates,
    before: Option<Rates>,
    /// The number of the datagram by which the switch knows it.
    order: u64,
    fate: Fate,
    copies: u8,
    /// By which way it went last.
    signature: Option<u32>,
}

impl Flow {
    /// What the switch has of it at least.
    fn known_there(&self) -> Option<Rates> {
        match self.fate {
            Fate::Refused => self.before,
            Fate::Counted => Some(self.said),
            Fate::Unknown => Some(self.before?.least(&self.said)),
        }
    }
}

/// A datagram that waits for its echo.
#[derive(Debug)]
struct Asked {
    kind: Kind,
    flow: FlowId,
    slot: Slot,
    order: u64,
    tuple: Tuple,
    links: Vec<LinkId>,
}

/// By which connection a link can be read.
#[derive(Clone, Debug)]
struct Way {
    flow: FlowId,
    tuple: Tuple,
    links: Vec<LinkId>,
}

/// The state of the exchange with one process.
#[derive(Debug, Default)]
pub struct Book {
    ground: Arc<Ground>,
    copies: u8,
    holders: BTreeMap<HolderId, Told>,
    flows: BTreeMap<FlowId, Flow>,
    ways: BTreeMap<LinkId, Way>,
    asked: HashMap<u16, Asked>,
    readings: Vec<Reading>,
    /// Some echo came since feedback was made.
    heard: bool,
    views: BTreeMap<LinkId, View>,
    /// Links of flows of which the switch says that it is on no path of theirs.
    unknown: BTreeSet<LinkId>,
    signatures: HashMap<Tuple, u32>,
    /// Flows whose way is not told yet, with its signature.
    passed: BTreeMap<FlowId, u32>,
    /// Stands for the boot id, which no echo has: another signature of a known path is a switch that began anew.
    boot: u64,
    /// From this slot on a load of zero means zero.
    warm_from: Slot,
    /// Some switch refuses this host's slots.
    pub guarded: bool,
    /// Not every flow was counted.
    refused: bool,
    seq: u16,
    order: u64,
    tally: Tally,
}

impl Book {
    /// Nothing said yet. A flow is announced at most `copies` times a slot.
    pub fn new(ground: Arc<Ground>, copies: u8, slot: Slot) -> Book {
        Book { ground, copies: copies.max(1), warm_from: slot.offset(LEASE), ..Book::default() }
    }

    /// A datagram to see who is there: it reads the way to this host.
    pub fn hello(&mut self, slot: Slot) -> Datagram {
        let own = self.ground.ingress.values().next().copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
        let way = self.to_itself(own, Vec::new());
        self.read(slot, way)
    }

    /// Takes announcements in. Appends what has to be said now: flows that are new in this slot, and probes of links that
    /// none of them crosses.
    pub fn announce(&mut self, slot: Slot, pending: BTreeMap<HolderId, Said>, out: &mut Vec<Datagram>) {
        for (holder, said) in pending {
            self.holders.insert(holder, said.told(self.ground.unit));
        }
        self.forget(slot);
        let mut covered = BTreeSet::new();
        for (id, promise) in self.promised(slot) {
            for link in &promise.links {
                self.ways.insert(*link, Way { flow: id, tuple: promise.tuple, links: promise.links.clone() });
            }
            if self.flows.get(&id).is_none_or(|known| known.said.slot != slot) {
                covered.extend(promise.links.iter().copied());
                let Promise { tuple, links, units, .. } = promise;
                out.push(self.say(slot, id, (tuple, links), units));
            }
        }
        self.withdraw(slot, out);
        if self.ground.ways_only {
            return self.assume_room(slot);
        }
        let unread =
            |link: &LinkId| self.views.get(link).is_none_or(|view| view.slot != slot) && !covered.contains(link);
        let links: Vec<LinkId> = self.watched().into_iter().filter(unread).collect();
        self.cover(slot, links, out);
    }

    /// Reads every link that this host wants to know of.
    pub fn probe(&mut self, slot: Slot, out: &mut Vec<Datagram>) {
        self.forget(slot);
        if !self.ground.ways_only {
            self.cover(slot, self.watched(), out);
        }
    }

    /// Takes back flows that are not promised any more and were announced in an earlier slot.
    pub fn withdraw(&mut self, slot: Slot, out: &mut Vec<Datagram>) {
        let promised = self.promised(slot);
        let over = |(id, flow): (&FlowId, &Flow)| {
            let gone = flow.said.slot != slot && flow.said.units != [0; LANES] && !promised.contains_key(id);
            gone.then(|| (*id, flow.tuple, flow.links.clone()))
        };
        let over: Vec<_> = self.flows.iter().filter_map(over).collect();
        for (id, tuple, links) in over {
            out.push(self.say(slot, id, (tuple, links), [0; LANES]));
        }
    }

    /// Says again what was said in this slot and has no echo.
    pub fn repeat(&mut self, slot: Slot, out: &mut Vec<Datagram>) {
        let copies = self.copies;
        let silent = |(id, flow): (&FlowId, &mut Flow)| {
            let again = flow.said.slot == slot && flow.fate == Fate::Unknown && flow.copies < copies;
            flow.copies += u8::from(again);
            again.then_some(*id)
        };
        let again: Vec<FlowId> = self.flows.iter_mut().filter_map(silent).collect();
        for id in again {
            let Some(flow) = self.flows.get(&id) else { continue };
            let (way, said, before) = ((flow.tuple, flow.links.clone()), flow.said, flow.before);
            self.tally.repeated += 1;
            out.push(self.send(Kind::Announce, slot, id, way, (&said, before.as_ref())));
        }
    }

    /// Takes in what came. False: it is not an echo that anything waits for.
    pub fn echo(&mut self, now: Slot, bytes: &[u8]) -> bool {
        let Some((asked, packet)) = self.matched(now, bytes) else {
            self.tally.unexpected += 1;
            return false;
        };
        self.tally.answered += 1;
        self.tally.guarded += u64::from(packet.flags & GUARD != 0);
        if self.ground.ways_only {
            self.notice(&asked, &packet);
            self.note_fate(&asked, &packet);
            return true;
        }
        self.heard = true;
        self.guarded = packet.flags & GUARD != 0;
        if packet.hops == 0 {
            self.unknown.extend(asked.links);
            return true;
        }
        self.notice(&asked, &packet);
        if asked.kind == Kind::Announce {
            self.note_fate(&asked, &packet);
        }
        for link in &asked.links {
            self.unknown.remove(link);
        }
        if !self.guarded {
            self.readings.push(Reading::of(&packet, asked.order, asked.links));
        }
        true
    }

    /// Has every datagram its echo?
    pub fn is_settled(&self) -> bool {
        self.asked.is_empty()
    }

    /// Is there anything that the switch knows of this host's flows?
    pub fn is_known_there(&self, slot: Slot) -> bool {
        self.flows.values().any(|flow| slot.since(flow.said.slot) < LEASE && flow.said.units != [0; LANES])
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Option<Tally> {
        let tally = std::mem::take(&mut self.tally);
        (tally != Tally::default()).then_some(tally)
    }

    fn watched(&self) -> BTreeSet<LinkId> {
        self.holders.values().flat_map(|told| &told.watch).copied().collect()
    }

    /// Reads these links by as few connections as do.
    fn cover(&mut self, slot: Slot, links: impl IntoIterator<Item = LinkId>, out: &mut Vec<Datagram>) {
        let mut left: BTreeSet<LinkId> = links.into_iter().collect();
        while let Some(link) = left.pop_first() {
            let own = self.ground.ingress.get(&link).map(|own| self.to_itself(*own, vec![link]));
            let Some(way) = own.or_else(|| self.ways.get(&link).cloned()) else { continue };
            way.links.iter().for_each(|link| _ = left.remove(link));
            out.push(self.read(slot, way));
        }
    }

    /// What leads to this host is the last link of any way to it, so also of the one from itself.
    fn to_itself(&self, own: Ipv4Addr, links: Vec<LinkId>) -> Way {
        let tuple =
            Tuple { source: own, destination: own, source_port: 0, destination_port: 0, protocol: 6, cookie: 0 };
        Way { flow: FlowId(u64::from(self.ground.host.0) << 32), tuple, links }
    }

    fn read(&mut self, slot: Slot, Way { flow, tuple, links }: Way) -> Datagram {
        let nothing = Rates { slot, units: [0; LANES] };
        self.send(Kind::Probe, slot, flow, (tuple, links), (&nothing, None))
    }

    fn say(&mut self, slot: Slot, id: FlowId, way: (Tuple, Vec<LinkId>), units: Units) -> Datagram {
        let said = Rates { slot, units };
        let known = self.flows.get(&id);
        let (before, signature) = (known.and_then(Flow::known_there), known.and_then(|known| known.signature));
        let datagram = self.send(Kind::Announce, slot, id, way.clone(), (&said, before.as_ref()));
        let (tuple, links) = way;
        let flow = Flow { tuple, links, said, before, order: self.order, fate: Fate::Unknown, copies: 1, signature };
        self.flows.insert(id, flow);
        datagram
    }

    fn send(
        &mut self,
        kind: Kind,
        slot: Slot,
        flow: FlowId,
        (tuple, links): (Tuple, Vec<LinkId>),
        (said, before): (&Rates, Option<&Rates>),
    ) -> Datagram {
        (self.seq, self.order) = (self.seq.wrapping_add(1), self.order + 1);
        self.tally.sent += 1;
        let asked = Asked { kind, flow, slot, order: self.order, tuple, links };
        self.tally.lost += u64::from(self.asked.insert(self.seq, asked).is_some());
        let mut packet = Packet { unit: self.ground.unit, seq: self.seq, ..Packet::new(kind, flow, slot, tuple) };
        let narrow = |units: u32| u16::try_from(units).unwrap_or(u16::MAX);
        for ahead in 0..LANES {
            let lane = packet.lane_of(ahead);
            let new = said.at(slot, ahead);
            let previous =
                before.filter(|before| slot.since(before.slot) == 1).map_or(0, |before| before.at(slot, ahead));
            (packet.lanes[lane].new, packet.lanes[lane].previous) = (narrow(new), narrow(previous));
        }
        packet.encode()
    }

    fn matched(&mut self, now: Slot, bytes: &[u8]) -> Option<(Asked, Packet)> {
        let packet = Packet::decode(bytes).ok().filter(|packet| packet.kind == Kind::Echo)?;
        let asked = self.asked.get(&packet.seq)?;
        let fits = (asked.flow, asked.slot, asked.tuple) == (packet.flow, packet.slot, packet.tuple)
            && packet.unit == self.ground.unit
            && (0..LEASE).contains(&now.since(asked.slot));
        let asked = if fits { self.asked.remove(&packet.seq) } else { None };
        Some((asked?, packet))
    }

    /// The same path has the same signature as long as its switches live.
    fn notice(&mut self, asked: &Asked, packet: &Packet) {
        if self.signatures.len() >= MAX_SIGNATURES {
            self.signatures.clear();
        }
        let before = self.signatures.insert(asked.tuple, packet.path_sig);
        let known = before.is_some_and(|before| before != packet.path_sig);
        if self.ground.along_paths {
            self.note_way(asked, packet.path_sig);
            if self.boot == 0 {
                self.boot = u64::from(packet.path_sig) << 32 | 1;
            }
            if known {
                self.forget_path(asked);
            }
            return;
        }
        if self.boot == 0 {
            self.boot = u64::from(packet.path_sig) << 32 | 1;
        }
        // All paths change with one restart, and each of them says so when it is read next.
        if known && asked.slot.offset(LEASE) != self.warm_from {
            self.boot = u64::from(packet.path_sig) << 32 | (self.boot.wrapping_add(1) & 0xffff_ffff);
            self.warm_from = asked.slot.offset(LEASE);
            self.signatures.retain(|tuple, _| *tuple == asked.tuple);
            self.views.clear();
            for flow in self.flows.values_mut().filter(|flow| flow.said.slot != asked.slot) {
                (flow.said.units, flow.before) = ([0; LANES], None);
            }
            self.flows.values_mut().for_each(|flow| flow.before = None);
        }
    }

    /// A flow goes another way than before, or over a switch that began anew: nothing is known of its path, and its
    /// switches know nothing of it. All others are as they were.
    fn forget_path(&mut self, asked: &Asked) {
        self.tally.moved += 1;
        for link in asked.links.iter().filter(|_| !self.ground.ways_only) {
            self.views.remove(link);
        }
        if let Some(flow) = self.flows.get_mut(&asked.flow) {
            flow.before = None;
        }
    }

    fn note_fate(&mut self, asked: &Asked, packet: &Packet) {
        let Some(flow) = self.flows.get_mut(&asked.flow).filter(|flow| flow.said.slot == asked.slot) else { return };
        if packet.counted >= packet.hops {
            if packet.flags & DUPLICATE == 0 {
                flow.order = asked.order;
            }
            flow.fate = Fate::Counted;
        } else if packet.counted == 0 && flow.fate == Fate::Unknown {
            flow.fate = Fate::Refused;
        }
        self.refused = packet.hops > 0 && packet.counted == 0 && packet.flags & GUARD == 0 && !self.ground.ways_only;
        if flow.copies > 1 {
            // One echo is enough for all copies.
            self.asked.retain(|_, other| other.kind != Kind::Announce || other.flow != asked.flow);
        }
    }

    /// Drops what is over.
    fn forget(&mut self, slot: Slot) {
        let waiting = self.asked.len();
        self.asked.retain(|_, asked| (0..LEASE).contains(&slot.since(asked.slot)));
        self.tally.lost += (waiting - self.asked.len()) as u64;
        self.flows.retain(|_, flow| (0..=LEASE).contains(&slot.since(flow.said.slot)));
        self.readings.retain(|reading| (0..LEASE).contains(&slot.since(reading.slot)));
        self.holders.retain(|_, told| (0..=LEASE).contains(&slot.since(told.slot)));
        let watched = self.watched();
        self.views.retain(|link, _| watched.contains(link));
        self.unknown.retain(|link| watched.contains(link));
        self.ways.retain(|link, _| watched.contains(link));
    }
}

#[cfg(test)]
mod tests;
