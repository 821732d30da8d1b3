//! Exact numbers and their units: no capacity, time, weight or share ever passes through a float.
//!
//! A [`Rational`] is two machine words as long as it fits and a big fraction where it does not. What a file says in
//! words and units is read by [`Capacity::parse`], [`latency`] and [`size`], a bare number of Gbit/s by [`gbps`], a time
//! on a command line by [`duration`]; capacities are kept in bytes per second, times in seconds, sizes in bytes, and
//! displayed in the unit of the input.

mod common;
mod rate;
mod rational;
mod unit;

pub use common::common_denominator;
pub use rate::{NotARate, gbps};
pub use rational::{NotANumber, Rational};
pub use unit::{Capacity, CapacityUnit, Misread, Unit, duration, latency, size};
