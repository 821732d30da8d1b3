//! The elements of a program's XML, and what both forms of it have in common: attributes as numbers, words and flags,
//! within bounds.

use std::borrow::Cow;

use super::program::{Buffer, Gpu, Place, Program};
use crate::plan::Collective;
use sluice_formats::problem::{E_KEY, E_LIMIT, E_MISSING, E_PARSE, E_RANGE, Problem, Problems};
use sluice_formats::topology::import::xml::{Tag, Tags};

pub const MAX_RANKS: u32 = 1 << 16;
/// Steps at most, and blocks.
const MAX_STEPS: usize = 1 << 23;
/// Chunks of a buffer, channels, and every other number of a step at most.
pub const MAX_NUMBER: u32 = 1 << 24;

/// One mistake, boxed: most calls have none to give.
pub type Mistake = Box<Problem>;

/// Gives every element to `take`, with how many it stands in; `None` from it is an element out of place. Mistakes get
/// their line.
pub fn walk(
    text: &str,
    places: &str,
    mut take: impl FnMut(usize, &Element<'_>) -> Option<Result<(), Mistake>>,
) -> Result<(), Problems> {
    let (mut tags, mut open) = (Tags::new(text), 0);
    while let Some(tag) = tags.next_tag()? {
        let Tag::Start(name, list) = tag else {
            open -= 1;
            continue;
        };
        let astray = || Problem::new(E_PARSE, "", format!("<{name}> has no place here")).allowed(places);
        let done = take(open, &Element { name, list }).unwrap_or_else(|| Err(astray().into()));
        // Lines are counted only where there is something to say: it takes a walk through the whole text.
        done.map_err(|error| Problem { key: format!("line {}{}", tags.line(), error.key), ..*error })?;
        open += 1;
    }
    Ok(())
}

/// The buffers of the next rank.
pub fn gpu(element: &Element<'_>, program: &mut Program) -> Result<(), Mistake> {
    element.only("id i_chunks o_chunks s_chunks")?;
    element.is_next("id", program.gpus.len())?;
    let chunks = |key| element.number(key, 0, MAX_NUMBER);
    let (input, output, scratch) = (chunks("i_chunks")?, chunks("o_chunks")?, chunks("s_chunks")?);
    program.gpus.push(Gpu { input, output, scratch, blocks: Vec::new() });
    Ok(())
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
    /// Refuses attributes other than these, which have blanks between them.
    pub fn only(&self, known: &str) -> Result<(), Mistake> {
        match self.list.iter().find(|(key, _)| !known.split(' ').any(|known| known == *key)) {
            None => Ok(()),
            Some((key, _)) => {
                let error = Problem::new(E_KEY, "", format!("<{}> has an unknown attribute", self.name));
                Err(Box::new(error.found(key).allowed(known.replace(' ', ", "))))
            }
        }
    }
    pub fn text(&self, key: &'static str) -> Result<&str, Mistake> {
        let value = self.list.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_ref());
        value.ok_or_else(|| Problem::new(E_MISSING, "", format!("<{}> without `{key}`", self.name)).into())
    }
    /// What a program does, and its word for it, which may be that of `other` dialects too.
    pub fn collective(&self, other: &str) -> Result<(Collective, String), Mistake> {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
        let word = self.text("coll")?;
        let known = Collective::parse(word).or((word == "reducescatter").then_some(ReduceScatter));
        match known.filter(|of| matches!(of, AllGather | AllReduce | AllToAll | Broadcast | Reduce | ReduceScatter)) {
            Some(collective) => Ok((collective, word.to_owned())),
            None => {
                let error = Problem::new(E_RANGE, " coll", "a collective that cannot be run").found(word);
                let allowed = "allgather, allreduce, alltoall, broadcast, reduce, reduce_scatter";
                Err(Box::new(error.allowed(format!("{allowed}{other}"))))
            }
        }
    }
    /// Where `count` chunks lie, in a buffer of `size` if it is the rank's own. What lies on another rank is compared with
    /// what that rank says, not with the sizes here.
    pub fn place(
        &self,
        (buffer, offset): (&'static str, &'static str),
        count: u32,
        size: impl Fn(Buffer) -> Option<u32>,
    ) -> Result<Place, Mistake> {
        let kind = self.word(buffer, Buffer::parse, "i, o, s")?;
        let size = size(kind);
        let Some(most) = size.map_or(Some(MAX_NUMBER), |size| size.checked_sub(count)) else {
            let error = Problem::new(E_RANGE, format!(" {buffer}"), "more chunks than the buffer has");
            return Err(Box::new(error.found(count.to_string()).allowed(format!("at most {}", size.unwrap_or(0)))));
        };
        Ok(Place { buffer: kind, offset: self.number(offset, 0, most)? })
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
