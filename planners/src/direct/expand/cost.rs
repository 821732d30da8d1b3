//! What an expanded schedule costs, from the base's cost alone: steps, and τ in units of M/B.

use sluice_formats::quantity::Rational;

/// T_L in steps, and τ in units of M/B.
pub type StepsAndTime = (u32, Rational);

/// The fraction; a denominator of zero counts as one, which sizes of graphs never are.
pub fn fraction(p: u64, q: u64) -> Rational {
    Rational::new(i128::from(p), i128::from(q.max(1))).unwrap_or(Rational::ZERO)
}

/// The line expansion of a base of `n` vertices: an upper bound for τ, which is exact unless all successors of a
/// vertex are themselves sources of the step that costs most.
pub fn line(base: &StepsAndTime, n: u32) -> StepsAndTime {
    (base.0 + 1, &base.1 + &fraction(1, n.into()))
}

/// The degree expansion of a base of `n` vertices, exactly.
pub fn degree(base: &StepsAndTime, n: u32, copies: u32) -> StepsAndTime {
    let own = fraction(u64::from(copies) - 1, u64::from(n) * u64::from(copies));
    (base.0 + 1, &base.1 + &own)
}

/// The power of a base of `n ≥ 2` vertices, exactly.
pub fn power(base: &StepsAndTime, n: u32, exponent: u32) -> StepsAndTime {
    let (n, all) = (u64::from(n), u64::from(n).saturating_pow(exponent));
    let grown = &fraction(n, n - 1) * &fraction(all - 1, all);
    (base.0 * exponent, &base.1 * &grown)
}
