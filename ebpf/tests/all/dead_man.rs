//! What happens to flows when nobody renews their orders any more, and when somebody comes back.

use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_clock::monotonic;
use sluice_ebpf::{Options, SocketEventKind};
use sluice_schedule::{Nanos, Rate};

use crate::common;
use crate::holder::{self, Holder};

const SLOT: Duration = Duration::from_millis(60);

/// Promises: P-1
#[test]
fn an_expired_order_gives_the_flow_back() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    let canary = common::Canary::start();
    let ordered = Instant::now();
    kernel.path().order(row, Rate::mbps(100), monotonic().plus(holder::LIFE));
    // The process's side is gone; the pins keep the programs.
    drop(kernel.opened.take());
    let took = holder::plain_after(&flow, ordered).expect("given back");
    let (_, worst) = canary.finish();
    eprintln!("plain {took:?} after the last order, worst lateness {worst:?}");
    assert!(took >= Duration::from_nanos(holder::LIFE.0) - SLOT, "too early: {took:?}");
    assert!(took <= 4 * SLOT + worst, "too late: {took:?}");
    assert!(flow.rate_over(Duration::from_millis(100)) > 150.0, "still held to the old order");
}

/// Promises: P-1
#[test]
fn an_idle_flow_is_given_back_by_its_first_send() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    kernel.take(&net, &flow.stream).expect("an Opened event");
    flow.paused.store(true, std::sync::atomic::Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(400));
    flow.paused.store(false, std::sync::atomic::Ordering::Relaxed);
    holder::plain_after(&flow, Instant::now()).expect("given back");
    assert!(kernel.wait(SocketEventKind::Expired).is_some());
}

#[test]
#[ignore = "the process that other tests start and kill"]
fn holder_process() {
    holder::hold();
}

/// Promises: P-1, P-22
#[test]
fn kill_9_gives_back_and_a_restart_takes_over() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    // Proves that it works here before another process is made to.
    let Some(probe) = common::open(&net, options.clone()) else { return };
    drop(probe);
    let flows = [common::Flow::start(&net, port)];
    let flow = &flows[0];
    let mut held = Holder::start(&net, &options, &flows, 100);
    holder::held(flow);
    let canary = common::Canary::start();
    let killed = Instant::now();
    held.kill();
    let took = holder::plain_after(flow, killed).expect("given back after kill -9");
    let (_, worst) = canary.finish();
    eprintln!("plain {took:?} after kill -9, worst lateness {worst:?}");
    assert!(took <= 4 * SLOT + worst, "{took:?}");

    // The next process finds the pins, captures the flow again and is obeyed.
    let mut kernel = common::open(&net, options).expect("it worked before");
    let row = kernel.take(&net, &flow.stream).expect("an Opened event for the live socket");
    assert!(flow.control().starts_with("sluice"));
    kernel.path().order(row, Rate::mbps(50), monotonic().plus(Nanos::from_millis(5_000)));
    std::thread::sleep(Duration::from_millis(100));
    common::assert_paced(&net, flow, 50.0, 0.2);
}

/// Mbit/s of a flow while nobody is there, and once somebody has come back, within the life of one order of 80.
fn coasting_and_after(net: &common::Net) -> Option<[f64; 2]> {
    let port = common::port();
    let options = common::options()?;
    let mut kernel = common::open(net, options.clone())?;
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(80), monotonic().plus(Nanos::from_millis(4_000)));
    drop(kernel.opened.take());
    std::thread::sleep(Duration::from_millis(300));
    let coasting = flow.rate_over(Duration::from_millis(200));
    assert!(flow.control().starts_with("sluice"));
    let mut again = common::open(net, options).expect("it worked before");
    let found = again.wait_for(|e| e.kind == SocketEventKind::Opened && e.remote.port() == port).expect("Opened again");
    assert_eq!(found.row, row, "a planned restart changes no row");
    Some([coasting, flow.rate_over(Duration::from_millis(200))])
}

/// Promises: P-22
#[test]
fn a_planned_restart_keeps_the_rows() {
    let Some(rates) = common::quiet(coasting_and_after) else { return };
    // A processor that was busy elsewhere may have made the squeeze cap it at three quarters of the order, which nobody
    // renews here; twice that is 45. A plain flow has gigabits.
    assert!(rates.iter().all(|rate| (40.0..100.0).contains(rate)), "{rates:?}");
}

/// Flows that share a link of 2 Gbit/s, each ordered its share.
const TOGETHER: usize = 4;

/// Segments lost in the first second of as many ordinary flows, and in the second after the flows of a daemon that was
/// killed went back.
fn lost_after_kill_and_by_joining(net: &common::Net) -> Option<[u64; 2]> {
    if !net.limit(2_000, 1_000_000) {
        return None;
    }
    let port = common::port();
    let options = Options { release_to: Some("cubic".into()), ..common::options()? };
    drop(common::open(net, options.clone())?);
    let plain = |port| {
        let flow = common::Flow::start(net, port);
        setsockopt(&flow.stream, TcpCongestion, &"cubic".into()).expect("cubic");
        flow
    };
    let lost = |flows: &[common::Flow]| flows.iter().map(common::Flow::retransmits).sum::<u64>();
    let second = Duration::from_secs(1);
    let joining = {
        let flows: Vec<common::Flow> = (0..TOGETHER as u16).map(|n| plain(port + n)).collect();
        std::thread::sleep(second);
        lost(&flows)
    };
    let flows: Vec<common::Flow> = (10..10 + TOGETHER as u16).map(|n| common::Flow::start(net, port + n)).collect();
    let mut held = Holder::start(net, &options, &flows, 450);
    flows.iter().for_each(holder::held);
    let before = lost(&flows);
    held.kill();
    let killed = Instant::now();
    let mut ends: Vec<Duration> = flows.iter().filter_map(|flow| holder::plain_after(flow, killed)).collect();
    ends.sort();
    std::thread::sleep(second);
    let after = lost(&flows) - before;
    sluice_ebpf::cleanup::cleanup(&options);
    eprintln!("lost by joining {joining}, after kill -9 {after}; given back after {ends:?}");
    assert_eq!(ends.len(), TOGETHER);
    Some([joining, after])
}

/// Promises: P-2
#[test]
fn handing_back_at_two_gigabits_loses_no_more_than_a_flow_that_joins() {
    let Some([joining, after]) = common::quiet(lost_after_kill_and_by_joining) else { return };
    // Either way four flows find their shares of a full link; chance has it by a factor of two.
    assert!(after <= 2 * joining.max(500), "{after} against {joining}");
}
