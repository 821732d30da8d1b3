//! The figures of runs as plain data, and what people read of them: one JSON document, tables and a picture in the
//! terminal, and one self-contained HTML page. Makes no measurement of its own, and knows neither the testbed nor the
//! simulator, which both fill its structures.
//!
//! The rules of honesty: both sides of a comparison come from the same invocation, axes begin at 0, every repeat is
//! listed, doubts stand first.
//!
//! | module | is |
//! | --- | --- |
//! | [`measured`] | one run on the testbed as plain data: [`PolicyRun`] |
//! | [`mod@simulated`] | one simulated run as plain data, its JSON, CSV and tables |
//! | [`about`] | what was run, on what, when |
//! | [`stats`] | means, percentiles, and policies against each other |
//! | [`mod@table`], [`mod@picture`] | for the terminal |
//! | [`page`] | the HTML page with its SVG charts |
//! | [`scoreboard`] | cases by turns over many invocations: pairs, intervals, what was gained |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod about;
mod job;
mod json;
pub mod measured;
pub mod page;
pub mod picture;
pub mod scoreboard;
pub mod simulated;
pub mod stats;
pub mod table;
#[cfg(test)]
mod tests;
mod warnings;

pub use about::About;
pub use job::JobFigures;
pub use json::json;
pub use measured::{CpuSeconds, FlowTimes, JobResult, Lateness, LinkResult, PolicyRun, RatePoint};
pub use page::{compared, html, simulated};
pub use picture::picture;
pub use stats::{Comparison, Summary, compare, summaries};
pub use table::table;
pub use warnings::warnings;
