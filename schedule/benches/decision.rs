//! One decision of a host: 64 flows of 8 jobs over 3-hop paths, K = 10, eight foreign promises on every shared link; and
//! of many more: 512 flows of 64 jobs, 4096 of 256, and 4096 of one job, each to another host.
//!
//! Criterion's figures are means of samples; the percentiles of single decisions are printed besides.

use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_schedule::host::{Host, HostConfig, PolicyName};
use sluice_schedule::*;

/// What the host has to decide about.
#[derive(Clone, Copy)]
struct Size {
    flows: u64,
    jobs: u64,
    /// Ports of the second switch, over which flows go by turns.
    ports: u64,
}

const USUAL: Size = Size { flows: 64, jobs: 8, ports: 16 };
const LARGE: [Size; 3] = [
    Size { flows: 512, jobs: 64, ports: 128 },
    Size { flows: 4096, jobs: 256, ports: 1024 },
    Size { flows: 4096, jobs: 1, ports: 4096 },
];
const HOLDERS: [&str; 2] = ["leaf", "spine"];

fn now(ms: u64) -> Now {
    let time = Nanos::from_millis(ms);
    Now { mono: time, wall: time, slot: Slot((ms / 60) as u32), into_slot: Nanos::from_millis(ms % 60) }
}

fn host(policy: PolicyName, size: Size) -> Host {
    let Size { flows, jobs, ports } = size;
    let me = HostId::of("h0");
    let mut host = Host::new(HostConfig { policy, ..HostConfig::new(me, BootId(1)) });
    let capacity = Rate::mbps(25_000);
    let shared = |holder: usize, port: u64| LinkId::new(HolderId::of(HOLDERS[holder]).0, port as u32);
    let id = |i: u64| FlowId((u64::from(me.0) << 32) | i);
    for i in 0..flows {
        let hop = |holder: usize, port| Hop {
            link: shared(holder, port),
            capacity,
            holder: Some(HolderId::of(HOLDERS[holder])),
        };
        let path = vec![Hop { link: LinkId::egress(me), capacity, holder: None }, hop(0, i % 4), hop(1, i % ports)];
        let job = JobId(i % jobs);
        host.handle(now(0), Event::FlowOpened(FlowSpec { flow: id(i), job, path, ..FlowSpec::default() }));
    }
    for (holder, ports) in [(0, 4), (1, ports)] {
        let promise = |port: u64, n: u64| FlowPromise {
            flow: FlowId(((n + 1) << 32) | port),
            job: JobId(1000 + n),
            key: Nanos::from_millis(20 * (n + 1)),
            t0: Nanos::from_millis(n),
            takes: Rate::mbps(3_000),
            rates: vec![Rate::mbps(2_000); 1],
            demand: Bytes(50_000_000),
            ..FlowPromise::default()
        };
        let view = |port| LinkView {
            link: shared(holder, port),
            capacity,
            load: vec![Rate::mbps(16_000); 10],
            flows: (0..8).map(|n| promise(port, n)).collect(),
            ..LinkView::default()
        };
        let feedback = Feedback { warm: true, links: (0..ports).map(view).collect(), ..Feedback::default() };
        host.handle(now(0), Event::Feedback { holder: HolderId::of(HOLDERS[holder]), feedback });
    }
    for job in 0..jobs {
        let flows = (0..flows).filter(|i| i % jobs == job).map(|i| (id(i), Bytes(10_000_000 * (job + 1)))).collect();
        host.handle(now(1), Event::RoundBegan { job: JobId(job), flows });
    }
    host
}

const POLICIES: [PolicyName; 3] = [PolicyName::SrptP, PolicyName::PrimalDual, PolicyName::Fair];
const SINGLE: usize = 20_000;

/// Progress of one flow arrives, as in every wake-up of the daemon; time stays in the lease. Bytes that were delivered as
/// planned are no reason for another plan, so most of these decide nothing.
fn step(host: &mut Host, size: Size, tick: u64, actions: &mut Vec<Action>) -> usize {
    actions.clear();
    let flow = FlowId((u64::from(HostId::of("h0").0) << 32) | (tick % size.flows));
    let progress = FlowProgress { flow, delivered: Bytes(tick % 1_000_000), ..FlowProgress::default() };
    host.handle(now(2), Event::Progress(vec![progress]));
    host.decide(now(2 + tick % 58), actions);
    actions.len()
}

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
