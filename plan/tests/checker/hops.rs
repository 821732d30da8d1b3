//! Switches that copy or add up: the load they save, and hops that cannot be.

use serde_json::{Value, json};
use sluice_formats::topology::r#gen::star;
use sluice_formats::topology::{Topology, sha256_hex};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Collective, Direction, Hop, Plan};

use crate::naive;
use crate::scene::{OF_TREES, edited, forests, fraction, on, refused};

/// An all-reduce over a switch that copies and adds up: one stream up and one down per node and tree.
pub fn through_the_switch(collective: Collective) -> (Topology, Plan) {
    let plain = star(&["3"; 6]).expect("valid");
    let topology = edited(&plain, |file| file["nodes"][6]["can"] = json!({"multicast": true, "aggregate": true}));
    let mut plan = naive::trees(&topology, collective);
    let ids: Vec<_> = (0..6).map(|i| plan.names.intern(&format!("n{i}"))).collect();
    let switch = plan.names.intern("sw");
    for forest in &mut forests(&mut plan).forests {
        for tree in &mut forest.trees {
            let root = tree.root;
            let others = ids.iter().filter(|id| **id != root);
            tree.hops = Some(match forest.direction {
                Direction::Out => std::iter::once(Hop(root, switch)).chain(others.map(|id| Hop(switch, *id))).collect(),
                Direction::In => others.map(|id| Hop(*id, switch)).chain([Hop(switch, root)]).collect(),
            });
        }
    }
    plan.body.claim = Default::default();
    naive::claim(&mut plan);
    (topology, plan)
}

#[test]
fn switches_that_copy_or_add_up_lower_the_load() {
    let time = |collective| through_the_switch(collective).1.body.claim.time_per_byte.expect("claimed").value;
    assert_eq!(time(Collective::Broadcast), fraction(1, 3), "once up, once down, instead of five times up");
    assert_eq!(time(Collective::Reduce), fraction(1, 3));
    assert_eq!(time(Collective::AllGather), fraction(5, 18), "what everybody must take in stays");
    // Each node sends its five parts and, as a root, gets one; then the other way round: 6 of 6 both ways.
    assert_eq!(time(Collective::AllReduce), fraction(6, 18));
}

#[test]
fn every_damaged_hop_is_refused() {
    let mut count = 0;
    for collective in OF_TREES {
        let (topology, plan) = through_the_switch(collective);
        let able = |can: Value| on(&plan, &edited(&topology, |file| file["nodes"][6]["can"] = can.clone()));
        let needs = match collective {
            Collective::AllGather | Collective::Broadcast => vec![json!({"aggregate": true})],
            Collective::ReduceScatter | Collective::Reduce => vec![json!({"multicast": true})],
            _ => vec![json!({"aggregate": true}), json!({"multicast": true})],
        };
        for can in needs {
            let report = check(&able(can.clone()), None);
            assert_eq!(report.violation.expect("unable").code, Code::HopUnbalanced, "{can}");
        }
        let good: Value = serde_json::from_str(&plan.to_text()).expect("JSON");
        assert!(!refused(&good.to_string()));
        for (f, forest) in good["content"]["forests"].as_array().expect("forests").iter().enumerate() {
            for (t, tree) in forest["trees"].as_array().expect("trees").iter().enumerate() {
                for h in 0..tree["hops"].as_array().expect("hops").len() {
                    let mut bad = vec![good.clone(); 5];
                    let hops = |bad: &mut Value| {
                        std::mem::take(bad["content"]["forests"][f]["trees"][t]["hops"].as_array_mut().expect("hops"))
                    };
                    for (what, bad) in bad.iter_mut().enumerate() {
                        let mut list = hops(bad);
                        match what {
                            0 => drop(list.remove(h)),
                            1 => list.push(list[h].clone()),
                            2 => list[h].as_array_mut().expect("a hop").reverse(),
                            3 => list[h][0] = list[h][1].clone(),
                            _ => list[h][1] = json!("nobody"),
                        }
                        bad["content"]["forests"][f]["trees"][t]["hops"] = Value::Array(list);
                        assert!(refused(&bad.to_string()), "{} forest {f} tree {t} hop {h}: {what}", collective.word());
                        count += 1;
                    }
                }
            }
        }
    }
    println!("hops: {count} damaged plans refused");
    assert!(count >= 300);
}

#[test]
fn hops_of_a_circle_without_source_are_refused() {
    // n0 → n1 is fine; s2 and s3 send each other what neither ever got, and n2 would live on it.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"n0","kind":"gpu"},{"id":"n1","kind":"gpu"},
        {"id":"n2","kind":"gpu"},{"id":"s2","kind":"switch","can":{"multicast":true}},{"id":"s3","kind":"switch"}],
        "links":[{"from":"n0","to":"n1","capacity":"1"},{"from":"n0","to":"n2","capacity":"1"},
        {"from":"s2","to":"s3","capacity":"1","duplex":true},{"from":"s2","to":"n2","capacity":"1"}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let plan = format!(
        r#"{{"sluice_plan":1,"collective":"broadcast","root":"n0","claim":{{}},"topology":{{"sha256":"{}"}},
        "content":{{"kind":"trees","forests":[{{"direction":"out","k":1,"trees":[{{"root":"n0","weight":1,
        "edges":[{{"src":"n0","dst":"n1","path":["n0","n1"]}},{{"src":"n0","dst":"n2","path":["n0","n2"]}}],
        "hops":[["n0","n1"],["s2","s3"],["s3","s2"],["s2","n2"]]}}]}}]}}}}"#,
        sha256_hex(topology.to_compact().as_bytes())
    );
    let plan = Plan::read(plan.as_bytes(), "p").expect("readable");
    let violation = check(&plan, Some(&topology)).violation.expect("nothing comes to s2");
    assert_eq!((violation.code, violation.at.as_str()), (Code::HopWithoutData, "/content/forests/0/trees/0/hops/1"));
}
