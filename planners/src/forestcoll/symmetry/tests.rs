//! Boxes found, ways out of them, and trees turned round all boxes.

use super::*;

/// Boxes of `gpus` GPUs on a switch each, joined by one switch, at once or through a relay per two GPUs.
fn fabric(boxes: u32, gpus: u32, relayed: bool) -> (Graph, Vec<Arc>) {
    let compute = boxes * gpus;
    let (relays, ib) = (compute + boxes, compute + boxes + if relayed { compute / 2 } else { 0 });
    let mut arcs = Vec::new();
    let mut duplex =
        |a: u32, b: u32, capacity: i64| arcs.extend([(a, b), (b, a)].map(|(from, to)| Arc { from, to, capacity }));
    for gpu in 0..compute {
        duplex(gpu, compute + gpu / gpus, 100);
        duplex(gpu, if relayed { relays + gpu / 2 } else { ib }, 8);
    }
    if relayed {
        (0..compute / 2).for_each(|relay| duplex(relays + relay, ib, 16));
    }
    arcs.sort_unstable();
    let (nodes, compute) = (ib as usize + 1, compute as usize);
    (Graph { nodes, compute, weights: vec![1; compute], arcs: arcs.clone(), factor: 1.into() }, arcs)
}

fn fits(arcs: &[Arc], trees: &[Tree]) -> bool {
    let mut left = Network::new(1 + arcs.iter().map(|arc| arc.from).max().unwrap_or(0) as usize, arcs.iter().copied());
    for hop in trees
        .iter()
        .flat_map(|tree| tree.edges.iter().flat_map(|edge| edge.path.windows(2)).map(|hop| (hop, tree.weight)))
    {
        let arc = left.find(hop.0[0], hop.0[1]).expect("a link");
        left.capacity[arc as usize] -= hop.1 as i64;
    }
    left.capacity.iter().all(|&capacity| capacity >= 0)
}

#[test]
fn boxes_are_found_without_hints_and_through_relays() {
    for relayed in [false, true] {
        let (graph, arcs) = fabric(3, 4, relayed);
        let shape = Shape::find(&graph, &[], &arcs).expect("a shape");
        assert_eq!((shape.boxes.len(), shape.compute), (3, 4));
        let mut inside = shape.inside.clone();
        let (exits, entries) = shape.ports(&mut inside, 8, 1).expect("room for 2 trees per GPU");
        assert_eq!(exits.iter().map(|port| port.units).collect::<Vec<_>>(), [2; 4]);
        assert_eq!(entries.len(), 4);
        assert!(exits.iter().all(|port| port.way.len() == 1 + usize::from(relayed)));
        // Each way takes its units off the link to the relay, once out and once in.
        let used: i64 = shape.inside.iter().zip(&inside).map(|(before, after)| before.capacity - after.capacity).sum();
        assert_eq!(used, if relayed { 16 } else { 0 });
        assert!(shape.ports(&mut shape.inside.clone(), 33, 1).is_none(), "32 ways leave a box");
    }
}

#[test]
fn hints_that_do_not_fit_do_no_harm() {
    let (graph, arcs) = fabric(3, 4, false);
    let without = Shape::find(&graph, &[], &arcs);
    let uneven: Vec<Option<u32>> = (0..12).map(|node| Some(u32::from(node > 2))).collect();
    assert_eq!(Shape::find(&graph, &uneven, &arcs), without);
    let right: Vec<Option<u32>> = (0..12).map(|node| Some(node / 4)).collect();
    assert_eq!(Shape::find(&graph, &right, &arcs), without);
}

#[test]
fn unequal_boxes_have_no_shape() {
    let (graph, mut arcs) = fabric(3, 4, false);
    assert!(Shape::find(&graph, &[], &arcs).is_some());
    arcs[0].capacity += 1;
    assert!(Shape::find(&graph, &[], &arcs).is_none());
}

#[test]
fn unequal_shares_go_the_general_way() {
    let (graph, arcs) = fabric(3, 4, false);
    let mut supply = vec![1; 12];
    assert!(trees(&graph, &[], &arcs, &supply, &Run::quiet(1)).expect("no refusal").is_some());
    supply[5] = 2;
    assert!(trees(&graph, &[], &arcs, &supply, &Run::quiet(1)).expect("no refusal").is_none());
}

#[test]
fn trees_span_all_boxes_within_all_links() {
    for (boxes, relayed, k) in [(2, false, 1), (3, true, 1), (3, false, 4), (5, true, 2), (9, false, 1)] {
        let (graph, arcs) = fabric(boxes, 4, relayed);
        let trees =
            trees(&graph, &[], &arcs, &vec![k; graph.compute], &Run::quiet(1)).expect("no refusal").expect("trees");
        assert!(fits(&arcs, &trees), "{boxes} boxes");
        assert_eq!(trees.iter().map(|tree| tree.weight as i64).sum::<i64>(), k * graph.compute as i64);
        for tree in &trees {
            let mut seen = vec![false; graph.compute];
            seen[tree.root as usize] = true;
            for edge in &tree.edges {
                assert!(seen[edge.src as usize] && !std::mem::replace(&mut seen[edge.dst as usize], true));
            }
            assert!(seen.iter().all(|seen| *seen));
        }
    }
}
