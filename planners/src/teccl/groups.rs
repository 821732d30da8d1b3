//! Groups of nodes that thin links join, as chassis are.

use super::lane::Lanes;
use sluice_formats::quantity::Rational;

/// Different capacities below which links may be thin.
const MAX_THIN: usize = 4;

/// Groups of nodes that thin links join: by node the number of its group, `usize::MAX` for switches between groups. One for
/// each capacity below which the links are left out and several groups of several nodes remain.
pub fn groupings(lanes: &Lanes) -> Vec<Vec<usize>> {
    let mut rates: Vec<&Rational> = lanes.lanes.iter().filter_map(|lane| lane.rates.first()).collect();
    rates.sort_unstable();
    rates.dedup();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for thin in rates.iter().take(rates.len().saturating_sub(1).min(MAX_THIN)) {
        let mut group: Vec<usize> = (0..lanes.nodes.len()).collect();
        let root = |group: &mut Vec<usize>, mut node: usize| {
            while group[node] != node {
                group[node] = group[group[node]];
                node = group[node];
            }
            node
        };
        for lane in lanes.lanes.iter().filter(|lane| lane.rates.first() > Some(*thin)) {
            let (a, b) = (root(&mut group, lane.from), root(&mut group, lane.to));
            group[a.max(b)] = a.min(b);
        }
        let mut members = vec![0; lanes.nodes.len()];
        let roots: Vec<usize> = (0..lanes.nodes.len()).map(|node| root(&mut group, node)).collect();
        for (node, root) in roots.iter().enumerate() {
            members[*root] += usize::from(!lanes.nodes[node].is_switch);
        }
        let numbers: Vec<usize> = (0..lanes.nodes.len()).filter(|root| members[*root] > 0).collect();
        if numbers.len() > 1 && numbers.iter().all(|root| members[*root] > 1) {
            let number = |root: &usize| numbers.binary_search(root).unwrap_or(usize::MAX);
            let grouping: Vec<usize> = roots.iter().map(number).collect();
            if found.last() != Some(&grouping) {
                found.push(grouping);
            }
        }
    }
    found
}
