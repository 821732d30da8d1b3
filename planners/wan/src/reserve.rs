//! What constant rates reserve: on each link every group its fastest flow there, however its flows take turns.
//!
//! Rates whose reservations fit never overload a link, at whatever speed the groups advance.

use crate::instance::Instance;
use crate::refusal::Refusal;

/// For each group the links that it uses, ascending, with the rate of its fastest flow there in MB/s. `rates` are by flow.
///
/// # Errors
/// `BadLength`.
pub fn reservations(instance: &Instance, rates: &[f64]) -> Result<Vec<Vec<(usize, f64)>>, Refusal> {
    let expected = instance.flows().len();
    if rates.len() != expected {
        return Err(Refusal::BadLength { what: "rates", found: rates.len(), expected });
    }
    let of_group = |flows: &[usize]| {
        let pairs =
            flows.iter().flat_map(|&flow| instance.flows()[flow].path.iter().map(move |&link| (link, rates[flow])));
        let mut pairs: Vec<(usize, f64)> = pairs.collect();
        // The fastest of each link comes first and stays.
        pairs.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        pairs.dedup_by_key(|&mut (link, _)| link);
        pairs
    };
    Ok(instance.groups().iter().map(|group| of_group(&group.flows)).collect())
}

/// The part of each link's capacity that is reserved, by link: 1 is all of it.
///
/// # Errors
/// `BadLength`.
pub fn reserved(instance: &Instance, rates: &[f64]) -> Result<Vec<f64>, Refusal> {
    let mut sums = vec![0.0; instance.links().len()];
    for (link, rate) in reservations(instance, rates)?.into_iter().flatten() {
        sums[link] += rate;
    }
    Ok(sums.iter().zip(instance.links()).map(|(sum, link)| sum / link.capacity).collect())
}

/// The rates made to fit: each divided by the worst overload on its route, where there is one.
///
/// # Errors
/// `BadLength`.
pub fn repaired(instance: &Instance, rates: &[f64]) -> Result<Vec<f64>, Refusal> {
    let reserved = reserved(instance, rates)?;
    let worst = |path: &[usize]| path.iter().map(|&link| reserved[link]).fold(1.0, f64::max);
    Ok(instance.flows().iter().zip(rates).map(|(flow, rate)| rate / worst(&flow.path)).collect())
}
