//! A schedule: when each flow starts, at which rate it then runs, and which flows it waits for on the links.
//!
//! What is executed is the order, not the clock: a flow starts once its predecessors and the flows before it on its
//! links have ended. With exact rates that is when the plan says; when they deviate the order survives.

use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::rules::Ordered;

/// A schedule of all flows of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Planned starts by flow, in s.
    pub starts: Vec<f64>,
    /// By flow, in MB/s, from its start to its end.
    pub rates: Vec<f64>,
    /// Pairs (a, b) of which b does not start before a has ended, besides the dependencies of the instance.
    pub order: Vec<(usize, usize)>,
}

impl Schedule {
    /// The schedule with these starts and rates, by flow. On each link the flows of one class go one after the other, by
    /// start and then by index; flows of different classes share it.
    pub(crate) fn of_starts(
        instance: &Instance,
        starts: Vec<f64>,
        rates: Vec<f64>,
        class: impl Fn(usize) -> usize,
    ) -> Schedule {
        let mut order = Vec::new();
        for link in 0..instance.links().len() {
            let mut on: Vec<usize> = instance.flows_on(link).to_vec();
            on.sort_by(|&a, &b| class(a).cmp(&class(b)).then(starts[a].total_cmp(&starts[b])).then(a.cmp(&b)));
            let next = on.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
            order.extend(next.filter(|&(a, b)| class(a) == class(b)));
        }
        order.sort_unstable();
        order.dedup();
        // A chain says it already.
        order.retain(|&(a, b)| !instance.successors(a).contains(&b));
        Schedule { starts, rates, order }
    }

    /// The schedule in which all flows go one at a time over each link, each at the rate it has alone on its route, with
    /// these starts by flow, in s: what an integer program finds.
    ///
    /// # Errors
    /// `BadLength`, and `BadRelease` for a start that is not finite and at least 0.
    pub fn nonconcurrent(instance: &Instance, starts: Vec<f64>) -> Result<Schedule, Refusal> {
        check_starts(instance, &starts)?;
        let rates = (0..instance.flows().len()).map(|flow| instance.alone(flow)).collect();
        Ok(Schedule::of_starts(instance, starts, rates, |_| 0))
    }

    /// The rule that executes it.
    ///
    /// # Errors
    /// As [`Ordered::new`].
    pub fn rule(&self, instance: &Instance) -> Result<Ordered, Refusal> {
        Ordered::new(instance, self.rates.clone(), &self.order)
    }

    /// The flows that each one waits for on the links, by flow, ascending.
    pub fn predecessors(&self, instance: &Instance) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); instance.flows().len()];
        for &(a, b) in &self.order {
            if let Some(before) = before.get_mut(b) {
                before.push(a);
            }
        }
        before
    }
}

/// Refuses starts that are not one for each flow, finite and at least 0.
pub(crate) fn check_starts(instance: &Instance, starts: &[f64]) -> Result<(), Refusal> {
    let expected = instance.flows().len();
    if starts.len() != expected {
        return Err(Refusal::BadLength { what: "starts", found: starts.len(), expected });
    }
    let bad = starts.iter().enumerate().find(|&(_, &start)| !(start.is_finite() && start >= 0.0));
    bad.map_or(Ok(()), |(flow, &start)| Err(Refusal::BadRelease { flow, release: start }))
}
