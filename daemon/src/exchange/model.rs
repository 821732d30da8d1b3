//! A process with the tables of switches, as small as can be, for tests: what `sluice-switch` does with datagrams.

use std::collections::BTreeMap;

use sluice_schedule::{FlowId, HostId, LinkId, Rate, Slot};
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, LANES, Packet, Tuple};

/// Slots after which a flow that is not announced again is forgotten.
const LEASE: i32 = 2;

pub struct Model {
    pub slot: Slot,
    /// Of this process.
    pub boot: u32,
    pub capacity: Rate,
    pub cross: Rate,
    /// The links that a flow passes.
    pub path: fn(&Tuple) -> Vec<LinkId>,
    /// Flows of these hosts are not counted.
    pub deaf_to: Option<HostId>,
    /// Announcements that were counted.
    pub counted: u64,
    pub flows: BTreeMap<(LinkId, FlowId), (Slot, [Rate; LANES])>,
}

impl Model {
    pub fn new(capacity: Rate, path: fn(&Tuple) -> Vec<LinkId>) -> Model {
        Model {
            slot: Slot(0),
            boot: 1,
            capacity,
            cross: Rate::ZERO,
            path,
            deaf_to: None,
            counted: 0,
            flows: BTreeMap::new(),
        }
    }

    /// `kill -9`, and another one in its place.
    pub fn restart(&mut self) {
        self.boot += 1;
        self.flows.clear();
    }

    /// What flows that `of` accepts have on a link for the slot `ahead` slots after the present one.
    pub fn load(&self, link: LinkId, ahead: usize, of: impl Fn(HostId) -> bool) -> Rate {
        let on = self.flows.iter().filter(|((on, flow), _)| *on == link && of(flow.sender()));
        let rate = |(slot, rates): &(Slot, [Rate; LANES])| {
            let age = self.slot.since(*slot);
            let there = (0..LEASE).contains(&age).then(|| rates.get(ahead + age as usize)).flatten();
            there.copied().unwrap_or(Rate::ZERO)
        };
        on.fold(Rate::ZERO, |sum, (_, said)| sum.plus(rate(said)))
    }

    pub fn answer(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut packet = Packet::decode(bytes).ok().filter(|packet| packet.kind != Kind::Echo)?;
        for link in (self.path)(&packet.tuple) {
            packet.hops += 1;
            packet.path_sig ^= self.boot.wrapping_mul(0x9e37_79b9) ^ link.0 as u32;
            if packet.slot.since(self.slot).unsigned_abs() > 1 {
                packet.flags |= GUARD;
                continue;
            }
            if packet.kind == Kind::Announce && self.deaf_to != Some(packet.flow.sender()) {
                self.count(link, &mut packet);
            }
            let shift = self.slot.since(packet.slot);
            for ahead in 0..LANES as i32 {
                if (0..LANES as i32).contains(&(ahead + shift)) {
                    let load = self.load(link, ahead as usize, |_| true);
                    let room = self.capacity.minus(self.cross).minus(load);
                    packet.add_hop(packet.lane_of((ahead + shift) as usize), load, room);
                }
            }
        }
        packet.kind = Kind::Echo;
        Some(packet.encode().to_vec())
    }

    fn count(&mut self, link: LinkId, packet: &mut Packet) {
        packet.counted += 1;
        let known = self.flows.get(&(link, packet.flow));
        if known.is_some_and(|(slot, _)| slot.0.wrapping_sub(packet.slot.0) <= 3) {
            packet.flags |= DUPLICATE;
            return;
        }
        let mut rates = [Rate::ZERO; LANES];
        rates.iter_mut().enumerate().for_each(|(ahead, rate)| {
            *rate = packet.rate(packet.lanes[packet.lane_of(ahead)].new);
        });
        self.flows.insert((link, packet.flow), (packet.slot, rates));
        self.counted += 1;
    }
}
