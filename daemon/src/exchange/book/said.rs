//! What the deciding loop said, in the form that datagrams have.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use sluice_schedule::{Announcement, Connection, FlowId, FlowPromise, HostId, LinkId, Rate, Slot};
use sluice_wire::udp::{LANES, Tuple};

use super::{Book, LEASE, Units};

/// What does not change while a connection lives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ground {
    pub host: HostId,
    /// Rates travel in 2^unit Mbit/s.
    pub unit: u8,
    /// Payload rates of the links of switches.
    pub capacities: BTreeMap<LinkId, Rate>,
    /// The links by which this host receives, with its address there.
    pub ingress: BTreeMap<LinkId, Ipv4Addr>,
    /// Datagrams go along the paths of their flows, through switches that know nothing of each other.
    pub along_paths: bool,
    /// What comes back says by which way a flow goes, and what is on its links hosts say, with ranks.
    pub ways_only: bool,
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub sent: u64,
    /// Of them, those that repeat one without an echo.
    pub repeated: u64,
    pub answered: u64,
    /// Those without an echo.
    pub lost: u64,
    /// What came and is no echo of anything that waits for one.
    pub unexpected: u64,
    /// Times that a flow was found on another path, or a switch of it begun anew.
    pub moved: u64,
    /// Echoes of datagrams that some switch did not count, because its clock says another slot, or nobody tells it the slot.
    pub guarded: u64,
}

/// An announcement with the connections that its flows are.
#[derive(Clone, Debug)]
pub struct Said {
    announcement: Announcement,
    tuples: Vec<Option<Tuple>>,
}

impl Said {
    pub fn new(announcement: Announcement, ends: &dyn Fn(FlowId) -> Option<Connection>) -> Said {
        let tuples =
            announcement.flows.iter().map(|promise| ends(promise.flow).and_then(|ends| tuple(&ends))).collect();
        Said { announcement, tuples }
    }

    /// The announcement in these units.
    pub(super) fn told(self, unit: u8) -> Told {
        let Said { announcement, tuples } = self;
        let promise = |(promise, tuple): (&FlowPromise, Option<Tuple>)| {
            let mut units = [0; LANES];
            units.iter_mut().enumerate().for_each(|(ahead, units)| *units = above(promise.rate(ahead), unit));
            Some(Promise { flow: promise.flow, tuple: tuple?, units, links: promise.links.clone() })
        };
        let flows = announcement.flows.iter().zip(tuples).filter_map(promise).collect();
        let Announcement { seq, slot, watch, .. } = announcement;
        Told { seq, slot, watch, flows }
    }
}

/// A connection in the form of a datagram, which has room for IPv4 only.
pub(super) fn tuple(ends: &Connection) -> Option<Tuple> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (ends.source.ip(), ends.destination.ip()) else { return None };
    let (source_port, destination_port) = (ends.source.port(), ends.destination.port());
    Some(Tuple { source, destination, source_port, destination_port, protocol: ends.protocol, cookie: 0 })
}

/// What a holder was told last.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) seq: u64,
    pub(super) slot: Slot,
    pub(super) watch: Vec<LinkId>,
    flows: Vec<Promise>,
}

/// A flow of an announcement.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    flow: FlowId,
    pub(super) tuple: Tuple,
    /// From the slot of the announcement on.
    pub(super) units: Units,
    pub(super) links: Vec<LinkId>,
}

impl Book {
    /// What the flows of all holders' announcements promise, each once with all its links.
    pub(super) fn promised(&self, slot: Slot) -> BTreeMap<FlowId, Promise> {
        let mut all: BTreeMap<FlowId, Promise> = BTreeMap::new();
        for told in self.holders.values() {
            let age = slot.since(told.slot);
            let Some(passed) = usize::try_from(age).ok().filter(|_| age < LEASE) else { continue };
            for promise in &told.flows {
                let known = all.entry(promise.flow).or_insert_with(|| {
                    let last = promise.units[LANES - 1];
                    let mut units = [last; LANES];
                    units[..LANES - passed].copy_from_slice(&promise.units[passed..]);
                    Promise { units, links: Vec::new(), ..promise.clone() }
                });
                known.links.extend(promise.links.iter().filter(|link| !known.links.contains(link)).collect::<Vec<_>>());
            }
        }
        all
    }
}

/// A rate in units, rounded up: nobody is promised less than is taken.
pub(super) fn above(rate: Rate, unit: u8) -> u32 {
    let unit = 1_000_000_u64 << unit.min(16);
    u32::try_from(rate.0.div_ceil(unit)).unwrap_or(u32::MAX).min(u32::from(u16::MAX))
}
