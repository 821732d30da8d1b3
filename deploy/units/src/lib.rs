//! Runs a program under the sandbox of its systemd unit where no systemd runs: for tests, and for checks of the packages in
//! roots without one.
//!
//! [`mod@unit`] reads unit files and refuses what it does not know, so that no line of a unit is silently left out. [`confine`]
//! does to a process what the unit says: mounts, user, capabilities, limits, filters of system calls ([`filter`]).
//! [`manager`] is what is left of a service manager: start, ready, watchdog, reload, stop. What needs a cgroup with
//! controllers (`CPUQuota`, `MemoryMax`, `TasksMax`) is read and checked, and left to a real systemd; so are restarts.

#![forbid(unsafe_code)]

pub mod confine;
mod directives;
pub mod filter;
pub mod manager;
mod mounts;
pub mod unit;
pub mod value;

pub use mounts::{MountError, mount_unit};
