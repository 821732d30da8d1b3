//! The congestion control on real TCP between own namespaces.

mod common;

use std::time::Duration;

use sluice_ebpf::clock::monotonic;
use sluice_ebpf::{SocketEventKind, Tier};
use sluice_schedule::{Nanos, Rate};

#[test]
fn a_flow_follows_its_orders() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options(port) else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    assert_eq!(kernel.path().tier(), Tier::StructOps);
    let reasons = &kernel.opened.as_ref().expect("open").reasons;
    assert!(reasons.is_empty(), "{reasons:?}");
    let flow = common::Flow::start(&net, port);
    let row = kernel.sender_row(port).expect("an Opened event");
    assert!(flow.control().starts_with("sluice"), "{}", flow.control());
    for mbps in [200, 500, 100] {
        let expires = monotonic().plus(Nanos::from_millis(5_000));
        kernel.path().order(row, Rate::mbps(mbps), expires);
        std::thread::sleep(Duration::from_millis(30));
        // The median of short windows: one in which the writer got no processor says nothing about the order.
        let canary = common::Canary::start();
        let mut windows: Vec<f64> = (0..12).map(|_| flow.rate_over(Duration::from_millis(60))).collect();
        let (p99, _) = canary.finish();
        windows.sort_by(f64::total_cmp);
        let measured = (windows[5] + windows[6]) / 2.0;
        let stats = kernel.path().stats(row).expect("a live row");
        let counters = kernel.path().counters();
        eprintln!(
            "ordered {mbps}, got {measured:.1} Mbit/s of {windows:.0?}, late by {p99:?}, {counters:?}, {stats:?}"
        );
        if p99 > Duration::from_millis(20) {
            eprintln!("skipped the figure: this machine is too busy");
            continue;
        }
        let allowed = 0.05 + p99.as_secs_f64() / 0.06;
        assert!((measured / mbps as f64 - 1.0).abs() < allowed, "ordered {mbps}, got {measured}");
        assert_eq!(stats.pacing_rate, Rate::mbps(mbps));
    }
    drop(flow);
    assert!(kernel.wait_for(|e| e.kind == SocketEventKind::Closed && e.row == row).is_some());
}
