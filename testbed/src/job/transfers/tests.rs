//! Plans of rates, carried out in memory in pieces of any size: every word is right, and nothing leaves before what it
//! waits for has come.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::follow::{self, Job};
use sluice_planners::Run;
use sluice_planners_wan::from_topology::Task;
use sluice_planners_wan::generate::{Normal, Sizes, Workload};
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method::{Method, Options, propose};
use sluice_planners_wan::{bound, form, import, to_plan};

use super::*;
use crate::job::trees::tests::{Dice, exchange};

/// Ring all-reduces on a ring of sites; sizes in bytes.
fn rings(nodes: usize, participants: usize, collectives: usize, bytes: f64, method: Method, seed: u64) -> String {
    let graph = Graph::ring(nodes).expect("a ring");
    let size = Normal { mean: bytes / 1e6, deviation: bytes / 2e6, least: 1.5e-6 };
    let workload = Workload { participants, size, sizes: Sizes::IidFlow, ..Workload::new(&graph, collectives, seed) };
    let instance = workload.generate().expect("an instance");
    let (topology, wanted) = import::read(form::write(&instance).as_bytes(), "i.json").expect("read");
    let task = Task::new(&topology, &wanted, &[], "i.json").expect("a task");
    let plan = propose(method, &task.instance, &Options::default(), None, &Run::quiet(1)).expect("a plan").plan;
    let outcome = plan.execute(&task.instance).expect("played");
    let made = to_plan::make(&task, &plan, &outcome, &bound::of_each(&task.instance), false).expect("made");
    made.plan.to_text()
}

fn followed(text: &str, collective: u64) -> Followed {
    let job = Job { ranks: None, collective: Some(collective) };
    Followed::by(text.as_bytes(), "p.json", job, None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A flow of a hand-written plan: place (group, order), from and to as `ab`, bytes, and the flows it waits for besides.
type Hand<'a> = ((u64, u64), &'a str, u64, &'a [u64]);

/// Three sites a, b and c, linked both ways, with these flows by their ids, each at 1 MB/s. a sends first and is rank 0, b is rank 1.
fn by_hand(flows: &[Hand<'_>]) -> Followed {
    let ways = ["ab", "bc", "ca", "ba", "cb", "ac"];
    let link = |way: &str| json!({"from": &way[..1], "to": &way[1..], "capacity": "1GB/s"});
    let nodes = ["a", "b", "c"].map(|id| json!({"id": id, "kind": "site"}));
    let fabric = json!({"sluice_topology": 1, "nodes": nodes, "links": ways.map(link)});
    let digest = Topology::read(fabric.to_string().as_bytes(), "t").expect("a topology").digest();
    let flow = |(id, ((group, order), way, bytes, pred)): (usize, &Hand<'_>)| {
        let path = ways.iter().position(|other| other == way).expect("a link");
        let mut flow = json!({"id": id, "collective": 0, "group": group, "order": order, "src": &way[..1],
            "dst": &way[1..], "path": [path], "size": format!("{bytes}B"), "rate": "1MB/s"});
        if !pred.is_empty() {
            flow["pred"] = json!(pred);
        }
        flow
    };
    let flows: Vec<Value> = flows.iter().enumerate().map(flow).collect();
    let plan = json!({"sluice_plan": 1, "collective": "custom", "claim": {},
        "topology": {"sha256": digest, "inline": fabric},
        "content": {"kind": "rates", "execution": "work_conserving", "flows": flows}});
    followed(&plan.to_string(), 0)
}

fn member(plan: &Followed, rank: usize) -> Transfers {
    let mut member = Transfers::new(plan, rank).expect("a place in it");
    member.begin(0);
    member
}

/// What a member said, in the order in which all members said it: did the flow begin, or end?
type Said = Rc<RefCell<Vec<(bool, LaneFlow)>>>;

/// A member, and what the plan itself says of what it may send.
struct Watched<'a> {
    inner: Transfers,
    plan: &'a Followed,
    rank: u32,
    /// Lanes that begin and end here.
    lanes: [Vec<usize>; 2],
    said: Said,
}

impl Watched<'_> {
    fn new(plan: &Followed, rank: u32, said: Said) -> Watched<'_> {
        let lanes = |mine: &dyn Fn(&follow::Lane) -> bool| {
            let lanes = plan.transfers.lanes.iter().enumerate();
            lanes.filter(|(_, lane)| mine(lane)).map(|(at, _)| at).collect()
        };
        let lanes = [lanes(&|lane| lane.from == rank), lanes(&|lane| lane.to == rank)];
        Watched { inner: Transfers::new(plan, rank as usize).expect("a place in it"), plan, rank, lanes, said }
    }
    fn come(&self, lane: usize) -> Option<u64> {
        Some(self.inner.arrived(self.lanes[1].iter().position(|other| *other == lane)?))
    }
}

impl Exchange for Watched<'_> {
    fn streams(&self) -> &Streams {
        self.inner.streams()
    }
    fn begin(&mut self, iteration: u64) {
        self.inner.begin(iteration);
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        while let Some(flow) = self.inner.began(out, at) {
            self.said.borrow_mut().push((true, flow));
        }
        let offered = self.inner.next(out, at, most).iter().map(|piece| piece.len()).sum::<usize>() as u64;
        let lane = self.lanes[0][out];
        let mut begin = 0;
        for flow in &self.plan.transfers.lanes[lane].flows {
            if offered > 0 && whole(begin) < at + offered {
                for arrival in &flow.after {
                    let come = self.come(arrival.lane);
                    assert!(come.is_none_or(|come| come >= arrival.bytes), "rank {}: {flow:?} at {at}", self.rank);
                }
            }
            begin = flow.end;
        }
        self.inner.next(out, at, most)
    }
    fn arrived(&self, input: usize) -> u64 {
        self.inner.arrived(input)
    }
    fn accept(&mut self, input: usize, data: &[f32]) -> Result<(), JobError> {
        self.inner.accept(input, data)?;
        while let Some(flow) = self.inner.ended(input) {
            self.said.borrow_mut().push((false, flow));
        }
        Ok(())
    }
    fn wrong(&self, iteration: u64) -> Option<Difference> {
        self.inner.wrong(iteration)
    }
}

/// Every word comes, every flow is told of once at each end, and began after what it waits for had ended.
fn run(plan: &Followed, room: usize, dice: &mut Dice) {
    let said = Said::default();
    let ranks = plan.participants.len() as u32;
    let mut members: Vec<_> = (0..ranks).map(|rank| Watched::new(plan, rank, Rc::clone(&said))).collect();
    let lanes = &plan.transfers.lanes;
    for iteration in 0..2 {
        said.borrow_mut().clear();
        members.iter_mut().for_each(|m| m.begin(iteration));
        exchange(&mut members, room, dice);
        for (rank, m) in members.iter().enumerate() {
            assert!(m.complete(), "rank {rank} misses something");
            assert_eq!(m.wrong(iteration), None, "rank {rank}");
        }
        let said = said.borrow();
        let when = |begins: bool, lane: usize, flow: usize| {
            let same = |(began, of): &(bool, LaneFlow)| *began == begins && (of.lane, of.flow) == (lane, flow);
            let found: Vec<usize> = (0..said.len()).filter(|at| same(&said[*at])).collect();
            assert!(found.len() < 2, "flow {flow} of lane {lane} was told twice");
            found.first().copied()
        };
        for (number, lane) in lanes.iter().enumerate() {
            let mut before = 0;
            for (at, flow) in lane.flows.iter().enumerate() {
                let (began, ended) = (when(true, number, at), when(false, number, at));
                let has_bytes = whole(flow.end) > whole(before);
                assert_eq!((began.is_some(), ended.is_some()), (has_bytes, has_bytes), "flow {at} of lane {number}");
                for of in flow.after.iter().filter(|of| has_bytes && lanes[of.lane].to == lane.from) {
                    let last = lanes[of.lane].flows.iter().position(|flow| flow.end == of.bytes).expect("an end");
                    assert!(when(false, of.lane, last).is_none_or(|ended| Some(ended) < began));
                }
                before = flow.end;
            }
        }
        assert!(
            said.iter().all(|(_, of)| (of.from, of.to) == (lanes[of.lane].from as usize, lanes[of.lane].to as usize))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_of_rates_gets_through_with_every_word_right(
        nodes in 3_usize..7, less in 0_usize..3, collectives in 1_usize..3, which in 0_usize..3,
        bytes in prop_oneof![2_f64..40.0, 3_000_f64..30_000.0], room in 4_usize..20_000, seed: u64,
    ) {
        let participants = (nodes - less.min(nodes - 2)).min(5);
        let method = [Method::DataAware, Method::WeightSca, Method::Perm][which];
        let text = rings(nodes, participants, collectives, bytes, method, seed);
        let mut dice = Dice(seed);
        for collective in 0..collectives as u64 {
            let plan = followed(&text, collective);
            let mut pairs: Vec<_> = plan.transfers.lanes.iter().map(|lane| (lane.from, lane.to)).collect();
            pairs.dedup();
            prop_assert!(participants == 2 || pairs.len() < plan.transfers.lanes.len(), "lanes between the same two");
            run(&plan, room, &mut dice);
        }
    }
}

/// One chain round a, b, c and a; b sends in another group as well, behind flow 1, which ends at c, and flow 3 at b.
fn chains() -> Followed {
    by_hand(&[
        ((0, 0), "ab", 1_001, &[]),
        ((0, 1), "bc", 402, &[]),
        ((0, 2), "ca", 40, &[]),
        ((1, 0), "cb", 81, &[]),
        ((2, 0), "bc", 90, &[1, 3]),
    ])
}

#[test]
fn a_flow_waits_for_what_comes_here_and_not_for_what_ends_elsewhere() {
    let mut b = member(&chains(), 1);
    let bytes: Vec<_> = b.outs().iter().map(|out| (out.peer, out.lane, out.bytes)).collect();
    assert_eq!(bytes, [(2, 0, 404), (2, 1, 92)], "whole words");
    let bytes: Vec<_> = b.ins().iter().map(|input| (input.peer, input.lane, input.bytes)).collect();
    assert_eq!(bytes, [(0, 0, 1_004), (2, 0, 84)]);
    let words = |input: usize, from: u64, n: u64| -> Vec<f32> {
        let lane = [0, 4][input];
        (from..from + n).map(|index| word(seed(0, lane), index)).collect()
    };
    let is_open = |b: &mut Transfers, out: usize| !b.next(out, 0, 10)[0].is_empty();
    b.accept(0, &words(0, 0, 250)).expect("as the plan says");
    b.accept(1, &words(1, 0, 20)).expect("as the plan says");
    assert!(!is_open(&mut b, 0) && !is_open(&mut b, 1) && b.ended(0).is_none(), "a word is still to come");
    // Flow 1 ends at c: b has not even sent it.
    b.accept(1, &words(1, 20, 1)).expect("as the plan says");
    assert!(!is_open(&mut b, 0) && is_open(&mut b, 1));
    b.accept(0, &words(0, 250, 1)).expect("as the plan says");
    assert!(is_open(&mut b, 0) && b.complete());
    assert_eq!(b.ended(0), Some(LaneFlow { lane: 0, flow: 0, from: 0, to: 1 }));
    assert_eq!((b.ended(0), b.wrong(0)), (None, None));
    let error = b.accept(0, &[0.0]).expect_err("all has come");
    assert!(error.to_string().contains("member 0: sent more"), "{error}");
    run(&chains(), 64, &mut Dice(1));
}

#[test]
fn a_flow_begins_with_its_first_byte_and_only_once() {
    // The lane from a to b has three flows, of which the second has no word of its own, and the third waits for b.
    let plan =
        by_hand(&[((0, 0), "ab", 9, &[]), ((0, 1), "ab", 2, &[]), ((0, 2), "ab", 10, &[3]), ((1, 0), "ba", 4, &[])]);
    let mut a = member(&plan, 0);
    let flow = |flow| Some(LaneFlow { lane: 0, flow, from: 0, to: 1 });
    assert_eq!(a.outs()[0].bytes, 24);
    assert_eq!((a.next(0, 0, 100)[0].len(), a.began(0, 0)), (12, None));
    assert_eq!((a.began(0, 1), a.began(0, 1)), (flow(0), None));
    assert_eq!((a.next(0, 12, 100)[0].len(), a.began(0, 12)), (0, None));
    a.accept(0, &[word(seed(0, 1), 0)]).expect("as the plan says");
    assert_eq!((a.next(0, 12, 100)[0].len(), a.began(0, 12)), (12, None));
    assert_eq!((a.began(0, 13), a.next(0, 24, 100)[0].len(), a.began(0, 24)), (flow(2), 0, None));
    run(&plan, 5, &mut Dice(2));
}

#[test]
fn words_are_the_same_however_they_are_asked_for() {
    let plan = by_hand(&[((0, 0), "ab", 200_000, &[])]);
    let whole = |a: &mut Transfers| {
        let mut bytes = Vec::new();
        while bytes.len() < 200_000 {
            let piece = a.next(0, bytes.len() as u64, usize::MAX)[0].to_vec();
            bytes.extend(piece);
        }
        bytes
    };
    let mut a = member(&plan, 0);
    let bytes = whole(&mut a);
    assert!(a.sending[0].scratch.len() <= SCRATCH);
    a.begin(0);
    let (mut at, mut dice) = (0, Dice(3));
    while at < bytes.len() {
        let most = 1 + dice.below(70_000);
        let piece = a.next(0, at as u64, most)[0];
        assert!(!piece.is_empty() && piece.len() <= most && piece == &bytes[at..at + piece.len()], "at {at}");
        at += 1 + dice.below(piece.len());
    }
    a.begin(1);
    assert_ne!(whole(&mut a), bytes, "another iteration");
}

#[test]
fn a_damaged_word_or_another_lanes_is_noticed() {
    let plan = by_hand(&[((0, 0), "ab", 400, &[]), ((1, 0), "ab", 400, &[])]);
    let sent = |lane: u64| -> Vec<f32> { (0..100).map(|index| word(seed(0, lane), index)).collect() };
    for (bit, place) in [(0, 0), (31, 57), (22, 99)] {
        let mut b = member(&plan, 1);
        let mut words = sent(1);
        let expected = words[place];
        words[place] = f32::from_bits(expected.to_bits() ^ (1 << bit));
        b.accept(0, &sent(0)).expect("as the plan says");
        b.accept(1, &words[..50]).expect("as many as the plan says");
        b.accept(1, &words[50..]).expect("as many as the plan says");
        let wrong = b.wrong(0).expect("noticed");
        assert_eq!((wrong.lane, wrong.element), (Some(1), place));
        assert_eq!((wrong.seen.to_bits(), wrong.expected), (words[place].to_bits(), expected));
    }
    let mut b = member(&plan, 1);
    b.accept(0, &sent(1)).expect("as many as the plan says");
    assert_eq!(b.wrong(0).map(|wrong| wrong.lane), Some(Some(0)));
    // The last iteration's words are no better.
    b.begin(1);
    assert_eq!(b.wrong(1), None);
    b.accept(1, &sent(1)).expect("as many as the plan says");
    assert!(b.wrong(1).is_some());
}

#[test]
fn a_lane_that_would_never_end_is_refused() {
    let most = by_hand(&[((0, 0), "ab", MAX_LANE, &[])]);
    assert!(Transfers::new(&most, 0).is_ok());
    let more = by_hand(&[((0, 0), "ab", MAX_LANE + 1, &[])]);
    // A rank that has no part in the lane refuses as well, so that nobody waits for the others.
    for rank in 0..3 {
        let error = Transfers::new(&more, rank).expect_err("refused");
        assert!(error.to_string().contains("1099511627777 bytes"), "{error}");
    }
}
