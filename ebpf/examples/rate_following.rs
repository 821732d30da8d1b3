//! Measures how exactly the congestion control follows its orders, and what random loss costs it; prints one JSON
//! document. Needs root. Namespaces, pins and attachments of its own are removed at the end.
//!
//! `cargo run -p sluice-ebpf --example rate_following -- [seconds per rate]`
//!
//! Method: two namespaces joined by veth pairs (MTU 1500) and a third that routes, 64 KiB writes,
//! `tcp_tso_rtt_log = 0`; the order changes every 50 ms around the named rate (x0.5, x2, x1, x1.5); error of a step = bytes received in its last 40 ms against
//! the order, in payload. A 1 ms timer beside it measures how late this machine wakes threads; the figures of quiet
//! steps (no wake-up later than 0.5 ms during the step) stand beside those of all steps.
//! Loss: a relay between two TUN devices, 5 ms each way, order 100 Mbit/s, each congestion control in turn.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/all/common.rs"]
mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use serde_json::{Value, json};
use sluice_clock::monotonic;
use sluice_ebpf::{Options, SocketEventKind};
use sluice_impairment::{Relay, tun};
use sluice_schedule::{Nanos, Rate};

const STEP: Duration = Duration::from_millis(50);
/// The part of a step that is judged.
const JUDGED: Duration = Duration::from_millis(40);
/// A step in which a timer woke later than this says more about the machine than about the flow.
const QUIET: Duration = Duration::from_micros(500);
const PATTERN: [f64; 4] = [0.5, 2.0, 1.0, 1.5];

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(4.0_f64);
    let Some(net) = common::net() else { std::process::exit(1) };
    let mut rates = Vec::new();
    for mbps in [10_u64, 100, 500, 1000, 2000] {
        eprintln!("{mbps} Mbit/s ...");
        rates.push(follow(&net, mbps, Duration::from_secs_f64(seconds)));
    }
    let mut losses = Vec::new();
    for probability in [0.0, 0.01] {
        for control in ["sluice", "cubic", "bbr"] {
            eprintln!("loss {probability}, {control} ...");
            losses.push(lossy(&net, control, probability, Duration::from_secs_f64(seconds)));
        }
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("{:#}", json!({ "kernel": kernel.trim(), "rate_following": rates, "random_loss": losses }));
}

/// Received bytes by time.
struct Log(Vec<(Instant, u64)>);

impl Log {
    fn bytes_until(&self, at: Instant) -> f64 {
        let next = self.0.partition_point(|(t, _)| *t <= at);
        next.checked_sub(1).and_then(|i| self.0.get(i)).map_or(0.0, |(_, n)| *n as f64)
    }
}

impl Log {
    /// Bytes per second between the first and the last arrival of a window.
    fn rate_within(&self, from: Instant, to: Instant) -> Option<f64> {
        let (first, last) = (self.0.partition_point(|(t, _)| *t < from), self.0.partition_point(|(t, _)| *t <= to));
        let ((t0, n0), (t1, n1)) = (self.0.get(first)?, self.0.get(last.checked_sub(1)?)?);
        (t1 > t0).then(|| n1.saturating_sub(*n0) as f64 / (*t1 - *t0).as_secs_f64())
    }
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn follow(net: &common::Net, mbps: u64, time: Duration) -> Value {
    let port = common::port();
    let Some(options) = common::options() else { return json!({ "error": "no cgroup v2" }) };
    // Below half of the slowest order, which the usual floor would lift.
    let options = Options { floor: Rate::mbps(1), ..options };
    let Some(mut kernel) = common::open(net, options) else { return json!({ "error": "not permitted" }) };
    let listener = net.in_b(|| TcpListener::bind((common::B, port))).expect("bind");
    let mut out = net.in_a(|| TcpStream::connect((common::B, port))).expect("connect");
    let (mut peer, _) = listener.accept().expect("accept");
    let row = kernel.take(net, &out).expect("an Opened event");
    let stop = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut log, mut total) = (vec![0; 256 * 1024], Vec::new(), 0);
        while let Ok(n) = peer.read(&mut buffer) {
            if n == 0 {
                break;
            }
            total += n as u64;
            log.push((Instant::now(), total));
        }
        Log(log)
    });
    let stopping = stop.clone();
    let writer = std::thread::spawn(move || {
        let piece = vec![0; 64 * 1024];
        while !stopping.load(Ordering::Relaxed) && out.write_all(&piece).is_ok() {}
    });
    let canary = common::Canary::start();
    let start = Instant::now();
    let mut steps = Vec::new();
    for number in 0..(time.as_secs_f64() / STEP.as_secs_f64()) as u32 {
        let due = start + STEP * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let part = PATTERN.get(number as usize % PATTERN.len()).copied().unwrap_or(1.0);
        let rate = Rate::mbps(mbps).times(part);
        kernel.path().order(row, rate, monotonic().plus(Nanos::from_millis(1_000)));
        steps.push((Instant::now(), rate));
    }
    std::thread::sleep(STEP);
    steps.push((Instant::now(), Rate::ZERO));
    let late = canary.samples();
    stop.store(true, Ordering::Relaxed);
    kernel.path().order(row, Rate::MAX, monotonic().plus(Nanos::from_millis(1_000)));
    let _ = writer.join();
    let log = reader.join().expect("the reader does not panic");
    let (mut all, mut quiet) = (Errors::default(), Errors::default());
    for pair in steps.windows(2).skip(PATTERN.len()) {
        let [(begin, rate), (end, _)] = pair else { continue };
        let bytes = log.bytes_until(*end) - log.bytes_until(*end - JUDGED);
        let ordered = rate.0 as f64 / 8.0 * JUDGED.as_secs_f64();
        let rate = log.rate_within(*end - JUDGED, *end).unwrap_or_default() * JUDGED.as_secs_f64();
        all.add(bytes, rate, ordered);
        let from = late.partition_point(|(at, late)| *at + *late < *begin);
        if late.iter().skip(from).take_while(|(at, _)| at < end).all(|(_, late)| *late <= QUIET) {
            quiet.add(bytes, rate, ordered);
        }
    }
    let worst = late.iter().map(|(_, late)| *late).max().unwrap_or_default();
    json!({
        "around_mbit": mbps,
        "bar_percent": if mbps < 100 { 2.0 } else { 0.5 },
        "quiet_steps": quiet.summary(),
        "all_steps": all.summary(),
        "timer_late_worst_ms": round(worst.as_secs_f64() * 1e3),
    })
}

#[derive(Default)]
struct Errors {
    by_bins: Vec<f64>,
    by_arrivals: Vec<f64>,
    got: f64,
    wanted: f64,
}

impl Errors {
    fn add(&mut self, got: f64, by_arrivals: f64, wanted: f64) {
        self.by_bins.push((got / wanted - 1.0) * 100.0);
        self.by_arrivals.push((by_arrivals / wanted - 1.0) * 100.0);
        self.got += got;
        self.wanted += wanted;
    }

    fn summary(&self) -> Value {
        let of = |errors: &[f64]| {
            let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            json!({
                "median_abs_error_percent": round(percentile(&sizes, 0.5)),
                "p95_abs_error_percent": round(percentile(&sizes, 0.95)),
            })
        };
        json!({
            "steps": self.by_bins.len(),
            "mean_error_percent": round((self.got / self.wanted - 1.0) * 100.0),
            "by_arrivals": of(&self.by_arrivals),
            "by_bins": of(&self.by_bins),
        })
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn device(namespace: &str, address: Ipv4Addr) -> File {
    common::enter(namespace);
    let file = tun("tun0").expect("/dev/net/tun as root");
    for arguments in [format!("addr add {address}/24 dev tun0"), "link set tun0 up".into()] {
        let done = Command::new("ip").args(arguments.split(' ')).status().expect("ip");
        assert!(done.success(), "ip {arguments}");
    }
    file
}

fn lossy(net: &common::Net, control: &str, probability: f64, time: Duration) -> Value {
    let (here, there) = (Ipv4Addr::new(10, 232, 0, 1), Ipv4Addr::new(10, 232, 0, 2));
    let on_thread = |namespace: String, address| std::thread::spawn(move || device(&namespace, address)).join();
    let a = on_thread(net.a.clone(), here).expect("a device");
    let b = on_thread(net.b.clone(), there).expect("a device");
    let relay = Relay::start(a, b, Duration::from_millis(5), probability);
    let port = common::port();
    let Some(options) = common::options() else { return json!({ "error": "no cgroup v2" }) };
    let Some(mut kernel) = common::open(net, options) else { return json!({ "error": "not permitted" }) };
    let managed = control == "sluice";
    let number = if managed { port } else { port + 1 };
    let listener = net.in_b(|| TcpListener::bind((there, number))).expect("bind");
    let mut out = net
        .in_a(|| TcpStream::connect_timeout(&SocketAddr::from((there, number)), Duration::from_secs(10)))
        .expect("connect through the relay");
    let (mut peer, _) = listener.accept().expect("accept");
    let row = managed.then(|| kernel.take(net, &out)).flatten();
    if !managed {
        if setsockopt(&out, TcpCongestion, &control.into()).is_err() {
            return json!({ "control": control, "skipped": "not available" });
        }
        limit(&out, 100_000_000 / 8);
    }
    let end = Instant::now() + time + Duration::from_millis(500);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        let (mut total, from) = (0_u64, Instant::now() + Duration::from_millis(500));
        while let Ok(n) = peer.read(&mut buffer) {
            if n == 0 {
                break;
            }
            total += if Instant::now() >= from && Instant::now() < end { n as u64 } else { 0 };
        }
        total
    });
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let closer = out.try_clone().expect("dup");
    let writer = std::thread::spawn(move || {
        let piece = vec![0; 64 * 1024];
        while !stopping.load(Ordering::Relaxed) && out.write_all(&piece).is_ok() {}
    });
    while Instant::now() < end {
        if let Some(row) = row {
            kernel.path().order(row, Rate::mbps(100), monotonic().plus(Nanos::from_millis(180)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let stats = row.and_then(|row| kernel.path().stats(row));
    stop.store(true, Ordering::Relaxed);
    let _ = closer.shutdown(std::net::Shutdown::Both);
    let total = reader.join().expect("the reader does not panic");
    let _ = writer.join();
    let counters = kernel.path().counters();
    json!({
        "control": control,
        "loss": probability,
        "goodput_mbit": round(total as f64 * 8e-6 / time.as_secs_f64()),
        "packets_dropped": relay.dropped(),
        "retransmitted": stats.map(|s| s.retransmitted),
        "guard_trips": counters.loss_trips,
        "squeezes": counters.squeezes,
        "still_managed": stats.map(|_| !kernel.seen.iter().any(|e| freed(e.kind))),
    })
}

/// The other controls get the same ceiling.
fn limit(stream: &TcpStream, bytes_per_second: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: SO_MAX_PACING_RATE reads eight bytes from a live u64.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            std::ptr::from_ref(&bytes_per_second).cast(),
            8,
        )
    };
    assert_eq!(result, 0, "SO_MAX_PACING_RATE");
}

/// Has the row no owner any more after this?
fn freed(kind: SocketEventKind) -> bool {
    use SocketEventKind::{Closed, Expired, LossGuard, Released};
    matches!(kind, Closed | Expired | LossGuard | Released)
}
