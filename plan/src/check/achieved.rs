//! What a plan achieves, in the quantity that its claims and bounds are about.

use sluice_formats::quantity::Rational;

/// How exact the figures of a plan are by where it comes from, which decides how its claims are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// From exact arithmetic: claims are compared as fractions.
    Exact,
    /// From linear programming: claims are compared within 10⁻⁷, relative.
    Lp,
    /// From wide-area allocation, whose brains count in floats: claims are compared within 10⁻⁶, relative.
    Wan,
}

impl Exactness {
    /// Are two figures the same, as far as claims can be?
    pub fn same(self, a: &Rational, b: &Rational) -> bool {
        let within = match self {
            Exactness::Exact => return a == b,
            Exactness::Lp => 10_000_000,
            Exactness::Wan => 1_000_000,
        };
        let apart = a - b;
        let apart = if apart.is_negative() { -&apart } else { apart };
        apart <= Rational::new(1, within).map_or(Rational::ZERO, |tolerance| &tolerance * a.max(b))
    }
}

/// What a lower bound is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// T/M: the time that each byte of the data takes.
    TimePerByte,
    /// Steps until the last one that sends anything.
    Steps,
    /// Epochs until the last chunk arrives.
    Epochs,
    /// Mean completion time in seconds.
    MeanSeconds,
}

impl Quantity {
    /// The unit behind a number.
    pub fn words(self, seconds: bool) -> &'static str {
        match self {
            Quantity::TimePerByte if seconds => " s/B",
            Quantity::TimePerByte => "",
            Quantity::Steps => " steps",
            Quantity::Epochs => " epochs",
            Quantity::MeanSeconds => " s",
        }
    }
    /// A number of it in a message, without its unit: exact, but for times that a replay found.
    pub fn show(self, value: &Rational) -> String {
        match self {
            Quantity::MeanSeconds => format!("{:.6}", value.to_f64()),
            Quantity::TimePerByte | Quantity::Steps | Quantity::Epochs => value.to_string(),
        }
    }
}

/// What a plan achieves, in the quantity that its lower bound is about.
#[derive(Clone, Debug)]
pub struct Achieved {
    /// The figure, as recomputed.
    pub value: Rational,
    pub quantity: Quantity,
    /// How claims of it are compared.
    pub exactness: Exactness,
}
