//! The quantities of a scenario: rates in Gbit/s, times in seconds and microseconds, each exact until it is rounded once,
//! half to even, to a whole bit per second or nanosecond. Two readers of one file agree to the bit.

use sluice_formats::document::Item;
use sluice_formats::problem::E_RANGE;
use sluice_formats::quantity::{Rational, gbps};
use sluice_schedule::{Nanos, Rate};

/// Nanoseconds in a second.
pub(crate) const GIGA: u64 = 1_000_000_000;
/// No time of a scenario is longer: ten years.
const MAX_SECONDS: u64 = 315_360_000;

/// A value as a quantity.
pub(crate) trait Quantity {
    /// As a rate in Gbit/s, above zero.
    fn gbps(&self) -> Option<Rate>;
    /// As a time in seconds.
    fn seconds(&self) -> Option<Nanos>;
    /// As a time in microseconds.
    fn micros(&self) -> Option<Nanos>;
}

impl Quantity for Item<'_> {
    fn gbps(&self) -> Option<Rate> {
        let allowed = "a rate in Gbit/s, above 0, at most 100000";
        let rate = gbps(self.number_in(&Rational::ZERO, &Rational::from(100_000), allowed)?).unwrap_or(0);
        if rate == 0 {
            self.fail(E_RANGE, format!("{} is no capacity", self.key), allowed);
        }
        Some(Rate(rate)).filter(|rate| rate.0 > 0)
    }
    fn seconds(&self) -> Option<Nanos> {
        let allowed = "seconds, 0 to 315360000";
        self.number_in(&Rational::ZERO, &Rational::from(MAX_SECONDS), allowed)?.to_units(GIGA).map(Nanos)
    }
    fn micros(&self) -> Option<Nanos> {
        let allowed = "microseconds, 0 to 10000000";
        self.number_in(&Rational::ZERO, &Rational::from(10_000_000), allowed)?.to_units(1_000).map(Nanos)
    }
}
