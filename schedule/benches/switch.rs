//! One announcement at a holder and its answer: 8 flows on 2 links each, 4 watched links, 100 hosts, K = 10.

use std::cell::Cell;

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_schedule::message::{Announcement, FlowPromise, JobStatus};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HostId, JobId, LinkId, Nanos, Rate, Slot};

const HOSTS: u32 = 100;

fn link(n: u32) -> LinkId {
    LinkId::new(1, n % (2 * HOSTS))
}

fn announcement(host: u32, seq: u64, slot: u32, spread: u32) -> Announcement {
    let promise = |local: u32| FlowPromise {
        flow: FlowId((u64::from(host) << 32) | u64::from(local)),
        job: JobId(u64::from(host / 4)),
        key: Nanos::from_millis(u64::from(local + host)),
        takes: Rate::mbps(2_000),
        rates: vec![Rate::mbps(1_000); 10],
        links: vec![link(host * spread), link(host * spread + local + 1)],
        ..FlowPromise::default()
    };
    Announcement {
        host: HostId(host),
        boot: BootId(u64::from(host)),
        seq,
        slot: Slot(slot),
        flows: (0..8).map(promise).collect(),
        jobs: vec![JobStatus { job: JobId(u64::from(host / 4)), origin: HostId(host), seq, ..JobStatus::default() }],
        watch: (0..4).map(|n| link(host * spread + n)).collect(),
        ..Announcement::default()
    }
}

fn bench(c: &mut Criterion) {
    let links: Vec<LinkConfig> = (0..2 * HOSTS)
        .map(|n| LinkConfig { link: link(n), capacity: Rate::mbps(25_000), ..LinkConfig::default() })
        .collect();
    for (name, kind) in [("exact", TableKind::Exact), ("double-buffer", TableKind::DoubleBuffer)] {
        let mut switch = Switch::with_table(BootId(1), Limits::default(), &links, kind);
        let messages: Vec<Announcement> = (0..HOSTS).map(|host| announcement(host, 1, 1, 2)).collect();
        messages.iter().for_each(|message| drop(switch.announce(Slot(1), message)));
        let turn = Cell::new(0_u64);
        // Every message is one slot and one sequence number after the host's last, as in steady running.
        c.bench_function(&format!("announce, {name}"), |b| {
            b.iter_batched(
                || {
                    let n = turn.replace(turn.get() + 1);
                    let slot = 2 + (n / u64::from(HOSTS)) as u32;
                    (slot, announcement((n % u64::from(HOSTS)) as u32, 2 + n, slot, 2))
                },
                |(slot, message)| switch.announce(Slot(slot), &message),
                criterion::BatchSize::SmallInput,
            )
        });
        c.bench_function(&format!("take_stale, {name}"), |b| b.iter(|| switch.take_stale()));
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
