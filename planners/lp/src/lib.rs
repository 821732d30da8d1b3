//! Planners that need a solver of linear programs (`sluice-solver`, which builds HiGHS, a C++ library).
//!
//! It stands apart so that whoever plans without it builds without it: only `sluice` depends on this crate, through
//! its feature `lp`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod alltoall;
mod columns;
pub mod fluid;
pub mod teccl;
pub mod wan;
