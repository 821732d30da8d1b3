//! Properties over random scenarios (`simulation.md` section 14, those that are the engine's).

use proptest::prelude::*;
use sluice_scenario::Scenario;
use sluice_schedule::Nanos;

use super::{Equal, Strict, fair, go, jct, scenario};
use crate::{Change, Order, Orders, Outcome, Scheduler, SimError, Watch, World};

#[derive(Clone, Debug)]
struct Lot {
    kind: u8,
    members: u32,
    mb: u64,
    compute_ms: u64,
    iterations: u32,
    arrival_ms: u64,
    after: bool,
}

fn lots(most: usize) -> impl Strategy<Value = Vec<Lot>> {
    let lot = (0u8..4, 2u32..5, 1u64..900, 0u64..800, 1u32..4, 0u64..3000, any::<bool>()).prop_map(
        |(kind, members, mb, compute_ms, iterations, arrival_ms, after)| Lot {
            kind,
            members,
            mb,
            compute_ms,
            iterations,
            arrival_ms,
            after,
        },
    );
    prop::collection::vec(lot, 1..most)
}

/// Random jobs on a small three-tier network with bottlenecks at every tier.
fn text(lots: &[Lot], policy: &str, gpus: u32, head: &str) -> String {
    let mut text = format!(
        "version = 1\nname = \"p\"\nseed = 5\n{head}\n[network]\nkind = \"three-tier\"\nservers_per_rack = 2\nracks_per_edge = 2\nedges = 2\ngpus = {gpus}\ngbps = [8, 10, 12]\n[placement]\npolicy = \"{policy}\"\n"
    );
    for (i, l) in lots.iter().enumerate() {
        let (arch, workers, servers) = match l.kind {
            0 | 1 => ("ring", l.members, 0),
            2 => ("ps", l.members - 1, 1 + l.members % 2),
            _ => ("tree", l.members, 0),
        };
        let dependency = if l.after { "start-after" } else { "pipelined" };
        text.push_str(&format!(
            "[[jobs]]\nid = \"j{i}\"\nbytes = {}000003\ncompute_s = \"{}/1000\"\narch = \"{arch}\"\nworkers = {workers}\nservers = {servers}\niterations = {}\narrival_s = \"{}/1000\"\ndependency = \"{dependency}\"\n",
            l.mb, l.compute_ms, l.iterations, l.arrival_ms
        ));
    }
    text
}

/// Shares equally while it watches that nothing impossible happens.
struct Inspector<S> {
    inner: S,
    wrong: Vec<String>,
    last: u64,
}

impl<S: Scheduler> Scheduler for Inspector<S> {
    fn rounds(&self) -> crate::Rounds {
        self.inner.rounds()
    }
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        // Rates shown are those of the time since the last change: they must have fitted every link.
        let mut load = vec![0.0; world.capacity.len()];
        for (i, f) in world.flows.iter().enumerate() {
            f.path.iter().for_each(|l| load[l.0] += f.rate);
            for p in &f.preds {
                let before = &world.flows[p.flow.0];
                let idle = f.sent == 0.0 || !f.active();
                if p.after && !idle && before.sent < before.bytes {
                    self.wrong.push(format!("flow {i} began before {} had ended", p.flow.0));
                }
                if !p.after && f.sent > p.lead + p.ratio * before.sent + 1.0 + 1e-6 * f.bytes.sqrt() {
                    self.wrong.push(format!(
                        "flow {i} at {} ns: {} past its bound by {}",
                        world.now.0,
                        f.sent,
                        f.sent - p.lead - p.ratio * before.sent
                    ));
                }
            }
            if f.sent > f.bytes || f.rate < 0.0 || f.rate.is_nan() {
                self.wrong.push(format!("flow {i}: {f:?}"));
            }
        }
        for (l, (load, capacity)) in load.iter().zip(&world.capacity).enumerate() {
            if *load > capacity * (1.0 + 1e-9) {
                self.wrong.push(format!("link {l} carries {load} of {capacity}"));
            }
        }
        if world.now.0 < self.last {
            self.wrong.push("time ran backwards".into());
        }
        self.last = world.now.0;
        self.inner.decide(world, changes, orders);
    }
}

fn inspected(s: &Scenario, inner: impl Scheduler) -> Result<Outcome, TestCaseError> {
    let mut inspector = Inspector { inner, wrong: Vec::new(), last: 0 };
    let o = go(s, &mut inspector).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert!(inspector.wrong.is_empty(), "{:?}", &inspector.wrong[..inspector.wrong.len().min(5)]);
    Ok(o)
}

/// Random classes, weights and caps, new at every call; never a flow without any rate.
struct Whims(u64);

impl Scheduler for Whims {
    fn decide(&mut self, world: &World<'_>, _: &[Change], orders: &mut Orders) {
        for job in &world.running {
            for (flow, f) in world.flows_of(*job) {
                self.0 = sluice_scenario::random::mix(self.0);
                if self.0.is_multiple_of(3) {
                    let cap = if self.0 & 64 == 0 { f64::INFINITY } else { 1e8 + (self.0 >> 36) as f64 };
                    let weight = 1.0 + (self.0 >> 8 & 3) as f64;
                    let class = (self.0 >> 12 & 1) as u32;
                    orders.set(flow, Order { class, weight, cap, hold: world.now });
                }
                if f.sent == 0.0 && self.0 & 256 == 0 {
                    orders.mark(flow, f.bytes * 0.5);
                }
            }
        }
    }
}

/// Flows of a job that ended carried their bytes over each link of their paths, round for round.
fn conserved(s: &Scenario, o: &Outcome) -> Result<(), TestCaseError> {
    let mut want = vec![0.0; o.links.len()];
    let mut router = sluice_scenario::route::Router::new(&s.routing, &s.network, s.seed);
    for (job, log) in s.jobs.iter().zip(&o.jobs) {
        for flow in sluice_scenario::workload::flows_of(job, &log.placement).iter().filter(|f| !f.local()) {
            let name = flow.name.split('.').next().unwrap_or_default();
            let path = router.path(&job.id, name, flow.src, flow.dst).unwrap_or_default();
            path.iter().for_each(|l| want[l.0] += flow.bytes as f64 * f64::from(job.iterations));
        }
    }
    for (l, (got, want)) in o.links.iter().zip(&want).enumerate() {
        prop_assert!((got.bytes - want).abs() <= 1e-9 * want, "link {l}: {} for {want}", got.bytes);
    }
    Ok(())
}

/// Two runs in which no time differs by more than some bytes take, and no sum by more than some bytes.
fn alike(a: Result<Outcome, SimError>, b: Result<Outcome, SimError>) -> Result<(), TestCaseError> {
    let fail = |e: SimError| TestCaseError::fail(e.to_string());
    let (a, b) = (a.map_err(fail)?, b.map_err(fail)?);
    let near = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) <= 1_000;
    prop_assert!(near(a.end, b.end), "{} {}", a.end.0, b.end.0);
    for (x, y) in a.jobs.iter().zip(&b.jobs) {
        prop_assert_eq!(&x.placement, &y.placement);
        prop_assert_eq!(x.rounds.len(), y.rounds.len());
        for (x, y) in x.rounds.iter().zip(&y.rounds) {
            let same = near(x.compute, y.compute) && near(x.began, y.began) && near(x.ended, y.ended);
            prop_assert!(same, "{x:?} {y:?}");
        }
    }
    for (x, y) in a.links.iter().zip(&b.links) {
        // Cross traffic of 1.5 GB/s at most, for as long as times may differ.
        prop_assert!((x.bytes - y.bytes).abs() <= 10_000.0, "{} {}", x.bytes, y.bytes);
    }
    Ok(())
}

/// What no scheduler can beat: compute and the busiest link of each round.
fn bounded(s: &Scenario, o: &Outcome) -> Result<(), TestCaseError> {
    for (job, log) in s.jobs.iter().zip(&o.jobs) {
        let mut load = vec![0.0; s.network.links.len()];
        let mut router = sluice_scenario::route::Router::new(&s.routing, &s.network, s.seed);
        for flow in sluice_scenario::workload::flows_of(job, &log.placement).iter().filter(|f| !f.local()) {
            let name = flow.name.split('.').next().unwrap_or_default();
            let path = router.path(&job.id, name, flow.src, flow.dst).unwrap_or_default();
            path.iter().for_each(|l| load[l.0] += flow.bytes as f64 * 8.0 / s.network.links[l.0].rate.0 as f64);
        }
        let round = load.into_iter().fold(0.0, f64::max);
        let bound = f64::from(job.iterations) * (job.compute.as_secs_f64() + round);
        let ended = log.ended.ok_or_else(|| TestCaseError::fail("a job has no end"))?;
        let run = ended.minus(log.started.unwrap_or_default()).as_secs_f64();
        prop_assert!(run >= bound - 1e-6, "{}: {run} s, bound {bound}", job.id);
        prop_assert!(log.isolated_run.as_secs_f64() >= bound - 1e-6);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Properties 1 to 4 and 13, event and slot modes, equal shares and arbitrary orders.
    #[test]
    fn nothing_impossible_happens(
        lots in lots(9),
        policy in prop::sample::select(vec!["packed", "spread", "random"]),
        mode in prop::sample::select(vec!["event", "slot", "paper-slot"]),
        whims in prop::option::of(any::<u64>()),
    ) {
        let head = format!("time = {{mode = \"{mode}\", slot_ms = 50}}");
        let s = scenario(&text(&lots, policy, 4, &head));
        let o = match whims {
            Some(seed) => inspected(&s, Whims(seed))?,
            None => inspected(&s, Equal)?,
        };
        conserved(&s, &o)?;
        bounded(&s, &o)?;
    }

    /// Property 11: the flows that a change reaches, or everything anew: the same to the last bit where no flow rides on
    /// another.
    #[test]
    fn parts_give_what_the_whole_gives(
        lots in lots(9),
        policy in prop::sample::select(vec!["packed", "random"]),
        mode in prop::sample::select(vec!["event", "slot"]),
        whims in any::<u64>(),
    ) {
        let lots: Vec<Lot> = lots.into_iter().map(|lot| Lot { after: true, ..lot }).collect();
        let s = scenario(&text(&lots, policy, 4, &format!("time = {{mode = \"{mode}\"}}\ncross_traffic = {{every_s = 1}}")));
        let run = |whole| super::run_with(&s, &mut Whims(whims), &Watch::default(), whole);
        prop_assert_eq!(run(false), run(true));
        let run = |whole| super::run_with(&s, &mut Equal, &Watch::default(), whole);
        prop_assert_eq!(run(false), run(true));
    }

    /// The same with pipelines, where a flow may count as at its bound a part of a byte earlier or later.
    #[test]
    fn parts_give_what_the_whole_gives_to_a_byte(
        lots in lots(9),
        policy in prop::sample::select(vec!["packed", "random"]),
        mode in prop::sample::select(vec!["event", "slot"]),
    ) {
        let s = scenario(&text(&lots, policy, 4, &format!("time = {{mode = \"{mode}\"}}\ncross_traffic = {{every_s = 1}}")));
        let run = |whole| super::run_with(&s, &mut Equal, &Watch::default(), whole);
        alike(run(false), run(true))?;
    }

    /// Property 5: equal jobs fare equally, and in order under strict priority.
    #[test]
    fn equal_jobs_fare_equally(lot in lots(2), n in 2usize..4) {
        let mut lot = lot[0].clone();
        lot.kind = 0;
        let hosts = ["h0", "h2", "h4", "h6"];
        let names: Vec<String> = hosts.iter().take(lot.members as usize).map(|h| format!("{h:?}")).collect();
        let all = vec![lot.clone(); n];
        let pinned = format!("workers = {}\nservers = 0\n", lot.members);
        let place = format!("placement = {{workers = [{}]}}\n", names.join(", "));
        let s = scenario(&text(&all, "explicit", 4, "").replace(&pinned, &place));
        let equal = jct(&fair(&s));
        prop_assert!(equal.iter().all(|t| *t == equal[0]), "{equal:?}");
        let order: Vec<String> = (0..n).map(|i| format!("j{i}")).collect();
        let strict = jct(&go(&s, &mut Strict(order)).unwrap_or_else(|e| panic!("{e}")));
        prop_assert!(strict.windows(2).all(|w| w[0] <= w[1]), "{strict:?}");
    }

    /// Property 8: bytes and rates times k change nothing; times times k are times times k.
    #[test]
    fn units_do_not_matter(lots in lots(7), k in 2u64..5) {
        let plain = text(&lots, "spread", 4, "");
        let base = jct(&fair(&scenario(&plain)));
        let mut s = scenario(&plain);
        s.jobs.iter_mut().for_each(|j| j.bytes *= k);
        s.network.links.iter_mut().for_each(|l| l.rate.0 *= k);
        // A chunk is rounded up to a byte: nanoseconds.
        for (a, b) in jct(&fair(&s)).iter().zip(&base) {
            prop_assert!((a - b).abs() < 1e-6 * (1.0 + b), "{a} {b}");
        }
        let mut s = scenario(&plain);
        for j in &mut s.jobs {
            (j.compute.0, j.arrival.0, j.bytes) = (j.compute.0 * k, j.arrival.0 * k, j.bytes * k);
        }
        for (a, b) in jct(&fair(&s)).iter().zip(&base) {
            prop_assert!((a - b * k as f64).abs() < 1e-6 * (1.0 + a), "{a} {b}");
        }
    }

    /// Property 12: twice the rates never make a job alone slower; a job that comes last in strict order disturbs nobody.
    #[test]
    fn more_never_hurts_less(lots in lots(7)) {
        let mut one = scenario(&text(&lots[..1], "spread", 4, ""));
        let slow = jct(&fair(&one))[0];
        one.network.links.iter_mut().for_each(|l| l.rate.0 *= 2);
        prop_assert!(jct(&fair(&one))[0] <= slow + 1e-9);
        let order: Vec<String> = (0..lots.len()).map(|i| format!("j{i}")).collect();
        let strict = |n: usize| {
            let s = scenario(&text(&lots[..n], "explicit", 9, "").replace("policy = \"explicit\"", "policy = \"spread\"\nfreeze = false"));
            go(&s, &mut Strict(order.clone())).unwrap_or_else(|e| panic!("{e}"))
        };
        if lots.len() > 1 {
            let (fewer, all) = (strict(lots.len() - 1), strict(lots.len()));
            for (a, b) in fewer.jobs.iter().zip(&all.jobs) {
                // Hosts depend on who is there; where they are the same, nothing may change.
                if fewer.jobs.iter().zip(&all.jobs).all(|(a, b)| a.placement == b.placement) {
                    prop_assert!(b.ended >= a.ended.map(|t| t.minus(sluice_schedule::Nanos(1000))), "{a:?} {b:?}");
                }
            }
        }
    }

    /// Property 14: short slots come near to events, and the paper's slots are no faster than slots.
    #[test]
    fn short_slots_are_nearly_events(lots in lots(6)) {
        let run = |mode: &str, ms: u32| jct(&fair(&scenario(&text(&lots, "spread", 4, &format!("time = {{mode = \"{mode}\", slot_ms = {ms}}}")))));
        // Alone, so that nothing but the slots differs.
        let one = |mode: &str, ms: u32| jct(&fair(&scenario(&text(&lots[..1], "spread", 4, &format!("time = {{mode = \"{mode}\", slot_ms = {ms}}}")))))[0];
        let (event, slot) = (one("event", 1), one("slot", 1));
        let stages = if lots[0].after { 8.0 } else { 1.0 };
        prop_assert!(slot >= event - 1e-6 && slot - event <= f64::from(lots[0].iterations) * 2e-3 * stages, "{event} {slot}");
        prop_assert!(one("paper-slot", 50) >= one("slot", 50) - 1e-6);
        prop_assert!(run("slot", 1).iter().all(|t| t.is_finite()));
    }

    /// Property 15: GPUs in use never exceed GPUs, and a job's GPUs are the next one's at the instant it ends.
    #[test]
    fn gpus_are_handed_on(lots in lots(9)) {
        let s = scenario(&text(&lots, "packed", 1, ""));
        let o = fair(&s);
        let mut edges: Vec<(u64, i64, usize)> = Vec::new();
        for log in &o.jobs {
            for host in log.placement.workers.iter().chain(&log.placement.servers) {
                edges.push((log.started.unwrap_or_default().0, 1, host.0));
                edges.push((log.ended.unwrap_or_default().0, -1, host.0));
            }
            let waited = log.started != Some(log.arrival);
            let hand = o.jobs.iter().any(|other| other.ended == log.started || Some(other.arrival) == log.started);
            prop_assert!(!waited || hand, "it began when nothing happened");
        }
        edges.sort_unstable();
        let mut used = [0i64; 8];
        for (_, by, host) in edges {
            used[host] += by;
            prop_assert!(used[host] <= 1);
        }
        let mut starts: Vec<_> = o.jobs.iter().zip(&s.jobs).enumerate().map(|(i, (l, j))| ((j.arrival, i), l.started)).collect();
        starts.sort_unstable();
        prop_assert!(starts.windows(2).all(|w| w[0].1 <= w[1].1), "first in, first out");
    }

    /// Property 6: the order of jobs in the file settles ties and nothing else.
    #[test]
    fn the_order_of_the_file_does_not_matter(lots in lots(7)) {
        let mut lots = lots;
        for (i, l) in lots.iter_mut().enumerate() {
            l.arrival_ms = l.arrival_ms * 10 + i as u64;
        }
        let plain = text(&lots, "spread", 4, "");
        let (head, jobs) = plain.split_once("[[jobs]]").unwrap_or_default();
        let mut jobs: Vec<&str> = jobs.split("[[jobs]]").collect();
        jobs.reverse();
        let turned = scenario(&format!("{head}[[jobs]]{}", jobs.join("[[jobs]]")));
        let (a, mut b) = (jct(&fair(&scenario(&plain))), jct(&fair(&turned)));
        b.reverse();
        for (a, b) in a.iter().zip(&b) {
            prop_assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
}

/// Every flow that is neither tight nor capped has a full link on its path (property 9), at many moments of a run.
struct Full {
    seen: usize,
    worst: f64,
}

impl Scheduler for Full {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], _: &mut Orders) {
        if changes.iter().any(|c| matches!(c, Change::JobStarted(_) | Change::FlowActive(_) | Change::FlowEnded(_))) {
            // Rates of flows that go on belong to the time before; ended ones have none to show any more.
            return;
        }
        let mut load = vec![0.0; world.capacity.len()];
        world.flows.iter().for_each(|f| f.path.iter().for_each(|l| load[l.0] += f.rate));
        for f in world.flows.iter().filter(|f| f.active()) {
            let behind = f.preds.iter().any(|p| {
                let pred = &world.flows[p.flow.0];
                p.lead + p.ratio * pred.sent - f.sent < 2.0 + f.rate * 2e-9
            });
            let full = f.path.iter().map(|l| load[l.0] / world.capacity[l.0]).fold(0.0, f64::max);
            if !behind {
                self.seen += 1;
                self.worst = f64::min(self.worst, full);
            }
        }
    }
}

#[test]
fn equal_sharing_leaves_nothing_unused() {
    let lots: Vec<Lot> = (0..8)
        .map(|i| Lot {
            kind: i % 4,
            members: 2 + u32::from(i) % 3,
            mb: 300 + 71 * u64::from(i),
            compute_ms: 100,
            iterations: 3,
            arrival_ms: 90 * u64::from(i),
            after: false,
        })
        .collect();
    let mut full = Full { seen: 0, worst: 1.0 };
    go(&scenario(&text(&lots, "random", 4, "")), &mut full).unwrap_or_else(|e| panic!("{e}"));
    assert!(full.seen > 200 && full.worst > 1.0 - 1e-9, "{} {}", full.seen, full.worst);
}
