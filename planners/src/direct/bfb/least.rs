//! The least largest load of a link: U = max over sets of jobs of |jobs| / |links they may use|, by Newton's method.

use super::arrivals::Arrivals;
use super::transport::{Jobs, Transport, members};
use sluice_formats::quantity::Rational;

/// The numerator and the denominator of a load: no more jobs and links than a graph has.
pub fn counts(load: &Rational) -> (u64, u64) {
    load.parts().map_or((0, 1), |(jobs, links)| (jobs as u64, links as u64))
}

/// Tables for finding U, used again from receiver to receiver.
#[derive(Default)]
pub struct Least {
    jobs: Jobs,
    transport: Transport,
}

impl Least {
    /// Raises `load` to the U of this step, if that is larger. Where `load` already suffices, one flow shows it.
    pub fn raise(&mut self, load: &mut Rational, arrivals: &mut Arrivals, step: usize) {
        if step > 1 {
            arrivals.jobs(step, &mut self.jobs);
        }
        let (before, links) = (counts(load), arrivals.links());
        let (mut over, mut under) = match step {
            // Each neighbour's own shard has only its own links.
            1 => (1, links.iter().copied().min().unwrap_or(1)),
            _ => (self.jobs.total(), links.iter().sum()),
        };
        // Jobs stay below 2²⁰ and links below 2²⁴: no product here leaves 64 bits.
        if over * before.1 <= before.0 * under {
            (over, under) = before;
        }
        let jobs = &self.jobs;
        while step > 1
            && !self.transport.ship(jobs, |group| jobs.counts()[group] * under, links.iter().map(|links| links * over))
        {
            under = members(self.transport.cut()).map(|link| links[link]).sum();
            over = self.transport.confined(jobs);
        }
        if (over, under) != before
            && let Some(larger) = Rational::new(over, under)
        {
            *load = larger;
        }
    }
}
