//! The static baselines: rates that do not know, or hardly know, what waits for what.
//!
//! | name | rate of a flow |
//! | --- | --- |
//! | `out_of_order` | the smallest capacity over number of flows on its route, counting all flows there ever are |
//! | `equal_alloc` | from equal weights of groups |
//! | `data_aware` | from weights that are the groups' volumes |
//! | `barrier_aware` | size times z of its collective, z max-min fair: the flows of a set of the collective end together |

use std::collections::BTreeMap;

use crate::instance::{Flow, Instance};
use crate::refusal::Refusal;
use crate::weights;

/// `out_of_order`: each link is divided evenly among all flows of the instance that use it, once and for all. It does not
/// look at dependencies, so any will do.
pub fn out_of_order(instance: &Instance) -> Vec<f64> {
    let share = |&link: &usize| instance.links()[link].capacity / instance.flows_on(link).len() as f64;
    let rate = |flow: &Flow| flow.path.iter().map(share).fold(f64::INFINITY, f64::min);
    instance.flows().iter().map(rate).collect()
}

/// `equal_alloc`: every group on a link has the same share of it.
///
/// # Errors
/// `NotAChain`.
pub fn equal(instance: &Instance) -> Result<Vec<f64>, Refusal> {
    weights::rates(instance, &weights::equal(instance))
}

/// `data_aware`: a group's share is in proportion to its volume.
///
/// # Errors
/// `NotAChain`.
pub fn data_aware(instance: &Instance) -> Result<Vec<f64>, Refusal> {
    weights::rates(instance, &weights::volumes(instance))
}

/// What a collective synchronises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All its flows are one set, and nothing waits for the set.
    #[default]
    Collective,
    /// The first and the second half of the longest chain, on a ring ReduceScatter and AllGather, with a barrier between.
    Stage,
    /// Every place in the chains, with a barrier between one and the next.
    Step,
}

/// The rates of `barrier_aware`, and the sets that its barriers stand between.
#[derive(Clone, Debug, PartialEq)]
pub struct Barriers {
    /// In MB/s, by flow.
    pub rates: Vec<f64>,
    /// Each flow's set in its collective, by flow.
    pub set_of: Vec<usize>,
    /// 1/z is the time of every flow of a collective: by collective, in 1/s.
    pub z: Vec<f64>,
}

/// `barrier_aware` in one of its scopes.
///
/// # Errors
/// `NotAChain`.
pub fn barrier_aware(instance: &Instance, scope: Scope) -> Result<Barriers, Refusal> {
    instance.chains()?;
    let length = |collective| instance.groups_of(collective).map(|group| instance.groups()[group].flows.len()).max();
    let lengths: Vec<usize> = (0..instance.collectives()).map(|collective| length(collective).unwrap_or(0)).collect();
    let set = |flow: &Flow| match scope {
        Scope::Collective => 0,
        Scope::Stage => usize::from(2 * flow.order >= lengths[flow.collective]),
        Scope::Step => flow.order,
    };
    let set_of: Vec<usize> = instance.flows().iter().map(set).collect();
    // At most one set of a collective is active: it loads a link with the largest of its sets.
    let mut loads: Vec<BTreeMap<usize, f64>> = Vec::with_capacity(instance.links().len());
    for link in 0..instance.links().len() {
        let mut sets: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for &index in instance.flows_on(link) {
            let flow = &instance.flows()[index];
            *sets.entry((flow.collective, set_of[index])).or_default() += flow.size;
        }
        let mut largest: BTreeMap<usize, f64> = BTreeMap::new();
        for ((collective, _), load) in sets {
            let known = largest.entry(collective).or_default();
            *known = known.max(load);
        }
        loads.push(largest);
    }
    let z = fair(instance, &loads);
    let rates = instance.flows().iter().map(|flow| flow.size * z[flow.collective]).collect();
    Ok(Barriers { rates, set_of, z })
}

/// All z rise together; those of the collectives on a link that is full stop.
fn fair(instance: &Instance, loads: &[BTreeMap<usize, f64>]) -> Vec<f64> {
    /// Links this near to the smallest room, relatively, are full together with it.
    const SAME: f64 = 1e-12;
    let mut left: Vec<f64> = instance.links().iter().map(|link| link.capacity).collect();
    let mut z = vec![0.0; instance.collectives()];
    let mut free = vec![true; z.len()];
    loop {
        let load = |on: &BTreeMap<usize, f64>| on.iter().filter(|&(&k, _)| free[k]).map(|(_, load)| load).sum::<f64>();
        let open: Vec<(usize, f64)> = loads.iter().map(load).enumerate().filter(|&(_, load)| load > 0.0).collect();
        let rise = open.iter().map(|&(link, load)| left[link] / load).fold(f64::INFINITY, f64::min).max(0.0);
        if !rise.is_finite() {
            return z;
        }
        z.iter_mut().zip(&free).filter(|(_, free)| **free).for_each(|(z, _)| *z += rise);
        let full: Vec<usize> = open
            .iter()
            .filter(|&&(link, load)| left[link] / load <= rise * (1.0 + SAME))
            .map(|&(link, _)| link)
            .collect();
        for (link, load) in open {
            left[link] -= rise * load;
        }
        for link in full {
            loads[link].keys().for_each(|&collective| free[collective] = false);
        }
    }
}
