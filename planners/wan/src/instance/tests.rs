//! What an instance refuses, in which order, and what it knows of its flows.

use super::*;
use crate::refusal::Fault;

const LINKS: [Link; 3] = [
    Link { from: 0, to: 1, capacity: 9.0 },
    Link { from: 1, to: 2, capacity: 3.0 },
    Link { from: 2, to: 0, capacity: 1.0 },
];

fn flow(collective: usize, group: usize, order: usize, path: &[usize]) -> Flow {
    let ends = |link: &usize| LINKS.get(*link).map_or((0, 0), |link| (link.from, link.to));
    Flow {
        collective,
        group,
        order,
        from: path.first().map_or(0, |link| ends(link).0),
        to: path.last().map_or(1, |link| ends(link).1),
        size: 6.0,
        path: path.to_vec(),
        release: 0.0,
    }
}

fn made(flows: Vec<Flow>) -> Result<Instance, Refusal> {
    Instance::new("tried", 3, LINKS.to_vec(), flows, None)
}

fn with_deps(flows: Vec<Flow>, deps: &[(usize, usize)]) -> Result<Instance, Refusal> {
    Instance::new("tried", 3, LINKS.to_vec(), flows, Some(deps.to_vec()))
}

#[track_caller]
fn refused(result: Result<Instance, Refusal>, expected: Refusal) {
    assert_eq!(result.expect_err("refused").to_string(), expected.to_string());
}

#[test]
fn nothing_at_all_and_a_collective_without_flows() {
    refused(made(vec![]), Refusal::NoFlows);
    let gap = vec![flow(0, 0, 0, &[0]), flow(2, 0, 0, &[0])];
    refused(made(gap), Refusal::EmptyCollective { collective: 1 });
    refused(made(vec![flow(usize::MAX, 0, 0, &[0])]), Refusal::EmptyCollective { collective: 0 });
}

#[test]
fn sizes_releases_and_capacities_that_are_none() {
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let bad = Flow { size, ..flow(0, 0, 1, &[1]) };
        refused(made(vec![flow(0, 0, 0, &[0]), bad]), Refusal::BadSize { flow: 1, size });
    }
    for release in [-1.0, f64::NAN, f64::INFINITY, 1e101] {
        let bad = Flow { release, ..flow(0, 0, 0, &[1]) };
        refused(made(vec![bad]), Refusal::BadRelease { flow: 0, release });
    }
    for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let links = vec![LINKS[0], Link { capacity, ..LINKS[1] }];
        let result = Instance::new("tried", 3, links, vec![flow(0, 0, 0, &[0])], None);
        refused(result, Refusal::BadCapacity { link: 1, capacity });
    }
}

#[test]
fn routes_that_lead_nowhere_or_astray() {
    let bad = |fault| Refusal::BadRoute { flow: 0, fault };
    let route = |from, to, path: &[usize]| made(vec![Flow { from, to, ..flow(0, 0, 0, path) }]);
    refused(route(0, 1, &[]), bad(Fault::Empty));
    refused(route(0, 1, &[7]), bad(Fault::UnknownLink { link: 7, links: 3 }));
    refused(route(0, 1, &[usize::MAX]), bad(Fault::UnknownLink { link: usize::MAX, links: 3 }));
    refused(route(0, 2, &[1]), bad(Fault::Start { node: 1 }));
    refused(route(0, 2, &[0, 2]), bad(Fault::Broken { link: 2 }));
    refused(route(0, 2, &[0]), bad(Fault::End { node: 1 }));
    refused(route(0, 1, &[0, 1, 2]), bad(Fault::Repeated { node: 0 }));
    refused(route(0, 9, &[0]), bad(Fault::UnknownNode { node: 9, nodes: 3 }));
    refused(route(1, 1, &[1]), Refusal::SelfFlow { flow: 0, node: 1 });
    let links = vec![Link { to: 3, ..LINKS[0] }];
    let result = Instance::new("tried", 3, links, vec![flow(0, 0, 0, &[0])], None);
    refused(result, Refusal::BadLink { link: 0, fault: Fault::UnknownNode { node: 3, nodes: 3 } });
}

#[test]
fn groups_and_orders_with_gaps() {
    let gap = made(vec![flow(0, 0, 0, &[0]), flow(0, 2, 0, &[0])]);
    refused(gap, Refusal::GapInIds { what: "group", id: 1, count: 2 });
    let not_a_chain = |what| Refusal::NotAChain { collective: 0, group: 0, what };
    refused(made(vec![flow(0, 0, 0, &[0]), flow(0, 0, 2, &[1])]), not_a_chain("an order is missing"));
    refused(made(vec![flow(0, 0, 0, &[0]), flow(0, 0, 0, &[1])]), not_a_chain("two flows have the same order"));
}

#[test]
fn dependencies_that_are_named() {
    let two = || vec![flow(0, 0, 0, &[0]), flow(0, 0, 1, &[1])];
    refused(with_deps(two(), &[(0, 2)]), Refusal::GapInIds { what: "flow", id: 2, count: 2 });
    refused(with_deps(two(), &[(0, 0)]), Refusal::Cycle { flow: 0 });
    let three = || [two(), vec![flow(1, 0, 0, &[0])]].concat();
    // What stands behind a circle is not named for it.
    let circle = with_deps(three(), &[(1, 2), (2, 1), (1, 0)]).expect_err("a circle");
    assert!(matches!(circle, Refusal::Cycle { flow: 1 | 2 }), "{circle}");
    let chains = with_deps(three(), &[(0, 1), (0, 1)]).expect("legal");
    assert_eq!(chains.chains(), Ok(()));
    assert_eq!(chains.dependencies().collect::<Vec<_>>(), [(0, 1)]);
    for (deps, collective) in [(&[(0, 1), (1, 2)][..], 1), (&[], 0)] {
        let legal = with_deps(three(), deps).expect("legal for the simulator");
        let refused = legal.chains().expect_err("no chains");
        assert!(matches!(refused, Refusal::NotAChain { collective: k, group: 0, .. } if k == collective), "{refused}");
    }
    let same_order = vec![flow(0, 0, 0, &[0]), flow(0, 0, 0, &[1])];
    assert_eq!(with_deps(same_order, &[]).expect("legal").chains().expect_err("no chain").code(), "NotAChain");
}

#[test]
fn numbers_too_far_apart_and_too_many_of_them() {
    let sizes = |small, large| {
        made(vec![Flow { size: small, ..flow(0, 0, 0, &[0]) }, Flow { size: large, ..flow(0, 0, 1, &[1]) }])
    };
    assert!(sizes(1.0, 1e9).is_ok());
    refused(sizes(1.0, 1.1e9), Refusal::Range { what: "sizes", least: 1.0, largest: 1.1e9 });
    refused(sizes(1e-101, 1e-100), Refusal::Range { what: "sizes", least: 1e-101, largest: 1e-100 });
    let links = vec![LINKS[0], Link { capacity: 1e-9, ..LINKS[1] }];
    let result = Instance::new("tried", 3, links, vec![flow(0, 0, 0, &[0])], None);
    refused(result, Refusal::Range { what: "capacities", least: 1e-9, largest: 9.0 });
    for (what, nodes, links, flows) in
        [("nodes", MAX_NODES + 1, 1, 1), ("links", 3, MAX_LINKS + 1, 1), ("flows", 3, 1, MAX_FLOWS + 1)]
    {
        let result = Instance::new("many", nodes, vec![LINKS[0]; links], vec![flow(0, 0, 0, &[]); flows], None);
        assert!(matches!(result, Err(Refusal::TooLarge { what: found, .. }) if found == what));
    }
}

#[test]
fn what_an_instance_knows() {
    let flows = vec![
        flow(1, 0, 1, &[2]),
        flow(1, 0, 0, &[0, 1]),
        flow(0, 1, 0, &[1, 2]),
        flow(0, 0, 0, &[1]),
        flow(1, 0, 2, &[0, 1]),
    ];
    let instance = made(flows).expect("legal");
    assert_eq!((instance.name(), instance.nodes(), instance.collectives()), ("tried", 3, 2));
    let groups: Vec<_> = instance.groups().iter().map(|group| (group.collective, group.local, &*group.flows)).collect();
    assert_eq!(groups, [(0, 0, &[3][..]), (0, 1, &[2]), (1, 0, &[1, 0, 4])]);
    assert_eq!((0..5).map(|flow| instance.group_of(flow)).collect::<Vec<_>>(), [2, 2, 1, 0, 2]);
    assert_eq!((instance.groups_of(0), instance.groups_of(1), instance.groups_of(2)), (0..2, 2..3, 0..0));
    assert_eq!(instance.groups_of(usize::MAX), 0..0);
    assert_eq!((instance.predecessors(0), instance.successors(0)), (&[1][..], &[4][..]));
    assert_eq!((instance.predecessors(99), instance.groups_on(99)), (&[][..], &[][..]));
    assert_eq!((instance.groups_on(0), instance.groups_on(1)), (&[2][..], &[0, 1, 2][..]));
    assert_eq!(instance.flows_on(1), [1, 2, 3, 4]);
    assert_eq!((instance.alone(1), instance.alone(2), instance.duration(1)), (3.0, 1.0, 2.0));
    assert_eq!((instance.volume_of(0), instance.volume_of(1)), (12.0, 18.0));
    let segments: Vec<_> =
        instance.segments().into_iter().map(|one| (one.group, one.size, one.path, one.flows)).collect();
    let expected = [
        (0, 6.0, vec![1], vec![3]),
        (1, 6.0, vec![1, 2], vec![2]),
        (2, 12.0, vec![0, 1], vec![1, 4]),
        (2, 6.0, vec![2], vec![0]),
    ];
    assert_eq!(segments, expected);
}
