//! What plans cost, and the least that prices prove: against all trees there are, with one thing wrong in all ways, and
//! with figures that are known.

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, star};
use sluice_plan::check::{Code, check, proves, proves_cost};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, Content, Exact, Plan};

use crate::dual::{ALL, code, fabrics, limits, moving, plan_of, spread};
use crate::naive;
use crate::scene::{edited, fraction, on, refused};

/// The fabrics with links of different costs, none, one or two.
pub fn dear() -> Vec<Topology> {
    let costs = |topology: &Topology| {
        edited(topology, |file| {
            for (i, link) in file["links"].as_array_mut().expect("links").iter_mut().enumerate() {
                link["cost"] = json!((i % 3).to_string());
            }
        })
    };
    fabrics().iter().map(costs).collect()
}

pub fn fits(topology: &Topology, collective: Collective) -> bool {
    collective != Collective::AllToAll || topology.nodes().iter().all(|node| node.weight == 1)
}

/// M in units.
pub fn units(topology: &Topology, collective: Collective) -> Rational {
    match collective {
        Collective::AllGather => {
            Rational::from(topology.nodes().iter().filter(|n| n.is_compute()).map(|n| n.weight).sum::<u64>())
        }
        Collective::AllToAll => Rational::from(topology.compute().len() as u64),
        _ => Rational::ONE,
    }
}

/// Every hop of every tree or path at its cost; parallel links of these fabrics cost the same.
pub fn by_hops(topology: &Topology, plan: &Plan) -> Rational {
    let hop = |from, to| {
        let (from, to) = (topology.node(plan.id(from)), topology.node(plan.id(to)));
        let link = topology.links().iter().find(|link| (Some(link.from), Some(link.to)) == (from, to));
        link.expect("a link").cost.clone()
    };
    let path = |nodes: &[_]| nodes.windows(2).fold(Rational::ZERO, |sum, pair| &sum + &hop(pair[0], pair[1]));
    let mut cost = Rational::ZERO;
    match &plan.body.content {
        Content::Trees(trees) => {
            for forest in &trees.forests {
                let all: Rational = forest.trees.iter().map(|tree| &tree.weight).sum();
                for tree in &forest.trees {
                    let edges = tree.edges.iter().map(|edge| path(&edge.path().collect::<Vec<_>>()));
                    let of_tree = edges.fold(Rational::ZERO, |sum, edge| &sum + &edge);
                    cost += &(&of_tree * &tree.weight.checked_div(&all).expect("not zero"));
                }
            }
        }
        Content::Paths(paths) => {
            let part = fraction(1, topology.compute().len() as i64);
            paths.pairs.iter().for_each(|pair| cost += &(&(&path(&pair.path) * &pair.amount) * &part));
        }
        other => panic!("{}", other.kind().word()),
    }
    &units(topology, plan.body.collective) * &cost
}

/// The plan with a cost, and the least that these prices prove.
fn with_cost(plan: &Plan, cost: Rational, prices: &[Rational], bound: Rational) -> Plan {
    let mut plan = plan.clone();
    let certificate = plan.body.claim.certificate.get_or_insert(Certificate::new(CertificateKind::None));
    certificate.cost_prices = Some(prices.to_vec());
    plan.body.claim.cost = Some(Exact(cost));
    plan.body.claim.cost_lower_bound = Some(Exact(bound));
    plan
}

fn time(plan: &Plan) -> Rational {
    plan.body.claim.time_per_byte.clone().expect("claimed").value
}

/// What prices of thirds prove of plans that take no longer, by brute force.
fn by_trying(topology: &Topology, plan: &Plan, thirds: &[i64]) -> Rational {
    let (mut of_link, room) = spread(topology, thirds);
    for (sum, link) in of_link.iter_mut().zip(topology.links()) {
        *sum += 3 * link.cost.to_u64().expect("whole") as i64;
    }
    let over = &moving(topology, plan, &of_link) - &(&time(plan) * &room);
    &(&units(topology, plan.body.collective) * &over.max(Rational::ZERO)) * &fraction(1, 3)
}

fn thirds(prices: &[i64]) -> Vec<Rational> {
    prices.iter().map(|price| fraction(*price, 3)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Costs are those of the hops; whatever the prices are, they prove what trying all trees says, never more than the plan
    /// costs, and the same to whoever asks.
    #[test]
    fn it_agrees_with_trying_all_trees(list in proptest::collection::vec(0_i64..4, 16)) {
        for topology in dear() {
            let prices = &list[..limits(&topology)];
            for collective in ALL.into_iter().filter(|collective| fits(&topology, *collective)) {
                let plan = plan_of(&topology, collective);
                let (cost, bound) = (by_hops(&topology, &plan), by_trying(&topology, &plan, prices));
                prop_assert!(bound <= cost);
                let claimed = with_cost(&plan, cost.clone(), &thirds(prices), bound.clone());
                let report = check(&claimed, None);
                prop_assert_eq!(report.violation, None, "{} on {}", collective.word(), topology.name());
                let figures = report.figures.expect("computed");
                prop_assert_eq!((figures.cost, figures.cost_lower_bound), (Some(cost), Some(bound.clone())));
                let certificate = claimed.body.claim.certificate.as_ref().expect("one");
                prop_assert_eq!(proves_cost(&plan, &topology, certificate), Ok(Some(bound)));
            }
        }
    }
}

#[test]
fn known_costs() {
    // Each of four GPUs sends its unit up once for each other, and down: 3 · 2 · 4. Trees straight through the switch.
    let middle = star(&["10"; 4]).expect("valid");
    for (collective, cost) in [
        (Collective::AllGather, 24),
        (Collective::AllToAll, 24),
        (Collective::Broadcast, 6),
        (Collective::AllReduce, 12),
    ] {
        let plan = plan_of(&middle, collective);
        // Without a price: the cheapest trees there are.
        let least = fraction(cost, 1);
        let claimed = with_cost(&plan, least.clone(), &vec![Rational::ZERO; 8], least.clone());
        let report = check(&claimed, None);
        assert_eq!(report.violation, None);
        assert!(report.proved.contains(&format!("cost {cost}")), "{:?}", report.proved);
        let which = if collective == Collective::AllReduce { " that adds up every part at one node" } else { "" };
        let told = format!("no plan of this time{which} costs less than {cost}");
        assert!(report.proved.contains(&told), "{:?}", report.proved);
    }
    // A direct cable for 3 and a detour for 1 each way: whoever has the time takes the detour alone.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"},{"id":"s","kind":"switch"}],
        "links":[{"from":"a","to":"b","capacity":"1","cost":"3","duplex":true},
        {"from":"a","to":"s","capacity":"1","cost":"1/2","duplex":true},{"from":"s","to":"b","capacity":"1","cost":"1/2","duplex":true}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let shared = |detour: &str, rest: &str, time: &str| {
        let ends = [("a", "b"), ("b", "a")];
        let paths = ends.iter().flat_map(|(src, dst)| {
            [(vec![*src, "s", *dst], detour), (vec![*src, *dst], rest)]
                .map(|(path, amount)| json!({"src": src, "dst": dst, "path": path, "amount": amount}))
        });
        let paths: Vec<Value> = paths.filter(|pair| pair["amount"] != "0").collect();
        let plan = json!({"sluice_plan": 1, "collective": "alltoall", "topology": {"sha256": topology.digest()},
            "claim": {"time_per_byte": time}, "content": {"kind": "paths", "pairs": paths}});
        on(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"), &topology)
    };
    // Half a unit of M = 2 each way. In 1/4 both ways are full: 2 · (1/2 · 3 + 1/2 · 1); a price of 2 on a → s and b → s says so.
    let price = |value: i64| [0, 0, value, 0, 0, value].map(|price| fraction(price, 1)).to_vec();
    let half = with_cost(&shared("1/2", "1/2", "1/4"), fraction(4, 1), &price(2), fraction(4, 1));
    assert_eq!(code(&half), None);
    // In the time of the detour alone the same prices prove no more than what that costs.
    let alone = with_cost(&shared("1", "0", "1/2"), fraction(2, 1), &price(2), fraction(2, 1));
    assert_eq!(code(&alone), None);
    let too_dear = with_cost(&shared("1/2", "1/2", "1/4"), fraction(4, 1), &price(3), fraction(4, 1));
    assert_eq!(code(&too_dear), Some(Code::WrongCostBound), "beyond what the cable costs more");
}

#[test]
fn wrong_costs_have_their_codes() {
    let topology = &dear()[0];
    let plan = plan_of(topology, Collective::AllGather);
    let cost = by_hops(topology, &plan);
    let prices = thirds(&vec![1; limits(topology)]);
    let bound = by_trying(topology, &plan, &vec![1; limits(topology)]);
    let good = with_cost(&plan, cost.clone(), &prices, bound.clone());
    assert_eq!(code(&good), None);
    let edited = |edit: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        edit(&mut plan);
        code(&plan)
    };
    let more = Some(Exact(&cost + &Rational::ONE));
    assert_eq!(edited(&|plan| plan.body.claim.cost = more.clone()), Some(Code::WrongCost));
    assert_eq!(edited(&|plan| plan.body.claim.cost_lower_bound = more.clone()), Some(Code::WrongCostBound));
    assert_eq!(edited(&|plan| plan.body.claim.cost = None), None, "nobody must claim it");
    let certificate = |plan: &mut Plan, edit: &dyn Fn(&mut Certificate)| {
        edit(plan.body.claim.certificate.as_mut().expect("one"));
    };
    let without = |plan: &mut Plan| certificate(plan, &|of| of.cost_prices = None);
    assert_eq!(edited(&without), Some(Code::WrongCostBound), "nothing proves it");
    let negative =
        |plan: &mut Plan| certificate(plan, &|of| of.cost_prices = Some(vec![fraction(-1, 3); prices.len()]));
    assert_eq!(edited(&negative), Some(Code::BadCertificate));
    let short = |plan: &mut Plan| certificate(plan, &|of| drop(of.cost_prices.as_mut().expect("prices").pop()));
    assert_eq!(edited(&short), Some(Code::BadCertificate));
    // Beside a proof of the time of any kind.
    for kind in [CertificateKind::Solver, CertificateKind::Bandwidth] {
        let mut plan = good.clone();
        certificate(&mut plan, &|of| of.kind = kind);
        assert_eq!(code(&plan), None);
        let asked = plan.body.claim.certificate.as_ref().expect("one");
        let proved = proves(&plan, topology, asked).expect("a certificate");
        assert_eq!(proved, check(&plan, None).figures.expect("computed").lower_bound);
    }
    // Plans of other kinds have no cost.
    let mut sends = crate::sends::row();
    sends["claim"] = json!({"cost": "1"});
    let foreign = |plan: &Value| code(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"));
    assert_eq!(foreign(&sends), Some(Code::ForeignClaim));
    sends["claim"] = json!({"certificate": {"kind": "distance", "cost_prices": ["1"]}});
    assert_eq!(foreign(&sends), Some(Code::BadCertificate));
}

#[test]
fn a_bound_that_was_not_recomputed_is_held_against_the_cost() {
    // More ways than the search may look at: taken on trust, and still not above the cost.
    let topology = star(&["1"; 12_000]).expect("valid");
    let mut plan = naive::trees(&topology, Collective::Broadcast);
    let cost = fraction(2 * 11_999, 1);
    plan = with_cost(&plan, cost.clone(), &vec![Rational::ZERO; limits(&topology)], cost.clone());
    let report = check(&plan, None);
    assert_eq!(report.violation, None);
    assert_eq!(report.not_rechecked, ["the lower bound of the cost, which would take too long"]);
    plan.body.claim.cost_lower_bound = Some(Exact(&cost + &Rational::ONE));
    assert_eq!(code(&plan), Some(Code::CostBoundAboveCost));
}

#[test]
fn costs_of_steps_and_of_parallel_links() {
    // Straight to everybody in one step: every one of 12 links carries a quarter.
    let topology = complete(4, "1").expect("valid");
    let mut steps = crate::step_plans::of_steps(&topology, Collective::AllGather);
    steps["claim"] =
        json!({"cost": "12", "cost_lower_bound": "12", "certificate": {"kind": "none", "cost_prices": vec![0; 12]}});
    assert!(!refused(&steps.to_string()));
    steps["claim"]["cost"] = json!("13");
    assert!(refused(&steps.to_string()));
    // A cable of 1 and 3, whose links cost 4 and 0: a quarter of the data takes the dear one.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"}],
        "links":[{"from":"a","to":"b","capacity":"1","cost":"4"},{"from":"a","to":"b","capacity":"3","cost":"0"},
        {"from":"b","to":"a","capacity":"1","cost":"0"}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let mut plan = naive::trees(&topology, Collective::Broadcast);
    assert_eq!(check(&plan, None).figures.expect("computed").cost, Some(Rational::ZERO), "b is the root");
    plan = naive::trees(&topology, Collective::AllGather);
    assert_eq!(check(&plan, None).figures.expect("computed").cost, Some(Rational::ONE));
}
