use super::*;
use serde_json::{Value, json};
use sluice_formats::problem::{DUPLICATE_NODE, E_KEY, E_MISSING, UNKNOWN_NODE, UNSUPPORTED_FIELD};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::r#gen::{Wiring, dgx_a100, ring};

fn all_gather() -> Request<'static> {
    Request::of_all(Word::AllGather)
}

fn edited(topology: &Topology, edit: impl Fn(&mut Value)) -> Topology {
    let mut file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// Codes and keys of a refusal.
fn refused(topology: &Topology, request: &Request<'_>) -> Vec<(Code, String)> {
    let errors = Instance::new(topology, request, "f.json").expect_err("refused");
    errors.all().iter().map(|error| (error.code, error.key.clone())).collect()
}

#[test]
fn participants_come_first_by_rank_and_switches_after_them() {
    let topology = dgx_a100(2, Wiring::Plain).expect("valid");
    let list: Vec<String> = ["b1.g0", "b0.g3", "b0.g0"].map(String::from).to_vec();
    let request = Request { participants: Some(&list), ..all_gather() };
    let instance = Instance::new(&topology, &request, "f.json").expect("a problem");
    let fabric = instance.fabric();
    assert_eq!(fabric.names, ["b1.g0", "b0.g3", "b0.g0", "ib", "b0.nv", "b1.nv"]);
    assert_eq!((fabric.compute, fabric.links.len()), (3, 12), "links of GPUs that take no part are left out");
    assert_eq!(fabric.boxes, [Some(0), Some(1), Some(1), None, Some(1), Some(0)]);
    assert!(fabric.links.iter().all(|link| link.2 == Rational::from(300) || link.2 == Rational::from(25)));
}

#[test]
fn a_gpu_that_can_neither_copy_nor_add_up_forwards() {
    let topology = edited(&ring(4, "1", true).expect("valid"), |file| {
        file["nodes"][1]["can"] = json!({"store": false, "copy": false, "reduce": false});
    });
    let list: Vec<String> = ["n0", "n2"].map(String::from).to_vec();
    let request = Request { participants: Some(&list), ..all_gather() };
    let instance = Instance::new(&topology, &request, "f.json").expect("a problem");
    assert_eq!(instance.fabric().names, ["n0", "n2", "n1"]);
    assert_eq!(refused(&topology, &all_gather()), [(UNSUPPORTED_FIELD, "/nodes/1/can".into())]);
}

#[test]
fn keys_without_meaning_are_refused_or_ignored_on_request() {
    let topology = edited(&ring(4, "2GB/s", true).expect("valid"), |file| {
        file["groups"] = json!([{"name": "g", "capacity": "1GB/s", "links": [["n0", "n1"]]}]);
        file["nodes"][2]["buffer"] = json!("4MiB");
        file["links"][3]["capacity_per_epoch"] = json!(["1GB/s", "2GB/s"]);
    });
    assert_eq!(
        refused(&topology, &all_gather()),
        [
            (UNSUPPORTED_FIELD, "/nodes/2/buffer".into()),
            (UNSUPPORTED_FIELD, "/links/3/capacity_per_epoch".into()),
            (UNSUPPORTED_FIELD, "/groups".into())
        ]
    );
    let ignore: Vec<String> = ["groups", "buffer"].map(String::from).to_vec();
    let request = Request { ignore: &ignore, ..all_gather() };
    assert_eq!(refused(&topology, &request), [(UNSUPPORTED_FIELD, "/links/3/capacity_per_epoch".into())]);
    let ignore: Vec<String> = SUPPORT.ignorable.iter().map(|key| (*key).to_owned()).collect();
    let request = Request { ignore: &ignore, ..all_gather() };
    let instance = Instance::new(&topology, &request, "f.json").expect("a problem");
    assert_eq!(instance.asked.ignored, ["buffer", "capacity_per_epoch", "groups"]);
    let plain = ring(4, "2GB/s", true).expect("valid");
    assert!(
        Instance::new(&plain, &request, "f.json").expect("a problem").asked.ignored.is_empty(),
        "nothing there to ignore"
    );
}

#[test]
fn self_loops_and_links_without_limit_have_their_own_codes() {
    let plain = ring(3, "2GB/s", true).expect("valid");
    let looped = edited(&plain, |file| {
        let links = file["links"].as_array_mut().expect("links");
        links.push(json!({"from": "n1", "to": "n1", "capacity": "1GB/s", "count": 3}));
        links[0]["capacity"] = json!("unlimited");
    });
    assert_eq!(refused(&looped, &all_gather()), [(SELF_LOOP, "/links/3".into())]);
    let free = edited(&plain, |file| file["links"][1]["capacity"] = json!("unlimited"));
    assert_eq!(refused(&free, &all_gather()), [(NON_POSITIVE_BANDWIDTH, "/links/1/capacity".into())]);
    let fine = edited(&plain, |file| file["links"][2]["capacity"] = json!(format!("1/{}GB/s", "9".repeat(60))));
    assert_eq!(refused(&fine, &all_gather()), [(OVERFLOW, "/links/2/capacity".into())]);
}

#[test]
fn a_request_that_makes_no_sense_is_refused_by_parameter() {
    let topology = ring(3, "1", true).expect("valid");
    let ids = |list: &[&str]| -> Vec<String> { list.iter().map(|id| (*id).to_owned()).collect() };
    let with = |list: &[&str]| refused(&topology, &Request { participants: Some(&ids(list)), ..all_gather() });
    assert_eq!(with(&["n0", "n7"]), [(UNKNOWN_NODE, "participants".into())]);
    assert_eq!(with(&["n0", "n1", "n0"]), [(DUPLICATE_NODE, "participants".into())]);
    let rooted = |collective, root, list: Option<&[String]>| {
        refused(&topology, &Request { collective, root, participants: list, ignore: &[] })
    };
    assert_eq!(rooted(Word::Broadcast, None, None), [(E_MISSING, "root".into())]);
    assert_eq!(rooted(Word::AllGather, Some("n0"), None), [(E_KEY, "root".into())]);
    assert_eq!(rooted(Word::Reduce, Some("n9"), None), [(UNKNOWN_NODE, "root".into())]);
    assert_eq!(rooted(Word::Reduce, Some("n0"), Some(&ids(&["n1", "n2"]))), [(E_RANGE, "root".into())]);
    assert_eq!(rooted(Word::AllToAll, None, None), [(E_RANGE, "collective".into())]);
    assert_eq!(rooted(Word::Scatter, Some("n0"), None), [(E_RANGE, "collective".into())]);
}
