//! Random loss: an order is kept where ordinary congestion control gives up, and the loss guard stays quiet.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_clock::monotonic;
use sluice_ebpf::{Row, SocketEventKind};
use sluice_impairment::Dropper;
use sluice_impairment::{Relay, tun};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;

use crate::common;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 233, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 233, 0, 2);

/// A tun device in a namespace; `None`: there is none, and the test is skipped.
fn device(namespace: &str, address: Ipv4Addr) -> Option<File> {
    let made = common::in_namespace(namespace, || {
        let file = tun("tun0")?;
        for arguments in [format!("addr add {address}/24 dev tun0"), "link set tun0 up".into()] {
            let done = Command::new("ip").args(arguments.split(' ')).status().expect("ip, which made the namespace");
            assert!(done.success(), "ip {arguments}");
        }
        Ok(file)
    });
    made.map_err(|error: std::io::Error| skip!(Kernel, "/dev/net/tun: {error}")).ok()
}

/// Mbit/s of payload over one connection through the relay; orders 100 Mbit/s where it is managed.
fn goodput(net: &common::Net, kernel: &mut common::Kernelled, port: u16, control: Option<&str>) -> f64 {
    kernel.path().events(&mut Vec::new());
    let listener = net.in_b(|| TcpListener::bind((THERE, port))).expect("bind");
    let mut out = net.in_a(|| TcpStream::connect((THERE, port))).expect("connect through the relay");
    let (mut peer, _) = listener.accept().expect("accept");
    let row: Option<Row> = match control {
        None => kernel.take(net, &out),
        Some(name) => {
            setsockopt(&out, TcpCongestion, &name.into()).expect("a control that is there");
            None
        }
    };
    let end = Instant::now() + Duration::from_millis(2_500);
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut total, from) = (vec![0; 256 * 1024], 0, end - Duration::from_secs(2));
        while let Ok(n @ 1..) = peer.read(&mut buffer) {
            total += if (from..end).contains(&Instant::now()) { n } else { 0 };
        }
        total
    });
    let closer = out.try_clone().expect("dup");
    let writer = std::thread::spawn(move || while out.write_all(&[0; 65_536]).is_ok() {});
    while Instant::now() < end {
        if let Some(row) = row {
            kernel.path().order(row, Rate::mbps(100), monotonic().plus(Nanos::from_millis(180)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = closer.shutdown(std::net::Shutdown::Both);
    let _ = writer.join();
    reader.join().expect("the reader does not panic") as f64 * 8e-6 / 2.0
}

/// Mbit/s of a managed flow without and with one per cent of random loss, and of CUBIC with it.
fn under_random_loss(net: &common::Net) -> Option<[f64; 3]> {
    let port = common::port();
    let mut kernel = common::open(net, common::options()?)?;
    let start = |loss| {
        let (a, b) = (device(&net.a, HERE)?, device(&net.b, THERE)?);
        Some(Relay::start(a, b, Duration::from_millis(5), loss))
    };
    let relay = start(0.0)?;
    let without = goodput(net, &mut kernel, port, None);
    drop(relay);
    let relay = start(0.01)?;
    let with = goodput(net, &mut kernel, port, None);
    let cubic = goodput(net, &mut kernel, port + 1, Some("cubic"));
    assert!(relay.dropped() > 0);
    let counters = kernel.path().counters();
    eprintln!("without loss {without}, with it {with}, cubic with it {cubic}, {counters:?}");
    assert_eq!(counters.loss_trips, 0);
    assert!(kernel.seen.iter().all(|e| e.kind != SocketEventKind::LossGuard));
    Some([without, with, cubic])
}

/// Promises: P-6
#[test]
fn one_percent_of_random_loss_costs_little_and_trips_nothing() {
    let Some([without, with, cubic]) = common::quiet(under_random_loss) else { return };
    // Timers that are late by up to what quiet() allows cost some of it.
    assert!(with > 0.85 * without, "{with} of {without}");
    assert!(with > 5.0 * cubic, "{with} against {cubic}");
}

#[test]
fn the_dropper_drops_its_share() {
    let Some(net) = common::net() else { return };
    let result = net.in_a(|| {
        let mut dropper = Dropper::attach("eth0", 0.2)?;
        let socket = std::net::UdpSocket::bind((common::A, 0)).expect("bind");
        for _ in 0..2_000 {
            // A dropped datagram may be an error of the send.
            let _ = socket.send_to(&[0; 500], (common::B, 9));
        }
        let counts = dropper.counts();
        dropper.set(0.0)?;
        let _ = socket.send_to(&[0; 500], (common::B, 9));
        Ok::<_, sluice_impairment::DropError>((counts, dropper.counts()))
    });
    match result {
        Ok(((passed, dropped), after)) => {
            assert_eq!(passed + dropped, 2_000);
            assert!((250..550).contains(&dropped), "{dropped}");
            assert_eq!(after, (1, 0));
        }
        Err(error) => {
            skip!(Kernel, "{error}");
        }
    }
}
