//! `static`: jobs in a given order of strict priorities, equal shares inside a job; and the search for the best order.

use std::collections::HashMap;

use sluice_scenario::Scenario;
use thiserror::Error;

use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::World;

/// Most jobs whose orders are all tried: 7! is 5,040 runs.
pub const MAX_JOBS: usize = 7;

/// A given order of jobs. Jobs that are not named come last, together.
#[derive(Clone, Debug)]
pub struct StaticOrder {
    place: HashMap<String, u32>,
}

impl StaticOrder {
    /// The first job of the order goes first.
    pub fn new(order: &[String]) -> StaticOrder {
        let mut place = HashMap::new();
        for (id, at) in order.iter().zip(1..) {
            place.entry(id.clone()).or_insert(at);
        }
        StaticOrder { place }
    }

    /// The order of `[scheduler.static]`.
    pub fn of(scenario: &Scenario) -> StaticOrder {
        StaticOrder::new(&scenario.schedulers.options.static_order)
    }
}

impl Scheduler for StaticOrder {
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            if let Change::JobStarted(job) = *change {
                let id = world.scenario.jobs.get(job.0).map_or("", |j| j.id.as_str());
                let last = u32::try_from(self.place.len()).unwrap_or(u32::MAX).saturating_add(1);
                let class = self.place.get(id).copied().unwrap_or(last);
                orders.set_job(world, job, Order { class, ..Order::default() });
            }
        }
    }
}

/// Why there is no best order.
#[derive(Debug, Error)]
pub enum SearchError<E> {
    /// Too many orders to try them all.
    #[error(
        "scheduler.static.search tries every order of at most {MAX_JOBS} jobs, the scenario has {0}; give scheduler.static.order instead"
    )]
    TooMany(usize),
    /// The run of an order failed.
    #[error(transparent)]
    Run(E),
}

/// The order with the smallest mean, of all orders of these ids; of equals (to 10⁻⁹) the lexicographically smallest,
/// ids compared as the scenario compares them. `mean` runs one order and says its mean JCT in seconds.
///
/// # Errors
/// More than [`MAX_JOBS`] ids, or what `mean` says.
pub fn best_order<E>(
    ids: &[String],
    mut mean: impl FnMut(&[String]) -> Result<f64, E>,
) -> Result<(Vec<String>, f64), SearchError<E>> {
    if ids.len() > MAX_JOBS {
        return Err(SearchError::TooMany(ids.len()));
    }
    let mut order = ids.to_vec();
    order.sort_by(|a, b| sluice_scenario::network::by_id(a, b));
    let mut places: Vec<usize> = (0..order.len()).collect();
    let mut best: Option<(Vec<String>, f64)> = None;
    loop {
        let tried: Vec<String> = places.iter().map(|&p| order[p].clone()).collect();
        let value = mean(&tried).map_err(SearchError::Run)?;
        if best.as_ref().is_none_or(|(_, least)| value < least * (1.0 - 1e-9)) {
            best = Some((tried, value));
        }
        if !next_permutation(&mut places) {
            return Ok(best.unwrap_or_default());
        }
    }
}

/// The lexicographically next permutation; false after the last.
fn next_permutation(places: &mut [usize]) -> bool {
    let Some(rise) = places.windows(2).rposition(|w| matches!(w, [a, b] if a < b)) else { return false };
    let swap = places.iter().rposition(|&p| p > places[rise]).unwrap_or(rise);
    places.swap(rise, swap);
    places[rise + 1..].reverse();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("j{i}")).collect()
    }

    #[test]
    fn every_order_once_and_the_smallest_of_equals() {
        let mut seen = std::collections::BTreeSet::new();
        let best = best_order::<()>(&ids(4), |o| {
            assert!(seen.insert(o.to_vec()));
            Ok(if o[3] == "j1" { 1.0 } else { 2.0 })
        });
        assert_eq!(seen.len(), 24);
        assert_eq!(best.map(|b| b.0).map_err(|_| ()), Ok(["j0", "j2", "j3", "j1"].map(String::from).to_vec()));
    }

    #[test]
    fn rounding_does_not_choose() {
        let jobs = ["b".to_owned(), "a".to_owned()];
        let best = best_order::<()>(&jobs, |o| Ok(if o[0] == "b" { 6.5 - 1e-12 } else { 6.5 }));
        assert_eq!(best.map(|b| b.0.join(",")).map_err(|_| ()), Ok("a,b".to_owned()));
    }

    #[test]
    fn eight_jobs_are_refused_with_the_alternative() {
        let error = best_order::<std::io::Error>(&ids(8), |_| Ok(0.0)).map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("the scenario has 8") && e.contains("scheduler.static.order")));
    }
}
