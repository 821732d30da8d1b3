//! Algorithm 1 for one flow, and the paper's allocator for a host of 64 flows in 8 jobs over 3 hops.
//!
//! `cargo bench -p sluice-schedule --bench greedy`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sluice_schedule::greedy::{Request, schedule};
use sluice_schedule::policy::primal_dual::{Config, FlowView, Hop, Link, Problem, Scratch, plan};
use sluice_schedule::price::{Curve, Price, Weight};
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Rate};

const SLOT: Nanos = Nanos::from_millis(60);
const LINK: Rate = Rate::mbps(25_000);
const FLOWS: u64 = 64;
const JOBS: u64 = 8;
/// Ports of the two switches on every path.
const PORTS: usize = 16;

/// Load of other jobs, different in every slot and on every link, 30 to 90 %.
fn load(link: usize, slots: usize) -> Vec<Rate> {
    (0..slots).map(|t| LINK.times(0.3 + 0.1 * ((link * 5 + t * 3) % 7) as f64)).collect()
}

fn one_flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("algorithm-1");
    for slots in [10, 32, 64] {
        let loads = load(1, slots);
        let curve = Curve::exponential(100.0);
        let price: Vec<Price> = loads.iter().map(|&load| curve.link(load, LINK)).collect();
        let headroom: Vec<Rate> = loads.iter().map(|&load| LINK.minus(load)).collect();
        // Needs half of the horizon.
        let demand = headroom[..slots / 2].iter().fold(Bytes::ZERO, |sum, rate| sum.plus(rate.over(SLOT)));
        let mut rates = vec![Rate::ZERO; slots];
        group.bench_function(BenchmarkId::from_parameter(slots), |b| {
            b.iter(|| {
                let request = Request {
                    demand: black_box(demand),
                    price: &price,
                    headroom: &headroom,
                    slot: SLOT,
                    first: Nanos::from_millis(37),
                    weight: Weight::ONE,
                };
                schedule(&request, black_box(&mut rates))
            });
        });
    }
    group.finish();
}

fn host(c: &mut Criterion) {
    let mut group = c.benchmark_group("host-64-flows");
    for (name, config) in [("literal", Config::literal(1.0)), ("repaired", Config::repaired(1.0, 100.0, true))] {
        for slots in [10, 32] {
            let loads: Vec<Vec<Rate>> = (0..=2 * PORTS).map(|link| load(link, slots)).collect();
            let mut links = vec![Link { usable: LINK, ..Link::default() }; 1 + 2 * PORTS];
            links[0].own = true;
            let paths: Vec<[Hop; 3]> = (0..FLOWS as usize)
                .map(|i| {
                    let hop = |link: usize| Hop { link, load: &loads[link], sharers: 1, ..Hop::default() };
                    [
                        Hop { link: 0, load: &[], sharers: FLOWS / JOBS, ..Hop::default() },
                        hop(1 + i % PORTS),
                        hop(1 + PORTS + i * 7 % PORTS),
                    ]
                })
                .collect();
            let flows: Vec<FlowView> = (0..FLOWS)
                .map(|i| FlowView {
                    flow: FlowId(i),
                    job: JobId(i % JOBS),
                    arrival: i % JOBS,
                    remaining: Bytes(5_000_000 * (1 + i % 5)),
                    usable: Bytes(4_000_000),
                    behind: Bytes(if i % 4 == 0 { 100_000 } else { 0 }),
                    ceiling: if i % 3 == 0 { Rate::mbps(8_000) } else { Rate::MAX },
                    floor: Rate::mbps(250),
                    path: &paths[i as usize],
                    ..FlowView::default()
                })
                .collect();
            let problem =
                Problem { slot: SLOT, rest: Nanos::from_millis(37), horizon: slots, links: &links, flows: &flows };
            let (mut scratch, mut out) = (Scratch::default(), Vec::new());
            group.bench_function(BenchmarkId::new(name, slots), |b| {
                b.iter(|| plan(black_box(&problem), &config, &mut scratch, black_box(&mut out)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, one_flow, host);
criterion_main!(benches);
