//! The conditions on fabrics one by one, and the whole numbers they become.

use super::*;

fn fraction(over: i128, under: i128) -> Rational {
    Rational::new(over, under).expect("not over zero")
}

fn line(rates: &[(i128, i128)]) -> Fabric {
    let links = (0_u32..).zip(rates).flat_map(|(node, &(over, under))| {
        [(node, node + 1, fraction(over, under)), (node + 1, node, fraction(over, under))]
    });
    let names: Vec<String> = (0..=rates.len()).map(|node| node.to_string()).collect();
    Fabric { compute: names.len(), names, links: links.collect(), ..Fabric::default() }
}

#[test]
fn bandwidths_become_whole_numbers_without_common_divisor() {
    let graph = scaled(&line(&[(7, 2), (1, 3)]), false).expect("a valid fabric");
    let arcs = [(0, 1, 21), (1, 0, 21), (1, 2, 2), (2, 1, 2)];
    assert_eq!(graph.arcs, arcs.map(|(from, to, capacity)| Arc { from, to, capacity }));
    assert_eq!(graph.factor, Rational::from(6));
    let graph = scaled(&line(&[(300, 1), (200, 1)]), false).expect("a valid fabric");
    assert_eq!((graph.arcs[0].capacity, graph.arcs[2].capacity, graph.factor), (3, 2, fraction(1, 100)));
}

#[test]
fn parallel_links_add_up() {
    let mut fabric = line(&[(1, 2)]);
    fabric.links.extend([(0, 1, fraction(1, 3)), (1, 0, fraction(1, 3))]);
    fabric.links.extend(line(&[(1, 1)]).links);
    let graph = scaled(&fabric, false).expect("a valid fabric");
    let arcs = [(0, 1), (1, 0)].map(|(from, to)| Arc { from, to, capacity: 1 });
    assert_eq!((graph.arcs, graph.factor), (arcs.to_vec(), fraction(6, 11)));
}

#[test]
fn unbalanced_nodes_are_named_with_their_rates() {
    let mut fabric = line(&[(1, 2), (1, 2)]);
    fabric.links.push((0, 2, fraction(1, 4)));
    let refusal = scaled(&fabric, false).expect_err("not Eulerian");
    let text = refusal.to_string();
    assert!(text.contains("\"0\" has 1/2 in and 3/4 out") && text.contains("\"2\" has 3/4 in and 1/2 out"), "{text}");
}

#[test]
fn a_node_that_only_receives_needs_no_way_back_where_balance_is_waived() {
    let mut fabric = line(&[(1, 1)]);
    fabric.links.truncate(1);
    fabric.weights = vec![1, 0];
    assert!(scaled(&fabric, true).is_ok());
    fabric.weights = vec![1, 1];
    let refusal = scaled(&fabric, true).expect_err("no way back");
    assert_eq!(refusal, Refusal::NotConnected { from: "1".into(), to: "0".into() });
}

#[test]
fn switches_without_links_are_ignored() {
    let mut fabric = line(&[(1, 1)]);
    fabric.names.push("spare".into());
    assert!(scaled(&fabric, false).is_ok());
}
