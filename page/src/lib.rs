//! The page of `sluiced` and of `sluice-switch`: one file each, which asks nobody but the program that it came from, and what
//! its stream of events is made of. Sockets, clocks and limits of connections are the programs'.
//!
//! | module | is |
//! | --- | --- |
//! | [`events`] | server-sent events as bytes |
//! | [`pace`] | how often a stream may say something |
//! | [`host`] | what of a host's snapshot the page shows |
//! | [`holder`] | what of the tables of a `sluice-switch` the page shows |
//!
//! `files/` has the markup, the style and the scripts; `build.rs` puts them together.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod events;
pub mod holder;
pub mod host;
pub mod pace;

/// A page, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The document.
    pub html: &'static str,
    /// Its `Content-Security-Policy`: this script and this style by their hashes, and nothing else.
    pub policy: &'static str,
}

/// The page of a host's daemon.
pub const HOST: Page = Page {
    html: include_str!(concat!(env!("OUT_DIR"), "/host.html")),
    policy: include_str!(concat!(env!("OUT_DIR"), "/host.policy")),
};

/// The page of a process that keeps the load tables of switches.
pub const SWITCH: Page = Page {
    html: include_str!(concat!(env!("OUT_DIR"), "/switch.html")),
    policy: include_str!(concat!(env!("OUT_DIR"), "/switch.policy")),
};

/// Bytes of a page at most.
pub const MAX_BYTES: usize = 40_000;

#[cfg(test)]
mod tests;
