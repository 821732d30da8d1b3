//! What the hosts of a fleet are told through etcd, what a host makes of it, and staged rollouts of a mode.
//!
//! Nothing here talks to anybody: time, what etcd said and what hosts answered come in as arguments, and what is to be
//! written goes out as a value. The shells are `sluice-etcd` (the client), `sluiced` (a host) and `sluice fleet` (an
//! operator's terminal).
//!
//! | module | is |
//! | --- | --- |
//! | [`key`] | the names under which things lie in etcd, and how many and how large they may be |
//! | [`value`] | what stands under each name, read with all its mistakes and written |
//! | [`view`] | what a host has heard: the last good state, and what is wrong with the rest |
//! | [`contact`] | whether etcd is heard |
//! | [`standing`] | whose mode holds on a host: the fleet's, or one that was set there by hand |
//! | [`rollout`] | a rollout: group after group, waiting, done or returned |
//! | [`judge`] | what hosts and alerts say of a rollout, and when that is reason enough to return |
//!
//! The one rule above all others: what cannot be heard, read or believed changes nothing.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]
#![deny(clippy::iter_over_hash_type)]

pub mod contact;
pub mod judge;
pub mod key;
pub mod rollout;
pub mod standing;
pub mod value;
pub mod view;

/// Seconds since 1970, by whoever's clock says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// The time that has passed since `earlier`; nothing if that is still to come.
    pub fn since(self, earlier: UnixTime) -> std::time::Duration {
        std::time::Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
    /// So much later.
    #[must_use]
    pub fn plus(self, time: std::time::Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(time.as_secs()))
    }
}

/// A point in etcd's history. 0 is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
