//! Certificates of kind `cut` of plans of sends: a plain recomputation says the same of every set of nodes.

use serde_json::json;
use sluice_formats::topology::Topology;
use sluice_plan::check::Code;

use crate::epochs::{plan, proved};
use crate::gateway::{Lanes, Wanted, distances, greedy, narrow, wanted};

/// Counts epoch by epoch what can have left the nodes inside and be where it is wanted. `None`: nothing has to leave them.
fn naive(topology: &Topology, lanes: &Lanes, wanted: &Wanted, inside: &[bool]) -> Option<u64> {
    let far = distances(topology, lanes, None);
    let crossing: Vec<_> = wanted.iter().filter(|(src, _, dst)| inside[*src] && !inside[*dst]).collect();
    let mut chunks: Vec<(usize, u64)> = crossing.iter().map(|(src, chunk, _)| (*src, *chunk)).collect();
    chunks.sort_unstable();
    chunks.dedup();
    if chunks.is_empty() {
        return None;
    }
    let out = |epochs: u64| {
        let mut count = 0;
        for (i, link) in topology.links().iter().enumerate().filter(|(_, of)| inside[of.from] && !inside[of.to]) {
            let release = crossing.iter().filter_map(|(src, ..)| far[*src][link.from]).min().expect("a way");
            let tail = crossing.iter().filter_map(|(.., dst)| far[link.to][*dst]).min().expect("a way");
            // Begun one after the other from the first epoch in which something is there.
            let mut begin = release;
            while begin + lanes.usable(i) + tail <= epochs {
                count += 1;
                begin += lanes.0[i].0;
            }
        }
        count
    };
    (1..).find(|epochs| out(*epochs) >= chunks.len())
}

#[test]
fn a_plain_recomputation_says_the_same_of_every_cut() {
    let mut count = 0;
    for topology in narrow() {
        let n = topology.nodes().len();
        for collective in ["allgather", "broadcast", "alltoall", "scatter", "gather"] {
            // 25 kB at 25 GB/s take 1 µs, with 0.7 µs of latency: one epoch each, or two each of half the length.
            for (chunks, tau, lane) in [(1, "1us", (1, 1)), (3, "500ns", (2, 2))] {
                let lanes = Lanes(vec![lane; topology.links().len()]);
                let wanted = wanted(n, collective, chunks);
                let mut plan = plan(&topology, collective, greedy(&topology, &lanes, &wanted).0);
                plan["content"]["model"]["chunks"] = json!(chunks);
                plan["content"]["model"]["tau"] = json!(tau);
                for set in 1..1_u32 << n {
                    let inside: Vec<bool> = (0..n).map(|node| set >> node & 1 == 1).collect();
                    let nodes: Vec<String> =
                        (0..n).filter(|node| inside[*node]).map(|node| format!("n{node}")).collect();
                    let found = proved(&plan, &json!({"kind": "cut", "nodes": nodes}));
                    let expected = naive(&topology, &lanes, &wanted, &inside).ok_or(Code::BadCertificate);
                    assert_eq!(found, expected, "{collective} of {chunks} on {n} nodes, out of {nodes:?}");
                    count += usize::from(found.is_ok());
                }
            }
        }
    }
    assert!(count >= 300, "{count}");
}
