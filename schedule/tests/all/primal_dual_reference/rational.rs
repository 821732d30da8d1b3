//! Exact fractions, as many operations as the reference needs.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// A fraction in lowest terms with a positive denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q {
    num: i128,
    den: i128,
}

pub const ZERO: Q = Q { num: 0, den: 1 };
pub const ONE: Q = Q { num: 1, den: 1 };

impl Q {
    /// `num`/`den`, for a `den` above zero.
    pub fn new(num: i128, den: i128) -> Q {
        assert!(den != 0);
        let (num, den) = if den < 0 { (-num, -den) } else { (num, den) };
        let by = greatest_divisor(num.abs(), den).max(1);
        Q { num: num / by, den: den / by }
    }
    pub fn whole(n: u64) -> Q {
        Q { num: i128::from(n), den: 1 }
    }
    /// `None` if it is no natural number.
    pub fn natural(self) -> Option<u64> {
        u64::try_from(self.num).ok().filter(|_| self.den == 1)
    }
    /// The difference, or zero where that is negative: (a − b)₊.
    pub fn less(self, other: Q) -> Q {
        (self - other).max(ZERO)
    }
}

fn greatest_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Add for Q {
    type Output = Q;
    fn add(self, other: Q) -> Q {
        Q::new(self.num * other.den + other.num * self.den, self.den * other.den)
    }
}
impl Sub for Q {
    type Output = Q;
    fn sub(self, other: Q) -> Q {
        Q::new(self.num * other.den - other.num * self.den, self.den * other.den)
    }
}
impl Mul for Q {
    type Output = Q;
    fn mul(self, other: Q) -> Q {
        Q::new(self.num * other.num, self.den * other.den)
    }
}
impl Div for Q {
    type Output = Q;
    fn div(self, other: Q) -> Q {
        Q::new(self.num * other.den, self.den * other.num)
    }
}
impl PartialOrd for Q {
    fn partial_cmp(&self, other: &Q) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Q {
    fn cmp(&self, other: &Q) -> Ordering {
        (self.num * other.den).cmp(&(other.num * self.den))
    }
}
