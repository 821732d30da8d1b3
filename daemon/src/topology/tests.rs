//! Addresses, common links of many paths, mistakes with pointers, mutated files.

use proptest::prelude::*;

use super::*;

/// Two leaves, two spines, two hosts under each leaf.
const LEAF_SPINE: &str = r#"{ "sluice_topology": 1, "name": "ls",
 "nodes": [ {"id":"h0","kind":"host","addresses":["10.0.0.1","192.168.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.0.2"]},
   {"id":"h2","kind":"host","addresses":["10.0.1.0/24"]}, {"id":"l0","kind":"switch","addresses":["10.9.0.1:9604"]},
   {"id":"l1","kind":"switch"}, {"id":"s0","kind":"switch"}, {"id":"s1","kind":"switch"} ],
 "links": [ {"from":"h0","to":"l0","capacity":"25Gbit/s","duplex":true}, {"from":"h1","to":"l0","capacity":"3125MB/s","duplex":true},
   {"from":"h2","to":"l1","capacity":"7/2 GB/s","latency":"0.7us","duplex":true},
   {"from":"l0","to":"s0","capacity":"100Gbit/s","duplex":true}, {"from":"l0","to":"s1","capacity":"100Gbit/s","duplex":true},
   {"from":"l1","to":"s0","capacity":"100Gbit/s","duplex":true}, {"from":"l1","to":"s1","capacity":"100Gbit/s","duplex":true} ] }"#;

fn parse(text: &str) -> Result<Topology, Problems> {
    topology::Topology::read(text.as_bytes(), "t.json").map(Topology::new)
}

#[test]
fn addresses_lead_to_hosts() {
    let topology = parse(LEAF_SPINE).expect("valid");
    let host = |text: &str| topology.host_of(text.parse().unwrap()).map(|node| topology.name(node));
    assert_eq!(host("10.0.0.1"), Some("h0"));
    assert_eq!(host("::ffff:192.168.0.1"), Some("h0"));
    assert_eq!(host("10.0.1.77"), Some("h2"));
    assert_eq!(host("10.0.2.1"), None);
    let management = network::parse("192.168.0.0/16").unwrap();
    assert_eq!(topology.exchange_address(0, &[management]), Some("192.168.0.1".parse().unwrap()));
    assert_eq!(topology.exchange_address(0, &[]), Some("10.0.0.1".parse().unwrap()));
    assert_eq!(topology.exchange_address(1, &[management]), None);
}

#[test]
fn under_one_leaf_the_whole_path_is_known_and_across_spines_both_cables() {
    let topology = parse(LEAF_SPINE).expect("valid");
    let names = |from, to| -> Vec<(String, String)> {
        let links = topology.shared(from, to, &[]).links;
        links
            .iter()
            .map(|l| {
                let link = topology.links[*l];
                (topology.name(link.from).to_owned(), topology.name(link.to).to_owned())
            })
            .collect()
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(names(0, 1), [pair("h0", "l0"), pair("l0", "h1")]);
    assert_eq!(names(0, 2), [pair("h0", "l0"), pair("l1", "h2")]);
    assert_eq!(topology.shared(0, 0, &[]).links, Vec::<usize>::new());
}

#[test]
fn link_ids_are_ports_of_switches_and_even_numbers_of_hosts() {
    let topology = parse(LEAF_SPINE).expect("valid");
    let path = topology.shared(0, 1, &[]).links;
    assert_eq!(topology.link_id(path[0]), Some(LinkId::egress(HostId::of("h0"))));
    // l0's links in file order: to h0 (the backward half of the first entry), to h1, to s0, to s1.
    assert_eq!(topology.link_id(path[1]), Some(LinkId::new(HolderId::of("l0").0, 1)));
    assert_eq!(topology.links[path[1]].capacity, Rate::mbps(25_000));
}

#[test]
fn explicit_paths_replace_shortest_ones() {
    let routing = r#""routing": {"kind":"explicit","paths":[{"src":"h0","dst":"h2","via":["l0","s1","l1"]}]}, "nodes""#;
    let topology = parse(&LEAF_SPINE.replacen("\"nodes\"", routing, 1)).expect("valid");
    assert_eq!(topology.shared(0, 2, &[]).links.len(), 4);
}

#[test]
fn rates_are_bits_on_the_wire() {
    let rate = |text: &str| parse(&LEAF_SPINE.replacen("25Gbit/s", text, 1)).map(|topology| topology.links[0].capacity);
    assert_eq!(rate("25Gbit/s"), Ok(Rate::mbps(25_000)));
    assert_eq!(rate("7/2 GB/s"), Ok(Rate::mbps(28_000)));
    assert_eq!(rate("0.5 MiB/s"), Ok(Rate(4_194_304)));
    assert_eq!(rate("unlimited"), Ok(Rate::MAX));
}

#[test]
fn a_graph_without_rates_is_no_network_of_hosts() {
    let abstract_graph = r#"{ "sluice_topology": 1, "nodes": [ {"id":"a","kind":"host"}, {"id":"b","kind":"host"} ],
        "links": [ {"from":"a","to":"b","capacity":"1"} ] }"#;
    let file = topology::Topology::read(abstract_graph.as_bytes(), "t.json").expect("valid");
    let problems = file.with_rates("t.json").expect_err("no rates");
    assert!(problems.to_string().contains("write `25Gbit/s`"), "{problems}");
}

#[test]
fn where_a_path_forks_one_known_link_gives_all_of_it() {
    let topology = parse(LEAF_SPINE).expect("valid");
    let node = |name: &str| topology.node(name).expect("there");
    let up = topology.between(node("l0"), node("s1"));
    assert_eq!(topology.shared(0, 2, &[]).forks, [node("l0")]);
    let whole = topology.shared(0, 2, &up);
    assert_eq!((whole.links.len(), &whole.forks[..]), (4, &[node("l0")][..]));
    assert_eq!(whole.links[1], up[0]);
    assert_eq!(topology.shared_between((0, 0), (2, 0), &up), Some(whole));
    let elsewhere = topology.between(node("l1"), node("s1"));
    assert_eq!(topology.shared(0, 2, &elsewhere), topology.shared(0, 2, &[]), "a link that no path has");
    assert_eq!(topology.find(topology.link_id(up[0]).expect("an id")), Some(up[0]));
}

#[test]
fn a_ladder_has_the_switches_by_distance_and_says_which_of_them_answer() {
    let of = |name: &str| HolderId::of(name);
    let ports = |text: &str, name: &str, address: &str| {
        let node = format!(r#""id":"{name}","kind":"switch""#);
        text.replacen(&node, &format!(r#"{node},"port_addresses":["{address}"]"#), 1)
    };
    let text = ports(&ports(LEAF_SPINE, "l0", "10.64.0.1"), "s0", "10.64.0.2");
    let topology = parse(&text).expect("valid");
    let ladder = topology.ladder(0, 2);
    let mut spines = vec![of("s0"), of("s1")];
    spines.sort_unstable();
    let rungs: Vec<(&[HolderId], bool)> = ladder.rungs.iter().map(|rung| (&*rung.switches, rung.answers)).collect();
    assert_eq!(rungs, [(&[of("l0")][..], true), (&spines, false), (&[of("l1")], false)], "one spine says nothing");
    assert_eq!(ladder.steps.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    assert!(ladder.steps[0].iter().all(|step| step.from == of("l0") && step.link.node() == of("l0").0));
    assert_eq!(topology.ladder_between((0, 0), (2, 0)), Some(ladder));
    assert_eq!(topology.ladder(0, 1).rungs.len(), 1, "under one leaf");
    assert_eq!(topology.ladder(0, 0), path::Ladder::default());
    assert_eq!(topology.switch_at("::ffff:10.64.0.2".parse().unwrap()), Some(of("s0")));
    let routing = r#""routing": {"kind":"explicit","paths":[{"src":"h0","dst":"h2","via":["l0","s1","l1"]}]}, "nodes""#;
    let explicit = parse(&LEAF_SPINE.replacen("\"nodes\"", routing, 1)).expect("valid");
    assert_eq!(explicit.ladder(0, 2), path::Ladder::default(), "the file gives the route");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn mutated_files_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 0..20)) {
        let mut bytes = LEAF_SPINE.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        if let Ok(topology) = parse(&String::from_utf8_lossy(&bytes)) {
            for from in 0..topology.out.len() {
                for to in 0..topology.out.len() {
                    // Whatever is said to be known, a path stays one: links in a row, but for gaps.
                    let goes: Vec<usize> = (0..topology.links.len()).step_by(2).collect();
                    for shared in [topology.shared(from, to, &[]), topology.shared(from, to, &goes)] {
                        prop_assert!(shared.links.len() <= topology.links.len());
                        prop_assert!(shared.forks.iter().all(|fork| topology.out[*fork].len() > 1));
                    }
                    let path::Ladder { rungs, steps } = path::ladder(&topology, from, to);
                    prop_assert!(steps.len() + 1 == rungs.len() || rungs.is_empty() && steps.is_empty());
                    for (at, step) in steps.iter().enumerate().flat_map(|(at, steps)| steps.iter().map(move |s| (at, s))) {
                        prop_assert!(rungs[at].switches.contains(&step.from) && rungs[at + 1].switches.contains(&step.to));
                    }
                }
            }
        }
    }
}
