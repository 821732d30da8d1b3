//! Graphs, routes, rings and the generator: what they make and what they refuse.

use sluice_planners_wan::generate::{Normal, Sizes, Workload};
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::random::Random;
use sluice_planners_wan::routes::Router;
use sluice_planners_wan::{Link, Refusal, ring, simulate};

fn zoo(name: &str) -> Graph {
    let path = format!("{}/data/{name}.graphml", env!("CARGO_MANIFEST_DIR"));
    Graph::graphml(&std::fs::read(&path).expect("the graph is there"), &path).expect("a graph")
}

#[test]
fn the_graphs_have_the_nodes_and_links_of_the_zoo() {
    for (name, nodes, edges) in [
        ("Abilene", 11, 14),
        ("Arpanet196912", 4, 4),
        ("Cesnet1993", 10, 9),
        ("Gblnet", 8, 7),
        ("HiberniaIreland", 8, 8),
        ("Napnet", 6, 7),
        ("Kdl", 754, 895),
    ] {
        let graph = zoo(name);
        assert_eq!((graph.name(), graph.nodes(), graph.edges().len()), (name, nodes, edges));
        assert!(graph.edges().is_sorted() && graph.edges().iter().all(|(a, b)| a < b));
    }
}

#[test]
fn what_is_no_graph_is_refused_with_its_line() {
    let file = |inside: &str| format!("<graphml>\n<graph edgedefault=\"undirected\">\n{inside}\n</graph>\n</graphml>");
    let node = "<node id=\"0\"/>\n<node id=\"1\"/>";
    for (text, line) in [
        ("nothing".to_owned(), None),
        (file(""), Some(0)),
        (file(node), Some(0)),
        (file(&format!("{node}\n<edge source=\"0\" target=\"7\"/>")), Some(5)),
        (file(&format!("{node}\n<node id=\"1\"/>")), Some(5)),
        (file(&format!("{node}\n<node id=\"2\"/>\n<edge source=\"0\" target=\"1\"/>")), Some(0)),
    ] {
        match Graph::graphml(text.as_bytes(), "some/where/bad.graphml") {
            Err(Refusal::BadTopology { line: found, .. }) => assert!(line.is_none_or(|line| line == found), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let looped = file(&format!(
        "{node}\n<edge source=\"0\" target=\"1\"/>\n<edge source=\"1\" target=\"0\"/>\n<edge source=\"1\" target=\"1\"/>"
    ));
    let graph = Graph::graphml(looped.as_bytes(), "loops.graphml").expect("a graph");
    assert_eq!((graph.name(), graph.edges()), ("loops", &[(0, 1)][..]));
    assert_eq!(Graph::ring(1).expect_err("no edges").code(), "BadTopology");
    assert_eq!(Graph::ring(0).expect_err("no nodes").code(), "BadTopology");
    assert_eq!(Graph::ring(usize::MAX).expect_err("too many").code(), "TooLarge");
    assert_eq!(Graph::new("far", 2, [(0, 2)]).expect_err("no such node").code(), "BadTopology");
}

#[test]
fn abilene_is_drawn_as_the_page_says() {
    let abilene = zoo("Abilene");
    let instance = Workload::new(&abilene, 2, 1).generate().expect("generated");
    let capacities: Vec<f64> = instance.links().iter().step_by(2).take(3).map(|link| link.capacity).collect();
    assert_eq!(capacities, [22.414_331_695_520_37, 16.249_831_266_575_33, 22.719_306_170_787_217]);
    let first = &instance.flows()[0];
    assert_eq!((first.from, first.to, first.size, &*first.path), (0, 10, 2.667_321_534_960_854_6, &[0, 4][..]));
    let other = &instance.flows()[24];
    assert_eq!((other.collective, other.from, other.to, other.size), (1, 7, 3, 8.540_791_007_750_679));
    let ring = |collective: usize| -> Vec<usize> {
        (0..4).map(|group| instance.flows()[24 * collective + 6 * group].from).collect()
    };
    assert_eq!((ring(0), ring(1)), (vec![0, 10, 7, 2], vec![7, 3, 5, 10]));
}

#[test]
fn fewer_collectives_are_a_beginning_of_more() {
    let abilene = zoo("Abilene");
    let make = |collectives| Workload::new(&abilene, collectives, 5).generate().expect("generated");
    let (few, many) = (make(3), make(4));
    assert_eq!((few.links(), few.flows()), (many.links(), &many.flows()[..few.flows().len()]));
}

#[test]
fn sizes_belong_to_flows_chunks_or_collectives() {
    let graph = Graph::ring(5).expect("a ring");
    for (sizes, distinct) in [(Sizes::IidFlow, 48), (Sizes::PerGroup, 8), (Sizes::PerCollective, 2)] {
        let plain = Workload { sizes, ..Workload::new(&graph, 2, 7) };
        let instance = plain.generate().expect("generated");
        let mut found: Vec<f64> = instance.flows().iter().map(|flow| flow.size).collect();
        assert!(found.iter().all(|size| *size >= 0.05));
        found.sort_by(f64::total_cmp);
        found.dedup();
        assert_eq!(found.len(), distinct, "{}", sizes.word());
        let double = Workload { scale: 2.0, ..plain }.generate().expect("generated");
        assert!(instance.flows().iter().zip(double.flows()).all(|(one, other)| other.size == 2.0 * one.size));
    }
}

#[test]
fn strict_steps_are_a_queue_at_each_sender() {
    let graph = Graph::ring(5).expect("a ring");
    let workload = Workload { strict_steps: true, ..Workload::new(&graph, 2, 7) };
    let instance = workload.generate().expect("no cycle");
    assert_eq!(instance.chains().expect_err("more than chains").code(), "NotAChain");
    assert_eq!(instance.dependencies().count(), 2 * 2 * 4 * 5);
    let outcome =
        simulate::simulate(&instance, &mut sluice_planners_wan::rules::Fill::equal(&instance)).expect("played");
    for (index, flow) in instance.flows().iter().enumerate() {
        for (other, earlier) in instance.flows().iter().enumerate() {
            let queued =
                (earlier.collective, earlier.from, earlier.order + 1) == (flow.collective, flow.from, flow.order);
            if queued {
                assert!(instance.predecessors(index).contains(&other));
                assert!(outcome.ends[other] < outcome.ends[index]);
            }
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let graph = Graph::ring(5).expect("a ring");
    let plain = Workload::new(&graph, 2, 7);
    let normal = |mean, deviation, least| Normal { mean, deviation, least };
    for (workload, code) in [
        (Workload { participants: 1, ..plain.clone() }, "BadParticipants"),
        (Workload { participants: 6, ..plain.clone() }, "BadParticipants"),
        (Workload { collectives: 0, ..plain.clone() }, "Empty"),
        (Workload { collectives: usize::MAX, ..plain.clone() }, "TooLarge"),
        (Workload { collectives: 50_000, ..plain.clone() }, "TooLarge"),
        (Workload { scale: 0.0, ..plain.clone() }, "BadSize"),
        (Workload { scale: f64::NAN, ..plain.clone() }, "BadSize"),
        (Workload { size: normal(-1e9, 1.0, 0.05), ..plain.clone() }, "BadSize"),
        (Workload { size: normal(f64::NAN, 1.0, 0.05), ..plain.clone() }, "BadSize"),
        (Workload { size: normal(5.0, 1.0, -1.0), ..plain.clone() }, "BadSize"),
        (Workload { capacity: normal(0.0, 0.0, 1.0), ..plain.clone() }, "BadCapacity"),
        (Workload { capacity: normal(5.0, f64::INFINITY, 1.0), ..plain.clone() }, "BadCapacity"),
    ] {
        assert_eq!(workload.generate().expect_err("refused").code(), code, "{workload:?}");
    }
}

#[test]
fn rings_of_impossible_participants_are_refused() {
    let links = [Link { from: 0, to: 1, capacity: 1.0 }, Link { from: 2, to: 1, capacity: 1.0 }];
    let mut router = Router::new(3, &links);
    for (participants, code) in [
        (&[0][..], "BadParticipants"),
        (&[0, 0], "BadParticipants"),
        (&[0, 3], "BadParticipants"),
        (&[0, 1, 2, 0], "BadParticipants"),
        (&[0, 1], "Unreachable"),
    ] {
        let refused = ring::expand(0, participants, 3, &mut router, |_, _| Ok(1.0)).expect_err("refused");
        assert_eq!(refused.code(), code, "{participants:?}");
    }
}

/// All simple paths from one node to another, as sequences of nodes.
fn paths(links: &[Link], at: usize, to: usize, before: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    before.push(at);
    if at == to {
        found.push(before.clone());
    } else {
        let nexts: Vec<usize> = links.iter().filter(|link| link.from == at).map(|link| link.to).collect();
        for next in nexts {
            if !before.contains(&next) {
                paths(links, next, to, before, found);
            }
        }
    }
    before.pop();
}

#[test]
fn a_route_has_the_fewest_hops_and_then_the_smallest_nodes() {
    let mut random = Random::new(3);
    for _ in 0..60 {
        let nodes = 2 + random.below(6);
        let links: Vec<Link> = (0..random.below(3 * nodes))
            .map(|_| Link { from: random.below(nodes), to: random.below(nodes), capacity: 1.0 })
            .filter(|link| link.from != link.to)
            .collect();
        let mut router = Router::new(nodes, &links);
        for src in 0..nodes {
            for dst in (0..nodes).filter(|&dst| dst != src) {
                let mut found = Vec::new();
                paths(&links, src, dst, &mut Vec::new(), &mut found);
                let best = found.into_iter().min_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
                let route = router.route(src, dst);
                match (best, route) {
                    (None, Err(refusal)) => assert_eq!(refusal, Refusal::Unreachable { src, dst }),
                    (Some(best), Ok(route)) => {
                        let went: Vec<usize> =
                            std::iter::once(src).chain(route.iter().map(|&link| links[link].to)).collect();
                        assert_eq!(went, best);
                        for link in route {
                            let same = |other: &&Link| (other.from, other.to) == (links[link].from, links[link].to);
                            assert_eq!(links.iter().find(same), links.get(link), "of parallel links the first");
                        }
                    }
                    other => panic!("{src} to {dst}: {other:?}"),
                }
            }
        }
        assert_eq!(router.route(0, 0), Ok(Vec::new()));
        assert_eq!(router.route(0, nodes).expect_err("no such node").code(), "Unreachable");
    }
}
