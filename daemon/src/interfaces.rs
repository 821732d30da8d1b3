//! Network interfaces: names, addresses, speed, byte counters.
//!
//! Counters come from `/proc/self/net/dev`, which always shows the namespace of this process; `/sys/class/net` shows
//! the one it was mounted in.

mod news;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;

use nix::net::if_::InterfaceFlags;
use sluice_schedule::{Bytes, Rate};

pub use news::News;

/// Ethernet, IPv4 and TCP headers with time stamps: what a frame carries besides payload.
const HEADER_BYTES: u64 = 66;
/// Prefixes of interfaces that are no card.
const VIRTUAL: [&str; 9] = ["lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "tun", "tap"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// The card that its traffic shares with others': its own name, unless it is a VLAN.
    pub card: String,
    /// Its addresses, IPv4 not mapped.
    pub addresses: Vec<IpAddr>,
    /// What the driver says, if it says something.
    pub speed: Option<Rate>,
    pub up: bool,
}

/// What went through an interface since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payload received.
    pub received: Bytes,
    /// Payload sent.
    pub sent: Bytes,
}

impl Interface {
    /// Up, with an address, and not named like a bridge or a tunnel.
    pub fn looks_physical(&self) -> bool {
        self.up && !self.addresses.is_empty() && !VIRTUAL.iter().any(|prefix| self.name.starts_with(prefix))
    }
}

/// Every interface of this network namespace, by name.
pub fn list() -> Vec<Interface> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    for entry in addresses {
        let interface = found.entry(entry.interface_name.clone()).or_default();
        interface.up = entry.flags.contains(InterfaceFlags::IFF_UP);
        let address = entry.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or(address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        });
        interface.addresses.extend(address);
        interface.name = entry.interface_name;
    }
    let mut list: Vec<Interface> = found.into_values().collect();
    for interface in &mut list {
        interface.speed = speed(&interface.name);
        interface.card = card(&interface.name);
    }
    list
}

/// Does this namespace have the interface?
pub fn exists(name: &str) -> bool {
    nix::net::if_::if_nametoindex(name).is_ok()
}

pub fn counters() -> BTreeMap<String, Counters> {
    // The kernel says no size, and a buffer that begins small is filled in many short reads.
    let mut text = String::with_capacity(16 << 10);
    let read = std::fs::File::open("/proc/self/net/dev").and_then(|mut file| file.read_to_string(&mut text));
    read.map(|_| parse_counters(&text)).unwrap_or_default()
}

pub(crate) fn parse_counters(text: &str) -> BTreeMap<String, Counters> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let payload = |bytes: usize, packets: usize| {
            let headers = fields.get(packets)?.saturating_mul(HEADER_BYTES);
            Some(Bytes(fields.get(bytes)?.saturating_sub(headers)))
        };
        Some((name.trim().to_owned(), Counters { received: payload(0, 1)?, sent: payload(8, 9)? }))
    };
    text.lines().filter_map(line).collect()
}

/// The card under a VLAN; any other interface is its own, a bond with all its cards too.
fn card(name: &str) -> String {
    let mut card = name.to_owned();
    // VLANs in VLANs are two deep; more is a loop that cannot be.
    for _ in 0..4 {
        let dir = std::path::Path::new("/sys/class/net").join(&card);
        let vlan = std::fs::read_to_string(dir.join("uevent")).is_ok_and(|text| text.contains("DEVTYPE=vlan"));
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut lower =
            entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("lower_").map(str::to_owned));
        match lower.next().filter(|_| vlan) {
            Some(lower) => card = lower,
            None => break,
        }
    }
    card
}

/// The driver's word on the rate, only where `/sys` shows this namespace.
fn speed(name: &str) -> Option<Rate> {
    let dir = std::path::Path::new("/sys/class/net").join(name);
    let index: u32 = std::fs::read_to_string(dir.join("ifindex")).ok()?.trim().parse().ok()?;
    if nix::net::if_::if_nametoindex(name).ok()? != index {
        return None;
    }
    let mbps: i64 = std::fs::read_to_string(dir.join("speed")).ok()?.trim().parse().ok()?;
    u64::try_from(mbps).ok().filter(|mbps| *mbps > 0).map(Rate::mbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_payload() {
        let text = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop \
                    fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n  eth0:  15140 \
                    10 0 0 0 0 0 0  132 2 0 0 0 0 0 0\n bad: 1 2 3\n";
        let counters = parse_counters(text);
        assert_eq!(counters["eth0"], Counters { received: Bytes(14_480), sent: Bytes(0) });
        assert!(!counters.contains_key("bad"));
    }

    #[test]
    fn loopback_is_always_there_and_never_physical() {
        let list = list();
        let loopback = list.iter().find(|interface| interface.name == "lo");
        assert!(loopback.is_none_or(|interface| !interface.looks_physical()));
        assert!(exists("lo") && !exists("no-such-if0"));
    }
}
