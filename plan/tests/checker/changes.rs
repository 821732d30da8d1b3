//! Plans of sends with one thing changed, in all the ways there are, whether wrong then or still right.

use serde_json::{Value, json};
use sluice_formats::topology::sha256_hex;

/// A send with more keys.
pub fn with(mut send: Value, more: Value) -> Value {
    send.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    send
}

/// Everything that one change makes of a plan: of a send, of two, of the model, of the demands, of a link or a
/// node, of what is claimed.
pub fn changed(good: &Value) -> Vec<(String, Value)> {
    let mut changed = Vec::new();
    let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        edit(&mut bad);
        if bad != *good {
            changed.push((what, bad));
        }
    };
    let nodes = good["topology"]["inline"]["nodes"].as_array().expect("nodes").len();
    let ids = || (0..nodes).map(|node| json!(format!("n{node}")));
    let sends = good["content"]["sends"].as_array().expect("sends");
    for (i, of) in sends.iter().enumerate() {
        let list = |bad: &mut Value| std::mem::take(bad["content"]["sends"].as_array_mut().expect("sends"));
        add(format!("send {i} gone"), &|bad| {
            let mut sends = list(bad);
            sends.remove(i);
            bad["content"]["sends"] = json!(sends);
        });
        let epoch = of["epoch"].as_u64().expect("an epoch");
        for (what, later) in [("twice", 0), ("again", 1), ("much later again", 9)] {
            add(format!("send {i} {what}"), &|bad| {
                let mut sends = list(bad);
                sends.push(with(of.clone(), json!({"epoch": epoch + later})));
                bad["content"]["sends"] = json!(sends);
            });
        }
        add(format!("send {i} backwards"), &|bad| {
            let send = &mut bad["content"]["sends"][i];
            (send["from"], send["to"]) = (of["to"].clone(), of["from"].clone());
        });
        let mut values: Vec<(&str, Value)> = vec![
            ("epoch", json!(0)),
            ("epoch", json!(epoch + 1)),
            ("epoch", json!(epoch.saturating_sub(1))),
            ("epoch", json!(epoch + 9)),
            ("chunk", json!(of["chunk"].as_u64().expect("a number") + 1)),
            ("chunk", json!(0)),
            ("op", json!("copy")),
            ("op", json!("reduce")),
            ("tenant", json!("b")),
        ];
        for key in ["from", "to", "src", "via"] {
            values.extend(ids().map(|id| (key, id)));
        }
        if let (Some(offset), Some(bytes)) = (of["offset"].as_u64(), of["bytes"].as_u64()) {
            values.extend([bytes.saturating_sub(1), bytes + 1, bytes / 2, 0].map(|bytes| ("bytes", json!(bytes))));
            values.extend([offset + 1, offset / 2, 0].map(|offset| ("offset", json!(offset))));
        }
        for (key, value) in values {
            add(format!("send {i} {key} {value}"), &|bad| bad["content"]["sends"][i][key] = value.clone());
        }
        for keys in [&["op"][..], &["via"], &["tenant"], &["offset"], &["offset", "bytes"]] {
            add(format!("send {i} without {keys:?}"), &|bad| {
                let send = bad["content"]["sends"][i].as_object_mut().expect("an object");
                keys.iter().for_each(|key| drop(send.remove(*key)));
            });
        }
        for (j, other) in sends.iter().enumerate().skip(i + 1) {
            for key in ["epoch", "to"] {
                add(format!("sends {i} and {j} exchange {key}"), &|bad| {
                    bad["content"]["sends"][i][key] = other[key].clone();
                    bad["content"]["sends"][j][key] = of[key].clone();
                });
            }
        }
    }
    for (key, value) in [
        ("tau", json!("0.5us")),
        ("tau", json!("2us")),
        ("chunk", json!("24999B")),
        ("chunk", json!("25001B")),
        ("chunks", json!(2)),
        ("theta", json!(1)),
        ("free_second_hop", json!(true)),
        ("free_second_hop", json!(false)),
        ("hyper_edges", json!(true)),
        ("hyper_edges", json!(false)),
        ("divisible", json!(true)),
        ("divisible", json!(false)),
        ("stragglers", json!([])),
        ("stragglers", json!([{"link": 0, "beta_mul": 4}])),
        ("stragglers", json!([{"node": "n1", "alpha_add": 0.000_002}])),
    ] {
        add(format!("model {key} {value}"), &|bad| bad["content"]["model"][key] = value.clone());
    }
    for i in 0..good["content"]["model"]["stragglers"].as_array().map_or(0, Vec::len) {
        for key in ["beta_mul", "alpha_add"] {
            for value in [json!(0.000_002), json!(5), json!(-1)] {
                add(format!("straggler {i} {key} {value}"), &|bad| {
                    bad["content"]["model"]["stragglers"][i][key] = value.clone();
                });
            }
        }
    }
    for i in 0..good["demands"]["tenants"].as_array().map_or(0, Vec::len) {
        add(format!("tenant {i} gone"), &|bad| {
            drop(bad["demands"]["tenants"].as_array_mut().expect("tenants").remove(i));
        });
        for (key, value) in [
            ("name", json!("a")),
            ("chunks", json!(2)),
            ("collective", json!("allgather")),
            ("triples", json!([["n0", 0, "n2"]])),
            ("triples", json!([["n2", 0, "n0"]])),
            ("root", json!("n1")),
            ("participants", json!(["n0", "n1"])),
        ] {
            add(format!("tenant {i} {key} {value}"), &|bad| bad["demands"]["tenants"][i][key] = value.clone());
        }
    }
    for collective in ["allgather", "broadcast", "alltoall", "reduce_scatter", "reduce", "allreduce", "custom"] {
        add(format!("a {collective}"), &|bad| bad["collective"] = json!(collective));
    }
    add("another root".into(), &|bad| bad["root"] = json!("n1"));
    for (key, later) in [("later", 1), ("sooner", -1)] {
        add(format!("claims to end {key}"), &|bad| {
            bad["claim"]["finish_epochs"] = json!(bad["claim"]["finish_epochs"].as_i64().expect("claimed") + later);
        });
    }
    let mut fabric = |what: String, edit: &dyn Fn(&mut Value)| {
        add(what, &|bad| {
            edit(&mut bad["topology"]["inline"]);
            bad["topology"]["sha256"] = json!(sha256_hex(bad["topology"]["inline"].to_string().as_bytes()));
        });
    };
    for i in 0..good["topology"]["inline"]["links"].as_array().expect("links").len() {
        for (key, value) in [
            ("capacity", json!("12.5GB/s")),
            ("capacity", json!("50GB/s")),
            ("latency", json!("2us")),
            ("latency", json!("0us")),
            ("duplex", json!(false)),
            ("capacity_per_epoch", json!(["25GB/s", "0GB/s"])),
            ("capacity_per_epoch", json!(["50GB/s", "12.5GB/s", "25GB/s"])),
        ] {
            fabric(format!("link {i} {key} {value}"), &|file| file["links"][i][key] = value.clone());
        }
    }
    for i in 0..nodes {
        for (key, value) in [
            ("can", json!({"copy": true, "reduce": true})),
            ("can", json!({"copy": true, "reduce": false})),
            ("can", json!({"copy": false, "reduce": true})),
            ("can", json!({"copy": false, "reduce": false})),
            ("buffer", json!("0B")),
            ("buffer", json!("25kB")),
            ("kind", json!("memory")),
            ("kind", json!("switch")),
            ("kind", json!("host")),
        ] {
            fabric(format!("node {i} {key} {value}"), &|file| file["nodes"][i][key] = value.clone());
        }
    }
    changed
}
