//! Two network namespaces joined through a third one that routes, sockets in them, and cleaning up whatever happens.
//!
//! The router is there for its microseconds: over a bare veth pair the least round-trip time is 2 µs, and the kernel
//! then adds gso_max_size >> 2 to every burst even with tcp_tso_rtt_log = 0.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use sluice_ebpf::{Datapath, Kernel, NotTaken, Opened, Options, Row, SocketEvent, SocketEventKind, Tier, Wanted};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;

#[path = "quiet.rs"]
mod quiet;

pub use quiet::Canary;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Sender's and receiver's address.
pub const A: Ipv4Addr = Ipv4Addr::new(10, 231, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(10, 231, 1, 1);

/// Tests that only look at what happens run side by side; one that measures has the machine for itself.
static MACHINE: RwLock<()> = RwLock::new(());

/// A test's hold on the machine.
enum Hold {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// The namespaces; `None` where they are refused, and the test is skipped.
pub fn net() -> Option<Net> {
    Net::new(Hold::Shared { _guard: MACHINE.read().unwrap_or_else(PoisonError::into_inner) })
}

/// The same for a test that measures.
pub fn net_alone() -> Option<Net> {
    Net::new(Hold::Alone { _guard: MACHINE.write().unwrap_or_else(PoisonError::into_inner) })
}

/// Three namespaces; deleted when dropped.
pub struct Net {
    pub a: String,
    pub b: String,
    router: String,
    _hold: Hold,
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().map_err(|e| format!("ip: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Net {
    fn new(hold: Hold) -> Option<Net> {
        let id = format!("sle{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let net = Net { a: format!("{id}a"), b: format!("{id}b"), router: format!("{id}r"), _hold: hold };
        net.build().map_err(|why| skip!(Privilege, "{why}")).ok()?;
        net.in_a(sluice_ebpf::sysctl::apply);
        Some(net)
    }

    fn build(&self) -> Result<(), String> {
        let net = self;
        for name in [&net.a, &net.b, &net.router] {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        for (number, name, address) in [(0, &net.a, A), (1, &net.b, B)] {
            ip(&format!("-n {name} link add eth0 type veth peer name eth{number} netns {}", net.router))?;
            ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {} addr add 10.231.{number}.254/24 dev eth{number}", net.router))?;
            ip(&format!("-n {} link set eth{number} up", net.router))?;
            ip(&format!("-n {name} route add default via 10.231.{number}.254"))?;
        }
        in_namespace(&net.router, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
            .map_err(|e| format!("ip_forward: {e}"))
    }

    /// Runs a closure on a thread in the sender's namespace.
    pub fn in_a<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.a, f)
    }

    /// The same in the receiver's.
    pub fn in_b<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.b, f)
    }

    /// Shapes the router's egress towards the receiver with a token bucket; false: there is none, the test is skipped.
    pub fn limit(&self, mbit: u32, queue_bytes: u32) -> bool {
        let command = format!(
            "-n {} qdisc replace dev eth1 root tbf rate {mbit}mbit burst 32kb limit {queue_bytes}",
            self.router
        );
        let output = Command::new("tc").args(command.split_whitespace()).output().expect("tc, which comes with ip");
        if !output.status.success() {
            skip!(Kernel, "no tbf: {}", String::from_utf8_lossy(&output.stderr));
        }
        output.status.success()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.a));
        let _ = ip(&format!("netns del {}", self.b));
        let _ = ip(&format!("netns del {}", self.router));
    }
}

pub fn enter(name: &str) {
    let file = File::open(format!("/run/netns/{name}")).expect("the namespace exists");
    setns(file, CloneFlags::CLONE_NEWNET).expect("setns as root");
}

/// Runs a closure on a thread in a namespace.
pub fn in_namespace<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(name);
            f()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The root of the cgroup v2 tree: sockets are told apart by their port. `None`: there is none, the test is skipped.
pub fn cgroup_root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("readable");
    let found = mounts.lines().find(|l| l.split(' ').nth(2) == Some("cgroup2"));
    if found.is_none() {
        skip!(Kernel, "no cgroup v2 is mounted");
    }
    found?.split(' ').nth(1).map(PathBuf::from)
}

/// A port no other test uses.
pub fn port() -> u16 {
    20_000 + (std::process::id() % 9_000) as u16 + NUMBER.fetch_add(1, Ordering::Relaxed) as u16
}

/// Options of an instance of its own.
pub fn options() -> Option<Options> {
    let letter = NUMBER.fetch_add(1, Ordering::Relaxed) % 1000;
    Some(Options {
        instance: format!("{}{letter}", std::process::id() % 100_000),
        cgroups: vec![cgroup_root()?],
        max_flows: 64,
        tiers: vec![Tier::StructOps],
        ..Options::default()
    })
}

/// An open datapath; everything it made is removed when dropped.
pub struct Kernelled {
    pub options: Options,
    pub opened: Option<Opened>,
    pub seen: Vec<SocketEvent>,
}

/// Opens the datapath in the sender's namespace; `None`: the kernel refuses, and the test is skipped.
pub fn open(net: &Net, options: Options) -> Option<Kernelled> {
    match net.in_a(|| Kernel::open(&options)) {
        Ok(opened) => Some(Kernelled { options, opened: Some(opened), seen: Vec::new() }),
        Err(error) => {
            skip!(Kernel, "{error}");
            None
        }
    }
}

impl Kernelled {
    pub fn path(&mut self) -> &mut dyn Datapath {
        self.opened.as_mut().expect("open").datapath.as_mut()
    }

    /// Reads events until one of this kind comes; at most two seconds.
    pub fn wait(&mut self, kind: SocketEventKind) -> Option<SocketEvent> {
        self.wait_for(|e| e.kind == kind)
    }

    pub fn wait_for(&mut self, wanted: impl Fn(&SocketEvent) -> bool) -> Option<SocketEvent> {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            let mut out = Vec::new();
            self.path().events(&mut out);
            self.seen.extend(out);
            if let Some(at) = self.seen.iter().position(&wanted) {
                return Some(self.seen.remove(at));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Captures this sender, which follows 100 Mbit/s for the life of one order, and waits for its row.
    pub fn take(&mut self, net: &Net, stream: &TcpStream) -> Option<Row> {
        let wanted = wanted(stream, Rate::mbps(100));
        let taken = self.try_to_take(net, wanted);
        assert_eq!(taken, Ok(()), "not captured");
        self.wait_for(|e| e.kind == SocketEventKind::Opened && e.cookie == wanted.cookie).map(|e| e.row)
    }

    /// Asks for one socket of the sender's namespace.
    pub fn try_to_take(&mut self, net: &Net, wanted: Wanted) -> Result<(), NotTaken> {
        let path = self.path();
        let taken = net.in_a(|| path.capture(&[wanted]));
        taken.first().expect("one answer for one question").result
    }
}

impl Drop for Kernelled {
    fn drop(&mut self) {
        drop(self.opened.take());
        sluice_ebpf::cleanup::cleanup(&self.options);
    }
}

/// A sender with its first order, which lives as long as those of a daemon.
pub fn wanted(stream: &TcpStream, rate: Rate) -> Wanted {
    let end = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
        SocketAddr::V6(v6) => v6,
    };
    Wanted {
        cookie: sluice_ebpf::cookie(stream).expect("SO_COOKIE"),
        local: end(stream.local_addr().expect("bound")),
        remote: end(stream.peer_addr().expect("connected")),
        pid: std::process::id(),
        rate,
        expires: sluice_clock::monotonic().plus(Nanos::from_millis(180)),
    }
}

/// A socket's congestion control.
pub fn control(stream: &TcpStream) -> String {
    let name = getsockopt(stream, TcpCongestion).expect("TCP_CONGESTION");
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// A socket's SO_MAX_PACING_RATE, bytes per second.
pub fn ceiling(stream: &TcpStream) -> u64 {
    let (mut rate, mut length) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: SO_MAX_PACING_RATE writes at most `length` bytes to `rate`, which lives until the call returns.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(stream),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut rate).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "SO_MAX_PACING_RATE");
    rate
}

/// What the kernel says of a connection.
pub fn tcp_info(stream: &TcpStream) -> libc::tcp_info {
    use std::os::fd::AsRawFd;
    // SAFETY: tcp_info is plain integers; the kernel writes at most `len` bytes into it.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        let result = libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::from_mut(&mut info).cast(),
            &mut len,
        );
        assert_eq!(result, 0);
        info
    }
}

/// A connection over the pair with a sender that writes 64 KiB pieces for as long as it is not paused, and a receiver
/// that counts.
pub struct Flow {
    pub received: Arc<AtomicU64>,
    pub paused: Arc<AtomicBool>,
    pub stream: TcpStream,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    pub fn start(net: &Net, port: u16) -> Flow {
        let listener = net.in_b(|| TcpListener::bind((B, port))).expect("bind in an own namespace");
        Flow::over(net, &listener, port)
    }

    pub fn over(net: &Net, listener: &TcpListener, port: u16) -> Flow {
        let stream = net
            .in_a(|| TcpStream::connect_timeout(&SocketAddr::from((B, port)), Duration::from_secs(5)))
            .expect("connect over the pair");
        let (mut peer, _) = listener.accept().expect("accept");
        let (received, paused, stop) =
            (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let count = received.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            while let Ok(n) = peer.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let (mut out, pausing, stopping) = (stream.try_clone().expect("dup"), paused.clone(), stop.clone());
        let writer = std::thread::spawn(move || {
            let piece = vec![0; 64 * 1024];
            while !stopping.load(Ordering::Relaxed) {
                if pausing.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                } else if out.write_all(&piece).is_err() {
                    break;
                }
            }
        });
        Flow { received, paused, stream, stop, threads: vec![reader, writer] }
    }

    /// The congestion control of the sending socket.
    pub fn control(&self) -> String {
        control(&self.stream)
    }

    /// Retransmitted segments of the sending socket.
    pub fn retransmits(&self) -> u64 {
        u64::from(self.tcp_info().tcpi_total_retrans)
    }

    pub fn tcp_info(&self) -> libc::tcp_info {
        tcp_info(&self.stream)
    }

    /// SO_MAX_PACING_RATE of the sending socket, bytes per second.
    pub fn ceiling(&self) -> u64 {
        ceiling(&self.stream)
    }

    /// Another congestion control, paced by the kernel at so many Mbit/s.
    pub fn pace(&self, control: &str, mbps: f64) {
        setsockopt(&self.stream, TcpCongestion, &control.into()).expect("TCP_CONGESTION");
        let rate = (mbps * 125e3) as u64;
        // SAFETY: SO_MAX_PACING_RATE reads a u64 that lives until the call returns.
        let result = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&self.stream),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw const rate).cast(),
                size_of::<u64>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "SO_MAX_PACING_RATE");
    }

    /// Mbit/s received over this time.
    pub fn rate_over(&self, time: Duration) -> f64 {
        let (from, at) = (self.received.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(time);
        (self.received.load(Ordering::Relaxed) - from) as f64 * 8e-6 / at.elapsed().as_secs_f64()
    }
}

/// The median of short windows: one in which the writer got no processor says nothing about a rate.
fn median_rate(flow: &Flow) -> f64 {
    let mut windows: Vec<f64> = (0..6).map(|_| flow.rate_over(Duration::from_millis(60))).collect();
    windows.sort_by(f64::total_cmp);
    (windows[2] + windows[3]) / 2.0
}

/// Asserts that the flow keeps to a rate in Mbit/s within a part of it, or comes as near to it from below as the kernel's
/// own pacing does in the same second: where others take the processors, both come late, and only a fault of ours shows.
pub fn assert_paced(net: &Net, flow: &Flow, mbps: f64, part: f64) {
    let near = |measured: f64, wanted: f64| (measured / wanted - 1.0).abs() <= part;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let measured = median_rate(flow);
        if near(measured, mbps) {
            return;
        }
        let plain = Flow::start(net, port() + 10_000);
        plain.pace("cubic", mbps);
        std::thread::sleep(Duration::from_millis(100));
        let yardstick = median_rate(&plain);
        drop(plain);
        eprintln!("wanted {mbps} Mbit/s, got {measured:.1}; the kernel's own pacing {yardstick:.1}");
        if near(measured, yardstick) || (yardstick..mbps).contains(&measured) {
            return;
        }
        seen.push(measured);
    }
    panic!("wanted {mbps} Mbit/s, got {seen:.1?}");
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// As [`quiet::measured`], each try on a new network.
pub fn quiet<T>(measure: impl FnMut(&Net) -> Option<T>) -> Option<T> {
    quiet::measured(net_alone, measure)
}
