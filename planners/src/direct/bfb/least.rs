//! The least largest load of a link: U = max over sets of jobs of |jobs| / |links they may use|, by Newton's method.

use std::cmp::Ordering;

use super::arrivals::Arrivals;
use super::transport::{Jobs, Transport, members};
use sluice_formats::quantity::Rational;

/// A fraction of counts, not in lowest terms.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    over: u64,
    under: u64,
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio { over: 0, under: 1 };

    /// The exact fraction.
    pub fn exact(&self) -> Option<Rational> {
        Rational::new(i128::from(self.over), i128::from(self.under))
    }
    /// This many units of `parts` to one, rounded up.
    pub fn ceiling(&self, parts: u64) -> u64 {
        // Counts and units stay below 2²⁰ each.
        (self.over * parts).div_ceil(self.under)
    }
    /// The denominator in lowest terms.
    pub fn denominator(&self) -> u64 {
        self.under / num_integer::gcd(self.over, self.under)
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        (u128::from(self.over) * u128::from(other.under)).cmp(&(u128::from(other.over) * u128::from(self.under)))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Ratio) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

/// Tables for finding U, used again from receiver to receiver.
#[derive(Default)]
pub struct Least {
    jobs: Jobs,
    transport: Transport<u64>,
}

impl Least {
    /// The larger of `load` and the U of this step. Where `load` already suffices, one flow shows it.
    pub fn at_least(&mut self, load: Ratio, arrivals: &mut Arrivals, step: usize) -> Ratio {
        if step == 1 {
            // Each neighbour's own shard has only its own links.
            let fewest = arrivals.links().iter().copied().min().unwrap_or(1);
            return load.max(Ratio { over: 1, under: fewest });
        }
        arrivals.jobs(step, &mut self.jobs);
        let links = arrivals.links();
        let mut load = load.max(Ratio { over: self.jobs.total(), under: links.iter().sum() });
        // Counts stay below 2²⁰ and links below 2²⁴: no product here leaves 64 bits.
        while {
            let (jobs, Ratio { over, under }) = (&self.jobs, load);
            !self.transport.ship(jobs, |group| jobs.counts()[group] * under, links.iter().map(|links| links * over))
        } {
            let under = members(self.transport.cut()).map(|link| links[link]).sum();
            load = Ratio { over: self.transport.confined(&self.jobs), under };
        }
        load
    }
}
