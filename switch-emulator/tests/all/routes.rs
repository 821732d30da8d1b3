//! A switch process on a router with two equal ways on: hosts ask by which their flows go, and hear what the kernel says.

use std::collections::BTreeSet;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use sluice_schedule::{Connection, FlowId, HolderId, HostId, LinkId, Rate, RouteQuestion};

use crate::support::{Switch, announcement, connect, hear, until};

const CONFIG: &str = "lease_slots = 5\nslot.length_ms = 200\nclock.require_sync = false\n[listen]\ngrpc = \"127.0.0.1:0\"\n\
    udp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n[[switches]]\nname = \"s0\"\nroutes = \"kernel\"\ninterfaces = [\"in0\", \"up0\", \"up1\"]\n\
    ports = [{ id = 0, to = \"h0\", gbps = 10 }, { id = 1, to = \"s1\", gbps = 10 }, { id = 2, to = \"s2\", gbps = 10 }]\n";

/// Makes this thread's own network the router's; false where that may not be.
fn become_router() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        return false;
    }
    let pairs = "link set lo up\nlink add in0 type veth peer name far0\nlink add up0 type veth peer name far1\n\
        link add up1 type veth peer name far2\naddr add 10.0.0.254/24 dev in0\naddr add 10.1.0.1/24 dev up0\n\
        addr add 10.2.0.1/24 dev up1";
    let devices = ["in0", "up0", "up1", "far0", "far1", "far2"].map(|device| format!("link set {device} up"));
    let route = "route add 10.9.0.0/24 nexthop via 10.1.0.2 dev up0 nexthop via 10.2.0.2 dev up1".to_owned();
    for line in pairs.lines().map(str::to_owned).chain(devices).chain([route]) {
        let made = Command::new("ip").args(line.split_whitespace()).status();
        assert!(made.is_ok_and(|status| status.success()), "ip {line}");
    }
    let keys = [("ip_forward", "1"), ("fib_multipath_hash_policy", "3"), ("fib_multipath_hash_fields", "55")];
    keys.iter().all(|(key, value)| std::fs::write(format!("/proc/sys/net/ipv4/{key}"), value).is_ok())
}

#[test]
fn hosts_hear_by_which_port_the_kernel_sends_their_flows() {
    if !become_router() {
        return sluice_skip::skip!(Privilege, "no network namespace, or no hash over ports");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let switch = Switch::of(CONFIG);
        let (host, s0) = (HostId::of("h0"), HolderId::of("s0"));
        let mut session = connect(&switch, "h0").await;
        let question = |port: u16| RouteQuestion {
            flow: FlowId(u64::from(host.0) << 32 | u64::from(port)),
            connection: Connection {
                source: ([10, 0, 0, 1], port).into(),
                destination: ([10, 9, 0, 1], 5000).into(),
                protocol: 6,
            },
        };
        let (mut seq, mut said) = (0, BTreeSet::new());
        until(async || {
            seq += 1;
            let mut asked = announcement("h0", seq, 1, Rate::mbps(1));
            asked.routes = (32_768..32_800).map(question).collect();
            // Nobody routes this one.
            asked.routes[31].connection.destination = ([240, 0, 0, 1], 5000).into();
            session.sender.announce(s0, asked);
            let heard = hear(&mut session.receiver, |feedback| !feedback.routes.is_empty()).await;
            said.extend(heard.routes.iter().map(|route| (route.flow, route.link)));
            said.len() >= 31
        })
        .await;
        // The same each time, by both ports, and nothing of what is not routed.
        assert_eq!(said.iter().map(|(flow, _)| flow).collect::<BTreeSet<_>>().len(), 31);
        let links: BTreeSet<LinkId> = said.iter().map(|(_, link)| *link).collect();
        assert_eq!(links, BTreeSet::from([LinkId::new(s0.0, 1), LinkId::new(s0.0, 2)]));
    });
}
