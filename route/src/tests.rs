//! What the kernel is asked and says.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::*;

#[test]
fn what_stays_here_leaves_by_loopback() {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(interface(local, local).as_deref(), Some("lo"));
    assert_eq!(interface(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()), local).as_deref(), Some("lo"));
    assert_eq!(interface(local, IpAddr::V6(Ipv6Addr::LOCALHOST)), None, "two families");
}

#[test]
fn the_kernel_does_not_forward_what_nobody_routes() {
    let mut kernel = Kernel::open().expect("netlink");
    let end = |address: &str| (address.parse().expect("an address"), 80);
    let packet = |source, destination| Forwarded { source: end(source), destination: end(destination), protocol: 6 };
    assert_eq!(kernel.forwards(&packet("255.255.255.255", "240.0.0.1")), None);
    assert_eq!(kernel.forwards(&packet("10.0.0.1", "::1")), None);
    assert_eq!(kernel.forwards(&packet("::1", "::1")), None);
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert!(kernel.own(local, local).is_some(), "it still answers");
}

/// A switch with two equal ways on, in a network namespace of this thread; `None` where that may not be made.
fn leaf() -> Option<()> {
    unshare(CloneFlags::CLONE_NEWNET).ok()?;
    let lines = "link add in0 type veth peer name far-in0\nlink add up0 type veth peer name far-up0\nlink add up1 type veth peer name far-up1\n\
        addr add 10.0.0.254/24 dev in0\naddr add 10.1.0.1/24 dev up0\naddr add 10.2.0.1/24 dev up1\n\
        link set in0 up\nlink set far-in0 up\nlink set up0 up\nlink set far-up0 up\nlink set up1 up\nlink set far-up1 up\n\
        route add 10.9.0.0/24 nexthop via 10.1.0.2 dev up0 nexthop via 10.2.0.2 dev up1\n";
    for line in lines.lines() {
        let made = Command::new("ip").args(line.split_whitespace()).status();
        assert!(made.is_ok_and(|status| status.success()), "ip {line}");
    }
    let keys = [("ip_forward", "1"), ("fib_multipath_hash_policy", "3"), ("fib_multipath_hash_fields", "55")];
    for (key, value) in keys {
        std::fs::write(format!("/proc/sys/net/ipv4/{key}"), value).ok()?;
    }
    Some(())
}

#[test]
fn among_equal_ways_the_kernel_says_for_each_connection_which_it_takes() {
    // The sysctls that this thread sees are those of its namespace.
    if leaf().is_none() {
        return sluice_skip::skip!(Privilege, "no network namespaces, or no hash over ports");
    }
    let mut kernel = Kernel::open().expect("netlink");
    let index = |name| nix::net::if_::if_nametoindex(name).expect("it was made");
    let mut taken = BTreeSet::new();
    for port in 32_768..32_800 {
        let end = |last: [u8; 4], port| (IpAddr::from(last), port);
        let packet = Forwarded { source: end([10, 0, 0, 1], port), destination: end([10, 9, 0, 1], 5000), protocol: 6 };
        let way = kernel.forwards(&packet);
        assert_eq!(kernel.forwards(&packet), way, "the same again");
        taken.insert(way);
    }
    assert_eq!(taken, BTreeSet::from([Some(index("up0")), Some(index("up1"))]));
}
