//! Tests of arrivals, queue, placement and rounds against what can be worked out by hand.

use std::path::Path;

use super::*;
use sluice_formats::problem::{E_FIT, E_TRACE};

use crate::{Arch, Notation, Placement, Scenario};

fn scenario(placement: &str, jobs: &str) -> Scenario {
    let text = format!(
        "version = 1\nname = \"t\"\nseed = 1\n[network]\nkind = \"star\"\nhosts = 3\ngpus = 2\ngbps = 8\n[placement]\n{placement}\n{jobs}"
    );
    Scenario::parse(&text, Notation::Toml, "t", Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

fn job(id: &str, arch: &str, workers: u32, servers: u32) -> String {
    format!(
        "[[jobs]]\nid = \"{id}\"\nbytes = 10\ncompute_s = 1\narch = \"{arch}\"\nworkers = {workers}\nservers = {servers}\niterations = 1\n"
    )
}

fn hosts(list: &[crate::NodeIx]) -> Vec<usize> {
    list.iter().map(|n| n.0).collect()
}

#[test]
fn the_head_of_the_queue_blocks_unless_backfill() {
    let jobs = [job("a", "ring", 4, 0), job("b", "ring", 4, 0), job("c", "ring", 2, 0)].concat();
    let s = scenario("policy = \"packed\"", &jobs);
    let mut q = Queue::new(&s);
    assert_eq!(q.arrive(0).len(), 1);
    assert!(q.arrive(1).is_empty() && q.arrive(2).is_empty());
    let started: Vec<usize> = q.finish(0).iter().map(|s| s.job).collect();
    assert_eq!(started, [1, 2]);
    let s = scenario("policy = \"packed\"\nbackfill = true", &jobs);
    let mut q = Queue::new(&s);
    q.arrive(0);
    q.arrive(1);
    assert_eq!(q.arrive(2).iter().map(|s| s.job).collect::<Vec<_>>(), [2]);
    q.finish(2);
    q.finish(0);
    q.finish(1);
    assert!(q.idle() && q.free() == [2, 2, 2]);
}

#[test]
fn spread_takes_the_emptiest_hosts_and_servers_need_no_gpu() {
    let s = scenario(
        "policy = \"spread\"\none_per_host = true\nserver_gpus = 0",
        &[job("a", "ps", 2, 1), job("b", "ring", 2, 0)].concat(),
    );
    let mut q = Queue::new(&s);
    let first = q.arrive(0);
    let placement = first.first().map(|s| s.placement.clone()).unwrap_or_default();
    assert_eq!((hosts(&placement.workers), hosts(&placement.servers)), (vec![0, 1], vec![2]));
    assert_eq!(q.free(), [1, 1, 2]);
    let second = q.arrive(1);
    assert_eq!(second.first().map(|s| hosts(&s.placement.workers)), Some(vec![0, 2]));
}

#[test]
fn packed_takes_the_fullest_host_that_is_large_enough() {
    let s = scenario(
        "policy = \"packed\"",
        &[job("a", "ring", 1, 0), job("b", "ring", 1, 0), job("c", "ring", 2, 0)].concat(),
    );
    let mut q = Queue::new(&s);
    let at = |q: &mut Queue<'_>, j| q.arrive(j).first().map(|s| hosts(&s.placement.workers));
    assert_eq!(at(&mut q, 0), Some(vec![0]));
    assert_eq!(at(&mut q, 1), Some(vec![0]));
    assert_eq!(at(&mut q, 2), Some(vec![1, 1]));
}

#[test]
fn a_ring_has_the_bytes_and_leads_of_the_format() {
    let s = scenario("policy = \"spread\"", &job("a", "ring", 3, 0));
    let placement = Queue::new(&s).arrive(0).remove(0).placement;
    let flows = s.jobs.first().map(|j| round_flows(j, &placement)).unwrap_or_default();
    assert_eq!(flows.len(), 3);
    // 10 bytes on 3 ranks: chunks of 4.
    assert!(flows.iter().all(|f| f.bytes == 2 * 2 * 4 && !f.local()));
    assert_eq!(flows.first().map(|f| f.preds.clone()), Some(vec![Pred { flow: 2, after: false, lead: 4 }]));
}

#[test]
fn dependencies_pass_through_local_flows() {
    // Four ranks on two hosts: ranks 0 and 1 on h0, 2 and 3 on h1.
    let s = scenario("policy = \"packed\"", &job("a", "ring", 4, 0));
    let placement = Queue::new(&s).arrive(0).remove(0).placement;
    assert_eq!(hosts(&placement.workers), [0, 0, 1, 1]);
    let flows = s.jobs.first().map(|j| round_flows(j, &placement)).unwrap_or_default();
    let net: Vec<(usize, &[Pred])> =
        flows.iter().enumerate().filter(|(_, f)| !f.local()).map(|(i, f)| (i, f.preds.as_slice())).collect();
    let chunk = 3;
    assert_eq!(
        net,
        [
            (1, &[Pred { flow: 3, after: false, lead: 2 * chunk }][..]),
            (3, &[Pred { flow: 1, after: false, lead: 2 * chunk }][..]),
        ]
    );
}

#[test]
fn a_ring_inside_one_host_waits_for_nobody() {
    let s = scenario("policy = \"packed\"", &job("a", "ring", 2, 0));
    let placement = Queue::new(&s).arrive(0).remove(0).placement;
    let flows = s.jobs.first().map(|j| round_flows(j, &placement)).unwrap_or_default();
    assert!(flows.len() == 2 && flows.iter().all(|f| f.local() && f.preds.is_empty()));
}

#[test]
fn stages_follow_one_another() {
    let s = scenario("policy = \"spread\"\nserver_gpus = 0", &[job("a", "ring", 3, 0), job("p", "ps", 2, 2)].concat());
    let mut q = Queue::new(&s);
    let placement = q.arrive(0).remove(0).placement;
    let (ring, ps) = (&s.jobs[0], &s.jobs[1]);
    let chunks = flows_in_stages(ring, &placement, Stages::default());
    // Four steps of three ranks; each after its own and its predecessor's last one; together the bytes of the ring.
    assert_eq!(chunks.len(), 12);
    assert_eq!(
        chunks.iter().map(|f| f.bytes).sum::<u64>(),
        round_flows(ring, &placement).iter().map(|f| f.bytes).sum::<u64>()
    );
    let after = |f: &RoundFlow| f.preds.iter().map(|p| (p.flow, p.after)).collect::<Vec<_>>();
    assert_eq!((chunks[4].name.as_str(), after(&chunks[4])), ("ring1.1", vec![(0, true), (1, true)]));
    assert_eq!(chunks.iter().map(|f| f.stage).max(), Some(3));
    let chain = flows_in_stages(ring, &placement, Stages { ring_chain: true, ..Stages::default() });
    assert_eq!(chain.iter().map(|f| (f.stage, f.preds.len())).collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 1)]);
    let placement = Placement {
        workers: vec![0, 1].into_iter().map(crate::NodeIx).collect(),
        servers: placement.workers[1..].to_vec(),
    };
    let own = flows_in_stages(ps, &placement, Stages::default());
    let all = flows_in_stages(ps, &placement, Stages { whole_job: true, ..Stages::default() });
    let waits = |flows: &[RoundFlow]| flows.iter().filter(|f| f.stage == 1 && !f.local()).map(|f| f.preds.len()).max();
    // Server 0 stands on worker 1's host: one of its aggregations is local and counts as done.
    assert_eq!((waits(&own), waits(&all)), (Some(2), Some(3)));
}

#[test]
fn parameter_servers_and_trees() {
    let s = scenario("policy = \"spread\"\nserver_gpus = 0", &[job("p", "ps", 2, 1), job("t", "tree", 3, 0)].concat());
    let mut q = Queue::new(&s);
    let placement = q.arrive(0).remove(0).placement;
    let flows = s.jobs.first().map(|j| round_flows(j, &placement)).unwrap_or_default();
    let names: Vec<&str> = flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["agg0-0", "agg1-0", "bc0-0", "bc0-1"]);
    assert_eq!(flows.get(3).map(|f| f.preds.iter().map(|p| p.flow).collect::<Vec<_>>()), Some(vec![0, 1]));
    let placement = q.arrive(1).remove(0).placement;
    let flows = s.jobs.get(1).map(|j| round_flows(j, &placement)).unwrap_or_default();
    let names: Vec<&str> = flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["up1", "up2", "down1", "down2"]);
    assert_eq!(flows.get(2).map(|f| f.preds.len()), Some(2));
}

#[test]
fn cross_traffic_comes_in_order_and_goes_elsewhere() {
    let jobs = job("a", "ring", 3, 0);
    let s = scenario("policy = \"spread\"", &format!("[cross_traffic]\nevery_s = 2\n{jobs}"));
    let flows: Vec<_> = CrossEvents::new(&s).take(300).collect();
    assert!(flows.windows(2).all(|w| matches!(w, [a, b] if a.start <= b.start)));
    for f in &flows {
        let life = f.end.minus(f.start).0;
        assert!(f.src != f.dst && f.dst.0 < 3 && (200_000_000..=2_000_000_000).contains(&life), "{f:?}");
    }
    assert_eq!(flows, CrossEvents::new(&s).take(300).collect::<Vec<_>>());
}

#[test]
fn random_placement_is_the_seed_s() {
    let s = scenario("policy = \"random\"", &job("a", "ring", 3, 0));
    let a = Queue::new(&s).arrive(0);
    assert_eq!(a, Queue::new(&s).arrive(0));
    assert_eq!(a.first().map(|s| s.placement.workers.len()), Some(3));
}

#[test]
fn arrivals_follow_the_order_of_draws() {
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(folder.path().join("t.csv"), "minute,jobs\n0,2\n1,0\n2,1\n").unwrap_or_else(|e| panic!("{e}"));
    let text = "version = 1\nname = \"t\"\nseed = 1\n[network]\nkind = \"star\"\nhosts = 3\ngpus = 2\ngbps = 8\n[arrivals]\nkind = \"per-minute\"\nfile = \"t.csv\"\ninitial_jobs = 1\niterations = [10, 20]\nmix = [{model = \"vgg19\", arch = \"ring\", workers = 3}, {model = \"resnet50\", arch = \"ps\", workers = 2, servers = 2}]\n";
    let read = |text: &str| Scenario::parse(text, Notation::Toml, "t", folder.path());
    let s = read(text).unwrap_or_else(|e| panic!("{e}"));
    let mut lot = crate::random::Stream::new(1, "arrivals");
    for (job, (id, minute)) in s.jobs.iter().zip([("i0", 0.0), ("t0", 0.0), ("t1", 0.0), ("t2", 120.0)]) {
        let at = minute + 60.0 * lot.uniform();
        let arch = if lot.uniform() < 0.5 { Arch::Ring } else { Arch::Ps };
        let iterations = 10 + lot.below(11);
        assert_eq!((job.id.as_str(), job.arch, u64::from(job.iterations)), (id, arch, iterations));
        assert!((job.arrival.as_secs_f64() - at).abs() < 1e-8);
    }
    assert_eq!(s.jobs.len(), 4);
    std::fs::write(folder.path().join("t.csv"), "minute,jobs\n3,2\n1,0\n").unwrap_or_else(|e| panic!("{e}"));
    let e = read(text).expect_err("rows out of order");
    assert!(e.has(E_TRACE) && e.to_string().contains("t.csv:3"), "{e}");
    assert_eq!(arrival_order(&s).len(), 4);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]

    /// GPUs in use never exceed GPUs, nobody is forgotten, and without backfill the start order is the arrival order.
    #[test]
    fn the_queue_keeps_its_books(
        shapes in proptest::collection::vec((1u32..6, 0u32..3), 1..12),
        policy in proptest::sample::select(vec!["packed", "spread", "random"]),
        one in proptest::bool::ANY,
        server_gpus in 0u32..2,
        backfill in proptest::bool::ANY,
        shuffled in proptest::bool::ANY,
    ) {
        let jobs: String = shapes
            .iter()
            .enumerate()
            .map(|(i, &(w, s))| if s == 0 { job(&format!("j{i}"), "ring", w, 0) } else { job(&format!("j{i}"), "ps", w, s) })
            .collect();
        let order = if shuffled { "random" } else { "host" };
        let placement = format!(
            "policy = \"{policy}\"\none_per_host = {one}\nserver_gpus = {server_gpus}\nbackfill = {backfill}\nring_order = \"{order}\""
        );
        let text = format!(
            "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 4\ngpus = 2\ngbps = 8\n[placement]\n{placement}\n{jobs}"
        );
        let s = match Scenario::parse(&text, Notation::Toml, "t", Path::new(".")) {
            Ok(s) => s,
            // A job that can never be placed is refused, and for no other reason.
            Err(e) => {
                proptest::prop_assert!(e.all().iter().all(|p| p.code == E_FIT), "{e}");
                return Ok(());
            }
        };
        let mut queue = Queue::new(&s);
        let mut started = Vec::new();
        let mut running = std::collections::VecDeque::new();
        for i in arrival_order(&s) {
            for start in queue.arrive(i) {
                running.push_back(start.job);
                started.push(start);
            }
        }
        while let Some(done) = running.pop_front() {
            proptest::prop_assert!(queue.free().iter().all(|&g| g <= 2));
            for start in queue.finish(done) {
                running.push_back(start.job);
                started.push(start);
            }
        }
        proptest::prop_assert!(queue.idle() && queue.free().iter().all(|&g| g == 2));
        proptest::prop_assert_eq!(started.len(), s.jobs.len());
        for start in &started {
            let spec = &s.jobs[start.job];
            let mut all: Vec<usize> = hosts(&start.placement.workers);
            all.extend(hosts(&start.placement.servers));
            proptest::prop_assert_eq!(all.len() as u32, spec.workers + spec.servers);
            if one {
                all.sort_unstable();
                all.dedup();
                proptest::prop_assert_eq!(all.len() as u32, spec.workers + spec.servers, "one member per host");
            }
            let flows = round_flows(spec, &start.placement);
            proptest::prop_assert!(flows.iter().all(|f| f.preds.iter().all(|p| flows.get(p.flow).is_some_and(|q| !q.local()))));
        }
        if !backfill {
            proptest::prop_assert!(started.windows(2).all(|w| w[0].job < w[1].job));
        }
    }
}
