//! The per-host daemon: a thin shell of tasks around the brain of [`sluice_schedule`].

pub mod clock;
pub mod conditions;
pub mod config;
pub mod core;
pub mod exchange;
pub mod fabric;
pub mod http;
pub mod interfaces;
pub mod metrics;
pub mod monitor;
pub mod own_table;
pub mod topology;
