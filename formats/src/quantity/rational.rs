//! Exact fractions: two `i64` while they fit, big integers beyond.
//!
//! Almost every number of a plan is a small fraction, and a checker adds millions of them; big integers alone would
//! make each addition an allocation. Sums and products of two small fractions are formed in `i128`, where they cannot
//! overflow. The small form is used whenever it fits, so equal numbers are equal in memory and hash alike.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};
use std::str::FromStr;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

/// Digits of a number in a text at most: enough for every unit of the formats, too few to be a burden.
const MAX_DIGITS: usize = 256;
/// The largest power of ten that an exponent may ask for.
const MAX_EXPONENT: u64 = 256;

/// An exact fraction of whole numbers of any size.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rational(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// In lowest terms, denominator positive, numerator not `i64::MIN`.
    Small(i64, i64),
    /// In lowest terms; only what does not fit the small form.
    Big(Box<BigRational>),
}

/// A text that is no decimal and no fraction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal number and not a fraction p/q")]
pub struct NotANumber;

impl Rational {
    /// 0, the sum of nothing.
    pub const ZERO: Rational = Rational(Form::Small(0, 1));
    /// 1, the product of nothing.
    pub const ONE: Rational = Rational(Form::Small(1, 1));

    /// The fraction `p/q`; `None` if `q` is zero.
    pub fn new(p: impl Into<i128>, q: impl Into<i128>) -> Option<Rational> {
        let (p, q) = (p.into(), q.into());
        if q == 0 { None } else { Some(Rational::reduce(p, q)) }
    }
    /// The fraction `p/q` of big integers; `None` if `q` is zero.
    pub fn from_big(p: BigInt, q: BigInt) -> Option<Rational> {
        if q.is_zero() { None } else { Some(Rational::shrink(BigRational::new(p, q))) }
    }
    /// Numerator, carrying the sign.
    pub fn numerator(&self) -> BigInt {
        match &self.0 {
            Form::Small(p, _) => BigInt::from(*p),
            Form::Big(big) => big.numer().clone(),
        }
    }
    /// Denominator, positive, in lowest terms.
    pub fn denominator(&self) -> BigInt {
        match &self.0 {
            Form::Small(_, q) => BigInt::from(*q),
            Form::Big(big) => big.denom().clone(),
        }
    }
    /// Numerator and denominator where both fit an `i128`.
    pub fn parts(&self) -> Option<(i128, i128)> {
        match &self.0 {
            Form::Small(p, q) => Some(((*p).into(), (*q).into())),
            Form::Big(big) => Some((big.numer().to_i128()?, big.denom().to_i128()?)),
        }
    }
    /// The value if it is a whole number that fits.
    pub fn to_u64(&self) -> Option<u64> {
        match &self.0 {
            Form::Small(p, 1) => u64::try_from(*p).ok(),
            Form::Small(..) => None,
            Form::Big(big) if big.is_integer() => big.numer().to_u64(),
            Form::Big(_) => None,
        }
    }
    /// The nearest float, for showing to people only.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Form::Small(p, q) => *p as f64 / *q as f64,
            Form::Big(big) => big.to_f64().unwrap_or(f64::NAN),
        }
    }
    /// Is it a whole number?
    pub fn is_integer(&self) -> bool {
        match &self.0 {
            Form::Small(_, q) => *q == 1,
            Form::Big(big) => big.is_integer(),
        }
    }
    /// Is it exactly zero?
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Form::Small(0, _))
    }
    /// Is it above zero?
    pub fn is_positive(&self) -> bool {
        match &self.0 {
            Form::Small(p, _) => *p > 0,
            Form::Big(big) => big.is_positive(),
        }
    }
    /// Is it below zero?
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Form::Small(p, _) => *p < 0,
            Form::Big(big) => big.is_negative(),
        }
    }
    /// One over it; `None` for zero.
    pub fn recip(&self) -> Option<Rational> {
        match &self.0 {
            Form::Small(0, _) => None,
            Form::Small(p, q) if *p < 0 => Some(Rational(Form::Small(-q, -p))),
            Form::Small(p, q) => Some(Rational(Form::Small(*q, *p))),
            Form::Big(big) => Some(Rational::shrink(big.recip())),
        }
    }
    /// The quotient; `None` if `by` is zero.
    pub fn checked_div(&self, by: &Rational) -> Option<Rational> {
        Some(self * &by.recip()?)
    }
    /// Ten to this power.
    fn ten_to(power: u32) -> BigInt {
        BigInt::from(10).pow(power)
    }

    /// Reads a decimal (`12`, `-0.25`) or a fraction of whole numbers (`7/2`); no exponent, no blanks.
    ///
    /// # Errors
    /// [`NotANumber`] for everything else, for a denominator of zero and for more than 256 digits.
    pub fn parse(text: &str) -> Result<Rational, NotANumber> {
        match text.split_once('/') {
            None => Rational::decimal(text),
            Some((p, q)) => {
                let (p, q) = (whole(p)?, whole(q)?);
                if q.is_negative() { Err(NotANumber) } else { Rational::from_big(p, q).ok_or(NotANumber) }
            }
        }
    }

    /// Reads the text of a JSON number, which may have an exponent.
    ///
    /// # Errors
    /// [`NotANumber`] for everything else and for exponents beyond ±256.
    pub fn parse_json_number(text: &str) -> Result<Rational, NotANumber> {
        let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return Rational::decimal(text) };
        let exponent: i64 = exponent.parse().map_err(|_| NotANumber)?;
        // The least number has no absolute value.
        if exponent.unsigned_abs() > MAX_EXPONENT {
            return Err(NotANumber);
        }
        let power = Rational::shrink(Rational::ten_to(exponent.unsigned_abs() as u32).into());
        let mantissa = Rational::decimal(mantissa)?;
        if exponent < 0 { mantissa.checked_div(&power).ok_or(NotANumber) } else { Ok(&mantissa * &power) }
    }

    /// Reads a number as people write it into a file of settings: a decimal, also with an exponent or a plus, or a
    /// fraction of two such numbers; blanks around them.
    ///
    /// # Errors
    /// [`NotANumber`] for everything else, `inf` and `nan` among it, and for a denominator of zero.
    pub fn parse_setting(text: &str) -> Result<Rational, NotANumber> {
        let number = |text: &str| Rational::parse_json_number(text.trim().strip_prefix('+').unwrap_or(text.trim()));
        match text.split_once('/') {
            None => number(text),
            Some((p, q)) => number(p)?.checked_div(&number(q)?).ok_or(NotANumber),
        }
    }

    /// This times `unit`, rounded half to even; `None` below zero and above [`u64::MAX`].
    pub fn to_units(&self, unit: u64) -> Option<u64> {
        let scaled = self * &Rational::shrink(BigInt::from(unit).into());
        let (p, q) = (scaled.numerator(), scaled.denominator());
        let (whole, rest) = p.div_rem(&q);
        let up = match (rest * 2_u8).cmp(&q) {
            Ordering::Less => false,
            Ordering::Equal => whole.is_odd(),
            Ordering::Greater => true,
        };
        (whole + u8::from(up)).to_u64().filter(|_| !self.is_negative())
    }

    fn decimal(text: &str) -> Result<Rational, NotANumber> {
        let Some((before, after)) = text.split_once('.') else {
            return Ok(Rational::shrink(whole(text)?.into()));
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(before.strip_prefix('-').unwrap_or(before)) || !digits(after) {
            return Err(NotANumber);
        }
        let numerator = whole(&format!("{before}{after}"))?;
        Rational::from_big(numerator, Rational::ten_to(after.len() as u32)).ok_or(NotANumber)
    }

    /// `p/q` in lowest terms; `q` is not zero.
    fn reduce(p: i128, q: i128) -> Rational {
        let divisor = gcd(p.unsigned_abs(), q.unsigned_abs()) as i128;
        // A divisor of 2¹²⁷ would be negative here; p and q are sums of products of two i64 and far below.
        let (p, q) = if divisor > 1 { (p / divisor, q / divisor) } else { (p, q) };
        let fits = |value: i128| i64::try_from(value).ok().filter(|value| *value != i64::MIN);
        match (fits(p), fits(q)) {
            (Some(p), Some(q)) if q > 0 => Rational(Form::Small(p, q)),
            (Some(p), Some(q)) => Rational(Form::Small(-p, -q)),
            _ => Rational::shrink(BigRational::new(p.into(), q.into())),
        }
    }

    fn shrink(big: BigRational) -> Rational {
        match (big.numer().to_i64(), big.denom().to_i64()) {
            (Some(p), Some(q)) if p != i64::MIN => Rational(Form::Small(p, q)),
            _ => Rational(Form::Big(Box::new(big))),
        }
    }

    fn grow(&self) -> BigRational {
        match &self.0 {
            Form::Small(p, q) => BigRational::new_raw((*p).into(), (*q).into()),
            Form::Big(big) => (**big).clone(),
        }
    }
}

/// A whole number: an optional minus and digits.
fn whole(text: &str) -> Result<BigInt, NotANumber> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NotANumber);
    }
    text.parse().map_err(|_| NotANumber)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        // Most fractions fit 64 bits, where a division costs a tenth.
        if let (Ok(x), Ok(y)) = (u64::try_from(a), u64::try_from(b)) {
            return u128::from(num_integer::gcd(x, y));
        }
        (a, b) = (b, a % b);
    }
    a
}

impl Add for &Rational {
    type Output = Rational;
    fn add(self, other: &Rational) -> Rational {
        match (&self.0, &other.0) {
            (Form::Small(a, 1), Form::Small(b, 1)) => match a.checked_add(*b) {
                Some(sum) if sum != i64::MIN => Rational(Form::Small(sum, 1)),
                _ => Rational::reduce(i128::from(*a) + i128::from(*b), 1),
            },
            (Form::Small(a, b), Form::Small(c, d)) if b == d => {
                Rational::reduce(i128::from(*a) + i128::from(*c), i128::from(*b))
            }
            (Form::Small(a, b), Form::Small(c, d)) => {
                let (a, b, c, d) = (i128::from(*a), i128::from(*b), i128::from(*c), i128::from(*d));
                Rational::reduce(a * d + c * b, b * d)
            }
            _ => Rational::shrink(self.grow() + other.grow()),
        }
    }
}

impl Mul for &Rational {
    type Output = Rational;
    fn mul(self, other: &Rational) -> Rational {
        match (&self.0, &other.0) {
            (Form::Small(a, b), Form::Small(c, d)) => {
                Rational::reduce(i128::from(*a) * i128::from(*c), i128::from(*b) * i128::from(*d))
            }
            _ => Rational::shrink(self.grow() * other.grow()),
        }
    }
}

impl Neg for &Rational {
    type Output = Rational;
    fn neg(self) -> Rational {
        match &self.0 {
            Form::Small(p, q) => Rational(Form::Small(-p, *q)),
            Form::Big(big) => Rational::shrink(-(**big).clone()),
        }
    }
}

impl Sub for &Rational {
    type Output = Rational;
    fn sub(self, other: &Rational) -> Rational {
        self + &-other
    }
}

/// Panics if the divisor is zero, as integers do; [`Rational::checked_div`] does not.
impl Div for &Rational {
    type Output = Rational;
    #[allow(clippy::panic, reason = "as the language's own division does")]
    fn div(self, other: &Rational) -> Rational {
        match self.checked_div(other) {
            Some(quotient) => quotient,
            None => panic!("division of a fraction by zero"),
        }
    }
}

impl AddAssign<&Rational> for Rational {
    fn add_assign(&mut self, other: &Rational) {
        *self = &*self + other;
    }
}

impl<'a> Sum<&'a Rational> for Rational {
    fn sum<I: Iterator<Item = &'a Rational>>(terms: I) -> Rational {
        terms.fold(Rational::ZERO, |sum, term| &sum + term)
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Rational) -> Ordering {
        match (&self.0, &other.0) {
            (Form::Small(a, b), Form::Small(c, d)) => {
                (i128::from(*a) * i128::from(*d)).cmp(&(i128::from(*c) * i128::from(*b)))
            }
            _ => self.grow().cmp(&other.grow()),
        }
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Rational) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<u64> for Rational {
    fn from(value: u64) -> Rational {
        Rational::reduce(i128::from(value), 1)
    }
}

/// The decimal that the float prints as, so that 0.1 is a tenth.
impl TryFrom<f64> for Rational {
    type Error = NotANumber;
    fn try_from(value: f64) -> Result<Rational, NotANumber> {
        Rational::parse_json_number(&format!("{value:e}"))
    }
}

impl FromStr for Rational {
    type Err = NotANumber;
    fn from_str(text: &str) -> Result<Rational, NotANumber> {
        Rational::parse(text)
    }
}

impl fmt::Display for Rational {
    /// `7/2`, or `3` for a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Small(p, 1) => write!(f, "{p}"),
            Form::Small(p, q) => write!(f, "{p}/{q}"),
            Form::Big(big) => write!(f, "{big}"),
        }
    }
}

impl fmt::Debug for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
