//! The congestion control on real TCP between own namespaces.

use std::time::Duration;

use sluice_clock::monotonic;
use sluice_ebpf::{SocketEventKind, Tier};
use sluice_schedule::{Nanos, Rate};

use crate::common;

#[test]
fn a_flow_follows_its_orders() {
    let Some(net) = common::net_alone() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    assert_eq!(kernel.path().tier(), Tier::StructOps);
    let reasons = &kernel.opened.as_ref().expect("open").reasons;
    assert!(reasons.is_empty(), "{reasons:?}");
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    assert!(flow.control().starts_with("sluice"), "{}", flow.control());
    for mbps in [200_u32, 500, 100] {
        let expires = monotonic().plus(Nanos::from_millis(9_000));
        kernel.path().order(row, Rate::mbps(mbps.into()), expires);
        std::thread::sleep(Duration::from_millis(30));
        common::assert_paced(&net, &flow, f64::from(mbps), 0.05);
        let stats = kernel.path().stats(row).expect("a live row");
        eprintln!("ordered {mbps}: {:?}, {stats:?}", kernel.path().counters());
        assert_eq!(stats.pacing_rate, Rate::mbps(mbps.into()));
    }
    drop(flow);
    assert!(kernel.wait_for(|e| e.kind == SocketEventKind::Closed && e.row == row).is_some());
}
