//! One behaviour at a time: slots, overlap, jitter, cross traffic, marks, holds, loss, faults, freeze, granules, routes.

use sluice_scenario::{LinkIx, NodeIx};
use sluice_schedule::Nanos;

use super::{Equal, TWO_RINGS, fair, go, jct, ring, scenario};
use crate::{Change, FlowIx, JobIx, Order, Orders, Scheduler, World};

/// Does what a function says, and remembers when it was asked what.
struct Scripted<F: FnMut(&World<'_>, &[Change], &mut Orders)> {
    act: F,
    wake: Option<Nanos>,
}

impl<F: FnMut(&World<'_>, &[Change], &mut Orders)> Scheduler for Scripted<F> {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        (self.act)(world, changes, orders);
    }
    fn wake(&self) -> Option<Nanos> {
        self.wake
    }
}

fn told(s: &sluice_scenario::Scenario, act: impl FnMut(&World<'_>, &[Change], &mut Orders)) -> crate::Outcome {
    go(s, &mut Scripted { act, wake: None }).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn slots_make_a_round_wait_for_the_edge() {
    let mode = |mode: &str| {
        let jobs = [ring("a", 1, "0.53", 2), ring("b", 1, "0.53", 2)].concat();
        jct(&fair(&scenario(&format!("{TWO_RINGS}{jobs}[time]\nmode = \"{mode}\"\nslot_ms = 100\n"))))
    };
    // Compute 0.53, at the edge 0.6 both begin, 2 s at half speed; again from 2.6.
    assert_eq!(mode("event"), [5.06, 5.06]);
    assert_eq!(mode("slot"), [5.2, 5.2]);
    assert_eq!(mode("paper-slot"), [5.2, 5.2]);
}

#[test]
fn ends_inside_a_slot_are_exact_except_in_the_paper_s_mode() {
    let mode = |mode: &str| {
        let text = format!("{TWO_RINGS}{}[time]\nmode = \"{mode}\"\nslot_ms = 60\n", ring("a", 1, "0.5", 2));
        jct(&fair(&scenario(&text)))[0]
    };
    // 0.5 → 0.54 … 1.54; compute to 2.04, an edge … 3.04.
    assert!((mode("slot") - 3.04).abs() < 1e-8);
    // 0.54 … 1.56; compute to 2.1 … 3.12.
    assert!((mode("paper-slot") - 3.12).abs() < 1e-8);
}

#[test]
fn overlap_hides_what_it_may() {
    let text = format!("{TWO_RINGS}{}overlap = 0.5\n", ring("a", 1, "2", 3));
    // Round from 1 to 2 inside a compute phase of 2: nothing is left of it.
    assert_eq!(jct(&fair(&scenario(&text))), [6.0]);
    let text = format!("{TWO_RINGS}{}overlap = 0.25\n", ring("a", 1, "2", 3));
    assert_eq!(jct(&fair(&scenario(&text))), [7.5]);
}

#[test]
fn jitter_is_the_seed_s_and_keyed() {
    let run = |seed: u64| {
        let text = format!("{TWO_RINGS}{}compute_jitter = 0.2\n", ring("a", 1, "1", 50));
        fair(&scenario(&text.replace("name =", &format!("seed = {seed}\nname ="))))
    };
    let (a, b) = (run(1), run(2));
    assert_eq!(a, run(1));
    assert_ne!(jct(&a), jct(&b));
    assert!((80.0..120.0).contains(&jct(&a)[0]));
    assert_eq!(a.jobs[0].isolated_run, a.jobs[0].ended.unwrap_or_default());
}

#[test]
fn cross_traffic_takes_its_share_and_only_while_it_lasts() {
    let cross = |gbps: &str| {
        let text = format!(
            "{TWO_RINGS}cross_flows = [{{src = \"h0\", dst = \"h1\", start_s = 1, end_s = 2{gbps}}}]\n{}",
            ring("a", 1, "1", 1)
        );
        let (head, rest) = text.split_once("cross_flows").unwrap_or((&text, ""));
        let (line, jobs) = rest.split_once('\n').unwrap_or((rest, ""));
        scenario(&format!("cross_flows{line}\n{head}{jobs}"))
    };
    // Half for a second, then alone: 1 + 1 + 0.5.
    let o = fair(&cross(""));
    assert_eq!(jct(&o), [2.5]);
    assert_eq!((o.links[0].bytes, o.links[0].cross_bytes), (1.5e9, 0.5e9));
    assert_eq!((o.links[0].busy, o.links[0].shared), (1_500_000_000, 0));
    // 2 of 8 Gbit/s: three quarters for a second.
    assert_eq!(jct(&fair(&cross(", gbps = 2"))), [2.25]);
    // With classes elastic traffic stands beside the most urgent job, capped traffic before it.
    let strict = |s| jct(&go(&s, &mut super::Strict(vec!["a".into()])).unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(strict(cross("")), [2.5]);
    assert_eq!(strict(cross(", gbps = 6")), [2.75]);
}

#[test]
fn marks_are_told_when_they_are_passed() {
    let s = scenario(&format!("{TWO_RINGS}{}", ring("a", 1, "1", 2)));
    let mut seen = Vec::new();
    told(&s, |world, changes, orders| {
        for change in changes {
            match change {
                Change::RoundBegan(job) => {
                    orders.mark(FlowIx(0), 0.25e9);
                    orders.mark_job(*job, 1.5e9);
                }
                Change::Passed(flow) => seen.push((world.now.0, world.flows[flow.0].sent)),
                Change::JobPassed(job) => {
                    seen.push((world.now.0, world.flows_of(*job).map(|(_, f)| f.sent).sum::<f64>()));
                }
                _ => {}
            }
        }
    });
    let at = |ms: u64, bytes: f64| (ms * 1_000_000, bytes);
    assert_eq!(seen, [at(1250, 0.25e9), at(1750, 1.5e9), at(3250, 0.25e9), at(3750, 1.5e9)]);
}

#[test]
fn holds_caps_and_wakes() {
    let s = scenario(&format!("{TWO_RINGS}{}", ring("a", 1, "1", 1)));
    let hold = |world: &World<'_>, changes: &[Change], orders: &mut Orders| {
        if changes.contains(&Change::JobStarted(JobIx(0))) {
            for (flow, _) in world.flows_of(JobIx(0)) {
                orders.set(flow, Order { hold: Nanos::from_millis(1700), cap: 0.5e9, ..Order::default() });
            }
        }
    };
    assert_eq!(jct(&told(&s, hold)), [3.7]);
    let mut asked = Vec::new();
    let act = |world: &World<'_>, changes: &[Change], _: &mut Orders| {
        if changes.contains(&Change::Woken) {
            asked.push(world.now.0);
        }
    };
    go(&s, &mut Scripted { act, wake: Some(Nanos(1_234_567)) }).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(asked, [1_234_567]);
}

#[test]
fn lost_bytes_are_sent_again() {
    let s = scenario(&format!("loss = 0.1\n{TWO_RINGS}{}", ring("a", 1, "1", 1)));
    let want = 1.0 + 1.0 / (0.9 * 0.9);
    assert!((jct(&fair(&s))[0] - want).abs() < 1e-8);
}

#[test]
fn faults_and_edges_are_told() {
    let text = format!(
        "faults = [{{at_s = 0.5, kind = \"partition\", target = \"h0\", for_s = 0.25}}]\n{TWO_RINGS}{}",
        ring("a", 1, "1", 1)
    );
    let (mut faults, mut edges) = (Vec::new(), 0);
    told(&scenario(&text), |world, changes, _| {
        for change in changes {
            match change {
                Change::Fault { over, .. } => faults.push((world.now.0, *over)),
                Change::SlotEdge => edges += 1,
                _ => {}
            }
        }
    });
    assert_eq!(faults, [(500_000_000, false), (750_000_000, true)]);
    // Every 60 ms of two seconds.
    assert!((30..=34).contains(&edges), "{edges}");
}

#[test]
fn frozen_hosts_do_not_depend_on_the_scheduler() {
    let jobs: String =
        (0..12).map(|i| format!("{}arrival_s = {}\n", ring(&format!("j{i}"), 1 + i % 3, "0.3", 3), i)).collect();
    let text =
        format!("{TWO_RINGS}freeze = true\n{jobs}").replace("hosts = 2", "hosts = 3").replace("gpus = 2", "gpus = 1");
    let s = scenario(&text);
    let order: Vec<String> = (0..12).rev().map(|i| format!("j{i}")).collect();
    let (a, b) = (fair(&s), go(&s, &mut super::Strict(order)).unwrap_or_else(|e| panic!("{e}")));
    for (a, b) in a.jobs.iter().zip(&b.jobs) {
        assert_eq!(a.placement, b.placement);
        assert_eq!(a.placement.workers.len(), 2);
    }
}

#[test]
fn whole_messages_cost_a_message() {
    let text = |granule: u64| {
        format!(
            "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 3\ngpus = 1\ngbps = 8\n[placement]\nserver_gpus = 0\n[[jobs]]\nid = \"a\"\nbytes = 1000000000\ncompute_s = 0\narch = \"ps\"\niterations = 1\ngranule_bytes = {granule}\nplacement = {{workers = [\"h0\"], servers = [\"h1\"]}}\n"
        )
    };
    let end = |granule| jct(&fair(&scenario(&text(granule))))[0];
    assert_eq!(end(0), 1.0);
    // The last message of a tenth can only leave when it has come in.
    assert!((end(100_000_000) - 1.1).abs() < 1e-6, "{}", end(100_000_000));
    assert!((end(1_000_000_000) - 2.0).abs() < 1e-6);
    // A ring with messages as large as the whole: everybody may send what is its own.
    let s = scenario(&format!("{TWO_RINGS}{}granule_bytes = 1000000000\n", ring("a", 1, "0", 2)));
    assert!((jct(&fair(&s))[0] - 2.0).abs() < 1e-6);
}

#[test]
fn a_flow_goes_another_way_when_told() {
    let text = "version = 1\nname = \"t\"\n[network]\nkind = \"explicit\"\nhosts = [{id = \"h0\"}, {id = \"h1\"}]\nswitches = [{id = \"s0\"}]\nlinks = [{a = \"h0\", b = \"s0\", gbps = 8, count = 2}, {a = \"h1\", b = \"s0\", gbps = 8, count = 2}]\n[[jobs]]\nid = \"a\"\narch = \"flows\"\ncompute_s = 0\niterations = 1\nflows = [{id = \"x\", src = \"h0\", dst = \"h1\", bytes = 1000000000}, {id = \"y\", src = \"h0\", dst = \"h1\", bytes = 1000000000}]\n";
    let s = scenario(text);
    let links = |from: usize, to: usize| -> Vec<LinkIx> {
        let all = s.network.links.iter().enumerate();
        all.filter(|(_, l)| (l.from, l.to) == (NodeIx(from), NodeIx(to))).map(|(i, _)| LinkIx(i)).collect()
    };
    let (up, down) = (links(0, 2), links(2, 1));
    let way = |apart: bool| {
        told(&s, |world, changes, orders| {
            if changes.contains(&Change::JobStarted(JobIx(0))) {
                orders.route(FlowIx(0), vec![up[0], down[0]]);
                orders.route(FlowIx(1), vec![up[0], down[0]]);
            }
            // Half way one of them moves over.
            if world.now.0 == 0 && apart {
                orders.mark(FlowIx(0), 0.5e9);
            }
            if changes.contains(&Change::Passed(FlowIx(0))) {
                orders.route(FlowIx(1), vec![up[1], down[1]]);
            }
        })
    };
    assert_eq!(jct(&way(false)), [2.0]);
    let o = way(true);
    assert_eq!(jct(&o), [1.5]);
    assert_eq!((o.links[up[0].0].bytes, o.links[up[1].0].bytes), (1.5e9, 0.5e9));
}

#[test]
fn jobs_without_network_take_their_compute() {
    let text = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 1\ngpus = 4\ngbps = 8\n[[jobs]]\nid = \"a\"\nbytes = 5\ncompute_s = 0.5\narch = \"ring\"\nworkers = 3\niterations = 4\n[[jobs]]\nid = \"b\"\ncompute_s = 0\narch = \"none\"\nworkers = 1\niterations = 1000\n";
    let o = go(&scenario(text), &mut Equal).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(jct(&o), [2.0, 0.0]);
    assert_eq!(o.jobs[1].rounds.len(), 1000);
}
