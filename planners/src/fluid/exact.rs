//! From floats to fractions: numbers that look like small ones, and the rest as decimals.

use sluice_formats::quantity::Rational;

/// The largest denominator of a fraction that a float is taken for.
const MAX_DENOMINATOR: i128 = 2000;
/// How near a float must be to a fraction to be taken for it, relative where it is above one.
const NEAR: f64 = 1e-9;
/// Steps of a continued fraction at most; denominators grow faster than this allows.
const MAX_STEPS: usize = 40;
/// Digits behind the point of a decimal.
const DECIMALS: i128 = 1_000_000_000_000;

/// The fraction with a denominator of at most 2000 that a float is within 1e-9 of, by continued fractions.
pub fn recognise(number: f64) -> Option<Rational> {
    let ((mut p0, mut q0), (mut p1, mut q1)) = ((0_i128, 1_i128), (1_i128, 0_i128));
    let mut rest = number;
    for _ in 0..MAX_STEPS {
        if !rest.is_finite() || rest.abs() > 1e15 {
            return None;
        }
        let whole = rest.floor();
        let (p, q) = (whole as i128 * p1 + p0, whole as i128 * q1 + q0);
        if q > MAX_DENOMINATOR {
            return None;
        }
        ((p0, q0), (p1, q1)) = ((p1, q1), (p, q));
        if (p as f64 / q as f64 - number).abs() <= NEAR * number.abs().max(1.0) {
            return Rational::new(p, q);
        }
        rest = 1.0 / (rest - whole);
    }
    None
}

/// A float that is not below zero as a decimal of twelve digits.
fn decimal(number: f64) -> Rational {
    Rational::new((number.max(0.0) * DECIMALS as f64).round() as i128, DECIMALS).unwrap_or(Rational::ZERO)
}

/// What a list of prices may have meant: fractions where they look like some, and plain decimals.
pub fn prices(list: &[f64]) -> Vec<Vec<Rational>> {
    let fractions = list.iter().map(|price| recognise(price.max(0.0)).unwrap_or_else(|| decimal(*price)));
    let both = [fractions.collect::<Vec<_>>(), list.iter().map(|price| decimal(*price)).collect()];
    if both[0] == both[1] { vec![both[0].clone()] } else { both.into() }
}

/// Parts that add up to one: fractions where all look like some, else decimals of which the largest takes the rounding.
pub fn weights(list: &[f64]) -> Vec<Rational> {
    let sum: f64 = list.iter().sum();
    let fractions: Option<Vec<Rational>> = list.iter().map(|part| recognise(part / sum)).collect();
    if let Some(fractions) = fractions.filter(|fractions| fractions.iter().sum::<Rational>() == Rational::ONE) {
        return fractions;
    }
    let mut parts: Vec<Rational> = list.iter().map(|part| decimal(part / sum)).collect();
    let off = &Rational::ONE - &parts.iter().sum::<Rational>();
    if let Some(largest) = (0..parts.len()).max_by(|a, b| list[*a].total_cmp(&list[*b])) {
        parts[largest] += &off;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn small_fractions_are_known_again(p in 0_i64..5000, q in 1_i64..=2000) {
            prop_assert_eq!(recognise(p as f64 / q as f64), Rational::new(p, q));
        }

        #[test]
        fn parts_add_up_to_one(list in proptest::collection::vec(1e-3_f64..1.0, 1..12)) {
            let parts = weights(&list);
            prop_assert_eq!(parts.iter().sum::<Rational>(), Rational::ONE);
            let sum: f64 = list.iter().sum();
            for (part, float) in parts.iter().zip(&list) {
                prop_assert!(part.is_positive() && (part.to_f64() - float / sum).abs() < 1e-8);
            }
        }

        #[test]
        fn prices_are_never_below_zero(list in proptest::collection::vec(-1e-9_f64..3.0, 1..12)) {
            for prices in prices(&list) {
                for (price, float) in prices.iter().zip(&list) {
                    prop_assert!(!price.is_negative() && (price.to_f64() - float).abs() < 1e-8);
                }
            }
        }
    }

    #[test]
    fn what_is_no_small_fraction_is_none() {
        for number in [std::f64::consts::PI, f64::NAN, f64::INFINITY, 1e300, 0.123_456_789_012] {
            assert_eq!(recognise(number), None);
        }
    }
}
