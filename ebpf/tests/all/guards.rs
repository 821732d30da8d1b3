//! Floor, garbage, full table, release, loss guard, and the other tiers.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_clock::monotonic;
use sluice_ebpf::{NotTaken, Options, Row, SocketEventKind, Tier};
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::common;

fn soon() -> Nanos {
    monotonic().plus(Nanos::from_millis(6_000))
}

/// Promises: P-5
#[test]
fn no_order_goes_below_the_floor_or_to_another_owner() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let options = Options { ceiling: Rate::mbps(300), ..options };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate(0), soon());
    std::thread::sleep(Duration::from_millis(100));
    // The floor.
    common::assert_paced(&net, &flow, 10.0, 0.25);
    kernel.path().order(row, Rate::MAX, soon());
    std::thread::sleep(Duration::from_millis(50));
    let stats = kernel.path().stats(row).expect("a live row");
    assert_eq!(stats.pacing_rate, Rate::mbps(300), "the ceiling");
    kernel.path().order(row, Rate::mbps(50), soon());
    std::thread::sleep(Duration::from_millis(50));
    // An order for a generation before or after, or with an impossible expiry, changes nothing.
    kernel.path().order(Row { generation: row.generation + 1, ..row }, Rate::mbps(900), soon());
    kernel.path().order(Row { index: u32::MAX, ..row }, Rate::mbps(900), soon());
    kernel.path().order(row, Rate::mbps(900), Nanos::MAX);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(kernel.path().stats(row).expect("a live row").pacing_rate, Rate::mbps(50));
}

#[test]
fn a_released_flow_has_its_earlier_control() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let plain = common::Flow::start(&net, port + 1);
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(20), soon());
    std::thread::sleep(Duration::from_millis(50));
    kernel.path().release(row);
    assert_eq!(kernel.wait(SocketEventKind::Released).expect("a Released event").row, row);
    assert_eq!(flow.control(), plain.control());
    assert!(flow.rate_over(Duration::from_millis(200)) > 100.0);
    assert!(kernel.path().stats(row).is_none_or(|s| s.updated < monotonic()));
}

/// Promises: P-28
#[test]
fn without_a_free_row_a_flow_stays_plain() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, Options { max_flows: 1, ..options }) else { return };
    let listener = net.in_b(|| TcpListener::bind((common::B, port))).expect("bind");
    let first = common::Flow::over(&net, &listener, port);
    let row = kernel.take(&net, &first.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(50), soon());
    let second = common::Flow::over(&net, &listener, port);
    let refused = kernel.try_to_take(&net, common::wanted(&second.stream, Rate::mbps(50)));
    assert_eq!(refused, Err(NotTaken::TableFull));
    assert!(!second.control().starts_with("sluice"));
    assert!(first.control().starts_with("sluice"));
    assert!(kernel.path().counters().table_full > 0);
    drop(first);
    assert!(kernel.wait(SocketEventKind::Closed).is_some());
    // Its row is free again.
    let third = common::Flow::over(&net, &listener, port);
    assert!(kernel.take(&net, &third.stream).is_some());
    drop(third);
}

/// Promises: P-28
#[test]
fn when_rows_run_short_those_of_silent_flows_are_taken_back() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let options = Options { max_flows: 1, reclaim_after: Nanos::from_millis(300), ..options };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let listener = net.in_b(|| TcpListener::bind((common::B, port))).expect("bind");
    let silent = common::Flow::over(&net, &listener, port);
    let row = kernel.take(&net, &silent.stream).expect("an Opened event");
    silent.paused.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(400));
    assert!(kernel.wait_for(|e| e.kind == SocketEventKind::Closed && e.row == row).is_some());
    let next = common::Flow::over(&net, &listener, port);
    assert!(kernel.take(&net, &next.stream).is_some(), "no row for the next flow");
    assert!(next.control().starts_with("sluice"));
    // The silent one finds out at its next send and goes on.
    silent.paused.store(false, Ordering::Relaxed);
    let before = silent.received.load(Ordering::Relaxed);
    let started = Instant::now();
    while silent.control().starts_with("sluice") && started.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!silent.control().starts_with("sluice"));
    std::thread::sleep(Duration::from_millis(50));
    assert!(silent.received.load(Ordering::Relaxed) > before);
}

#[test]
fn a_start_after_silence_is_told() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(500), soon());
    flow.paused.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    let mut out = Vec::new();
    kernel.path().events(&mut out);
    kernel.seen.clear();
    flow.paused.store(false, Ordering::Relaxed);
    let event = kernel.wait_for(|e| e.kind == SocketEventKind::Started && e.row == row);
    assert!(event.is_some());
}

#[test]
fn the_end_of_a_round_is_told_once() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let _flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &_flow.stream).expect("an Opened event");
    for round in 0..3 {
        kernel.path().order(row, Rate::mbps(100), soon());
        let mark = kernel.path().stats(row).expect("alive").acked.plus(Bytes(1 << 20));
        kernel.seen.clear();
        kernel.path().mark(row, mark);
        let finished = |e: &sluice_ebpf::SocketEvent| e.kind == SocketEventKind::Finished && e.row == row;
        assert!(kernel.wait_for(finished).is_some(), "round {round}");
        assert!(kernel.path().stats(row).expect("alive").acked >= mark);
        // Acknowledgements go on; the mark was told.
        kernel.path().order(row, Rate::mbps(100), soon());
        std::thread::sleep(Duration::from_millis(50));
        let mut more = Vec::new();
        kernel.path().events(&mut more);
        assert!(!more.iter().any(finished), "told again in round {round}");
    }
}

/// What CUBIC and a flow ordered at twice the bottleneck did one after the other: Mbit/s and retransmits of each.
fn beside_cubic_at_twice_the_bottleneck(net: &common::Net) -> Option<[(f64, u64); 2]> {
    if !net.limit(100, 250_000) {
        return None;
    }
    let port = common::port();
    // If it is given back, its new control should not add losses of its own.
    let options = Options { release_to: Some("cubic".into()), ..common::options()? };
    let mut kernel = common::open(net, options)?;
    let run = Duration::from_secs(3);
    let cubic = {
        let flow = common::Flow::start(net, port + 1);
        setsockopt(&flow.stream, TcpCongestion, &"cubic".into()).expect("cubic");
        (flow.rate_over(run), flow.retransmits())
    };
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(200), monotonic().plus(Nanos::from_millis(9_000)));
    let ours = (flow.rate_over(run), flow.retransmits());
    let counters = kernel.path().counters();
    eprintln!("cubic {cubic:?}, ordered twice the bottleneck {ours:?}, {counters:?}, {}", flow.control());
    Some([cubic, ours])
}

/// Promises: P-6
#[test]
fn an_order_of_twice_the_bottleneck_does_not_flood_it() {
    let Some([cubic, ours]) = common::quiet(beside_cubic_at_twice_the_bottleneck) else { return };
    // Without the guard it is some 9000 a second. CUBIC, which finds such a queue by its round-trip times, loses 13 to 22
    // segments; where chance has it that it loses fewer, twenty are not held against the guard.
    assert!(ours.1 <= 5 * cubic.1.max(20), "{} retransmits, cubic {}", ours.1, cubic.1);
    assert!(ours.0 > 0.85 * cubic.0, "{} against {}", ours.0, cubic.0);
}

/// Mbit/s of a flow ordered 48 of a bottleneck of 100 and of CUBIC beside it, and the first one's control at the end.
fn shared_with_cubic(net: &common::Net) -> Option<(f64, f64, String)> {
    if !net.limit(100, 250_000) {
        return None;
    }
    let port = common::port();
    let mut kernel = common::open(net, common::options()?)?;
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(48), monotonic().plus(Nanos::from_millis(9_000)));
    let cubic = common::Flow::start(net, port + 1);
    setsockopt(&cubic.stream, TcpCongestion, &"cubic".into()).expect("cubic");
    std::thread::sleep(Duration::from_millis(500));
    let before = cubic.received.load(Ordering::Relaxed);
    let ours = flow.rate_over(Duration::from_secs(3));
    let theirs = (cubic.received.load(Ordering::Relaxed) - before) as f64 * 8e-6 / 3.0;
    let counters = kernel.path().counters();
    eprintln!("ordered 48, got {ours:.1}; cubic beside it {theirs:.1} Mbit/s; {counters:?}");
    Some((ours, theirs, flow.control()))
}

/// Promises: P-14
#[test]
fn an_order_the_path_can_carry_is_kept_beside_cubic() {
    let Some((ours, theirs, control)) = common::quiet(shared_with_cubic) else { return };
    // A trip of the loss guard, when cubic overfills the queue, costs it some hundred milliseconds.
    assert!(ours > 0.5 * 48.0, "{ours}");
    assert!(theirs > 0.8 * 46.0, "{theirs}");
    assert!(control.starts_with("sluice"), "given back to plain TCP");
}

#[test]
fn a_registration_without_a_link_does_the_same() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let options = Options { tiers: vec![Tier::StructOpsNoLink], ..options };
    let Some(mut kernel) = common::open(&net, options.clone()) else { return };
    assert_eq!(kernel.path().tier(), Tier::StructOpsNoLink);
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(50), soon());
    std::thread::sleep(Duration::from_millis(50));
    common::assert_paced(&net, &flow, 50.0, 0.2);
    // A restart keeps it, cleaning up ends it.
    drop(kernel.opened.take());
    let again = common::open(&net, options.clone()).expect("it worked before");
    assert!(flow.control().starts_with("sluice"));
    drop(again);
    assert!(!listed(&options), "still registered");
}

/// Mbit/s under a ceiling of 300, and once its order has expired with nobody there.
fn under_the_ceiling_and_after(net: &common::Net) -> Option<[f64; 2]> {
    let port = common::port();
    let options = Options { tiers: vec![Tier::SetSockOpt], ..common::options()? };
    let mut kernel = common::open(net, options)?;
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    assert!(!flow.control().starts_with("sluice"));
    kernel.path().order(row, Rate::mbps(300), monotonic().plus(Nanos::from_millis(1_000)));
    std::thread::sleep(Duration::from_millis(150));
    let held = flow.rate_over(Duration::from_millis(300));
    assert_eq!(kernel.path().stats(row).expect("a live row").pacing_rate, Rate::mbps(300));
    drop(kernel.opened.take());
    std::thread::sleep(Duration::from_millis(900));
    Some([held, flow.rate_over(Duration::from_millis(500))])
}

/// Promises: P-1, P-27
#[test]
fn the_ceiling_tier_holds_and_lifts() {
    let Some([held, lifted]) = common::quiet(under_the_ceiling_and_after) else { return };
    // A ceiling, not a rate: what lies under it is the socket's own congestion control.
    assert!((101.0..330.0).contains(&held), "{held}");
    assert!(lifted > 400.0, "the ceiling stayed: {lifted}");
}

/// Promises: P-35
#[test]
fn under_the_ceiling_tier_an_application_keeps_its_own_ceiling() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let options = Options { tiers: vec![Tier::SetSockOpt], floor: Rate::mbps(1), ..options };
    let Some(mut kernel) = common::open(&net, options.clone()) else { return };
    let reasons = &kernel.opened.as_ref().expect("open").reasons;
    assert!(reasons.is_empty(), "{reasons:?}");
    // Opened before, as every connection of a job is.
    let flow = common::Flow::start(&net, port);
    let control = flow.control();
    flow.pace(&control, 200.0);
    let theirs = flow.ceiling();
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    assert_eq!(flow.ceiling(), 100_000_000 / 8, "the first order");
    kernel.path().order(row, Rate::mbps(400), soon());
    let until = |wanted: u64| {
        let started = Instant::now();
        while flow.ceiling() != wanted {
            assert!(started.elapsed() < Duration::from_secs(5), "{} and not {wanted}", flow.ceiling());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(theirs);
    kernel.path().order(row, Rate::mbps(50), soon());
    until(50_000_000 / 8);
    // While it is held the application chooses another one; it has that when it is given back.
    flow.pace(&control, 150.0);
    let theirs = flow.ceiling();
    kernel.path().order(row, Rate::mbps(60), soon());
    until(60_000_000 / 8);
    kernel.path().release(row);
    until(theirs);
    // And after a clean-up from another namespace, while it is held and nobody lifts it.
    kernel.take(&net, &flow.stream).expect("an Opened event");
    net.in_b(|| sluice_ebpf::cleanup::cleanup(&options));
    assert_eq!(flow.ceiling(), theirs);
}

fn listed(options: &Options) -> bool {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().any(|name| options.names().iter().any(|n| n == name))
}

/// Promises: P-8
#[test]
fn cleaning_up_leaves_nothing() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options.clone()) else { return };
    let flow = common::Flow::start(&net, port);
    kernel.take(&net, &flow.stream).expect("an Opened event");
    assert!(listed(&options) && options.pin_dir().exists());
    assert!(sluice_ebpf::cleanup::instances(&options.pin_root).contains(&options.instance));
    std::fs::create_dir(options.pin_dir().join("abi999")).expect("as a newer version would");
    // A daemon that still runs does not hinder it.
    let report = net.in_a(|| sluice_ebpf::cleanup::cleanup(&options));
    eprintln!("{report:?}");
    assert!(report.left.is_empty());
    assert!(!options.pin_dir().exists());
    assert!(!flow.control().starts_with("sluice"));
    drop(kernel.opened.take());
    assert!(!listed(&options), "still registered");
    let later = common::Flow::start(&net, port);
    assert!(!later.control().starts_with("sluice"), "still attached");
    let again = net.in_a(|| sluice_ebpf::cleanup::cleanup(&options));
    assert_eq!(again.done, ["nothing was pinned"]);
}
