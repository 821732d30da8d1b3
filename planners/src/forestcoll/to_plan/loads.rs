//! How long trees take: what each link carries over what it can.

use crate::forestcoll::Forest;
use crate::forestcoll::from_topology::Instance;
use sluice_formats::quantity::Rational;
use std::collections::HashMap;

/// T/M with all forests at work at the same time, and each forest's largest load, in trees per input unit of
/// capacity; `None` where a load exceeds 128 bits.
pub fn times(instance: &Instance<'_>, forests: &[Forest]) -> Option<(Rational, Vec<Rational>)> {
    let mut capacities: HashMap<(u32, u32), Rational> = HashMap::new();
    for (from, to, capacity) in &instance.fabric.links {
        *capacities.entry((*from, *to)).or_insert(Rational::ZERO) += capacity;
    }
    let mut own = Vec::with_capacity(forests.len());
    let mut parts: HashMap<(u32, u32), Rational> = HashMap::new();
    for forest in forests {
        let all = forest.trees.iter().try_fold(0_i128, |sum, tree| sum.checked_add(tree.weight.into()))?;
        let mut largest = Rational::ZERO;
        for (link, load) in loads(forest)? {
            let capacity = capacities.get(&link)?;
            let slowness = Rational::new(load, 1)?.checked_div(capacity)?;
            *parts.entry(link).or_insert(Rational::ZERO) += &slowness.checked_div(&Rational::new(all, 1)?)?;
            largest = largest.max(slowness);
        }
        own.push(largest);
    }
    let slowest = parts.into_values().max().unwrap_or(Rational::ZERO);
    let unit = instance.asked.topology.unit().base(&Rational::ONE);
    Some((slowest.checked_div(&unit)?, own))
}

/// Trees per link: hops where switches copy or add up, else all paths.
fn loads(forest: &Forest) -> Option<HashMap<(u32, u32), i128>> {
    let mut loads: HashMap<(u32, u32), i128> = HashMap::new();
    let mut add = |link: (u32, u32), weight: u64| {
        let load = loads.entry(link).or_insert(0);
        *load = load.checked_add(weight.into())?;
        Some(())
    };
    for tree in &forest.trees {
        match &tree.hops {
            Some(hops) => hops.iter().try_for_each(|hop| add(*hop, tree.weight))?,
            None => {
                let hops = tree.edges.iter().flat_map(|edge| edge.path.windows(2));
                hops.map(|hop| (hop[0], hop[1])).try_for_each(|hop| add(hop, tree.weight))?;
            }
        }
    }
    Some(loads)
}
