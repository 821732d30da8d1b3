use super::*;
use sluice_formats::quantity::Rational;

const NET: &str = r#"{"sluice_topology": 1, "name": "three",
 "nodes": [{"id": "a", "kind": "site"}, {"id": "b", "kind": "site"}, {"id": "c", "kind": "site"}],
 "links": [{"from": "a", "to": "b", "capacity": "1/3 GB/s", "duplex": true, "count": 2},
           {"from": "b", "to": "c", "capacity": "8Mbit/s", "duplex": true}]}"#;

/// Flows of one group each: ends, and links.
fn flows(list: &[(&str, &str, &[u32])]) -> Wanted {
    let flow = |(id, (src, dst, path)): (usize, &(&str, &str, &[u32]))| {
        format!(
            r#"{{"id": {id}, "collective": 0, "group": {id}, "order": 0, "src": "{src}", "dst": "{dst}", "size": "1500kB", "path": {path:?}}}"#
        )
    };
    let list: Vec<String> = list.iter().enumerate().map(flow).collect();
    let text = format!(r#"{{"sluice_flows": 1, "flows": [{}]}}"#, list.join(","));
    let (flows, names) = Flows::read(text.as_bytes(), "flows.json").expect("flows");
    Wanted { flows, names, file: "flows.json".into() }
}

fn topology() -> Topology {
    Topology::read(NET.as_bytes(), "net.json").expect("a topology")
}

#[test]
fn quantities_become_megabytes_and_parallel_links_stay_apart() {
    let topology = topology();
    let task = Task::new(&topology, &flows(&[("a", "b", &[2])]), &[], "net.json").expect("a task");
    let capacities: Vec<f64> = task.instance.links().iter().map(|link| link.capacity).collect();
    let third = 1000.0 / 3.0;
    assert!(capacities[..4].iter().all(|capacity| (capacity - third).abs() < 1e-12 * third), "{capacities:?}");
    assert_eq!(capacities[4..], [1.0, 1.0]);
    assert_eq!(task.instance.flows()[0].size, 1.5);
    assert_eq!(task.asked.participants, [0, 1]);
    assert_eq!(task.asked.collective, Collective::Custom);
}

#[test]
fn the_nearest_float_is_that_of_the_text() {
    for text in ["2.6673215349608546", "22.41433169552037", "0.1", "123456789.123456789", "9007199254740993"] {
        let exact = Rational::parse(text).expect("a number");
        assert_eq!(Ok(nearest(&exact)), text.parse(), "{text}");
    }
}

#[test]
fn refusals_name_the_file_that_says_it() {
    let topology = topology();
    let refused = |list: &[(&str, &str, &[u32])]| {
        let problems = Task::new(&topology, &flows(list), &[], "net.json").expect_err("refused");
        let first = problems.all()[0].clone();
        (first.code, first.key, first.file)
    };
    assert_eq!(refused(&[("a", "x", &[0])]), ("BadRoute", "/flows/0/dst".into(), "flows.json".into()));
    assert_eq!(refused(&[("a", "c", &[0])]), ("BadRoute", "/flows/0/path".into(), "flows.json".into()));
    assert_eq!(refused(&[("a", "b", &[0]), ("a", "a", &[0])]), ("SelfFlow", "/flows/1".into(), "flows.json".into()));
}

#[test]
fn rings_are_recognised() {
    let ring = |nodes: &[usize]| {
        let n = nodes.len();
        let flow = |chunk: usize, hop: usize| {
            let (from, to) = (nodes[(chunk + hop) % n], nodes[(chunk + hop + 1) % n]);
            instance::Flow {
                collective: 0,
                group: chunk,
                order: hop,
                from,
                to,
                size: 1.0,
                path: vec![from],
                release: 0.0,
            }
        };
        (0..n).flat_map(|chunk| (0..2 * (n - 1)).map(move |hop| flow(chunk, hop))).collect::<Vec<_>>()
    };
    let links =
        |n: usize| (0..n).map(|node| Link { from: node, to: (node + 1) % n, capacity: 1.0 }).collect::<Vec<_>>();
    for n in 2..6 {
        let nodes: Vec<usize> = (0..n).collect();
        let made = Instance::new("ring", n, links(n), ring(&nodes), None).expect("an instance");
        assert!(all_rings(&made), "{n}");
        // A hop less, or a chunk that begins elsewhere, is no ring.
        let mut short = ring(&nodes);
        short.pop();
        assert!(!all_rings(&Instance::new("ring", n, links(n), short, None).expect("an instance")), "{n}");
        if n > 2 {
            let mut twice = ring(&nodes);
            for (hop, flow) in twice.iter_mut().take(2 * (n - 1)).enumerate() {
                let (from, to) = ((1 + hop) % n, (2 + hop) % n);
                *flow = instance::Flow { from, to, path: vec![from], ..flow.clone() };
            }
            assert!(!all_rings(&Instance::new("ring", n, links(n), twice, None).expect("an instance")), "{n}");
        }
    }
}
