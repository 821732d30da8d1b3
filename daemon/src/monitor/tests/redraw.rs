//! What is learned of one flow's path costs as much as that flow, however many there are.

use sluice_schedule::HolderId;

use super::*;
use crate::fabric::By;
use crate::testing::leaf_spine_site;

const FLOWS: u16 = 300;

#[test]
fn learned_routes_redraw_their_flows_and_match_nothing_again() {
    let (config, fabric) = leaf_spine_site();
    let mut bench = Bench { kernel: Fake::default(), monitor: Monitor::new(&config, fabric) };
    let peers = (0..FLOWS).map(|n| peer(1, PeerKind::Connected, 4000 + n, 1, 5000)).collect();
    bench.process(1, PageView { job_id: "a".into(), rank: Some(0), nranks: 2, peers, ..PageView::default() });
    for n in 0..FLOWS {
        bench.kernel.open(at(0, 4000 + n), at(1, 5000));
    }
    let opened = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::FlowOpened(_))).count();
    bench.poll(0);
    bench.poll(5);
    let flows: Vec<FlowSpec> = bench.monitor.sockets.iter().filter_map(|socket| socket.told.clone()).collect();
    assert_eq!(flows.len(), usize::from(FLOWS));
    let matchings = bench.monitor.matchings;
    let topology = crate::testing::leaf_spine();
    let node = |name: &str| topology.node(name).expect("there");
    let up = |spine: &str| topology.link_id(topology.between(node("l0"), node(spine))[0]);
    let leaf = HolderId::of("l0");
    // One at a time, and all the others at once.
    bench.monitor.routed(flows[0].flow, leaf, up("s1"), By::Switch);
    assert_eq!(opened(&bench.poll(10)), 1);
    for flow in &flows {
        bench.monitor.routed(flow.flow, leaf, up("s1"), By::Switch);
    }
    assert_eq!(opened(&bench.poll(15)), usize::from(FLOWS) - 1, "the first is known");
    assert!(bench.monitor.sockets.iter().all(|socket| {
        socket.told.as_ref().is_some_and(|spec| spec.path.iter().any(|hop| Some(hop.link) == up("s1")))
    }));
    assert_eq!(opened(&bench.poll(20)), 0);
    bench.monitor.routed(FlowId(1), leaf, up("s1"), By::Switch);
    assert_eq!(opened(&bench.poll(25)), 0, "a flow that nobody has");
    assert_eq!(bench.monitor.matchings, matchings, "no connection met a socket again");
}
