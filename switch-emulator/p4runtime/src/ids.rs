//! Names of the program to the numbers that a switch knows them by: no number of a compiler is written down here.
//!
//! [`Ids::of`] finds everything that Sluice writes or reads in a P4Info, and says by name what is not there.

use std::fmt;

use sluice_wire::udp::LANES;

use crate::names;
use crate::pb::p4::config::v1::match_field::{Match, MatchType};
use crate::pb::p4::config::v1::{self as config, P4Info, Preamble};

/// The kinds of things that a P4Info numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What an entry of a table does.
    Action,
    /// A table.
    Table,
    /// An array of counters.
    Counter,
    /// An array of registers.
    Register,
}

impl Kind {
    /// The first byte of the numbers of this kind.
    pub const fn prefix(self) -> u32 {
        match self {
            Kind::Action => 0x01,
            Kind::Table => 0x02,
            Kind::Counter => 0x12,
            Kind::Register => 0x16,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Action => "action",
            Kind::Table => "table",
            Kind::Counter => "counter",
            Kind::Register => "register",
        })
    }
}

/// Why a P4Info is not that of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadInfo {
    /// Bytes that are no P4Info at all.
    #[error("the P4Info cannot be read: {0}; compile switch-emulator/p4/sluice.p4 with --p4runtime-format=binary")]
    Unreadable(String),
    /// A name that is not there.
    #[error("the P4Info has no {kind} `{name}`; it must be that of switch-emulator/p4/sluice.p4")]
    Missing {
        /// What is looked for.
        kind: Kind,
        /// Its name in the program.
        name: String,
    },
    /// A number that does not begin as those of its kind do.
    #[error("{kind} `{name}` has the id {id:#010x}; allowed are ids that begin with {:#04x}", kind.prefix())]
    Range {
        /// What it is.
        kind: Kind,
        /// Its name in the program.
        name: String,
        /// Its number.
        id: u32,
    },
    /// A field of a key or a parameter that is not there.
    #[error("{kind} `{name}` has no `{part}`; it must be that of switch-emulator/p4/sluice.p4")]
    MissingPart {
        /// What is looked at.
        kind: Kind,
        /// Its name in the program.
        name: String,
        /// The field or parameter.
        part: String,
    },
    /// A field of a key or a parameter that is not what the program has.
    #[error("`{part}` of {kind} `{name}` has {difference}")]
    Part {
        /// What is looked at.
        kind: Kind,
        /// Its name in the program.
        name: String,
        /// The field or parameter.
        part: String,
        /// What it has, and what it must have.
        difference: String,
    },
    /// A number that two have.
    #[error("{kind} `{name}`: the id {id:#010x} is there twice; allowed is a number of its own for each")]
    Twice {
        /// What is numbered so, or whose parts are.
        kind: Kind,
        /// Its name in the program.
        name: String,
        /// The number.
        id: u32,
    },
    /// An action that entries of a table must be able to have.
    #[error("table `{table}` cannot do `{action}`; it must be that of switch-emulator/p4/sluice.p4")]
    NotAnAction {
        /// The table.
        table: String,
        /// The action.
        action: String,
    },
}

/// The number of a table or an action, and those of its fields or parameters in the program's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered<const N: usize> {
    /// The number of the whole.
    pub id: u32,
    /// The numbers of its parts.
    pub parts: [u32; N],
}

/// Everything that Sluice writes or reads, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Table `lpm`.
    pub lpm: Numbered<1>,
    /// Table `ecmp`.
    pub ecmp: Numbered<2>,
    /// Table `edge`.
    pub edge: Numbered<1>,
    /// Table `links`.
    pub links: Numbered<1>,
    /// Table `guard`.
    pub guard: Numbered<0>,
    /// Action `forward`.
    pub forward: Numbered<3>,
    /// Action `choose`.
    pub choose: Numbered<3>,
    /// Action `bind`.
    pub bind: Numbered<2>,
    /// Action `link`.
    pub link: Numbered<3>,
    /// Action `set_slot`.
    pub set_slot: Numbered<1>,
    /// The action that does nothing.
    pub no_action: Numbered<0>,
    /// The counters.
    pub counters: CounterIds,
    /// Registers of lanes in even periods.
    pub even: [u32; LANES],
    /// Registers of lanes in odd periods.
    pub odd: [u32; LANES],
    /// Registers that tell repeats from news.
    pub seen: u32,
}

/// The counters, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterIds {
    /// Why frames went nowhere.
    pub drops: u32,
    /// Frames and bytes that left.
    pub sent: u32,
    /// Announcements that were counted.
    pub announcements: u32,
    /// Announcements that had been counted before.
    pub duplicates: u32,
    /// Probes.
    pub probes: u32,
    /// Packets that the guard refused.
    pub rejected: u32,
    /// Packets in another unit than the link's.
    pub other_unit: u32,
}

impl CounterIds {
    /// All of them.
    pub const fn all(&self) -> [u32; 7] {
        let CounterIds { drops, sent, announcements, duplicates, probes, rejected, other_unit } = *self;
        [drops, sent, announcements, duplicates, probes, rejected, other_unit]
    }
}

impl Ids {
    /// Finds all names of the program in a P4Info.
    ///
    /// # Errors
    /// [`BadInfo`] with the first name that is not there, or is something else than in the program.
    pub fn of(info: &P4Info) -> Result<Ids, BadInfo> {
        let counter = |of: &names::Counter| id(Kind::Counter, of.name, &info.counters).map(|(id, _)| id);
        let register = |name: &str| id(Kind::Register, name, &info.registers).map(|(id, _)| id);
        let lanes = |name: &str| -> Result<[u32; LANES], BadInfo> {
            let mut ids = [0; LANES];
            for (lane, place) in ids.iter_mut().enumerate() {
                *place = register(&format!("{name}{lane}"))?;
            }
            Ok(ids)
        };
        let ids = Ids {
            lpm: table(info, &names::LPM)?,
            ecmp: table(info, &names::ECMP)?,
            edge: table(info, &names::EDGE)?,
            links: table(info, &names::LINKS)?,
            guard: table(info, &names::GUARD)?,
            forward: action(info, &names::FORWARD)?,
            choose: action(info, &names::CHOOSE)?,
            bind: action(info, &names::BIND)?,
            link: action(info, &names::LINK)?,
            set_slot: action(info, &names::SET_SLOT)?,
            no_action: action(info, &names::NO_ACTION)?,
            counters: CounterIds {
                drops: counter(&names::DROPS)?,
                sent: counter(&names::SENT)?,
                announcements: counter(&names::ANNOUNCEMENTS)?,
                duplicates: counter(&names::DUPLICATES)?,
                probes: counter(&names::PROBES)?,
                rejected: counter(&names::REJECTED)?,
                other_unit: counter(&names::OTHER_UNIT)?,
            },
            even: lanes(names::EVEN)?,
            odd: lanes(names::ODD)?,
            seen: register(names::SEEN)?,
        };
        // What has another's number would be written in its place.
        let Ids { lpm, ecmp, edge, links, guard, .. } = ids;
        distinct(Kind::Table, "sluice.p4", &[lpm.id, ecmp.id, edge.id, links.id, guard.id])?;
        let Ids { forward, choose, bind, link, set_slot, no_action, .. } = ids;
        let actions = [forward.id, choose.id, bind.id, link.id, set_slot.id, no_action.id];
        distinct(Kind::Action, "sluice.p4", &actions)?;
        Ok(ids)
    }
}

/// What has a number and a name.
trait Object {
    fn preamble(&self) -> Option<&Preamble>;
}

macro_rules! objects {
    ($($name:ident),*) => {$(
        impl Object for config::$name {
            fn preamble(&self) -> Option<&Preamble> {
                self.preamble.as_ref()
            }
        }
    )*};
}
objects!(Table, Action, Counter, Register);

/// The number of a name, and what bears it.
fn id<'a, T: Object>(kind: Kind, name: &str, of: &'a [T]) -> Result<(u32, &'a T), BadInfo> {
    let found = of.iter().find_map(|object| {
        let preamble = object.preamble()?;
        (preamble.name == name).then_some((preamble.id, object))
    });
    let (id, object) = found.ok_or_else(|| BadInfo::Missing { kind, name: name.into() })?;
    if id >> 24 == kind.prefix() { Ok((id, object)) } else { Err(BadInfo::Range { kind, name: name.into(), id }) }
}

/// A field or parameter as a P4Info has it.
struct Part<'a> {
    name: &'a str,
    id: u32,
    bits: i32,
}

fn parts<'a, const N: usize>(
    (kind, name): (Kind, &str),
    wanted: &[names::Field; N],
    there: impl Fn(&str) -> Option<Part<'a>>,
) -> Result<[u32; N], BadInfo> {
    let mut ids = [0; N];
    for (place, field) in ids.iter_mut().zip(wanted) {
        let part = there(field.name).ok_or_else(|| BadInfo::MissingPart {
            kind,
            name: name.into(),
            part: field.name.into(),
        })?;
        if u32::try_from(part.bits) != Ok(field.bits) {
            let difference = format!("{} bits; the program has {} bits", part.bits, field.bits);
            return Err(BadInfo::Part { kind, name: name.into(), part: part.name.into(), difference });
        }
        *place = part.id;
    }
    distinct(kind, name, &ids)?;
    Ok(ids)
}

/// Is each of these numbers there once?
fn distinct(kind: Kind, name: &str, ids: &[u32]) -> Result<(), BadInfo> {
    let twice = ids.iter().enumerate().find(|(at, id)| ids.iter().take(*at).any(|other| other == *id));
    twice.map_or(Ok(()), |(_, id)| Err(BadInfo::Twice { kind, name: name.into(), id: *id }))
}

fn action<const N: usize>(info: &P4Info, wanted: &names::Action<N>) -> Result<Numbered<N>, BadInfo> {
    let (id, action) = id(Kind::Action, wanted.name, &info.actions)?;
    let parts = parts((Kind::Action, wanted.name), &wanted.params, |name| {
        let param = action.params.iter().find(|param| param.name == name)?;
        Some(Part { name: &param.name, id: param.id, bits: param.bitwidth })
    })?;
    Ok(Numbered { id, parts })
}

fn table<const N: usize>(info: &P4Info, wanted: &names::Table<N>) -> Result<Numbered<N>, BadInfo> {
    let (number, table) = id(Kind::Table, wanted.name, &info.tables)?;
    let parts = parts((Kind::Table, wanted.name), &wanted.fields, |name| {
        let field = table.match_fields.iter().find(|field| field.name == name)?;
        Some(Part { name: &field.name, id: field.id, bits: field.bitwidth })
    })?;
    for field in &table.match_fields {
        let matched = matched(field);
        if matched != wanted.matched {
            let difference = format!("match {matched:?}; the program has match {:?}", wanted.matched);
            let (name, part) = (wanted.name.into(), field.name.clone());
            return Err(BadInfo::Part { kind: Kind::Table, name, part, difference });
        }
    }
    for name in wanted.actions {
        let (action, _) = id(Kind::Action, name, &info.actions)?;
        if !table.action_refs.iter().any(|possible| possible.id == action) {
            return Err(BadInfo::NotAnAction { table: wanted.name.into(), action: (*name).into() });
        }
    }
    Ok(Numbered { id: number, parts })
}

fn matched(field: &config::MatchField) -> MatchType {
    match field.r#match {
        Some(Match::MatchType(value)) => MatchType::try_from(value).unwrap_or(MatchType::Unspecified),
        None => MatchType::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::info;

    #[test]
    fn all_names_are_found_and_every_number_is_another() {
        let ids = Ids::of(&info()).unwrap();
        let mut all = vec![ids.lpm.id, ids.ecmp.id, ids.edge.id, ids.links.id, ids.guard.id, ids.seen];
        all.extend([ids.forward.id, ids.choose.id, ids.bind.id, ids.link.id, ids.set_slot.id, ids.no_action.id]);
        all.extend(ids.counters.all().into_iter().chain(ids.even).chain(ids.odd));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(ids.forward.parts, [1, 2, 3]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |change: fn(&mut P4Info)| {
            let mut changed = info();
            change(&mut changed);
            Ids::of(&changed).unwrap_err().to_string()
        };
        let there = "it must be that of switch-emulator/p4/sluice.p4";
        assert_eq!(error(|info| info.tables.clear()), format!("the P4Info has no table `SluiceIngress.lpm`; {there}"));
        assert_eq!(
            error(|info| info.registers.retain(|register| register.size != 512)),
            format!("the P4Info has no register `SluiceEgress.even_0`; {there}")
        );
        assert_eq!(
            error(|info| info.tables[0].match_fields[0].bitwidth = 16),
            "`hdr.ipv4.destination` of table `SluiceIngress.lpm` has 16 bits; the program has 32 bits"
        );
        assert_eq!(
            error(|info| info.tables[0].match_fields[0].r#match = None),
            "`hdr.ipv4.destination` of table `SluiceIngress.lpm` has match Unspecified; the program has match Lpm"
        );
        assert_eq!(
            error(|info| info.tables[0].action_refs.clear()),
            format!("table `SluiceIngress.lpm` cannot do `SluiceIngress.forward`; {there}")
        );
        let renamed = |info: &mut P4Info| {
            info.actions.iter_mut().flat_map(|action| &mut action.params).for_each(|param| param.name.push('x'));
        };
        assert_eq!(error(renamed), format!("action `SluiceIngress.forward` has no `port`; {there}"));
        let moved = |info: &mut P4Info| info.tables[0].preamble.as_mut().unwrap().id = 7;
        assert_eq!(
            error(moved),
            "table `SluiceIngress.lpm` has the id 0x00000007; allowed are ids that begin with 0x02"
        );
    }
}
