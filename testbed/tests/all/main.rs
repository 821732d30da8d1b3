//! The testbed on the real kernel: fabrics, jobs, and the whole system with real daemons. Needs root. Tests take turns.

mod common;
mod containers;
mod daemons;
mod direct;
mod epochs;
mod fabric;
mod fluid;
mod forest;
mod jobs;
mod others;
mod pages;
mod probes;
mod real;
mod transfers;
mod units;
mod wan;
