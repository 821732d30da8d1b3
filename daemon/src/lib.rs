//! The per-host daemon: a thin shell of tasks around the brain of [`sluice_schedule`].
//!
//! | module | is |
//! | --- | --- |
//! | [`config`], [`topology`], [`interfaces`], [`fabric`] | what was configured, and where this host stands |
//! | [`clock`], [`sys`] | time, and the system calls without a safe wrapper |
//! | [`monitor`] | jobs, processes, flows and rounds on this host |
//! | [`core`] | the deciding loop, one turn at a time |
//! | [`agent`] | the thread that turns it |
//! | [`exchange`], [`own_table`] | talking to holders of tables, and being one |
//! | [`enforce`], [`watch`], [`sock_diag`], [`journal`], [`rundir`] | the kernel side, looking without it, outside changes, the run directory |
//! | [`conditions`], [`snapshot`], [`metrics`], [`http`], [`control`], [`logging`] | what is shown and asked |
//! | [`daemon`], [`cleanup`], [`probe`] | the three things the program does |

pub mod agent;
pub mod cleanup;
pub mod clock;
pub mod conditions;
pub mod config;
pub mod control;
pub mod core;
pub mod daemon;
pub mod enforce;
pub mod exchange;
pub mod fabric;
pub mod http;
pub mod interfaces;
pub mod journal;
pub mod logging;
pub mod metrics;
pub mod monitor;
pub mod own_table;
pub mod probe;
pub mod rundir;
pub mod snapshot;
pub mod sock_diag;
pub mod sys;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod watch;
