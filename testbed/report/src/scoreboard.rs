//! A scoreboard: the same cases run by turns under several policies, run by run in records that outlive an invocation,
//! and what follows from whatever records are there. Says in words where nothing is gained.
//!
//! | module | is |
//! | --- | --- |
//! | [`record`] | one run, or one bound, as its file has it |
//! | [`paired`] | ratios of pairs: mean, spread, intervals |
//! | [`board`] | a row per case and load: policies, comparisons, how far the way to the best order was gone |
//! | [`words`] | what a comparison comes to, in a sentence |
//! | [`mod@table`] | Markdown and TSV |
//! | [`plot`] | a picture with a dot per run, in SVG |

pub mod board;
pub mod paired;
pub mod plot;
pub mod record;
pub mod table;
#[cfg(test)]
mod tests;
pub mod words;

pub use board::{Against, Board, PolicyFigures, Row, Way};
pub use paired::{Interval, Paired};
pub use plot::svg;
pub use record::{Bound, Load, Record, Source, Tried};
pub use table::{markdown, tsv};
