//! Plans of kind `sends` that are made by sending whatever is wanted: right ones pass, and any that is damaged does not.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::plan::Plan;

use crate::epochs::{code, finish, finish_of, gpus, plan, send};
use crate::scene::refused;
use crate::sends::row;

/// Schedules made by sending whatever is wanted as soon as there is room: greedy, and right.
fn greedy(topology: &Topology, collective: &str, chunks: u64) -> Value {
    let n = topology.nodes().len();
    let mut wanted: BTreeSet<(usize, u64, usize)> = BTreeSet::new();
    for src in 0..n {
        for dst in (0..n).filter(|dst| *dst != src) {
            for chunk in 0..chunks {
                match collective {
                    "allgather" => drop(wanted.insert((src, chunk, dst))),
                    "broadcast" if src == 0 => drop(wanted.insert((src, chunk, dst))),
                    "alltoall" => drop(wanted.insert((src, dst as u64 * chunks + chunk, dst))),
                    "scatter" if src == 0 => drop(wanted.insert((src, dst as u64 * chunks + chunk, dst))),
                    "gather" if dst == 0 => drop(wanted.insert((src, chunk, dst))),
                    _ => {}
                }
            }
        }
    }
    // Hops to every node, for the next hop on a shortest path.
    let mut hops = vec![vec![n; n]; n];
    for _ in 0..n {
        for (node, row) in hops.iter_mut().enumerate() {
            row[node] = 0;
        }
        for link in topology.links() {
            let next = hops[link.to].clone();
            for (here, next) in hops[link.from].iter_mut().zip(next) {
                *here = (*here).min(next + 1);
            }
        }
    }
    let mut usable: BTreeMap<(usize, u64, usize), u64> = BTreeMap::new();
    let mut sends = Vec::new();
    for epoch in 0.. {
        let here = |usable: &BTreeMap<_, u64>, src: usize, chunk: u64, node: usize| {
            node == src || usable.get(&(src, chunk, node)).is_some_and(|from| *from <= epoch)
        };
        if wanted.iter().all(|(src, chunk, dst)| here(&usable, *src, *chunk, *dst)) {
            break;
        }
        for link in topology.links() {
            let useful = |(src, chunk, dst): &&(usize, u64, usize)| {
                here(&usable, *src, *chunk, link.from)
                    && *src != link.to
                    && !usable.contains_key(&(*src, *chunk, link.to))
                    && hops[link.to][*dst] < hops[link.from][*dst]
            };
            if let Some((src, chunk, _)) = wanted.iter().find(useful) {
                // One chunk an epoch, there two epochs later.
                usable.insert((*src, *chunk, link.to), epoch + 2);
                sends.push(send(*src, *chunk, link.from, link.to, epoch));
            }
        }
    }
    let mut plan = plan(topology, collective, sends);
    plan["content"]["model"]["chunks"] = json!(chunks);
    // On two equally short ways one send too many.
    for i in (0..plan["content"]["sends"].as_array().expect("sends").len()).rev() {
        let mut less = plan.clone();
        less["content"]["sends"].as_array_mut().expect("sends").remove(i);
        if finish_of(&less).is_some_and(|epochs| Some(epochs) == finish_of(&plan)) {
            plan = less;
        }
    }
    let last = finish(&plan);
    plan["claim"] = json!({"finish_epochs": last, "finish_us": last});
    plan["content"]["finish_epochs"] = json!(last);
    plan
}

fn schedules() -> Vec<Value> {
    let ring = gpus(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
    let square = gpus(4, &[(0, 1), (1, 3), (3, 2), (2, 0)]);
    let mesh = gpus(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    let mut all = Vec::new();
    for topology in [&ring, &square, &mesh] {
        for collective in ["allgather", "broadcast", "alltoall", "scatter", "gather"] {
            for chunks in 1..3 {
                all.push(greedy(topology, collective, chunks));
            }
        }
    }
    all
}

#[test]
fn greedy_schedules_pass_and_end_when_they_say() {
    for plan in schedules() {
        assert_eq!(code(&plan), None, "{}", plan["collective"]);
        let read = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        assert_eq!(Plan::read(read.to_text().as_bytes(), "p"), Ok(read));
    }
}

#[test]
fn every_damaged_plan_of_sends_is_refused() {
    let mut count = 0;
    let mut good = schedules();
    good.push(row());
    for good in &mut good {
        let epochs = finish(&{
            let mut plan = good.clone();
            plan["claim"] = json!({});
            plan
        });
        good["claim"]["finish_epochs"] = json!(epochs);
        let mut damaged: Vec<(String, Value)> = Vec::new();
        let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
            let mut bad = good.clone();
            edit(&mut bad);
            assert_ne!(&bad, good, "{what}");
            damaged.push((what, bad));
        };
        for i in 0..good["content"]["sends"].as_array().expect("sends").len() {
            let of = &good["content"]["sends"][i];
            // Every send brings a chunk that nobody brings again.
            add(format!("send {i} gone"), &|bad| {
                drop(bad["content"]["sends"].as_array_mut().expect("sends").remove(i))
            });
            add(format!("send {i} twice"), &|bad| {
                let sends = bad["content"]["sends"].as_array_mut().expect("sends");
                sends.push(sends[i].clone());
            });
            add(format!("send {i} ends late"), &|bad| bad["content"]["sends"][i]["epoch"] = json!(epochs + 7));
            for (key, value) in [
                ("to", of["from"].clone()),
                ("to", json!("nobody")),
                ("src", json!("nobody")),
                ("chunk", json!(1_000_000)),
                ("epoch", json!(u64::MAX)),
                ("via", of["from"].clone()),
                ("tenant", json!("x")),
            ] {
                add(format!("send {i} {key} {value}"), &|bad| bad["content"]["sends"][i][key] = value.clone());
            }
            add(format!("send {i} in pieces"), &|bad| {
                let send = &mut bad["content"]["sends"][i];
                (send["offset"], send["bytes"]) = (json!(0), json!(25_000));
            });
            if of["from"] != of["src"] {
                // It was sent as soon as it was there, or later: at the beginning it is not.
                add(format!("send {i} at once"), &|bad| bad["content"]["sends"][i]["epoch"] = json!(0));
            }
        }
        for (key, value) in [
            ("finish_epochs", json!(epochs - 1)),
            ("finish_epochs", json!(epochs + 1)),
            ("finish_us", json!(0.5)),
            ("lower_bound", json!("1")),
            ("time_per_byte", json!("1")),
            ("T", json!([1])),
            ("certificate", json!({"kind": "cut", "nodes": []})),
            ("certificate", json!({"kind": "cut"})),
            ("certificate", json!({"kind": "diameter"})),
            ("optimal", json!(true)),
        ] {
            add(format!("claims {key} {value}"), &|bad| bad["claim"][key] = value.clone());
        }
        for (key, value) in [
            ("tau", json!("0s")),
            ("tau", json!("0.1us")),
            ("chunk", json!("0B")),
            ("chunk", json!("250kB")),
            ("chunks", json!(0)),
            ("chunks", json!(7)),
            ("chunks", json!(u64::MAX)),
            ("theta", json!(-1)),
            ("stragglers", json!([{"link": 99, "beta_mul": 2}])),
            ("stragglers", json!([{"link": 0, "node": "n0"}])),
            ("stragglers", json!([{"node": "n0", "beta_mul": 0}])),
            ("stragglers", json!([{"node": "n0", "beta_mul": 1000}])),
        ] {
            add(format!("model {key} {value}"), &|bad| bad["content"]["model"][key] = value.clone());
        }
        for collective in ["allreduce", "reduce_scatter", "custom", "reduce"] {
            add(format!("a {collective}"), &|bad| bad["collective"] = json!(collective));
        }
        for (what, bad) in damaged {
            assert!(refused(&bad.to_string()), "{} {what}", good["collective"]);
            count += 1;
        }
    }
    println!("sends: {count} damaged plans refused");
    assert!(count >= 300, "{count}");
}

proptest! {
    /// Any sends of two chunks on a triangle: the checker and a table of who has what when agree.
    #[test]
    fn it_agrees_with_a_table(list in proptest::collection::vec((0_usize..6, 0_u64..2, 0_u64..5), 0..9)) {
        let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
        let links = topology.links();
        let sends = list.iter().map(|(link, chunk, epoch)| send(0, *chunk, links[*link].from, links[*link].to, *epoch));
        let mut plan = plan(&topology, "broadcast", sends.collect());
        plan["content"]["model"]["chunks"] = json!(2);
        let mut has = [[[false; 16]; 3]; 2];
        has.iter_mut().for_each(|chunk| chunk[0] = [true; 16]);
        let mut good = true;
        for epoch in 0..5 {
            let now: Vec<_> = list.iter().filter(|send| send.2 == epoch).collect();
            for (i, (link, chunk, _)) in now.iter().enumerate() {
                good &= now.iter().skip(i + 1).all(|other| other.0 != *link);
                good &= has[*chunk as usize][links[*link].from][epoch as usize];
                let to = &mut has[*chunk as usize][links[*link].to];
                to[epoch as usize + 2..].fill(true);
            }
        }
        good &= has.iter().all(|chunk| chunk.iter().all(|node| node[15]));
        prop_assert_eq!(code(&plan).is_none(), good);
    }
}
