//! Weights of groups: how they divide links, and the constant rates that follow.
//!
//! A group's share of a link is its part of the weights of all groups that ever use the link, active or not; a flow's
//! rate is the smallest share on its route.

use crate::instance::Instance;
use crate::refusal::Refusal;

/// Refuses weights that are not one for each group, finite and more than 0.
///
/// # Errors
/// `BadWeight`.
pub fn check(instance: &Instance, weights: &[f64]) -> Result<(), Refusal> {
    let expected = instance.groups().len();
    if weights.len() != expected {
        return Err(Refusal::BadLength { what: "weights", found: weights.len(), expected });
    }
    let bad = weights.iter().enumerate().find(|&(_, &weight)| !(weight.is_finite() && weight > 0.0));
    bad.map_or(Ok(()), |(group, &weight)| Err(Refusal::BadWeight { group, weight }))
}

/// The same proportions with a sum of 1.
pub fn normalised(weights: &[f64]) -> Vec<f64> {
    // First by the largest, so that the sum is finite.
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
    weights.iter().map(|weight| weight / largest / sum).collect()
}

/// The sum of the weights of the groups on each link, by link.
pub(crate) fn sums(instance: &Instance, weights: &[f64]) -> Vec<f64> {
    let sum = |link| instance.groups_on(link).iter().map(|&group| weights[group]).sum();
    (0..instance.links().len()).map(sum).collect()
}

/// The rate of every flow, in MB/s.
///
/// # Errors
/// `NotAChain`, `BadWeight`.
pub fn rates(instance: &Instance, weights: &[f64]) -> Result<Vec<f64>, Refusal> {
    instance.chains()?;
    check(instance, weights)?;
    Ok(rates_of(instance, &normalised(weights)))
}

fn rates_of(instance: &Instance, weights: &[f64]) -> Vec<f64> {
    let sums = sums(instance, weights);
    let rate = |(index, flow): (usize, &crate::instance::Flow)| {
        let weight = weights[instance.group_of(index)];
        let share = |&link: &usize| instance.links()[link].capacity * (weight / sums[link]);
        flow.path.iter().map(share).fold(f64::INFINITY, f64::min)
    };
    instance.flows().iter().enumerate().map(rate).collect()
}

/// The time of each group when its flows have these constant rates: Σ F/b, in s.
pub fn group_times(instance: &Instance, rates: &[f64]) -> Vec<f64> {
    let of = |flow: &usize| instance.flows()[*flow].size / rates.get(*flow).copied().unwrap_or(0.0);
    instance.groups().iter().map(|group| group.flows.iter().map(of).sum()).collect()
}

/// The mean over collectives of the time of their slowest group, with these constant rates, in s: without releases what the
/// simulator finds.
pub fn mean_time(instance: &Instance, rates: &[f64]) -> f64 {
    let mut t = vec![0.0_f64; instance.collectives()];
    for (group, time) in instance.groups().iter().zip(group_times(instance, rates)) {
        t[group.collective] = t[group.collective].max(time);
    }
    t.iter().sum::<f64>() / t.len() as f64
}

/// Every group weighs the same.
pub fn equal(instance: &Instance) -> Vec<f64> {
    vec![1.0 / instance.groups().len() as f64; instance.groups().len()]
}

/// Every group weighs as much as it has to send.
pub fn volumes(instance: &Instance) -> Vec<f64> {
    normalised(&instance.groups().iter().map(|group| group.volume).collect::<Vec<_>>())
}

/// Every group weighs the reciprocal of the smallest capacity that it uses.
pub fn inverse_bottleneck(instance: &Instance) -> Vec<f64> {
    let least = |flows: &[usize]| flows.iter().map(|&flow| instance.alone(flow)).fold(f64::INFINITY, f64::min);
    normalised(&instance.groups().iter().map(|group| 1.0 / least(&group.flows)).collect::<Vec<_>>())
}
