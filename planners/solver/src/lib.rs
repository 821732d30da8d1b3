//! Linear and integer programs behind one small interface; the only crate that links HiGHS, a C++ library.
//!
//! A [`Program`] has rows, and columns that bring their entries in the rows. After it was solved, columns (and rows) may
//! be added and it is solved again from the basis that it has. Answers are an enum: a program without a solution, or
//! one that ran out of time, is no error. One thread works, so the same program gives the same bytes.
//!
//! Values and prices are floats within the solver's tolerances (1e-7). Who needs a proof makes it of them.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

mod program;
mod stop;

pub use program::{Answer, Bounds, Column, Failed, Method, Options, Program, Row, Sense, Solution};
