//! One decision of a host: 64 flows of 8 jobs over 3-hop paths, K = 10, eight foreign promises on every shared link; and
//! of many more: 512 flows of 64 jobs, 4096 of 256, and 4096 of one job, each to another host.
//!
//! Criterion's figures are means of samples; the percentiles of single decisions are printed besides.

#![allow(clippy::disallowed_methods, reason = "it measures")]

mod hosts;

use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use hosts::{Size, host, now, step};
use sluice_schedule::host::PolicyName;
use sluice_schedule::{ClockTrust, Event};

const USUAL: Size = Size { flows: 64, jobs: 8, ports: 16 };
const LARGE: [Size; 3] = [
    Size { flows: 512, jobs: 64, ports: 128 },
    Size { flows: 4096, jobs: 256, ports: 1024 },
    Size { flows: 4096, jobs: 1, ports: 4096 },
];
const POLICIES: [PolicyName; 3] = [PolicyName::SrptP, PolicyName::PrimalDual, PolicyName::Fair];
const SINGLE: usize = 20_000;

fn decision(c: &mut Criterion) {
    for policy in POLICIES {
        let mut host = host(policy, USUAL);
        let mut actions = Vec::with_capacity(256);
        let mut tick = 2_u64;
        c.bench_function(&format!("decision/{policy:?}/64 flows, 3 hops, K=10"), |b| {
            b.iter(|| {
                tick += 1;
                step(&mut host, USUAL, tick, &mut actions)
            });
        });
    }
}

/// Decisions for everything anew, one by one.
fn singles(policy: PolicyName, size: Size, count: usize) {
    let mut host = host(policy, size);
    let mut actions = Vec::with_capacity(256);
    let mut took: Vec<f64> = (0..count as u64)
        .map(|tick| {
            let begin = Instant::now();
            // An event that says nothing new, but after which all is planned anew.
            host.handle(now(2), Event::Clock(ClockTrust::Trusted));
            std::hint::black_box(step(&mut host, size, tick, &mut actions));
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((count as f64 * part) as usize).min(count - 1)];
    println!(
        "single decisions, {policy:?}, {} flows of {} jobs: p50 {:.1} µs, p99 {:.1} µs, p99.9 {:.1} µs",
        size.flows,
        size.jobs,
        at(0.5),
        at(0.99),
        at(0.999)
    );
}

fn percentiles(_: &mut Criterion) {
    for policy in POLICIES {
        singles(policy, USUAL, SINGLE);
    }
    for size in LARGE {
        singles(PolicyName::SrptP, size, 2_000_000 / size.flows as usize);
    }
}

criterion_group!(benches, decision, percentiles);
criterion_main!(benches);
