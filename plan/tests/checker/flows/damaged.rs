//! Plans of flows with one thing wrong: all are refused, or still right.

use serde_json::{Value, json};
use sluice_plan::plan::Plan;

use super::{code, naive, order, priority, random, rates, recomputed, weights};
use crate::scene::refused;

/// Plans with one thing changed, and what it is.
fn damage(good: &Value) -> Vec<(String, Value)> {
    let mut damaged = Vec::new();
    let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        edit(&mut bad);
        if bad != *good {
            damaged.push((what, bad));
        }
    };
    let flows = good["content"]["flows"].as_array().expect("flows");
    for (i, flow) in flows.iter().enumerate() {
        let order = flow["order"].as_u64().expect("an order");
        let mut values = vec![
            ("src", flow["dst"].clone()),
            ("dst", flow["src"].clone()),
            ("src", json!("nobody")),
            ("path", json!([])),
            ("path", json!([99])),
            ("path", json!([flow["path"][0].as_u64().expect("a link") + 1])),
            ("path", json!([flow["path"][0], flow["path"][0]])),
            ("size", json!("0B")),
            ("size", json!("1TB")),
            ("size", json!("1B")),
            ("size", json!("100001kB")),
            ("order", json!(order + 1)),
            ("order", json!(9)),
            ("group", json!(7)),
            ("collective", json!(7)),
            ("id", flows[(i + 1) % 3]["id"].clone()),
            ("release_s", json!(-1)),
            ("release_s", json!(1.5)),
            ("release_s", json!(1_000)),
            ("release_s", json!(1e30)),
            ("pred", json!([12_345])),
            ("pred", json!([flow["id"]])),
            ("rank", json!(3)),
            ("start_s", json!(0.5)),
            ("start_s", json!(-1)),
            ("rate", json!("0MB/s")),
            ("rate", json!("-1MB/s")),
            ("rate", json!("unlimited")),
            ("rate", json!("19MB/s")),
            ("rate", json!("70MB/s")),
            ("rate", json!("200MB/s")),
        ];
        if order != 3 {
            values.push(("pred", json!([flow["id"].as_u64().expect("an id") + 1])));
        }
        if let Some(start) = flow["start_s"].as_f64() {
            values.extend([0.5, -0.5, 1.0, 1e6].map(|by| ("start_s", json!(start + by))));
        }
        for (key, value) in values {
            add(format!("flow {i} {key} {value}"), &|bad| bad["content"]["flows"][i][key] = value.clone());
        }
        for key in ["rank", "start_s", "rate", "pred"] {
            add(format!("flow {i} without {key}"), &|bad| {
                bad["content"]["flows"][i].as_object_mut().expect("a flow").remove(key);
            });
        }
        add(format!("flow {i} gone"), &|bad| drop(bad["content"]["flows"].as_array_mut().expect("flows").remove(i)));
    }
    for (key, value) in [
        ("T", json!([1, 2, 3])),
        ("T", json!([0.5, 8])),
        ("T_mean_s", json!(0.5)),
        ("T_mean_s", json!(26.5)),
        ("lower_bound", json!("1")),
        ("time_per_byte", json!("1")),
        ("finish_epochs", json!(1)),
        ("optimal", json!(true)),
        ("certificate", json!({"kind": "cut", "nodes": ["a"]})),
        ("certificate", json!({"kind": "distance"})),
        ("certificate", json!({"kind": "completion"})),
    ] {
        add(format!("claims {key} {value}"), &|bad| bad["claim"][key] = value.clone());
    }
    for (_, other) in random::EXECUTIONS {
        add(format!("carried out as {other}"), &|bad| bad["content"]["execution"] = json!(other));
    }
    for i in 0..good["content"]["groups"].as_array().map_or(0, Vec::len) {
        for weight in [json!(0), json!(-1), json!("0.9"), json!("1/100000000000000000000")] {
            add(format!("group {i} weighs {weight}"), &|bad| bad["content"]["groups"][i]["weight"] = weight.clone());
        }
        add(format!("group {i} gone"), &|bad| drop(bad["content"]["groups"].as_array_mut().expect("groups").remove(i)));
        add(format!("group {i} twice"), &|bad| {
            let groups = bad["content"]["groups"].as_array_mut().expect("groups");
            groups.push(groups[i].clone());
        });
    }
    add("no flows".into(), &|bad| bad["content"]["flows"] = json!([]));
    add("a collective of another name".into(), &|bad| bad["collective"] = json!("allgather"));
    damaged
}

/// Are the claimed times those of a plain replay?
fn still_right(plan: &Value) -> bool {
    let times = naive::times(plan);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let claimed: Vec<f64> =
        plan["claim"]["T"].as_array().expect("T").iter().map(|time| time.as_f64().expect("a number")).collect();
    claimed.len() == times.len()
        && claimed.iter().zip(&times).all(|(a, b)| naive::same(*a, *b))
        && naive::same(plan["claim"]["T_mean_s"].as_f64().expect("a mean"), mean)
}

#[test]
fn every_damaged_plan_of_flows_is_refused_or_still_right() {
    let as_other = |good: Value, execution: &str| {
        let mut plan = good;
        plan["content"]["execution"] = json!(execution);
        random::claiming(plan)
    };
    let good = [
        rates(),
        as_other(rates(), "work_conserving"),
        weights(),
        as_other(weights(), "work_conserving"),
        as_other(weights(), "max_min"),
        order(),
        priority(),
        recomputed(),
    ];
    for good in good {
        let name = format!("{} {}", good["content"]["kind"], good["content"]["execution"]);
        assert_eq!(code(&good), None, "{name}");
        let damaged = damage(&good);
        let mut count = 0;
        for (what, bad) in &damaged {
            if refused(&bad.to_string()) {
                count += 1;
            } else {
                assert!(still_right(bad), "{name}: {what}");
            }
        }
        println!("{name}: {count} of {} damaged plans refused, the others are right", damaged.len());
        assert!(count >= 300, "{name}: {count} of {}", damaged.len());
    }
}

#[test]
fn bytes_that_are_damaged_panic_nowhere() {
    let mut draw = random::Draw(1);
    for good in [rates(), weights(), order(), priority()] {
        let text = good.to_string().into_bytes();
        for _ in 0..300 {
            let mut bad = text.clone();
            for _ in 0..1 + draw.below(3) {
                let at = draw.below(bad.len());
                bad[at] = b"0123456789-.,:\"[]{}eE/ax"[draw.below(24)];
            }
            if let Ok(plan) = Plan::read(&bad, "p") {
                let _ = sluice_plan::check::check(&plan, None);
            }
        }
    }
}
