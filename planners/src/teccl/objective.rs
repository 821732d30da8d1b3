//! What a schedule is worth where not only its end counts: chunks that arrive early gain.
//!
//! Source: section 3 of the paper prints the harmonic sum; its published program counts every epoch alike. Neither is the
//! number of epochs: both trade one late chunk against many early ones.

use super::demand::Demand;
use super::lane::Lanes;
use super::schedule::Schedule;

/// What a schedule is to gain most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Every demand counts 1/(k+1) for each epoch k by whose end it is met.
    Harmonic,
    /// Every demand counts 1 for each such epoch: the sum of completion epochs is least.
    SumCompletion,
}

impl Objective {
    /// The word of the command line.
    pub fn word(self) -> &'static str {
        match self {
            Objective::Harmonic => "harmonic",
            Objective::SumCompletion => "sum-completion",
        }
    }

    /// What a demand of weight 1 gains by holding its chunk at the start of epoch `k`, 1 or later.
    pub fn gain(self, k: u64) -> f64 {
        match self {
            Objective::Harmonic => 1.0 / k as f64,
            Objective::SumCompletion => 1.0,
        }
    }

    /// What a demand of weight 1 gains in all within `epochs` epochs if it is met at the start of this one.
    pub fn gains_from(self, usable: u64, epochs: u64) -> f64 {
        (usable.max(1)..=epochs).map(|k| self.gain(k)).sum()
    }

    /// What a schedule gains within `epochs` epochs, weights counted; what arrives later gains nothing.
    pub fn of(self, lanes: &Lanes, demand: &Demand, schedule: &Schedule, epochs: u64) -> f64 {
        let arrivals = schedule.arrivals(lanes, demand);
        let gains = arrivals.map(|arrival| demand.weight(arrival.chunk) * self.gains_from(arrival.usable, epochs));
        gains.sum()
    }

    /// What no schedule gains more than: every demand is met as soon as its chunk can be there.
    pub fn most(self, lanes: &Lanes, demand: &Demand, epochs: u64) -> f64 {
        let mut from = std::collections::HashMap::new();
        let mut sum = 0.0;
        for (number, chunk) in demand.chunks.iter().enumerate() {
            let distances = from.entry(chunk.source).or_insert_with(|| lanes.distances(chunk.source));
            let gains = chunk.wanted_by.iter().map(|node| self.gains_from(distances[*node], epochs));
            sum += demand.weight(number) * gains.sum::<f64>();
        }
        sum
    }
}
