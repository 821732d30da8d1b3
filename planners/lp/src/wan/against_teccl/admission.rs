//! Flows of fixed rates that begin as soon as they are ready and fit, in an order: what a schedule by the clock comes to
//! when flows also wait for each other.
//!
//! The order of a schedule that knows nothing of dependencies cannot be kept to the letter: it may have a flow before one
//! that it waits for. So it decides only among those that are ready; a flow that does not fit does not hold up others.

use sluice_planners_wan::simulate::{Moment, RateRule};
use sluice_planners_wan::{Instance, Refusal};

/// A link counts as having room for a rate that exceeds what it has left by this part of the rate.
const ROUNDING: f64 = 1e-9;

/// The rule.
#[derive(Clone, Debug)]
pub struct Admission<'a> {
    instance: &'a Instance,
    rates: Vec<f64>,
    rank: Vec<usize>,
    has_begun: Vec<bool>,
    left: Vec<f64>,
    order: Vec<usize>,
}

impl<'a> Admission<'a> {
    /// With rates by flow, in MB/s, each no more than a link of its route has, and ranks, the smaller first.
    ///
    /// # Errors
    /// `BadLength`.
    pub fn new(instance: &'a Instance, rates: Vec<f64>, rank: Vec<usize>) -> Result<Admission<'a>, Refusal> {
        let expected = instance.flows().len();
        for (what, found) in [("rates", rates.len()), ("ranks", rank.len())] {
            if found != expected {
                return Err(Refusal::BadLength { what, found, expected });
            }
        }
        let has_begun = vec![false; expected];
        Ok(Admission { instance, rates, rank, has_begun, left: Vec::new(), order: Vec::new() })
    }
}

impl RateRule for Admission<'_> {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        let Admission { instance, rates: own, rank, has_begun, left, order } = self;
        left.clear();
        left.extend(instance.links().iter().map(|link| link.capacity));
        order.clear();
        order.extend(0..moment.ready.len());
        // What has begun keeps its place.
        order.sort_unstable_by_key(|place| (!has_begun[moment.ready[*place]], rank[moment.ready[*place]]));
        for &place in order.iter() {
            let flow = moment.ready[place];
            let (rate, path) = (own[flow], &instance.flows()[flow].path);
            if has_begun[flow] || path.iter().all(|link| left[*link] >= rate * (1.0 - ROUNDING)) {
                has_begun[flow] = true;
                rates[place] = rate;
                path.iter().for_each(|link| left[*link] -= rate);
            }
        }
    }
}
