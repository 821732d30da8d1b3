//! Exact numbers of a scenario file: decimals and fractions as ratios of integers, rounded once, half to even.
//!
//! Floats enter nowhere between the file and the nanosecond, so two readers of one file agree to the bit.

use std::cmp::Ordering;
use std::fmt;

/// A non-negative rational number in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    num: u128,
    den: u128,
}

/// Why a text is no [`Ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotExact {
    /// Not a decimal and not a fraction.
    Form,
    /// Below zero.
    Negative,
    /// Infinite, not a number, a denominator of zero, or more digits than 128 bits carry.
    Range,
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };
    /// One.
    pub const ONE: Ratio = Ratio { num: 1, den: 1 };

    /// `num / den`; `None` when `den` is zero.
    pub fn new(num: u128, den: u128) -> Option<Ratio> {
        if den == 0 {
            return None;
        }
        let g = gcd(num, den).max(1);
        Some(Ratio { num: num / g, den: den / g })
    }

    /// A whole number.
    pub const fn whole(n: u64) -> Ratio {
        Ratio { num: n as u128, den: 1 }
    }

    /// Reads `"12"`, `"0.25"`, `"1e-3"`, `"1/3"`.
    ///
    /// # Errors
    /// [`NotExact`] says whether the form, the sign or the size is wrong.
    pub fn parse(text: &str) -> Result<Ratio, NotExact> {
        let text = text.trim();
        match text.split_once('/') {
            Some((a, b)) => {
                let (a, b) = (decimal(a.trim())?, decimal(b.trim())?);
                let num = a.num.checked_mul(b.den).ok_or(NotExact::Range)?;
                let den = a.den.checked_mul(b.num).ok_or(NotExact::Range)?;
                Ratio::new(num, den).ok_or(NotExact::Range)
            }
            None => decimal(text),
        }
    }

    /// The product; `None` when it does not fit.
    pub fn times(self, other: Ratio) -> Option<Ratio> {
        let (g, h) = (gcd(self.num, other.den).max(1), gcd(other.num, self.den).max(1));
        let num = (self.num / g).checked_mul(other.num / h)?;
        let den = (self.den / h).checked_mul(other.den / g)?;
        Ratio::new(num, den)
    }

    /// The quotient; `None` when it does not fit or `other` is zero.
    pub fn over(self, other: Ratio) -> Option<Ratio> {
        if other.num == 0 {
            return None;
        }
        self.times(Ratio { num: other.den, den: other.num })
    }

    /// This times `unit`, rounded half to even; `None` above `u64::MAX`.
    pub fn to_u64(self, unit: u64) -> Option<u64> {
        let scaled = self.times(Ratio::whole(unit))?;
        let (q, r) = (scaled.num / scaled.den, scaled.num % scaled.den);
        let up = match r.checked_mul(2)?.cmp(&scaled.den) {
            Ordering::Less => 0,
            Ordering::Greater => 1,
            Ordering::Equal => q & 1,
        };
        u64::try_from(q + up).ok()
    }

    /// The whole number this is, if it is one that fits.
    pub fn as_whole(self) -> Option<u64> {
        if self.den == 1 { u64::try_from(self.num).ok() } else { None }
    }

    /// The nearest float.
    pub fn as_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// True for zero.
    pub const fn is_zero(self) -> bool {
        self.num == 0
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        match (self.num.checked_mul(other.den), other.num.checked_mul(self.den)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => self.as_f64().total_cmp(&other.as_f64()).then(self.num.cmp(&other.num)),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 { write!(f, "{}", self.num) } else { write!(f, "{}", self.as_f64()) }
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn decimal(text: &str) -> Result<Ratio, NotExact> {
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    if matches!(body.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan") {
        return Err(NotExact::Range);
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((m, e)) => (m, exponent(e)?),
        None => (body, 0),
    };
    let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || int.bytes().chain(frac.bytes());
    if digits().next().is_none() || !digits().all(|b| b.is_ascii_digit()) {
        return Err(NotExact::Form);
    }
    let mut num: u128 = 0;
    for b in digits() {
        num = num.checked_mul(10).and_then(|n| n.checked_add(u128::from(b - b'0'))).ok_or(NotExact::Range)?;
    }
    if num == 0 {
        return Ok(Ratio::ZERO);
    }
    if negative {
        return Err(NotExact::Negative);
    }
    let places = i64::try_from(frac.len()).map_err(|_| NotExact::Range)?;
    let shift = exponent - places;
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|p| 10u128.checked_pow(p)).ok_or(NotExact::Range)?;
    let ratio = if shift >= 0 { num.checked_mul(power).and_then(|n| Ratio::new(n, 1)) } else { Ratio::new(num, power) };
    ratio.ok_or(NotExact::Range)
}

fn exponent(text: &str) -> Result<i64, NotExact> {
    let digits = text.trim_start_matches(['+', '-']);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) || text.len() - digits.len() > 1 {
        return Err(NotExact::Form);
    }
    if digits.trim_start_matches('0').len() > 3 {
        return Err(NotExact::Range);
    }
    text.parse().map_err(|_| NotExact::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_and_fractions_are_exact() {
        assert_eq!(Ratio::parse("0.25"), Ok(Ratio { num: 1, den: 4 }));
        assert_eq!(Ratio::parse("1/3"), Ok(Ratio { num: 1, den: 3 }));
        assert_eq!(Ratio::parse("1e-3"), Ok(Ratio { num: 1, den: 1000 }));
        assert_eq!(Ratio::parse("2.5E3"), Ok(Ratio { num: 2500, den: 1 }));
        assert_eq!(Ratio::parse("-0"), Ok(Ratio::ZERO));
        assert_eq!(Ratio::parse("1/3").ok().and_then(|r| r.to_u64(1_000_000_000)), Some(333_333_333));
    }

    #[test]
    fn rounds_half_to_even() {
        assert_eq!(Ratio::parse("0.5").ok().and_then(|r| r.to_u64(1)), Some(0));
        assert_eq!(Ratio::parse("1.5").ok().and_then(|r| r.to_u64(1)), Some(2));
        assert_eq!(Ratio::parse("2.5").ok().and_then(|r| r.to_u64(1)), Some(2));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for (text, why) in [
            ("", NotExact::Form),
            ("x", NotExact::Form),
            ("1/0", NotExact::Range),
            ("1e400", NotExact::Range),
            ("1e99999999999999999999", NotExact::Range),
            ("-1", NotExact::Negative),
            ("nan", NotExact::Range),
            ("1e+-3", NotExact::Form),
            ("1.2.3", NotExact::Form),
        ] {
            assert_eq!(Ratio::parse(text), Err(why), "{text}");
        }
    }
}
