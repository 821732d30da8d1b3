//! Sets of jobs as words of bits.

/// The words that a set of numbers below `count` takes.
pub fn words(count: usize) -> usize {
    count.div_ceil(64)
}

/// Is the number in the set?
pub fn has(set: &[u64], number: usize) -> bool {
    set[number / 64] >> (number % 64) & 1 == 1
}

/// Puts the number into the set.
pub fn insert(set: &mut [u64], number: usize) {
    set[number / 64] |= 1 << (number % 64);
}

/// Takes the number out of the set.
pub fn remove(set: &mut [u64], number: usize) {
    set[number / 64] &= !(1 << (number % 64));
}

/// The number in the set with the least key, of equal keys the least number.
pub fn first_by(set: &[u64], key: impl Fn(usize) -> f64) -> Option<usize> {
    let mut least: Option<(f64, usize)> = None;
    for number in numbers(set.iter().copied()) {
        let key = key(number);
        if least.is_none_or(|(known, _)| key < known) {
            least = Some((key, number));
        }
    }
    least.map(|(_, number)| number)
}

/// Takes the least number out of the set.
pub fn pop(set: &mut [u64]) -> Option<usize> {
    let (at, word) = set.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
    let bit = word.trailing_zeros() as usize;
    *word &= *word - 1;
    Some(64 * at + bit)
}

/// The numbers in the set, ascending.
pub fn numbers(set: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    set.enumerate().flat_map(|(at, mut word)| {
        std::iter::from_fn(move || {
            (word != 0).then(|| {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                64 * at + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_in_order() {
        let mut set = vec![0; words(130)];
        for number in [129, 0, 64, 63] {
            insert(&mut set, number);
        }
        assert!(has(&set, 64) && !has(&set, 65));
        assert_eq!(numbers(set.iter().copied()).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(std::iter::from_fn(|| pop(&mut set)).collect::<Vec<_>>(), [0, 63, 64, 129]);
    }
}
