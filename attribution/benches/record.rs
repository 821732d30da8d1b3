//! A flight record: a slot with as many connections as fit, as a frame; and ten minutes of 60 ms slots with 64 connections, read.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluice_attribution::record::{SEGMENT, frame, head, read};
use sluice_attribution::seen::{ArrivalSeen, FlowSeen, JobSeen, Limits, LinkSeen, MAX_FLOWS, MAX_LIST, Seen};
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Rate};

const SLOT: Nanos = Nanos::from_millis(60);

fn slot(number: u64, flows: usize, arrivals: usize) -> Seen {
    let flow = |n: usize| FlowSeen {
        flow: FlowId(n as u64),
        job: (n % 8) as u32,
        peer: (n % 32) as u32,
        path: vec![0, 1],
        ordered: Rate::mbps(400 + n as u64),
        delivered: Bytes(2_000_000 + n as u64),
        remaining: Bytes(30_000_000),
        queued: Bytes(120_000),
        segment: Bytes(1_448),
        queueing: Nanos(40_000),
        rtt_min: Nanos(60_000),
        limits: Some(Limits::default()),
        ..FlowSeen::default()
    };
    let arrival = |n: usize| ArrivalSeen {
        job: (n % 8) as u32,
        peer: (n % 32) as u32,
        link: Some(2),
        received: Bytes(2_000_000),
        unread: Bytes(4_000),
    };
    let link =
        |n: usize| LinkSeen { name: format!("host-17:eth{n}"), capacity: Rate::mbps(25_000), ..LinkSeen::default() };
    let job = |n: u64| JobSeen { id: JobId(n), name: format!("train-{n}"), ..JobSeen::default() };
    let from = Nanos(SLOT.0 * number);
    Seen {
        from,
        to: from.plus(SLOT),
        enforces: true,
        jobs: (0..8).map(job).collect(),
        peers: (0..32).map(|n| format!("host-{n}")).collect(),
        links: (0..3).map(link).collect(),
        flows: (0..flows).map(flow).collect(),
        arrivals: (0..arrivals).map(arrival).collect(),
        ..Seen::default()
    }
}

/// A file of so many slots.
fn file(slots: u64) -> Vec<u8> {
    let (mut file, mut serial) = (Vec::new(), 1);
    let mut segment = head(serial, "host-17").to_vec();
    for number in 0..slots {
        let seen = slot(number, 64, 64);
        let mut next = Vec::new();
        assert!(frame(serial, &seen, &mut next), "it fits");
        if segment.len() + next.len() > SEGMENT {
            segment.resize(SEGMENT, 0);
            file.append(&mut segment);
            serial += 1;
            segment = head(serial, "host-17").to_vec();
            next.clear();
            assert!(frame(serial, &seen, &mut next), "it fits");
        }
        segment.append(&mut next);
    }
    segment.resize(SEGMENT, 0);
    file.append(&mut segment);
    file
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("record");
    let full = slot(1, MAX_FLOWS, MAX_LIST);
    let mut out = Vec::with_capacity(SEGMENT);
    group.throughput(Throughput::Elements((MAX_FLOWS + MAX_LIST) as u64));
    group.bench_function("a slot with 512 flows and 512 arrivals", |b| {
        b.iter(|| {
            out.clear();
            frame(1, &full, &mut out)
        });
    });
    let ten_minutes = file(10_000);
    group.throughput(Throughput::Bytes(ten_minutes.len() as u64));
    group.sample_size(10);
    group.bench_function("ten minutes with 64 flows, read", |b| b.iter(|| read(&ten_minutes)));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
