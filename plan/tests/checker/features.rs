//! What plans of sends can have, one by one: schedules with it, changed in hundreds of ways. The checker and a plain
//! recomputation agree on every one of them, and hundreds of each are refused.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::check;
use sluice_plan::export::{Format, Options, export};
use sluice_plan::plan::Plan;

use crate::changes::{changed, with};
use crate::epochs::{finish, gpus, plan, proved, send, star, turned};
use crate::plain;
use crate::programs::executed;
use crate::scene::edited;

fn modelled(mut plan: Value, key: &str, value: Value) -> Value {
    plan["content"]["model"][key] = value;
    plan
}

/// Node `count` is a switch, with what it can do; all links take one epoch.
fn around(count: usize, can: Value) -> Topology {
    edited(&star(count), |file| file["nodes"][count]["can"] = can.clone())
}

/// An all-gather of three around a switch: by a copying one at once, by another one after the other.
fn through_switches() -> Vec<Value> {
    let copying = around(3, json!({"copy": true, "reduce": true}));
    let plain = around(3, json!({"copy": false, "reduce": false}));
    let mut at_once = Vec::new();
    let mut in_turn = Vec::new();
    for src in 0..3 {
        at_once.push(send(src, 0, src, 3, src as u64));
        for (turn, dst) in (0..3).filter(|dst| *dst != src).enumerate() {
            at_once.push(send(src, 0, 3, dst, src as u64 + 1));
            let epoch = (2 * src + turn) as u64;
            in_turn.extend([send(src, 0, src, 3, epoch), send(src, 0, 3, dst, epoch + 1)]);
        }
    }
    let broadcast = vec![send(0, 0, 0, 3, 0), send(0, 0, 3, 1, 1), send(0, 0, 3, 2, 1)];
    vec![
        plan(&copying, "allgather", at_once),
        plan(&plain, "allgather", in_turn),
        plan(&copying, "broadcast", broadcast),
    ]
}

/// The same with second hops that cost their latency alone.
fn free_second_hops() -> Vec<Value> {
    let free = |plan: Value| modelled(plan, "free_second_hop", json!(true));
    // Two switches in a row, and a GPU behind the second that passes on.
    let row = edited(&gpus(5, &[(0, 3), (3, 4), (4, 1), (1, 2)]), |file| {
        for switch in [3, 4] {
            file["nodes"][switch] = json!({"id": format!("n{switch}"), "kind": "switch"});
        }
    });
    let sends = vec![send(0, 0, 0, 3, 0), send(0, 0, 3, 4, 2), send(0, 0, 4, 1, 4), send(0, 0, 1, 2, 5)];
    let mut all: Vec<Value> = through_switches().into_iter().map(free).collect();
    all.push(free(plan(&row, "broadcast", sends)));
    all
}

fn hyper_edges() -> Vec<Value> {
    let via = |src, chunk, from, to, epoch| with(send(src, chunk, from, to, epoch), json!({"via": "n4"}));
    let hyper = |plan: Value| modelled(plan, "hyper_edges", json!(true));
    let topology = star(4);
    let ring = (0..3).flat_map(|turn| (0..4).map(move |src| (src, turn)));
    let ring = ring.map(|(src, turn)| via(src, 0, (src + turn) % 4, (src + turn + 1) % 4, turn as u64)).collect();
    let pairs = (1..4).flat_map(|shift| (0..4).map(move |src| (src, shift)));
    let pairs = pairs.map(|(src, shift)| {
        let dst = (src + shift) % 4;
        via(src, dst as u64, src, dst, shift as u64 - 1)
    });
    vec![hyper(plan(&topology, "allgather", ring)), hyper(plan(&topology, "alltoall", pairs.collect()))]
}

/// A row of four, whose inner nodes have room for so much of others'.
fn limited_buffers() -> Vec<Value> {
    let room = |bytes: &str| {
        edited(&gpus(4, &[(0, 1), (1, 2), (2, 3)]), |file| {
            for node in [1, 2] {
                file["nodes"][node]["buffer"] = json!(bytes);
            }
            for link in file["links"].as_array_mut().expect("links") {
                link["latency"] = json!("0us");
            }
        })
    };
    let scatter = |wait: u64| {
        let to_three = [send(0, 3, 0, 1, 0), send(0, 3, 1, 2, 1), send(0, 3, 2, 3, 2 + wait)];
        let to_two = [send(0, 2, 0, 1, 1), send(0, 2, 1, 2, 2 + wait)];
        [&to_three[..], &to_two[..], &[send(0, 1, 0, 1, 2)][..]].concat()
    };
    let back = [send(3, 0, 3, 2, 0), send(3, 0, 2, 1, 1), send(3, 0, 1, 0, 3), send(2, 0, 2, 1, 2)];
    let gather = [&back[..], &[send(2, 0, 1, 0, 4), send(1, 0, 1, 0, 0)][..]].concat();
    vec![
        plan(&room("0B"), "scatter", scatter(0)),
        plan(&room("25kB"), "scatter", scatter(2)),
        plan(&room("50kB"), "gather", gather),
    ]
}

fn tenants() -> Vec<Value> {
    let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
    let of = |name: &str, send: Value| with(send, json!({"tenant": name}));
    let sends = vec![
        of("a", send(0, 0, 0, 1, 0)),
        of("a", send(0, 0, 0, 2, 0)),
        of("b", send(0, 0, 0, 1, 1)),
        of("b", send(0, 0, 1, 2, 3)),
        of("b", send(2, 7, 2, 0, 0)),
        of("c", send(1, 0, 1, 2, 0)),
        of("c", send(2, 0, 2, 1, 1)),
    ];
    let mut several = plan(&topology, "custom", sends);
    several["demands"] = json!({"sluice_demands": 1, "tenants": [
        {"name": "a", "collective": "broadcast", "root": "n0"},
        {"name": "b", "weight": 2, "triples": [["n0", 0, "n1"], ["n0", 0, "n2"], ["n2", 7, "n0"]]},
        {"name": "c", "collective": "allgather", "participants": ["n1", "n2"], "chunks": 1}]});
    let mut one = plan(&topology, "custom", vec![send(0, 3, 0, 1, 0), send(0, 3, 1, 2, 2), send(1, 0, 1, 0, 0)]);
    one["demands"] = json!({"sluice_demands": 1, "tenants": [
        {"name": "only", "triples": [["n0", 3, "n1"], ["n0", 3, "n2"], ["n1", 0, "n0"]]}]});
    let sends = vec![
        of("a", send(0, 1, 0, 1, 0)),
        of("a", send(0, 2, 0, 2, 0)),
        of("b", send(0, 1, 0, 1, 1)),
        of("b", send(1, 0, 1, 0, 0)),
        of("b", send(1, 2, 1, 2, 0)),
        of("b", send(2, 1, 2, 1, 0)),
        of("b", send(2, 0, 2, 0, 0)),
        of("b", send(0, 2, 0, 2, 1)),
    ];
    let mut alike = plan(&topology, "custom", sends);
    alike["demands"] = json!({"sluice_demands": 1, "tenants": [
        {"name": "a", "collective": "scatter", "root": "n0"}, {"name": "b", "collective": "alltoall"}]});
    vec![several, one, alike]
}

fn pieces() -> Vec<Value> {
    let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
    let piece = |src, chunk, from, to, epoch, offset: u64, bytes: u64| {
        with(send(src, chunk, from, to, epoch), json!({"offset": offset, "bytes": bytes}))
    };
    let divisible = |plan: Value| modelled(plan, "divisible", json!(true));
    let scatter = vec![
        piece(0, 2, 0, 2, 0, 0, 12_500),
        piece(0, 2, 0, 1, 0, 12_500, 12_500),
        piece(0, 1, 0, 1, 0, 0, 12_500),
        piece(0, 1, 0, 1, 1, 12_500, 12_500),
        piece(0, 2, 1, 2, 2, 12_500, 12_500),
    ];
    // Everybody's for its right neighbour: two fifths the long way, the rest straight.
    let mut around = Vec::new();
    for src in 0..3 {
        let (right, left) = ((src + 1) % 3, (src + 2) % 3);
        around.push(piece(src, right as u64, src, right, 0, 0, 15_000));
        around.push(piece(src, right as u64, src, left, 0, 15_000, 10_000));
        around.push(piece(src, right as u64, left, right, 2, 15_000, 10_000));
        around.push(piece(src, left as u64, src, left, 1, 0, 25_000));
    }
    vec![divisible(plan(&topology, "scatter", scatter)), divisible(plan(&topology, "alltoall", around))]
}

/// Bandwidth that changes from epoch to epoch.
fn varying() -> Vec<Value> {
    let topology = edited(&gpus(3, &[(0, 1), (1, 2)]), |file| {
        file["links"][0]["capacity_per_epoch"] = json!(["50GB/s", "0GB/s", "25GB/s"]);
        file["links"][1]["capacity_per_epoch"] = json!(["25GB/s", "25GB/s", "0GB/s", "0GB/s", "75GB/s"]);
    });
    let mut sends = vec![send(0, 0, 0, 1, 0), send(0, 1, 0, 1, 0), send(0, 2, 0, 1, 2)];
    sends.extend((0..3).map(|chunk| send(0, chunk, 1, 2, 4)));
    let broadcast = modelled(plan(&topology, "broadcast", sends), "chunks", json!(3));
    let sends = vec![
        send(1, 0, 1, 2, 0),
        send(2, 0, 2, 1, 0),
        send(2, 0, 1, 0, 2),
        send(1, 0, 1, 0, 0),
        send(0, 0, 0, 1, 0),
        send(0, 0, 1, 2, 4),
    ];
    vec![broadcast, plan(&topology, "allgather", sends)]
}

fn stragglers() -> Vec<Value> {
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let row = |second: u64, stragglers: Value| {
        let sends = vec![
            send(0, 0, 0, 1, 0),
            send(1, 0, 1, 0, 0),
            send(1, 0, 1, 2, 0),
            send(2, 0, 2, 1, 0),
            send(0, 0, 1, 2, second),
            send(2, 0, 1, 0, second),
        ];
        modelled(plan(&topology, "allgather", sends), "stragglers", stragglers)
    };
    vec![
        row(3, json!([{"link": 0, "beta_mul": 2}, {"link": 2, "alpha_add": 1e-6}])),
        row(6, json!([{"node": "n0", "beta_mul": 3, "alpha_add": 0.000_001}, {"link": 3, "beta_mul": 1.5}])),
    ]
}

/// Sums: a schedule that copies, read backwards, straight and through switches that add up or pass on.
fn sums(collective: &str) -> Vec<Value> {
    let forwards = if collective == "reduce" { "broadcast" } else { "allgather" };
    let row = gpus(3, &[(0, 1), (1, 2)]);
    let mut sends = vec![send(0, 0, 0, 1, 0), send(0, 0, 1, 2, 2)];
    if forwards == "allgather" {
        sends.extend([send(1, 0, 1, 0, 0), send(1, 0, 1, 2, 0), send(2, 0, 2, 1, 0), send(2, 0, 1, 0, 2)]);
    }
    let mut all = vec![plan(&row, forwards, sends)];
    all.extend(through_switches().into_iter().filter(|plan| plan["collective"] == forwards));
    if forwards == "broadcast" {
        let in_turn = vec![send(0, 0, 0, 3, 0), send(0, 0, 3, 1, 1), send(0, 0, 0, 3, 1), send(0, 0, 3, 2, 2)];
        all.push(plan(&star(3), "broadcast", in_turn));
        let hyper = [send(0, 0, 0, 1, 0), send(0, 0, 0, 2, 1)].map(|send| with(send, json!({"via": "n3"})));
        all.push(modelled(plan(&star(3), "broadcast", hyper.into()), "hyper_edges", json!(true)));
    }
    let mut all: Vec<Value> = all.iter().map(|plan| turned(plan, collective)).collect();
    for i in 1..all.len() {
        if all[i]["content"]["model"]["hyper_edges"].is_null() {
            all.push(modelled(all[i].clone(), "free_second_hop", json!(true)));
        }
    }
    all
}

/// Schedules by what they have, all right.
pub fn schedules() -> [(&'static str, Vec<Value>); 11] {
    let mut all = [
        ("switches", through_switches()),
        ("free second hops", free_second_hops()),
        ("hyper-edges", hyper_edges()),
        ("limited buffers", limited_buffers()),
        ("tenants", tenants()),
        ("pieces", pieces()),
        ("bandwidth by epoch", varying()),
        ("stragglers", stragglers()),
        ("reduce-scatter", sums("reduce_scatter")),
        ("reduce", sums("reduce")),
        ("all-reduce", sums("allreduce")),
    ];
    for plan in all.iter_mut().flat_map(|(_, plans)| plans) {
        plan["claim"] = json!({"finish_epochs": finish(plan)});
    }
    all
}

/// Does the checker accept a plan? It must, where it is right and its claim too, and must not where not.
fn accepted(plan: &Value, what: &str) -> bool {
    let Ok(plan) = Plan::read(plan.to_string().as_bytes(), "p") else { return false };
    let (report, ends) = (check(&plan, None), plain::finish(&plan));
    let right = ends.is_some() && ends == plan.body.claim.finish_epochs;
    assert_eq!(report.ok(), right, "{what}: ends {ends:?}, {:?}", report.violation);
    right
}

#[test]
fn the_checker_agrees_with_a_plain_recomputation_on_every_change() {
    for (feature, plans) in schedules() {
        let (mut refused, mut still) = (0, 0);
        for (number, good) in plans.into_iter().enumerate() {
            assert!(accepted(&good, feature), "{feature}, plan {number}");
            for (what, bad) in changed(&good) {
                match accepted(&bad, &format!("{feature}, plan {number}, {what}")) {
                    true => still += 1,
                    false => refused += 1,
                }
            }
        }
        println!("{feature}: {refused} changed plans refused, {still} still right");
        assert!(refused >= 300, "{feature}: {refused}");
    }
}

#[test]
fn no_bound_is_above_what_a_plan_takes() {
    let mut tight = 0;
    for (feature, plans) in schedules() {
        for (number, good) in plans.into_iter().enumerate() {
            let all = std::iter::once(("nothing".into(), good.clone())).chain(changed(&good));
            for (what, mut plan) in all {
                plan["claim"] = json!({});
                let Some(epochs) =
                    Plan::read(plan.to_string().as_bytes(), "p").ok().and_then(|plan| plain::finish(&plan))
                else {
                    continue;
                };
                let cuts = ["n0", "n1", "n2"].map(|node| json!({"kind": "cut", "nodes": [node]}));
                let kinds = ["distance", "port", "gateway"].map(|kind| json!({"kind": kind}));
                for certificate in kinds.into_iter().chain(cuts) {
                    let bound = proved(&plan, &certificate).unwrap_or(0);
                    assert!(
                        bound <= epochs,
                        "{feature}, plan {number}, {what}: {certificate} says {bound} of {epochs}"
                    );
                    tight += usize::from(bound == epochs);
                }
            }
        }
    }
    assert!(tight >= 300, "{tight} bounds are met");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Two changes, or three, so that one can make up for another. What is right still becomes a right program.
    #[test]
    fn and_on_several_changes_at_once(which: Index, changes in proptest::collection::vec(any::<Index>(), 2..4)) {
        let all: Vec<Value> = schedules().into_iter().flat_map(|(_, plans)| plans).collect();
        let mut plan = which.get(&all).clone();
        let mut what = Vec::new();
        for change in changes {
            let mut next = changed(&plan);
            let (name, changed) = next.swap_remove(change.index(next.len()));
            what.push(name);
            plan = changed;
        }
        let what = what.join(", ");
        if accepted(&plan, &what) {
            let _ = executed(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"), &what);
        }
    }

    /// Damaged bytes: whatever can still be read is checked and exported without a panic.
    #[test]
    fn damaged_bytes_of_sends_never_panic(
        which: Index,
        damages in proptest::collection::vec((any::<Index>(), prop_oneof![any::<u8>(), 48_u8..58], 0_usize..6), 1..4),
    ) {
        let all: Vec<Value> = schedules().into_iter().flat_map(|(_, plans)| plans).collect();
        let mut plan = which.get(&all).clone();
        // With the fabric beside it, its digest is not in the way.
        let fabric = plan["topology"].as_object_mut().expect("an object").remove("inline").expect("a fabric");
        let topology = Topology::read(fabric.to_string().as_bytes(), "t").expect("valid");
        let mut bytes = plan.to_string().into_bytes();
        for (at, byte, drop) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.drain(at..(at + drop).min(bytes.len()));
        }
        if let Ok(plan) = Plan::read(&bytes, "p") {
            let good = check(&plan, Some(&topology)).ok();
            for format in Format::ALL {
                let written = export(&plan, Some(&topology), *format, &Options::default());
                prop_assert!(good || written.is_err() || format.is_picture());
            }
        }
    }
}
