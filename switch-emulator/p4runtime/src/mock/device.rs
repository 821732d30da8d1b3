//! The switch behind the server: which program it has, what is in its tables, and the twin that does what they say.

use std::collections::BTreeMap;

use prost::Message;
use sluice_pipeline::Switch;
use sluice_pipeline::control::Statement;
use sluice_pipeline::routes::Member;
use sluice_schedule::Slot;
use tonic::Code;

use super::fault::Fault;
use crate::encode::{self, Key};
use crate::ids::Ids;
use crate::pb::p4::config::v1::P4Info;
use crate::pb::p4::v1::set_forwarding_pipeline_config_request::Action as Load;
use crate::pb::p4::v1::update::Type;
use crate::pb::p4::v1::{ForwardingPipelineConfig, TableEntry, Update, entity, table_action};
use crate::{limits, names};

/// A program that was taken.
#[derive(Clone, Debug)]
struct Program {
    config: ForwardingPipelineConfig,
    ids: Ids,
}

/// The switch.
#[derive(Debug)]
pub(super) struct Device {
    udp_port: u16,
    switch: Switch,
    program: Option<Program>,
    /// A program that was taken and does not run yet.
    saved: Option<Program>,
    entries: BTreeMap<Key, TableEntry>,
    guard: Option<(Slot, TableEntry)>,
}

impl Device {
    pub fn new(udp_port: u16) -> Device {
        let switch = Switch::new(udp_port);
        Device { udp_port, switch, program: None, saved: None, entries: BTreeMap::new(), guard: None }
    }

    /// Everything but the program is as at the start.
    pub fn forget(&mut self) {
        let (program, saved) = (self.program.take(), self.saved.take());
        *self = Device { program, saved, ..Device::new(self.udp_port) };
    }

    pub fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// The twin, to read from.
    pub fn twin(&self) -> &Switch {
        &self.switch
    }

    /// The guard's slot.
    pub fn present(&self) -> Option<Slot> {
        self.guard.as_ref().map(|(slot, _)| *slot)
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The entries whose keys are wanted, in the order of their keys.
    pub fn entries_of(&self, wanted: impl Fn(&Key) -> bool) -> impl Iterator<Item = &TableEntry> {
        self.entries.iter().filter(move |(key, _)| wanted(key)).map(|(_, entry)| entry)
    }

    /// The default action of the guard, as it was written.
    pub fn guard(&self) -> Option<&TableEntry> {
        self.guard.as_ref().map(|(_, entry)| entry)
    }

    /// The numbers of the program.
    pub fn ids(&self) -> Result<Ids, Fault> {
        Ok(self.running()?.ids)
    }

    /// The program as it was given.
    pub fn config(&self) -> Result<&ForwardingPipelineConfig, Fault> {
        Ok(&self.running()?.config)
    }

    fn running(&self) -> Result<&Program, Fault> {
        const NONE: &str = "no program is loaded; SetForwardingPipelineConfig loads one";
        self.program.as_ref().ok_or_else(|| Fault::new(Code::FailedPrecondition, NONE))
    }

    /// Does what a controller wants with a program.
    pub fn load(&mut self, action: i32, config: Option<ForwardingPipelineConfig>) -> Result<(), Fault> {
        const ALLOWED: &str = "VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT or COMMIT";
        match Load::try_from(action) {
            Ok(Load::Verify) => verified(config).map(|_| ()),
            Ok(Load::VerifyAndSave) => {
                self.saved = Some(verified(config)?);
                Ok(())
            }
            Ok(Load::VerifyAndCommit) => {
                let program = verified(config)?;
                *self = Device { program: Some(program), ..Device::new(self.udp_port) };
                Ok(())
            }
            Ok(Load::Commit) => {
                if config.is_some() {
                    return Err(Fault::value("config", "there", "none with COMMIT"));
                }
                let none = || Fault::new(Code::FailedPrecondition, "no program is saved; VERIFY_AND_SAVE saves one");
                let program = self.saved.take().ok_or_else(none)?;
                *self = Device { program: Some(program), ..Device::new(self.udp_port) };
                Ok(())
            }
            Ok(Load::ReconcileAndCommit) => {
                let text = format!("action is RECONCILE_AND_COMMIT; allowed is {ALLOWED}");
                Err(Fault::new(Code::Unimplemented, text))
            }
            Ok(Load::Unspecified) | Err(_) => Err(Fault::value("action", action, ALLOWED)),
        }
    }

    /// Does one update of a write.
    pub fn write(&mut self, ids: &Ids, update: &Update) -> Result<(), Fault> {
        const ALLOWED: &str = "INSERT, MODIFY or DELETE";
        let kind = Type::try_from(update.r#type).unwrap_or(Type::Unspecified);
        if kind == Type::Unspecified {
            return Err(Fault::value("type", update.r#type, ALLOWED));
        }
        match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
            Some(entity::Entity::TableEntry(entry)) if entry.is_default_action => self.write_default(ids, kind, entry),
            Some(entity::Entity::TableEntry(entry)) => self.write_entry(ids, kind, entry),
            Some(entity::Entity::CounterEntry(_)) => {
                Err(Fault::new(Code::Unimplemented, "counters are read; they are not written here"))
            }
            Some(entity::Entity::DirectCounterEntry(_)) => {
                Err(Fault::value("direct_counter_entry", "there", "none, for no table of the program has one"))
            }
            Some(entity::Entity::RegisterEntry(_)) => {
                Err(Fault::new(Code::Unimplemented, "registers are not written by way of P4Runtime here"))
            }
            None => Err(Fault::missing("entity", "a table_entry")),
        }
    }

    fn write_entry(&mut self, ids: &Ids, kind: Type, entry: &TableEntry) -> Result<(), Fault> {
        let key = encode::key(entry, ids)?;
        match (kind, self.entries.contains_key(&key)) {
            (Type::Insert, true) => Err(Fault::new(Code::AlreadyExists, format!("{key:?} is there already"))),
            (Type::Modify | Type::Delete, false) => Err(Fault::new(Code::NotFound, format!("{key:?} is not there"))),
            (Type::Delete, true) => {
                self.entries.remove(&key);
                self.clear(key);
                Ok(())
            }
            _ => {
                let statement = encode::statement(entry, ids)?;
                let kept = kept(&statement, entry, ids)?;
                if kind == Type::Insert {
                    self.room(key)?;
                }
                self.entries.insert(key, kept);
                statement.apply(&mut self.switch);
                Ok(())
            }
        }
    }

    /// A table takes as many entries as the program says.
    fn room(&self, key: Key) -> Result<(), Fault> {
        let (name, size) = match key {
            Key::Edge(_) => (names::EDGE.name, names::EDGE.size),
            Key::Link(_) => (names::LINKS.name, names::LINKS.size),
            Key::Member { .. } => (names::ECMP.name, names::ECMP.size),
            Key::Route(_) => (names::LPM.name, names::LPM.size),
            Key::Guard => return Ok(()),
        };
        let same = |other: &&Key| std::mem::discriminant(*other) == std::mem::discriminant(&key);
        if self.entries.keys().filter(same).count() < size as usize {
            return Ok(());
        }
        Err(Fault::new(Code::ResourceExhausted, format!("table `{name}` is full; it has {size} entries at most")))
    }

    fn clear(&mut self, key: Key) {
        match key {
            Key::Edge(port) => self.switch.set_edge(port, None),
            Key::Link(port) => self.switch.set_link(port, None),
            Key::Member { group, bucket } => self.switch.set_member(Member { group, bucket }, None),
            Key::Route(to) => self.switch.clear_route(to),
            Key::Guard => self.switch.set_guard(None),
        }
    }

    /// Without an action, or with the one that does nothing, the guard is as at the start.
    fn write_default(&mut self, ids: &Ids, kind: Type, entry: &TableEntry) -> Result<(), Fault> {
        let key = encode::key(entry, ids)?;
        if kind != Type::Modify {
            return Err(Fault::value("type of the update of a default action", kind.as_str_name(), "MODIFY"));
        }
        let resets = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
            None => true,
            Some(table_action::Type::Action(action)) => {
                action.action_id == ids.no_action.id && action.params.is_empty()
            }
        };
        if resets {
            self.guard = None;
            self.clear(key);
            return Ok(());
        }
        let statement = encode::statement(entry, ids)?;
        if let Statement::Guard(slot) = statement {
            self.guard = Some((slot, kept(&statement, entry, ids)?));
        }
        statement.apply(&mut self.switch);
        Ok(())
    }
}

/// The program in a config, if it is the one that the twin runs.
fn verified(config: Option<ForwardingPipelineConfig>) -> Result<Program, Fault> {
    let config = config.ok_or_else(|| Fault::missing("config", "a program with its P4Info"))?;
    let invalid = |text: String| Fault::new(Code::InvalidArgument, text);
    let info = P4Info::decode(config.p4info.as_slice());
    let info = info.map_err(|error| invalid(format!("p4info cannot be read: {error}; allowed is a P4Info")))?;
    let ids = Ids::of(&info).map_err(|error| invalid(format!("p4info: {error}")))?;
    Ok(Program { config, ids })
}

/// The entry as it is told again: its values written as P4Runtime writes them, its metadata as it came.
fn kept(statement: &Statement, entry: &TableEntry, ids: &Ids) -> Result<TableEntry, Fault> {
    if entry.metadata.len() > limits::METADATA {
        let allowed = format!("0 to {} bytes", limits::METADATA);
        return Err(Fault::value("metadata", format!("{} bytes", entry.metadata.len()), &allowed));
    }
    let written = encode::entry(statement, ids).ok_or_else(|| Fault::missing("entity", "an entry of a table"))?;
    Ok(TableEntry { metadata: entry.metadata.clone(), ..written })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::{entries, statements};
    use crate::info::info;
    use crate::pb::p4::v1::Entity;
    use proptest::prelude::*;

    fn device() -> (Device, Ids) {
        let mut device = Device::new(9604);
        let config = ForwardingPipelineConfig { p4info: info().encode_to_vec(), ..ForwardingPipelineConfig::default() };
        device.load(Load::VerifyAndCommit as i32, Some(config)).unwrap();
        let ids = device.ids().unwrap();
        (device, ids)
    }

    fn update(kind: i32, entry: TableEntry) -> Update {
        Update { r#type: kind, entity: Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) }) }
    }

    #[test]
    fn a_program_is_verified_saved_and_committed() {
        let mut device = Device::new(9604);
        let config = ForwardingPipelineConfig { p4info: info().encode_to_vec(), ..ForwardingPipelineConfig::default() };
        let load = |device: &mut Device, action: Load, config: Option<&ForwardingPipelineConfig>| {
            device.load(action as i32, config.cloned()).map_err(|fault| fault.code)
        };
        assert_eq!(device.ids().map_err(|fault| fault.code), Err(Code::FailedPrecondition));
        assert_eq!(load(&mut device, Load::Commit, None), Err(Code::FailedPrecondition));
        assert_eq!(load(&mut device, Load::Verify, Some(&config)), Ok(()));
        assert_eq!(load(&mut device, Load::Commit, None), Err(Code::FailedPrecondition));
        assert_eq!(load(&mut device, Load::VerifyAndSave, Some(&config)), Ok(()));
        assert!(device.ids().is_err());
        assert_eq!(load(&mut device, Load::Commit, Some(&config)), Err(Code::InvalidArgument));
        assert_eq!(load(&mut device, Load::Commit, None), Ok(()));
        assert!(device.ids().is_ok());
        assert_eq!(load(&mut device, Load::Verify, None), Err(Code::InvalidArgument));
        assert_eq!(load(&mut device, Load::Unspecified, Some(&config)), Err(Code::InvalidArgument));
        assert_eq!(load(&mut device, Load::ReconcileAndCommit, Some(&config)), Err(Code::Unimplemented));
        assert_eq!(device.load(77, None).unwrap_err().code, Code::InvalidArgument);
        let other = ForwardingPipelineConfig { p4info: vec![0xff], ..ForwardingPipelineConfig::default() };
        assert_eq!(load(&mut device, Load::Verify, Some(&other)), Err(Code::InvalidArgument));
    }

    #[test]
    fn entries_are_inserted_once_and_changed_where_they_are() {
        let (mut device, ids) = device();
        let link = |capacity: u32| {
            let text = format!("link 1 capacity {capacity} unit 0 signature 0x00000007");
            encode::entry(&text.parse().unwrap(), &ids).unwrap()
        };
        let mut write =
            |kind: Type, entry: TableEntry| device.write(&ids, &update(kind as i32, entry)).map_err(|fault| fault.code);
        assert_eq!(write(Type::Modify, link(1)), Err(Code::NotFound));
        assert_eq!(write(Type::Insert, link(1)), Ok(()));
        assert_eq!(write(Type::Insert, link(2)), Err(Code::AlreadyExists));
        assert_eq!(write(Type::Modify, link(2)), Ok(()));
        assert_eq!(write(Type::Delete, TableEntry { action: None, ..link(2) }), Ok(()));
        assert_eq!(write(Type::Delete, link(2)), Err(Code::NotFound));
        assert_eq!(write(Type::Unspecified, link(2)), Err(Code::InvalidArgument));
        let guard = encode::entry(&Statement::Guard(Slot(5)), &ids).unwrap();
        assert_eq!(write(Type::Insert, guard.clone()), Err(Code::InvalidArgument));
        assert_eq!(write(Type::Modify, guard.clone()), Ok(()));
        let metadata = vec![0; limits::METADATA + 1];
        assert_eq!(write(Type::Modify, TableEntry { metadata, ..guard.clone() }), Err(Code::InvalidArgument));
        assert_eq!(device.present(), Some(Slot(5)));
        device.write(&ids, &update(Type::Modify as i32, TableEntry { action: None, ..guard })).unwrap();
        assert_eq!(device.present(), None);
    }

    proptest! {
        #[test]
        fn any_update_is_answered(updates in prop::collection::vec((any::<i32>(), entries()), 0..20)) {
            let (mut device, ids) = device();
            for (kind, entry) in updates {
                let _ = device.write(&ids, &update(kind, entry.clone()));
                let _ = device.write(&ids, &update(kind & 3, entry));
            }
        }

        #[test]
        fn what_is_written_is_told(wanted in prop::collection::vec(statements(), 0..20)) {
            let (mut device, ids) = device();
            let mut expected = BTreeMap::new();
            for statement in wanted {
                let entry = encode::entry(&statement, &ids).unwrap();
                let kinds = if entry.is_default_action { [Type::Modify; 2] } else { [Type::Insert, Type::Modify] };
                let done = kinds.map(|kind| device.write(&ids, &update(kind as i32, entry.clone())));
                prop_assert!(done[1].is_ok(), "{:?}", done);
                if !entry.is_default_action {
                    expected.insert(Key::of(&statement).unwrap(), entry);
                }
            }
            prop_assert!(device.entries_of(|_| true).eq(expected.values()));
        }

        #[test]
        fn any_p4info_is_answered(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            at in any::<prop::sample::Index>()
        ) {
            let mut device = Device::new(9604);
            let mut mutated = info().encode_to_vec();
            for (place, byte) in bytes.iter().enumerate() {
                let at = (at.index(mutated.len()) + place * 37) % mutated.len();
                mutated[at] = *byte;
            }
            for p4info in [bytes, mutated] {
                let config = ForwardingPipelineConfig { p4info, ..ForwardingPipelineConfig::default() };
                let _ = device.load(Load::VerifyAndCommit as i32, Some(config));
            }
        }
    }
}
