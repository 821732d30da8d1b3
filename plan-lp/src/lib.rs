//! Planning that needs a solver of linear programs (HiGHS, a C++ library that is built with this crate).
//!
//! It stands apart so that whoever plans without it builds without it: only `sluice` depends on this crate, through
//! its feature `lp`.

#![forbid(unsafe_code)]

pub mod alltoall;
