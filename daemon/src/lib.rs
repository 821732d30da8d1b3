//! The per-host daemon: a thin shell of tasks around the brain of `sluice_schedule`.
//!
//! | module | is |
//! | --- | --- |
//! | [`config`], [`topology`], `interfaces`, `rdma`, `fabric` | what was configured, and where this host stands |
//! | `clock`, `sys` | time, and the system calls without a safe wrapper |
//! | `monitor` | jobs, processes, flows and rounds on this host |
//! | `core` | the deciding loop, one turn at a time |
//! | `agent` | the thread that turns it |
//! | `recorder`, `flight` | the recording of the jobs' work; what was seen in the last minutes, for `sluice why` |
//! | `exchange`, `own_table` | talking to holders of tables, and being one |
//! | `fleet` | what a fleet says through etcd |
//! | `hops` | by which switches flows go, found by probes |
//! | `enforce`, `cgroups`, `watch`, `sock_diag`, `journal`, `rundir`, `starts` | the kernel side, whose sockets it takes, looking without it, outside changes, the run directory, crash loops |
//! | [`privilege`] | with `privilege.split`: a helper that has the privileges, and a brain that has none |
//! | `poison` | an input that the loop dies of, in builds with debug assertions |
//! | [`crashed`] | what the loop was told before it died again |
//! | `stored` | the one writer of small files of state |
//! | `conditions`, `snapshot`, `numbers`, `metrics`, `http`, `control`, `logging` | what is shown and asked |
//! | `testing` | a kernel of plain memory and virtual time, for tests and a benchmark |
//! | [`args`] | the command line |
//! | [`daemon`], [`cleanup`], [`probe`] | the three things the program does |
//! | [`handshake`], [`limits`] | one hello to every switch, for `sluice doctor`; every bound that is no key, for `sluice limits` |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![deny(clippy::iter_over_hash_type)]

mod agent;
pub mod args;
mod audit;
mod cgroups;
pub mod cleanup;
mod clock;
mod conditions;
pub mod config;
mod control;
mod core;
pub mod crashed;
pub mod daemon;
mod enforce;
mod exchange;
mod fabric;
mod facts;
mod fleet;
mod flight;
#[doc(hidden)]
pub mod fuzz;
pub mod handshake;
mod hops;
mod http;
mod interfaces;
pub mod journal;
pub mod limits;
mod logging;
mod metrics;
mod monitor;
mod numbers;
mod own_table;
mod poison;
pub mod privilege;
pub mod probe;
mod rdma;
mod recorder;
mod rundir;
mod snapshot;
pub mod sock_diag;
mod starts;
mod stored;
pub mod sys;
#[cfg(any(test, feature = "testing"))]
mod testing;
pub mod topology;
mod watch;

#[cfg(feature = "testing")]
#[doc(hidden)]
pub use crate::core::turns::Turns;
#[doc(hidden)]
pub use flight::looks::Looks;
pub use metrics::{MAX_LINKS, MAX_SWITCHES, render as scrape};
