//! Routes as entries of the kernel's maps, in the very bytes of `bpf/sluice_forward.bpf.c`.
//!
//! Numbers are as this machine has them; addresses as the network has them.

use sluice_pipeline::control::Statement;
use sluice_pipeline::routes::{Action, Group, Member, NextHop};

/// A way: its port, the next machine's address, the own one.
pub type Hop = [u8; 16];
/// What a prefix does: its one way, or a group's size, number and seed.
pub type Route = [u8; 24];
/// A generation, and what is looked for in it: an address, or a bucket of a group.
pub type Key = [u8; 8];

/// An entry of the map of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// Bits of the prefix.
    pub length: u8,
    /// Its address, the second half of the key.
    pub address: [u8; 4],
    /// What it does.
    pub route: Route,
}

/// An entry of the map of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Group and bucket, the second half of the key.
    pub bucket: [u8; 4],
    /// Where it leads.
    pub hop: Hop,
}

/// All entries of one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Of the map of prefixes.
    pub routes: Vec<RouteEntry>,
    /// Of the map of buckets.
    pub members: Vec<MemberEntry>,
}

impl Entries {
    /// What these statements say of where packets go, in their order.
    pub fn of(statements: impl Iterator<Item = Statement>) -> Entries {
        let mut entries = Entries::default();
        for statement in statements {
            match statement {
                Statement::Route(to, action) => entries.routes.push(RouteEntry {
                    length: to.prefix_len(),
                    address: to.network().octets(),
                    route: route(action),
                }),
                Statement::Member(Member { group, bucket }, next) => {
                    entries.members.push(MemberEntry { bucket: halves(group, bucket), hop: hop(next) });
                }
                Statement::Edge(..) | Statement::Link(..) | Statement::Guard(_) | Statement::Restart => {}
            }
        }
        entries
    }
}

/// The key of something in a generation, whose number stands in front: generations lie in one map and never meet.
pub fn key(generation: u32, of: [u8; 4]) -> Key {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&generation.to_ne_bytes());
    key[4..].copy_from_slice(&of);
    key
}

fn halves(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d]
}

fn hop(next: NextHop) -> Hop {
    let mut hop = [0; 16];
    hop[..4].copy_from_slice(&u32::from(next.port).to_ne_bytes());
    hop[4..10].copy_from_slice(&next.destination);
    hop[10..].copy_from_slice(&next.source);
    hop
}

/// A size of zero says that it is no group.
fn route(action: Action) -> Route {
    let mut route = [0; 24];
    match action {
        Action::Hop(next) => route[..16].copy_from_slice(&hop(next)),
        Action::Group(Group { id, size, seed }) => {
            route[16..20].copy_from_slice(&halves(size.max(1), id));
            route[20..].copy_from_slice(&seed.to_ne_bytes());
        }
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_pipeline::control::statements;

    #[test]
    fn routes_and_members_become_entries_and_nothing_else_does() {
        let text = "
            route 10.1.2.3/16 via 258 02:00:00:00:00:01 02:00:00:00:00:02
            route 10.2.0.0/24 group 7 size 3 seed 0x01020304
            member 7 2 via 1 02:00:00:00:00:03 02:00:00:00:00:04
            edge 0 10.0.0.1/32
            link 1 capacity 500 unit 0 signature 0xabcdef01
            guard 1000";
        let entries = Entries::of(statements(text).map(|(_, statement)| statement.unwrap()));
        let way = [[2_u8, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
        let one = [258_u32.to_ne_bytes().as_slice(), &way, &[0; 8]].concat();
        let group = [[0_u8; 16].as_slice(), &3_u16.to_ne_bytes(), &7_u16.to_ne_bytes(), &0x0102_0304_u32.to_ne_bytes()]
            .concat();
        let routes: Vec<_> =
            entries.routes.iter().map(|entry| (entry.length, entry.address, &entry.route[..])).collect();
        assert_eq!(routes, [(16, [10, 1, 0, 0], &one[..]), (24, [10, 2, 0, 0], &group[..])]);
        let bucket = [7_u16.to_ne_bytes(), 2_u16.to_ne_bytes()].concat();
        let hop = [1_u32.to_ne_bytes().as_slice(), &[2, 0, 0, 0, 0, 3], &[2, 0, 0, 0, 0, 4]].concat();
        let members: Vec<_> = entries.members.iter().map(|entry| (&entry.bucket[..], &entry.hop[..])).collect();
        assert_eq!(members, [(&bucket[..], &hop[..])]);
    }

    #[test]
    fn a_generation_stands_in_front_of_every_key() {
        assert_eq!(key(258, [10, 1, 0, 0]), [&258_u32.to_ne_bytes()[..], &[10, 1, 0, 0]].concat()[..]);
        assert_ne!(key(1, [0; 4]), key(2, [0; 4]));
    }
}
