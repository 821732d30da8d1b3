//! Certificates of kind `dual`: what prices prove, against all trees there are, and what is wrong with prices.

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, ring, star};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, PerByte, Plan};

use crate::naive;
use crate::scene::{OF_TREES, edited, fraction, on, refused};

pub const ALL: [Collective; 8] = [
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllToAll,
    Collective::Scatter,
    Collective::Gather,
];

/// Four GPUs each: direct, one way, around a plain switch and one that copies, with a shared limit, with shares.
pub fn fabrics() -> Vec<Topology> {
    let made = [complete(4, "2"), ring(4, "3", false), star(&["1", "2", "2", "1"])];
    let mut fabrics: Vec<Topology> = made.into_iter().map(|made| made.expect("valid")).collect();
    fabrics.push(edited(&fabrics[2], |file| file["nodes"][4]["can"] = json!({"copy": true, "reduce": true})));
    fabrics.push(edited(&fabrics[0], |file| {
        file["groups"] = json!([{"name": "out", "capacity": "3", "links": [["n0", "n1"], ["n0", "n2"], ["n0", "n3"]]}]);
        file["links"][1]["capacity"] = json!("unlimited");
        file["links"][2]["count"] = json!(2);
    }));
    fabrics.push(edited(&fabrics[0], |file| {
        file["nodes"][0]["weight"] = json!(3);
        file["nodes"][2]["weight"] = json!(0);
    }));
    fabrics
}

pub fn plan_of(topology: &Topology, collective: Collective) -> Plan {
    match OF_TREES.contains(&collective) {
        true => naive::trees(topology, collective),
        false => naive::paths(topology, collective),
    }
}

/// How many prices a fabric has.
pub fn limits(topology: &Topology) -> usize {
    topology.links().iter().filter(|link| link.capacity.finite().is_some()).count() + topology.groups().len()
}

/// The cheapest of all ways to give every participant a parent, also by way of the switch where it helps.
fn cheapest_tree(costs: &[Vec<Option<i64>>], n: usize, root: usize, helper: bool) -> i64 {
    let all = if helper { n + 1 } else { n };
    let mut best = i64::MAX;
    for choice in 0..all.pow(all as u32) {
        let parents: Vec<usize> = (0..all).map(|node| choice / all.pow(node as u32) % all).collect();
        let path = |node: usize| {
            let mut path = vec![node];
            while path[path.len() - 1] != root && path.len() <= all {
                path.push(parents[path[path.len() - 1]]);
            }
            path
        };
        // Edges of the ways from the root to all participants.
        let mut used = vec![false; all];
        let reaches = (0..n).all(|node| {
            let path = path(node);
            path.iter().filter(|node| **node != root).for_each(|node| used[*node] = true);
            path[path.len() - 1] == root
        });
        let cost: Option<i64> = (0..all).filter(|node| used[*node]).map(|node| costs[parents[node]][node]).sum();
        if let Some(cost) = cost.filter(|_| reaches) {
            best = best.min(cost);
        }
    }
    best
}

/// What links cost at these prices of limits, and what all limits together let through of it.
pub fn spread(topology: &Topology, prices: &[i64]) -> (Vec<i64>, Rational) {
    let links = topology.links();
    let mut of_link = vec![0; links.len()];
    let mut room = Rational::ZERO;
    let mut next = prices.iter();
    for (i, link) in links.iter().enumerate() {
        if let Some(capacity) = link.capacity.finite() {
            of_link[i] = *next.next().expect("a price");
            room += &(capacity * &fraction(of_link[i], 1));
        }
    }
    for group in topology.groups() {
        let price = *next.next().expect("a price");
        group.links.iter().for_each(|link| of_link[*link] += price);
        room += &(group.capacity.finite().expect("a limit") * &fraction(price, 1));
    }
    (of_link, room)
}

/// The bound by brute force; `None`: the prices prove nothing.
fn by_trying(topology: &Topology, plan: &Plan, prices: &[i64]) -> Option<Rational> {
    let (of_link, room) = spread(topology, prices);
    moving(topology, plan, &of_link).checked_div(&room)
}

/// What moving M costs at these prices of links, by brute force.
pub fn moving(topology: &Topology, plan: &Plan, of_link: &[i64]) -> Rational {
    let (nodes, links) = (topology.nodes(), topology.links());
    let mut far: Vec<Vec<Option<i64>>> = vec![vec![None; nodes.len()]; nodes.len()];
    for (link, price) in links.iter().zip(of_link) {
        let entry = &mut far[link.from][link.to];
        *entry = Some(entry.map_or(*price, |least: i64| least.min(*price)));
    }
    (0..nodes.len()).for_each(|node| far[node][node] = Some(0));
    for via in 0..nodes.len() {
        for from in 0..nodes.len() {
            for to in 0..nodes.len() {
                let over = far[from][via].zip(far[via][to]).map(|(a, b)| a + b);
                far[from][to] = [far[from][to], over].into_iter().flatten().min();
            }
        }
    }
    let back: Vec<Vec<Option<i64>>> = (0..far.len()).map(|to| far.iter().map(|row| row[to]).collect()).collect();
    // GPUs come first; a switch that helps is the fifth node.
    let n = topology.compute().len();
    let helper = |can: bool| nodes.len() > n && can;
    let out = |root: usize| cheapest_tree(&far, n, root, helper(nodes.last().expect("some").can.copy));
    let into = |root: usize| cheapest_tree(&back, n, root, helper(nodes.last().expect("some").can.reduce));
    let weights: Vec<i64> = nodes[..n].iter().map(|node| node.weight as i64).collect();
    let share = |root: usize| fraction(weights[root], weights.iter().sum());
    let root = plan.body.root.map(|root| topology.node(plan.id(root)).expect("known"));
    let quarter = fraction(1, n as i64);
    let all = |of: &dyn Fn(usize) -> i64| {
        (0..n).fold(Rational::ZERO, |sum, root| &sum + &(&share(root) * &fraction(of(root), 1)))
    };
    let ways = |ends: Vec<(usize, usize)>| {
        let sum: i64 = ends.into_iter().map(|(from, to)| far[from][to].expect("a way")).sum();
        &quarter * &fraction(sum, 1)
    };
    match plan.body.collective {
        Collective::AllGather => all(&out),
        Collective::ReduceScatter => all(&into),
        Collective::AllReduce => fraction((0..n).map(|root| out(root) + into(root)).min().expect("some"), 1),
        Collective::Broadcast => fraction(out(root.expect("a root")), 1),
        Collective::Reduce => fraction(into(root.expect("a root")), 1),
        Collective::AllToAll => ways((0..n).flat_map(|from| (0..n).map(move |to| (from, to))).collect()),
        Collective::Scatter => ways((0..n).map(|to| (root.expect("a root"), to)).collect()),
        _ => ways((0..n).map(|from| (from, root.expect("a root"))).collect()),
    }
}

fn with_prices(plan: &Plan, prices: Vec<Rational>, bound: Rational) -> Plan {
    let mut plan = plan.clone();
    let seconds = plan.body.claim.time_per_byte.as_ref().is_some_and(|time| time.seconds);
    plan.body.claim.certificate = Some(Certificate { prices: Some(prices), ..Certificate::new(CertificateKind::Dual) });
    plan.body.claim.lower_bound = Some(PerByte { value: bound, seconds });
    plan
}

pub fn code(plan: &Plan) -> Option<Code> {
    check(plan, None).violation.map(|violation| violation.code)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the prices are, they prove what trying all trees says, and never more than the plan takes.
    #[test]
    fn it_agrees_with_trying_all_trees(list in proptest::collection::vec(0_i64..5, 16)) {
        for topology in fabrics() {
            let prices = &list[..limits(&topology)];
            for collective in ALL {
                if collective == Collective::AllToAll && topology.nodes().iter().any(|node| node.weight != 1) {
                    continue;
                }
                let plan = plan_of(&topology, collective);
                let exact = prices.iter().map(|price| fraction(*price, 7)).collect();
                let bound = by_trying(&topology, &plan, prices);
                let claimed = with_prices(&plan, exact, bound.clone().unwrap_or(Rational::ZERO));
                let expected = if bound.is_none() { Some(Code::BadCertificate) } else { None };
                prop_assert_eq!(code(&claimed), expected, "{} on {}", collective.word(), topology.name());
            }
        }
    }
}

#[test]
fn textbook_prices_prove_the_optimum() {
    let ones = |topology: &Topology| vec![Rational::ONE; limits(topology)];
    let optimal = |plan: &Plan, prices: Vec<Rational>, bound: Rational| {
        let mut plan = with_prices(plan, prices, bound);
        plan.body.claim.optimal = Some(true);
        let report = check(&plan, None);
        assert_eq!((&report.violation, &report.warnings), (&None, &Vec::new()));
        assert!(report.not_rechecked.is_empty() && report.proved.contains(&"the plan is optimal".into()));
        report
    };
    // Every link of K_5 is as dear as every other: a tree takes four of twenty.
    let mesh = complete(5, "4").expect("valid");
    for (collective, bound) in
        [(Collective::AllGather, (1, 20)), (Collective::ReduceScatter, (1, 20)), (Collective::AllToAll, (1, 20))]
    {
        optimal(&plan_of(&mesh, collective), ones(&mesh), fraction(bound.0, bound.1));
    }
    let report = optimal(&plan_of(&mesh, Collective::AllReduce), ones(&mesh), fraction(1, 10));
    let said = "no plan that adds up every part at one node is faster than 1/10 per byte (`dual`)";
    assert!(report.proved.contains(&said.into()), "{report:?}");
    // Only what leads out of the root of a scatter costs anything.
    let middle = star(&["3"; 5]).expect("valid");
    let plan = plan_of(&middle, Collective::Scatter);
    let root = topology_root(&middle, &plan);
    let out = middle.links().iter().map(|link| if link.from == root { Rational::ONE } else { Rational::ZERO });
    optimal(&plan, out.collect(), fraction(4, 15));
}

fn topology_root(topology: &Topology, plan: &Plan) -> usize {
    topology.node(plan.id(plan.body.root.expect("a root"))).expect("known")
}

#[test]
fn prices_of_steps_and_of_ignored_groups() {
    let topology = complete(4, "1").expect("valid");
    let mut steps = crate::step_plans::of_steps(&topology, Collective::AllGather);
    let bound = by_trying(&topology, &plan_of(&topology, Collective::AllGather), &[1; 12]).expect("proved");
    steps["claim"]["lower_bound"] = json!(bound.to_string());
    steps["claim"]["certificate"] = json!({"kind": "dual", "prices": vec![1; 12]});
    assert!(!refused(&steps.to_string()));
    steps["claim"]["certificate"]["prices"][0] = json!(2);
    assert!(refused(&steps.to_string()));
    // A group that the planner was told to ignore has no price.
    let grouped = edited(&topology, |file| {
        file["groups"] = json!([{"name": "g", "capacity": "1/100", "links": [["n0", "n1"]]}]);
    });
    let mut plan = on(&plan_of(&topology, Collective::AllGather), &grouped);
    plan.body.claim = Default::default();
    plan.body.ignored = Some(vec!["groups".into()]);
    assert_eq!(code(&with_prices(&plan, vec![Rational::ONE; 12], bound.clone())), None);
    assert_eq!(code(&with_prices(&plan, vec![Rational::ONE; 13], bound.clone())), Some(Code::BadCertificate));
    plan.body.ignored = None;
    assert_eq!(code(&with_prices(&plan, vec![Rational::ONE; 12], bound)), Some(Code::BadCertificate));
    let boundless = edited(&topology, |file| {
        file["groups"] = json!([{"name": "g", "capacity": "unlimited", "links": [["n0", "n1"]]}]);
    });
    let plan = on(&plan, &boundless);
    let bound = by_trying(&topology, &plan, &[1; 12]).expect("proved");
    assert_eq!(code(&with_prices(&plan, vec![Rational::ONE; 13], bound)), Some(Code::BadCertificate));
}

#[test]
fn what_cannot_be_rechecked_stands_apart() {
    let topology = complete(5, "4").expect("valid");
    let mut plan = with_prices(&plan_of(&topology, Collective::AllGather), Vec::new(), fraction(1, 20));
    plan.body.claim.optimal = Some(true);
    for kind in [CertificateKind::Dual, CertificateKind::Solver] {
        plan.body.claim.certificate = Some(Certificate::new(kind));
        let report = check(&plan, None);
        assert!(report.ok());
        let json: Value = serde_json::from_str(&report.to_json()).expect("JSON");
        let told = format!("the lower bound rests on a certificate of kind `{}`", kind.word());
        assert_eq!(json["not_rechecked"], json!([told, "that the plan is optimal"]));
        assert_eq!(json["warnings"].as_array().map(Vec::len), Some(1));
        let proved = json["proved"].as_array().expect("a list");
        assert!(!proved.is_empty() && proved.iter().all(|proved| !proved.to_string().contains("optimal")));
    }
    // Of epochs prices say nothing that could be recomputed.
    let mut sends = crate::sends::row();
    sends["claim"] = json!({"lower_bound": "4", "optimal": true, "certificate": {"kind": "dual", "prices": ["1"]}});
    let report = check(&Plan::read(sends.to_string().as_bytes(), "p").expect("readable"), None);
    assert!(report.ok() && report.not_rechecked.len() == 2, "{report:?}");
}

#[test]
fn every_damaged_certificate_is_refused() {
    let mut count = 0;
    for topology in fabrics() {
        for collective in ALL {
            if collective == Collective::AllToAll && topology.nodes().iter().any(|node| node.weight != 1) {
                continue;
            }
            let plan = plan_of(&topology, collective);
            let whole: Vec<i64> = (0..limits(&topology) as i64).map(|i| 3 + i % 2).collect();
            let bound = by_trying(&topology, &plan, &whole).expect("proved");
            let prices = whole.iter().map(|price| fraction(*price, 1)).collect();
            let good: Value = serde_json::from_str(&with_prices(&plan, prices, bound.clone()).to_text()).expect("JSON");
            assert!(!refused(&good.to_string()));
            let mut damaged: Vec<(String, Value)> = Vec::new();
            let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
                let mut bad = good.clone();
                edit(&mut bad["claim"]);
                damaged.push((what, bad));
            };
            let unit = if good["claim"]["lower_bound"].to_string().contains(" s/B") { " s/B" } else { "" };
            for other in [&bound * &fraction(100, 99), &bound * &fraction(99, 100), Rational::ZERO] {
                add(format!("bound {other}"), &|claim| claim["lower_bound"] = json!(format!("{other}{unit}")));
            }
            for (i, price) in whole.iter().enumerate() {
                add(format!("price {i} below zero"), &|claim| claim["certificate"]["prices"][i] = json!("-1/3"));
                add(format!("price {i} gone"), &|claim| {
                    drop(claim["certificate"]["prices"].as_array_mut().expect("prices").remove(i));
                });
                add(format!("price {i} no number"), &|claim| claim["certificate"]["prices"][i] = json!("dear"));
                // Another price proves another bound, unless both sums change alike.
                let mut dearer = whole.clone();
                dearer[i] = 10 * price;
                if by_trying(&topology, &plan, &dearer).as_ref() != Some(&bound) {
                    add(format!("price {i} ten times"), &|claim| {
                        claim["certificate"]["prices"][i] = json!(10 * price);
                    });
                }
            }
            add("one price more".into(), &|claim| {
                claim["certificate"]["prices"].as_array_mut().expect("prices").push(json!(1));
            });
            add("all prices zero".into(), &|claim| claim["certificate"]["prices"] = json!(vec![0; whole.len()]));
            add("nodes".into(), &|claim| claim["certificate"]["nodes"] = json!(["n0"]));
            add("a cut".into(), &|claim| claim["certificate"]["kind"] = json!("cut"));
            add("a solver".into(), &|claim| claim["certificate"]["kind"] = json!("solver"));
            for (what, bad) in damaged {
                assert!(refused(&bad.to_string()), "{} on {}: {what}", collective.word(), topology.name());
                count += 1;
            }
        }
    }
    println!("dual: {count} damaged plans refused");
    assert!(count >= 300, "{count}");
}
