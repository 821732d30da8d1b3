//! The ways behind the flows of one sender.

use super::*;

#[test]
fn ways_use_what_the_flows_say_and_no_circle() {
    // Node 0 sends 3 over switch 2 to node 1, 1 of it once round the switches 2 and 3.
    let arcs = [(0, 2), (2, 1), (2, 3), (3, 2), (1, 0)].map(|(from, to)| Arc { from, to, capacity: 4 }).to_vec();
    let graph = Graph { nodes: 4, compute: 2, weights: vec![1; 2], arcs, factor: Rational::ONE };
    let commodities = Commodities::new(&graph);
    let mut values = vec![0; commodities.variables()];
    let mut set = |kind: Kind, hop: (u32, u32), value: i64| {
        let flow =
            commodities.each().find(|(_, flow)| flow.kind == kind && flow.sender == 0 && (flow.from, flow.to) == hop);
        values[flow.expect("a variable").0] = value;
    };
    set(Kind::Broadcast, (0, 2), 3);
    set(Kind::Broadcast, (2, 1), 3);
    set(Kind::Broadcast, (2, 3), 1);
    set(Kind::Broadcast, (3, 2), 1);
    let ways = commodities.ways(Kind::Broadcast, &values);
    assert!(ways.iter().all(|way| way.nodes == [0, 2, 1]), "{ways:?}");
    assert_eq!(ways.iter().map(|way| way.units).sum::<i64>(), 3);
    assert!(commodities.ways(Kind::Reduce, &values).is_empty());
}
