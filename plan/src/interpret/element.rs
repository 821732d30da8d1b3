//! The elements of a program's XML: attributes as numbers, words and flags, within bounds.

use std::borrow::Cow;

use crate::plan::Collective;
use sluice_formats::problem::{E_KEY, E_LIMIT, E_MISSING, E_RANGE, Problem};

/// Ranks at most.
pub const MAX_RANKS: u32 = 1 << 16;
/// Steps at most, and blocks.
const MAX_STEPS: usize = 1 << 23;
/// Chunks of a buffer, channels, and every other number of a step at most.
pub const MAX_NUMBER: u32 = 1 << 24;

/// One mistake, boxed: most calls have none to give.
pub type Mistake = Box<Problem>;

/// The collective that a word of `coll` means, in either dialect.
pub fn collective(word: &str) -> Option<Collective> {
    let known = Collective::parse(word).or((word == "reducescatter").then_some(Collective::ReduceScatter))?;
    use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
    matches!(known, AllGather | AllReduce | AllToAll | Broadcast | Reduce | ReduceScatter).then_some(known)
}

/// Refuses more steps, or blocks, than there may be.
pub fn limit(count: usize, what: &str) -> Result<(), Mistake> {
    if count <= MAX_STEPS {
        return Ok(());
    }
    Err(Box::new(Problem::new(E_LIMIT, "", format!("too many {what}")).allowed(format!("at most {MAX_STEPS}"))))
}

/// A tag with its attributes.
pub struct Element<'a> {
    pub name: &'a str,
    pub list: Vec<(&'a str, Cow<'a, str>)>,
}

impl Element<'_> {
    /// Refuses attributes that nobody knows.
    pub fn only(&self, known: &[&str]) -> Result<(), Mistake> {
        match self.list.iter().find(|(key, _)| !known.contains(key)) {
            None => Ok(()),
            Some((key, _)) => {
                let error = Problem::new(E_KEY, "", format!("<{}> has an unknown attribute", self.name));
                Err(Box::new(error.found(key).allowed(known.join(", "))))
            }
        }
    }
    pub fn text(&self, key: &'static str) -> Result<&str, Mistake> {
        let value = self.list.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_ref());
        value.ok_or_else(|| Problem::new(E_MISSING, "", format!("<{}> without `{key}`", self.name)).into())
    }
    /// Digits without sign or leading zeros: every number has one spelling.
    fn digits<T: std::str::FromStr>(&self, key: &'static str) -> Result<Option<T>, Mistake> {
        let text = self.text(key)?;
        let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        Ok(if plain { text.parse().ok() } else { None })
    }
    pub fn number(&self, key: &'static str, least: u32, most: u32) -> Result<u32, Mistake> {
        match self.digits(key)? {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            _ => {
                let error = Problem::new(E_RANGE, format!(" {key}"), "not a number that can stand here");
                Err(Box::new(error.found(self.text(key)?).allowed(format!("{least} to {most}"))))
            }
        }
    }
    /// A number of bytes.
    pub fn bytes(&self, key: &'static str) -> Result<u64, Mistake> {
        let number = self.digits(key)?;
        number.ok_or_else(|| Problem::new(E_RANGE, format!(" {key}"), "not a number of bytes").into())
    }
    /// A number or −1 for none.
    pub fn optional(&self, key: &'static str, most: u32) -> Result<Option<u32>, Mistake> {
        if self.text(key)? == "-1" { Ok(None) } else { self.number(key, 0, most).map(Some) }
    }
    /// 0 or 1.
    pub fn flag(&self, key: &'static str) -> Result<bool, Mistake> {
        self.number(key, 0, 1).map(|number| number == 1)
    }
    pub fn word<T>(&self, key: &'static str, parse: fn(&str) -> Option<T>, allowed: &str) -> Result<T, Mistake> {
        let text = self.text(key)?;
        parse(text).ok_or_else(|| {
            let error = Problem::new(E_RANGE, format!(" {key}"), "not a word that can stand here");
            error.found(text).allowed(allowed).into()
        })
    }
    /// Numbers count up from 0.
    pub fn is_next(&self, key: &'static str, next: usize) -> Result<(), Mistake> {
        let text = self.text(key)?;
        if text == next.to_string() {
            return Ok(());
        }
        Err(Box::new(
            Problem::new(E_RANGE, format!(" {key}"), "numbers count up from 0").found(text).allowed(next.to_string()),
        ))
    }
}
