//! Keys of the configuration by what they change of a running switch: who reads details, how many datagrams wait, which of
//! them the data plane takes for its own, and how wrong its clock may be.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_data_plane::packet_socket::{OFFLOAD, PacketSocket, Sent};
use sluice_pipeline::frame;
use sluice_skip::skip;

use crate::lost::{become_switch, is_stopped};
use crate::support::{PATIENCE, Switch, die_with_this_thread, slot};
use crate::twin::{HOST_A, HOST_B, TABLES, probe};

/// An address of this machine that is no loopback address, in a network of a test's own.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 231, 8, 1);

fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// A switch with more keys of its table `listen`.
fn listening(keys: &str) -> Switch {
    Switch::of(&Switch::configuration("", anywhere()).replacen("[listen]\n", &format!("[listen]\n{keys}"), 1))
}

/// The status of an answer over TCP.
fn status(to: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Gives this thread a network of its own with the address [`OWN`]; false where that may not be.
fn be_alone() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        return false;
    }
    for line in ["link set lo up".to_owned(), format!("addr add {OWN}/32 dev lo")] {
        assert!(Command::new("ip").args(line.split(' ')).status().is_ok_and(|status| status.success()), "ip {line}");
    }
    true
}

#[test]
fn the_page_and_its_numbers_are_for_this_machine_unless_details_are_opened_to_all() {
    if !be_alone() {
        return skip!(Privilege, "no network namespace");
    }
    for (key, expected) in [("", 403), ("details = \"loopback\"\n", 403), ("details = \"all\"\n", 200)] {
        let text = Switch::configuration("", anywhere()).replacen("[listen]\n", &format!("[listen]\n{key}"), 1);
        let switch = Switch::of(&text.replace("http = \"127.0.0.1:0\"", "http = \"0.0.0.0:0\""));
        let port = switch.http.port();
        let (near, far) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((OWN, port)));
        for path in ["/", "/api/v1/snapshot"] {
            assert_eq!((status(near, path), status(far, path)), (200, expected), "{key:?}: {path}");
        }
        // What names no host is for everybody.
        assert_eq!((status(far, "/livez"), status(far, "/metrics")), (200, 200), "{key:?}");
    }
}

/// Datagrams that found no room at a socket of this port, as the kernel counts them.
fn dropped_at(port: u16) -> u64 {
    let (began, end) = (Instant::now(), format!(":{port:04X}"));
    loop {
        let text = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if let Some(fields) = lines.find(|fields| fields.get(1).is_some_and(|local| local.ends_with(&end))) {
            return fields.last().unwrap().parse().unwrap();
        }
        // The kernel lists them piece by piece, and leaves some out while others come and go.
        assert!(began.elapsed() < PATIENCE, "no socket at {port}");
    }
}

#[test]
fn as_many_datagrams_wait_as_the_receive_buffer_holds() {
    const SENT: u64 = 200;
    let lost = |key: &str| {
        let switch = listening(key);
        kill(Pid::from_raw(switch.pid() as i32), Signal::SIGSTOP).unwrap();
        let began = Instant::now();
        while !is_stopped(switch.pid()) {
            assert!(began.elapsed() < PATIENCE, "it does not stand still");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sender = UdpSocket::bind(anywhere()).unwrap();
        for _ in 0..SENT {
            sender.send_to(&[0xff; 200], switch.udp).unwrap();
        }
        dropped_at(switch.udp.port())
    };
    // What a datagram takes in memory is more than its bytes, and the kernel gives twice what is asked for.
    let small = lost("rcvbuf_bytes = 4096\n");
    assert!(small > SENT / 2 && small < SENT, "{small} of {SENT} found no room in 4 KiB");
    assert_eq!(lost("rcvbuf_bytes = 1048576\n"), 0);
    assert_eq!(lost(""), 0, "8 MiB by default");
}

/// By how many switches a probe to this port was taken for a packet of ours on its way through the data plane.
fn hops(near: &PacketSocket, far: &PacketSocket, port: u16) -> u8 {
    let sent = frame::datagram(HOST_A, HOST_B, port, &probe(slot()));
    let (began, mut buffer) = (Instant::now(), vec![0; 4096]);
    while began.elapsed() < PATIENCE {
        // A device that has just got its carrier loses what it is given.
        assert_eq!(near.send(&[&[0; OFFLOAD][..], &sent].concat()), Sent::Taken);
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_millis(300) {
            if let Ok(Some(length)) = far.receive(&mut buffer) {
                let arrived = &buffer[OFFLOAD..length];
                if arrived.get(36..38) == Some(&port.to_be_bytes()) {
                    return frame::packet(arrived).expect("a packet as it was sent").hops;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    panic!("nothing to port {port} is forwarded");
}

#[test]
fn the_data_plane_answers_packets_to_its_port_and_forwards_those_to_another_untouched() {
    if !become_switch() {
        return skip!(Privilege, "no network namespace");
    }
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("s0.tables");
    std::fs::write(&tables, TABLES.join("\n") + "\n").unwrap();
    let (near, far) = (PacketSocket::open("far0").unwrap(), PacketSocket::open("far1").unwrap());
    for (key, own) in [("", 9604), ("udp_port = 9700\n", 9700)] {
        for kernel in [true, false] {
            let plane = format!(
                "[data_plane]\ninterfaces = [\"p0\", \"p1\"]\ntables = {:?}\nkernel = {kernel}\n{key}",
                tables.display().to_string()
            );
            let text = Switch::configuration("", anywhere());
            let _switch = Switch::of(&text.replacen("[listen]\n", &format!("{plane}[listen]\n"), 1));
            for port in [9604, 9700] {
                let expected = u8::from(port == own);
                assert_eq!(hops(&near, &far, port), expected, "port {port}, {key:?}, kernel = {kernel}");
            }
        }
    }
}

/// What a switch says of its clock.
#[derive(Debug, PartialEq)]
struct Told {
    allowed_ms: u64,
    unsafe_: bool,
    ready: bool,
}

fn told(switch: &Switch) -> Told {
    let answer = switch.get("/api/v1/snapshot");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let snapshot: serde_json::Value = serde_json::from_str(body).unwrap();
    let conditions = snapshot["conditions"].as_array().unwrap();
    Told {
        allowed_ms: snapshot["clock"]["allowed_error_ns"].as_u64().unwrap() / 1_000_000,
        unsafe_: conditions.iter().any(|condition| condition["code"] == "clock-unsafe"),
        ready: switch.get("/readyz").contains("clock: ok\n"),
    }
}

/// Is this machine's clock as good as so many milliseconds?
fn is_good(allowed_ms: u64) -> bool {
    let kernel = sluice_clock::kernel().unwrap();
    kernel.synchronised && kernel.max_error.0 <= allowed_ms * 1_000_000
}

#[test]
fn how_wrong_the_clock_may_be_is_what_the_key_says_and_half_a_slot_otherwise() {
    for (key, allowed_ms) in [("", 100), ("clock.max_error_ms = 1\n", 1), ("clock.max_error_ms = 1000\n", 1000)] {
        for required in [true, false] {
            let text = Switch::configuration(key, anywhere());
            let asked = format!("clock.require_sync = {required}");
            let switch = Switch::of(&text.replace("clock.require_sync = false", &asked));
            // The bound grows while nobody sets the clock: one of two looks may be before, the other one after.
            let before = is_good(allowed_ms);
            let seen = told(&switch);
            if before == is_good(allowed_ms) {
                let expected = Told { allowed_ms, unsafe_: required && !before, ready: before };
                assert_eq!(seen, expected, "{key:?}, {asked}");
            }
        }
    }
}

#[test]
fn a_switch_that_shall_count_slots_by_an_offset_of_tai_that_the_kernel_has_not_says_so_and_does_not_serve() {
    let kernel = sluice_clock::kernel().unwrap().tai_offset;
    let asked = if kernel == 37 { 36 } else { 37 };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("switch.toml");
    let keys = format!("clock.source = \"tai\"\nclock.tai_offset_s = {asked}\n");
    std::fs::write(&file, Switch::configuration(&keys, anywhere())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-switch"));
    command.arg("--config").arg(&file).stdin(Stdio::null()).env_remove("NOTIFY_SOCKET");
    let output = die_with_this_thread(&mut command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("tai-offset-unset"), "{said}");
    assert!(said.contains(&format!("TAI offset is {kernel} s and clock.tai_offset_s {asked} s")), "{said}");
}
