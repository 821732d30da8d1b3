//! Who sends what when, in ranks of the job; the trees of the parts; and schedules that cannot be followed.

use crate::follow::{Followed, Sent, Tree, WHOLE};
use crate::plan::Direction;
use sluice_formats::problem::Problems;
use sluice_formats::topology::Topology;

/// An all-gather of three on a one-way ring.
const PLAN: &str = r#"{"sluice_plan":1,"collective":"allgather","claim":{},"participants":["a","b","c"],
 "topology":{"sha256":"SHA","inline":{"sluice_topology":1,"name":"ring",
  "nodes":[{"id":"a","kind":"host"},{"id":"b","kind":"host"},{"id":"c","kind":"host"}],
  "links":[{"from":"a","to":"b","capacity":"1"},{"from":"b","to":"c","capacity":"1"},{"from":"c","to":"a","capacity":"1"},
   {"from":"a","to":"c","capacity":"1"}]}},
 "content":{"kind":"steps","P":2,"steps":[
  {"op":"copy","sends":[[0,0,2,0],[1,0,2,1],[2,0,2,2]]},
  {"op":"copy","sends":[[0,0,2,1],[1,0,2,2],[2,0,2,0]]}]}}"#;

fn read(text: &str, ranks: Option<&[&str]>) -> Result<Followed, Problems> {
    let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let inline = file["topology"]["inline"].to_string();
    let topology = Topology::read(inline.as_bytes(), "t").expect("valid");
    let ranks: Option<Vec<String>> = ranks.map(|ranks| ranks.iter().map(|id| (*id).to_owned()).collect());
    Followed::read(text.replace("SHA", &topology.digest()).as_bytes(), "p.json", ranks.as_deref(), None)
}

fn tree(root: u32, of: u64, edges: &[(u32, u32)]) -> Tree {
    let third = |n: u64| (u128::from(n) * u128::from(WHOLE) / 3) as u64;
    Tree { direction: Direction::Out, root, part: third(of)..third(of + 1), edges: edges.to_vec() }
}

#[test]
fn steps_are_those_of_the_plan_and_parts_travel_by_trees() {
    let followed = read(PLAN, None).expect("good");
    assert_eq!(followed.steps.shard, 2);
    let first = Sent { step: 0, from: 0, to: 1, first: 0, end: 2, adds: false, link: 0 };
    assert_eq!((followed.steps.sent.len(), followed.steps.sent[0]), (6, first));
    let trees = [tree(0, 0, &[(0, 1), (1, 2)]), tree(1, 1, &[(1, 2), (2, 0)]), tree(2, 2, &[(0, 1), (2, 0)])];
    assert_eq!(followed.trees, trees);
}

#[test]
fn ranks_of_the_job_may_be_others_than_the_plans() {
    let followed = read(PLAN, Some(&["b", "c", "a"])).expect("good");
    // The plan's rank 0 is the job's rank 2: its shard is the last.
    let first = Sent { step: 0, from: 2, to: 0, first: 4, end: 6, adds: false, link: 0 };
    assert!(followed.steps.sent.contains(&first), "{:?}", followed.steps.sent);
    assert_eq!(followed.trees[0], tree(0, 0, &[(0, 1), (1, 2)]));
}

#[test]
fn half_a_part_by_another_way_is_another_tree() {
    let text = PLAN.replace("[2,0,2,2]]}", "[2,0,2,2],[0,0,1,3]]}").replace("[[0,0,2,1],", "[[0,1,2,1],");
    let followed = read(&text, None).expect("good");
    let of_a: Vec<&Tree> = followed.trees.iter().filter(|tree| tree.root == 0).collect();
    assert_eq!(of_a.len(), 2);
    assert_eq!((&of_a[0].edges[..], &of_a[1].edges[..]), (&[(0, 1), (0, 2)][..], &[(0, 1), (1, 2)][..]));
    assert_eq!(of_a[0].part.end, of_a[1].part.start);
}

#[test]
fn what_comes_twice_cannot_be_followed() {
    // c has a's shard by its own link, and gets it again.
    let text = PLAN.replace("[2,0,2,2]]}", "[2,0,2,2],[0,0,2,3]]}");
    let errors = read(&text, None).expect_err("refused");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), ("UNSUPPORTED_FIELD", "/content/steps"));
}
