//! Jobs without a page over a fake kernel: found, given their parts, their rounds ended by count.

use sluice_ebpf::{Datapath, SocketEventKind};
use sluice_progress::{PageView, Peer, PeerKind};
use sluice_schedule::{Bytes, HostId, Nanos, Rate, Role};

use super::*;
use crate::monitor::environ::Environ;
use crate::monitor::processes::job_of;
use crate::testing::{Fake, at, config, fabric, known, now};

const P: u64 = 4_000_000;

struct Bench {
    kernel: Fake,
    monitor: Monitor,
}

impl Bench {
    fn new() -> Bench {
        let config = config(0, true);
        Bench { kernel: Fake::default(), monitor: Monitor::new(&config, fabric(0, &config)) }
    }
    /// Process 5 of a job moves much on its connection number `port` with host `to`.
    fn found(&mut self, text: &[u8], port: u16, to: usize, (sends, receives): (bool, bool)) -> Vec<Event> {
        let environ = Environ::parse(text);
        let origin = Origin { known: known(5, at(0, port), at(to, 5000)), environ, sends, receives };
        let mut out = Vec::new();
        self.monitor.found(now(0), &origin, &mut out);
        out
    }
    fn poll(&mut self, ms: u64) -> Vec<Event> {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        self.kernel.events(&mut events);
        events.iter().for_each(|event| _ = self.monitor.socket_event(now(ms), event, &mut out));
        self.monitor.poll(now(ms), false, &self.kernel.clone(), &mut out);
        out
    }
}

const TORCH: &[u8] = b"MASTER_ADDR=n0\0MASTER_PORT=29500\0RANK=0\0WORLD_SIZE=3\0";

fn specs(events: &[Event]) -> Vec<&sluice_schedule::FlowSpec> {
    events.iter().filter_map(|event| if let Event::FlowOpened(spec) = event { Some(spec) } else { None }).collect()
}

#[test]
fn a_ring_is_seen_in_who_sends_to_whom_whoever_connected() {
    let mut bench = Bench::new();
    bench.found(TORCH, 4000, 1, (false, true));
    bench.found(TORCH, 4001, 2, (true, false));
    bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.kernel.open(at(0, 4001), at(2, 5000));
    let events = bench.poll(5);
    let specs = specs(&events);
    assert_eq!(specs.len(), 1, "what only receives is no flow of ours: {events:?}");
    assert_eq!((specs[0].to, specs[0].role), (HostId::of("h2"), Role::RingNext));
    let theirs = Tuple::of(at(1, 5000), at(0, 4000)).outgoing(HostId::of("h1"));
    assert_eq!(specs[0].preds.iter().map(|pred| pred.flow).collect::<Vec<_>>(), [theirs]);
    assert_eq!(bench.monitor.uncaptured, 0);
}

#[test]
fn a_worker_of_a_parameter_server_job_sends_to_its_servers() {
    let mut bench = Bench::new();
    let ps = b"DMLC_ROLE=worker\0DMLC_PS_ROOT_URI=10.0.0.1\0DMLC_PS_ROOT_PORT=9000\0";
    for (port, to, way) in [(4000, 1, (true, false)), (4001, 2, (true, false)), (4002, 1, (false, true))] {
        bench.found(ps, port, to, way);
        bench.kernel.open(at(0, port), at(to, 5000));
    }
    let events = bench.poll(5);
    let to: Vec<(HostId, Role)> = specs(&events).iter().map(|spec| (spec.to, spec.role)).collect();
    assert_eq!(to.len(), 2, "{to:?}");
    assert!([1, 2].iter().all(|i| to.contains(&(HostId::of(&format!("h{i}")), Role::Aggregate))), "{to:?}");
}

#[test]
fn a_flow_without_a_row_is_wanted_until_its_connection_is_gone() {
    let mut bench = Bench::new();
    bench.found(TORCH, 4001, 2, (true, false));
    bench.poll(5);
    assert_eq!(bench.monitor.uncaptured, 1, "it runs plain");
    let row = bench.kernel.open(at(0, 4001), at(2, 5000));
    bench.poll(10);
    assert_eq!(bench.monitor.uncaptured, 0);
    // Given back, it is still the job's; closed, the job is gone.
    bench.kernel.close(row, SocketEventKind::Expired);
    bench.poll(15);
    assert_eq!((bench.monitor.uncaptured, bench.monitor.jobs.len()), (1, 1));
    let mut out = Vec::new();
    bench.monitor.lost(ProcessKey::Pid(5), &Tuple::of(at(0, 4001), at(2, 5000)), &mut out);
    assert!(out.contains(&Event::JobGone(job_of(Some(0), "torch-n0:29500"))), "{out:?}");
}

#[test]
fn who_names_no_job_or_sends_elsewhere_is_left_alone() {
    let mut bench = Bench::new();
    assert_eq!(bench.found(b"PATH=/bin\0", 4000, 1, (true, false)), []);
    let known = known(6, "127.0.0.1:4000".parse().expect("valid"), "127.0.0.1:5000".parse().expect("valid"));
    let origin = Origin { known, environ: Environ::parse(TORCH), sends: true, receives: true };
    bench.monitor.found(now(0), &origin, &mut Vec::new());
    assert!(bench.monitor.jobs.is_empty());
}

#[test]
fn what_a_page_has_no_room_for_is_the_jobs_where_it_leads_to_the_pages_hosts() {
    let mut bench = Bench::new();
    let listed = Peer {
        rank: Some(1),
        kind: PeerKind::Connected,
        local: at(0, 4000),
        remote: at(1, 5000),
        cookie: 0,
        tx_bytes: 0,
    };
    let view = PageView { job_id: "moe".into(), peers: vec![listed], more_peers: true, ..PageView::default() };
    bench.monitor.add_for_test(7, view);
    bench.poll(5);
    let held = |port, to| Held { known: known(7, at(0, port), at(to, 5000)), sends: true, receives: false };
    let mut foreign = held(4003, 1);
    foreign.known.uid = 9;
    bench.monitor.processes.values_mut().for_each(|process| process.pid = Some(7));
    bench.monitor.held(now(10), 7, &[held(4000, 1), held(4001, 1), held(4002, 3), foreign]);
    let events = bench.poll(10);
    let flows: Vec<_> = specs(&events).iter().map(|spec| spec.flow).collect();
    let flow = |port| Tuple::of(at(0, port), at(1, 5000)).outgoing(HostId::of("h0"));
    assert_eq!(flows.len(), 2, "its storage and another user's stay plain: {events:?}");
    assert!(flows.contains(&flow(4000)) && flows.contains(&flow(4001)));
}

#[test]
fn a_connection_that_a_page_names_no_more_is_forgotten() {
    let mut bench = Bench::new();
    let peer = |port| Peer {
        rank: Some(1),
        kind: PeerKind::Connected,
        local: at(0, port),
        remote: at(1, 5000),
        cookie: 0,
        tx_bytes: 0,
    };
    let view = |port| PageView { job_id: "moe".into(), peers: vec![peer(port)], ..PageView::default() };
    bench.monitor.add_for_test(7, view(4000));
    bench.monitor.sockets.know(Nanos::ZERO, HostId::of("h0"), known(7, at(0, 4000), at(1, 5000)));
    let flow = specs(&bench.poll(5)).first().map(|spec| spec.flow).expect("told, though it has no row");
    for process in bench.monitor.processes.values_mut() {
        process.update(view(4001));
    }
    bench.monitor.sockets.know(Nanos::ZERO, HostId::of("h0"), known(7, at(0, 4001), at(1, 5000)));
    bench.monitor.rematch = true;
    let events = bench.poll(10);
    assert!(events.contains(&Event::FlowClosed(flow)), "{events:?}");
    bench.monitor.sockets.forget_unclaimed();
    assert_eq!(bench.monitor.sockets.iter().count(), 1);
}

/// Iterations of `P` bytes, each split by a pause longer than the one between them: once the period is known, rounds
/// begin with exactly what is left and end with the last byte.
#[test]
fn once_learned_a_round_ends_by_count_and_not_by_a_pause() {
    let mut bench = Bench::new();
    bench.found(TORCH, 4001, 2, (true, false));
    let row = bench.kernel.open(at(0, 4001), at(2, 5000));
    bench.poll(0);
    let (mut ms, mut rounds) = (10, Vec::new());
    let mut send = |bench: &mut Bench, bytes: u64, pause: u64, rounds: &mut Vec<u64>| {
        bench.kernel.write(row, Bytes(bytes));
        let mut left = true;
        while left {
            let events = bench.poll(ms);
            rounds.extend(events.iter().filter_map(|event| match event {
                Event::RoundBegan { flows, .. } => flows.iter().map(|(_, bytes)| bytes.0).max(),
                _ => None,
            }));
            bench.kernel.rows().orders.insert(row, (Rate::mbps(400), Nanos::MAX));
            bench.kernel.run(Nanos::from_millis(ms), Nanos::from_millis(10));
            ms += 10;
            left = bench.kernel.rows().stats[&row].queued > Bytes::ZERO;
        }
        for _ in 0..pause / 10 {
            bench.poll(ms);
            ms += 10;
        }
    };
    for _ in 0..4 {
        send(&mut bench, P, 420, &mut rounds);
    }
    rounds.clear();
    for _ in 0..5 {
        send(&mut bench, P / 4, 200, &mut rounds);
        send(&mut bench, P - P / 4, 120, &mut rounds);
    }
    assert_eq!(rounds, [P; 5], "one round per iteration, each told with all its bytes");
    assert!(!bench.monitor.busy());
}
