//! The per-host daemon: a thin shell of tasks around the brain of `sluice_schedule`.
//!
//! | module | is |
//! | --- | --- |
//! | [`config`], [`topology`], `interfaces`, `rdma`, `fabric` | what was configured, and where this host stands |
//! | `clock`, `sys` | time, and the system calls without a safe wrapper |
//! | `monitor` | jobs, processes, flows and rounds on this host |
//! | `core` | the deciding loop, one turn at a time |
//! | `agent` | the thread that turns it |
//! | `recorder` | the recording of the jobs' work |
//! | `exchange`, `own_table` | talking to holders of tables, and being one |
//! | `hops` | by which switches flows go, found by probes |
//! | `enforce`, `cgroups`, `watch`, `sock_diag`, `journal`, `rundir`, `starts` | the kernel side, whose sockets it takes, looking without it, outside changes, the run directory, crash loops |
//! | `conditions`, `snapshot`, `metrics`, `http`, `control`, `logging` | what is shown and asked |
//! | [`daemon`], [`cleanup`], [`probe`] | the three things the program does |

mod agent;
mod cgroups;
pub mod cleanup;
mod clock;
mod conditions;
pub mod config;
mod control;
mod core;
pub mod daemon;
mod enforce;
mod exchange;
mod fabric;
mod facts;
mod hops;
mod http;
mod interfaces;
mod journal;
mod logging;
mod metrics;
mod monitor;
mod own_table;
pub mod probe;
mod rdma;
mod recorder;
mod rundir;
mod snapshot;
mod sock_diag;
mod starts;
mod sys;
#[cfg(test)]
mod testing;
pub mod topology;
mod watch;
