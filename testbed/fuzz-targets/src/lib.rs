//! Every parser of bytes from outside as one function for fuzzing, its corpus, and the edits that make new inputs of old ones.
//!
//! A target is a function from bytes to nothing that panics where its parser breaks a promise: not only that it comes to an
//! end, but what must hold of what it says. Three drivers call them: the test of this crate (the corpora and a fixed number of
//! edits, in every run of the tests), `cargo xtask fuzz` (guided by coverage, with libFuzzer), and the same with the address
//! sanitizer. docs/fuzzing.md has the table.
//!
//! | module | is |
//! | --- | --- |
//! | [`targets`] | the functions, what each promises, and the inputs made by our own encoders |
//! | [`corpus`] | the files of inputs |
//! | [`mutate`] | edits that know what kind of input they edit |
//! | [`replay`] | one target over inputs and edits, with times |
//! | [`results`] | what long runs have shown, as the table of docs/fuzzing.md |
//! | [`random`] | the numbers that choose edits |

// The preload library takes the place of the C library's functions in every program that links it, so its pure parts are built
// here from their files; not for the unit tests, which would have those files' own with them.
#[cfg(not(test))]
#[allow(dead_code, missing_docs, reason = "a part of another crate")]
#[path = "../../../pslite-patch/src/meta.rs"]
mod meta;
#[cfg(not(test))]
#[allow(dead_code, missing_docs, reason = "a part of another crate")]
#[path = "../../../pslite-patch/src/van.rs"]
mod van;
#[cfg(not(test))]
#[allow(dead_code, missing_docs, reason = "a part of another crate")]
#[path = "../../../pslite-patch/src/zmtp.rs"]
mod zmtp;

pub mod corpus;
pub mod mutate;
mod places;
pub mod random;
pub mod replay;
pub mod results;
pub mod targets;

use crate::mutate::Shape;

/// Bytes of the longest input: what is longer, the parsers refuse by its length, or take as long for as it is long.
pub const MAX_INPUT: usize = 64 << 10;

/// One parser and what it promises.
#[derive(Debug)]
pub struct Target {
    /// Number and word, `F01-grpc`; also the folder of its corpus.
    pub name: &'static str,
    /// What is fed, for the table.
    pub parser: &'static str,
    /// What must hold beside coming to an end, for the table.
    pub property: &'static str,
    /// What kind of input it takes.
    pub shape: Shape,
    /// Feeds one input; panics where the property does not hold.
    pub run: fn(&[u8]),
    /// Inputs made by our own encoders, the same in every run.
    pub seeds: fn() -> Vec<Seed>,
}

/// An input with a name, which is its file's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Letters, digits and `-`.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// An input with its name.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Seed {
        Seed { name: name.into(), bytes: bytes.into() }
    }

    /// An input that begins with the byte by which its target chooses among several parsers.
    pub fn of(choice: u8, name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Seed {
        Seed::new(name, [&[choice], bytes.as_ref()].concat())
    }
}

/// The target with this name, or with this number (`F1`, `F01`).
pub fn find(name: &str) -> Option<&'static Target> {
    let number = |text: &str| text.strip_prefix(['F', 'f'])?.split('-').next()?.parse::<u8>().ok();
    let same = |target: &&Target| {
        target.name == name || !name.contains('-') && number(name).is_some() && number(name) == number(target.name)
    };
    targets::all().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_numbered_in_order_and_found_by_name_and_number() {
        let names: Vec<&str> = targets::all().map(|target| target.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for name in names {
            let number = name.split('-').next().expect("a number");
            assert_eq!(find(name).map(|target| target.name), Some(name));
            assert_eq!(find(number).map(|target| target.name), Some(name));
        }
        assert!(find("F99").is_none() && find("grpc").is_none() && find("").is_none());
    }
}
