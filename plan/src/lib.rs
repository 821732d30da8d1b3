//! Plans: which trees, schedules and rates a collective uses, whoever made them.
//!
//! | module | is |
//! | --- | --- |
//! | [`plan`] | `plan.json` with its seven kinds of content |
//! | [`check`] | verifies a plan against its topology, sharing nothing with the planners |
//! | [`compare`] | plans of one collective side by side, as figures and as a picture |
//! | [`cost`] | how long a plan takes, for any size of data |
//! | [`export`] | MSCCL and oneCCL XML, lists of trees, pictures |
//! | [`interpret`] | executes exported programs and proves that they do their collective |
//! | [`follow`] | what a follower of a plan needs: a daemon, or a job of the testbed |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod check;
pub mod compare;
pub mod cost;
pub mod export;
pub mod follow;
pub mod interpret;
mod merge;
pub mod plan;
