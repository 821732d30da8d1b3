//! What a file of routes may say, which entry counts, and what becomes of a path when a switch tells of it.

use std::net::SocketAddr;

use proptest::prelude::*;
use sluice_schedule::HostId;

use super::*;
use crate::config::SwitchEntry;
use crate::config::value::HostPort;
use crate::fabric::Fabric;
use crate::interfaces::Interface;

const LEAF_SPINE: &str = r#"{ "sluice_topology": 1,
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.1.1"]},
   {"id":"l0","kind":"switch"}, {"id":"l1","kind":"switch"}, {"id":"s0","kind":"switch"}, {"id":"s1","kind":"switch"} ],
 "links": [ {"from":"h0","to":"l0","capacity":"1Gbit/s","duplex":true}, {"from":"h1","to":"l1","capacity":"1Gbit/s","duplex":true},
   {"from":"l0","to":"s0","capacity":"1Gbit/s","duplex":true}, {"from":"l0","to":"s1","capacity":"1Gbit/s","duplex":true},
   {"from":"l1","to":"s0","capacity":"1Gbit/s","duplex":true}, {"from":"l1","to":"s1","capacity":"1Gbit/s","duplex":true} ] }"#;

const FILE: &str = r#"{"sluice_routes": 1, "routes": [
 {"src": "10.0.0.1", "dst": "10.0.1.1", "src_port": 7, "via": ["l0", "s0", "l1"]},
 {"src": "10.0.0.0/24", "dst": "10.0.1.0/24", "dst_port": 80, "via": ["s1", "l1"]},
 {"src": "10.0.0.1", "dst": "10.0.1.1", "via": ["l0", "s1"]} ]}"#;

fn topology() -> Topology {
    Topology::of_text(LEAF_SPINE)
}

fn told(text: &str) -> Result<Told, Problems> {
    Told::parse("routes.json", text, &topology())
}

fn tuple(source_port: u16, port: u16) -> Tuple {
    let end = |address: &str, port| SocketAddr::new(address.parse().expect("an address"), port);
    Tuple::of(end("10.0.0.1", source_port), end("10.0.1.1", port))
}

fn fabric(told: Option<Told>) -> Fabric {
    let mut config = Config::default();
    config.node.name = "h0".into();
    let switch = |name: &str| SwitchEntry {
        name: name.into(),
        address: HostPort { host: "x".into(), port: 1 },
        ..SwitchEntry::default()
    };
    config.switches = ["l0", "l1", "s0", "s1"].map(switch).into();
    let card = Interface {
        name: "eth0".into(),
        card: "eth0".into(),
        addresses: vec!["10.0.0.1".parse().expect("an address")],
        speed: None,
        up: true,
    };
    Fabric::new(&config, Some(Arc::new(topology())), &[card]).with_routes(told.map(Arc::new))
}

/// The switches that keep the links of a flow's path.
fn holders(fabric: &Fabric, tuple: &Tuple) -> Vec<HolderId> {
    let way = fabric.way(tuple.outgoing(fabric.host), tuple).expect("covered");
    way.path.iter().filter_map(|hop| hop.holder).collect()
}

fn named<const N: usize>(names: [&str; N]) -> [HolderId; N] {
    names.map(HolderId::of)
}

#[test]
fn the_first_entry_that_fits_closes_the_gap() {
    let fabric = fabric(Some(told(FILE).expect("valid")));
    assert_eq!(holders(&fabric, &tuple(7, 80)), named(["l0", "s0", "l1"]));
    assert_eq!(holders(&fabric, &tuple(8, 443)), named(["l0", "s1", "l1"]));
    // It says nothing of the fork, so the gap stays.
    assert_eq!(holders(&fabric, &tuple(8, 80)), named(["l1"]));
}

#[test]
fn what_a_switch_says_goes_before_the_file_and_is_asked_for_again() {
    let fabric = fabric(Some(told(FILE).expect("valid")));
    let (tuple, leaf) = (tuple(7, 80), HolderId::of("l0"));
    let flow = tuple.outgoing(fabric.host);
    let up = |spine: &str| {
        let topology = topology();
        let node = |name: &str| topology.node(name).expect("there");
        topology.link_id(topology.between(node("l0"), node(spine))[0])
    };
    fabric.learned.learn(flow, leaf, up("s1"), By::Switch);
    assert_eq!(holders(&fabric, &tuple), named(["l0", "s1", "l1"]));
    assert_eq!(fabric.way(flow, &tuple).expect("covered").forks, [leaf]);
    fabric.learned.learn(flow, leaf, up("s0"), By::Switch);
    assert_eq!(holders(&fabric, &tuple), named(["l0", "s0", "l1"]), "redrawn");
    fabric.learned.learn(flow, leaf, Some(LinkId::new(leaf.0, 0)), By::Switch);
    assert_eq!(holders(&fabric, &tuple), named(["l0", "s0", "l1"]), "no way there: the file counts");
    fabric.learned.learn(flow, leaf, up("s1"), By::Switch);
    fabric.learned.learn(flow, leaf, None, By::Switch);
    assert_eq!(holders(&fabric, &tuple), named(["l0", "s0", "l1"]));
    fabric.learned.learn(flow, leaf, up("s1"), By::Switch);
    fabric.learned.keep(|known| known != flow);
    assert!(fabric.learned.0.borrow().is_empty());
}

#[test]
fn without_any_word_the_gap_stays_and_the_leaf_can_be_asked() {
    let fabric = fabric(None);
    assert_eq!(holders(&fabric, &tuple(7, 80)), named(["l1"]));
    let way = fabric.way(tuple(7, 80).outgoing(HostId::of("h0")), &tuple(7, 80)).expect("covered");
    assert_eq!(way.forks, named(["l0"]));
}

#[test]
fn mistakes_are_told_with_their_places() {
    let text = r#"{"sluice_routes": 2, "routes": [ {"src": "10.0.0.1", "dst": "x", "via": []}, {"src": "10.0.0.1", "via": []},
        {"src": "10.0.0.1", "dst": "10.0.1.1", "via": ["l0", "h1"]}, {"src": "10.0.0.1", "dst": "10.0.1.1", "via": ["l0", "l1"]},
        {"src": "10.0.0.1", "dst": "10.0.1.1", "src_port": 65536, "via": []} ]}"#;
    let problems = told(text).expect_err("wrong").into_all();
    let places: Vec<&str> = problems.iter().map(|problem| &*problem.key).collect();
    let has = |key: &str| places.iter().any(|known| known.starts_with(key));
    assert!(
        ["/sluice_routes", "/routes/0/dst", "/routes/1", "/routes/2/via/1", "/routes/3", "/routes/4/src_port"]
            .iter()
            .all(|key| has(key)),
        "{places:?}"
    );
    let config = Config { routes: Some("routes.json".into()), ..Config::default() };
    assert!(load(&config).is_err_and(|problems| problems.to_string().contains("no topology")));
}

proptest! {
    #[test]
    fn mutated_files_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = FILE.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = told(&String::from_utf8_lossy(&bytes));
    }
}
