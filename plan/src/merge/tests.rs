//! What crosses switches that copy, that do not, and that stand in a row; and nodes that would have to store.

use super::*;
use crate::check::{check, timed};
use crate::plan::{Content, Plan};

/// A send: whose chunk, from, to, epoch.
pub type Row<'a> = (&'a str, &'a str, &'a str, u64);

/// The plan of an all-gather of one chunk over links of one chunk an epoch. `nodes`: (id, kind); `copies`: do switches
/// copy?
pub fn all_gather(nodes: &[(&str, &str)], copies: bool, links: &[[&str; 2]], sends: &[Row<'_>]) -> String {
    let node = |(id, kind): &(&str, &str)| match *kind {
        "switch" => format!(r#"{{"id":"{id}","kind":"switch","can":{{"copy":{copies}}}}}"#),
        kind => format!(r#"{{"id":"{id}","kind":"{kind}"}}"#),
    };
    let link = |[from, to]: &[&str; 2]| format!(r#"{{"from":"{from}","to":"{to}","capacity":"1MB/s","duplex":true}}"#);
    let send = |(src, from, to, epoch): &Row<'_>| {
        format!(r#"{{"src":"{src}","chunk":0,"from":"{from}","to":"{to}","epoch":{epoch}}}"#)
    };
    let join = |parts: Vec<String>| parts.join(",");
    let inline = format!(
        r#"{{"sluice_topology":1,"nodes":[{}],"links":[{}]}}"#,
        join(nodes.iter().map(node).collect()),
        join(links.iter().map(link).collect())
    );
    let topology = Topology::read(inline.as_bytes(), "t").expect("a topology");
    format!(
        r#"{{"sluice_plan":1,"collective":"allgather","claim":{{}},"topology":{{"sha256":"{}","inline":{inline}}},
         "content":{{"kind":"sends","model":{{"chunk":"1MB","chunks":1,"tau":"1s"}},"sends":[{}]}}}}"#,
        topology.digest(),
        join(sends.iter().map(send).collect())
    )
}

/// Three hosts on a switch.
pub const STAR: [(&str, &str); 4] = [("a", "host"), ("b", "host"), ("c", "host"), ("s", "switch")];
/// Its cables.
pub const CABLES: [[&str; 2]; 3] = [["a", "s"], ["b", "s"], ["c", "s"]];

/// On the star one chunk after the other goes to the switch, twice where the switch does not copy, and on from there.
pub fn by_turns(copies: bool) -> Vec<Row<'static>> {
    let turn = |(turn, [own, one, other]): (u64, [&'static str; 3])| {
        let first = turn * 3;
        let sends = [(own, own, "s", first), (own, "s", one, first + 1)];
        let last = if copies {
            vec![(own, "s", other, first + 1)]
        } else {
            vec![(own, own, "s", first + 1), (own, "s", other, first + 2)]
        };
        sends.into_iter().chain(last)
    };
    (0..).zip([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]).flat_map(turn).collect()
}

fn crossed(text: &str) -> Result<Vec<Crossing>, Problems> {
    let plan = Plan::read(text.as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(check(&plan, None).violation, None);
    let Content::Sends(content) = &plan.body.content else { panic!("sends") };
    let file = plan.body.topology.inline.clone().expect("carried along");
    let topology = Topology::build(*file, "").expect("a topology");
    let ranks = topology.compute().into_iter().zip(0..).collect();
    let timed = timed(&plan, &topology, content).expect("looked up");
    crossings(&topology, &timed, &ranks)
}

fn ends(crossings: &[Crossing]) -> Vec<(u32, u32, u32, u32)> {
    crossings.iter().map(|crossing| (crossing.epoch, crossing.owner, crossing.from, crossing.to)).collect()
}

const PAIR: [(&str, &str); 4] = [("a", "host"), ("b", "host"), ("s", "switch"), ("t", "switch")];

#[test]
fn switches_in_a_row_are_merged_away() {
    let links = [["a", "s"], ["s", "t"], ["t", "b"]];
    let sends = [
        ("a", "a", "s", 0),
        ("b", "b", "t", 1),
        ("a", "s", "t", 1),
        ("b", "t", "s", 2),
        ("a", "t", "b", 2),
        ("b", "s", "a", 3),
    ];
    let crossings = crossed(&all_gather(&PAIR, false, &links, &sends)).expect("merged");
    assert_eq!(ends(&crossings), [(0, 0, 0, 1), (1, 1, 1, 0)]);
    // They leave by a → s and by b → t.
    assert_eq!(crossings.iter().map(|crossing| (crossing.at, crossing.link)).collect::<Vec<_>>(), [(0, 0), (1, 5)]);
}

#[test]
fn what_came_twice_to_a_switch_is_no_copy_and_what_came_once_is() {
    let plain = crossed(&all_gather(&STAR, false, &CABLES, &by_turns(false))).expect("merged");
    assert_eq!(ends(&plain)[..2], [(0, 0, 0, 1), (1, 0, 0, 2)]);
    assert!(plain.iter().all(|crossing| crossing.copied.is_none()) && plain.len() == 6);
    let copied = crossed(&all_gather(&STAR, true, &CABLES, &by_turns(true))).expect("merged");
    assert_eq!(ends(&copied)[..2], [(0, 0, 0, 1), (0, 0, 0, 2)]);
    assert_eq!(copied[..2].iter().map(|crossing| crossing.copied).collect::<Vec<_>>(), [None, Some(2)]);
}

#[test]
fn a_chunk_that_would_be_stored_by_somebody_else_is_refused_with_its_place() {
    let nodes = [("a", "host"), ("b", "host"), ("m", "memory")];
    let links = [["a", "b"], ["b", "m"], ["m", "a"]];
    let sends = [("a", "a", "b", 0), ("b", "b", "m", 0), ("b", "m", "a", 1)];
    let errors = crossed(&all_gather(&nodes, false, &links, &sends)).expect_err("refused");
    let first = &errors.all()[0];
    assert_eq!((first.code, &*first.key, &*first.found), ("UNSUPPORTED_FIELD", "/content/sends/1/to", "m"));
}

#[test]
fn copies_and_sums_are_told_behind_further_switches() {
    // a and b hang on s, which copies and adds up; c on t and u, which do neither.
    let nodes = [("a", "gpu"), ("b", "gpu"), ("c", "gpu"), ("s", "switch"), ("t", "switch"), ("u", "switch")];
    let links = [["a", "s"], ["b", "s"], ["s", "t"], ["s", "u"], ["t", "c"], ["u", "c"]];
    let topology = {
        let node = |(id, kind): &(&str, &str)| {
            let able = *id == "s";
            format!(r#"{{"id":"{id}","kind":"{kind}","can":{{"copy":{0},"reduce":{0}}}}}"#, able || *kind == "gpu")
        };
        let link =
            |[from, to]: &[&str; 2]| format!(r#"{{"from":"{from}","to":"{to}","capacity":"1MB/s","duplex":true}}"#);
        let join = |parts: Vec<String>| parts.join(",");
        let (nodes, links) = (nodes.iter().map(node).collect(), links.iter().map(link).collect());
        let text = format!(r#"{{"sluice_topology":1,"nodes":[{}],"links":[{}]}}"#, join(nodes), join(links));
        Topology::read(text.as_bytes(), "t").expect("a topology")
    };
    let ranks: HashMap<usize, u32> = topology.compute().into_iter().zip(0..).collect();
    let index = |id: &str| topology.node(id).expect("a node");
    let timed = |sends: &[(&str, &str, &str, u64)], reduces: bool| -> Vec<Timed> {
        let one = |(at, (source, from, to, epoch)): (usize, &(&str, &str, &str, u64))| {
            let (from, to, source) = (index(from), index(to), index(source));
            let link = topology.links().iter().position(|link| (link.from, link.to) == (from, to)).expect("a link");
            Timed {
                at,
                epoch: *epoch,
                busy: 1,
                usable: epoch + 1,
                from,
                to,
                link,
                out: None,
                source,
                number: 0,
                lo: 0,
                hi: 1,
                wanted: true,
                reduces,
            }
        };
        sends.iter().enumerate().map(one).collect()
    };
    // a's chunk goes up once; s copies it to b and to t, and t passes it on.
    let copied = [("a", "a", "s", 0), ("a", "s", "b", 1), ("a", "s", "t", 1), ("a", "t", "c", 2)];
    let all = crossings(&topology, &timed(&copied, false), &ranks).expect("merged");
    assert_eq!(all.iter().map(|of| (of.from, of.to, of.copied)).collect::<Vec<_>>(), [(0, 1, None), (0, 2, Some(2))]);
    // The same backwards: s adds up what comes from b and c.
    let summed = [("c", "a", "s", 0), ("c", "b", "s", 0), ("c", "s", "t", 1), ("c", "t", "c", 2)];
    let all = crossings(&topology, &timed(&summed, true), &ranks).expect("merged");
    let found: Vec<_> = all.iter().map(|of| (of.from, of.to, of.usable, of.summed, of.copied)).collect();
    assert_eq!(found, [(0, 2, 3, Some(2), None), (1, 2, 3, Some(2), None)]);
    // One at a time through t, which keeps them apart, and u.
    let apart = [
        ("c", "a", "s", 0),
        ("c", "s", "t", 1),
        ("c", "b", "s", 1),
        ("c", "s", "u", 2),
        ("c", "t", "c", 2),
        ("c", "u", "c", 3),
    ];
    let all = crossings(&topology, &timed(&apart, true), &ranks).expect("merged");
    assert_eq!(all.iter().map(|of| (of.from, of.epoch, of.summed)).collect::<Vec<_>>(), [(0, 0, None), (1, 1, None)]);
}
