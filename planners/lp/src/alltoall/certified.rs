//! What a flow is worth, whoever made it: the rate that its amounts prove.

use super::links::Links;

/// Amounts below this share of what they are summed up to are lost in rounding; a proved rate gives way by as much.
const ROUNDING: f64 = 1e-9;

/// The rate that these amounts give every pair, however they came about.
///
/// `amounts` has a row of the links per source `0..sources`; `share` is the group of links whose amounts add up against
/// a capacity of 1, of `groups` (a link of its own, or a class). What is negative or not finite counts as nothing, a
/// link that is too full scales everything down, and a vertex that keeps too little lowers the rate for all.
pub(super) fn rate(links: &Links, amounts: &[f64], sources: usize, share: &[u32], groups: usize) -> f64 {
    let amount = |source: usize, link: usize| {
        let amount = amounts[source * links.len() + link];
        if amount.is_finite() { amount.max(0.0) } else { 0.0 }
    };
    let mut loads = vec![0.0; groups];
    let mut least = f64::INFINITY;
    for source in 0..sources {
        let mut kept = vec![0.0; links.n];
        for link in 0..links.len() {
            let amount = amount(source, link);
            loads[share[link] as usize] += amount;
            kept[links.head[link] as usize] += amount;
            kept[links.tail[link] as usize] -= amount;
        }
        let others = kept.iter().enumerate().filter(|(v, _)| *v != source);
        least = others.map(|(_, &kept)| kept).fold(least, f64::min);
    }
    let fullest = loads.into_iter().fold(0.0, f64::max);
    if fullest > 0.0 && least > 0.0 { least / fullest.max(1.0) * (1.0 - ROUNDING) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_planners::direct::{Edge, Graph};

    #[test]
    fn a_flow_is_worth_what_arrives_and_fits() {
        let pair = Graph::new(2, vec![Edge { tail: 0, head: 1 }, Edge { tail: 1, head: 0 }]).unwrap();
        let links = Links::new(&pair).unwrap();
        let worth = |amounts: &[f64]| rate(&links, amounts, 2, &[0, 1], 2);
        assert!((worth(&[1.0, 0.0, 0.0, 1.0]) - 1.0).abs() < 1e-8);
        // Too much for a link: everything shrinks. Too little for one pair: everybody gets as little.
        assert!((worth(&[2.0, 0.0, 0.0, 2.0]) - 1.0).abs() < 1e-8);
        assert!((worth(&[0.25, 0.0, 0.0, 1.0]) - 0.25).abs() < 1e-8);
        assert_eq!(worth(&[f64::NAN, 0.0, 0.0, 1.0]), 0.0);
        assert_eq!(worth(&[-1.0, 0.0, 0.0, 1.0]), 0.0);
    }
}
