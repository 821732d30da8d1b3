//! The best of all orders, one by one: what a search is compared with.

use sluice_planners_wan::Instance;

/// Pairs of flows of different groups that share a link.
pub fn pairs(instance: &Instance) -> Vec<(usize, usize)> {
    let flows = instance.flows();
    let share = |one: usize, other: usize| flows[one].path.iter().any(|link| flows[other].path.contains(link));
    let mut pairs = Vec::new();
    for one in 0..flows.len() {
        for other in one + 1..flows.len() {
            if instance.group_of(one) != instance.group_of(other) && share(one, other) {
                pairs.push((one, other));
            }
        }
    }
    pairs
}

/// The least mean time over all orders of these pairs.
pub fn best(instance: &Instance, pairs: &[(usize, usize)]) -> f64 {
    assert!(pairs.len() <= 14, "{} pairs", pairs.len());
    let orders = 0..1_u32 << pairs.len();
    orders.filter_map(|order| value(instance, pairs, order)).fold(f64::INFINITY, f64::min)
}

/// The mean time of one order: bit i is set where the first flow of pair i goes first; `None` for a cycle.
fn value(instance: &Instance, pairs: &[(usize, usize)], order: u32) -> Option<f64> {
    let count = instance.flows().len();
    let mut before: Vec<Vec<usize>> = (0..count).map(|flow| instance.predecessors(flow).to_vec()).collect();
    for (bit, &(one, other)) in pairs.iter().enumerate() {
        let (first, then) = if order >> bit & 1 == 1 { (one, other) } else { (other, one) };
        before[then].push(first);
    }
    let mut ends = vec![None; count];
    for _ in 0..count {
        for flow in 0..count {
            if ends[flow].is_none() {
                let start =
                    before[flow].iter().try_fold(0.0_f64, |start, before| ends[*before].map(|end: f64| start.max(end)));
                ends[flow] = start.map(|start| start + instance.duration(flow));
            }
        }
    }
    let mut t = vec![0.0_f64; instance.collectives()];
    for (flow, end) in ends.into_iter().enumerate() {
        let t = &mut t[instance.flows()[flow].collective];
        *t = t.max(end?);
    }
    Some(t.iter().sum::<f64>() / t.len() as f64)
}
