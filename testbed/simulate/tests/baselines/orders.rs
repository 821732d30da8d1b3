//! Given orders, and the best of all, against the worked examples and the reference point.

use sluice_scenario::{Notation, Scenario};
use sluice_simulate::policy::static_order::{StaticOrder, best_order};
use sluice_simulate::{SimError, Watch, run};

use super::{jcts, mean};

fn mean_under(scenario: &Scenario, order: &[String]) -> Result<f64, SimError> {
    run(scenario, &mut StaticOrder::new(order), &Watch::default()).map(|o| mean(&jcts(&o)))
}

fn exact(value: &serde_json::Value) -> f64 {
    let text = value.as_str().unwrap_or("nothing");
    let (a, b) = text.split_once('/').unwrap_or((text, "1"));
    a.parse::<f64>().expect("a number") / b.parse::<f64>().expect("a number")
}

#[test]
fn best_orders_of_the_worked_examples() {
    let file: serde_json::Value = serde_json::from_str(include_str!("../vectors/simulation.json")).expect("vectors");
    for v in file["vectors"].as_array().expect("a list") {
        let text = v["scenario"].to_string();
        let s = Scenario::parse(&text, Notation::Json, "v.json", std::path::Path::new(".")).expect("a scenario");
        let ids: Vec<String> = s.jobs.iter().map(|j| j.id.clone()).collect();
        let want = &v["ideal_order"];
        let best = best_order(&ids, |order| {
            let mean = mean_under(&s, order)?;
            let known = exact(&want["mean_jct_by_order"][order.join(",")]);
            assert!((mean - known).abs() < 1e-6, "{} {order:?}: {mean} {known}", v["name"]);
            Ok::<f64, SimError>(mean)
        });
        let (order, mean) = best.expect("an order");
        let listed: Vec<&str> = want["order"].as_array().expect("ids").iter().filter_map(|i| i.as_str()).collect();
        assert_eq!(order, listed, "{}", v["name"]);
        assert!((mean - exact(&want["mean_jct"])).abs() < 1e-6);
    }
}

/// The shipped scenario files of the reference point: mean JCT of the best order, and which order it is.
#[test]
fn best_order_of_the_fixed_mix() {
    for (file, want) in [
        ("fixed-mix-10g", 8.685),
        ("fixed-mix-10g-full", 11.571),
        ("fixed-mix-25g", 4.061),
        ("fixed-mix-25g-full", 7.142),
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../scenarios/{file}.toml"));
        let s = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let ids: Vec<String> = s.jobs.iter().map(|j| j.id.clone()).collect();
        let (order, mean) = best_order(&ids, |o| mean_under(&s, o)).expect("an order");
        assert_eq!(order, ["resnet50", "vgg16", "vgg19", "gpt2"], "{file}");
        assert!((mean - want).abs() < 5.1e-4, "{file}: {mean} {want}");
    }
}
