//! A process that captures senders and holds each at a rate, as a daemon does, so that it can be killed.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluice_clock::monotonic;
use sluice_ebpf::{Feature, Kernel, Options, SocketEventKind, Tier, Wanted};
use sluice_schedule::{Nanos, Rate};

use crate::common;

/// One order's life: 3 slots of 60 ms.
pub const LIFE: Nanos = Nanos::from_millis(180);
/// How the test program is told to be such a process.
const AS_TEST: [&str; 4] = ["--ignored", "--exact", "dead_man::holder_process", "--nocapture"];

/// What the process does that [`Holder::start`] starts, until it is killed.
pub fn hold() -> ! {
    let told = |name: &str| std::env::var(name).expect("told by the test that starts it");
    common::enter(&told("HOLDER_NETNS"));
    let rate = Rate::mbps(told("HOLDER_MBPS").parse().expect("a rate"));
    let words = |name: &str| told(name).split_terminator(',').map(str::to_owned).collect::<Vec<_>>();
    let tier = |name: &String| TIERS.into_iter().find(|tier| tier.name() == name).expect("a tier");
    let options = Options {
        instance: told("HOLDER_INSTANCE"),
        release_to: Some("cubic".into()),
        floor: Rate::mbps(1),
        tiers: words("HOLDER_TIERS").iter().map(tier).collect(),
        pretend_missing: words("HOLDER_MISSING")
            .iter()
            .map(|word| word.parse::<Feature>().expect("a feature"))
            .collect(),
        ..common::options().expect("cgroup v2")
    };
    let mut opened = Kernel::open(&options).expect("the parent could");
    let mut rows = Vec::new();
    let cookies: Vec<u64> = words("HOLDER_COOKIES").iter().map(|c| c.parse().expect("a cookie")).collect();
    let nowhere = std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    let wanted = |cookie: &u64| Wanted {
        cookie: *cookie,
        local: nowhere,
        remote: nowhere,
        pid: std::process::id(),
        rate,
        expires: monotonic().plus(LIFE),
    };
    opened.datapath.capture(&cookies.iter().map(wanted).collect::<Vec<_>>());
    loop {
        let mut events = Vec::new();
        opened.datapath.events(&mut events);
        rows.extend(events.iter().filter(|e| e.kind == SocketEventKind::Opened).map(|e| e.row));
        for &row in &rows {
            let spread = Nanos(LIFE.0 / 6 * u64::from(row.index % 8) / 8);
            opened.datapath.order(row, rate, monotonic().plus(LIFE).plus(spread));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every way of enforcing there is, best first.
pub const TIERS: [Tier; 4] = [Tier::StructOps, Tier::StructOpsNoLink, Tier::SetSockOpt, Tier::None];

pub struct Holder(Child);

impl Holder {
    /// A process that captures these senders and holds each at a rate: this test program once more.
    pub fn start(net: &common::Net, options: &Options, flows: &[common::Flow], mbps: u32) -> Holder {
        Holder::of(&AS_TEST, net, options, flows, mbps)
    }

    /// The same by this program with these arguments, which have to lead to [`hold`].
    pub fn of(arguments: &[&str], net: &common::Net, options: &Options, flows: &[common::Flow], mbps: u32) -> Holder {
        let cookie = |flow: &common::Flow| sluice_ebpf::cookie(&flow.stream).expect("SO_COOKIE").to_string();
        let cookies: Vec<String> = flows.iter().map(cookie).collect();
        let tiers: Vec<&str> = options.tiers.iter().map(|tier| tier.name()).collect();
        let missing: Vec<&str> = options.pretend_missing.iter().map(|feature| feature.name()).collect();
        let child = Command::new(std::env::current_exe().expect("own path"))
            .args(arguments)
            .env("HOLDER_NETNS", &net.a)
            .env("HOLDER_INSTANCE", &options.instance)
            .env("HOLDER_COOKIES", cookies.join(","))
            .env("HOLDER_MBPS", mbps.to_string())
            .env("HOLDER_TIERS", tiers.join(","))
            .env("HOLDER_MISSING", missing.join(","))
            .stdout(Stdio::null())
            .spawn()
            .expect("start itself again");
        Holder(child)
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// It lives and has not given up.
    pub fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Is a flow held back by Sluice in any way now?
pub fn is_held(flow: &common::Flow) -> bool {
    holds(&flow.stream)
}

/// The same of a socket.
pub fn holds(stream: &TcpStream) -> bool {
    common::control(stream).starts_with("sluice") || common::ceiling(stream) < u64::from(u32::MAX)
}

/// Waits until another process has captured the flow, and some orders more.
pub fn held(flow: &common::Flow) {
    let started = Instant::now();
    while !is_held(flow) {
        assert!(started.elapsed() < Duration::from_secs(10), "never captured");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(400));
}

/// Waits until the socket is plain again; returns how long it took from `since`.
pub fn plain_after(flow: &common::Flow, since: Instant) -> Option<Duration> {
    while since.elapsed() < Duration::from_secs(5) {
        if !is_held(flow) {
            return Some(since.elapsed());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    None
}
