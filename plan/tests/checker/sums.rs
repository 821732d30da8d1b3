//! Sends that add up: worked examples of every collective that has sums, what is wrong with those that are, and bounds,
//! which are those of the copies over links turned round.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use crate::epochs::{code, edited_send, finish, gpus, on, plan, proved, send, star, turned};
use crate::gateway::{Lanes, greedy, wanted};
use crate::scene::edited;

/// A send that adds up.
fn sum(src: usize, chunk: u64, from: usize, to: usize, epoch: u64) -> Value {
    let mut send = send(src, chunk, from, to, epoch);
    send["op"] = json!("reduce");
    send
}

/// Three in a row, 0.7 µs apart: the outer ones send through the middle, which adds its own.
fn row(collective: &str) -> Value {
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let mut sends = vec![sum(0, 0, 2, 1, 0), sum(0, 0, 1, 0, 2)];
    if collective != "reduce" {
        sends.extend([sum(1, 0, 0, 1, 0), sum(1, 0, 2, 1, 1), sum(2, 0, 0, 1, 1), sum(2, 0, 1, 2, 3)]);
    }
    if collective == "allreduce" {
        sends.extend([send(1, 0, 1, 0, 3), send(1, 0, 1, 2, 4), send(0, 0, 0, 1, 4), send(0, 0, 1, 2, 6)]);
        sends.extend([send(2, 0, 2, 1, 5), send(2, 0, 1, 0, 7)]);
    }
    plan(&topology, collective, sends)
}

/// Sends of `n1` and `n2` to `n0` through a switch, in these epochs.
fn through_a_switch(can: Value, into: [u64; 2], out: &[u64]) -> Value {
    let topology = edited(&star(3), |file| file["nodes"][3]["can"] = can.clone());
    let mut sends = vec![sum(0, 0, 1, 3, into[0]), sum(0, 0, 2, 3, into[1])];
    sends.extend(out.iter().map(|epoch| sum(0, 0, 3, 0, *epoch)));
    plan(&topology, "reduce", sends)
}

#[test]
fn every_input_counts_once() {
    // One epoch to push a chunk through and one for the latency: usable from epoch 2, complete by the end of epoch 3.
    assert_eq!(finish(&row("reduce")), 4);
    assert_eq!(finish(&row("reduce_scatter")), 5);
    assert_eq!(finish(&row("allreduce")), 9);
    let said = |plan: &Value| {
        let read = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        check(&read, None).proved[1].clone()
    };
    assert_eq!(said(&row("reduce")), "all 1 sums are complete, with every input once, by 2 sends, in 4 epochs");
    assert_eq!(
        said(&row("allreduce")),
        "all 3 sums are complete, with every input once, and all 6 demands for them are met by 12 sends, in 9 epochs"
    );
    // The middle sends before the outer one's is there, and again when it is: no input is lost, and none counts twice.
    let mut twice = row("reduce");
    twice["content"]["sends"].as_array_mut().expect("sends").push(sum(0, 0, 1, 0, 0));
    assert_eq!(finish(&twice), 4);
    // Away from where it is wanted, and back with the rest.
    let mut round = row("reduce");
    round["content"]["sends"] = json!([sum(0, 0, 1, 2, 0), sum(0, 0, 2, 1, 2), sum(0, 0, 1, 0, 4)]);
    assert_eq!(finish(&round), 6);
}

#[test]
fn switches_add_up_or_pass_on() {
    let able = || json!({"reduce": true});
    let unable = || json!({"reduce": false});
    assert_eq!(finish(&through_a_switch(able(), [0, 0], &[1])), 2);
    assert_eq!(finish(&through_a_switch(unable(), [0, 1], &[1, 2])), 3);
    // A copying switch adds nothing up.
    assert_eq!(code(&through_a_switch(json!({"copy": true}), [0, 0], &[1])), Some(Code::HopUnbalanced));
    assert_eq!(code(&through_a_switch(unable(), [0, 0], &[1])), Some(Code::HopUnbalanced));
    assert_eq!(code(&through_a_switch(able(), [0, 0], &[2])), Some(Code::HopUnbalanced), "it cannot store");
    assert_eq!(code(&through_a_switch(able(), [0, 1], &[1])), Some(Code::HopUnbalanced));
    assert_eq!(code(&through_a_switch(able(), [0, 0], &[1, 2])), Some(Code::HopWithoutData));
    assert_eq!(code(&through_a_switch(able(), [0, 0], &[0])), Some(Code::HopWithoutData));
    // With a free second hop the sum is there in the very epoch in which the switch passes it on, and goes on at once.
    let topology = edited(&gpus(4, &[(0, 1), (1, 3), (2, 3)]), |file| {
        file["nodes"][3] = json!({"id": "n3", "kind": "switch"});
        for link in file["links"].as_array_mut().expect("links") {
            link["latency"] = json!("0us");
        }
    });
    let sends = vec![sum(0, 0, 2, 3, 0), sum(0, 0, 3, 1, 1), sum(0, 0, 1, 0, 1)];
    let mut free = plan(&topology, "reduce", sends);
    assert_eq!(code(&free), Some(Code::MissingData), "n1 has sent before");
    free["content"]["model"]["free_second_hop"] = json!(true);
    assert_eq!(finish(&free), 2);
    // As hyper-edges nothing is added up on the way.
    let via = |from: usize, epoch: u64| {
        let mut send = sum(0, 0, from, 0, epoch);
        send["via"] = json!("n3");
        send
    };
    let hyper = |second: u64| {
        let mut plan = plan(&star(3), "reduce", vec![via(1, 0), via(2, second)]);
        plan["content"]["model"]["hyper_edges"] = json!(true);
        plan
    };
    assert_eq!(finish(&hyper(1)), 2);
    assert_eq!(code(&hyper(0)), Some(Code::Overload));
}

#[test]
fn what_is_wrong_has_its_name() {
    let without = |plan: &Value, place: usize| {
        let mut plan = plan.clone();
        plan["content"]["sends"].as_array_mut().expect("sends").remove(place);
        code(&plan)
    };
    let (reduce, scatter, all) = (row("reduce"), row("reduce_scatter"), row("allreduce"));
    assert_eq!(without(&reduce, 0), Some(Code::MissingData), "n2 keeps its own");
    assert_eq!(without(&scatter, 5), Some(Code::MissingData));
    assert_eq!(without(&all, 0), Some(Code::HopWithoutData), "what n0 copies is no whole sum");
    assert_eq!(without(&all, 11), Some(Code::MissingData), "n0 never gets the third sum");
    let changed = |plan: &Value, place: usize, key: &str, value: Value| code(&edited_send(plan, place, key, value));
    assert_eq!(changed(&reduce, 1, "epoch", json!(1)), Some(Code::MissingData), "n1 sends before n2's is there");
    assert_eq!(changed(&reduce, 0, "op", json!("copy")), Some(Code::BadSend));
    assert_eq!(changed(&all, 6, "op", json!("reduce")), Some(Code::BadSend), "a sum stays where it ends");
    assert_eq!(changed(&all, 6, "epoch", json!(1)), Some(Code::HopWithoutData), "not whole yet");
    assert_eq!(changed(&all, 8, "op", json!("reduce")), Some(Code::BadSend));
    assert_eq!(changed(&all, 9, "op", json!("reduce")), Some(Code::HopWithoutData), "n1 has given it away");
    let mut again = reduce.clone();
    again["content"]["sends"].as_array_mut().expect("sends").push(sum(0, 0, 2, 1, 1));
    assert_eq!(code(&again), Some(Code::HopWithoutData), "n2 has given it away");
    let mut copied = reduce.clone();
    copied["collective"] = json!("broadcast");
    assert_eq!(code(&copied), Some(Code::BadSend));
    // Sends that copy to who has it already are told; those that add up are never in vain.
    let mut useless = all.clone();
    useless["content"]["sends"].as_array_mut().expect("sends").push(send(1, 0, 1, 0, 8));
    let report = check(&Plan::read(useless.to_string().as_bytes(), "p").expect("readable"), None);
    assert_eq!(report.violation, None);
    let warning = "1 of the sends bring nothing that anybody needs, first /content/sends/12";
    assert_eq!(report.warnings, [warning]);
    // What is defined for copies alone.
    let topology = Topology::read(reduce["topology"]["inline"].to_string().as_bytes(), "t").expect("valid");
    let limited = edited(&topology, |file| file["nodes"][1]["buffer"] = json!("25kB"));
    let varying = edited(&topology, |file| file["links"][0]["capacity_per_epoch"] = json!(["25GB/s"]));
    for (key, fabric) in [("buffer", &limited), ("capacity_per_epoch", &varying)] {
        let mut plan = on(&reduce, fabric);
        assert_eq!(code(&plan), Some(Code::UnsupportedField), "{key}");
        plan["ignored"] = json!([key]);
        assert_eq!(code(&plan), None, "{key}");
    }
    let mut cut = reduce.clone();
    cut["content"]["model"]["divisible"] = json!(true);
    assert_eq!(code(&cut), Some(Code::BadModel));
    let mut custom = reduce.clone();
    custom.as_object_mut().expect("an object").remove("root");
    custom["collective"] = json!("custom");
    custom["demands"] = json!({"sluice_demands": 1, "tenants": [{"name": "a", "collective": "reduce", "root": "n0"}]});
    assert_eq!(code(&custom), Some(Code::UnsupportedCollective));
    // A node that cannot add keeps apart what comes, and its own sum is never whole.
    let unable =
        |node: usize| on(&reduce, &edited(&topology, |file| file["nodes"][node]["can"] = json!({"reduce": false})));
    assert_eq!(code(&unable(2)), None, "it only gives");
    assert_eq!(code(&unable(1)), Some(Code::MissingData));
    assert_eq!(code(&unable(0)), Some(Code::MissingData));
}

/// What a certificate of this kind proves of a plan; an error where it proves nothing.
fn bound(plan: &Value, kind: &str) -> Result<u64, Code> {
    proved(plan, &json!({"kind": kind}))
}

/// Directed links as (from, to, GB/s, µs), of which all differ one way and the other.
fn uneven(count: usize, links: &[(usize, usize, &str, &str)], switch: Option<usize>, turned: bool) -> Topology {
    let mut nodes: Vec<Value> = (0..count).map(|i| json!({"id": format!("n{i}"), "kind": "gpu"})).collect();
    if let Some(switch) = switch {
        nodes[switch] = json!({"id": format!("n{switch}"), "kind": "switch", "can": {"copy": true, "reduce": true}});
    }
    let link = |(from, to, gbps, us): &(usize, usize, &str, &str)| {
        let (from, to) = if turned { (to, from) } else { (from, to) };
        json!({"from": format!("n{from}"), "to": format!("n{to}"), "capacity": format!("{gbps}GB/s"),
            "latency": format!("{us}us")})
    };
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": links.iter().map(link).collect::<Vec<_>>()});
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

#[test]
fn bounds_of_sums_are_those_of_copies_over_links_turned_round() {
    let row = [
        (0, 1, "25", "0.7"),
        (1, 0, "12.5", "3"),
        (1, 2, "25", "5"),
        (2, 1, "12.5", "0"),
        (2, 3, "25", "0"),
        (3, 2, "25", "2"),
    ];
    let ring = [(0, 1, "25", "0"), (1, 2, "12.5", "1"), (2, 3, "25", "2"), (3, 0, "25", "0"), (2, 1, "25", "4")];
    let mut different = 0;
    for links in [&row[..], &ring[..]] {
        let (topology, back) = (uneven(4, links, None, false), uneven(4, links, None, true));
        // 25 kB at 25 GB/s are an epoch of 1 µs.
        let lane = |(_, _, gbps, us): &(usize, usize, &str, &str)| {
            (if *gbps == "25" { 1 } else { 2 }, us.parse::<f64>().expect("a number").ceil() as u64)
        };
        let lanes = Lanes(links.iter().map(lane).collect());
        for chunks in 1..4 {
            for (forwards, sums) in [("allgather", "reduce_scatter"), ("broadcast", "reduce")] {
                let schedule = |topology: &Topology| {
                    let mut plan = plan(topology, forwards, greedy(topology, &lanes, &wanted(4, forwards, chunks)).0);
                    plan["content"]["model"]["chunks"] = json!(chunks);
                    plan
                };
                let (copies, turning) = (schedule(&topology), schedule(&back));
                let added = on(&turned(&turning, sums), &topology);
                assert_eq!(finish(&added), finish(&turning), "{sums} of {chunks}");
                for kind in ["distance", "port", "gateway"] {
                    assert_eq!(bound(&added, kind), bound(&turning, kind), "{sums} of {chunks} by {kind}");
                    different += usize::from(bound(&added, kind) != bound(&copies, kind));
                }
                for nodes in [&["n0"][..], &["n0", "n1"], &["n1", "n2", "n3"]] {
                    let cut = json!({"kind": "cut", "nodes": nodes});
                    assert_eq!(proved(&added, &cut), proved(&turning, &cut), "{sums} of {chunks} by {nodes:?}");
                }
            }
        }
    }
    assert!(different > 0, "on these fabrics it matters which way links are read");
}

#[test]
fn bounds_of_an_all_reduce_count_both_halves() {
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let all = row("allreduce");
    assert_eq!(bound(&all, "distance"), Ok(4), "from one end to the other");
    assert_eq!(bound(&all, "port"), Ok(4), "three chunks over one link, each two epochs after its beginning");
    assert_eq!(bound(&all, "gateway"), Err(Code::BadCertificate));
    let cut = proved(&all, &json!({"kind": "cut", "nodes": ["n0"]}));
    assert_eq!(cut, Err(Code::BadCertificate), "it counts one half");
    // Latencies of none, and half as fast: three chunks, each two epochs, one after the other.
    let slow = edited(&topology, |file| {
        for link in file["links"].as_array_mut().expect("links") {
            (link["capacity"], link["latency"]) = (json!("12.5GB/s"), json!("0us"));
        }
    });
    let mut gathered = vec![send(1, 0, 1, 0, 0), send(1, 0, 1, 2, 0), send(0, 0, 0, 1, 0), send(0, 0, 1, 2, 2)];
    gathered.extend([send(2, 0, 2, 1, 0), send(2, 0, 1, 0, 2)]);
    let all = turned(&plan(&slow, "allgather", gathered), "allreduce");
    assert_eq!(finish(&all), 8);
    assert_eq!(bound(&all, "port"), Ok(6));
    assert_eq!(bound(&all, "distance"), Ok(4));
}

#[test]
fn a_bound_that_is_met_proves_the_best() {
    let mut best = row("reduce");
    best["claim"] = json!({"finish_epochs": 4, "finish_us": 4, "lower_bound": "4", "optimal": true,
        "certificate": {"kind": "distance"}});
    assert_eq!(code(&best), None);
    best["claim"]["lower_bound"] = json!("3");
    assert_eq!(code(&best), Some(Code::WrongBound));
    // The first hop out of n2 costs its latency alone nowhere: the switch stands at the other end.
    let links = [(1, 2, "25", "0.7"), (2, 0, "25", "0.7"), (2, 1, "25", "0.7"), (0, 2, "25", "0.7")];
    let topology = uneven(3, &links, Some(2), false);
    let mut free = plan(&topology, "reduce", vec![sum(0, 0, 1, 2, 0), sum(0, 0, 2, 0, 2)]);
    free["content"]["model"]["free_second_hop"] = json!(true);
    assert_eq!((finish(&free), bound(&free, "distance")), (3, Ok(3)));
    assert_eq!((bound(&free, "port"), bound(&free, "gateway")), (Ok(2), Ok(3)));
}
