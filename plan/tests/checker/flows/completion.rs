//! Certificates of kind `completion`: textbook optima, bounds that no execution beats, and every fault.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::complete;
use sluice_plan::check::{Code, check, proves};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, CompletionRow, Plan};

use super::{code, naive, plan, random};

/// One link of 2 MB/s, and one flow for each collective, of so many MB; one after the other as they stand.
fn line(sizes: &[u64]) -> Value {
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"site"},{"id":"b","kind":"site"}],
        "links":[{"from":"a","to":"b","capacity":"2MB/s"},{"from":"b","to":"a","capacity":"unlimited"},
        {"from":"b","to":"a","capacity":"3MB/s"}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let (mut flows, mut times, mut now) = (Vec::new(), Vec::new(), 0.0);
    for (k, size) in sizes.iter().enumerate() {
        flows.push(json!({"id": k, "collective": k, "group": 0, "order": 0, "src": "a", "dst": "b",
            "size": format!("{size}MB"), "path": [0], "start_s": now}));
        now += *size as f64 / 2.0;
        times.push(now);
    }
    let claim = json!({"T": times, "T_mean_s": times.iter().sum::<f64>() / sizes.len() as f64});
    plan(&topology, json!({"kind": "order", "execution": "order_preserving", "flows": flows}), claim)
}

fn certified(mut plan: Value, bound: &str, rows: Value) -> Value {
    plan["claim"]["lower_bound"] = json!(bound);
    plan["claim"]["certificate"] = json!({"kind": "completion", "rows": rows});
    plan
}

#[test]
fn shortest_first_on_one_link_is_proved_to_be_the_best() {
    // Needs of 0.5, 2 and 4.5 s, which end after 0.5, 2.5 and 7 s: 10/3 s on average.
    let rows = json!([{"link": 0, "collectives": [0, 1, 2], "price": "2/27"},
        {"link": 0, "collectives": [0, 1], "price": "5/54"}, {"link": 0, "collectives": [0], "price": "1/2"}]);
    let mut plan = certified(line(&[1, 4, 9]), "10/3", rows);
    plan["claim"]["optimal"] = json!(true);
    let report = check(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"), None);
    assert_eq!(report.violation, None);
    assert!(
        report.proved.contains(&"no plan is faster than 3.333333 s on average (`completion`)".to_owned()),
        "{report:?}"
    );
    assert!(report.proved.contains(&"the plan is optimal".to_owned()));
    // What the rows leave of 1/3 counts for the flow alone: half a second.
    plan["claim"]["certificate"]["rows"].as_array_mut().expect("rows").pop();
    assert_eq!(code(&plan), None);
    // Longest first is not the best.
    let mut plan = certified(line(&[9, 4, 1]), "1", json!([]));
    plan["claim"]["optimal"] = json!(true);
    assert_eq!(code(&plan), Some(Code::NotOptimal), "every flow alone proves 7/3");
}

#[test]
fn claims_may_be_lower_than_what_is_proved_and_not_higher() {
    let rows = json!([{"link": 0, "collectives": [0, 1], "price": "1/2"}]);
    let of = |bound: &str| code(&certified(line(&[2, 2]), bound, rows.clone()));
    assert_eq!([of("1.5"), of("1.4"), of("1.500001"), of("0")], [None; 4]);
    assert_eq!([of("1.50001"), of("1.6")], [Some(Code::WrongBound); 2]);
    // Not even the bound of the checker is above what the plan takes.
    let mut wrong = certified(line(&[2, 2]), "1.5", rows.clone());
    wrong["claim"]["certificate"] = json!({"kind": "solver"});
    wrong["claim"]["lower_bound"] = json!("1.6");
    assert_eq!(code(&wrong), Some(Code::BoundAboveTime));
}

#[test]
fn every_fault_is_found() {
    let row = json!({"link": 0, "collectives": [0, 1], "price": "1/2"});
    let of = |key: &str, value: Value| {
        let mut row = row.clone();
        row[key] = value;
        code(&certified(line(&[2, 2]), "0", json!([row])))
    };
    let bad = Some(Code::BadCertificate);
    assert_eq!(of("price", json!("1/2")), None);
    assert_eq!(of("price", json!("-1/1000000000000")), bad, "a price below zero");
    assert_eq!(of("price", json!("0.500001")), bad, "more than the share of a collective");
    assert_eq!(of("price", json!("0.5000000001")), None, "rounding of a solver");
    assert_eq!(of("price", json!(format!("1{}", "0".repeat(60)))), Some(Code::TooFine));
    assert_eq!(of("link", json!(99)), bad, "no such link");
    assert_eq!(of("link", json!(1)), bad, "a link without limit");
    assert_eq!(of("link", json!(2)), bad, "a link that nobody takes");
    assert_eq!(of("collectives", json!([0, 7])), bad, "no such collective");
    assert_eq!(of("collectives", json!([0, 0])), bad, "the same twice");
    assert_eq!(of("collectives", json!([])), bad, "none");
    let with = |certificate: Value| {
        let mut plan = line(&[2, 2]);
        plan["claim"]["certificate"] = certificate;
        code(&plan)
    };
    assert_eq!(with(json!({"kind": "completion"})), bad, "without rows");
    assert_eq!(with(json!({"kind": "solver", "rows": [row]})), bad, "rows of another kind");
    assert_eq!(with(json!({"kind": "completion", "rows": [row], "prices": [1]})), bad);
    assert_eq!(with(json!({"kind": "completion", "rows": [row], "cost_prices": [1]})), bad);
    assert_eq!(with(json!({"kind": "completion", "rows": [], "nodes": ["a"]})), bad);
    // Two rows whose prices are too high together.
    assert_eq!(code(&certified(line(&[2, 2]), "0", json!([row, row]))), bad);
    // Plans of other kinds have no mean of completion times.
    let mut plan = crate::step_plans::of_steps(&complete(4, "1").expect("valid"), Collective::AllGather);
    plan["claim"]["certificate"] = json!({"kind": "completion", "rows": []});
    assert_eq!(code(&plan), bad);
}

/// A row for every link and set of collectives on it, at random prices that leave something of every share.
fn rows(draw: &mut random::Draw, value: &Value) -> Vec<CompletionRow> {
    let flows = value["content"]["flows"].as_array().expect("flows");
    let of = naive::Naive::new(value);
    let mut rows: Vec<(CompletionRow, f64)> = Vec::new();
    let numbers: BTreeSet<u64> = flows.iter().filter_map(|flow| flow["collective"].as_u64()).collect();
    for link in 0..of.capacities().len() {
        if !of.capacities()[link].is_finite() {
            continue;
        }
        let on: Vec<u64> = numbers.iter().copied().filter(|k| of.volume(*k, link) > 0.0).collect();
        for set in 1_u32..1 << on.len() {
            let collectives = on.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, k)| *k).collect();
            let price = draw.part();
            rows.push((CompletionRow { collectives, link: link as u32, price: Rational::ZERO }, price));
        }
    }
    // The most that any collective is asked for comes to its share.
    let need = |k: u64, link: u32| of.volume(k, link as usize) / of.capacities()[link as usize];
    let asked = |k: &u64| {
        rows.iter()
            .filter(|(row, _)| row.collectives.contains(k))
            .map(|(row, price)| price * need(*k, row.link))
            .sum::<f64>()
    };
    let most = numbers.iter().map(asked).fold(0.0, f64::max) * numbers.len() as f64;
    let scaled = rows.iter().map(|(row, price)| {
        let price = if most > 0.0 { price / most * 0.999_999 } else { 0.0 };
        CompletionRow { price: price.try_into().expect("a number"), ..row.clone() }
    });
    scaled.collect()
}

/// The bound in floats.
fn bound(value: &Value, rows: &[CompletionRow]) -> f64 {
    let of = naive::Naive::new(value);
    let alone = of.alone_by_collective();
    let need = |k: u64, link: u32| of.volume(k, link as usize) / of.capacities()[link as usize];
    let mut bound = 0.0;
    let mut left: BTreeMap<u64, f64> = alone.keys().map(|k| (*k, 1.0 / alone.len() as f64)).collect();
    for row in rows {
        let price = row.price.to_f64();
        let needs: Vec<f64> = row.collectives.iter().map(|k| need(*k, row.link)).collect();
        let sum: f64 = needs.iter().sum();
        bound += price * (sum * sum + needs.iter().map(|need| need * need).sum::<f64>()) / 2.0;
        for (k, need) in row.collectives.iter().zip(needs) {
            *left.get_mut(k).expect("a collective") -= price * need;
        }
    }
    bound + left.iter().map(|(k, left)| left * alone[k]).sum::<f64>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn no_execution_beats_what_rows_prove(seed: u64) {
        for (kind, execution) in random::EXECUTIONS {
            let value = random::random(seed, kind, execution);
            let plan = Plan::read(value.to_string().as_bytes(), "p").expect("readable");
            let rows = rows(&mut random::Draw(seed), &value);
            let plainly = bound(&value, &rows);
            let certificate = Certificate { rows: Some(rows), ..Certificate::new(CertificateKind::Completion) };
            let topology = Topology::build((**plan.body.topology.inline.as_ref().expect("inline")).clone(), "t").expect("valid");
            let proved = proves(&plan, &topology, &certificate).expect("a certificate").expect("rechecked").to_f64();
            prop_assert!(naive::same(proved, plainly), "{} and {}", proved, plainly);
            let times = naive::times(&value);
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            prop_assert!(proved <= mean * (1.0 + 1e-9), "{} {}: {} proved, {} taken", kind, execution, proved, mean);
        }
    }
}
