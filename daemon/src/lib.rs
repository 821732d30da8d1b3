//! The per-host daemon: a thin shell of tasks around the brain of [`sluice_schedule`].

pub mod clock;
pub mod conditions;
pub mod config;
pub mod fabric;
pub mod interfaces;
pub mod topology;
