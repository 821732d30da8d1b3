//! Planners that need a solver of linear programs (`sluice-solver`, which builds HiGHS, a C++ library).
//!
//! It stands apart so that whoever plans without it builds without it: only `sluice` depends on this crate, through
//! its feature `lp`.

#![forbid(unsafe_code)]

pub mod alltoall;
mod columns;
pub mod fluid;
pub mod teccl;
pub mod wan;
