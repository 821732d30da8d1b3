//! `sluice` as people and scripts call it: the real program, its files, its documents and its exit statuses.

mod bfb;
mod cli;
mod compare;
mod config;
mod desk;
mod desk_commands;
mod exports;
mod fleet;
mod fluid_lp;
mod fluid_timed;
mod graphs;
mod guide;
mod past;
mod plan;
mod planning_guide;
mod readers;
mod shards;
mod sim;
mod simulating_guide;
#[cfg(feature = "testbed")]
mod standing;
mod te_ccl;
mod tls;
mod topology;
mod wan;
mod why;
