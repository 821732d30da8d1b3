//! What the brain of a host with a full table holds on the heap, by dhat. Its allocator counts for the whole program, so this is
//! the only test of it.

#[allow(dead_code, reason = "benches use the rest")]
#[path = "../benches/hosts/mod.rs"]
mod hosts;

use std::collections::BTreeMap;

use hosts::{Size, host, now};
use sluice_schedule::host::PolicyName;
use sluice_schedule::{Action, Event, FlowId, Rate};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// A daemon may have so much with as many flows and jobs; its brain is a part of it.
const MOST_MIB: usize = 64;
const FULL: Size = Size { flows: 4096, jobs: 64, ports: 1024 };
/// Two seconds.
const SLOTS: u64 = 34;

/// Promises: P-36
#[test]
fn a_host_with_4096_flows_of_64_jobs_orders_all_of_them_in_the_memory_of_a_daemon() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for policy in [PolicyName::SrptP, PolicyName::Fair] {
        let mut host = host(policy, FULL);
        let mut actions = Vec::new();
        for slot in 1..=SLOTS {
            let now = now(60 * slot);
            host.handle(now, Event::SlotEdge);
            actions.clear();
            host.decide(now, &mut actions);
            let order = |action: &Action| match action {
                Action::Order { flow, rate, .. } => Some((*flow, *rate)),
                _ => None,
            };
            let orders: BTreeMap<FlowId, Rate> = actions.iter().filter_map(order).collect();
            assert_eq!(orders.len() as u64, FULL.flows, "{policy:?}, slot {slot}: each has an order");
            let sum = orders.values().fold(Rate::ZERO, |sum, rate| sum.plus(*rate));
            assert!(sum <= Rate::mbps(25_000), "{policy:?}, slot {slot}: {sum} on a link of 25 Gbit/s");
        }
        drop(host);
    }
    let most = dhat::HeapStats::get().max_bytes;
    println!("{:.1} MiB at most", most as f64 / f64::from(1 << 20));
    assert!(most <= MOST_MIB << 20, "{most} bytes");
}
