//! Statements of [`sluice_pipeline::control`] as entries of the program's tables, and back.
//!
//! Nothing is lost on the way but the host bits of a prefix, which no switch keeps. What comes from outside is checked
//! against the program: which tables and actions there are, which fields and how wide, and what a value may be beyond
//! its width. Entries that the program allows and a [`Statement`] cannot say are refused too: those with `no_route` or
//! `NoAction`.

use ipnet::Ipv4Net;
use sluice_pipeline::control::Statement;
use sluice_pipeline::egress::Link;
use sluice_pipeline::routes::{Action, Group, Member, NextHop};
use sluice_schedule::Slot;
use sluice_wire::udp::MAX_UNIT;

use crate::ids::{Ids, Numbered};
use crate::names;
use crate::pb::p4::v1::{self as p4, FieldMatch, TableAction, TableEntry, field_match, table_action};

mod value;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use value::{canonical, number};

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// A table that the program does not have.
    #[error("table_id is {found:#010x}; allowed are {allowed}")]
    Table {
        /// The number that came.
        found: u32,
        /// Tables and their numbers.
        allowed: String,
    },
    /// An action that entries of the table cannot have.
    #[error("action_id of an entry of `{table}` is {found:#010x}; allowed are {allowed}")]
    Action {
        /// The table.
        table: &'static str,
        /// The number that came.
        found: u32,
        /// Actions and their numbers.
        allowed: String,
    },
    /// Something that an entry must have.
    #[error("{field} is missing; allowed is {allowed}")]
    Missing {
        /// What is missing.
        field: String,
        /// What it may be.
        allowed: String,
    },
    /// Something that is there more than once.
    #[error("{field} is there twice; allowed is once")]
    Twice {
        /// What is there.
        field: String,
    },
    /// A value that is none of those that are allowed.
    #[error("{field} is {value}; allowed is {allowed}")]
    Value {
        /// Whose value it is.
        field: String,
        /// The value that came.
        value: String,
        /// What it may be.
        allowed: String,
    },
}

pub(crate) fn refused(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> BadEntry {
    BadEntry::Value { field: field.into(), value: value.to_string(), allowed: allowed.into() }
}

/// Which entry it is: its table and what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Of `edge`: an ingress port.
    Edge(u16),
    /// Of `links`: an egress port.
    Link(u16),
    /// Of `ecmp`.
    Member {
        /// The group's number.
        group: u16,
        /// Which of its buckets.
        bucket: u16,
    },
    /// Of `lpm`: a prefix without host bits.
    Route(Ipv4Net),
    /// The default action of `guard`.
    Guard,
}

impl Key {
    /// The entry that a statement writes; none writes a restart.
    pub fn of(statement: &Statement) -> Option<Key> {
        match statement {
            Statement::Route(to, _) => Some(Key::Route(to.trunc())),
            Statement::Member(Member { group, bucket }, _) => Some(Key::Member { group: *group, bucket: *bucket }),
            Statement::Edge(port, _) => Some(Key::Edge(*port)),
            Statement::Link(port, _) => Some(Key::Link(*port)),
            Statement::Guard(_) => Some(Key::Guard),
            Statement::Restart => None,
        }
    }

    /// The number of its table.
    pub fn table_id(self, ids: &Ids) -> u32 {
        match self {
            Key::Edge(_) => ids.edge.id,
            Key::Link(_) => ids.links.id,
            Key::Member { .. } => ids.ecmp.id,
            Key::Route(_) => ids.lpm.id,
            Key::Guard => ids.guard.id,
        }
    }

    /// The entry without an action: what is taken out, or asked for.
    pub fn entry(self, ids: &Ids) -> TableEntry {
        let r#match = match self {
            Key::Edge(port) => exact(&ids.edge, [port]),
            Key::Link(port) => exact(&ids.links, [port]),
            Key::Member { group, bucket } => exact(&ids.ecmp, [group, bucket]),
            Key::Route(to) => prefix(&ids.lpm, to),
            Key::Guard => Vec::new(),
        };
        let is_default_action = self == Key::Guard;
        TableEntry { table_id: self.table_id(ids), r#match, is_default_action, ..TableEntry::default() }
    }
}

/// The entry that a statement writes; none writes a restart.
pub fn entry(statement: &Statement, ids: &Ids) -> Option<TableEntry> {
    let hop = |hop: &NextHop| does(&ids.forward, [hop.port.into(), address(hop.destination), address(hop.source)]);
    let action = match statement {
        Statement::Route(_, Action::Hop(to)) | Statement::Member(_, to) => hop(to),
        Statement::Route(_, Action::Group(Group { id, size, seed })) => {
            does(&ids.choose, [(*id).into(), (*size).into(), (*seed).into()])
        }
        Statement::Edge(_, sources) => {
            does(&ids.bind, [u32::from(sources.network()).into(), u32::from(sources.netmask()).into()])
        }
        Statement::Link(_, Link { capacity, unit, signature }) => {
            does(&ids.link, [(*capacity).into(), (*unit).into(), (*signature).into()])
        }
        Statement::Guard(slot) => does(&ids.set_slot, [slot.0.into()]),
        Statement::Restart => return None,
    };
    Some(TableEntry { action: Some(action), ..Key::of(statement)?.entry(ids) })
}

fn exact<const N: usize>(table: &Numbered<N>, values: [u16; N]) -> Vec<FieldMatch> {
    let fields = table.parts.iter().zip(values).map(|(field_id, value)| {
        let exact = field_match::Exact { value: canonical(value.into()) };
        FieldMatch { field_id: *field_id, field_match_type: Some(field_match::FieldMatchType::Exact(exact)) }
    });
    fields.collect()
}

/// A prefix of no bits is a match that is left out.
fn prefix(table: &Numbered<1>, to: Ipv4Net) -> Vec<FieldMatch> {
    let (value, prefix_len) = (canonical(u32::from(to.network()).into()), i32::from(to.prefix_len()));
    let lpm = field_match::FieldMatchType::Lpm(field_match::Lpm { value, prefix_len });
    let fields = table.parts.iter().filter(|_| prefix_len > 0);
    fields.map(|field_id| FieldMatch { field_id: *field_id, field_match_type: Some(lpm.clone()) }).collect()
}

fn does<const N: usize>(action: &Numbered<N>, values: [u64; N]) -> TableAction {
    let params = action.parts.iter().zip(values);
    let params = params.map(|(param_id, value)| p4::action::Param { param_id: *param_id, value: canonical(value) });
    let action = p4::Action { action_id: action.id, params: params.collect() };
    TableAction { r#type: Some(table_action::Type::Action(action)) }
}

fn address(bytes: [u8; 6]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Which entry this is.
///
/// # Errors
/// [`BadEntry`] with the first thing that is not as the program has it.
pub fn key(entry: &TableEntry, ids: &Ids) -> Result<Key, BadEntry> {
    let key = match entry.table_id {
        id if id == ids.edge.id => {
            let [port] = matched(&names::EDGE, &ids.edge, &entry.r#match)?;
            Key::Edge(exactly(&names::EDGE, 0, port)?)
        }
        id if id == ids.links.id => {
            let [port] = matched(&names::LINKS, &ids.links, &entry.r#match)?;
            Key::Link(exactly(&names::LINKS, 0, port)?)
        }
        id if id == ids.ecmp.id => {
            let [group, bucket] = matched(&names::ECMP, &ids.ecmp, &entry.r#match)?;
            Key::Member { group: exactly(&names::ECMP, 0, group)?, bucket: exactly(&names::ECMP, 1, bucket)? }
        }
        id if id == ids.lpm.id => {
            let [to] = matched(&names::LPM, &ids.lpm, &entry.r#match)?;
            Key::Route(network(to)?)
        }
        id if id == ids.guard.id => {
            let [] = matched(&names::GUARD, &ids.guard, &entry.r#match)?;
            Key::Guard
        }
        found => return Err(unknown_table(found, ids)),
    };
    // The program's guard has no key, and no other default action is for a control plane to change here.
    if entry.is_default_action != (key == Key::Guard) {
        let allowed = if key == Key::Guard { "true, for the table has no key" } else { "false" };
        return Err(refused("is_default_action", entry.is_default_action, allowed));
    }
    if entry.priority != 0 {
        return Err(refused("priority", entry.priority, "0, for no key of the program is ternary"));
    }
    Ok(key)
}

pub(crate) fn unknown_table(found: u32, ids: &Ids) -> BadEntry {
    let all = [
        (names::LPM.name, ids.lpm.id),
        (names::ECMP.name, ids.ecmp.id),
        (names::EDGE.name, ids.edge.id),
        (names::LINKS.name, ids.links.id),
        (names::GUARD.name, ids.guard.id),
    ];
    BadEntry::Table { found, allowed: numbered(&all) }
}

/// Numbers with the names that they stand for.
pub(crate) fn numbered(all: &[(&str, u32)]) -> String {
    all.iter().map(|(name, id)| format!("{id:#010x} ({name})")).collect::<Vec<_>>().join(", ")
}

/// What the entry says of each field of the table's key.
fn matched<'a, const N: usize>(
    table: &names::Table<N>,
    ids: &Numbered<N>,
    all: &'a [FieldMatch],
) -> Result<[Option<&'a FieldMatch>; N], BadEntry> {
    let mut fields = [None; N];
    for one in all {
        let at = ids.parts.iter().position(|id| *id == one.field_id);
        let Some((place, field)) = at.and_then(|at| Some((fields.get_mut(at)?, table.fields.get(at)?))) else {
            let known: Vec<(&str, u32)> = table.fields.iter().map(|field| field.name).zip(ids.parts).collect();
            let allowed = if known.is_empty() { "none".into() } else { numbered(&known) };
            return Err(refused(format!("field_id of a match of `{}`", table.name), one.field_id, allowed));
        };
        if place.replace(one).is_some() {
            return Err(BadEntry::Twice { field: format!("the match of `{}`", field.name) });
        }
    }
    Ok(fields)
}

/// The value of an exact match. All keys of the program that are matched exactly have 16 bits or fewer.
fn exactly<const N: usize>(table: &names::Table<N>, at: usize, found: Option<&FieldMatch>) -> Result<u16, BadEntry> {
    let Some(field) = table.fields.get(at) else { return Err(refused("a field", at, "one of the table's key")) };
    let name = format!("the match of `{}`", field.name);
    match found.and_then(|one| one.field_match_type.as_ref()) {
        Some(field_match::FieldMatchType::Exact(exact)) => Ok(number(&name, &exact.value, field.bits)? as u16),
        Some(field_match::FieldMatchType::Lpm(_)) => Err(refused(name, "lpm", "exact")),
        None => Err(BadEntry::Missing { field: name, allowed: "an exact match".into() }),
    }
}

fn network(found: Option<&FieldMatch>) -> Result<Ipv4Net, BadEntry> {
    let [field] = &names::LPM.fields;
    let name = format!("the match of `{}`", field.name);
    let lpm = match found.map(|one| one.field_match_type.as_ref()) {
        None => return Ok(Ipv4Net::default()),
        Some(Some(field_match::FieldMatchType::Lpm(lpm))) => lpm,
        Some(Some(field_match::FieldMatchType::Exact(_))) => return Err(refused(name, "exact", "lpm")),
        Some(None) => return Err(BadEntry::Missing { field: name, allowed: "an lpm match".into() }),
    };
    let address = number(&name, &lpm.value, field.bits)? as u32;
    let length = u8::try_from(lpm.prefix_len).ok().filter(|length| (1..=32).contains(length));
    let net = length.and_then(|length| Ipv4Net::new(address.into(), length).ok());
    let Some(net) = net else {
        let allowed = "1 to 32; a prefix of 0 bits is a match that is left out";
        return Err(refused("prefix_len", lpm.prefix_len, allowed));
    };
    if net == net.trunc() { Ok(net) } else { Err(refused(name, net, "a prefix without host bits")) }
}

/// The statement that writes this entry.
///
/// # Errors
/// [`BadEntry`] with the first thing that is not as the program has it, or that no statement says.
pub fn statement(entry: &TableEntry, ids: &Ids) -> Result<Statement, BadEntry> {
    let key = key(entry, ids)?;
    let action = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => action,
        None => return Err(BadEntry::Missing { field: "action".into(), allowed: possible(key, ids) }),
    };
    let unknown = || BadEntry::Action { table: table(key), found: action.action_id, allowed: possible(key, ids) };
    let is = |wanted: u32| action.action_id == wanted;
    match key {
        Key::Route(to) if is(ids.choose.id) => Ok(Statement::Route(to, Action::Group(group(action, ids)?))),
        Key::Route(to) if is(ids.forward.id) => Ok(Statement::Route(to, Action::Hop(hop(action, ids)?))),
        Key::Member { group, bucket } if is(ids.forward.id) => {
            Ok(Statement::Member(Member { group, bucket }, hop(action, ids)?))
        }
        Key::Edge(port) if is(ids.bind.id) => Ok(Statement::Edge(port, sources(action, ids)?)),
        Key::Link(port) if is(ids.link.id) => Ok(Statement::Link(port, link(action, ids)?)),
        Key::Guard if is(ids.set_slot.id) => {
            let [slot] = params(&names::SET_SLOT, &ids.set_slot, action)?;
            Ok(Statement::Guard(Slot(slot as u32)))
        }
        _ => Err(unknown()),
    }
}

fn table(key: Key) -> &'static str {
    match key {
        Key::Edge(_) => names::EDGE.name,
        Key::Link(_) => names::LINKS.name,
        Key::Member { .. } => names::ECMP.name,
        Key::Route(_) => names::LPM.name,
        Key::Guard => names::GUARD.name,
    }
}

fn possible(key: Key, ids: &Ids) -> String {
    let forward = (names::FORWARD.name, ids.forward.id);
    match key {
        Key::Edge(_) => numbered(&[(names::BIND.name, ids.bind.id)]),
        Key::Link(_) => numbered(&[(names::LINK.name, ids.link.id)]),
        Key::Member { .. } => numbered(&[forward]),
        Key::Route(_) => numbered(&[forward, (names::CHOOSE.name, ids.choose.id)]),
        Key::Guard => numbered(&[(names::SET_SLOT.name, ids.set_slot.id)]),
    }
}

/// The values of an action's parameters, in the program's order; each fits its width.
fn params<const N: usize>(
    wanted: &names::Action<N>,
    ids: &Numbered<N>,
    action: &p4::Action,
) -> Result<[u64; N], BadEntry> {
    let name = |field: &names::Field| format!("parameter `{}` of `{}`", field.name, wanted.name);
    let mut found = [None; N];
    for param in &action.params {
        let at = ids.parts.iter().position(|id| *id == param.param_id);
        let Some((place, field)) = at.and_then(|at| Some((found.get_mut(at)?, wanted.params.get(at)?))) else {
            let known: Vec<(&str, u32)> = wanted.params.iter().map(|field| field.name).zip(ids.parts).collect();
            return Err(refused(format!("param_id of `{}`", wanted.name), param.param_id, numbered(&known)));
        };
        if place.replace(number(&name(field), &param.value, field.bits)?).is_some() {
            return Err(BadEntry::Twice { field: name(field) });
        }
    }
    let mut values = [0; N];
    for ((value, found), field) in values.iter_mut().zip(found).zip(&wanted.params) {
        let missing = || BadEntry::Missing { field: name(field), allowed: format!("a number of {} bits", field.bits) };
        *value = found.ok_or_else(missing)?;
    }
    Ok(values)
}

fn hop(action: &p4::Action, ids: &Ids) -> Result<NextHop, BadEntry> {
    let [port, destination, source] = params(&names::FORWARD, &ids.forward, action)?;
    let bytes = |address: u64| {
        let [_, _, bytes @ ..] = address.to_be_bytes();
        bytes
    };
    Ok(NextHop { port: port as u16, destination: bytes(destination), source: bytes(source) })
}

fn group(action: &p4::Action, ids: &Ids) -> Result<Group, BadEntry> {
    let [id, size, seed] = params(&names::CHOOSE, &ids.choose, action)?;
    if size == 0 {
        return Err(refused("parameter `size` of `SluiceIngress.choose`", size, "1 to 65535"));
    }
    Ok(Group { id: id as u16, size: size as u16, seed: seed as u32 })
}

fn sources(action: &p4::Action, ids: &Ids) -> Result<Ipv4Net, BadEntry> {
    let [network, mask] = params(&names::BIND, &ids.bind, action)?;
    let (network, mask) = (network as u32, mask as u32);
    let length = mask.leading_ones();
    // Every bit behind the first ones is a zero.
    if mask.count_ones() != length {
        let value = format!("{mask:#010x}");
        return Err(refused(
            "parameter `mask` of `SluiceIngress.bind`",
            value,
            "ones from the first bit on, then zeros",
        ));
    }
    if network & !mask != 0 {
        let value = format!("{network:#010x} under {mask:#010x}");
        return Err(refused("parameter `network` of `SluiceIngress.bind`", value, "a network without host bits"));
    }
    let net = Ipv4Net::new(network.into(), length as u8);
    net.map_err(|_| refused("parameter `mask` of `SluiceIngress.bind`", length, "0 to 32 ones"))
}

fn link(action: &p4::Action, ids: &Ids) -> Result<Link, BadEntry> {
    let [capacity, unit, signature] = params(&names::LINK, &ids.link, action)?;
    if capacity > i32::MAX as u64 {
        return Err(refused("parameter `capacity` of `SluiceEgress.link`", capacity, "0 to 2147483647"));
    }
    if unit > u64::from(MAX_UNIT) {
        return Err(refused("parameter `unit` of `SluiceEgress.link`", unit, format!("0 to {MAX_UNIT}")));
    }
    Ok(Link { capacity: capacity as u32, unit: unit as u8, signature: signature as u32 })
}
