//! `sluice` as people and scripts call it: the real program, its files, its documents and its exit statuses.

mod bfb;
mod cli;
mod compare;
mod desk;
mod fluid_lp;
mod fluid_timed;
mod guide;
mod plan;
mod planning_guide;
mod readers;
mod sim;
mod simulating_guide;
mod te_ccl;
mod topology;
mod wan;
