//! Which chunk leaves after which and over which link, the trees of the chunks, and what cannot be followed.

use crate::follow::{Followed, Sent, Waits};
use crate::merge::tests::{CABLES, Row, STAR, all_gather, by_turns};
use crate::plan::Direction;
use sluice_formats::problem::Code;
use sluice_formats::topology::Topology;

/// Hosts in a row: the ends' chunks go on from the middle.
const ROW: [(&str, &str); 3] = [("a", "host"), ("b", "host"), ("c", "host")];
const LINKS: [[&str; 2]; 2] = [["a", "b"], ["b", "c"]];
const SENDS: [Row<'static>; 6] = [
    ("a", "a", "b", 0),
    ("b", "b", "a", 0),
    ("c", "c", "b", 0),
    ("a", "b", "c", 1),
    ("b", "b", "c", 2),
    ("c", "b", "a", 2),
];

fn read(text: &str, ranks: Option<&[&str]>) -> Followed {
    let ranks: Option<Vec<String>> = ranks.map(|ranks| ranks.iter().map(|id| (*id).to_owned()).collect());
    Followed::read(text.as_bytes(), "p.json", ranks.as_deref(), None).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(text: &str) -> (Code, String) {
    let errors = Followed::read(text.as_bytes(), "p.json", None, None).expect_err("refused");
    let first = &errors.all()[0];
    assert_eq!(first.file, "p.json");
    (first.code, first.key.clone())
}

#[test]
fn chunks_keep_their_epochs_links_and_ways() {
    let followed = read(&all_gather(&ROW, false, &LINKS, &SENDS), None);
    assert_eq!((followed.steps.shard, followed.steps.waits), (1, Waits::Chunk));
    let sent = |step, from, to, first, link| Sent { step, from, to, first, end: first + 1, adds: false, link };
    let order = [
        sent(0, 0, 1, 0, 0),
        sent(0, 1, 0, 1, 1),
        sent(0, 2, 1, 2, 3),
        sent(1, 1, 2, 0, 2),
        sent(2, 1, 0, 2, 1),
        sent(2, 1, 2, 1, 2),
    ];
    assert_eq!(followed.steps.sent, order);
    let edges: Vec<_> = followed.trees.iter().map(|tree| (tree.root, &tree.edges[..])).collect();
    assert_eq!(edges, [(0, &[(0, 1), (1, 2)][..]), (1, &[(1, 0), (1, 2)]), (2, &[(1, 0), (2, 1)])]);
}

#[test]
fn ranks_of_the_job_may_be_others_than_the_plans() {
    let followed = read(&all_gather(&ROW, false, &LINKS, &SENDS), Some(&["c", "a", "b"]));
    // a is rank 1 of the job and b rank 2.
    let first = Sent { step: 0, from: 1, to: 2, first: 1, end: 2, adds: false, link: 0 };
    assert!(followed.steps.sent.contains(&first), "{:?}", followed.steps.sent);
}

#[test]
fn switches_are_merged_away_and_share_their_hosts_link() {
    let followed = read(&all_gather(&STAR, false, &CABLES, &by_turns(false)), None);
    let of_a: Vec<_> = followed.steps.sent.iter().filter(|sent| sent.from == 0).collect();
    assert_eq!(of_a.iter().map(|sent| (sent.step, sent.to, sent.link)).collect::<Vec<_>>(), [(0, 1, 0), (1, 2, 0)]);
    assert!(followed.trees.iter().all(|tree| tree.edges.iter().all(|(from, _)| *from == tree.root)));
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_place() {
    let unsupported = |key: &str| ("UNSUPPORTED_FIELD", key.to_owned());
    let copying = all_gather(&STAR, true, &CABLES, &by_turns(true));
    assert_eq!(refused(&copying), unsupported("/content/sends/2"));
    // c has a's chunk by then.
    let mut again = SENDS.to_vec();
    again.push(("a", "b", "c", 3));
    assert_eq!(refused(&all_gather(&ROW, false, &LINKS, &again)), unsupported("/content/sends/6"));
    let memory = [("a", "host"), ("b", "host"), ("m", "memory")];
    let stored = [("a", "a", "b", 0), ("b", "b", "m", 0), ("b", "m", "a", 1)];
    let links = [["a", "b"], ["b", "m"], ["m", "a"]];
    assert_eq!(refused(&all_gather(&memory, false, &links, &stored)), unsupported("/content/sends/1/to"));
    let row = all_gather(&ROW, false, &LINKS, &SENDS);
    let custom = row.replace(
        r#""claim":{}"#,
        r#""claim":{},"demands":{"sluice_demands":1,"tenants":[{"name":"x","collective":"allgather"}]}"#,
    );
    assert_eq!(refused(&custom.replacen("allgather", "custom", 1)), unsupported("/collective"));
    let late = row.replace(r#""epoch":2"#, r#""epoch":4294967296"#);
    assert_eq!(refused(&late), ("E_LIMIT", "/content/sends/4/epoch".into()));
    // A send too early is the checker's to refuse.
    let early = row.replacen(r#""to":"c","epoch":1"#, r#""to":"c","epoch":0"#, 1);
    assert_eq!(refused(&early), ("HOP_WITHOUT_DATA", "/content/sends/3".into()));
}

/// The plan as one of another collective whose sends all add up.
fn adding(text: &str) -> String {
    text.replacen("allgather", "reduce_scatter", 1).replace(r#""chunk":0,"#, r#""chunk":0,"op":"reduce","#)
}

#[test]
fn sums_go_by_trees_towards_their_owners() {
    // The row the other way round.
    let sends = vec![
        ("b", "a", "b", 0),
        ("a", "c", "b", 1),
        ("c", "a", "b", 1),
        ("b", "c", "b", 2),
        ("a", "b", "a", 2),
        ("c", "b", "c", 2),
    ];
    let followed = read(&adding(&all_gather(&ROW, false, &LINKS, &sends)), None);
    assert!(followed.steps.sent.iter().all(|sent| sent.adds));
    let edges: Vec<_> = followed.trees.iter().map(|tree| (tree.root, tree.direction, &tree.edges[..])).collect();
    let inward = Direction::In;
    let expected = [(0, inward, &[(1, 0), (2, 1)][..]), (1, inward, &[(0, 1), (2, 1)]), (2, inward, &[(0, 1), (1, 2)])];
    assert_eq!(edges, expected);
    // b sends what it has of a's chunk before c's part has come, and that after.
    let mut twice = sends.clone();
    twice.push(("a", "b", "a", 1));
    assert_eq!(refused(&adding(&all_gather(&ROW, false, &LINKS, &twice))).0, "UNSUPPORTED_FIELD");
}

#[test]
fn a_switch_that_adds_up_is_refused_with_its_place() {
    let sends = [
        ("a", "b", "s", 0),
        ("a", "c", "s", 0),
        ("a", "s", "a", 1),
        ("b", "a", "s", 1),
        ("b", "c", "s", 1),
        ("b", "s", "b", 2),
        ("c", "a", "s", 2),
        ("c", "b", "s", 2),
        ("c", "s", "c", 3),
    ];
    let text = adding(&all_gather(&STAR, false, &CABLES, &sends)).replace(r#"{"copy":false}"#, r#"{"reduce":true}"#);
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let topology = &file["topology"];
    let digest = Topology::read(topology["inline"].to_string().as_bytes(), "t").expect("valid").digest();
    let text = text.replace(topology["sha256"].as_str().expect("a digest"), &digest);
    assert_eq!(refused(&text), ("UNSUPPORTED_FIELD", "/content/sends/2".into()));
}

#[test]
fn chunks_that_are_cut_are_refused() {
    let pair = [("a", "host"), ("b", "host")];
    let whole = all_gather(&pair, false, &[["a", "b"]], &[("a", "a", "b", 0), ("b", "b", "a", 0)]);
    let cut = whole.replace(r#""chunks":1"#, r#""chunks":1,"divisible":true"#);
    let cut = cut.replace(r#""epoch":0"#, r#""epoch":0,"offset":0,"bytes":1000000"#);
    assert_eq!(refused(&cut), ("UNSUPPORTED_FIELD", "/content/model/divisible".into()));
    assert_eq!(read(&whole, None).trees.len(), 2);
}

#[test]
fn any_byte_of_a_plan_may_be_damaged() {
    let text = all_gather(&STAR, false, &CABLES, &by_turns(false));
    let good = read(&text, None);
    for at in (0..text.len()).step_by(3) {
        for bit in [0, 3, 6] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            if let Ok(followed) = Followed::read(&bytes, "p.json", None, None) {
                assert_eq!((followed.steps.sent.len(), followed.trees.len()), (good.steps.sent.len(), 3));
            }
        }
        assert!(Followed::read(&text.as_bytes()[..at], "p.json", None, None).is_err());
    }
}
