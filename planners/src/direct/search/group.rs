//! The groups that are searched: cyclic, and metacyclic ones, which are two cyclic groups twisted together.

/// An element (i, j) of a [`Group`]; j is 0 throughout a cyclic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Element {
    pub i: u32,
    pub j: u32,
}

impl Element {
    pub(super) const ONE: Element = Element { i: 0, j: 0 };
}

/// The a·b pairs (i, j) with the product (i, j)(k, l) = (i + rʲ·k + c·[j+l ≥ b] mod a, j+l mod b).
///
/// With b = 1 it is the cyclic group of order a. It is a group where r^b ≡ 1 and r·c ≡ c (mod a).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub a: u32,
    pub b: u32,
    pub r: u32,
    pub c: u32,
    /// rʲ mod a for every j.
    powers: Vec<u32>,
}

impl Group {
    pub(super) fn cyclic(n: u32) -> Group {
        Group { a: n, b: 1, r: 1 % n.max(1), c: 0, powers: vec![1 % n.max(1)] }
    }
    /// `None` where these numbers make no group.
    pub(super) fn metacyclic(a: u32, b: u32, r: u32, c: u32) -> Option<Group> {
        if a == 0 || b == 0 || r >= a.max(2) || c >= a {
            return None;
        }
        let times = |x: u32, y: u32| (u64::from(x) * u64::from(y) % u64::from(a)) as u32;
        let mut powers = Vec::with_capacity(b as usize);
        let mut power = 1 % a;
        for _ in 0..b {
            powers.push(power);
            power = times(power, r);
        }
        (power == 1 % a && times(r, c) == c).then_some(Group { a, b, r, c, powers })
    }
    pub(super) fn order(&self) -> u32 {
        self.a * self.b
    }
    pub(super) fn is_cyclic(&self) -> bool {
        self.b == 1
    }
    pub(super) fn times(&self, x: Element, y: Element) -> Element {
        let (a, wraps) = (u64::from(self.a), x.j + y.j >= self.b);
        let power = u64::from(self.powers[x.j as usize]);
        let i = (u64::from(x.i) + power * u64::from(y.i) + if wraps { u64::from(self.c) } else { 0 }) % a;
        Element { i: i as u32, j: if wraps { x.j + y.j - self.b } else { x.j + y.j } }
    }
    pub(super) fn inverse(&self, x: Element) -> Element {
        let j = if x.j == 0 { 0 } else { self.b - x.j };
        // (0, j) carries x to (i, 0); what is left is a power of the first generator.
        let rest = self.times(x, Element { i: 0, j });
        self.times(Element { i: 0, j }, Element { i: (self.a - rest.i) % self.a, j: 0 })
    }
    /// (i, j) ↦ (u·i, j): an automorphism where u is prime to a and u·c ≡ c (mod a).
    pub(super) fn stretched(&self, x: Element, u: u32) -> Element {
        Element { i: (u64::from(x.i) * u64::from(u) % u64::from(self.a)) as u32, j: x.j }
    }
    /// What multiplying by `s` from the right adds to i in row j, and the row it leads to.
    pub(super) fn steps(&self, s: Element) -> impl Iterator<Item = (u32, u32)> {
        (0..self.b).map(move |j| {
            let there = self.times(Element { i: 0, j }, s);
            (there.i, there.j)
        })
    }
    /// The factors u, prime to a, by which [`Group::stretched`] is an automorphism of order 2 to `most`.
    pub(super) fn stretches(&self, most: u32) -> Vec<u32> {
        let times = |x: u32, y: u32| (u64::from(x) * u64::from(y) % u64::from(self.a)) as u32;
        let order = |u: u32| {
            let powers = std::iter::successors(Some(u), |&power| Some(times(power, u)));
            powers.take(most as usize).position(|power| power == 1).map(|place| place + 1)
        };
        (2..self.a).filter(|&u| gcd(u, self.a) == 1 && times(u, self.c) == self.c && order(u).is_some()).collect()
    }
    /// Metacyclic groups of order `n` that are not plainly one another's twins; the cyclic one is not among them.
    pub(super) fn all(n: u32) -> Vec<Group> {
        let mut groups = Vec::new();
        for b in (2..=n / 2).filter(|b| n.is_multiple_of(*b)) {
            let a = n / b;
            for r in (1..a).filter(|&r| gcd(r, a) == 1) {
                // r·c ≡ c holds for the multiples of a/g; a unit times a multiple gives the same group.
                let g = gcd(r - 1, a);
                let twists = (1..=g).filter(|m| g.is_multiple_of(*m)).map(|m| m * (a / g) % a);
                groups.extend(twists.filter_map(|c| Group::metacyclic(a, b, r, c)));
            }
        }
        groups
    }
    /// The Cayley graph of these generators as an expression.
    pub(super) fn expression(&self, generators: &[Element]) -> String {
        if self.is_cyclic() {
            let offsets: Vec<String> = generators.iter().map(|s| s.i.to_string()).collect();
            return format!("DC({},{{{}}})", self.a, offsets.join(","));
        }
        let pairs: Vec<String> = generators.iter().map(|s| format!("({},{})", s.i, s.j)).collect();
        format!("MC({},{},{},{};{})", self.a, self.b, self.r, self.c, pairs.join(","))
    }
}

pub(super) fn gcd(mut x: u32, mut y: u32) -> u32 {
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(group: &Group) -> Vec<Element> {
        (0..group.a).flat_map(|i| (0..group.b).map(move |j| Element { i, j })).collect()
    }

    #[test]
    fn every_listed_group_is_one() {
        for group in (4..=24).flat_map(|n| Group::all(n).into_iter().chain([Group::cyclic(n)])) {
            let all = elements(&group);
            for &x in &all {
                assert_eq!(group.times(x, group.inverse(x)), Element::ONE, "{group:?} {x:?}");
                assert_eq!(group.times(group.inverse(x), x), Element::ONE, "{group:?} {x:?}");
                for &y in &all {
                    for &z in all.iter().take(7) {
                        let (left, right) = (group.times(group.times(x, y), z), group.times(x, group.times(y, z)));
                        assert_eq!(left, right, "{group:?} {x:?} {y:?} {z:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn stretches_are_automorphisms() {
        for group in [4, 12, 16, 21].into_iter().flat_map(Group::all) {
            let all = elements(&group);
            for u in group.stretches(4) {
                for &x in &all {
                    for &y in &all {
                        let stretched = group.times(group.stretched(x, u), group.stretched(y, u));
                        assert_eq!(stretched, group.stretched(group.times(x, y), u), "{group:?} by {u}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_make_no_group_are_refused() {
        assert!(Group::metacyclic(8, 2, 3, 4).is_some());
        assert!(Group::metacyclic(8, 2, 3, 1).is_none(), "3·1 is not 1 modulo 8");
        assert!(Group::metacyclic(7, 2, 2, 0).is_none(), "2² is not 1 modulo 7");
    }
}
