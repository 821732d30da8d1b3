//! Parts fill the whole, ranks follow the mapping, and what cannot be followed is refused with its place.

use super::*;
use sluice_formats::problem::Code;

/// Three hosts on a switch; b is the root of two thirds on the way out.
const PLAN: &str = r#"{"sluice_plan":1,"collective":"allgather","claim":{},
 "participants":["a","b","c"],
 "topology":{"sha256":"SHA","inline":{"sluice_topology":1,"name":"three",
  "nodes":[{"id":"a","kind":"host"},{"id":"b","kind":"host","weight":2},{"id":"c","kind":"host","weight":0},
   {"id":"s","kind":"switch"}],
  "links":[{"from":"a","to":"s","capacity":"1GB/s","duplex":true},{"from":"b","to":"s","capacity":"1GB/s","duplex":true},
   {"from":"c","to":"s","capacity":"1GB/s","duplex":true}]}},
 "content":{"kind":"trees","forests":[{"direction":"out","k":1,"trees":[
  {"root":"b","weight":2,"edges":[{"src":"b","dst":"a","path":["b","s","a"]},{"src":"a","dst":"c","path":["a","s","c"]}]},
  {"root":"a","weight":1,"edges":[{"src":"a","dst":"b","path":["a","s","b"]},{"src":"b","dst":"c","path":["b","s","c"]}]}
 ]}]}}"#;

/// The plan with the right digest.
fn good(text: &str) -> String {
    let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let inline = file["topology"]["inline"].to_string();
    let topology = Topology::read(inline.as_bytes(), "t").expect("valid");
    text.replace("SHA", &topology.digest())
}

fn read(text: &str, ranks: Option<&[&str]>) -> Result<Followed, Problems> {
    let ranks: Option<Vec<String>> = ranks.map(|ranks| ranks.iter().map(|id| (*id).to_owned()).collect());
    Followed::read(good(text).as_bytes(), "p.json", ranks.as_deref(), None)
}

fn refused(text: &str, ranks: Option<&[&str]>) -> (Code, String) {
    let errors = read(text, ranks).expect_err("refused");
    let first = &errors.all()[0];
    assert_eq!(first.file, "p.json");
    (first.code, first.key.clone())
}

#[test]
fn parts_follow_weights_in_the_order_of_the_roots_ranks() {
    let followed = read(PLAN, None).expect("good");
    assert_eq!(followed.collective, Collective::AllGather);
    let trees: Vec<_> = followed.trees.iter().map(|t| (t.root, t.part.clone(), t.edges.clone())).collect();
    let third = WHOLE / 3;
    assert_eq!(trees, [(0, 0..third, vec![(0, 1), (1, 2)]), (1, third..WHOLE, vec![(1, 0), (0, 2)])]);
    assert_eq!(followed.sha256.len(), 64);
}

#[test]
fn ranks_may_be_given_in_another_order() {
    let followed = read(PLAN, Some(&["c", "b", "a"])).expect("good");
    assert_eq!(followed.participants, ["c", "b", "a"]);
    // b, rank 1, comes before a, rank 2.
    assert_eq!(followed.trees[0].root, 1);
    assert_eq!(followed.trees[0].edges, [(1, 2), (2, 0)]);
    assert_eq!(followed.trees[1].part.end, WHOLE);
    assert_eq!(refused(PLAN, Some(&["a", "b", "d"])), (UNKNOWN_NODE, "ranks".into()));
    assert_eq!(refused(PLAN, Some(&["a", "b", "b"])), (DUPLICATE_NODE, "ranks".into()));
    assert_eq!(refused(PLAN, Some(&["a", "b"])), (E_RANGE, "ranks".into()));
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_place() {
    let hops = PLAN.replacen(
        r#""weight":2,"edges""#,
        r#""weight":2,"hops":[["b","s"],["s","a"],["a","s"],["s","c"]],"edges""#,
        1,
    );
    assert_eq!(refused(&hops, None), (UNSUPPORTED_FIELD, "/content/forests/0/trees/0/hops".into()));
    let multicast = PLAN
        .replace(r#""kind":"switch""#, r#""kind":"switch","can":{"multicast":true}"#)
        .replace(
            r#"{"src":"b","dst":"a","path":["b","s","a"]},{"src":"a","dst":"c","path":["a","s","c"]}"#,
            r#"{"src":"b","dst":"s","path":["b","s"]},{"src":"s","dst":"a","path":["s","a"]},{"src":"s","dst":"c","path":["s","c"]}"#,
        );
    assert_eq!(refused(&multicast, None), (UNSUPPORTED_FIELD, "/content/forests/0/trees/0/edges/0/dst".into()));
    let broadcast = PLAN.replace("allgather", "broadcast");
    assert_eq!(refused(&broadcast, None), (UNSUPPORTED_FIELD, "/collective".into()));
    let damaged = PLAN.replacen(r#""src":"a","dst":"c""#, r#""src":"b","dst":"c""#, 1).replacen(
        r#"["a","s","c"]"#,
        r#"["b","s","c"]"#,
        1,
    );
    assert!(read(&damaged, None).is_ok(), "another tree, as good");
    let lost = PLAN.replacen(r#","path":["a","s","c"]"#, r#","path":["a","s"]"#, 1);
    assert_eq!(refused(&lost, None), (E_RANGE, "/content/forests/0/trees/0/edges/1/path".into()));
    let light = PLAN.replacen(r#""weight":2,"edges""#, r#""weight":1,"edges""#, 1);
    assert_eq!(refused(&light, None).0, "WRONG_SHARE");
    let digest = Followed::read(PLAN.as_bytes(), "p.json", None, None).expect_err("refused");
    assert_eq!(digest.code(), "DIGEST_MISMATCH");
}

/// The same fabric with a memory where the switch is: b's data goes there once, a's past it.
fn through_a_memory() -> String {
    PLAN.replace(r#""kind":"switch""#, r#""kind":"memory""#).replace(
        r#"{"src":"b","dst":"a","path":["b","s","a"]},{"src":"a","dst":"c","path":["a","s","c"]}"#,
        r#"{"src":"b","dst":"s","path":["b","s"]},{"src":"s","dst":"a","path":["s","a"]},{"src":"s","dst":"c","path":["s","c"]}"#,
    )
}

#[test]
fn a_memory_where_trees_branch_is_a_relay_and_one_on_the_way_is_none() {
    let followed = read(&through_a_memory(), Some(&["c", "b", "a"])).expect("good");
    assert_eq!((followed.participants.len(), followed.relays), (3, vec!["s".to_owned()]));
    // Its number comes after the ranks; a's tree goes from rank to rank.
    let edges: Vec<_> = followed.trees.iter().map(|tree| (tree.root, tree.edges.clone())).collect();
    assert_eq!(edges, [(1, vec![(1, 3), (3, 2), (3, 0)]), (2, vec![(2, 1), (1, 0)])]);
    let on_the_way = PLAN.replace(r#""kind":"switch""#, r#""kind":"memory""#);
    assert!(read(&on_the_way, None).expect("good").relays.is_empty());
    let cannot = through_a_memory().replace(r#""kind":"memory""#, r#""kind":"memory","can":{"copy":false}"#);
    assert!(read(&cannot, None).is_err(), "the checker refuses it");
}

#[test]
fn any_byte_of_a_plan_may_be_damaged() {
    for text in [good(PLAN), good(&through_a_memory())] {
        damaged(&text);
    }
}

fn damaged(text: &str) {
    for at in (0..text.len()).step_by(3) {
        for bit in [0, 3, 6] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            if let Ok(followed) = Followed::read(&bytes, "p.json", None, None) {
                let ends: Vec<u64> = followed.trees.iter().map(|tree| tree.part.end).collect();
                assert!(ends.is_sorted() && ends.last() == Some(&WHOLE));
            }
        }
        assert!(Followed::read(&text.as_bytes()[..at], "p.json", None, None).is_err());
    }
}
