//! Certificates with prices of time and of cost, damaged: each is refused, or proves what trying all trees says and no more.

use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::check::{check, proves, proves_cost};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, Plan};

use crate::cost::{by_hops, dear, units};
use crate::demands::{self, Group};
use crate::dual::{limits, moving, plan_of, spread};
use crate::scene::{edited, fraction};

/// Four GPUs around a memory, which copies and does not add up, with a limit on all it does at once; every link costs one.
fn memory() -> Topology {
    let gpus = ["n0", "n1", "n2", "n3"];
    let mut nodes: Vec<Value> = gpus.iter().map(|id| json!({"id": id, "kind": "gpu"})).collect();
    nodes.push(json!({"id": "m", "kind": "memory"}));
    let link = |id: &&str| json!({"from": id, "to": "m", "capacity": "10", "duplex": true});
    let both: Vec<Value> = gpus.iter().flat_map(|id| [json!([id, "m"]), json!(["m", id])]).collect();
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": gpus.iter().map(link).collect::<Vec<_>>(),
        "groups": [{"name": "m", "capacity": "24", "links": both}]});
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// A plan, what moving its data costs at prices of links by trying all trees, per M, and M in units.
struct Case {
    name: String,
    topology: Topology,
    plan: Plan,
    groups: Option<Vec<Group>>,
}

impl Case {
    fn least(&self, of_link: &[i64]) -> Rational {
        match &self.groups {
            Some(groups) => demands::by_trying(&self.topology, groups, of_link),
            None => moving(&self.topology, &self.plan, of_link),
        }
    }
    fn units(&self) -> Rational {
        match &self.groups {
            Some(groups) => Rational::from(groups.iter().map(|(.., count)| count).sum::<u64>()),
            None => units(&self.topology, self.plan.body.collective),
        }
    }
    /// What prices prove of the time; `None`: nothing.
    fn time_bound(&self, prices: &[i64]) -> Option<Rational> {
        let (of_link, room) = spread(&self.topology, prices);
        self.least(&of_link).checked_div(&room)
    }
    /// What prices prove of the cost.
    fn cost_bound(&self, prices: &[i64], time: &Rational) -> Rational {
        let (mut of_link, room) = spread(&self.topology, prices);
        for (sum, link) in of_link.iter_mut().zip(self.topology.links()) {
            *sum += link.cost.to_u64().expect("whole") as i64;
        }
        &self.units() * &(&self.least(&of_link) - &(time * &room)).max(Rational::ZERO)
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let fabrics = dear().into_iter().filter(|topology| topology.nodes().iter().all(|node| node.weight == 1));
    for topology in fabrics.chain([memory()]) {
        let all = [Collective::AllGather, Collective::AllToAll, Collective::Broadcast, Collective::AllReduce];
        for collective in all {
            let name = format!("{} on {}", collective.word(), topology.to_compact());
            let plan = plan_of(&topology, collective);
            cases.push(Case { name, topology: topology.clone(), plan, groups: None });
        }
        let groups: Vec<Group> = vec![(0, vec![1, 2], 2), (0, vec![3], 1), (2, vec![0, 1, 3], 1), (3, vec![0], 3)];
        let text = demands::plan(&topology, &groups).to_string();
        let mut plan = Plan::read(text.as_bytes(), "p").expect("readable");
        crate::naive::claim(&mut plan);
        let name = format!("custom on {}", topology.to_compact());
        cases.push(Case { name, topology, plan, groups: Some(groups) });
    }
    cases
}

/// The plan with these prices, and the bounds and the cost that it claims.
fn claiming(plan: &Value, prices: &[i64], cost_prices: &[i64], claims: [&Rational; 3]) -> Value {
    let mut plan = plan.clone();
    let [bound, cost, least] = claims.map(ToString::to_string);
    let claim = &mut plan["claim"];
    claim["certificate"] = json!({"kind": "dual", "prices": prices, "cost_prices": cost_prices});
    (claim["lower_bound"], claim["cost"], claim["cost_lower_bound"]) = (json!(bound), json!(cost), json!(least));
    plan
}

/// Is the plan accepted, with nothing taken on trust?
fn accepted(plan: &Value) -> bool {
    Plan::read(plan.to_string().as_bytes(), "p").is_ok_and(|plan| {
        let report = check(&plan, None);
        assert!(!report.ok() || report.not_rechecked.is_empty(), "{report:?}");
        report.ok()
    })
}

/// Prices with one thing changed, in all the ways there are.
fn changed(prices: &[i64]) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for i in 0..prices.len() {
        for price in [0, prices[i] + 1, 10 * prices[i] + 3] {
            let mut other = prices.to_vec();
            other[i] = price;
            all.push(other);
        }
    }
    let mut turned = prices.to_vec();
    turned.reverse();
    let mut rotated = prices.to_vec();
    rotated.rotate_left(1);
    all.extend([turned, rotated, prices.iter().map(|price| 2 * price).collect(), vec![0; prices.len()]]);
    all.retain(|other| other != prices);
    all
}

#[test]
fn damaged_prices_are_refused_or_prove_what_is_true() {
    let (mut refused, mut true_still) = (0, 0);
    for case in cases() {
        let good: Value = serde_json::from_str(&case.plan.to_text()).expect("JSON");
        let time = case.plan.body.claim.time_per_byte.clone().expect("claimed").value;
        let cost = match case.groups {
            Some(_) => check(&case.plan, None).figures.expect("computed").cost.expect("whole costs"),
            None => by_hops(&case.topology, &case.plan),
        };
        let prices: Vec<i64> = (0..limits(&case.topology) as i64).map(|i| 2 + i % 3).collect();
        // On one link: of plans that take so long more prices prove less, and soon nothing.
        let dear: Vec<i64> = (0..prices.len()).map(|i| i64::from(i == 1)).collect();
        let (bound, least) = (case.time_bound(&prices).expect("proved"), case.cost_bound(&dear, &time));
        assert!(bound <= time && least <= cost, "{}", case.name);
        let name = &case.name;
        assert!(accepted(&claiming(&good, &prices, &dear, [&bound, &cost, &least])), "{name}");
        let mut damage = |what: &str, bad: &Value, truth: bool| match accepted(bad) {
            true => {
                assert!(truth, "{what}: {name}");
                true_still += 1;
            }
            false => refused += 1,
        };
        // Other prices with the same claims.
        for other in changed(&prices) {
            let truth = case.time_bound(&other).as_ref() == Some(&bound);
            damage("a price", &claiming(&good, &other, &dear, [&bound, &cost, &least]), truth);
        }
        for other in changed(&dear) {
            let truth = case.cost_bound(&other, &time) == least;
            damage("a price of cost", &claiming(&good, &prices, &other, [&bound, &cost, &least]), truth);
        }
        // Other claims with the same prices: more, less, none, and one more.
        for factor in [fraction(1_000_001, 1_000_000), fraction(999_999, 1_000_000), fraction(2, 1), Rational::ZERO] {
            for (i, what) in ["bound", "cost", "least cost"].into_iter().enumerate() {
                let mut claims = [bound.clone(), cost.clone(), least.clone()];
                let truth = &claims[i] * &factor == claims[i];
                claims[i] = &claims[i] * &factor;
                damage(what, &claiming(&good, &prices, &dear, claims.each_ref()), truth);
            }
        }
        // What is no certificate of prices at all.
        let whole = claiming(&good, &prices, &dear, [&bound, &cost, &least]);
        for key in ["prices", "cost_prices"] {
            for value in [json!([]), json!(vec![1; prices.len() + 1]), json!(vec!["-1"; prices.len()]), json!(["dear"])]
            {
                let mut bad = whole.clone();
                bad["claim"]["certificate"][key] = value;
                damage(key, &bad, false);
            }
        }
        let mut bad = whole.clone();
        bad["claim"]["certificate"]["kind"] = json!("bandwidth");
        damage("prices of another kind", &bad, false);
        if !least.is_zero() {
            let mut bad = whole.clone();
            bad["claim"]["certificate"].as_object_mut().expect("one").remove("cost_prices");
            damage("no prices of cost", &bad, false);
        }
    }
    println!("prices: {refused} damaged certificates refused, {true_still} prove the same");
    assert!(refused >= 300, "{refused}");
}

#[test]
fn the_memory_in_the_middle_has_known_figures() {
    // Four GPUs at 10 around a memory of 24 in all: 2/3, 1 and 5/12 for each unit, of which M has 4, 4 and 1.
    let topology = memory();
    let group = [vec![Rational::ZERO; 8], vec![Rational::ONE]].concat();
    let certificate = Certificate { prices: Some(group.clone()), ..Certificate::new(CertificateKind::Dual) };
    for (collective, bound) in
        [(Collective::AllGather, (1, 6)), (Collective::AllToAll, (1, 4)), (Collective::AllReduce, (5, 12))]
    {
        let proved = proves(&plan_of(&topology, collective), &topology, &certificate);
        assert_eq!(proved, Ok(Some(fraction(bound.0, bound.1))), "{}", collective.word());
    }
    let free = Certificate { cost_prices: Some(vec![Rational::ZERO; 9]), ..Certificate::new(CertificateKind::None) };
    for (collective, cost) in [(Collective::AllGather, 16), (Collective::AllToAll, 24)] {
        let proved = proves_cost(&plan_of(&topology, collective), &topology, &free);
        assert_eq!(proved, Ok(Some(fraction(cost, 1))), "{}", collective.word());
    }
}

#[test]
fn more_than_twelve_memories_are_rechecked() {
    // Thirteen more memories behind the one in the middle, which help nobody.
    let topology = edited(&memory(), |file| {
        for i in 0..13 {
            let id = format!("x{i}");
            file["nodes"].as_array_mut().expect("nodes").push(json!({"id": id, "kind": "memory"}));
            let link = json!({"from": "m", "to": id, "capacity": "5", "duplex": true});
            file["links"].as_array_mut().expect("links").push(link);
        }
    });
    let count = limits(&topology);
    assert_eq!(count, 8 + 26 + 1);
    let mut prices = vec![Rational::ZERO; count];
    prices[count - 1] = Rational::ONE;
    let plan = plan_of(&topology, Collective::AllGather);
    let certificate = Certificate {
        prices: Some(prices.clone()),
        cost_prices: Some(vec![Rational::ZERO; count]),
        ..Certificate::new(CertificateKind::Dual)
    };
    assert_eq!(proves(&plan, &topology, &certificate), Ok(Some(fraction(1, 6))));
    assert_eq!(proves_cost(&plan, &topology, &certificate), Ok(Some(fraction(16, 1))));
    let mut claimed: Value = serde_json::from_str(&plan.to_text()).expect("JSON");
    claimed["claim"]["lower_bound"] = json!("1/6");
    claimed["claim"]["cost_lower_bound"] = json!("16");
    claimed["claim"]["certificate"] = json!({"kind": "dual", "prices": prices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "cost_prices": vec![0; count]});
    assert!(accepted(&claimed));
    claimed["claim"]["lower_bound"] = json!("1/5");
    assert!(!accepted(&claimed));
}

/// `cargo test -p sluice-plan --release --test checker -- --ignored --nocapture rails`
#[test]
#[ignore = "a measurement"]
fn certificates_of_boxes_on_rails() {
    use sluice_formats::topology::r#gen::{Variant, dgx_a100_rail};
    for nodes in [2, 4, 8, 16, 32] {
        for variant in [Variant::Pcie, Variant::All] {
            let topology = dgx_a100_rail(nodes, variant).expect("valid");
            let plan = crate::naive::trees(&topology, Collective::AllGather);
            let certificate = |price: fn(usize) -> i64| Certificate {
                prices: Some(vec![Rational::ONE; limits(&topology)]),
                cost_prices: Some((0..limits(&topology)).map(|i| fraction(price(i), 7)).collect()),
                ..Certificate::new(CertificateKind::Dual)
            };
            for (what, price) in [("no price", (|_| 0) as fn(usize) -> i64), ("odd prices", |i| (i * 31 % 11) as i64)] {
                let begin = std::time::Instant::now();
                let proved = proves_cost(&plan, &topology, &certificate(price)).expect("prices");
                println!("{} GPUs, {variant:?}, {what}: {proved:?} in {:?}", 8 * nodes, begin.elapsed());
            }
        }
    }
}
