//! What the commands of planners have in common: a size, names of flags, the command that makes a plan again, and where a
//! plan goes.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::quantity::{self, Rational};
use sluice_plan::plan::{MadeBy, Plan};

use super::{Stop, files};
use crate::output;

/// Bytes of `--size`, more than none.
pub(super) fn size(text: &str) -> Result<Rational, Problems> {
    bytes(text, "--size")
}

/// Bytes of a flag, more than none.
pub(super) fn bytes(text: &str, flag: &str) -> Result<Rational, Problems> {
    let refuse = |error: Problem| Problems::from(error.found(text));
    match quantity::size(text) {
        Ok(size) if size.is_positive() => Ok(size),
        Ok(_) => Err(refuse(Problem::new(E_RANGE, flag, "no data at all").allowed("more than 0"))),
        Err(misread) => {
            let error = Problem::new(E_RANGE, flag, format!("not {}", misread.what));
            Err(refuse(error.allowed(misread.allowed).help(misread.help)))
        }
    }
}

/// Names of parameters as flags.
pub(super) fn flags(errors: Problems, parameters: &[&str]) -> Problems {
    if errors.all().iter().all(|error| !parameters.contains(&error.key.as_str())) {
        return errors;
    }
    let flag = |error: &Problem| Problem { key: format!("--{}", error.key.replace('_', "-")), ..error.clone() };
    Problems::collect(errors.all().iter().map(flag).collect(), "").unwrap_or(errors)
}

/// Who made a plan: the command, this version and, where that is wanted, how long it took.
pub(super) fn made_by(command: String, took: Option<Duration>) -> MadeBy {
    let version = Some(env!("CARGO_PKG_VERSION").into());
    MadeBy { command: Some(command.into()), seconds: took.map(Into::into), seed: None, version }
}

/// When planning ends that may take so many seconds.
pub(super) fn deadline(seconds: Option<u32>) -> Option<Instant> {
    seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()))
}

/// Where a plan was written: a file, or nowhere.
#[derive(Default)]
pub(super) struct Written(pub(super) Option<String>);

/// Writes a plan to the file that was asked for. `None`: it went to the standard output, where nothing else belongs.
pub(super) fn deliver(out: Option<&Path>, plan: &Plan) -> Result<Option<Written>, Stop> {
    match out {
        Some(path) if files::is_standard(path) => {
            output::print(&plan.to_text())?;
            Ok(None)
        }
        Some(path) => {
            files::write(path, &plan.to_text())?;
            Ok(Some(Written(Some(path.display().to_string()))))
        }
        None => Ok(Some(Written(None))),
    }
}

/// Words as one line that a shell takes.
pub(super) fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/,:=@%+-".contains(c);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
