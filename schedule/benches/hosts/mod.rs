//! Hosts with much to decide, for what measures decisions.

use sluice_schedule::host::{Host, HostConfig, PolicyName};
use sluice_schedule::*;

/// What the host has to decide about.
#[derive(Clone, Copy)]
pub struct Size {
    /// Flows, by turns of one job and the next.
    pub flows: u64,
    /// Jobs.
    pub jobs: u64,
    /// Ports of the second switch, over which flows go by turns.
    pub ports: u64,
}

const HOLDERS: [&str; 2] = ["leaf", "spine"];

/// So long after the clock began.
pub fn now(ms: u64) -> Now {
    let time = Nanos::from_millis(ms);
    Now { mono: time, wall: time, slot: Slot((ms / 60) as u32), into_slot: Nanos::from_millis(ms % 60) }
}

/// A host with so many flows, all in a round that just began.
pub fn host(policy: PolicyName, size: Size) -> Host {
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

/// Progress of one flow arrives, as in every wake-up of the daemon; time stays in the lease. Bytes that were delivered as
/// planned are no reason for another plan, so most of these decide nothing.
pub fn step(host: &mut Host, size: Size, tick: u64, actions: &mut Vec<Action>) -> usize {
    actions.clear();
    let flow = FlowId((u64::from(HostId::of("h0").0) << 32) | (tick % size.flows));
    let progress = FlowProgress { flow, delivered: Bytes(tick % 1_000_000), ..FlowProgress::default() };
    host.handle(now(2), Event::Progress(vec![progress]));
    host.decide(now(2 + tick % 58), actions);
    actions.len()
}
