//! Paths with switches, without, and where nothing is known.

use super::*;
use crate::config::value::HostPort;
use crate::config::{LinkEntry, SwitchEntry};
use crate::monitor::tuple::Tuple;

const STAR: &str = r#"{ "sluice_topology": 1,
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1","172.16.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.0.2","172.16.0.2"]},
   {"id":"s","kind":"switch"} ],
 "links": [ {"from":"h0","to":"s","capacity":"1514Mbit/s","duplex":true}, {"from":"h1","to":"s","capacity":"757Mbit/s","duplex":true} ] }"#;

fn interfaces() -> Vec<Interface> {
    let interface = |name: &str, address: &str| Interface {
        name: name.into(),
        card: name.into(),
        addresses: vec![address.parse().expect("address")],
        speed: None,
        up: true,
    };
    vec![interface("mgmt0", "172.16.0.1"), interface("eth0", "10.0.0.1")]
}

fn fabric(switch: bool) -> Fabric {
    let mut config = Config::default();
    config.node.name = "h0".into();
    config.peer.networks = vec!["172.16.0.0/16".parse().expect("a network")];
    if switch {
        config.switches.push(SwitchEntry {
            name: "s".into(),
            address: HostPort { host: "x".into(), port: 1 },
            ..SwitchEntry::default()
        });
    }
    let topology = Topology::of_text(STAR);
    Fabric::new(&config, Some(Arc::new(topology)), &interfaces())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn path(fabric: &Fabric, local: IpAddr, remote: IpAddr) -> Option<Vec<Hop>> {
    let tuple = Tuple::of(SocketAddr::new(local, 1), SocketAddr::new(remote, 2));
    fabric.way(tuple.outgoing(fabric.host), &tuple).map(|way| way.path)
}

#[test]
fn a_configured_rate_is_exact() {
    let links = vec![LinkEntry { name: "eth0".into(), gbps: Some(16.4), ..LinkEntry::default() }];
    let config = Config { links, ..Config::default() };
    let fabric = Fabric::new(&config, None, &interfaces());
    assert_eq!(fabric.links[0].capacity, Some(Rate(16_400_000_000).payload()));
}

#[test]
fn with_a_switch_the_path_ends_at_its_port() {
    let fabric = fabric(true);
    assert_eq!(fabric.links.len(), 1, "the interface with the node's first address");
    let path = path(&fabric, ip("::ffff:10.0.0.1"), ip("10.0.0.2")).expect("covered");
    let switch = HolderId::of("s");
    assert_eq!(path[0], Hop { link: LinkId::egress(HostId::of("h0")), capacity: Rate::mbps(1448), holder: None });
    assert_eq!(path[1], Hop { link: LinkId::new(switch.0, 1), capacity: Rate::mbps(724), holder: Some(switch) });
    assert_eq!(fabric.ingress(0).expect("one cable").link, LinkId::new(switch.0, 0));
}

#[test]
fn without_switches_the_receiver_keeps_its_ingress() {
    let fabric = fabric(false);
    assert!(fabric.nic_mode());
    let path = path(&fabric, ip("10.0.0.1"), ip("10.0.0.2")).expect("covered");
    let peer = HostId::of("h1");
    assert_eq!(path[1], Hop { link: LinkId::ingress(peer), capacity: Rate::mbps(724), holder: Some(peer.holder()) });
    assert_eq!(fabric.ingress(0).map(|hop| hop.holder), Some(Some(fabric.host.holder())));
    assert_eq!(fabric.exchange_address(peer.holder()), Some("172.16.0.2:9604".parse().expect("address")));
}

#[test]
fn what_leaves_by_another_interface_or_stays_here_is_left_alone() {
    let fabric = fabric(true);
    for (local, remote) in [("172.16.0.1", "172.16.0.2"), ("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")] {
        assert_eq!(path(&fabric, ip(local), ip(remote)), None, "{local} to {remote}");
    }
}

#[test]
fn an_address_nobody_named_still_has_one_id() {
    let fabric = fabric(true);
    assert_eq!(fabric.host_of(ip("10.0.9.9")), fabric.host_of(ip("::ffff:10.0.9.9")));
    assert_eq!(path(&fabric, ip("10.0.0.1"), ip("10.0.9.9")).map(|path| path.len()), Some(1));
}

#[test]
fn a_cable_to_another_host_is_the_whole_path() {
    const TRIANGLE: &str = r#"{ "sluice_topology": 1,
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.0.2"]},
   {"id":"h2","kind":"host","addresses":["10.0.0.3"]} ],
 "links": [ {"from":"h0","to":"h1","capacity":"1514Mbit/s","duplex":true},
   {"from":"h0","to":"h2","capacity":"757Mbit/s","duplex":true},
   {"from":"h1","to":"h2","capacity":"757Mbit/s","duplex":true} ] }"#;
    let interface = |name: &str| Interface {
        name: name.into(),
        card: name.into(),
        addresses: vec![ip("10.0.0.1")],
        speed: None,
        up: true,
    };
    let mut config = Config::default();
    config.node.name = "h0".into();
    config.capture.interfaces = vec![Named::Name("eth0".into()), Named::Name("eth1".into())];
    config.peer.listen = vec!["10.0.0.1:9604".parse().expect("an address")];
    let topology = Arc::new(Topology::of_text(TRIANGLE));
    let two = Fabric::new(&config, Some(topology.clone()), &[interface("eth0"), interface("eth1")]);
    for (remote, port, mbps) in [("10.0.0.2", 0, 1448), ("10.0.0.3", 2, 724)] {
        let path = path(&two, ip("10.0.0.1"), ip(remote)).expect("covered");
        assert_eq!(
            path.iter().map(|hop| (hop.link, hop.capacity, hop.holder)).collect::<Vec<_>>(),
            [(LinkId::new(two.host.0, port), Rate::mbps(mbps), None)]
        );
        assert_eq!(two.link_between(ip("10.0.0.1"), ip(remote)), Some(port as usize / 2));
    }
    // One of the two links is not configured: nobody knows which cable the other is.
    let one = Fabric::new(&config, Some(topology), &[interface("eth1")]);
    let path = path(&one, ip("10.0.0.1"), ip("10.0.0.2")).expect("covered");
    assert_eq!((path[0].link, path.len()), (LinkId::egress(one.host), 2));
}

#[test]
fn where_hosts_forward_every_cable_of_the_route_is_kept_by_the_host_it_leaves() {
    const LINE: &str = r#"{ "sluice_topology": 1,
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.0.2"]},
   {"id":"h2","kind":"host","addresses":["10.0.0.3"]} ],
 "links": [ {"from":"h0","to":"h1","capacity":"1514Mbit/s","duplex":true},
   {"from":"h1","to":"h2","capacity":"757Mbit/s","duplex":true} ],
 "routing": {"kind": "explicit", "paths": [ {"src":"h0","dst":"h1"}, {"src":"h0","dst":"h2","via":["h1"]},
   {"src":"h1","dst":"h2"}, {"src":"h1","dst":"h0"}, {"src":"h2","dst":"h1"}, {"src":"h2","dst":"h0","via":["h1"]} ] } }"#;
    let topology = Arc::new(Topology::of_text(LINE));
    let interface = |name: &str, own: &str| Interface {
        name: name.into(),
        card: name.into(),
        addresses: vec![ip(own)],
        speed: None,
        up: true,
    };
    let fabric = |host: &str, own: &str, names: &[&str]| {
        let mut config = Config::default();
        config.node.name = host.into();
        config.capture.interfaces = names.iter().map(|name| Named::Name((*name).into())).collect();
        config.peer.listen = vec![format!("{own}:9604").parse().expect("an address")];
        let interfaces: Vec<_> = names.iter().map(|name| interface(name, own)).collect();
        Fabric::new(&config, Some(topology.clone()), &interfaces)
    };
    let ids = ["h0", "h1", "h2"].map(HostId::of);
    let hop = |link, mbps, host: usize| Hop { link, capacity: Rate::mbps(mbps), holder: Some(ids[host].holder()) };
    let first = fabric("h0", "10.0.0.1", &["eth0"]);
    assert!(first.forwards());
    let path = path(&first, ip("10.0.0.1"), ip("10.0.0.3")).expect("covered");
    let over = [hop(LinkId::new(ids[0].0, 0), 1448, 0), hop(LinkId::new(ids[1].0, 2), 724, 1)];
    assert_eq!(path, [over[0], over[1], hop(LinkId::ingress(ids[2]), 724, 2)]);
    let middle = fabric("h1", "10.0.0.2", &["eth0", "eth1"]);
    assert_eq!(middle.link_between(ip("10.0.0.2"), ip("10.0.0.3")), Some(1));
    let kept: Vec<_> = middle.kept().iter().map(|hop| (hop.link, hop.capacity)).collect();
    let egress = |port| LinkId::new(ids[1].0, port);
    assert_eq!(
        kept,
        [(LinkId::ingress(ids[1]), Rate::mbps(2172)), (egress(0), Rate::mbps(1448)), (egress(2), Rate::mbps(724))]
    );
}

const RAILS: &str = r#"{ "sluice_topology": 1,
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1","10.1.0.1","fd00::1","172.16.0.1"]},
   {"id":"h1","kind":"host","addresses":["10.0.0.2","10.1.0.2","fd00::2","172.16.0.2"]},
   {"id":"s0","kind":"switch"}, {"id":"s1","kind":"switch"}, {"id":"s2","kind":"switch"} ],
 "links": [ {"from":"h0","to":"s0","capacity":"1514Mbit/s","duplex":true}, {"from":"h0","to":"s1","capacity":"757Mbit/s","duplex":true},
   {"from":"h1","to":"s0","capacity":"757Mbit/s","duplex":true}, {"from":"h1","to":"s1","capacity":"1514Mbit/s","duplex":true},
   {"from":"s0","to":"s2","capacity":"757Mbit/s","duplex":true}, {"from":"s1","to":"s2","capacity":"757Mbit/s","duplex":true} ] }"#;

/// Two cards, the second one by a VLAN on it as well, and a network for management.
fn with_rails(switches: &[&str]) -> Fabric {
    let interface = |name: &str, card: &str, own: &str| Interface {
        name: name.into(),
        card: card.into(),
        addresses: vec![ip(own)],
        speed: None,
        up: true,
    };
    let mut config = Config::default();
    config.node.name = "h0".into();
    config.peer.networks = vec!["172.16.0.0/16".parse().expect("a network")];
    for name in switches {
        let address = HostPort { host: "x".into(), port: 1 };
        config.switches.push(SwitchEntry { name: (*name).into(), address, ..SwitchEntry::default() });
    }
    let interfaces = [
        interface("mgmt0", "mgmt0", "172.16.0.1"),
        interface("eth1.7", "eth1", "10.1.0.1"),
        interface("eth0", "eth0", "10.0.0.1"),
    ];
    let mut fabric = Fabric::new(&config, Some(Arc::new(Topology::of_text(RAILS))), &interfaces);
    fabric.route = |_, _| None;
    fabric
}

#[test]
fn each_card_is_a_link_of_its_own() {
    let fabric = with_rails(&["s0", "s1"]);
    let names: Vec<&str> = fabric.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["eth0", "eth1"], "in the order of the node's addresses, which is that of its cables");
    assert_eq!(fabric.links[1].capacity, Some(Rate::mbps(724)));
    let (h0, s1) = (HostId::of("h0"), HolderId::of("s1"));
    let path = path(&fabric, ip("10.1.0.1"), ip("10.1.0.2")).expect("covered");
    let hop = |link, mbps, holder| Hop { link, capacity: Rate::mbps(mbps), holder };
    assert_eq!(path, [hop(LinkId::new(h0.0, 2), 724, None), hop(LinkId::new(s1.0, 1), 1448, Some(s1))]);
    let into: Vec<LinkId> = fabric.ingresses().iter().map(|hop| hop.link).collect();
    assert_eq!(into, [LinkId::new(HolderId::of("s0").0, 0), LinkId::new(s1.0, 0)]);
}

#[test]
fn from_card_to_card_all_that_every_way_has_in_common_counts() {
    let fabric = with_rails(&["s0", "s1", "s2"]);
    let path = path(&fabric, ip("10.0.0.1"), ip("10.1.0.2")).expect("covered");
    let holders: Vec<_> = path.iter().map(|hop| hop.holder).collect();
    let named = |name| Some(HolderId::of(name));
    assert_eq!(holders, [None, named("s0"), named("s2"), named("s1")]);
}

#[test]
fn without_switches_every_card_of_the_other_host_counts_by_itself() {
    let fabric = with_rails(&[]);
    let h1 = HostId::of("h1");
    let last =
        |remote| path(&fabric, ip("10.0.0.1"), ip(remote)).and_then(|path| path.last().copied()).expect("covered");
    let hop = |port, mbps| Hop { link: LinkId::new(h1.0, port), capacity: Rate::mbps(mbps), holder: Some(h1.holder()) };
    assert_eq!((last("10.0.0.2"), last("10.1.0.2")), (hop(1, 724), hop(3, 1448)));
    assert_eq!(fabric.kept().len(), 2);
    assert_eq!(fabric.kept()[1].link, LinkId::new(fabric.host.0, 3));
}

#[test]
fn a_flow_is_on_the_card_that_its_route_leads_by() {
    let mut fabric = with_rails(&["s0", "s1"]);
    fabric.route = |_, _| Some("eth1.7".into());
    assert_eq!(fabric.link_between(ip("10.0.0.1"), ip("10.0.0.2")), Some(1), "whatever its address");
    fabric.route = |_, _| Some("eth0".into());
    assert_eq!(
        fabric.link_between(ip("10.0.0.1"), ip("10.0.0.2")),
        Some(1),
        "the kernel is not asked for every packet"
    );
    fabric.forget_routes();
    assert_eq!(fabric.link_between(ip("10.0.0.1"), ip("10.0.0.2")), Some(0));
}

/// Promises: P-31
#[test]
fn a_card_that_has_lost_its_address_for_a_moment_puts_no_other_network_in_its_place() {
    let with = |interfaces: &[Interface]| {
        let mut config = Config::default();
        config.node.name = "h0".into();
        Fabric::new(&config, Some(Arc::new(Topology::of_text(STAR))), interfaces)
    };
    let [mgmt, card] = interfaces().try_into().expect("two");
    let before = with(&[mgmt.clone(), card.clone()]);
    let bare = Interface { addresses: Vec::new(), ..card.clone() };
    let without = with(&[mgmt.clone(), bare]);
    assert_eq!(without.links[0].name, "mgmt0", "at a start that would be all there is");
    assert!(!without.follows(&before));
    let more = Interface { addresses: vec![ip("10.0.0.1"), ip("fd00::1")], ..card };
    assert!(with(&[mgmt.clone(), more]).follows(&before));
    assert!(!with(&interfaces()).follows(&before), "nothing has changed");
}
