//! Ratios of machine words.

use num_integer::Integer;
use std::cmp::Ordering;

/// A ratio whose products fit into `i128`, `under` above zero. The exact `Rational` would cost time: flows count in these
/// words, and the search for a U compares thousands of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio<T> {
    pub over: T,
    pub under: T,
}

impl<T: Integer + Copy + Into<i128>> Ratio<T> {
    /// The same in lowest terms.
    pub fn lowest(self) -> Self {
        let divisor = self.over.gcd(&self.under).max(T::one());
        Self { over: self.over / divisor, under: self.under / divisor }
    }

    /// By value, while `==` compares terms.
    pub fn compare(self, other: Self) -> Ordering {
        (self.over.into() * other.under.into()).cmp(&(other.over.into() * self.under.into()))
    }

    pub fn is_below(self, other: Self) -> bool {
        self.compare(other).is_lt()
    }
}
