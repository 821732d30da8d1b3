//! A share of long work: one of several commands that each do a part, on machines that need not know of each other.

use std::fmt;

/// Shares at most.
const MOST: usize = 10_000;

/// The share `I/N`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Is item `index`, counted from 0, in this share? Every item is in exactly one; neighbours are in different ones, since
    /// what is next to each other takes about as long.
    pub fn takes(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Reads `I/N`.
///
/// # Errors
/// A sentence with the value seen and what is allowed.
pub fn shard(text: &str) -> Result<Shard, String> {
    let read = || {
        let (number, of) = text.split_once('/')?;
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        ((1..=MOST).contains(&of) && (1..=of).contains(&number)).then_some(Shard { number, of })
    };
    read().ok_or_else(|| format!("`{text}` is no share; write I/N with I from 1 to N and N at most {MOST}, as in 2/8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_exactly_one_share() {
        for of in 1..9 {
            let shards: Vec<Shard> = (1..=of).map(|i| shard(&format!("{i}/{of}")).expect("a share")).collect();
            for index in 0..40 {
                assert_eq!(shards.iter().filter(|shard| shard.takes(index)).count(), 1, "{index} of {of}");
            }
        }
        for wrong in ["", "1", "0/2", "3/2", "1/0", "a/2", "-1/2", "1/10001"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
        assert_eq!(shard("2/8").expect("a share").to_string(), "2/8");
    }
}
