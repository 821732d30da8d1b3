use super::*;
use serde_json::{Value, json};
use sluice_formats::topology::r#gen::{ring, star};
use sluice_plan::plan::{Steps, Trees};

/// A planner that serves and knows next to nothing.
const STRICT: Support = Support {
    makes: "nets",
    collectives: &[Collective::AllGather, Collective::Broadcast],
    ignorable: &["groups"],
    relays: false,
    weights: false,
    self_loop: Some("BadLink"),
    unlimited: Some("BadCapacity"),
    needs: |_| Can { store: true, copy: true, reduce: false },
    own_fault: "Numerical",
};

/// One that takes whatever comes.
const EASY: Support = Support {
    ignorable: &[],
    relays: true,
    weights: true,
    self_loop: None,
    unlimited: None,
    needs: |_| Can::default(),
    ..STRICT
};

fn edited(topology: &Topology, edit: impl Fn(&mut Value)) -> Topology {
    let mut file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

#[test]
fn what_a_planner_does_not_know_is_refused_under_its_own_codes() {
    let plain = ring(4, "2GB/s", true).expect("valid");
    let looped = json!({"from": "n1", "to": "n1", "capacity": "1GB/s"});
    let group = json!([{"name": "g", "capacity": "1GB/s", "links": [["n0", "n1"]]}]);
    let cases = [
        (star(&["1", "1", "1"]).expect("valid"), UNSUPPORTED_FIELD, "/nodes/3/kind"),
        (edited(&plain, |file| file["nodes"][2]["weight"] = json!(3)), UNSUPPORTED_FIELD, "/nodes/2/weight"),
        (edited(&plain, |file| file["nodes"][1]["can"] = json!({"store": false})), UNSUPPORTED_FIELD, "/nodes/1/can"),
        (edited(&plain, |file| file["groups"] = group.clone()), UNSUPPORTED_FIELD, "/groups"),
        (edited(&plain, |file| file["links"][2] = looped.clone()), "BadLink", "/links/2"),
        (edited(&plain, |file| file["links"][1]["capacity"] = json!("unlimited")), "BadCapacity", "/links/1/capacity"),
    ];
    let request = Request::of_all(Collective::AllGather);
    for (topology, code, key) in &cases {
        let errors = Asked::new(topology, &request, "f.json", &STRICT).expect_err(key);
        let [first] = errors.all() else { panic!("{errors}") };
        assert_eq!((first.code, first.key.as_str(), first.file.as_str()), (*code, *key, "f.json"));
        let asked = Asked::new(topology, &request, "f.json", &EASY).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(asked.ignored.is_empty());
    }
    // A buffer is no key that this planner says it does not know.
    let buffered = edited(&plain, |file| file["nodes"][2]["buffer"] = json!("4MiB"));
    assert!(Asked::new(&buffered, &request, "f.json", &STRICT).is_ok());
    let ignore = ["groups".to_owned()];
    let asked = Asked::new(&cases[3].0, &Request { ignore: &ignore, ..request }, "f.json", &STRICT).expect("ignored");
    assert_eq!(asked.ignored, ["groups"]);
}

#[test]
fn a_collective_is_served_or_refused_with_those_that_are() {
    let topology = ring(3, "1", true).expect("valid");
    let errors = Asked::new(&topology, &Request::of_all(Collective::Scatter), "t", &STRICT).expect_err("not served");
    let error = &errors.all()[0];
    assert_eq!(
        (error.code, error.key.as_str(), error.allowed.as_str()),
        (E_RANGE, "collective", "allgather, broadcast")
    );
    assert_eq!(error.message, "nets do not serve this collective");
    let list = ["n2", "n0"].map(str::to_owned);
    let request = Request { participants: Some(&list), root: Some("n0"), ..Request::of_all(Collective::Broadcast) };
    let asked = Asked::new(&topology, &request, "t", &EASY).expect("served");
    assert_eq!((asked.participants.as_slice(), asked.root), ([2, 0].as_slice(), Some(1)));
}

#[test]
fn a_plan_that_the_checker_refuses_is_the_planners_own_fault() {
    let topology = ring(3, "1", true).expect("valid");
    let asked = Asked::of_all(&topology, Collective::AllGather, &STRICT);
    let contents = [
        Content::Trees(Trees { forests: Vec::new() }),
        Content::Steps(Steps { p: 1, shares: None, step_length: None, steps: Vec::new() }),
    ];
    for content in contents {
        let draft = Draft { names: Names::default(), content, claim: Claim::default(), demands: None };
        assert_eq!(asked.plan(draft).expect_err("nothing is done").code(), "Numerical");
    }
}
