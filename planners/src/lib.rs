//! The planners: which trees, schedules and rates a collective should use on a given fabric.
//!
//! | module | is |
//! | --- | --- |
//! | [`forestcoll`] | throughput-optimal trees, with the cut that proves them |
//! | [`direct`] | graphs without switches: families, the finder, breadth-first schedules in steps |
//! | [`fluid`] | the least time that any schedule can take where nodes copy, add up or only pass on |
//! | [`teccl`] | chunks over links in epochs, from bounds and greedy orders |
//! | [`ring`] | one ring over all participants, to compare others with |
//! | [`front`] | what all of them ask of a topology, and the check that every plan passes |
//! | `simplex` | exact linear programs, for what is small and must be right |
//! | `random` | numbers that look random, the same everywhere |
//! | `run` | what all of them run under: threads, a watcher, a deadline, a way to call it off |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod direct;
pub mod fluid;
pub mod forestcoll;
pub mod front;
mod random;
pub mod ring;
mod run;
mod simplex;
pub mod teccl;

pub use front::Request;
pub use run::{CANCELLED, Progress, Run, Stage, Stopped, TIME_LIMIT};
