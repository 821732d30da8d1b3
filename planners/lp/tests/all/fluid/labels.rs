//! What a fluid can do in a number of steps, exactly, on fabrics with any mix of abilities: data carries the set of ends that
//! it will still serve, and where it is copied the set is split. A program of exponential size, to compare others with.

use sluice_planners::fluid::demand::Block;
use sluice_planners::fluid::network::Network;
use sluice_solver::{Answer, Bounds, Options, Program, Row, Sense};
use std::collections::HashMap;

/// The shortest steps with which so many of them are enough; `None`: they never are.
pub fn shortest_steps(network: &Network, blocks: &[Block], steps: usize) -> Option<f64> {
    let mut columns: Vec<Vec<(Row, f64)>> = vec![Vec::new()];
    let mut program = Program::new(Sense::Minimise);
    let mut limits: Vec<HashMap<usize, Row>> = Vec::new();
    for _ in 0..steps {
        let mut rows = HashMap::new();
        for (place, group) in network.limits() {
            let row = program.row(Bounds::at_most(0.0)).expect("a row");
            columns[0].push((row, -group.rate));
            rows.insert(place, row);
        }
        limits.push(rows);
    }
    for block in blocks {
        let full = (1_usize << block.ends.len()) - 1;
        let units = block.units.to_f64();
        let mut rows: HashMap<(u32, usize, usize), Row> = HashMap::new();
        for node in 0..network.nodes() as u32 {
            for step in 0..=steps {
                for label in 1..=full {
                    let begins = node == block.root && step == 0 && label == full;
                    let ends = step == steps
                        && block.ends.iter().position(|end| *end == node).is_some_and(|end| label == 1 << end);
                    let due = if ends { units } else { 0.0 } - if begins { units } else { 0.0 };
                    rows.insert((node, step, label), program.row(Bounds::exactly(due)).expect("a row"));
                }
            }
        }
        for label in 1..=full {
            for step in 0..steps {
                for (index, edge) in network.edges.iter().enumerate() {
                    let mut entries =
                        vec![(rows[&(edge.from, step, label)], -1.0), (rows[&(edge.to, step + 1, label)], 1.0)];
                    let over = network.limits().filter(|(_, group)| group.edges.contains(&(index as u32)));
                    entries.extend(over.map(|(place, _)| (limits[step][&place], 1.0)));
                    columns.push(entries);
                }
                for node in (0..network.nodes() as u32).filter(|node| network.can[*node as usize].store) {
                    columns.push(vec![(rows[&(node, step, label)], -1.0), (rows[&(node, step + 1, label)], 1.0)]);
                }
            }
            for node in (0..network.nodes() as u32).filter(|node| network.copies(*node)) {
                for (step, part) in (0..=steps).flat_map(|step| (1..label).map(move |part| (step, part))) {
                    // Each split once: of two parts the one with the lowest end.
                    if part & label == part && part & (label & label.wrapping_neg()) != 0 {
                        let row = |label: usize| rows[&(node, step, label)];
                        columns.push(vec![(row(label), -1.0), (row(part), 1.0), (row(label & !part), 1.0)]);
                    }
                }
            }
        }
    }
    for (place, entries) in columns.into_iter().enumerate() {
        let cost = if place == 0 { 1.0 } else { 0.0 };
        program.column(cost, Bounds::POSITIVE, entries).expect("a column");
    }
    let options = Options { tolerance: Some(1e-9), ..Options::default() };
    match program.solve(&options, None).expect("solved") {
        Answer::Optimal(solution) => Some(solution.objective),
        Answer::Infeasible => None,
        other => panic!("{other:?}"),
    }
}
