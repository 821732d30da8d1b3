//! Fabrics on the real kernel: they carry what they should, route over several spines, and leave nothing behind.
//! Needs root.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{ONE_AT_A_TIME, privileged, quiet, star};
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::fabric::{Cable, Counters, Fabric, FabricSpec};

/// Moves bytes from one host to another for about `time`; payload rate as the receiver saw it.
pub fn move_bytes(fabric: &Fabric, from: usize, to: usize, time: Duration) -> f64 {
    let address = (fabric.hosts[to].address, 9_000);
    let listener = fabric.hosts[to].ns.run(move || TcpListener::bind(address)).unwrap().unwrap();
    let sender = fabric.hosts[from].ns.thread("sender", move || {
        let mut socket = TcpStream::connect(address).unwrap();
        let (data, end) = (vec![7_u8; 65_536], Instant::now() + time);
        while Instant::now() < end && socket.write_all(&data).is_ok() {}
    });
    let (mut socket, _) = listener.accept().unwrap();
    let (mut buffer, mut total, mut first) = (vec![0_u8; 262_144], 0_u64, None);
    // The first bytes arrive from a full token bucket: the clock starts after them.
    while let Ok(n @ 1..) = socket.read(&mut buffer) {
        let begin = *first.get_or_insert_with(Instant::now);
        total += if begin.elapsed() > Duration::from_millis(100) { n as u64 } else { 0 };
    }
    sender.unwrap().join().unwrap();
    total as f64 * 8.0 / (first.unwrap().elapsed().as_secs_f64() - 0.1)
}

#[test]
fn a_link_carries_its_rate_and_not_more() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    for mbps in [50, 500] {
        let fabric = Fabric::build(star(2, Rate::mbps(mbps))).unwrap();
        let payload = fabric.spec.payload(Rate::mbps(mbps)).0 as f64;
        let got = move_bytes(&fabric, 0, 1, Duration::from_millis(1_500));
        // Above is the shaping's fault; below may be a busy machine's, and is only ruled out grossly.
        assert!(got < payload * 1.02, "{mbps} Mbit/s: {:.2} of the payload rate", got / payload);
        assert!(got > payload * 0.5, "{mbps} Mbit/s: {:.2} of the payload rate", got / payload);
        println!("{mbps} Mbit/s: {:.4} of the payload rate", got / payload);
    }
}

#[test]
fn flows_spread_over_two_spines() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let cable = |a: &str, b: &str| Cable {
        a: a.into(),
        b: b.into(),
        ab: Rate::mbps(200),
        ba: Rate::mbps(200),
        queue: Bytes(250_000),
        delay: Nanos::ZERO,
        loss: 0.0,
    };
    let spec = FabricSpec {
        hosts: vec!["h0".into(), "h1".into()],
        switches: ["t0", "t1", "s0", "s1"].map(String::from).into(),
        cables: vec![
            cable("h0", "t0"),
            cable("h1", "t1"),
            cable("t0", "s0"),
            cable("t0", "s1"),
            cable("t1", "s0"),
            cable("t1", "s1"),
        ],
        ..FabricSpec::default()
    };
    let fabric = Fabric::build(spec).unwrap();
    let mut counters = Counters::open(&fabric).unwrap();
    let address = (fabric.hosts[1].address, 9_000);
    let listener = fabric.hosts[1].ns.run(move || TcpListener::bind(address)).unwrap().unwrap();
    // Ports differ, so the hash of the 4-tuple does; all of 16 flows on one spine would be 1 in 32768.
    for _ in 0..16 {
        let socket = fabric.hosts[0].ns.run(move || TcpStream::connect(address)).unwrap().unwrap();
        let (mut end, _) = listener.accept().unwrap();
        (&socket).write_all(&[1; 20_000]).unwrap();
        drop(socket);
        let mut all = Vec::new();
        end.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 20_000);
    }
    let bytes = counters.read().unwrap();
    for spine in ["t0->s0", "t0->s1"] {
        let link = (0..bytes.len()).find(|l| fabric.layout.link_name(*l) == spine).unwrap();
        assert!(bytes[link] > 20_000, "{spine} carried {} bytes", bytes[link]);
    }
}

#[test]
fn nothing_is_left_behind() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let fabric = Fabric::build(star(2, Rate::mbps(100))).unwrap();
    let jobs = fabric.cgroups.jobs(0).path().to_owned();
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg("600");
    let procs = fabric.cgroups.jobs(0).procs().unwrap();
    let mut child = fabric.hosts[0].ns.spawn(sleep, Some(procs)).unwrap();
    assert_eq!(std::fs::read_to_string(jobs.join("cgroup.procs")).unwrap(), format!("{}\n", child.id()));
    drop(fabric);
    assert!(!child.wait().unwrap().success(), "the child is killed with its namespace");
    let root = jobs.parent().unwrap();
    assert!(!root.exists(), "{} is left", root.display());
}

#[test]
fn a_lossy_cable_loses_about_what_it_should() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let mut spec = star(2, Rate::mbps(100));
    spec.cables[0].loss = 0.02;
    let fabric = Fabric::build(spec).unwrap();
    move_bytes(&fabric, 0, 1, Duration::from_millis(1_500));
    let (passed, lost) = fabric.losses.counts();
    let part = lost as f64 / (passed + lost).max(1) as f64;
    // Some thousand packets: five standard deviations are below one per cent.
    assert!(passed > 300 && (0.005..0.05).contains(&part), "{lost} of {}", passed + lost);
}

/// How long each of `count` packets takes from one host to another, 2 ms apart; sorted.
fn under_way(fabric: &Fabric, from: usize, to: usize, count: u32) -> Vec<Duration> {
    let address = (fabric.hosts[to].address, 9_001);
    let receiver = fabric.hosts[to].ns.run(move || UdpSocket::bind(address)).unwrap().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let own = (fabric.hosts[from].address, 0);
    let sender = fabric.hosts[from].ns.run(move || UdpSocket::bind(own)).unwrap().unwrap();
    let began = Instant::now();
    let sending = std::thread::spawn(move || {
        for _ in 0..count {
            sender.send_to(&(began.elapsed().as_nanos() as u64).to_ne_bytes(), address).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let mut taken = Vec::new();
    let mut sent = [0; 8];
    for _ in 0..count {
        receiver.recv(&mut sent).unwrap();
        taken.push(began.elapsed() - Duration::from_nanos(u64::from_ne_bytes(sent)));
    }
    sending.join().unwrap();
    taken.sort();
    taken
}

#[test]
fn a_cable_delays_as_long_as_it_should() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let mut spec = FabricSpec { relays: Some(Nanos::ZERO), ..star(2, Rate::mbps(100)) };
    spec.cables[0].delay = Nanos::from_millis(5);
    let fabric = Fabric::build(spec).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        // Another program that has the processor for a moment makes some packets late: then once more, five times at most.
        let in_time = (0..5).any(|_| {
            let taken = quiet(|| under_way(&fabric, from, to, 300));
            let (least, median, late) = (taken[0], taken[150], taken[296]);
            println!("{from} to {to}: {least:?} to {late:?} (p99), median {median:?}");
            let (delay, most) = (Duration::from_millis(5), Duration::from_micros(5_500));
            assert!(least >= delay && median < most, "{least:?}, {median:?}");
            late < Duration::from_millis(7)
        });
        assert!(in_time, "late in each of five tries");
    }
    let got = move_bytes(&fabric, 0, 1, Duration::from_millis(1_500));
    let payload = fabric.spec.payload(Rate::mbps(100)).0 as f64;
    println!("{:.3} of the payload rate over it", got / payload);
    assert!(got < payload * 1.02 && got > payload * 0.5, "{:.2} of the payload rate", got / payload);
}

#[test]
fn packets_take_the_route_that_is_given() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    // Three hosts in a ring: from h0 to h1 the long way, back the short one.
    let cable = |a: &str, b: &str| Cable::plain(a, b, Rate::mbps(100), Bytes(250_000));
    let spec = FabricSpec {
        hosts: vec!["h0".into(), "h1".into(), "h2".into()],
        cables: vec![cable("h0", "h1"), cable("h1", "h2"), cable("h2", "h0")],
        routes: vec![vec![5, 3], vec![1], vec![2], vec![3], vec![4], vec![5]],
        ..FabricSpec::default()
    };
    let fabric = Fabric::build(spec).unwrap();
    let mut counters = Counters::open(&fabric).unwrap();
    move_bytes(&fabric, 0, 1, Duration::from_millis(300));
    let bytes = counters.read().unwrap();
    assert!(bytes[5] > 1_000_000 && bytes[3] > 1_000_000, "{bytes:?}");
    assert!(bytes[0] < 10_000 && bytes[1] > 10_000, "{bytes:?}");
}
