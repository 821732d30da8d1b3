//! Plans in files, good, damaged, foreign and absent; nothing here plans.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use super::*;

/// An all-gather of three hosts on one switch: rank 0 passes the part of rank 2 on to rank 1, all else goes directly.
const PLAN: &str = r#"{"sluice_plan":1,"collective":"allgather","claim":{},
 "topology":{"sha256":"SHA","inline":{"sluice_topology":1,
  "nodes":[{"id":"h0","kind":"host"},{"id":"h1","kind":"host"},{"id":"h2","kind":"host"},{"id":"s","kind":"switch"}],
  "links":[{"from":"h0","to":"s","capacity":"1GB/s","duplex":true},{"from":"h1","to":"s","capacity":"1GB/s","duplex":true},
   {"from":"h2","to":"s","capacity":"1GB/s","duplex":true}]}},
 "content":{"kind":"trees","forests":[{"direction":"out","k":1,"trees":[
  {"root":"h0","weight":1,"edges":[{"src":"h0","dst":"h1","path":["h0","s","h1"]},{"src":"h0","dst":"h2","path":["h0","s","h2"]}]},
  {"root":"h1","weight":1,"edges":[{"src":"h1","dst":"h0","path":["h1","s","h0"]},{"src":"h1","dst":"h2","path":["h1","s","h2"]}]},
  {"root":"h2","weight":1,"edges":[{"src":"h2","dst":"h0","path":["h2","s","h0"]},{"src":"h0","dst":"h1","path":["h0","s","h1"]}]}
 ]}]}}"#;

/// The plan with its digest.
pub fn plan() -> String {
    let file: serde_json::Value = serde_json::from_str(PLAN).expect("JSON");
    let topology = Topology::read(file["topology"]["inline"].to_string().as_bytes(), "t").expect("valid");
    PLAN.replace("SHA", &topology.digest())
}

/// Rates for a chain from h0 to h1 and on to h2, and for another collective.
pub fn rates() -> String {
    let file: serde_json::Value = serde_json::from_str(PLAN).expect("JSON");
    let inline = &file["topology"]["inline"];
    let topology = Topology::read(inline.to_string().as_bytes(), "t").expect("valid");
    let flow = |id: u64, of: u64, order: u64, from: &str, to: &str, path: [usize; 2]| {
        serde_json::json!({"id": id, "collective": of, "group": 0, "order": order, "src": from, "dst": to,
            "path": path, "size": "100MB", "rate": "200MB/s"})
    };
    let flows =
        [flow(0, 0, 0, "h0", "h1", [0, 3]), flow(1, 0, 1, "h1", "h2", [2, 5]), flow(2, 4, 0, "h2", "h0", [4, 1])];
    let content = serde_json::json!({"kind": "rates", "execution": "static", "flows": flows});
    let topology = serde_json::json!({"sha256": topology.digest(), "inline": inline});
    serde_json::json!({"sluice_plan": 1, "collective": "custom", "claim": {}, "topology": topology, "content": content})
        .to_string()
}

#[test]
fn a_plan_of_rates_becomes_the_lanes_of_a_collective() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut plans, mut answers) = (Plans::new(None, Nanos::from_millis(60)), Vec::new());
    let named = |collective| PlanName { file: file(&dir, &rates()), ranks: None, collective };
    let mut ask = |collective, ranks| {
        plans.ask(JobId::of("j"), &named(collective), [std::process::id(), own()], ranks);
        while answers.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
            plans.answers(&mut answers);
        }
        answers.remove(0).1
    };
    let following = ask(Some(0), 3);
    assert_eq!(following.plan().expect("followed").work.flows(), 2);
    // The job of the other collective has two ranks.
    assert!(ask(Some(4), 2).plan().is_some());
    assert!(ask(Some(4), 3).refused().expect("refused").contains("the plan is for 2 ranks, the job has 3"));
    let refused = ask(None, 3);
    assert!(refused.refused().expect("refused").contains("SLUICE_PLAN_COLLECTIVE"), "{refused:?}");
}

/// Asks and waits for the answer.
pub fn ask(file: &Path, ranks: u32, uid: u32) -> Following {
    ask_for(file, None, ranks, uid)
}

/// The same for one collective of a plan.
fn ask_for(file: &Path, collective: Option<u64>, ranks: u32, uid: u32) -> Following {
    let (mut plans, mut answers) = (Plans::new(None, Nanos::from_millis(60)), Vec::new());
    let named = PlanName { file: file.into(), ranks: None, collective };
    assert!(matches!(plans.ask(JobId::of("j"), &named, [std::process::id(), uid], ranks), Following::Loading));
    let began = Instant::now();
    while answers.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "no answer");
        std::thread::sleep(Duration::from_millis(1));
        plans.answers(&mut answers);
    }
    answers.remove(0).1
}

fn own() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("plan.json");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_good_plan_becomes_flows_between_ranks() {
    let dir = tempfile::tempdir().expect("a directory");
    let following = ask(&file(&dir, &plan()), 3, own());
    let plan = following.plan().expect("followed");
    assert_eq!(plan.name, "plan.json");
    let Work::Trees(flows) = &plan.work else { panic!("trees") };
    let flow = flows.flow(0, 1).expect("there");
    assert_eq!(flow.feeds.keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(flows.flow(2, 1), None);
}

#[test]
fn what_is_wrong_is_said_with_file_code_place_and_help() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |text: &str, ranks: u32| {
        let following = ask(&file(&dir, text), ranks, own());
        following.refused().expect("refused").to_owned()
    };
    let place = dir.path().join("plan.json").display().to_string();
    let damaged = plan().replacen(r#""weight":1"#, r#""weight":2"#, 1);
    for (said, parts) in [
        (refused(&damaged, 3), ["error[WRONG_SHARE]: ", " at /content/forests/0/trees; "]),
        (refused(&plan().replace("GB/s", "GBps"), 3), ["error[TOPOLOGY_INVALID]: ", " at /topology/inline"]),
        (
            refused(&plan(), 4),
            ["error[E_RANGE]: the plan is for 3 ranks, the job has 4; ", " at /participants; help: "],
        ),
        (refused("{", 3), ["error[E_PARSE]", "sluice plan check"]),
        (refused("", 3), ["error[E_PARSE]", "sluice plan check"]),
    ] {
        assert!(said.contains(&place) && parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn a_plan_that_would_stand_still_or_over_fill_a_link_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |text: &str, collective: Option<u64>| {
        ask_for(&file(&dir, text), collective, 3, own()).refused().expect("refused").to_owned()
    };
    // In a tree h1 waits for h2, and h2 for h1; in chains the first flow waits for the second, which is behind it.
    let edge = |from: &str, to: &str| format!(r#"{{"src":"{from}","dst":"{to}","path":["{from}","s","{to}"]}}"#);
    let circle = plan().replacen(&edge("h0", "h1"), &edge("h2", "h1"), 1);
    let circle = circle.replacen(&edge("h0", "h2"), &edge("h1", "h2"), 1);
    let said = refused(&circle, None);
    assert!(said.contains("error[CYCLE]: ") && said.contains("hangs on a circle"), "{said}");
    let with = |flow: usize, key: &str, value: serde_json::Value| {
        let mut plan: serde_json::Value = serde_json::from_str(&rates()).expect("JSON");
        plan["content"]["flows"][flow][key] = value;
        plan.to_string()
    };
    let said = refused(&with(0, "pred", serde_json::json!([1])), Some(0));
    assert!(said.contains("error[BAD_ORDER]: flows wait for each other in a circle"), "{said}");
    // A link of 1 GB/s.
    let said = refused(&with(2, "rate", serde_json::json!("1200MB/s")), Some(0));
    assert!(said.contains("error[OVERLOAD]: ") && said.contains("would have to carry"), "{said}");
}

#[test]
fn a_name_finds_nothing_out_about_files_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir, r#"{"secret":"of somebody else"}"#);
    let foreign = own().wrapping_add(1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
    let said = |path: &Path, uid: u32| ask(path, 3, uid).refused().expect("refused").to_owned();
    let absent = said(&dir.path().join("absent.json"), foreign);
    assert_eq!(said(&path, foreign), absent.replace("absent.json", "plan.json"), "forbidden sounds like absent");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let public = said(&path, foreign);
    assert!(public.contains("error[E_KEY]") && !public.contains("somebody"), "its content is quoted: {public}");
    let link = dir.path().join("link.json");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    assert!(said(&link, own()).contains("no plan that uid"));
    assert!(said(dir.path(), own()).contains("no plan that uid"));
}
