//! Reserve and fill: every ready flow gets its guaranteed rate, and what links have left is divided max-min fair.

use super::filling::Filling;
use crate::instance::Instance;
use crate::layout::Layout;
use crate::refusal::Refusal;
use crate::simulate::{Moment, RateRule};

/// Guaranteed rates with the rest filled in, or nothing guaranteed and everything filled in.
#[derive(Clone, Debug)]
pub struct Fill {
    layout: Layout,
    guaranteed: Option<Vec<f64>>,
    weight: Vec<f64>,
    filling: Filling,
}

impl Fill {
    /// Guaranteed rates by flow, in MB/s; the rest is divided in proportion to them.
    ///
    /// # Errors
    /// `BadLength`, and `BadRate` for a rate that is not finite or negative.
    pub fn reserved(instance: &Instance, rates: Vec<f64>) -> Result<Fill, Refusal> {
        let expected = instance.flows().len();
        if rates.len() != expected {
            return Err(Refusal::BadLength { what: "rates", found: rates.len(), expected });
        }
        if let Some((flow, &rate)) = rates.iter().enumerate().find(|&(_, &rate)| !(rate.is_finite() && rate >= 0.0)) {
            return Err(Refusal::BadRate { flow, t: 0.0, rate });
        }
        Ok(Fill::new(instance, Some(rates.clone()), rates))
    }
    /// Nothing is guaranteed and all flows weigh the same: plain max-min fairness among the ready flows.
    pub fn equal(instance: &Instance) -> Fill {
        Fill::new(instance, None, vec![1.0; instance.flows().len()])
    }
    fn new(instance: &Instance, guaranteed: Option<Vec<f64>>, weight: Vec<f64>) -> Fill {
        let layout = Layout::of(instance);
        let filling = Filling::new(layout.capacity.len());
        Fill { layout, guaranteed, weight, filling }
    }
}

impl RateRule for Fill {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        self.filling.left.copy_from_slice(&self.layout.capacity);
        if let Some(guaranteed) = &self.guaranteed {
            for (rate, &flow) in rates.iter_mut().zip(moment.ready) {
                *rate = guaranteed[flow];
                for &link in self.layout.path(flow) {
                    self.filling.left[link as usize] -= *rate;
                }
            }
        }
        self.filling.fill(&self.layout, moment.ready, &self.weight, rates);
    }
}
