//! What the program calls its tables, actions, counters and registers, and how wide their fields are.
//!
//! A test in [`crate::info`] holds this against the program's text.

use crate::pb::p4::config::v1::counter_spec::Unit;
use crate::pb::p4::config::v1::match_field::MatchType;

/// A field of a key, or a parameter of an action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    pub bits: u32,
}

const fn field(name: &'static str, bits: u32) -> Field {
    Field { name, bits }
}

/// A table with the fields of its key, all matched alike.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    pub name: &'static str,
    pub size: u32,
    pub matched: MatchType,
    pub fields: [Field; N],
    pub actions: &'static [&'static str],
}

/// An action with its parameters.
#[derive(Debug)]
pub(crate) struct Action<const N: usize> {
    pub name: &'static str,
    pub params: [Field; N],
}

/// An array of counters.
#[derive(Debug)]
pub(crate) struct Counter {
    pub name: &'static str,
    pub size: u32,
    pub unit: Unit,
}

pub(crate) const NO_ACTION: Action<0> = Action { name: "NoAction", params: [] };
pub(crate) const NO_ROUTE: Action<0> = Action { name: "SluiceIngress.no_route", params: [] };
pub(crate) const BIND: Action<2> =
    Action { name: "SluiceIngress.bind", params: [field("network", 32), field("mask", 32)] };
pub(crate) const FORWARD: Action<3> =
    Action { name: "SluiceIngress.forward", params: [field("port", 9), field("destination", 48), field("source", 48)] };
pub(crate) const CHOOSE: Action<3> =
    Action { name: "SluiceIngress.choose", params: [field("group", 16), field("size", 16), field("seed", 32)] };
pub(crate) const LINK: Action<3> =
    Action { name: "SluiceEgress.link", params: [field("capacity", 32), field("unit", 8), field("signature", 32)] };
pub(crate) const SET_SLOT: Action<1> = Action { name: "SluiceEgress.set_slot", params: [field("slot", 32)] };

pub(crate) const LPM: Table<1> = Table {
    name: "SluiceIngress.lpm",
    size: 16_384,
    matched: MatchType::Lpm,
    fields: [field("hdr.ipv4.destination", 32)],
    actions: &[FORWARD.name, CHOOSE.name, NO_ROUTE.name],
};
pub(crate) const ECMP: Table<2> = Table {
    name: "SluiceIngress.ecmp",
    size: 16_384,
    matched: MatchType::Exact,
    fields: [field("meta.group", 16), field("meta.bucket", 16)],
    actions: &[FORWARD.name, NO_ROUTE.name],
};
pub(crate) const EDGE: Table<1> = Table {
    name: "SluiceIngress.edge",
    size: 512,
    matched: MatchType::Exact,
    fields: [field("standard.ingress_port", 9)],
    actions: &[BIND.name, NO_ACTION.name],
};
pub(crate) const LINKS: Table<1> = Table {
    name: "SluiceEgress.links",
    size: 512,
    matched: MatchType::Exact,
    fields: [field("standard.egress_port", 9)],
    actions: &[LINK.name, NO_ACTION.name],
};
/// Without a key: it has its default action and nothing else.
pub(crate) const GUARD: Table<0> = Table {
    name: "SluiceEgress.guard",
    size: 1,
    matched: MatchType::Unspecified,
    fields: [],
    actions: &[SET_SLOT.name, NO_ACTION.name],
};

const fn by_port(name: &'static str, unit: Unit) -> Counter {
    Counter { name, size: 512, unit }
}

pub(crate) const DROPS: Counter = Counter { name: "SluiceIngress.drops", size: 5, unit: Unit::Packets };
pub(crate) const SENT: Counter = by_port("SluiceEgress.sent", Unit::Both);
pub(crate) const ANNOUNCEMENTS: Counter = by_port("SluiceEgress.announcements", Unit::Packets);
pub(crate) const DUPLICATES: Counter = by_port("SluiceEgress.duplicates", Unit::Packets);
pub(crate) const PROBES: Counter = by_port("SluiceEgress.probes", Unit::Packets);
pub(crate) const REJECTED: Counter = by_port("SluiceEgress.rejected", Unit::Packets);
pub(crate) const OTHER_UNIT: Counter = by_port("SluiceEgress.other_unit", Unit::Packets);

/// Cells of lanes whose period is even, one array a lane.
pub(crate) const EVEN: &str = "SluiceEgress.even_";
/// Cells of lanes whose period is odd.
pub(crate) const ODD: &str = "SluiceEgress.odd_";
/// Who was counted, and when.
pub(crate) const SEEN: &str = "SluiceEgress.seen";
