//! The whole data plane between two pairs of interfaces, with the kernel's part and without it.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use sluice_pipeline::frame;
use sluice_skip::skip;

use super::*;
use crate::kernel::KernelError;

/// The port of Sluice packets.
pub const UDP_PORT: u16 = 9604;

/// Runs a test in a network of its own; where that or the kernel's part is refused, the test is skipped.
pub fn alone(body: impl FnOnce() -> Result<(), KernelError> + Send) {
    let inside = || unshare(CloneFlags::CLONE_NEWNET).map(|()| body());
    // A thread has one network for good, and this one may be that of all tests.
    let done = std::thread::scope(|scope| scope.spawn(inside).join());
    match done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => skip!(Kernel, "{error}"),
        Err(error) => skip!(Privilege, "no network of its own: {error}"),
    }
}

/// Runs `ip` in the network of this thread.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().expect("ip");
    assert!(status.success(), "ip {arguments}");
}

/// A frame of UDP to this address and port, that has a checksum of IPv4.
pub fn datagram(to: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut bytes[14..34];
    (ip[0], ip[3], ip[8], ip[9]) = (0x45, 46, 64, 17);
    ip[12..16].copy_from_slice(&[10, 0, 0, 1]);
    ip[16..20].copy_from_slice(&to);
    let sum = frame::checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[36..38].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// Waits until an interface's queue takes packets: one that has just got its carrier drops them.
fn ready(interface: &str) {
    let begun = Instant::now();
    let shown = || Command::new("ip").args(["-o", "link", "show", "dev", interface]).output().expect("ip").stdout;
    while !String::from_utf8_lossy(&shown()).contains("state UP") {
        assert!(begun.elapsed() < Duration::from_secs(5), "{interface} does not come up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(socket: &PacketSocket, frame: &[u8]) {
    assert_eq!(socket.send(&[&[0; OFFLOAD][..], frame].concat()), Sent::Taken);
}

/// The next frame, if one comes within two seconds.
fn receive(socket: &PacketSocket) -> Option<Vec<u8>> {
    let (begun, mut buffer) = (Instant::now(), vec![0; FRAME]);
    while begun.elapsed() < Duration::from_secs(2) {
        if let Ok(Some(length)) = socket.receive(&mut buffer) {
            return Some(buffer[OFFLOAD..length].to_vec());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

const TABLES: &str = "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01\n";

/// A plain packet, one that may be ours, and one that goes nowhere.
fn forwards(in_kernel: bool) -> Result<(), KernelError> {
    for pair in 0..2 {
        ip(&format!("link add p{pair} type veth peer name h{pair}"));
        ip(&format!("link set p{pair} up"));
        ip(&format!("link set h{pair} up"));
    }
    ["p0", "h0", "p1", "h1"].into_iter().for_each(ready);
    let interfaces = vec!["p0".to_owned(), "p1".to_owned()];
    if in_kernel {
        // A data plane would do without it.
        drop(Kernel::open(UDP_PORT, &interfaces)?);
    }
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("s0.tables");
    std::fs::write(&tables, TABLES).unwrap();
    let slot = Nanos::from_millis(20);
    let settings = Settings { interfaces, tables, udp_port: UDP_PORT, slot, boot: 5, kernel: in_kernel };
    let mut plane = DataPlane::open(&settings).unwrap();
    let (near, far) = (PacketSocket::open("h0").unwrap(), PacketSocket::open("h1").unwrap());

    let frames = [datagram([10, 0, 1, 9], 5000), datagram([10, 0, 1, 9], UDP_PORT), datagram([10, 0, 2, 9], 5000)];
    let (stop, tally, begun) = (AtomicBool::new(false), Tally::default(), Instant::now());
    let clock = || Nanos(begun.elapsed().as_nanos() as u64);
    // Whatever fails here, it ends.
    let each_slot = || {
        stop.fetch_or(begun.elapsed() > Duration::from_secs(10), Ordering::Relaxed);
    };
    let mut arrived = Vec::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| plane.run(&stop, &tally, clock, each_slot));
        for frame in &frames[..2] {
            send(&near, frame);
            arrived.push(receive(&far));
        }
        send(&near, &frames[2]);
        while tally.read().drops.iter().all(|(_, count)| *count == 0) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    });

    let mut twin = Switch::new(UDP_PORT);
    TABLES.lines().for_each(|line| line.parse::<sluice_pipeline::control::Statement>().unwrap().apply(&mut twin));
    for (frame, arrived) in frames.iter().zip(arrived) {
        let mut expected = frame.clone();
        assert_eq!(twin.process(0, &mut expected), Verdict::Forward { port: 1, answered: false });
        assert_eq!(arrived, Some(expected));
    }
    let counted = tally.read();
    assert_eq!(counted.kernel, in_kernel);
    let port = &counted.ports[1];
    assert_eq!((port.counters.frames, port.counters.bytes, port.in_kernel), (2, 120, in_kernel.into()));
    assert_eq!((port.refused, counted.ports[0].counters.frames), (0, 0));
    assert!(counted.drops.contains(&(Reason::NoRoute, 1)), "{:?}", counted.drops);
    Ok(())
}

#[test]
fn plain_packets_pass_in_the_kernel_and_the_rest_in_the_pipeline() {
    alone(|| forwards(true));
}

#[test]
fn without_the_kernel_everything_passes_in_the_pipeline() {
    alone(|| forwards(false));
}
