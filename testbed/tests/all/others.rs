//! Other people's connections beside a job: a second user's and a service's, long and short, on a host whose daemon is
//! active. Nothing of them may change. Needs root, BPF and the built daemons.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::fail_open::plan;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::experiment::others::{self as measured, others};
use sluice_testbed::run::Policy;

const PORT: u16 = 7_777;
/// Connections that stay, and how many come and go beside them.
const LONG: usize = 100;
const SHORT: usize = 100;
const NOBODY: u32 = 65_534;
const LASTS: Duration = Duration::from_secs(4);

/// What a daemon could have changed of a socket.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    control: String,
    ceiling: u64,
    clamp: u32,
}

fn option<T: Default>(stream: &TcpStream, level: i32, name: i32) -> T {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `value`, a plain integer that lives until the call returns.
    let result = unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    assert_eq!(result, 0, "option {name}");
    value
}

fn settings(stream: &TcpStream) -> Settings {
    let control = getsockopt(stream, TcpCongestion).expect("TCP_CONGESTION").to_string_lossy().into_owned();
    let ceiling = option(stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    Settings { control, ceiling, clamp: option(stream, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) }
}

/// Accepts and swallows.
fn serve(listener: TcpListener) {
    for mut stream in listener.incoming().take(LONG + SHORT).flatten() {
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(1..) = stream.read(&mut buffer) {}
        });
    }
}

/// Every second connection is another user's. Returns the first socket of which something changed, and what.
fn connections(to: Ipv4Addr) -> Option<String> {
    let open = |n: usize| {
        let user = if n.is_multiple_of(2) { NOBODY } else { 0 };
        nix::unistd::setfsuid(user.into());
        let stream = TcpStream::connect((to, PORT)).expect("the other host listens");
        nix::unistd::setfsuid(0.into());
        stream
    };
    let mut long: Vec<TcpStream> = (0..LONG).map(open).collect();
    let at_first: Vec<Settings> = long.iter().map(settings).collect();
    let (began, mut short) = (Instant::now(), 0);
    // More than a megabyte in all on each, which makes a connection worth a look, with pauses as a job has them.
    while began.elapsed() < LASTS {
        let burst = began.elapsed().as_millis() % 400 < 200;
        for (n, (stream, before)) in long.iter_mut().zip(&at_first).enumerate() {
            if burst {
                stream.write_all(&[7; 8 << 10]).expect("it takes data");
            }
            let now = settings(stream);
            if now != *before {
                return Some(format!("long connection {n}: {before:?} became {now:?}"));
            }
        }
        if short < SHORT {
            let mut stream = open(short);
            let before = settings(&stream);
            stream.write_all(&[7; 64 << 10]).expect("it takes data");
            let now = settings(&stream);
            if now != before || before != at_first[0] {
                return Some(format!("short connection {short}: {before:?} became {now:?}"));
            }
            short += 1;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(short, SHORT, "this machine was too slow to open them all");
    None
}

/// Promises: P-14, P-35
#[test]
fn nothing_of_other_peoples_connections_changes_beside_a_job() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let (plan, place) = plan(Rate::mbps(500), 4);
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 4).unwrap();
    if let Err(error) = live.until(0, true, Duration::from_secs(10)) {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        return skip!(Kernel, "nothing is enforced here: {error}: {conditions}");
    }
    let to = live.fabric.hosts[1].address;
    let listener = live.fabric.hosts[1].ns.run(move || TcpListener::bind((to, PORT))).unwrap().expect("a port");
    std::thread::spawn(move || serve(listener));
    let (tell, told) = std::sync::mpsc::channel();
    let busy = live.fabric.hosts[0].ns.thread("others", move || {
        let _ = tell.send(connections(to));
    });
    let busy = busy.unwrap();
    while !busy.is_finished() {
        live.run_for(Duration::from_millis(100)).unwrap();
    }
    assert_eq!(told.recv().expect("the connections were watched"), None);
    let snapshot: serde_json::Value =
        serde_json::from_str(&live.daemons.get(0, "/api/v1/snapshot").expect("a snapshot")).expect("JSON");
    let flows = snapshot["flows"].as_array().expect("flows");
    assert_eq!(flows.len(), 4, "the job's, and no others: {flows:?}");
}

#[test]
fn the_experiment_measures_both_sides_of_a_pair() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let (rate, policy) = (Rate::mbps(100), "sluice".parse::<Policy>().unwrap());
    let settings = measured::Settings { rate, others_rate: None, seconds: 1, pairs: 1, long: 10, short: 5, policy };
    let result = others(&bench, &settings).unwrap();
    assert_eq!((result.pairs.len(), result.connections), (1, (10, 5)));
    for got in [result.pairs[0].with, result.pairs[0].without] {
        // What the link carries and no more; the other cable's job is not counted.
        assert!(got.long_mbps > 20.0 && got.long_mbps < 110.0 && got.short_ms > 0.0, "{got:?}");
    }
}
