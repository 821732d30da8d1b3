//! Rounds, roles and sockets over a fake kernel and made-up pages.

use sluice_ebpf::SocketEventKind;
use sluice_progress::{PageView, Pattern as PagePattern, Peer, PeerKind, Role as PageRole, State};
use sluice_schedule::{FlowSpec, HostId, Rate, Role};

use super::*;
use crate::monitor::processes::job_of;
use crate::testing::{Fake, at, config, fabric, known, now, random};

struct Bench {
    kernel: Fake,
    monitor: Monitor,
}

impl Bench {
    fn new() -> Bench {
        let config = config(0, true);
        Bench { kernel: Fake::default(), monitor: Monitor::new(&config, fabric(0, &config)) }
    }
    /// A process with this page; pages of the own process cannot be opened (their locks do not show).
    fn process(&mut self, pid: u32, view: PageView) {
        self.monitor.add_for_test(pid, view);
    }
    fn update(&mut self, pid: u32, change: impl FnOnce(&mut PageView)) {
        let process = self.monitor.processes.get_mut(&ProcessKey::Pid(pid)).expect("known");
        let mut view = process.view.clone().expect("has a page");
        change(&mut view);
        if process.update(view) {
            self.monitor.rematch = true;
        }
    }
    fn poll(&mut self, ms: u64) -> Vec<Event> {
        let mut out = Vec::new();
        let mut events = Vec::new();
        self.kernel.events(&mut events);
        for event in &events {
            _ = self.monitor.socket_event(now(ms), event, &mut out);
        }
        self.monitor.poll(now(ms), false, &self.kernel.clone(), &mut out);
        out
    }
}

fn peer(rank: u32, kind: PeerKind, local: u16, to: usize, remote: u16) -> Peer {
    Peer { rank: Some(rank), kind, local: at(0, local), remote: at(to, remote), cookie: 0, tx_bytes: 0 }
}

/// Rank 0 of a ring over h0, h1, h2: sends to h1, receives from h2.
fn ring() -> PageView {
    PageView {
        job_id: "vgg".into(),
        rank: Some(0),
        nranks: 3,
        nnodes: 3,
        pattern: PagePattern::Ring,
        hint_iter_bytes: 3_000_000,
        ring_prev: Some(2),
        ring_next: Some(1),
        peers: vec![peer(1, PeerKind::Connected, 4000, 1, 5000), peer(2, PeerKind::Accepted, 4001, 2, 5001)],
        state: State::Compute,
        ..PageView::default()
    }
}

fn opened(events: &[Event]) -> Vec<&FlowSpec> {
    events.iter().filter_map(|event| if let Event::FlowOpened(spec) = event { Some(spec) } else { None }).collect()
}

fn began(events: &[Event]) -> Option<Vec<Bytes>> {
    events.iter().find_map(|event| match event {
        Event::RoundBegan { flows, .. } => Some(flows.iter().map(|(_, bytes)| *bytes).collect()),
        _ => None,
    })
}

#[test]
fn a_ring_rank_sends_to_the_next_bound_by_what_the_previous_sends() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.kernel.open(at(0, 4001), at(2, 5001));
    let events = bench.poll(5);
    let specs = opened(&events);
    assert_eq!(specs.len(), 1, "{events:?}");
    let spec = specs[0];
    assert_eq!((spec.to, spec.role, spec.job), (HostId::of("h1"), Role::RingNext, job_of(Some(0), "vgg")));
    assert_eq!(spec.path.len(), 2);
    // h2 names the same flow by its own end of the connection.
    let theirs = tuple::Tuple::of(at(2, 5001), at(0, 4001)).outgoing(HostId::of("h2"));
    assert_eq!(spec.preds.iter().map(|pred| pred.flow).collect::<Vec<_>>(), [theirs]);
    assert_eq!(spec.preds[0].lead, Bytes(1_000_000), "one chunk of three");
}

#[test]
fn a_connection_with_an_excluded_port_at_either_end_is_no_flow_until_it_is_excluded_no_more() {
    for excluded in [4000, 5000] {
        let mut config = config(0, true);
        config.capture.ports_exclude = vec![excluded - 1..=excluded + 1];
        let fabric = fabric(0, &config);
        let mut bench = Bench { kernel: Fake::default(), monitor: Monitor::new(&config, fabric.clone()) };
        bench.process(7, ring());
        bench.kernel.open(at(0, 4000), at(1, 5000));
        let events = bench.poll(5);
        assert!(opened(&events).is_empty(), "{excluded}: {events:?}");
        config.capture.ports_exclude = vec![excluded + 1..=excluded + 1];
        bench.monitor.reconfigure(&config, fabric, &mut Vec::new());
        assert_eq!(opened(&bench.poll(10)).len(), 1, "{excluded}");
    }
}

#[test]
fn a_page_that_learns_its_pattern_late_gives_its_flows_their_parts_then() {
    let mut bench = Bench::new();
    bench.process(7, PageView { pattern: PagePattern::Unknown, ..ring() });
    bench.kernel.open(at(0, 4000), at(1, 5000));
    assert_eq!(opened(&bench.poll(5))[0].role, Role::Plain);
    bench.update(7, |view| view.pattern = PagePattern::Ring);
    let events = bench.poll(10);
    assert_eq!(opened(&events)[0].role, Role::RingNext);
    assert!(
        events.contains(&Event::JobSeen(JobSpec { job: job_of(Some(0), "vgg"), pattern: Pattern::Ring })),
        "{events:?}"
    );
}

#[test]
fn a_flow_with_a_few_words_gets_none_of_the_round() {
    let mut bench = Bench::new();
    let peers = vec![peer(1, PeerKind::Connected, 4000, 1, 5000), peer(2, PeerKind::Connected, 4001, 2, 5001)];
    bench.process(7, PageView { pattern: PagePattern::Unknown, peers, ..ring() });
    let tensors = bench.kernel.open(at(0, 4000), at(1, 5000));
    let words = bench.kernel.open(at(0, 4001), at(2, 5001));
    assert_eq!(opened(&bench.poll(5)).len(), 2);
    let round = |bench: &mut Bench, count: u64, from: u64| {
        bench.update(7, |view| {
            view.iteration.count = count;
            view.iteration.base_bytes = (count - 1) * 3_000_000;
            (view.enq_bytes, view.enq_wire_bytes) = (count * 3_000_000, count * 4_000_000);
            view.state = State::OnWire;
        });
        let mut demands = began(&bench.poll(from)).expect("a round");
        demands.sort_unstable();
        bench.kernel.write(tensors, Bytes(4_000_000));
        bench.kernel.write(words, Bytes(912));
        for row in [tensors, words] {
            bench.kernel.rows().orders.insert(row, (Rate::mbps(1000), Nanos::MAX));
        }
        bench.kernel.run(Nanos::from_millis(from), Nanos::from_millis(from + 100));
        bench.poll(from + 100);
        bench.update(7, |view| view.state = State::Compute);
        bench.poll(from + 110);
        demands
    };
    assert_eq!(round(&mut bench, 1, 10), [Bytes(2_000_000), Bytes(2_000_000)], "nothing is known of either");
    assert_eq!(round(&mut bench, 2, 200), [Bytes::ZERO, Bytes(4_000_000)]);
}

#[test]
fn a_round_is_told_with_its_bytes_and_ends_with_what_was_delivered() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    let row = bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.poll(5);
    bench.update(7, |view| {
        view.iteration.count = 1;
        (view.enq_bytes, view.enq_wire_bytes, view.state) = (3_000_000, 4_000_000, State::OnWire);
    });
    let events = bench.poll(10);
    assert_eq!(began(&events), Some(vec![Bytes(4_000_000)]));
    bench.kernel.write(row, Bytes(4_000_100));
    bench.kernel.rows().orders.insert(row, (Rate::mbps(100), Nanos::MAX));
    bench.kernel.run(Nanos::from_millis(15), Nanos::from_millis(160));
    let events = bench.poll(170);
    let delivered =
        events.iter().find_map(|event| if let Event::Progress(p) = event { Some(p[0].delivered) } else { None });
    assert_eq!(delivered, Some(Bytes(2_000_000)));
    bench.kernel.run(Nanos::from_millis(175), Nanos::from_millis(400));
    bench.update(7, |view| view.state = State::Compute);
    let events = bench.poll(580);
    assert!(
        events.iter().any(|event| matches!(event, Event::DemandChanged { demand: Bytes(4_000_100), .. })),
        "{events:?}"
    );
    assert!(!bench.monitor.busy());
    assert_eq!(bench.monitor.ended_rounds.len(), 1);
}

#[test]
fn what_a_round_left_in_the_send_buffer_does_not_count_in_the_next() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    let row = bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.poll(5);
    let round = |count: u64| {
        move |view: &mut PageView| {
            (view.iteration.count, view.iteration.base_bytes) = (count, 3_000_000 * (count - 1));
            (view.enq_bytes, view.enq_wire_bytes, view.state) = (3_000_000 * count, 4_000_000 * count, State::OnWire);
        }
    };
    let delivered = |events: &[Event]| {
        events.iter().rev().find_map(|event| if let Event::Progress(p) = event { Some(p[0].delivered) } else { None })
    };
    bench.update(7, round(1));
    bench.poll(10);
    bench.kernel.write(row, Bytes(4_000_000));
    bench.kernel.rows().orders.insert(row, (Rate::mbps(100), Nanos::MAX));
    bench.kernel.run(Nanos::from_millis(15), Nanos::from_millis(160));
    let sent = delivered(&bench.poll(170)).expect("progress");
    assert!(sent < Bytes(4_000_000), "some of the round has to be left");
    bench.update(7, |view| view.state = State::Compute);
    bench.poll(180);
    bench.update(7, round(2));
    assert_eq!(began(&bench.poll(190)), Some(vec![Bytes(4_000_000)]));
    bench.kernel.write(row, Bytes(4_000_000));
    bench.kernel.run(Nanos::from_millis(200), Nanos::from_millis(60));
    assert_eq!(delivered(&bench.poll(265)), Some(Bytes::ZERO), "only the last round's bytes have moved");
    bench.kernel.run(Nanos::from_millis(270), Nanos::from_millis(1_000));
    assert_eq!(delivered(&bench.poll(1_005)), Some(Bytes(4_000_000)), "the whole round, and nothing of the one before");
}

#[test]
fn a_server_sends_to_every_worker_bound_by_all_of_them() {
    let mut bench = Bench::new();
    let peers = (1..4).flat_map(|i| {
        let rank = i as u32 - 1;
        [peer(rank, PeerKind::Connected, 4000 + i as u16, i, 5000), peer(rank, PeerKind::Accepted, 6000, i, 7000)]
    });
    let view = PageView {
        job_id: "ps".into(),
        rank: Some(3),
        nranks: 4,
        pattern: PagePattern::ParameterServer,
        role: PageRole::Server,
        peers: peers.collect(),
        ..PageView::default()
    };
    bench.process(9, view);
    for i in 1..4 {
        bench.kernel.open(at(0, 4000 + i as u16), at(i, 5000));
        bench.kernel.open(at(0, 6000), at(i, 7000));
    }
    let events = bench.poll(5);
    let specs = opened(&events);
    assert_eq!(specs.len(), 3);
    assert!(specs.iter().all(|spec| spec.role == Role::Broadcast && spec.preds.len() == 3), "{specs:?}");
}

#[test]
fn a_page_does_not_speak_for_another_users_socket() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    bench.monitor.processes.get_mut(&ProcessKey::Pid(7)).expect("known").uid = Some(1000);
    bench.kernel.open(at(0, 4000), at(1, 5000));
    assert_eq!(opened(&bench.poll(5)).len(), 0);
}

#[test]
fn a_socket_that_goes_is_told_and_one_that_comes_again_too() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    let row = bench.kernel.open(at(0, 4000), at(1, 5000));
    let flow = opened(&bench.poll(5))[0].flow;
    // What an expired order gives back is still the job's, and waits for its next one.
    bench.kernel.close(row, SocketEventKind::Expired);
    assert!(!bench.poll(7).contains(&Event::FlowClosed(flow)));
    assert_eq!(bench.monitor.uncaptured, 1);
    let row = bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.poll(8);
    bench.kernel.close(row, SocketEventKind::Closed);
    assert!(bench.poll(10).contains(&Event::FlowClosed(flow)));
    assert_eq!(bench.monitor.uncaptured, 1);
    bench.kernel.open(at(0, 4000), at(1, 5000));
    assert_eq!(opened(&bench.poll(15))[0].flow, flow);
    assert_eq!(bench.monitor.uncaptured, 0);
}

#[test]
fn two_processes_of_a_job_share_one_round() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    let mut second = ring();
    second.peers = vec![peer(1, PeerKind::Connected, 4100, 1, 5100)];
    bench.process(8, second);
    bench.kernel.open(at(0, 4000), at(1, 5000));
    bench.kernel.open(at(0, 4100), at(1, 5100));
    bench.poll(5);
    let start = |view: &mut PageView| {
        view.iteration.count += 1;
        view.iteration.base_bytes = view.enq_bytes;
        view.enq_bytes += 1_000_000;
        view.enq_wire_bytes += 1_000_000;
        view.state = State::OnWire;
    };
    bench.update(7, start);
    assert!(began(&bench.poll(10)).is_some());
    bench.update(8, start);
    let events = bench.poll(20);
    assert!(began(&events).is_none(), "it joins: {events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::DemandChanged { .. })));
    assert_eq!(bench.monitor.jobs[&job_of(Some(0), "vgg")].rounds, 1);
}

#[test]
fn without_a_page_bursts_are_rounds() {
    let mut bench = Bench::new();
    let environ = environ::Environ { job_id: "x".into(), source: JobSource::Env, ..environ::Environ::default() };
    let allowed = vec![JobSource::Env];
    let mut process = Process::of_pid(&known(5, at(0, 1), at(1, 1)), &environ, &allowed).expect("a job");
    let tuple = tuple::Tuple::of(at(0, 4000), at(1, 5000));
    process.claims.take(inferred::Claim { tuple, sends: true, receives: false });
    bench.monitor.appeared(ProcessKey::Pid(5), process, &mut Vec::new());
    let row = bench.kernel.open(at(0, 4000), at(1, 5000));
    assert_eq!(opened(&bench.poll(5)).len(), 1);
    bench.kernel.write(row, Bytes(500_000));
    let events = bench.poll(10);
    assert_eq!(began(&events), Some(vec![Bytes(1_000_000)]), "as much again as is there");
    // While it sends there is always something left, so that no part of the round is held at the floor.
    bench.kernel.rows().orders.insert(row, (Rate::mbps(1000), Nanos::MAX));
    for n in 1..=4_u64 {
        bench.kernel.write(row, Bytes(500_000));
        bench.kernel.run(Nanos::from_millis(10 * n), Nanos::from_millis(10 * n + 9));
        bench.poll(10 * n + 9);
        let socket = bench.monitor.sockets.iter().next().expect("a socket");
        assert!(socket.demand > socket.delivered(), "after {n} writes: {socket:?}");
    }
    // The process ends with its last socket.
    bench.kernel.close(row, SocketEventKind::Closed);
    assert!(bench.poll(60).contains(&Event::JobGone(job_of(Some(0), "x"))));
}

#[test]
fn a_name_is_one_job_for_each_user_unless_the_operator_says_otherwise() {
    for (apart, jobs) in [(true, 2), (false, 1)] {
        let mut bench = Bench::new();
        bench.monitor.users_apart = apart;
        for uid in [100_000, 200_000] {
            let process = Process::of_view(ring(), JobSource::Env, Some(uid));
            bench.monitor.appeared(ProcessKey::Pid(uid), process, &mut Vec::new());
        }
        assert_eq!(bench.monitor.jobs.len(), jobs, "{apart}");
        // Then a host where the same containers have other user ids means the same job.
        assert_eq!(bench.monitor.jobs.contains_key(&job_of(None, "vgg")), !apart);
    }
}

#[test]
fn hostile_pages_are_survived() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    bench.kernel.open(at(0, 4000), at(1, 5000));
    let mut random = random(1);
    for ms in 0..3000 {
        let mut big = || if random() & 1 == 0 { u64::MAX - random() % 3 } else { random() % 1000 };
        let (a, b, c, d, e) = (big(), big(), big(), big(), big());
        bench.update(7, |view| {
            (view.enq_bytes, view.enq_wire_bytes, view.hint_iter_bytes) = (a, b, c);
            (view.iteration.count, view.iteration.base_bytes) = (d, e);
            view.nranks = a as u32;
            view.nnodes = b as u32;
            view.state = State::from_raw(c % 6);
        });
        bench.poll(ms);
    }
}

mod crowd;
mod following;
mod matching;
mod redraw;
