//! The testbed on the real kernel: fabrics, jobs, and the whole system with real daemons. Needs root. Tests take turns.

mod benefit;
mod common;
mod containers;
mod daemons;
mod delays;
mod direct;
mod epochs;
mod fabric;
mod faults;
mod fluid;
mod forest;
mod inband;
mod jobs;
mod mltcp;
mod others;
mod pages;
mod ports;
mod probes;
mod real;
mod replay;
mod scoreboard;
mod transfers;
mod transports;
mod units;
mod wan;
