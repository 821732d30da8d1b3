//! Rates that files give in Gbit/s, as whole bits per second.

use super::Rational;

/// A number that is no rate in Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a rate of 0 to 18446744073 Gbit/s")]
pub struct NotARate;

/// A number of Gbit/s in bits per second, rounded once, half to even. A float stands for the decimal it prints as.
///
/// # Errors
/// [`NotARate`] below zero, for more bits per second than 64 bits hold, and for a float that is no number.
pub fn gbps(number: impl TryInto<Rational>) -> Result<u64, NotARate> {
    let number = number.try_into().map_err(|_| NotARate)?;
    number.to_units(1_000_000_000).ok_or(NotARate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_rounded_once_half_to_even() {
        let of = |text: &str| gbps(Rational::parse(text).expect(text));
        assert_eq!(of("25"), Ok(25_000_000_000));
        assert_eq!(of("1/3"), Ok(333_333_333));
        assert_eq!([of("0.0000000005"), of("0.0000000015")], [Ok(0), Ok(2)]);
        assert_eq!(of("18446744073.709551615"), Ok(u64::MAX));
        assert_eq!([of("18446744074"), of("-0.1")], [Err(NotARate); 2]);
    }

    #[test]
    fn a_float_is_the_decimal_it_prints_as() {
        assert_eq!(gbps(16.1), Ok(16_100_000_000));
        assert_eq!(gbps(0.000000000123), Ok(0));
        assert_eq!(gbps(1.000000001), Ok(1_000_000_001));
        assert_eq!([f64::NAN, f64::INFINITY, -1.0, 1e300].map(gbps), [Err(NotARate); 4]);
    }
}
