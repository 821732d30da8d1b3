//! What a link does to a Sluice packet that leaves by it: the state of the program is all here, behind the egress port.
//!
//! In this order: the hop is counted and the path's signature changed; the slot guard is asked; an announcement is
//! counted, once for each flow and period; every lane gets the load and the room left.

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc, Table};
use sluice_schedule::table::cell::Sighting;
use sluice_schedule::table::soft::Lanes;
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, Packet, SATURATED};

use crate::{PORTS, Switch, frame};

static INDEX: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static SIGNATURE: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// An entry of the table `links`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What managed flows may use of the link, in units.
    pub capacity: u32,
    /// One unit is 2^unit Mbit/s; packets in another unit are neither counted nor answered.
    pub unit: u8,
    /// Which link it is ([`sluice_wire::udp::mark`]), and above that a random number of this switch's present run.
    pub signature: u32,
}

/// The place in `seen` and the signature of a flow at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Taken modulo the number of registers.
    pub index: u32,
    /// Told from others with the same place by it.
    pub signature: u32,
}

/// Both are checksums of the flow's id and the port, in the order and width of the program's fields.
pub fn seen(flow: FlowId, port: u16) -> Seen {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&flow.0.to_be_bytes());
    bytes[8..].copy_from_slice(&port.to_be_bytes());
    Seen { index: INDEX.checksum(&bytes), signature: SIGNATURE.checksum(&bytes) }
}

/// [`seen`] by tables: checksums are linear, so each byte of the flow's id adds its own part, and none waits for another.
#[derive(Debug)]
pub(crate) struct SeenTables {
    ports: Vec<Seen>,
    bytes: Vec<[Seen; 8]>,
}

impl SeenTables {
    pub fn new() -> SeenTables {
        let part = |byte: usize, place: usize| {
            let (one, none) = (seen(FlowId((byte as u64) << (56 - 8 * place)), 0), seen(FlowId(0), 0));
            Seen { index: one.index ^ none.index, signature: one.signature ^ none.signature }
        };
        SeenTables {
            ports: (0..PORTS).map(|port| seen(FlowId(0), port)).collect(),
            bytes: (0..256).map(|byte| std::array::from_fn(|place| part(byte, place))).collect(),
        }
    }

    pub fn of(&self, flow: FlowId, port: u16) -> Seen {
        let Some(mut seen) = self.ports.get(usize::from(port)).copied() else { return seen(flow, port) };
        for (place, byte) in flow.0.to_be_bytes().into_iter().enumerate() {
            let part = self.bytes[usize::from(byte)][place];
            (seen.index, seen.signature) = (seen.index ^ part.index, seen.signature ^ part.signature);
        }
        seen
    }
}

impl Switch {
    /// The egress: a packet leaves by `port`. False: there is no link, and it stays as it is.
    pub(crate) fn leave(&mut self, port: u16, packet: &mut Packet, frame: &mut [u8]) -> bool {
        let Some(Some(link)) = self.links.get(usize::from(port)).copied() else { return false };
        packet.hops = packet.hops.wrapping_add(1);
        packet.path_sig ^= link.signature;
        if packet.unit == link.unit {
            if self.guard.is_some_and(|slot| within(packet.slot, slot)) {
                if packet.kind == Kind::Announce {
                    self.count(port, packet);
                } else {
                    self.counters.port(port).probes += 1;
                }
                self.answer(port, link, packet);
            } else {
                packet.flags |= GUARD;
                self.counters.port(port).rejected += 1;
            }
        } else {
            self.counters.port(port).other_unit += 1;
        }
        frame::rewrite(frame, packet);
        true
    }

    fn count(&mut self, port: u16, packet: &mut Packet) {
        let (new, previous) = (packet.lanes.map(|lane| lane.new), packet.lanes.map(|lane| lane.previous));
        let lanes = Lanes { period: packet.slot, wrap: packet.wrap.into(), new: &new, previous: &previous };
        let Seen { index, signature } = self.seen.of(packet.flow, port);
        packet.counted = packet.counted.wrapping_add(1);
        let counters = self.counters.port(port);
        match self.registers.announce(port.into(), index, signature, lanes) {
            Sighting::New => counters.announcements += 1,
            Sighting::HadPrevious => {
                packet.had_previous = packet.had_previous.wrapping_add(1);
                counters.announcements += 1;
            }
            Sighting::Duplicate => {
                packet.flags |= DUPLICATE;
                counters.duplicates += 1;
            }
        }
    }

    fn answer(&self, port: u16, link: Link, packet: &mut Packet) {
        let capacity = i64::from(link.capacity);
        let (slot, wrap) = (packet.slot, packet.wrap.into());
        let mut saturated = false;
        self.registers.read_all(port.into(), slot, wrap, |lane, load| {
            let Some(lane) = packet.lanes.get_mut(lane) else { return };
            lane.load_sum = lane.load_sum.saturating_add(load);
            saturated |= lane.load_sum == i32::MAX;
            let room = (capacity - i64::from(load)).clamp(0, u16::MAX.into()) as u16;
            lane.headroom = lane.headroom.min(room);
        });
        packet.flags |= if saturated { SATURATED } else { 0 };
    }
}

/// Is the packet's slot the present one, or next to it?
fn within(slot: Slot, present: Slot) -> bool {
    slot.since(present).unsigned_abs() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_those_that_everybody_has() {
        assert_eq!(INDEX.checksum(b"123456789"), 0xe306_9283);
        assert_eq!(SIGNATURE.checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn tables_say_the_same() {
        let (tables, mut flow) = (SeenTables::new(), 1_u64);
        for port in (0..PORTS + 5).chain([u16::MAX]) {
            flow = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ u64::from(port);
            assert_eq!(tables.of(FlowId(flow), port), seen(FlowId(flow), port));
        }
        assert_eq!(tables.of(FlowId(u64::MAX), 3), seen(FlowId(u64::MAX), 3));
    }

    #[test]
    fn the_guard_is_one_slot_wide_and_slots_wrap() {
        for present in [0, 1, 1 << 31, u32::MAX] {
            let at = |off: i32| Slot(present).offset(off);
            assert!([-1, 0, 1].into_iter().all(|off| within(at(off), Slot(present))));
            assert!([-2, 2, 5, -5, i32::MIN].into_iter().all(|off| !within(at(off), Slot(present))), "{present}");
        }
    }
}
