//! Certificates of kind `gateway`: the published figures of NDv2, and a plain recomputation that says the same.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use crate::scene::refused;

/// Epochs to push a chunk through each link, and additional ones for its latency.
#[derive(Clone)]
pub struct Lanes(pub Vec<(u64, u64)>);

impl Lanes {
    pub fn usable(&self, link: usize) -> u64 {
        self.0[link].0 + self.0[link].1
    }
}

/// Links as pairs of nodes, with GB/s and µs; both ways.
fn topology(count: usize, links: &[(usize, usize, &str, &str)], one_way: &[(usize, usize)]) -> Topology {
    let nodes: Vec<Value> = (0..count).map(|i| json!({"id": format!("n{i}"), "kind": "gpu"})).collect();
    let link = |from: usize, to: usize, capacity: &str, latency: &str, duplex: bool| {
        json!({"from": format!("n{from}"), "to": format!("n{to}"), "capacity": format!("{capacity}GB/s"),
            "latency": format!("{latency}us"), "duplex": duplex})
    };
    let mut list: Vec<Value> = links.iter().map(|(a, b, gbps, us)| link(*a, *b, gbps, us, true)).collect();
    list.extend(one_way.iter().map(|(a, b)| link(*a, *b, "12.5", "1.3", false)));
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": list});
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// Source, chunk, destination.
pub type Wanted = Vec<(usize, u64, usize)>;

/// What a plain collective asks for.
pub fn wanted(n: usize, collective: &str, chunks: u64) -> Wanted {
    let mut wanted = Vec::new();
    for src in 0..n {
        for dst in (0..n).filter(|dst| *dst != src) {
            for chunk in 0..chunks {
                match collective {
                    "allgather" => wanted.push((src, chunk, dst)),
                    "broadcast" if src == 0 => wanted.push((src, chunk, dst)),
                    "alltoall" => wanted.push((src, dst as u64 * chunks + chunk, dst)),
                    "scatter" if src == 0 => wanted.push((src, dst as u64 * chunks + chunk, dst)),
                    "gather" if dst == 0 => wanted.push((src, chunk, dst)),
                    _ => {}
                }
            }
        }
    }
    wanted
}

/// Epochs from node to node; `None`: no way. Without one of the links, if `gone` names one.
pub fn distances(topology: &Topology, lanes: &Lanes, gone: Option<usize>) -> Vec<Vec<Option<u64>>> {
    let n = topology.nodes().len();
    let mut far = vec![vec![None; n]; n];
    for (i, link) in topology.links().iter().enumerate().filter(|(i, _)| Some(*i) != gone) {
        far[link.from][link.to] = Some(lanes.usable(i));
    }
    (0..n).for_each(|node| far[node][node] = Some(0));
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                let over = far[from][via].zip(far[via][to]).map(|(a, b)| a + b);
                far[from][to] = [far[from][to], over].into_iter().flatten().min();
            }
        }
    }
    far
}

/// Every link by itself: who is cut off without it, and how its queue drains epoch by epoch. `None`: no gateway.
fn naive(topology: &Topology, lanes: &Lanes, wanted: &Wanted) -> Option<u64> {
    let near = distances(topology, lanes, None);
    let mut bound = None;
    for (i, link) in topology.links().iter().enumerate() {
        let without = distances(topology, lanes, Some(i));
        let mut chunks: Vec<(usize, u64)> = wanted.iter().map(|(src, chunk, _)| (*src, *chunk)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let mut jobs: Vec<(u64, u64)> = Vec::new();
        for (src, chunk) in chunks {
            let behind =
                wanted.iter().filter(|want| (want.0, want.1) == (src, chunk) && without[src][want.2].is_none());
            let tail = behind.map(|want| near[link.to][want.2].expect("a way")).max();
            jobs.extend(tail.map(|tail| (near[src][link.from].expect("a way"), tail)));
        }
        let Some(tail) = jobs.iter().map(|(_, tail)| *tail).min() else { continue };
        let mut waiting: Vec<u64> = jobs.iter().map(|(release, _)| *release).collect();
        let (mut epoch, mut last) = (0, 0);
        while !waiting.is_empty() {
            match waiting.iter().position(|release| *release <= epoch) {
                None => epoch += 1,
                Some(place) => {
                    waiting.remove(place);
                    last = epoch;
                    epoch += lanes.0[i].0;
                }
            }
        }
        bound = bound.max(Some(last + lanes.usable(i) + tail));
    }
    bound
}

/// Sends whatever the next node does not have yet as soon as the link is free, towards somebody who wants it.
pub fn greedy(topology: &Topology, lanes: &Lanes, wanted: &Wanted) -> (Vec<Value>, u64) {
    let far = distances(topology, lanes, None);
    let n = topology.nodes().len();
    let mut chunks: Vec<(usize, u64)> = wanted.iter().map(|(src, chunk, _)| (*src, *chunk)).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let place = |src: usize, chunk: u64| chunks.binary_search(&(src, chunk)).expect("known");
    // By chunk and node: from when on it can be sent on there.
    let mut usable = vec![vec![None; n]; chunks.len()];
    chunks.iter().enumerate().for_each(|(chunk, (src, _))| usable[chunk][*src] = Some(0));
    let mut free = vec![0; topology.links().len()];
    let (mut sends, mut finish) = (Vec::new(), 0);
    for epoch in 0_u64.. {
        if wanted.iter().all(|(src, chunk, dst)| usable[place(*src, *chunk)][*dst].is_some()) {
            break;
        }
        for (i, link) in topology.links().iter().enumerate() {
            let useful = wanted.iter().find(|(src, chunk, dst)| {
                let at = &usable[place(*src, *chunk)];
                free[i] <= epoch
                    && at[link.from].is_some_and(|from| from <= epoch)
                    && at[link.to].is_none()
                    && far[link.to][*dst] < far[link.from][*dst]
            });
            if let Some((src, chunk, _)) = useful {
                let there = epoch + lanes.usable(i);
                usable[place(*src, *chunk)][link.to] = Some(there);
                free[i] = epoch + lanes.0[i].0;
                finish = finish.max(there);
                sends.push(json!({"src": format!("n{src}"), "chunk": chunk, "from": format!("n{}", link.from),
                    "to": format!("n{}", link.to), "epoch": epoch}));
            }
        }
    }
    (sends, finish)
}

/// How a plan is timed: bytes of a chunk, length of an epoch.
struct Model {
    chunk: &'static str,
    tau: &'static str,
    chunks: u64,
}

fn plan(topology: &Topology, collective: &str, lanes: &Lanes, model: &Model, bound: u64) -> Value {
    let (sends, finish) = greedy(topology, lanes, &wanted(topology.nodes().len(), collective, model.chunks));
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    let mut plan = json!({"sluice_plan": 1, "collective": collective,
        "claim": {"finish_epochs": finish, "lower_bound": bound.to_string(), "optimal": finish == bound,
            "certificate": {"kind": "gateway"}},
        "topology": {"sha256": topology.digest(), "inline": file},
        "content": {"kind": "sends", "sends": sends,
            "model": {"chunk": model.chunk, "chunks": model.chunks, "tau": model.tau, "theta": "0.1"}}});
    if ["broadcast", "scatter", "gather"].contains(&collective) {
        plan["root"] = json!("n0");
    }
    plan
}

fn violation(plan: &Value) -> Option<(Code, String)> {
    let plan = Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    let report = check(&plan, None);
    let proved =
        report.proved.iter().any(|proved| proved.starts_with("no plan is faster") && proved.contains("gateway"));
    assert_eq!(proved, report.ok(), "{report:?}");
    report.violation.map(|violation| (violation.code, violation.message))
}

/// Two NDv2 machines, 25 GB/s and 50 GB/s inside, 12.5 GB/s each way between.
fn ndv2() -> Topology {
    let fast = [(0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)];
    let slow = [(0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)];
    let mut links = Vec::new();
    for machine in [0, 8] {
        links.extend(fast.map(|(a, b)| (a + machine, b + machine, "50", "0.7")));
        links.extend(slow.map(|(a, b)| (a + machine, b + machine, "25", "0.7")));
    }
    topology(16, &links, &[(0, 9), (8, 1)])
}

/// Epochs of the three sorts of link of [`ndv2`]: 50, 25 and 12.5 GB/s.
fn lanes_of_ndv2(topology: &Topology, sorts: [(u64, u64); 3]) -> Lanes {
    let of = |link: &sluice_formats::topology::Link| match link.capacity.finite().and_then(|rate| rate.to_u64()) {
        Some(50_000_000_000) => sorts[0],
        Some(25_000_000_000) => sorts[1],
        _ => sorts[2],
    };
    Lanes(topology.links().iter().map(of).collect())
}

#[test]
fn published_bounds_of_two_machines() {
    // Size of an all-gather, which epochs, and the bound that the published optima attain.
    let topology = ndv2();
    for (name, chunk, tau, sorts, bound) in [
        ("1 GB slow", "62500kB", "5ms", [(1, 0), (1, 0), (1, 0)], 10),
        ("1 GB fast", "62500kB", "1250us", [(1, 0), (2, 0), (4, 0)], 35),
        ("64 kB fast", "4kB", "80ns", [(1, 9), (2, 9), (4, 17)], 76),
    ] {
        let (lanes, model) = (lanes_of_ndv2(&topology, sorts), Model { chunk, tau, chunks: 1 });
        assert_eq!(naive(&topology, &lanes, &wanted(16, "allgather", 1)), Some(bound), "{name}");
        assert_eq!(violation(&plan(&topology, "allgather", &lanes, &model, bound)), None, "{name}");
        let other = violation(&plan(&topology, "allgather", &lanes, &model, bound - 1));
        let message = format!("the certificate of kind `gateway` proves {bound} epochs");
        assert_eq!(other, Some((Code::WrongBound, message)), "{name}");
    }
}

/// Fabrics with gateways in them: rows, and groups of GPUs with one link between.
pub fn narrow() -> Vec<Topology> {
    let row = [(0, 1), (1, 2), (2, 3)];
    let triangles = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)];
    let square = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)];
    let star = [(0, 1), (0, 2), (0, 3), (0, 4)];
    let build = |n: usize, pairs: &[(usize, usize)]| {
        let links: Vec<_> = pairs.iter().map(|(a, b)| (*a, *b, "25", "0.7")).collect();
        topology(n, &links, &[])
    };
    vec![build(4, &row), build(6, &triangles), build(5, &square), build(5, &star)]
}

#[test]
fn a_plain_recomputation_says_the_same_and_damaged_claims_are_refused() {
    let mut count = 0;
    for topology in narrow() {
        for collective in ["allgather", "broadcast", "alltoall", "scatter", "gather"] {
            // 25 kB at 25 GB/s take 1 µs, with 0.7 µs of latency: one epoch each, or two each of half the length.
            for (chunks, tau, lane) in [(1, "1us", (1, 1)), (2, "1us", (1, 1)), (3, "500ns", (2, 2))] {
                let lanes = Lanes(vec![lane; topology.links().len()]);
                let bound = naive(&topology, &lanes, &wanted(topology.nodes().len(), collective, chunks));
                let bound = bound.expect("a gateway");
                let good = plan(&topology, collective, &lanes, &Model { chunk: "25kB", tau, chunks }, bound);
                let name = format!("{collective} of {chunks} on {} nodes", topology.nodes().len());
                assert_eq!(violation(&good), None, "{name}");
                let finish = good["claim"]["finish_epochs"].as_u64().expect("a number");
                for (key, value) in [
                    ("lower_bound", json!((bound + 1).to_string())),
                    ("lower_bound", json!((bound - 1).to_string())),
                    ("lower_bound", json!(format!("{}/2", 2 * bound + 1))),
                    ("lower_bound", json!("0")),
                    ("optimal", json!(finish != bound)),
                    ("certificate", json!({"kind": "gateway", "nodes": ["n0"]})),
                    ("certificate", json!({"kind": "gateway", "prices": ["1"]})),
                    ("certificate", json!({"kind": "cut"})),
                ] {
                    let mut bad = good.clone();
                    bad["claim"][key] = value.clone();
                    // Not to call oneself optimal is no lie.
                    if value != json!(false) {
                        assert!(refused(&bad.to_string()), "{name}: {key} {value}");
                        count += 1;
                    }
                }
            }
        }
    }
    println!("gateway: {count} damaged plans refused");
    assert!(count >= 300, "{count}");
}

#[test]
fn without_a_gateway_there_is_no_such_certificate() {
    let links = [(0, 1), (1, 2), (2, 0)].map(|(a, b)| (a, b, "25", "0.7"));
    let topology = topology(3, &links, &[]);
    let lanes = Lanes(vec![(1, 1); 6]);
    assert_eq!(naive(&topology, &lanes, &wanted(3, "allgather", 1)), None);
    let plan = plan(&topology, "allgather", &lanes, &Model { chunk: "25kB", tau: "1us", chunks: 1 }, 2);
    assert_eq!(violation(&plan).map(|(code, _)| code), Some(Code::BadCertificate));
}

#[test]
fn what_may_be_cut_passes_a_gateway_in_parts() {
    // Three pieces over n0 → n1 at 25 kB an epoch, of which the capacity leaves what the epoch says.
    let topology = topology(3, &[(0, 1, "25", "0"), (1, 2, "25", "0")], &[]);
    let varying = crate::scene::edited(&topology, |file| {
        file["links"][0]["capacity_per_epoch"] = json!(["12.5GB/s", "0GB/s", "25GB/s"]);
    });
    let piece = |chunk: u64, from: u64, to: u64, epoch: u64, offset: u64, bytes: u64| {
        json!({"src": "n0", "chunk": chunk, "from": format!("n{from}"), "to": format!("n{to}"), "epoch": epoch,
            "offset": offset, "bytes": bytes})
    };
    let sends = [
        piece(2, 0, 1, 0, 0, 12_500),
        piece(2, 0, 1, 2, 12_500, 12_500),
        piece(1, 0, 1, 2, 0, 12_500),
        piece(1, 0, 1, 3, 12_500, 12_500),
        piece(2, 1, 2, 1, 0, 12_500),
        piece(2, 1, 2, 3, 12_500, 12_500),
    ];
    let file: Value = serde_json::from_str(&varying.to_compact()).expect("JSON");
    let plan = |bound: &str| {
        json!({"sluice_plan": 1, "collective": "scatter", "root": "n0",
            "claim": {"finish_epochs": 4, "lower_bound": bound, "certificate": {"kind": "gateway"}},
            "topology": {"sha256": varying.digest(), "inline": file},
            "content": {"kind": "sends", "sends": sends, "model":
                {"chunk": "25000B", "chunks": 1, "tau": "1us", "divisible": true}}})
    };
    // Half in epoch 0, a whole in epoch 2, the last half in epoch 3, which needs no further link.
    assert_eq!(violation(&plan("4")), None);
    assert_eq!(violation(&plan("5")).map(|(code, _)| code), Some(Code::WrongBound));
}
