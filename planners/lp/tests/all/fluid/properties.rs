//! What holds of every fabric: methods agree, weaker programs promise no less, and better fabrics are no slower.

use crate::fluid::samples::{file, mixed, read};
use crate::fluid::{figures, of_all};
use serde_json::{Value, json};
use sluice_plan::plan::Collective;
use sluice_planners_lp::fluid::solve::{Method, Strength};

const CASES: u64 = 40;

fn latency(file: &Value, strength: Strength) -> f64 {
    figures(&read(file), Collective::AllGather, strength, Method::Auto).0
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

fn no_less(a: f64, b: f64) -> bool {
    a >= b * (1.0 - 1e-7)
}

#[test]
fn methods_agree_at_every_strength() {
    let collectives = [Collective::AllGather, Collective::AllReduce, Collective::ReduceScatter, Collective::Broadcast];
    for case in 0..CASES {
        let topology = read(&mixed(case));
        let collective = collectives[case as usize % collectives.len()];
        let agree = |strength, methods: &[Method]| {
            let found: Vec<(f64, f64)> =
                methods.iter().map(|method| figures(&topology, collective, strength, *method)).collect();
            for (method, (time, cost)) in methods.iter().zip(&found) {
                let same = near(*time, found[0].0) && near(*cost, found[0].1);
                assert!(same, "case {case}, {collective:?}, {strength:?} by {method:?}: {found:?}");
            }
            found[0]
        };
        let by_links = [Method::Direct, Method::Orbit, Method::Dw, Method::Mirrored];
        let (relaxed, apart) = (agree(Strength::Relax, &by_links), agree(Strength::Dup, &by_links));
        let trees = agree(Strength::Tree, &[Method::Dw, Method::Mirrored]);
        for (weaker, strength) in [(relaxed, Strength::Relax), (apart, Strength::Dup)] {
            assert!(no_less(trees.0, weaker.0), "case {case}: {strength:?} {weaker:?}, trees {trees:?}");
            let same_time = near(trees.0, weaker.0);
            assert!(!same_time || no_less(trees.1, weaker.1 * (1.0 - 1e-6)), "case {case}: {weaker:?} {trees:?}");
        }
    }
}

#[test]
fn methods_of_paths_agree() {
    for case in 0..CASES {
        let topology = read(&mixed(case));
        let of = |method| figures(&topology, Collective::AllToAll, Strength::Tree, method);
        let direct = of(Method::Direct);
        for method in [Method::Orbit, Method::Dw, Method::Mirrored] {
            let found = of(method);
            assert!(
                near(found.0, direct.0) && near(found.1, direct.1),
                "case {case}, {method:?}: {found:?} {direct:?}"
            );
        }
    }
}

#[test]
fn bounds_close_in_on_each_other() {
    for case in 0..CASES {
        let solved = of_all(&read(&mixed(case)), Collective::AllGather, Strength::Relax, Method::Dw);
        assert!(!solved.iterations.is_empty());
        for pair in solved.iterations.windows(2).filter(|pair| pair[0].of_cost == pair[1].of_cost) {
            let closes = pair[1].upper <= pair[0].upper * (1.0 + 1e-9) && pair[1].lower >= pair[0].lower;
            assert!(closes && pair[1].lower <= pair[1].upper * (1.0 + 1e-7), "case {case}: {pair:?}");
        }
    }
}

#[test]
fn faster_links_need_less_time_and_cost_the_same() {
    for case in 0..CASES {
        let slow = mixed(case);
        let mut fast = slow.clone();
        for list in ["links", "groups"] {
            for limit in fast[list].as_array_mut().expect("a list") {
                let rate: u64 = limit["capacity"].as_str().expect("a number").parse().expect("a number");
                limit["capacity"] = (7 * rate).to_string().into();
            }
        }
        let of = |file: &Value| figures(&read(file), Collective::AllGather, Strength::Tree, Method::Auto);
        let (slow, fast) = (of(&slow), of(&fast));
        assert!(near(slow.0, 7.0 * fast.0) && near(slow.1, fast.1), "case {case}: {slow:?} {fast:?}");
    }
}

#[test]
fn names_and_order_decide_nothing() {
    for case in 0..CASES {
        let plain = mixed(case);
        let mut turned = plain.clone();
        turned["nodes"].as_array_mut().expect("nodes").reverse();
        let links = turned["links"].as_array_mut().expect("links");
        links.reverse();
        assert!(near(latency(&plain, Strength::Tree), latency(&turned, Strength::Tree)), "case {case}");
    }
}

#[test]
fn more_of_anything_is_no_slower() {
    for case in 0..CASES {
        let plain = mixed(case);
        let before = latency(&plain, Strength::Tree);
        let mut edits: Vec<(&str, Value)> = Vec::new();
        let mut link = plain.clone();
        link["links"].as_array_mut().expect("links").push(json!({"from": "g0", "to": "g1", "capacity": "2"}));
        edits.push(("a link", link));
        let mut rate = plain.clone();
        rate["links"][0]["capacity"] = "9".into();
        edits.push(("a rate", rate));
        let mut able = plain.clone();
        for node in able["nodes"].as_array_mut().expect("nodes") {
            node["can"] = json!({"store": true, "copy": true, "reduce": true});
        }
        edits.push(("an ability", able));
        let mut apart = plain.clone();
        apart["groups"] = json!([]);
        edits.push(("no joint limits", apart));
        for (what, better) in edits {
            assert!(no_less(before, latency(&better, Strength::Tree)), "case {case}: {what}");
        }
        let mut wide = plain.clone();
        let links = plain["links"].as_array().expect("links").iter();
        let all: Vec<Value> = links.map(|link| json!([link["from"], link["to"]])).collect();
        wide["groups"].as_array_mut().expect("groups").push(json!({"links": all, "capacity": "1000"}));
        assert!(near(before, latency(&wide, Strength::Tree)), "case {case}: a limit that never binds");
    }
}

#[test]
fn a_memory_that_is_a_switch_or_takes_part_is_no_faster() {
    let mut seen = 0;
    for case in 0..2 * CASES {
        let plain = mixed(case);
        let place = plain["nodes"].as_array().expect("nodes").iter().position(|node| node["kind"] == "memory");
        let Some(place) = place else { continue };
        seen += 1;
        let before = latency(&plain, Strength::Tree);
        for kind in ["switch", "gpu"] {
            let mut other = plain.clone();
            other["nodes"][place]["kind"] = kind.into();
            assert!(no_less(latency(&other, Strength::Tree), before), "case {case}: a {kind}");
        }
    }
    assert!(seen > 10);
}

#[test]
fn nobody_gets_more_than_the_links_of_a_node_carry() {
    for case in 0..CASES {
        let topology = read(&mixed(case));
        let of = |collective| figures(&topology, collective, Strength::Tree, Method::Auto).0;
        let members = topology.compute();
        let ports = |side: fn(&sluice_formats::topology::Link) -> usize| {
            let of = |node: &usize| -> f64 {
                let links = topology.links().iter().filter(|link| side(link) == *node);
                links.filter_map(|link| link.capacity.finite()).map(|rate| rate.to_f64()).sum()
            };
            members.iter().map(of).fold(0.0, f64::max)
        };
        let (up, down, n) = (ports(|link| link.from), ports(|link| link.to), members.len() as f64);
        assert!(no_less(of(Collective::Broadcast), 1.0 / up.min(down)), "case {case}: broadcast");
        assert!(no_less(of(Collective::Reduce), 1.0 / up.min(down)), "case {case}: reduce");
        assert!(no_less(of(Collective::AllGather), (n - 1.0) / down), "case {case}: all-gather");
        // Both phases of an all-reduce take no less than an even split of either.
        assert!(no_less(of(Collective::AllReduce), (2.0 * n - 2.0) / (n * down)), "case {case}: all-reduce");
    }
}

#[test]
fn sums_over_equal_links_take_as_long_as_the_gather_they_mirror() {
    for case in 0..CASES {
        let mut fabric = mixed(case);
        let links = fabric["links"].as_array_mut().expect("links");
        links.iter_mut().for_each(|link| link["duplex"] = true.into());
        fabric["groups"] = json!([]);
        // Whoever copies can add up.
        for node in fabric["nodes"].as_array_mut().expect("nodes").iter_mut().filter(|node| node["kind"] == "memory") {
            node["can"] = json!({"reduce": true});
        }
        let topology = read(&fabric);
        let of = |collective| figures(&topology, collective, Strength::Tree, Method::Auto).0;
        let n = topology.compute().len() as f64;
        assert!(near(of(Collective::ReduceScatter), of(Collective::AllGather) / n), "case {case}");
    }
}

#[test]
fn without_limits_nothing_takes_time() {
    let nodes: Vec<String> = ["g0", "g1", "g2", "s0"].map(String::from).to_vec();
    let link = |node: &str| json!({"from": node, "to": "s0", "capacity": "unlimited", "duplex": true, "cost": "1"});
    let topology = read(&file(&nodes, ["g0", "g1", "g2"].map(link).to_vec(), Vec::new()));
    for (collective, cost) in
        [(Collective::AllGather, 12.0), (Collective::AllToAll, 12.0), (Collective::Broadcast, 4.0)]
    {
        for method in [Method::Auto, Method::Dw] {
            let strengths: &[Strength] = match (method, collective) {
                (_, Collective::AllToAll) => &[Strength::Tree],
                _ => &[Strength::Tree, Strength::Dup, Strength::Relax],
            };
            for strength in strengths {
                let found = figures(&topology, collective, *strength, method);
                assert!(found.0 == 0.0 && near(found.1, cost), "{collective:?}, {strength:?} by {method:?}: {found:?}");
            }
        }
    }
}
