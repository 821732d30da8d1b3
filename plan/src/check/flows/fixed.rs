//! The numbers that replays of flows count in: whole multiples of 2⁻⁷⁶, from 0 to below 2⁵¹.
//!
//! Floats decide nothing here, and fractions would grow longer with every event. Sizes, rates and weights come in as parts of
//! the largest of their kind, at least 2⁻³² of it, so that 44 bits of each count. An operation rounds down by less than one unit
//! in the last place: after ten thousand of them in a row a figure is still within 10⁴ · 2⁻⁴⁴ < 10⁻⁹ of the exact one. What does
//! not fit is [`OutOfRange`], never a wrong number.

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;
use sluice_formats::quantity::Rational;

/// Bits behind the point.
const BITS: u32 = 76;
/// Every number is below this multiple of 2⁻⁷⁶, which leaves a bit for sums.
const LIMIT: u128 = 1 << 127;
/// A size, a rate or a weight is at least this multiple of 2⁻⁷⁶: 2⁻³² of the largest.
const SMALLEST_PART: u128 = 1 << (BITS - 32);
/// A rate that a rule makes is at least this multiple of 2⁻⁷⁶: 24 bits of it count.
const SMALLEST_RATE: u128 = 1 << 24;

/// A number that is not below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed(u128);

/// A number that is too large, too small, or divided by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

type Checked = Result<Fixed, OutOfRange>;

impl Fixed {
    /// 0, the sum of nothing.
    pub const ZERO: Fixed = Fixed(0);
    /// 1, the largest of a kind.
    pub const ONE: Fixed = Fixed(1 << BITS);
    /// The largest number, which stands for "never".
    pub const MOST: Fixed = Fixed(LIMIT - 1);

    fn within(value: u128) -> Checked {
        if value < LIMIT { Ok(Fixed(value)) } else { Err(OutOfRange) }
    }
    /// The number, rounded down.
    pub fn floor(value: &Rational) -> Checked {
        if value.is_negative() {
            return Err(OutOfRange);
        }
        let scaled: BigInt = (value.numerator() << BITS) / value.denominator();
        Fixed::within(scaled.to_u128().ok_or(OutOfRange)?)
    }
    /// A size, a rate or a weight as part of the `largest` of its kind, rounded down.
    pub fn part(value: &Rational, largest: &Rational) -> Checked {
        let part = Fixed::floor(&value.checked_div(largest).ok_or(OutOfRange)?)?;
        if part.0 < SMALLEST_PART { Err(OutOfRange) } else { Ok(part) }
    }
    /// The exact fraction that it stands for.
    pub fn value(self) -> Rational {
        Rational::from_big(self.0.into(), BigInt::from(1_u128 << BITS)).unwrap_or(Rational::ZERO)
    }
    /// Is it zero?
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The rate that it is, if enough of its bits count.
    pub fn as_rate(self) -> Checked {
        if self.0 < SMALLEST_RATE { Err(OutOfRange) } else { Ok(self) }
    }

    /// The sum.
    pub fn plus(self, other: Fixed) -> Checked {
        Fixed::within(self.0 + other.0)
    }
    /// What is left when `other` is taken away: nothing where that is more.
    pub fn less(self, other: Fixed) -> Fixed {
        Fixed(self.0.saturating_sub(other.0))
    }
    /// The product, rounded down.
    pub fn times(self, other: Fixed) -> Checked {
        let (high, low) = wide(self.0, other.0);
        if high >> (BITS - 1) != 0 {
            return Err(OutOfRange);
        }
        Ok(Fixed((high << (128 - BITS)) | (low >> BITS)))
    }
    /// The quotient, rounded down.
    pub fn over(self, by: Fixed) -> Checked {
        if by.0 == 0 {
            return Err(OutOfRange);
        }
        // Schoolbook division, as many bits at a time as the divisor leaves room for; at least one, as it is below 2¹²⁷.
        let (mut quotient, mut rest, mut bits) = (self.0 / by.0, self.0 % by.0, BITS);
        while bits > 0 {
            let step = by.0.leading_zeros().min(bits);
            if quotient.leading_zeros() < step {
                return Err(OutOfRange);
            }
            rest <<= step;
            quotient = (quotient << step) | (rest / by.0);
            rest %= by.0;
            bits -= step;
        }
        Fixed::within(quotient)
    }
    /// One of so many equal parts, rounded down; none of no parts.
    pub fn nth(self, parts: u64) -> Fixed {
        Fixed(self.0.checked_div(parts.into()).unwrap_or(0))
    }
    /// It and so many units in the last place more; the largest number where that is too much.
    pub fn up(self, units: u64) -> Fixed {
        Fixed((self.0 + u128::from(units)).min(LIMIT - 1))
    }
    /// The largest number that counts as the same, within one part of so many and one unit in the last place.
    pub fn about(self, parts: u64) -> Fixed {
        Fixed((self.0 + self.nth(parts).0).min(LIMIT - 2)).up(1)
    }
}

/// The product of two numbers below 2¹²⁷: what is above its lowest 128 bits, and these.
fn wide(a: u128, b: u128) -> (u128, u128) {
    const HALF: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & HALF, b >> 64, b & HALF);
    let low = a_low * b_low;
    let one = a_high * b_low + (low >> 64);
    let two = a_low * b_high + (one & HALF);
    (a_high * b_high + (one >> 64) + (two >> 64), (two << 64) | (low & HALF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of every length.
    fn numbers() -> impl Strategy<Value = Fixed> {
        (any::<u128>(), 1_u32..128).prop_map(|(value, shift)| Fixed(value >> shift))
    }

    proptest! {
        #[test]
        fn operations_round_exact_results_down(a in numbers(), b in numbers(), parts: u64) {
            let floor = Fixed::floor;
            prop_assert_eq!(a.plus(b), floor(&(&a.value() + &b.value())));
            prop_assert_eq!(a.times(b), floor(&(&a.value() * &b.value())));
            if !b.is_zero() {
                prop_assert_eq!(a.over(b), floor(&(&a.value() / &b.value())));
            }
            if parts > 0 {
                prop_assert_eq!(Ok(a.nth(parts)), floor(&(&a.value() / &Rational::from(parts))));
            }
            prop_assert_eq!(a.less(b), floor(&(&a.value() - &b.value())).unwrap_or(Fixed::ZERO));
            prop_assert_eq!(floor(&a.value()), Ok(a));
            prop_assert!(a.about(1 << 40) > a || a == Fixed::MOST);
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let of = |text: &str| Rational::parse(text).expect(text);
        assert_eq!(Fixed::floor(&of("1")), Ok(Fixed::ONE));
        assert_eq!(Fixed::floor(&of("-1")), Err(OutOfRange));
        assert_eq!(Fixed::floor(&Rational::from(1 << 51)), Err(OutOfRange));
        assert!(Fixed::floor(&Rational::from((1 << 51) - 1)).is_ok());
        assert_eq!(Fixed::ONE.over(Fixed::ZERO), Err(OutOfRange));
        assert_eq!(Fixed::ONE.nth(0), Fixed::ZERO);
        assert_eq!(Fixed::MOST.plus(Fixed::ONE), Err(OutOfRange));
        assert_eq!([Fixed::MOST.up(9), Fixed::MOST.about(1)], [Fixed::MOST; 2]);
        assert!(Fixed::part(&of("1"), &of("4294967296")).is_ok());
        assert_eq!(Fixed::part(&of("1"), &of("4294967297")), Err(OutOfRange));
        assert_eq!(Fixed::part(&of("1"), &of("0")), Err(OutOfRange));
        assert_eq!([Fixed::ZERO.as_rate(), Fixed::ONE.as_rate()], [Err(OutOfRange), Ok(Fixed::ONE)]);
    }
}
