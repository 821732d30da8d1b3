//! The fabrics of the conformance vectors, sizes and symmetry of the others, and parameters nobody can build.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::topology::Link;

/// Capacity from each node to each other, in the topology's unit, node ids translated.
fn edges(topology: &Topology, rename: impl Fn(&str) -> String) -> BTreeMap<(String, String), Rational> {
    let mut edges = BTreeMap::new();
    for link in topology.links() {
        let name = |node: usize| rename(&topology.nodes()[node].id);
        let capacity = link.capacity.finite().map(|base| topology.unit().express(base)).expect("finite");
        let sum = edges.entry((name(link.from), name(link.to))).or_insert(Rational::ZERO);
        *sum += &capacity;
    }
    edges
}

/// The fabric of a conformance vector.
fn vector(id: &str) -> Topology {
    let text = include_str!("../../../tests/vectors/forestcoll.json");
    let vectors: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let found = vectors["vectors"].as_array().expect("a list").iter().find(|vector| vector["id"] == id).expect(id);
    crate::topology::import::forestcoll(found["topology"].to_string().as_bytes(), id, None).expect(id)
}

#[test]
fn machines_are_those_of_the_conformance_vectors() {
    // The vectors write b0g0, nv0, pcie0_1, nic0_3, ib0 where we write b0.g0, b0.nv, b0.pcie1, b0.nic3, ib.
    let rename = |id: &str| match id.split_once('.') {
        None if id == "ib" => "ib".to_owned(),
        None => id.to_owned(),
        Some((machine, part)) if part.starts_with('g') => format!("{machine}{part}"),
        Some((machine, "nv")) => format!("nv{}", &machine[1..]),
        Some((machine, part)) => {
            let digit = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
            format!("{}{}_{}", &part[..digit], &machine[1..], &part[digit..])
        }
    };
    let cases = [
        ("a100-1box", dgx_a100(1, Wiring::Plain)),
        ("a100-2box", dgx_a100(2, Wiring::Plain)),
        ("a100-2box-pcie", dgx_a100(2, Wiring::Pcie)),
        ("a100-2box-nic-2rail", dgx_a100(2, Wiring::TwoRails)),
        ("a100-4box", dgx_a100(4, Wiring::Plain)),
        ("a100-16box", dgx_a100(16, Wiring::Plain)),
        ("h100-1box", dgx_h100(1)),
        ("h100-8box", dgx_h100(8)),
        ("mi250-1box", mi250(1, 16)),
        ("mi250-2box-16+16", mi250(2, 16)),
        ("mi250-2box-8+8", mi250(2, 8)),
        ("mi250-8box", mi250(8, 16)),
    ];
    for (id, made) in cases {
        let expected = vector(id);
        let single = expected.nodes().iter().filter(|node| node.id.starts_with("ib")).count() == 1;
        let plain = |name: String| if single && name == "ib0" { "ib".to_owned() } else { name };
        let made = edges(&made.expect(id), |id| plain(rename(id)));
        assert_eq!(made, edges(&expected, |id| plain(id.to_owned())), "{id}");
    }
}

#[test]
fn graphs_are_those_of_the_conformance_vectors() {
    let degrees = |topology: &Topology| {
        let mut degrees = vec![(Rational::ZERO, Rational::ZERO); topology.nodes().len()];
        for link in topology.links() {
            let capacity = link.capacity.finite().expect("finite");
            degrees[link.from].0 += capacity;
            degrees[link.to].1 += capacity;
        }
        degrees.sort();
        degrees
    };
    let cases = [
        ("ring8-bidir", ring(8, "5", true)),
        ("ring8-uni", ring(8, "5", false)),
        ("mesh6", complete(6, "4")),
        ("star5-uneven", star(&["1", "2", "3", "1", "2"])),
        ("torus4x4", torus(&[4, 4], "3")),
    ];
    for (id, made) in cases {
        let (made, expected) = (made.expect(id), vector(id));
        assert_eq!(made.nodes().len(), expected.nodes().len(), "{id}");
        assert_eq!(degrees(&made), degrees(&expected), "{id}");
    }
}

fn is_connected(topology: &Topology) -> bool {
    let mut reached = vec![false; topology.nodes().len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); topology.nodes().len()];
    topology.links().iter().for_each(|link| out[link.from].push(link.to));
    let mut todo = vec![0];
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            todo.extend(&out[node]);
        }
    }
    // Every node gives out what it takes in, so what one node reaches also reaches it.
    reached.into_iter().all(|reached| reached)
}

fn is_eulerian(topology: &Topology) -> bool {
    let mut balance = vec![Rational::ZERO; topology.nodes().len()];
    let (limited, unlimited): (Vec<_>, Vec<_>) =
        topology.links().iter().partition(|link| link.capacity.finite().is_some());
    for (link, capacity) in limited.iter().filter_map(|link| Some((link, link.capacity.finite()?))) {
        balance[link.from] += capacity;
        balance[link.to] = &balance[link.to] - capacity;
    }
    let ends = |link: &&Link| (link.from, link.to);
    let back = |link: &&Link| (link.to, link.from);
    let sorted = |mut list: Vec<(usize, usize)>| {
        list.sort_unstable();
        list
    };
    balance.iter().all(Rational::is_zero)
        && sorted(unlimited.iter().map(ends).collect()) == sorted(unlimited.iter().map(back).collect())
}

/// Any family with any small parameters, good or bad.
fn any_family() -> impl Strategy<Value = Result<Topology, Problems>> {
    let capacity = prop_oneof![Just("25GB/s"), Just("7/3"), Just("1Mbit/s")];
    (0_u32..13, 0_u32..7, 0_u32..7, 0_u32..5, capacity).prop_map(|(family, a, b, c, link)| {
        let oversubscription = Rational::new(i64::from(c), 2_i64).unwrap();
        let wiring = [Wiring::Plain, Wiring::Pcie, Wiring::TwoRails][b as usize % 3];
        match family {
            0 => dgx_a100(a, wiring),
            1 => dgx_h100(a),
            2 => mi250(a, 4 * b),
            3 => fat_tree(2 * a, link),
            4 => {
                let (inside, rail) = (link.to_owned(), link.to_owned());
                rail_optimised(&Rails { boxes: a, gpus: b, inside, rail, spines: c, oversubscription })
            }
            5 => leaf_spine(&LeafSpine { leaves: a, spines: b, hosts: c, cable: link.into(), oversubscription }),
            6 => ring(a, link, true),
            7 => ring(a, link, false),
            8 => torus(&[a, b, c], link),
            9 => hypercube(a, link),
            10 => complete(a, link),
            11 => dgx_a100_rail(a, [Variant::Nvlink, Variant::Pcie, Variant::All][b as usize % 3]),
            _ => star(&vec![link; a as usize]),
        }
    })
}

proptest! {
    #[test]
    fn every_fabric_is_connected_and_eulerian(made in any_family()) {
        match made {
            Ok(fabric) => {
                prop_assert!(is_connected(&fabric), "{}", fabric.name());
                prop_assert!(is_eulerian(&fabric), "{}", fabric.name());
                let again = Topology::read(fabric.to_text().as_bytes(), "t").expect("what is written is valid");
                prop_assert_eq!(again.digest(), fabric.digest());
            }
            Err(errors) => prop_assert!(!errors.all()[0].allowed.is_empty(), "{}", errors),
        }
    }
}

#[test]
fn sizes_are_those_of_the_rules() {
    let count = |made: Result<Topology, Problems>| {
        let made = made.expect("valid");
        (made.compute().len(), made.nodes().len(), made.links().len())
    };
    // k³/4 hosts, 5k²/4 switches, 3k³/4 cables.
    assert_eq!(count(fat_tree(4, "10Gbit/s")), (16, 36, 96));
    assert_eq!(count(fat_tree(8, "10Gbit/s")), (128, 208, 768));
    assert_eq!(count(dgx_a100(128, Wiring::Plain)), (1024, 1153, 4096));
    assert_eq!(count(hypercube(3, "1")), (8, 8, 24));
    assert_eq!(count(torus(&[2, 3, 1], "1")), (6, 6, 2 * (3 + 6)));
    let half = Rational::from(2);
    let two_to_one = LeafSpine { leaves: 4, spines: 2, hosts: 8, cable: "25GB/s".into(), oversubscription: half };
    let made = leaf_spine(&two_to_one).expect("valid");
    let up = made.links().iter().find(|link| made.nodes()[link.to].id.starts_with("spine")).expect("an uplink");
    assert_eq!(made.unit().write(&up.capacity), "50GB/s", "8 · 25 in, 2 · 50 out");
}

const VARIANTS: [Variant; 3] = [Variant::Nvlink, Variant::Pcie, Variant::All];

#[test]
fn nodes_with_rails_have_the_links_of_their_variant() {
    for (variant, alone, links, vertices) in
        [(Variant::Nvlink, (9, 16), 48, 17), (Variant::Pcie, (16, 30), 46, 16), (Variant::All, (17, 46), 62, 17)]
    {
        for n in [1, 2, 4, 32] {
            let made = dgx_a100_rail(n, variant).expect("valid");
            let many = n as usize;
            let expected = if n == 1 { alone } else { (vertices * many + 8, links * many) };
            assert_eq!((made.nodes().len(), made.links().len()), expected, "{variant:?} {n}");
            assert_eq!(made.compute().len(), 8 * many, "{variant:?} {n}");
        }
    }
}

/// What a node of a board is called, without its machine and its number.
fn role(id: &str) -> &str {
    id.rsplit('.').next().unwrap_or(id).trim_end_matches(|c: char| c.is_ascii_digit())
}

#[test]
fn links_of_boards_have_their_rates_and_costs() {
    // Between two roles: rate and cost of every link, and how many there are both ways in a node of several.
    let expected = |variant| -> BTreeMap<(&str, &str), (&str, u32, usize)> {
        let nvlink = [(("g", "x"), ("300GB/s", 1, 16))];
        let cards = [(("g", "nic"), ("25GB/s", 1, 16)), (("nic", "r"), ("25GB/s", 1, 16))];
        let board = [
            (("g", "p"), ("32GB/s", 1, 16)),
            (("p", "r"), ("25GB/s", 1, 16)),
            (("c", "p"), ("32GB/s", 0, 8)),
            (("c", "c"), ("unlimited", 0, 2)),
            (("c", "m"), ("unlimited", 0, 4)),
        ];
        match variant {
            Variant::Nvlink => nvlink.into_iter().chain(cards).collect(),
            Variant::Pcie => board.into_iter().collect(),
            Variant::All => nvlink.into_iter().chain(board).collect(),
        }
    };
    for variant in VARIANTS {
        let made = dgx_a100_rail(3, variant).expect("valid");
        let mut found: BTreeMap<(&str, &str), (String, Rational, usize)> = BTreeMap::new();
        for link in made.links() {
            let ends = [link.from, link.to].map(|node| role(&made.nodes()[node].id));
            let key = (*ends.iter().min().expect("two"), *ends.iter().max().expect("two"));
            let capacity = made.unit().write(&link.capacity);
            let class = found.entry(key).or_insert((capacity.clone(), link.cost.clone(), 0));
            assert_eq!((&class.0, &class.1), (&capacity, &link.cost), "{key:?}");
            class.2 += 1;
        }
        let found: BTreeMap<_, _> =
            found.iter().map(|(key, (rate, cost, n))| (*key, (rate.as_str(), cost.clone(), n / 3))).collect();
        let expected: BTreeMap<_, _> = expected(variant)
            .into_iter()
            .map(|(key, (rate, cost, n))| (key, (rate, Rational::from(u64::from(cost)), n)))
            .collect();
        assert_eq!(found, expected, "{variant:?}");
    }
}

#[test]
fn neighbours_on_boards_are_those_of_the_rule() {
    let cables = |made: &Topology| -> Vec<String> {
        made.file().links.iter().map(|entry| format!("{}-{}", entry.from, entry.to)).collect()
    };
    let all = cables(&dgx_a100_rail(2, Variant::All).expect("valid"));
    for cable in [
        "n0.g5-n0.p2",
        "n1.g7-n1.p3",
        "n1.g7-n1.x",
        "n0.p2-r5",
        "n1.p3-r7",
        "n0.p1-n0.c0",
        "n0.p2-n0.c1",
        "n1.c0-n1.c1",
        "n1.c1-n1.m1",
    ] {
        assert!(all.iter().any(|known| known == cable), "{cable}");
    }
    let nvlink = cables(&dgx_a100_rail(2, Variant::Nvlink).expect("valid"));
    for cable in ["n1.g3-n1.nic3", "n1.nic3-r3"] {
        assert!(nvlink.iter().any(|known| known == cable), "{cable}");
    }
    let made = dgx_a100_rail(2, Variant::All).expect("valid");
    let can = |id: &str| made.nodes()[made.node(id).expect(id)].can;
    assert!(can("n0.m0").store && can("n0.m0").copy && !can("n0.m0").reduce);
    assert!(["n0.x", "n0.p0", "n0.c0", "r0"].iter().all(|id| can(id) == Default::default()));
}

#[test]
fn impossible_parameters_are_named() {
    let key = |made: Result<Topology, Problems>| made.expect_err("impossible").all()[0].key.clone();
    assert_eq!(key(dgx_a100(0, Wiring::Plain)), "boxes");
    assert_eq!(key(mi250(2, 12)), "gpus");
    for variant in VARIANTS {
        assert_eq!(key(dgx_a100_rail(0, variant)), "nodes");
        assert_eq!(dgx_a100_rail(16_130, variant).expect_err("too many").all()[0].allowed, "1 to 16129");
    }
    let most = dgx_a100_rail(16_129, Variant::All).expect("as many as fit");
    assert_eq!(most.links().len(), 62 * 16_129);
    assert_eq!(key(fat_tree(5, "1")), "k");
    assert_eq!(key(ring(1, "1", true)), "n");
    assert_eq!(key(ring(4, "0", true)), "capacity");
    assert_eq!(key(ring(4, "unlimited", true)), "capacity");
    assert_eq!(key(torus(&[], "1")), "dimensions");
    assert_eq!(key(torus(&[1, 1], "1")), "nodes");
    assert_eq!(key(torus(&[u32::MAX; 16], "1")), "size");
    assert_eq!(key(hypercube(40, "1")), "dimensions");
    assert_eq!(key(star(&["1"])), "nodes");
    let errors = ring(4, "25Gbps", true).expect_err("a misspelt unit");
    assert_eq!(errors.all()[0].help, "write `Gbit/s`");
    let huge = LeafSpine { leaves: 60_000, spines: 4000, hosts: 1, cable: "1".into(), oversubscription: Rational::ONE };
    assert_eq!(leaf_spine(&huge).expect_err("huge").code(), E_LIMIT);
}
