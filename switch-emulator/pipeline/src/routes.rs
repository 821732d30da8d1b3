//! Where packets go: the longest prefix, and among equally good ports the one that the connection's hash says.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use ipnet::Ipv4Net;
use sluice_wire::udp::Tuple;

use crate::control::Statement;

static ISO_HDLC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// A port, and the addresses of the link behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// By which the frame leaves.
    pub port: u16,
    /// The next machine's address on the link.
    pub destination: [u8; 6],
    /// The switch's own.
    pub source: [u8; 6],
}

/// What an entry of `lpm` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// One way.
    Hop(NextHop),
    /// One of a group's ways.
    Group(Group),
}

/// A group of equally good ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number in `ecmp`.
    pub id: u16,
    /// How many buckets it has, at least one.
    pub size: u16,
    /// Goes into the hash, so that two switches in a row do not choose alike: drawn from all numbers, since small ones leave
    /// them too much alike.
    pub seed: u32,
}

/// One bucket of a group: the key of `ecmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The group's number.
    pub group: u16,
    /// Which of its buckets.
    pub bucket: u16,
}

/// The tables `lpm` and `ecmp`.
#[derive(Debug, Default)]
pub struct Routes {
    entries: BTreeMap<Ipv4Net, Action>,
    /// The entries as ranges of addresses: where each begins, in order, and what holds from there on.
    ranges: Vec<Range>,
    members: BTreeMap<Member, NextHop>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    from: u32,
    action: Option<Action>,
}

/// A prefix whose end has not been reached.
struct Open {
    last: u32,
    action: Action,
}

/// What holds beyond a prefix: what the prefix around it says. Beyond the last address there is nothing.
fn after(ended: &Open, around: &[Open]) -> Option<Range> {
    Some(Range { from: ended.last.checked_add(1)?, action: around.last().map(|net| net.action) })
}

impl Routes {
    /// Sets what happens to a prefix.
    pub fn set(&mut self, to: Ipv4Net, action: Action) {
        self.entries.insert(to.trunc(), action);
        self.flatten();
    }

    /// Takes a prefix out.
    pub fn clear(&mut self, to: Ipv4Net) {
        self.entries.remove(&to.trunc());
        self.flatten();
    }

    /// Sets or takes out a bucket of a group.
    pub fn set_member(&mut self, member: Member, hop: Option<NextHop>) {
        match hop {
            Some(hop) => self.members.insert(member, hop),
            None => self.members.remove(&member),
        };
    }

    /// Both tables, as the statements that fill them, in the order of their keys.
    pub fn statements(&self) -> impl Iterator<Item = Statement> {
        let routes = self.entries.iter().map(|(to, action)| Statement::Route(*to, *action));
        routes.chain(self.members.iter().map(|(member, hop)| Statement::Member(*member, *hop)))
    }

    /// Prefixes nest or lie apart, so a stack of those that are open says what holds at each border.
    fn flatten(&mut self) {
        self.ranges = vec![Range { from: 0, action: None }];
        let mut open: Vec<Open> = Vec::new();
        for (net, action) in &self.entries {
            let from = u32::from(net.network());
            while let Some(ended) = open.pop_if(|net| net.last < from) {
                self.ranges.extend(after(&ended, &open));
            }
            self.ranges.push(Range { from, action: Some(*action) });
            open.push(Open { last: u32::from(net.broadcast()), action: *action });
        }
        while let Some(ended) = open.pop() {
            self.ranges.extend(after(&ended, &open));
        }
    }

    /// Where a packet to this address goes, by this connection if there are several ways.
    pub fn next_hop(&self, to: Ipv4Addr, by: impl FnOnce() -> Tuple) -> Option<NextHop> {
        let to = u32::from(to);
        let after = self.ranges.partition_point(|range| range.from <= to);
        match self.ranges.get(after.checked_sub(1)?)?.action? {
            Action::Hop(hop) => Some(hop),
            Action::Group(group) => {
                let bucket = (hash(group.seed, &by()) % u32::from(group.size.max(1))) as u16;
                self.members.get(&Member { group: group.id, bucket }).copied()
            }
        }
    }
}

/// CRC-32 over source, destination, ports and protocol, in the order and width of the program's fields; then over that plus the
/// seed. The checksum is linear: a seed among its fields would turn all choices of a switch at once, and two in a row would
/// choose alike. The carry is what is not.
fn hash(seed: u32, by: &Tuple) -> u32 {
    let mut bytes = [0; 13];
    bytes[..4].copy_from_slice(&by.source.octets());
    bytes[4..8].copy_from_slice(&by.destination.octets());
    bytes[8..10].copy_from_slice(&by.source_port.to_be_bytes());
    bytes[10..12].copy_from_slice(&by.destination_port.to_be_bytes());
    bytes[12] = by.protocol;
    ISO_HDLC.checksum(&ISO_HDLC.checksum(&bytes).wrapping_add(seed).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hop(port: u16) -> NextHop {
        NextHop { port, destination: [2; 6], source: [4; 6] }
    }

    fn net() -> impl Strategy<Value = Ipv4Net> {
        (any::<u32>(), 0_u8..=32, any::<bool>()).prop_map(|(address, length, near)| {
            let address = if near { address & 0xff } else { address };
            Ipv4Net::new(address.into(), length).unwrap().trunc()
        })
    }

    proptest! {
        #[test]
        fn the_longest_prefix_wins(
            entries in prop::collection::vec((net(), any::<bool>()), 0..20),
            addresses in prop::collection::vec((any::<u32>(), any::<bool>()), 30)
        ) {
            let mut routes = Routes::default();
            let mut naive: Vec<(Ipv4Net, u16)> = Vec::new();
            for (port, (net, taken_out)) in entries.iter().enumerate() {
                naive.retain(|(known, _)| known != net);
                if *taken_out {
                    routes.clear(*net);
                } else {
                    routes.set(*net, Action::Hop(hop(port as u16)));
                    naive.push((*net, port as u16));
                }
            }
            let borders = entries.iter().flat_map(|(net, _)| [net.network(), net.broadcast()]);
            let drawn = addresses.iter().map(|(a, near)| Ipv4Addr::from(if *near { a & 0xff } else { *a }));
            for address in borders.chain(drawn) {
                let best = naive.iter().filter(|(net, _)| net.contains(&address)).max_by_key(|(net, _)| net.prefix_len());
                let got = routes.next_hop(address, || tuple(1)).map(|hop| hop.port);
                prop_assert_eq!(got, best.map(|(_, port)| *port), "{}", address);
            }
        }
    }

    fn tuple(source_port: u16) -> Tuple {
        Tuple {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 1, 1].into(),
            source_port,
            destination_port: 5000,
            protocol: 6,
            cookie: 0,
        }
    }

    #[test]
    fn a_group_spreads_connections_and_keeps_each_on_its_way() {
        let mut routes = Routes::default();
        routes.set("10.0.1.0/24".parse().unwrap(), Action::Group(Group { id: 7, size: 4, seed: 99 }));
        for bucket in 0..4 {
            routes.set_member(Member { group: 7, bucket }, Some(hop(bucket)));
        }
        let mut of_port = [0; 4];
        for source_port in 0..4000 {
            let by = tuple(source_port);
            let out = routes.next_hop(by.destination, || by).unwrap().port;
            assert_eq!(routes.next_hop(by.destination, || by).unwrap().port, out);
            of_port[usize::from(out)] += 1;
        }
        assert!(of_port.iter().all(|count| (800..1200).contains(count)), "{of_port:?}");
        routes.set_member(Member { group: 7, bucket: 0 }, None);
        let lost = (0..4000).filter(|port| routes.next_hop([10, 0, 1, 1].into(), || tuple(*port)).is_none()).count();
        assert_eq!(lost, of_port[0], "an empty bucket is no way, as in the program");
    }

    #[test]
    fn tables_are_told_in_the_order_of_their_keys_however_they_were_filled() {
        let mut routes = Routes::default();
        for (group, bucket) in [(7, 3), (2, 9), (7, 0), (1, 1), (2, 0), (7, 1)] {
            routes.set_member(Member { group, bucket }, Some(hop(bucket)));
        }
        for net in ["10.0.2.0/24", "10.0.1.0/24", "10.0.0.0/8"] {
            routes.set(net.parse().unwrap(), Action::Hop(hop(1)));
        }
        let told: Vec<String> = routes.statements().map(|statement| statement.to_string()).collect();
        let key = |line: &String| line.split(" via ").next().unwrap().to_owned();
        let keys: Vec<String> = told.iter().map(key).collect();
        let members = ["member 1 1", "member 2 0", "member 2 9", "member 7 0", "member 7 1", "member 7 3"];
        assert_eq!(keys[..3], ["route 10.0.0.0/8", "route 10.0.1.0/24", "route 10.0.2.0/24"]);
        assert_eq!(keys[3..], members);
    }

    #[test]
    fn switches_with_different_seeds_choose_each_for_itself() {
        for (one, other, ways) in
            [(0, 0x5851_f42d, 2), (0x9e37_79b9, 0x7f4a_7c15, 2), (0xd1b5_4a32, 0x4cf5_ad43, 4), (7, 0xb529_7a4d, 3)]
        {
            let mut both = vec![0; (ways * ways) as usize];
            for source_port in 0..16_000 {
                let choice = |seed| hash(seed, &tuple(source_port)) % ways;
                both[(choice(one) * ways + choice(other)) as usize] += 1;
            }
            let even = 16_000 / (ways * ways);
            assert!(both.iter().all(|count| (even * 4 / 5..even * 6 / 5).contains(count)), "{one} {other}: {both:?}");
        }
    }

    #[test]
    fn the_hash_is_the_checksum_that_everybody_has() {
        assert_eq!(ISO_HDLC.checksum(b"123456789"), 0xcbf4_3926);
    }
}
