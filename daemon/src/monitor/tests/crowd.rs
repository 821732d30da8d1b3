//! Many users, jobs and flows on few places, and pages of nobody's connections.

use super::*;
use crate::monitor::crowd::Crowd;
use crate::monitor::shares::Tenant;

fn closed(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::FlowClosed(_))).count()
}

/// A process of a cgroup with so many connections of which the kernel tells.
fn process_of(bench: &mut Bench, pid: u32, cgroup: u64, connections: u16) {
    let port = |n: u16| pid as u16 * 100 + n;
    let peers = (0..connections).map(|n| peer(1, PeerKind::Connected, port(n), 1, 9000 + n)).collect();
    let job = format!("job-{pid}");
    bench.process(pid, PageView { job_id: job, pattern: PagePattern::Unknown, peers, ..ring() });
    let process = bench.monitor.processes.get_mut(&ProcessKey::Pid(pid)).expect("known");
    process.tenant = Tenant { uid: 0, cgroup };
    for n in 0..connections {
        bench.kernel.open(at(0, port(n)), at(1, 9000 + n));
    }
}

#[test]
fn a_cgroup_that_was_first_gives_flows_to_one_that_has_none() {
    let mut bench = Bench::new();
    bench.monitor.max_flows = 8;
    process_of(&mut bench, 41, 1, 10);
    assert_eq!(opened(&bench.poll(5)).len(), 7, "the last eighth is for other users");
    assert_eq!(bench.monitor.crowd.refused_flows, 3);
    process_of(&mut bench, 42, 2, 2);
    let events = bench.poll(10);
    assert_eq!((closed(&events), opened(&events).len()), (2, 2), "{events:?}");
    assert_eq!((bench.monitor.crowd.given_flows, bench.monitor.crowd.refused_flows), (2, 3));
    let told = |bench: &Bench, cgroup| {
        let of = |socket: &&sockets::Socket| socket.told.is_some() && socket.tenant.cgroup == cgroup;
        bench.monitor.sockets.iter().filter(of).count()
    };
    assert_eq!((told(&bench, 1), told(&bench, 2)), (5, 2));
    // Nothing goes to and fro.
    for n in 1..20 {
        bench.monitor.rematch = true;
        let events = bench.poll(10 + n * 60);
        assert_eq!((closed(&events), opened(&events).len()), (0, 0), "{events:?}");
    }
}

#[test]
fn flows_that_find_no_room_are_not_looked_at_in_every_slot_and_get_what_comes_free() {
    let mut bench = Bench::new();
    bench.monitor.max_flows = 8;
    let port = |n: u16| 4_000 + n;
    let peers = (0..10).map(|n| peer(1, PeerKind::Connected, port(n), 1, 9_000 + n)).collect();
    bench.process(41, PageView { job_id: "a".into(), pattern: PagePattern::Unknown, peers, ..ring() });
    let rows: Vec<_> = (0..10).map(|n| bench.kernel.open(at(0, port(n)), at(1, 9_000 + n))).collect();
    assert_eq!(opened(&bench.poll(5)).len(), 7);
    let row_of = |bench: &Bench, told: bool| {
        let of = |socket: &&sockets::Socket| socket.told.is_some() == told && socket.row.is_some();
        let row = bench.monitor.sockets.iter().find(of).and_then(|socket| socket.row);
        *rows.iter().find(|known| Some(**known) == row).expect("a row")
    };
    // Those beyond have no row either, as flows that were never taken.
    for n in 0..3 {
        let row = row_of(&bench, false);
        bench.kernel.close(row, SocketEventKind::Expired);
        bench.poll(6 + n);
    }
    let slot = |bench: &mut Bench, n: u64| {
        let mut out = Vec::new();
        bench.monitor.poll(now(n * 60), true, &bench.kernel.clone(), &mut out);
        out
    };
    let before = bench.monitor.matchings;
    (1..=1_000).for_each(|n| assert!(opened(&slot(&mut bench, n)).is_empty()));
    let matchings = bench.monitor.matchings - before;
    assert!(matchings < 10, "{matchings} in 1000 slots");
    // One ends, and one of those has its place.
    let row = row_of(&bench, true);
    bench.kernel.close(row, SocketEventKind::Closed);
    assert_eq!(opened(&bench.poll(60_100)).len(), 1);
}

#[test]
fn users_with_one_job_each_find_places_beside_one_with_hundreds() {
    let mut bench = Bench::new();
    let mut next = 0;
    let mut add = |bench: &mut Bench, uid: u32| {
        next += 1;
        let process = Process::of_view(PageView { job_id: format!("job-{next}"), ..ring() }, JobSource::Env, Some(uid));
        bench.monitor.appeared(ProcessKey::Pid(1 << 24 | next), process, &mut Vec::new());
    };
    let of = |bench: &Bench, uid| bench.monitor.jobs.values().filter(|job| job.tenant.uid == uid).count();
    (0..300).for_each(|_| add(&mut bench, 1000));
    assert_eq!(of(&bench, 1000), MAX_JOBS - MAX_JOBS / 8);
    for uid in 2000..2200 {
        add(&mut bench, uid);
        assert_eq!(of(&bench, uid), 1, "{uid}");
    }
    assert_eq!((bench.monitor.jobs.len(), of(&bench, 1000)), (MAX_JOBS, MAX_JOBS - 200));
    assert!(bench.monitor.crowd.given_jobs > 0 && bench.monitor.crowd.refused_jobs > 0);
    // Every process that is still known has its job.
    assert!(bench.monitor.processes.values().all(|process| bench.monitor.jobs.contains_key(&process.job)));
}

#[test]
fn a_page_of_nobodys_connections_costs_little_and_is_heeded_once_they_exist() {
    let mut bench = Bench::new();
    bench.process(7, ring());
    let slot = |bench: &mut Bench, n: u64| {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        bench.kernel.events(&mut events);
        for event in &events {
            _ = bench.monitor.socket_event(now(n * 60), event, &mut out);
        }
        bench.monitor.poll(now(n * 60), true, &bench.kernel.clone(), &mut out);
        out
    };
    for n in 1..=1000 {
        slot(&mut bench, n);
    }
    let matchings = bench.monitor.matchings;
    assert!(matchings < 100, "{matchings} in 1000 slots");
    bench.kernel.open(at(0, 4000), at(1, 5000));
    let found: Vec<usize> = (1001..1005).map(|n| opened(&slot(&mut bench, n)).len()).collect();
    assert_eq!(found.iter().sum::<usize>(), 1, "{found:?}");
}

#[test]
fn a_new_page_makes_no_liar_honest() {
    let mut crowd = Crowd::default();
    let process = |pid| {
        let mut process = Process::of_view(ring(), JobSource::Env, Some(1000));
        process.pid = Some(pid);
        process
    };
    let mut liar = process(7);
    liar.rounds.ended = 5;
    crowd.at(Nanos::from_millis(1_000));
    crowd.keep(liar.clone());
    let mut seen = |ms, pid| {
        let mut next = process(pid);
        crowd.at(Nanos::from_millis(ms));
        crowd.remember(&mut next);
        next.rounds.ended
    };
    assert_eq!((seen(2_000, 8), seen(2_000, 7)), (0, 5), "by its pid");
    assert_eq!(seen(2_000, 7), 0, "once");
    crowd.at(Nanos::from_millis(3_000));
    crowd.keep(liar);
    let mut late = process(7);
    crowd.at(Nanos::from_millis(64_000));
    crowd.remember(&mut late);
    assert_eq!(late.rounds.ended, 0, "not for ever");
}

#[test]
fn the_hosts_own_connection_has_its_flow_whoever_took_the_same_addresses_first() {
    let (host, mut all) = (HostId::of("h0"), sockets::Sockets::of_host(tuple::NetNs(1)));
    let known = |cookie, netns| sockets::Known {
        cookie,
        place: tuple::Place { netns: tuple::NetNs(netns), tuple: tuple::Tuple::of(at(0, 4000), at(1, 5000)) },
        uid: 1000,
        pid: 7,
    };
    let carries = |all: &sockets::Sockets, cookie| {
        all.iter().any(|socket| socket.cookie == cookie && all.carries_its_flow(socket))
    };
    all.know(Nanos::ZERO, host, known(10, 2));
    assert!(carries(&all, 10));
    // A third one, which is nobody's either, takes nothing away.
    all.know(Nanos::ZERO, host, known(11, 3));
    assert!(carries(&all, 10) && !carries(&all, 11));
    all.know(Nanos::ZERO, host, known(12, 1));
    assert!(carries(&all, 12) && !carries(&all, 10));
    all.forget(10);
    assert!(carries(&all, 12));
}

#[test]
fn the_plans_of_all_jobs_together_are_bounded() {
    let mut bench = Bench::new();
    let following = |bytes| {
        let work = plans::Work::Trees(sluice_schedule::graph::PlanFlows::new(&[]));
        Following::Plan(std::sync::Arc::new(plans::JobPlan { name: "plan.json".into(), work, bytes }))
    };
    for pid in [41, 42] {
        process_of(&mut bench, pid, 1, 0);
    }
    let jobs: Vec<JobId> = bench.monitor.jobs.keys().copied().collect();
    let loaded = [(jobs[0], following(plans::MAX_KEPT - 1)), (jobs[1], following(2))];
    bench.monitor.follow(loaded.to_vec(), &mut Vec::new());
    assert!(bench.monitor.jobs[&jobs[0]].following.plan().is_some());
    let refused = bench.monitor.jobs[&jobs[1]].following.refused().expect("too much");
    assert!(refused.contains("plan.json") && refused.contains("32 MiB"), "{refused}");
    // Another one in the place of a job's own counts alone.
    bench.monitor.follow(vec![(jobs[0], following(1)), (jobs[1], following(2))], &mut Vec::new());
    assert!(jobs.iter().all(|job| bench.monitor.jobs[job].following.plan().is_some()));
}

/// Every look asks each process for its own sockets: with what grows as the square of a host's processes, orders of hundreds of
/// them would run out.
#[test]
fn eight_times_the_processes_take_about_eight_times_as_long() {
    let took = |count: u16| {
        let mut bench = Bench::new();
        for n in 1..=count {
            let peers = vec![peer(1, PeerKind::Connected, 10_000 + n, 1, 5000)];
            bench.process(n.into(), PageView { pattern: PagePattern::Unknown, peers, ..ring() });
            bench.kernel.open(at(0, 10_000 + n), at(1, 5000));
        }
        bench.poll(5);
        assert!((1..=count).all(|n| bench.monitor.sockets.of(ProcessKey::Pid(n.into())).count() == 1));
        let once = |slot: u64| {
            let began = crate::clock::thread_cpu();
            bench.monitor.rounds(now(60 * slot), &mut Vec::new());
            crate::clock::thread_cpu().minus(began)
        };
        (1..6).map(once).min().unwrap_or(Nanos::MAX)
    };
    let (few, many) = (took(100), took(800));
    assert!(many.0 < 32 * few.0, "{few:?} for 100, {many:?} for 800");
}
