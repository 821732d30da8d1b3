//! Which sockets are captured, who may take them away, what a start finds, and a start without privilege.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aya::maps::{Array, Map, MapData};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_clock::monotonic;
use sluice_ebpf::{ABI, Kernel, NotTaken, Options, SocketEventKind, Tier, Wanted};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;

use crate::common;

/// Promises: P-35
#[test]
fn a_socket_that_somebody_else_changed_is_let_go() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    setsockopt(&flow.stream, TcpCongestion, &"reno".into()).expect("reno is always there");
    assert!(kernel.wait_for(|e| e.kind == SocketEventKind::Closed && e.row == row).is_some());
    let again = kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(100)));
    assert_eq!((again, flow.control().as_str()), (Err(NotTaken::NotOurs), "reno"), "it was taken back");
    assert_eq!(kernel.path().counters().foreign, 1);
    assert!(flow.rate_over(Duration::from_millis(100)) > 0.0);
}

#[test]
fn only_what_is_asked_for_is_touched() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let (ours, other) = (common::Flow::start(&net, port), common::Flow::start(&net, port + 1));
    let before = (other.control(), other.ceiling());
    kernel.take(&net, &ours.stream).expect("an Opened event");
    assert!(ours.control().starts_with("sluice"));
    assert_eq!((other.control(), other.ceiling()), before);
    // A cookie that nobody has, and one that lives in another namespace.
    let wanted = common::wanted(&other.stream, Rate::mbps(1));
    let nobody = Wanted { cookie: u64::MAX, ..wanted };
    assert_eq!(kernel.try_to_take(&net, nobody), Err(NotTaken::Gone));
    let path = kernel.path();
    let elsewhere = net.in_b(|| path.capture(&[wanted]));
    assert_eq!(elsewhere.first().expect("one answer").result, Err(NotTaken::Gone));
    let twice = kernel.try_to_take(&net, common::wanted(&ours.stream, Rate::mbps(1)));
    assert_eq!(twice, Err(NotTaken::HasRow));
    assert_eq!((other.control(), other.ceiling()), before);
    assert_eq!(kernel.path().counters().captured, 2, "one more was the probe at the start");
}

/// A pass that comes late must not take what it would have to give back at once.
///
/// Promises: P-1
#[test]
fn an_order_that_has_run_out_takes_no_socket() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let (before, wanted) = (flow.control(), common::wanted(&flow.stream, Rate::mbps(100)));
    let late = Wanted { expires: monotonic().minus(Nanos::from_millis(1)), ..wanted };
    assert_eq!((kernel.try_to_take(&net, late), flow.control()), (Err(NotTaken::Late), before));
    let next = common::wanted(&flow.stream, Rate::mbps(100));
    assert_eq!(kernel.try_to_take(&net, next), Ok(()), "the next order takes it");
}

#[test]
fn whoever_chooses_the_control_by_name_gets_ordinary_tcp() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(kernel) = common::open(&net, options.clone()) else { return };
    let flow = common::Flow::start(&net, port);
    let name = options.names()[0].clone();
    // Root may choose any control; it has no order, so nothing is paced, and the next acknowledgement takes it back.
    setsockopt(&flow.stream, TcpCongestion, &name.as_str().into()).expect("root may");
    let started = Instant::now();
    while flow.control().starts_with("sluice") {
        assert!(started.elapsed() < Duration::from_secs(5), "it stayed under {}", flow.control());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(flow.rate_over(Duration::from_millis(200)) > 100.0, "held back");
    let said = other(&format!("choose {name}"));
    assert!(said.contains("refused: EPERM"), "an unprivileged process: {said}");
    drop(kernel);
}

#[test]
#[ignore = "the process that other tests start, without privilege"]
fn other_process() {
    let what = std::env::var("OTHER_PROCESS").expect("told by the test that starts it");
    if what == "unprivileged" {
        nix::unistd::setuid(65_534.into()).expect("root gives up root");
        let opened = Kernel::open(&Options::default()).expect("observing is always possible");
        println!("{} | {}", opened.tier.name(), opened.reasons.join(" | "));
        return;
    }
    // "choose NAME", without privilege.
    let name = what.strip_prefix("choose ").expect("one of the two");
    nix::unistd::setuid(65_534.into()).expect("root gives up root");
    let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    match setsockopt(&socket, TcpCongestion, &name.into()) {
        Ok(()) => println!("chosen"),
        Err(errno) => println!("refused: {errno:?}"),
    }
}

fn other(what: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .args(["--ignored", "--exact", "policy::other_process", "--nocapture"])
        .env("OTHER_PROCESS", what)
        .stderr(Stdio::inherit());
    let output = command.output().expect("start itself again");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Promises: P-27
#[test]
fn without_privilege_it_observes_and_names_the_capability() {
    if !nix::unistd::geteuid().is_root() {
        return skip!(Privilege, "needs root to give it up");
    }
    let said = other("unprivileged");
    assert!(said.contains("none | "), "{said}");
    assert!(said.contains("CAP_BPF") || said.contains("bpffs"), "{said}");
}

/// Promises: P-1
#[test]
fn sweeping_finds_idle_flows_whose_order_has_expired() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options.clone()) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(900), monotonic().plus(Nanos::from_millis(9_000)));
    flow.paused.store(true, std::sync::atomic::Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    let early = net.in_a(|| sluice_ebpf::cleanup::sweep(&options)).expect("the iterator works");
    assert_eq!(early, 0, "a live order is not touched");
    assert!(flow.control().starts_with("sluice"));
    kernel.path().order(row, Rate::mbps(900), monotonic().plus(Nanos::from_millis(100)));
    std::thread::sleep(Duration::from_millis(200));
    let late = net.in_a(|| sluice_ebpf::cleanup::sweep(&options)).expect("the iterator works");
    assert_eq!(late, 1);
    assert!(!flow.control().starts_with("sluice"));
}

/// A flow whose daemon has gone without a word. What is dropped first stands first.
struct Left {
    flow: common::Flow,
    _kernel: common::Kernelled,
    options: Options,
    port: u16,
    net: common::Net,
}

/// One that was ordered 80 Mbit/s for so long; `None`: the test is skipped.
fn left_under_an_order(lives: Nanos) -> Option<Left> {
    let net = common::net()?;
    let port = common::port();
    let options = common::options()?;
    let mut kernel = common::open(&net, options.clone())?;
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(80), monotonic().plus(lives));
    std::thread::sleep(Duration::from_millis(50));
    drop(kernel.opened.take());
    Some(Left { flow, _kernel: kernel, options, port, net })
}

/// Promises: P-23
#[test]
fn another_program_takes_the_sockets_over_under_the_other_name() {
    let Some(left) = left_under_an_order(Nanos::from_millis(4_000)) else { return };
    let Left { net, flow, options, .. } = &left;
    // As if the pins had been made by another build: its digest differs.
    let pin = options.pin_dir().join(format!("abi{ABI}")).join("sluice_cfg");
    let map = MapData::from_pin(pin).expect("pinned");
    let mut cfg: Array<_, [u64; 19]> = Array::try_from(Map::Array(map)).expect("an array");
    let mut row0 = cfg.get(&0, 0).expect("one row");
    row0[8] ^= 1;
    cfg.set(0, row0, 0).expect("written");
    let mut again = common::open(net, options.clone()).expect("it worked before");
    let names = options.names();
    assert_eq!(flow.control(), names[1]);
    let row =
        again.wait_for(|e| e.kind == SocketEventKind::Opened && e.remote.port() == left.port).expect("Opened").row;
    // The order goes with the socket.
    std::thread::sleep(Duration::from_millis(50));
    let stats = again.path().stats(row).expect("a live row");
    assert_eq!(stats.pacing_rate, Rate::mbps(80));
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("readable");
    assert!(!list.split_whitespace().any(|n| n == names[0]), "the old name stayed: {list}");
    drop(again);
}

/// As where bpffs was unmounted under a daemon: what it pinned is out of its successor's sight, and so are its orders.
#[test]
fn a_successor_that_knows_no_orders_leaves_sockets_with_theirs_until_it_has_one() {
    let Some(left) = left_under_an_order(Nanos::from_millis(6_000)) else { return };
    let Left { net, flow, options, .. } = &left;
    // Names with a dot are none there.
    let aside = std::path::PathBuf::from(format!("{}-aside", options.pin_dir().display()));
    std::fs::rename(options.pin_dir(), &aside).expect("renamed");
    let mut again = common::open(net, options.clone()).expect("it worked before");
    let names = options.names();
    assert_eq!(flow.control(), names[0], "nobody knows its order here");
    let had = flow.rate_over(Duration::from_millis(300));
    assert!(had > 60.0, "{had} of 80 Mbit/s under its last order");
    let row = again.take(net, &flow.stream).expect("an Opened event");
    again.path().order(row, Rate::mbps(50), monotonic().plus(Nanos::from_millis(2_000)));
    assert_eq!(flow.control(), names[1]);
    let has = flow.rate_over(Duration::from_millis(300));
    assert!(has > 35.0, "{has} of 50 Mbit/s, from the first moment on");
    drop(again);
    // The first one's pins are taken away as well.
    std::fs::remove_dir_all(&aside).expect("gone");
}

/// Promises: P-8
#[test]
fn the_sysctls_of_a_namespace_are_set_and_given_back() {
    let Some(net) = common::net() else { return };
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("readable");
    net.in_b(|| {
        let before = read();
        let sluice_ebpf::sysctl::Applied { changes, errors } = sluice_ebpf::sysctl::apply();
        assert!(errors.is_empty(), "{errors:?}");
        assert_ne!(read(), before);
        assert!(sluice_ebpf::sysctl::restore(&changes).is_empty());
        assert_eq!(read(), before);
    });
}

/// Promises: P-6
#[test]
fn a_small_queue_is_kept_from_overflowing_for_long() {
    let Some(net) = common::net_alone() else { return };
    if !net.limit(50, 30_000) {
        return;
    }
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let run = Duration::from_secs(4);
    let plain = {
        let flow = common::Flow::start(&net, port + 1);
        flow.rate_over(run)
    };
    kernel.path().events(&mut Vec::new());
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    let started = Instant::now();
    let before = flow.received.load(std::sync::atomic::Ordering::Relaxed);
    let mut gone = None;
    while started.elapsed() < run {
        kernel.path().order(row, Rate::mbps(400), monotonic().plus(Nanos::from_millis(180)));
        let mut out = Vec::new();
        kernel.path().events(&mut out);
        let ended = out.iter().find(|e| e.row == row && freed(e.kind));
        gone = gone.or(ended.map(|e| (e.kind, started.elapsed())));
        std::thread::sleep(Duration::from_millis(5));
    }
    let stats = kernel.path().stats(row);
    let counters = kernel.path().counters();
    let goodput = (flow.received.load(std::sync::atomic::Ordering::Relaxed) - before) as f64 * 8e-6 / run.as_secs_f64();
    eprintln!("{goodput:.1} Mbit/s, plain {plain:.1}; {gone:?} {counters:?} {stats:?} {}", flow.control());
    // Capped at what is delivered, then given back when it trips again.
    assert!(counters.loss_trips >= 1, "the guard never tripped");
    assert!(goodput > 0.7 * plain, "{goodput} against {plain}");
    assert!(gone.is_none_or(|(kind, _)| kind == SocketEventKind::LossGuard));
    if gone.is_some() {
        assert!(!flow.control().starts_with("sluice"));
        let again = kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(400)));
        assert_eq!(again, Err(NotTaken::NotOurs), "taken back before its pause was over");
    }
    assert_eq!(kernel.path().tier(), Tier::StructOps);
}

#[test]
fn native_ipv6_is_captured_with_its_addresses() {
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let connected = net.in_a(|| {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, port))?;
        let stream = TcpStream::connect((Ipv6Addr::LOCALHOST, port))?;
        Ok::<_, std::io::Error>((listener, stream))
    });
    let Ok((_listener, stream)) = connected else {
        return skip!(Kernel, "no IPv6 on loopback");
    };
    assert_eq!(kernel.try_to_take(&net, common::wanted(&stream, Rate::mbps(100))), Ok(()));
    let event = kernel.wait_for(|e| e.kind == SocketEventKind::Opened && e.remote.port() == port).expect("captured");
    assert_ne!(event.netns, 0);
    assert_eq!((event.local.ip(), event.remote.ip()), (&Ipv6Addr::LOCALHOST, &Ipv6Addr::LOCALHOST));
    assert_eq!(event.local.port(), stream.local_addr().expect("bound").port());
    assert_ne!(event.cookie, 0);
    assert_eq!(event.uid, 0);
}

/// Has the row no owner any more after this?
fn freed(kind: SocketEventKind) -> bool {
    use SocketEventKind::{Closed, Expired, LossGuard, Released};
    matches!(kind, Closed | Expired | LossGuard | Released)
}
