//! Rules with one rate for each flow: always, after the flows ordered before it, or after the sets before its own.

use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::simulate::{Moment, RateRule};

/// Refuses a list that has not one entry for each flow.
fn each_flow(instance: &Instance, what: &'static str, found: usize) -> Result<(), Refusal> {
    let expected = instance.flows().len();
    if found == expected { Ok(()) } else { Err(Refusal::BadLength { what, found, expected }) }
}

/// Every flow has its rate from the instant at which it is ready.
#[derive(Clone, Debug)]
pub struct Static {
    rates: Vec<f64>,
}

impl Static {
    /// With these rates, by flow, in MB/s.
    pub fn new(rates: Vec<f64>) -> Static {
        Static { rates }
    }
}

impl RateRule for Static {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        for (rate, &flow) in rates.iter_mut().zip(moment.ready) {
            *rate = self.rates.get(flow).copied().unwrap_or(0.0);
        }
    }
    fn constant(&self) -> Option<&[f64]> {
        Some(&self.rates)
    }
}

/// A flow begins when it is ready and all flows ordered before it have ended; then it keeps its rate.
#[derive(Clone, Debug)]
pub struct Ordered {
    rates: Vec<f64>,
    /// For each flow those that wait for it in the order.
    after: Vec<Vec<usize>>,
    /// For each flow those before it that have not ended.
    held: Vec<usize>,
}

impl Ordered {
    /// With rates by flow, in MB/s, and pairs (a, b) of which b does not begin before a has ended.
    ///
    /// # Errors
    /// `BadLength`, and `GapInIds` for a pair with a flow that does not exist.
    pub fn new(instance: &Instance, rates: Vec<f64>, order: &[(usize, usize)]) -> Result<Ordered, Refusal> {
        let count = instance.flows().len();
        each_flow(instance, "rates", rates.len())?;
        let (mut after, mut held) = (vec![Vec::new(); count], vec![0; count]);
        for &(before, behind) in order {
            match (after.get_mut(before), held.get_mut(behind)) {
                (Some(after), Some(held)) => {
                    after.push(behind);
                    *held += 1;
                }
                _ => return Err(Refusal::GapInIds { what: "flow", id: before.max(behind), count }),
            }
        }
        Ok(Ordered { rates, after, held })
    }
}

impl RateRule for Ordered {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        for (rate, &flow) in rates.iter_mut().zip(moment.ready) {
            if self.held[flow] == 0 {
                *rate = self.rates[flow];
            }
        }
    }
    fn ended(&mut self, flow: usize) {
        for behind in std::mem::take(&mut self.after[flow]) {
            self.held[behind] -= 1;
        }
    }
}

/// Each collective goes through sets of flows: none of a set begins before all of the sets before it have ended.
#[derive(Clone, Debug)]
pub struct Barrier {
    rates: Vec<f64>,
    set_of: Vec<usize>,
    collective_of: Vec<usize>,
    /// For each collective its sets in order, each with the flows that have not ended.
    left: Vec<Vec<(usize, usize)>>,
}

impl Barrier {
    /// With rates by flow, in MB/s, and each flow's set in its collective.
    ///
    /// # Errors
    /// `BadLength`.
    pub fn new(instance: &Instance, rates: Vec<f64>, set_of: Vec<usize>) -> Result<Barrier, Refusal> {
        each_flow(instance, "rates", rates.len())?;
        each_flow(instance, "sets", set_of.len())?;
        let collective_of: Vec<usize> = instance.flows().iter().map(|flow| flow.collective).collect();
        let mut left: Vec<Vec<(usize, usize)>> = vec![Vec::new(); instance.collectives()];
        let mut sorted: Vec<(usize, usize)> = collective_of.iter().copied().zip(set_of.iter().copied()).collect();
        // Backwards, so that the set in turn is the last of its list.
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        for (collective, set) in sorted {
            match left[collective].last_mut() {
                Some((last, count)) if *last == set => *count += 1,
                _ => left[collective].push((set, 1)),
            }
        }
        Ok(Barrier { rates, set_of, collective_of, left })
    }
}

impl RateRule for Barrier {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        for (rate, &flow) in rates.iter_mut().zip(moment.ready) {
            let turn = self.left[self.collective_of[flow]].last();
            if turn.is_some_and(|&(set, _)| set >= self.set_of[flow]) {
                *rate = self.rates[flow];
            }
        }
    }
    fn ended(&mut self, flow: usize) {
        let (left, set) = (&mut self.left[self.collective_of[flow]], self.set_of[flow]);
        if let Some((_, count)) = left.iter_mut().find(|&&mut (other, _)| other == set) {
            *count -= 1;
        }
        while left.last().is_some_and(|&(_, count)| count == 0) {
            left.pop();
        }
    }
}
