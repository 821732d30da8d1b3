//! What is told of the switch: entries as they were written, counters and loads as the twin has them.

use sluice_pipeline::{PORTS, Reason};
use sluice_schedule::Slot;
use sluice_wire::udp::LANES;
use tonic::Code;

use super::Registers;
use super::device::Device;
use super::fault::Fault;
use crate::encode::{self, Key, canonical, numbered};
use crate::ids::Ids;
use crate::names;
use crate::pb::p4::v1::{
    self as p4, CounterData, CounterEntry, DirectCounterEntry, Entity, Index, P4Data, RegisterEntry, TableAction,
    TableEntry, entity, p4_data, table_action,
};

impl Device {
    /// What there is of what is asked for.
    pub fn read(&self, ids: &Ids, registers: Registers, asked: &Entity) -> Result<Vec<Entity>, Fault> {
        match &asked.entity {
            Some(entity::Entity::TableEntry(asked)) => self.read_entries(ids, asked),
            Some(entity::Entity::CounterEntry(asked)) => self.read_counters(ids, asked),
            Some(entity::Entity::DirectCounterEntry(asked)) => read_direct(ids, asked),
            Some(entity::Entity::RegisterEntry(asked)) => match registers {
                Registers::Unimplemented => Err(Fault::new(Code::Unimplemented, "registers are not read here")),
                Registers::Twin => self.read_registers(ids, asked),
            },
            None => {
                let allowed = "a table_entry, counter_entry, direct_counter_entry or register_entry";
                Err(Fault::missing("entity", allowed))
            }
        }
    }

    /// Without a match: all entries of the table, or of all tables.
    fn read_entries(&self, ids: &Ids, asked: &TableEntry) -> Result<Vec<Entity>, Fault> {
        let tables = [ids.lpm.id, ids.ecmp.id, ids.edge.id, ids.links.id, ids.guard.id];
        let id = asked.table_id;
        if id != 0 && !tables.contains(&id) {
            return Err(encode::unknown_table(id, ids).into());
        }
        let entity = |entry: &TableEntry| Entity { entity: Some(entity::Entity::TableEntry(entry.clone())) };
        if asked.is_default_action {
            if id != 0 && id != ids.guard.id {
                // Those of the other tables are the program's own.
                return Ok(Vec::new());
            }
            return Ok(vec![self.guard().map_or_else(|| entity(&unset(ids)), entity)]);
        }
        if asked.r#match.is_empty() {
            let wanted = |key: &Key| id == 0 || key.table_id(ids) == id;
            return Ok(self.entries_of(wanted).map(entity).collect());
        }
        let key = encode::key(asked, ids)?;
        Ok(self.entries_of(|other| *other == key).map(entity).collect())
    }

    fn read_counters(&self, ids: &Ids, asked: &CounterEntry) -> Result<Vec<Entity>, Fault> {
        let all = [
            (names::DROPS, ids.counters.drops),
            (names::SENT, ids.counters.sent),
            (names::ANNOUNCEMENTS, ids.counters.announcements),
            (names::DUPLICATES, ids.counters.duplicates),
            (names::PROBES, ids.counters.probes),
            (names::REJECTED, ids.counters.rejected),
            (names::OTHER_UNIT, ids.counters.other_unit),
        ];
        let known: Vec<(&str, u32)> = all.iter().map(|(counter, id)| (counter.name, *id)).collect();
        let mut found = Vec::new();
        for (counter, id) in &all {
            if asked.counter_id == 0 || asked.counter_id == *id {
                for index in places(asked.index.as_ref(), counter.size)? {
                    let data = Some(self.count(ids, *id, index));
                    let entry = CounterEntry { counter_id: *id, index: Some(Index { index: index.into() }), data };
                    found.push(Entity { entity: Some(entity::Entity::CounterEntry(entry)) });
                }
            }
        }
        if found.is_empty() {
            return Err(Fault::value("counter_id", format!("{:#010x}", asked.counter_id), &numbered(&known)));
        }
        Ok(found)
    }

    fn count(&self, ids: &Ids, id: u32, index: u16) -> CounterData {
        let counters = self.twin().counters();
        let port = counters.of_port(index);
        let ids = &ids.counters;
        let frames = match id {
            id if id == ids.drops => Reason::ALL.get(usize::from(index)).map_or(0, |reason| counters.drops(*reason)),
            id if id == ids.sent => port.frames,
            id if id == ids.announcements => port.announcements,
            id if id == ids.duplicates => port.duplicates,
            id if id == ids.probes => port.probes,
            id if id == ids.rejected => port.rejected,
            _ => port.other_unit,
        };
        let bytes = if id == ids.sent { port.bytes } else { 0 };
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        CounterData { byte_count: signed(bytes), packet_count: signed(frames) }
    }

    fn read_registers(&self, ids: &Ids, asked: &RegisterEntry) -> Result<Vec<Entity>, Fault> {
        if asked.register_id == ids.seen {
            return Err(Fault::new(
                Code::Unimplemented,
                "register `SluiceEgress.seen` is not read here; cells of lanes are",
            ));
        }
        let lanes = ids.even.iter().chain(&ids.odd).enumerate();
        let mut found = Vec::new();
        for (at, id) in lanes.filter(|(_, id)| asked.register_id == 0 || asked.register_id == **id) {
            let (parity, lane) = ((at / LANES) as u32, at % LANES);
            for port in places(asked.index.as_ref(), PORTS.into())? {
                let bytes = canonical(self.cell(parity, lane, port));
                let data = Some(P4Data { data: Some(p4_data::Data::Bitstring(bytes)) });
                let index = Some(Index { index: port.into() });
                let register = RegisterEntry { register_id: *id, index, data };
                found.push(Entity { entity: Some(entity::Entity::RegisterEntry(register)) });
            }
        }
        if found.is_empty() {
            let allowed = "that of SluiceEgress.even_0 to even_9 or SluiceEgress.odd_0 to odd_9";
            return Err(Fault::value("register_id", format!("{:#010x}", asked.register_id), allowed));
        }
        Ok(found)
    }

    /// A cell as a packet of the present slot finds it: of that slot or of the one before it, by parity. A cell of an
    /// older period becomes one of these at its first use, and reads as such.
    fn cell(&self, parity: u32, lane: usize, port: u16) -> u64 {
        let present = self.present().unwrap_or(Slot(0));
        let gathers = present.0 & 1 == parity;
        let (period, wrap) = if gathers { (present, lane) } else { (present.offset(-1), (lane + 1) % LANES) };
        let load = self.twin().load(port, lane, present, wrap);
        u64::from(period.0) << 32 | u64::from(load as u32)
    }
}

/// The program's tables have no counters of their own: asked for all, there are none.
fn read_direct(ids: &Ids, asked: &DirectCounterEntry) -> Result<Vec<Entity>, Fault> {
    let tables = [ids.lpm.id, ids.ecmp.id, ids.edge.id, ids.links.id, ids.guard.id];
    match asked.table_entry.as_ref().map(|entry| entry.table_id) {
        None => Err(Fault::missing("table_entry", "an entry of a table, or one of table 0 for all tables")),
        Some(0) => Ok(Vec::new()),
        Some(id) if tables.contains(&id) => {
            let allowed = "0, for no table of the program has direct counters";
            Err(Fault::value("table_id of direct_counter_entry", format!("{id:#010x}"), allowed))
        }
        Some(id) => Err(encode::unknown_table(id, ids).into()),
    }
}

/// The guard's default action as the program has it.
fn unset(ids: &Ids) -> TableEntry {
    let action = p4::Action { action_id: ids.no_action.id, params: Vec::new() };
    let action = Some(TableAction { r#type: Some(table_action::Type::Action(action)) });
    TableEntry { action, ..Key::Guard.entry(ids) }
}

/// One place of an array, or all of them.
fn places(asked: Option<&Index>, size: u32) -> Result<std::ops::Range<u16>, Fault> {
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    let Some(Index { index }) = asked else { return Ok(0..size) };
    match u16::try_from(*index).ok().filter(|index| *index < size) {
        Some(index) => Ok(index..index + 1),
        None => Err(Fault::value("index", index, &format!("0 to {}", size.saturating_sub(1)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::entries;
    use crate::info::info;
    use proptest::prelude::*;

    fn ids() -> Ids {
        Ids::of(&info()).unwrap()
    }

    fn counter(counter_id: u32, index: Option<i64>) -> Entity {
        let index = index.map(|index| Index { index });
        Entity { entity: Some(entity::Entity::CounterEntry(CounterEntry { counter_id, index, data: None })) }
    }

    #[test]
    fn places_are_those_of_the_array() {
        let (device, ids) = (Device::new(9604), ids());
        let read = |asked: Entity| device.read(&ids, Registers::Unimplemented, &asked);
        assert_eq!(read(counter(ids.counters.drops, None)).unwrap().len(), 5);
        assert_eq!(read(counter(ids.counters.sent, None)).unwrap().len(), 512);
        assert_eq!(read(counter(0, None)).unwrap().len(), 6 * 512 + 5);
        assert_eq!(read(counter(ids.counters.sent, Some(511))).unwrap().len(), 1);
        for index in [512, -1, i64::MAX] {
            let fault = read(counter(ids.counters.sent, Some(index))).unwrap_err();
            assert_eq!(fault.code, Code::InvalidArgument);
            assert_eq!(fault.text, format!("index is {index}; allowed is 0 to 511"));
        }
        let fault = read(counter(7, None)).unwrap_err();
        let text = "counter_id is 0x00000007; allowed is 0x12000001 (SluiceIngress.drops), ";
        assert!(fault.text.starts_with(text), "{fault:?}");
    }

    #[test]
    fn cells_are_told_with_the_period_that_a_packet_finds() {
        let (device, ids) = (Device::new(9604), ids());
        let register = |register_id: u32, index: Option<Index>| Entity {
            entity: Some(entity::Entity::RegisterEntry(RegisterEntry { register_id, index, data: None })),
        };
        let found = device.read(&ids, Registers::Twin, &register(ids.odd[3], Some(Index { index: 2 }))).unwrap();
        let Some(entity::Entity::RegisterEntry(told)) = &found[0].entity else { panic!("{found:?}") };
        // Without a slot the present one is 0, and the odd one before it is the last of all.
        let cell = Some(p4_data::Data::Bitstring(vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
        assert_eq!(told.data, Some(P4Data { data: cell }));
        assert_eq!(device.read(&ids, Registers::Twin, &register(0, None)).unwrap().len(), 20 * 512);
        let code = |registers, id| device.read(&ids, registers, &register(id, None)).unwrap_err().code;
        assert_eq!(code(Registers::Unimplemented, ids.odd[3]), Code::Unimplemented);
        assert_eq!(code(Registers::Twin, ids.seen), Code::Unimplemented);
        assert_eq!(code(Registers::Twin, 7), Code::InvalidArgument);
    }

    #[test]
    fn no_table_has_direct_counters() {
        let (device, ids) = (Device::new(9604), ids());
        let read = |table_entry: Option<TableEntry>| {
            let asked = DirectCounterEntry { table_entry, data: None };
            device.read(&ids, Registers::Twin, &Entity { entity: Some(entity::Entity::DirectCounterEntry(asked)) })
        };
        let of = |table_id: u32| Some(TableEntry { table_id, ..TableEntry::default() });
        assert_eq!(read(of(0)), Ok(Vec::new()));
        for asked in [None, of(ids.links.id), of(7)] {
            assert_eq!(read(asked).map_err(|fault| fault.code), Err(Code::InvalidArgument));
        }
    }

    proptest! {
        #[test]
        fn any_question_is_answered(asked in entries(), id: u32, index in prop::option::of(any::<i64>())) {
            let (device, ids) = (Device::new(9604), ids());
            let index = index.map(|index| Index { index });
            for entity in [
                entity::Entity::TableEntry(asked.clone()),
                entity::Entity::DirectCounterEntry(DirectCounterEntry { table_entry: Some(asked), data: None }),
                entity::Entity::CounterEntry(CounterEntry { counter_id: id, index, data: None }),
                entity::Entity::RegisterEntry(RegisterEntry { register_id: id, index, data: None }),
            ] {
                let _ = device.read(&ids, Registers::Twin, &Entity { entity: Some(entity) });
            }
        }
    }
}
