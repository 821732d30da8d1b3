//! The common denominator of many fractions, while it is small enough to be of use.
//!
//! Sums of fractions from a file have denominators that divide this one. Without a bound on it, a file of many
//! different long denominators would make every sum longer than the one before, until nothing moves any more.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::One as _;

use super::Rational;

/// Bits of a common denominator at most: enough for all fractions with denominators up to 2000 together.
const MAX_BITS: u64 = 4096;

/// The least common denominator; `None` if it has more than 4096 bits.
pub fn common_denominator<'a>(numbers: impl IntoIterator<Item = &'a Rational>) -> Option<BigInt> {
    let mut common = BigInt::one();
    for number in numbers {
        if number.is_integer() {
            continue;
        }
        let denominator = number.denominator();
        if !common.is_multiple_of(&denominator) {
            common = common.lcm(&denominator);
            if common.bits() > MAX_BITS {
                return None;
            }
        }
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fractions(denominators: impl Iterator<Item = i64>) -> Vec<Rational> {
        denominators.map(|q| Rational::new(1, q).expect("not over zero")).collect()
    }

    #[test]
    fn it_is_the_least_one() {
        assert_eq!(common_denominator(&fractions([4, 6, 1].into_iter())), Some(BigInt::from(12)));
        assert_eq!(common_denominator(&[]), Some(BigInt::one()));
    }

    #[test]
    fn it_ends_where_it_grows_without_end() {
        assert!(common_denominator(&fractions(1..=2000)).is_some());
        assert_eq!(common_denominator(&fractions(1..=10_000)), None);
    }
}
