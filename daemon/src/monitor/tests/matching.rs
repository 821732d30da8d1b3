//! What befalls single sockets has the same said and remembered as if all connections met all sockets each time.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddrV6;

use proptest::prelude::*;
use sluice_ebpf::{FlowStats, NotTaken, Row, SocketEvent};

use super::*;
use crate::fabric::Way;
use crate::monitor::matching::{MAX_MOVES, is_excluded};
use crate::monitor::roles::Connection;
use crate::monitor::shares::Shares;
use crate::monitor::sockets::Known;
use crate::monitor::tuple::{NetNs, Place, Tuple};
use crate::testing::cookie;

/// Processes, the last one of a user whose sockets it has not.
const PROCESSES: u8 = 4;
/// Connections of each at most.
const PORTS: u8 = 5;
/// The host's own network namespace; processes live in another one with the same addresses.
const OWN: NetNs = NetNs(5);

/// All connections meet all sockets: what a meeting of few has to come to.
fn match_naively(monitor: &mut Monitor, now: Now, out: &mut Vec<Event>) {
    let now = now.mono;
    monitor.uncaptured = 0;
    let mut unknown: BTreeMap<(u32, NetNs), Vec<Tuple>> = BTreeMap::new();
    let told = monitor.sockets.iter().filter(|socket| socket.told.is_some());
    let mut shares = Shares::of(told.map(|socket| socket.tenant));
    // Those for whom nobody gives way.
    let mut refused: HashSet<Tenant> = HashSet::new();
    let mut moves = 0;
    let mut claimed: HashSet<u64> = HashSet::new();
    for (key, process) in &mut monitor.processes {
        if process.sight.is_dormant(now) {
            continue;
        }
        // A library may learn how its ranks talk only with the first operation.
        if let Some(job) = monitor.jobs.get_mut(&process.job)
            && job.pattern == Pattern::Unknown
            && process.pattern != Pattern::Unknown
        {
            job.pattern = process.pattern;
            out.push(Event::JobSeen(JobSpec { job: process.job, pattern: job.pattern }));
        }
        let plan = monitor.jobs.get(&process.job).and_then(|job| job.following.plan());
        let connections = process.connections(&monitor.fabric, plan);
        process.sight.says(connections.iter().any(|connection| connection.sends));
        let mut unknown_here = Vec::new();
        for connection in connections {
            let place = Place { netns: process.netns, tuple: connection.tuple };
            if !connection.sends {
                // Before a plan was read, the same connection may have been taken for one that sends.
                if let Some(socket) = monitor.sockets.at_mut(place).filter(|_| plan.is_some())
                    && socket.process() == Some(*key)
                    && let Some(spec) = socket.told.take()
                {
                    out.push(Event::FlowClosed(spec.flow));
                    process.resplit |= process.rounds.active;
                }
                continue;
            }
            if is_excluded(&monitor.excluded, &connection.tuple) {
                continue;
            }
            let carries = monitor.sockets.at(place).is_some_and(|socket| monitor.sockets.carries_its_flow(socket));
            let Some(socket) = monitor.sockets.at_mut(place) else {
                unknown_here.push(connection.tuple);
                monitor.uncaptured += 1;
                continue;
            };
            // A page speaks only for sockets of its owner.
            if process.uid.is_some_and(|uid| uid != socket.uid) {
                monitor.refused_sockets += 1;
                continue;
            }
            if !carries {
                // Another namespace has a connection between the same ends, and its flow goes on if it was this one's.
                socket.told = None;
                continue;
            }
            socket.tenant = Tenant { uid: socket.uid, ..process.tenant };
            socket.pid = process.pid.unwrap_or(socket.pid);
            let cookie = socket.cookie;
            if socket.process() != Some(*key) {
                monitor.sockets.claim(cookie, Some(*key));
            }
            claimed.insert(cookie);
            let Some(socket) = monitor.sockets.at_mut(place) else { continue };
            let without_row = usize::from(socket.row.is_none());
            if now < socket.plain_until {
                monitor.uncaptured += without_row;
                continue;
            }
            let (tenant, told) = (socket.tenant, socket.told.is_some());
            if !told && !shares.has_room_for(tenant, monitor.max_flows) {
                let other = if refused.contains(&tenant) { None } else { shares.gives_way(tenant) };
                let Some(other) = other.filter(|_| moves < MAX_MOVES) else {
                    // Time alone makes no room: whatever does has all sockets matched anew.
                    refused.insert(tenant);
                    monitor.crowd.refused_flows += u64::from(!std::mem::replace(&mut socket.crowded_out, true));
                    continue;
                };
                moves += 1;
                shares.remove(other);
                monitor.crowd.given_flows += 1;
                out.extend(monitor.sockets.give_up(other).map(|(flow, _)| Event::FlowClosed(flow)));
            }
            monitor.uncaptured += without_row;
            let Some(socket) = monitor.sockets.at_mut(place) else { continue };
            let Some(Way { path, forks, .. }) = monitor.fabric.way(socket.flow, &socket.tuple) else { continue };
            let to = monitor.fabric.host_of(socket.tuple.remote_ip());
            let Connection { role, preds, watches, share, terms, .. } = connection;
            let (flow, job) = (socket.flow, process.job);
            let connection = Some(socket.tuple.connection());
            let spec = FlowSpec { flow, job, to, role, path, preds, watches, share, terms, connection, forks };
            if socket.told.as_ref() != Some(&spec) {
                out.push(Event::FlowOpened(spec.clone()));
                if socket.told.is_none() && process.rounds.active {
                    // It joins a round that is under way: the split is made again.
                    process.resplit = true;
                }
                if !told {
                    shares.add(tenant);
                    socket.crowded_out = false;
                }
                socket.told = Some(spec);
            }
        }
        if let Some(pid) = process.pid
            && !unknown_here.is_empty()
            && process.sight.may_ask(now)
        {
            unknown.entry((pid, process.netns)).or_default().append(&mut unknown_here);
        }
    }
    // What its process no longer has, and no row tells the end of.
    let mut left = Vec::new();
    for socket in monitor.sockets.iter_mut().filter(|socket| socket.row.is_none() && !claimed.contains(&socket.cookie))
    {
        left.extend(socket.process().map(|_| socket.cookie));
        out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
    }
    left.into_iter().for_each(|cookie| monitor.sockets.claim(cookie, None));
    for ((pid, netns), tuples) in unknown {
        monitor.discovery.ask(now, pid, netns, tuples);
    }
}

fn ends(process: u8, n: u8) -> (std::net::SocketAddr, std::net::SocketAddr) {
    let port = 4_000 + u16::from(process) * 100 + u16::from(n);
    (at(0, port), at(1 + usize::from(n) % 3, 9_000))
}

fn key(process: u8) -> ProcessKey {
    ProcessKey::Pid(41 + u32::from(process))
}

/// A page that names those connections whose bits are set.
fn names(process: u8, mask: u8) -> PageView {
    let named = (0..PORTS).filter(|n| mask >> n & 1 == 1).map(|n| {
        let (local, remote) = ends(process, n);
        let rank = Some(1 + u32::from(n) % 3);
        Peer { rank, kind: PeerKind::Connected, local, remote, cookie: 0, tx_bytes: 0 }
    });
    let job_id = format!("job-{process}");
    PageView { job_id, pattern: PagePattern::Unknown, peers: named.collect(), ..ring() }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The kernel has a row for a connection.
    Open(u8, u8),
    /// So does it for one between the same ends in the host's own namespace.
    Shadow(u8, u8),
    /// One of the rows ends, in one of several ways.
    End(u8, u8),
    /// A connection is found that has no row.
    Known(u8, u8),
    /// One that was to be captured was, or was not.
    Taken(u8, u8),
    /// A page names other connections.
    Names(u8, u8),
    Come(u8),
    Go(u8),
    /// Nothing happens for so many times 100 ms.
    Wait(u8),
}

fn any_op() -> impl Strategy<Value = Op> {
    let connection = || (0..PROCESSES, 0..PORTS);
    prop_oneof![
        4 => connection().prop_map(|(process, n)| Op::Open(process, n)),
        1 => connection().prop_map(|(process, n)| Op::Shadow(process, n)),
        4 => any::<(u8, u8)>().prop_map(|(which, kind)| Op::End(which, kind)),
        2 => connection().prop_map(|(process, n)| Op::Known(process, n)),
        3 => any::<(u8, u8)>().prop_map(|(which, answer)| Op::Taken(which, answer)),
        1 => (0..PROCESSES, any::<u8>()).prop_map(|(process, mask)| Op::Names(process, mask)),
        1 => (0..PROCESSES).prop_map(Op::Come),
        1 => (0..PROCESSES).prop_map(Op::Go),
        2 => (0..80_u8).prop_map(Op::Wait),
    ]
}

impl Bench {
    /// Of few flows the last one or two have to find room.
    fn crowded() -> Bench {
        let mut bench = Bench::new();
        bench.monitor.sockets = sockets::Sockets::of_host(OWN);
        bench.monitor.max_flows = 6;
        (0..PROCESSES).for_each(|process| bench.come(process));
        bench
    }

    fn come(&mut self, process: u8) {
        if self.monitor.processes.contains_key(&key(process)) {
            return;
        }
        self.process(41 + u32::from(process), names(process, 0b1111));
        let known = self.monitor.processes.get_mut(&key(process)).expect("known");
        known.uid = Some(if process + 1 == PROCESSES { 1000 } else { 0 });
        known.tenant = Tenant { uid: 0, cgroup: 1 + u64::from(process) };
    }

    /// The `n`-th operation; what follows from it alone.
    fn apply(&mut self, n: u32, time: Now, op: Op) -> Vec<Event> {
        let mut out = Vec::new();
        match op {
            Op::Open(process, n) => {
                let (local, remote) = ends(process, n);
                self.kernel.open(local, remote);
            }
            Op::Shadow(process, port) => {
                let (local, remote) = ends(process, port);
                let tuple = Tuple::of(local, remote);
                let end = |(ip, port): ([u8; 16], u16)| SocketAddrV6::new(ip.into(), port, 0, 0);
                let row = Row { index: 1_000_000 + n, generation: 1 };
                let event = SocketEvent {
                    kind: SocketEventKind::Opened,
                    row,
                    cookie: 1 << 40 | cookie(local, remote),
                    local: end(tuple.local),
                    remote: end(tuple.remote),
                    uid: 0,
                    netns: OWN.0,
                };
                let mut rows = self.kernel.rows();
                rows.stats.insert(row, FlowStats::default());
                rows.events.push(event);
            }
            Op::End(which, kind) => {
                let rows: Vec<Row> = self.kernel.rows().stats.keys().copied().collect();
                let kinds = [
                    SocketEventKind::Closed,
                    SocketEventKind::Expired,
                    SocketEventKind::Released,
                    SocketEventKind::LossGuard,
                ];
                if !rows.is_empty() {
                    self.kernel.close(rows[usize::from(which) % rows.len()], kinds[usize::from(kind) % kinds.len()]);
                }
            }
            Op::Known(process, n) => {
                let (local, remote) = ends(process, n);
                let place = Place { netns: NetNs(0), tuple: Tuple::of(local, remote) };
                let known = Known { cookie: cookie(local, remote), place, uid: 0, pid: 41 + u32::from(process) };
                self.monitor.sockets.know(time.mono, HostId::of("h0"), known);
            }
            Op::Taken(which, answer) => {
                let wanted = self.monitor.sockets.iter().filter(|socket| socket.row.is_none() && socket.told.is_some());
                let wanted: Vec<u64> = wanted.map(|socket| socket.cookie).collect();
                let answers = [Ok(()), Err(NotTaken::Gone), Err(NotTaken::TableFull), Err(NotTaken::Late)];
                if !wanted.is_empty() {
                    let cookie = wanted[usize::from(which) % wanted.len()];
                    let result = answers[usize::from(answer) % answers.len()];
                    self.monitor.taken(time.mono, &[Taking { cookie, result }], &mut out);
                }
            }
            Op::Names(process, mask) => {
                if self.monitor.processes.contains_key(&key(process)) {
                    self.update(41 + u32::from(process), |view| *view = names(process, mask));
                }
            }
            Op::Come(process) => self.come(process),
            Op::Go(process) => self.monitor.gone(key(process), &mut out),
            Op::Wait(_) => {}
        }
        out
    }

    /// One look, as [`Monitor::poll`] takes it, in which all meet all or only those that have to.
    fn look(&mut self, time: Now, edge: bool, naively: bool) -> Vec<Event> {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let kernel = self.kernel.clone();
        self.kernel.events(&mut events);
        for event in &events {
            _ = self.monitor.socket_event(time, event, &mut out);
        }
        let monitor = &mut self.monitor;
        if !naively {
            monitor.poll(time, edge, &kernel, &mut out);
            return out;
        }
        monitor.read_measurements(time, &kernel, &mut out);
        monitor.crowd.at(time.mono);
        if edge || monitor.eager {
            monitor.find_pages(time, &mut out);
        }
        monitor.read_pages(time, edge, &mut out);
        monitor.eager = false;
        monitor.find_processes(time, &mut out);
        if edge {
            monitor.look_for_dormant(time);
        }
        let asked = std::mem::take(&mut monitor.rematch) | std::mem::take(&mut monitor.matching.stirred);
        // What was touched waits for a matching, at the next edge if nothing asks for one before.
        if asked || edge && (monitor.uncaptured > 0 || monitor.sockets.has_touched()) {
            monitor.sockets.take_touched();
            match_naively(monitor, time, &mut out);
        }
        monitor.redraw(&mut out);
        monitor.rounds(time, &mut out);
        if monitor.processes.values().any(Process::lead_moved) {
            match_naively(monitor, time, &mut out);
        }
        if edge {
            monitor.sockets.forget_unclaimed();
        }
        monitor.report_progress(time, &mut out);
        out
    }

    /// What is remembered of sockets and processes.
    fn remembered(&self) -> (Vec<String>, Vec<String>, [u64; 3]) {
        let socket = |socket: &sockets::Socket| {
            let sockets::Socket { cookie, row, tenant, crowded_out, told, pid, .. } = socket;
            format!("{cookie} {row:?} {tenant:?} {crowded_out} {pid} {:?} {told:?}", socket.process())
        };
        let process = |(key, process): (&ProcessKey, &Process)| {
            format!("{key:?} {:?} {} {}", process.sight, process.resplit, process.rounds.unseen)
        };
        let monitor = &self.monitor;
        let counts = [monitor.uncaptured as u64, monitor.crowd.refused_flows, monitor.crowd.given_flows];
        (monitor.sockets.iter().map(socket).collect(), monitor.processes.iter().map(process).collect(), counts)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_meeting_of_few_is_one_of_all(ops in prop::collection::vec((any_op(), any::<bool>(), 1_u64..90), 1..120)) {
        let (mut few, mut all) = (Bench::crowded(), Bench::crowded());
        let mut ms = 0;
        for (n, (op, edge, pause)) in (0..).zip(ops) {
            ms += pause + if let Op::Wait(times) = op { u64::from(times) * 100 } else { 0 };
            let time = now(ms);
            prop_assert_eq!(few.apply(n, time, op), all.apply(n, time, op), "{}: {:?}", n, op);
            let (said, wanted) = (few.look(time, edge, false), all.look(time, edge, true));
            prop_assert_eq!(said, wanted, "{}: {:?}", n, op);
            prop_assert_eq!(few.remembered(), all.remembered(), "{}: {:?}", n, op);
        }
    }
}

#[test]
fn what_befalls_a_socket_has_those_meet_that_name_it_and_no_others() {
    const FLOWS: u16 = 500;
    let mut bench = Bench::new();
    bench.monitor.max_flows = 400;
    let peers = (0..FLOWS).map(|n| peer(1, PeerKind::Connected, 4_000 + n, 1, 5_000)).collect();
    bench.process(7, PageView { pattern: PagePattern::Unknown, peers, ..ring() });
    let rows: Vec<Row> = (0..FLOWS).map(|n| bench.kernel.open(at(0, 4_000 + n), at(1, 5_000))).collect();
    bench.poll(5);
    bench.poll(10);
    let told = bench.monitor.sockets.iter().filter(|socket| socket.told.is_some()).count();
    assert_eq!(told, 350, "the others find no room");
    // Whether there is room is looked at once more.
    bench.kernel.close(rows[FLOWS as usize - 1], SocketEventKind::Expired);
    bench.poll(15);
    let (matchings, met) = (bench.monitor.matchings, bench.monitor.matching.met);
    for (n, row) in rows.iter().take(10).enumerate() {
        bench.kernel.close(*row, SocketEventKind::Expired);
        bench.poll(20 + n as u64);
    }
    assert_eq!((bench.monitor.matchings, bench.monitor.uncaptured), (matchings, 10));
    assert_eq!(bench.monitor.matching.met, met + 10);
    for n in 1..100 {
        bench.monitor.poll(now(n * 60), true, &bench.kernel.clone(), &mut Vec::new());
    }
    assert_eq!(bench.monitor.matching.met, met + 10, "nothing comes of time alone");
    // One closes: those without a place are looked at, and one of them has it.
    bench.kernel.close(rows[20], SocketEventKind::Closed);
    assert_eq!(opened(&bench.poll(6_000)).len(), 1);
    assert!(bench.monitor.matching.met <= met + 10 + 1 + 150, "{} after {met}", bench.monitor.matching.met);
}

#[test]
fn what_comes_and_goes_and_is_nobodys_is_forgotten_with_the_next_edge() {
    let mut bench = Bench::new();
    for n in 0..50_u8 {
        let (local, remote) = ends(n, 0);
        let place = Place { netns: NetNs(0), tuple: Tuple::of(local, remote) };
        let known = Known { cookie: cookie(local, remote), place, uid: 0, pid: 9_000 };
        bench.monitor.sockets.know(now(u64::from(n) * 60).mono, HostId::of("h0"), known);
        bench.monitor.poll(now(u64::from(n) * 60), true, &bench.kernel.clone(), &mut Vec::new());
    }
    assert_eq!(bench.monitor.sockets.iter().count(), 0);
    // It came and went after the last matching.
    assert!(bench.monitor.sockets.take_touched().len() <= 2);
}
