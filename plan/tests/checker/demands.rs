//! Trees of demands: who wants what is reached by just the trees that say so, and what cuts and prices prove of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, star};
use sluice_plan::check::{Code, check};
use sluice_plan::cost::Cost;
use sluice_plan::export::{Format, Options, export};
use sluice_plan::plan::{Collective, Plan};

use crate::dual::{code, fabrics, limits, spread};
use crate::scene::{edited, fraction, on, refused};

/// Chunks of a source that the same nodes want: source, ends, how many.
pub type Group = (usize, Vec<usize>, u64);

/// Triples of these groups, each with its own chunks.
fn triples(groups: &[Group]) -> Value {
    let mut triples = Vec::new();
    let mut next: BTreeMap<usize, u64> = BTreeMap::new();
    for (source, ends, count) in groups {
        for _ in 0..*count {
            let chunk = next.entry(*source).or_default();
            triples.extend(ends.iter().map(|end| json!([format!("n{source}"), *chunk, format!("n{end}")])));
            *chunk += 1;
        }
    }
    json!({"sluice_demands": 1, "tenants": [{"name": "x", "weight": 7, "triples": triples}]})
}

/// The nodes of a shortest way.
fn way(topology: &Topology, from: usize, to: usize) -> Vec<usize> {
    let mut ways = vec![vec![from]];
    loop {
        if let Some(way) = ways.iter().find(|way| way.last() == Some(&to)) {
            return way.clone();
        }
        let longer = |way: &Vec<usize>| {
            let last = way[way.len() - 1];
            let next = topology.links().iter().filter(move |link| link.from == last);
            next.map(|link| [&way[..], &[link.to]].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).filter(|way| way.len() < 6).collect();
    }
}

/// A tree for each group: to each end, in their order, a shortest way from the source, of which what is there already is left
/// out. GPUs on the way copy, switches forward.
pub fn plan(topology: &Topology, groups: &[Group]) -> Value {
    let id = |node: usize| topology.nodes()[node].id.to_string();
    let copies = |node: usize| topology.nodes()[node].can.copy;
    let trees = groups.iter().map(|(source, ends, count)| {
        let (mut edges, mut inside): (Vec<Value>, Vec<usize>) = (Vec::new(), vec![*source]);
        for end in ends {
            let way = way(topology, *source, *end);
            let stops: Vec<usize> = (0..way.len()).filter(|i| copies(way[*i])).collect();
            for pair in stops.windows(2) {
                let path = &way[pair[0]..=pair[1]];
                if !inside.contains(&way[pair[1]]) {
                    inside.push(way[pair[1]]);
                    let path: Vec<String> = path.iter().map(|node| id(*node)).collect();
                    edges.push(json!({"src": path[0], "dst": path[path.len() - 1], "path": path}));
                }
            }
        }
        let ends: Vec<String> = ends.iter().map(|end| id(*end)).collect();
        json!({"root": id(*source), "ends": ends, "weight": count, "edges": edges})
    });
    let trees: Vec<Value> = trees.collect();
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    json!({"sluice_plan": 1, "collective": "custom", "topology": {"sha256": topology.digest(), "inline": file}, "claim": {},
        "demands": triples(groups),
        "content": {"kind": "trees", "forests": [{"direction": "out", "k": 1, "trees": trees}]}})
}

fn read(plan: &Value) -> Plan {
    Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}\n{plan}"))
}

/// What groups cost at least at these prices, per M: of all sets of links, the cheapest over which every end is reached;
/// each branch from a node that can copy pays its whole way.
pub fn by_trying(topology: &Topology, groups: &[Group], of_link: &[i64]) -> Rational {
    let n = topology.nodes().len();
    let mut far = vec![vec![1_000_000_i64; n]; n];
    for (link, price) in topology.links().iter().zip(of_link) {
        far[link.from][link.to] = far[link.from][link.to].min(*price);
    }
    (0..n).for_each(|node| far[node][node] = 0);
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                far[from][to] = far[from][to].min(far[from][via] + far[via][to]);
            }
        }
    }
    let copies: Vec<usize> = (0..n).filter(|node| topology.nodes()[*node].can.copy).collect();
    let of_group = |(source, ends, count): &Group| {
        // Every node that can copy has a parent among them; those that lead to no end are left out.
        let choices = copies.len().pow(copies.len() as u32);
        let tree = |choice: usize| {
            let parent = |node: usize| {
                let place = copies.iter().position(|copy| *copy == node).expect("it copies");
                copies[choice / copies.len().pow(place as u32) % copies.len()]
            };
            let mut used = vec![false; n];
            for end in ends {
                let mut node = *end;
                for _ in 0..=n {
                    if node == *source {
                        break;
                    }
                    used[node] = true;
                    node = parent(node);
                }
                if node != *source {
                    return None;
                }
            }
            Some((0..n).filter(|node| used[*node]).map(|node| far[parent(node)][node]).sum::<i64>())
        };
        (0..choices).filter_map(tree).min().expect("a tree") * *count as i64
    };
    let units: u64 = groups.iter().map(|(.., count)| count).sum();
    fraction(groups.iter().map(of_group).sum(), units as i64)
}

/// Every group of chunks once.
fn tidy(groups: Vec<(usize, Vec<usize>, u64)>) -> Vec<Group> {
    let mut sums: BTreeMap<(usize, Vec<usize>), u64> = BTreeMap::new();
    for (source, mut ends, count) in groups {
        ends.retain(|end| *end != source);
        ends.sort_unstable();
        ends.dedup();
        if !ends.is_empty() {
            *sums.entry((source, ends)).or_default() += count;
        }
    }
    sums.into_iter().map(|((source, ends), count)| (source, ends, count)).collect()
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let group = (0_usize..4, proptest::collection::vec(0_usize..4, 1..4), 1_u64..4);
    proptest::collection::vec(group, 1..5).prop_map(tidy).prop_filter("somebody wants something", |all| !all.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Shortest ways for each group are a plan; its loads, cuts, and whatever prices prove are counted plainly.
    #[test]
    fn it_agrees_with_counting(groups in groups(), list in proptest::collection::vec(0_i64..5, 16), side in 1_u8..15) {
        for topology in fabrics() {
            let plan = plan(&topology, &groups);
            let report = check(&read(&plan), None);
            prop_assert_eq!(&report.violation, &None, "{}", plan);
            let units: u64 = groups.iter().map(|(.., count)| count).sum();
            let told = format!("all {units} chunks reach all who want them");
            prop_assert!(report.proved.iter().any(|proved| proved.starts_with(&told)));
            // Prices of the time, and of the cost at no price.
            let prices = &list[..limits(&topology)];
            let (of_link, room) = spread(&topology, prices);
            let mut claimed = plan.clone();
            if let Some(bound) = by_trying(&topology, &groups, &of_link).checked_div(&room) {
                claimed["claim"]["lower_bound"] = json!(bound.to_string());
                claimed["claim"]["certificate"] = json!({"kind": "dual", "prices": prices});
                prop_assert_eq!(code(&read(&claimed)), None, "{}", claimed);
            }
            let least = &by_trying(&topology, &groups, &vec![1; topology.links().len()]) * &Rational::from(units);
            claimed["claim"] = json!({"cost_lower_bound": least.to_string(),
                "certificate": {"kind": "none", "cost_prices": vec![0; prices.len()]}});
            prop_assert_eq!(code(&read(&claimed)), None, "{}", claimed);
            // A cut: what must leave some of the GPUs, over what leads out of them.
            let inside = |node: usize| node < 4 && side >> node & 1 == 1;
            let data: u64 = groups.iter().filter(|(source, ends, _)| inside(*source) && !ends.iter().all(|end| inside(*end)))
                .map(|(.., count)| count).sum();
            let mut out = topology.links().iter().filter(|link| inside(link.from) && !inside(link.to));
            let capacity = out.try_fold(Rational::ZERO, |sum, link| Some(&sum + link.capacity.finite()?));
            let bound = capacity.map_or(Some(Rational::ZERO), |capacity| fraction(data as i64, units as i64).checked_div(&capacity));
            let nodes: Vec<String> = (0..4).filter(|node| inside(*node)).map(|node| format!("n{node}")).collect();
            claimed["claim"] = json!({"certificate": {"kind": "cut", "nodes": nodes}});
            claimed["claim"]["lower_bound"] = json!(bound.clone().unwrap_or(Rational::ZERO).to_string());
            let expected = if data == 0 { Some(Code::BadCertificate) } else { None };
            prop_assert_eq!(code(&read(&claimed)), expected, "{}", claimed);
        }
    }
}

/// One source, two of three others: straight from the source, and by way of the one that does not want it.
fn multicast() -> Value {
    let topology = complete(4, "1").expect("valid");
    let mut plan = plan(&topology, &[(0, vec![1, 2], 2)]);
    let edge = |src: &str, dst: &str| json!({"src": src, "dst": dst, "path": [src, dst]});
    let tree = |edges: Vec<Value>| json!({"root": "n0", "weight": "1", "ends": ["n2", "n1"], "edges": edges});
    plan["content"]["forests"][0]["trees"] = json!([
        tree(vec![edge("n0", "n1"), edge("n1", "n2")]),
        tree(vec![edge("n0", "n3"), edge("n3", "n1"), edge("n3", "n2")])
    ]);
    plan
}

#[test]
fn a_multicast_uses_who_does_not_want_it() {
    let mut plan = multicast();
    // Every link in use carries half of M; all of it must leave n0, over three links.
    plan["claim"] = json!({"time_per_byte": "1/2", "algorithm_bandwidth": "2", "cost": "5", "cost_lower_bound": "4",
        "lower_bound": "1/3", "certificate": {"kind": "cut", "nodes": ["n0"], "cost_prices": vec![0; 12]}});
    let report = check(&read(&plan), None);
    assert_eq!(report.violation, None);
    assert!(report.proved.contains(&"all 2 chunks reach all who want them, in 1 groups over 2 trees".into()));
    // Who wants it is said once for the tree, or not at all where there is only one group.
    plan["content"]["forests"][0]["trees"][0].as_object_mut().expect("a tree").remove("ends");
    assert_eq!(code(&read(&plan)), None);
    // As a collective of tenants, and as triples of two.
    plan["demands"] = json!({"sluice_demands": 1, "tenants": [
        {"name": "x", "collective": "broadcast", "participants": ["n0", "n1", "n2"], "root": "n0"},
        {"name": "y", "triples": [["n0", 5, "n1"], ["n0", 5, "n2"]]}]});
    assert_eq!(code(&read(&plan)), None);
    plan["demands"]["tenants"][0]["chunks"] = json!(2);
    assert_eq!(code(&read(&plan)), Some(Code::WrongShare), "three chunks now");
}

#[test]
fn what_is_wrong_has_its_name() {
    let good = multicast();
    let wrong = |edit: &dyn Fn(&mut Value)| {
        let mut plan = good.clone();
        edit(&mut plan);
        assert!(plan != good);
        code(&read(&plan))
    };
    let tree = |plan: &mut Value, edit: &dyn Fn(&mut Value)| edit(&mut plan["content"]["forests"][0]["trees"][1]);
    assert_eq!(wrong(&|plan| tree(plan, &|tree| tree["ends"] = json!(["n1"]))), Some(Code::WrongEnds));
    assert_eq!(wrong(&|plan| tree(plan, &|tree| tree["ends"] = json!(["n1", "n2", "n2"]))), Some(Code::WrongEnds));
    assert_eq!(wrong(&|plan| tree(plan, &|tree| tree["ends"] = json!(["n1", "nobody"]))), Some(Code::UnknownNode));
    assert_eq!(wrong(&|plan| tree(plan, &|tree| tree["weight"] = json!("3/2"))), Some(Code::WrongShare));
    let edges = |plan: &mut Value, edit: &dyn Fn(&mut Vec<Value>)| {
        tree(plan, &|tree| edit(tree["edges"].as_array_mut().expect("edges")));
    };
    assert_eq!(wrong(&|plan| edges(plan, &|edges| drop(edges.pop()))), Some(Code::NotSpanning));
    assert_eq!(wrong(&|plan| edges(plan, &|edges| edges.swap(1, 2))), None, "the order means nothing");
    let idle = json!({"src": "n0", "dst": "n3", "path": ["n0", "n3"]});
    let leaf = |plan: &mut Value| {
        plan["content"]["forests"][0]["trees"][0]["edges"].as_array_mut().expect("edges").push(idle.clone());
    };
    assert_eq!(wrong(&leaf), Some(Code::IdleLeaf), "n3 wants nothing");
    assert_eq!(wrong(&|plan| plan["content"]["forests"][0]["k"] = json!(null)), Some(Code::WrongShare));
    assert_eq!(wrong(&|plan| plan["content"]["forests"][0]["k"] = json!(2)), Some(Code::WrongShare));
    assert_eq!(wrong(&|plan| plan["content"]["forests"][0]["direction"] = json!("in")), Some(Code::WrongForests));
    assert_eq!(wrong(&|plan| drop(plan.as_object_mut().expect("one").remove("demands"))), Some(Code::BadDemands));
    assert_eq!(wrong(&|plan| plan["collective"] = json!("allgather")), Some(Code::BadDemands));
    let tenant = |plan: &mut Value, tenant: Value| plan["demands"]["tenants"][0] = tenant;
    let of = |collective: &str| json!({"name": "x", "collective": collective});
    assert_eq!(wrong(&|plan| tenant(plan, of("allreduce"))), Some(Code::UnsupportedCollective));
    assert_eq!(wrong(&|plan| tenant(plan, of("alltoall"))), Some(Code::WrongEnds), "n0 has three groups of one end");
    assert_eq!(wrong(&|plan| tenant(plan, json!({"name": "x", "triples": []}))), Some(Code::BadDemands));
    assert_eq!(wrong(&|plan| plan["participants"] = json!(["n0", "n1"])), Some(Code::BadDemands), "n2 takes no part");
    // Who passes on what it does not want must be able to copy.
    let unable = edited(&complete(4, "1").expect("valid"), |file| file["nodes"][3]["can"] = json!({"copy": false}));
    assert_eq!(code(&on(&read(&good), &unable)), Some(Code::CannotCopy));
    // Ends are for demands.
    let mut plain = serde_json::from_str::<Value>(
        &crate::naive::trees(&complete(4, "1").expect("valid"), Collective::Broadcast).to_text(),
    )
    .expect("JSON");
    plain["content"]["forests"][0]["trees"][0]["ends"] = json!(["n0", "n2", "n3"]);
    assert_eq!(code(&read(&plain)), Some(Code::WrongEnds));
    // Certificates of the wrong side, and paths.
    let claimed = |certificate: Value| wrong(&|plan| plan["claim"]["certificate"] = certificate.clone());
    assert_eq!(claimed(json!({"kind": "cut", "nodes": ["n3"]})), Some(Code::BadCertificate), "nothing has to leave n3");
    assert_eq!(claimed(json!({"kind": "bandwidth"})), None);
    let paths = json!({"kind": "paths", "pairs": [{"src": "n0", "dst": "n1", "path": ["n0", "n1"], "amount": "1"}]});
    assert_eq!(wrong(&|plan| plan["content"] = paths.clone()), Some(Code::UnsupportedCollective));
}

#[test]
fn a_switch_that_copies_takes_one_hop() {
    // n0 to n1 and n2 of four around a switch that copies: one hop in, two out.
    let topology = edited(&star(&["1"; 4]).expect("valid"), |file| file["nodes"][4]["can"] = json!({"copy": true}));
    let mut plan = plan(&topology, &[(0, vec![1, 2], 1)]);
    let direct = |end: &str| json!({"src": "n0", "dst": end, "path": ["n0", "sw", end]});
    let tree = &mut plan["content"]["forests"][0]["trees"][0];
    tree["edges"] = json!([direct("n1"), direct("n2")]);
    tree["hops"] = json!([["n0", "sw"], ["sw", "n1"], ["sw", "n2"]]);
    plan["claim"] = json!({"time_per_byte": "1", "cost": "3", "optimal": true, "lower_bound": "1", "certificate": {"kind": "bandwidth"}});
    assert_eq!(code(&read(&plan)), None);
    let hops = |hops: Value| {
        let mut plan = plan.clone();
        plan["content"]["forests"][0]["trees"][0]["hops"] = hops;
        code(&read(&plan))
    };
    assert_eq!(hops(json!([["n0", "sw"], ["sw", "n1"]])), Some(Code::HopMissesNode));
    assert_eq!(
        hops(json!([["n0", "sw"], ["sw", "n1"], ["sw", "n2"], ["sw", "n3"]])),
        Some(Code::HopUnbalanced),
        "n3 keeps nothing"
    );
}

#[test]
fn nobody_takes_them_for_a_collective() {
    let plan = read(&multicast());
    let topology = complete(4, "1").expect("valid");
    for format in [Format::MscclXml, Format::ForestJson, Format::TreeXml] {
        let errors = export(&plan, None, format, &Options::default()).expect_err("not everybody is reached");
        assert_eq!((errors.code(), &*errors.all()[0].key), ("UNSUPPORTED_FIELD", "/collective"), "{format:?}");
    }
    for format in [Format::Dot, Format::Svg] {
        assert!(export(&plan, None, format, &Options::default()).is_ok(), "{format:?}");
    }
    let errors = Cost::new(&plan, &topology).map(drop).expect_err("no size");
    assert_eq!((errors.code(), &*errors.all()[0].key), ("UNSUPPORTED_FIELD", "/collective"));
    assert!(!refused(&multicast().to_string()));
}
