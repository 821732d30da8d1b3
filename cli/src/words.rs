//! Words of the command line that stand for values.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_formats::topology::Kind;

/// Words of the command line: each with its help and what it stands for. One without help is not shown.
pub type Choices<T> = &'static [(&'static str, &'static str, T)];

/// Reads one of these words.
pub fn choice<T: Copy + Send + Sync>(all: Choices<T>) -> impl TypedValueParser<Value = T> {
    let shown = |(word, help, _): &(&'static str, &'static str, T)| match *help {
        "" => PossibleValue::new(*word).hide(true),
        help => PossibleValue::new(*word).help(help),
    };
    PossibleValuesParser::new(all.iter().map(shown)).try_map(move |given| {
        let found = all.iter().find(|(word, ..)| *word == given).map(|(.., value)| *value);
        found.ok_or_else(|| format!("no such word: {given}"))
    })
}

/// The word of the command line for a value.
pub fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |known| known.get_name().to_owned())
}

/// What the machines of a direct-connect graph are.
pub const MACHINES: Choices<Kind> =
    &[("gpu", "GPUs with links of their own", Kind::Gpu), ("host", "Hosts", Kind::Host)];
