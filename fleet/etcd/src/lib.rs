//! A client of etcd's API v3, as far as a fleet needs one: read all keys below a prefix, watch them from a revision on,
//! and write several of them at once under the condition that nobody else has.
//!
//! It decides nothing: what a value means, when to ask again and what to make of silence is for whoever asks. One client
//! is one connection to one member; where that fails, [`Client::connect`] finds the next. Why not a crate that exists:
//! the generated part of etcd's whole API is many times what is used here.
//!
//! | module | is |
//! | --- | --- |
//! | [`endpoint`] | where members answer, and the certificates of both sides |
//! | [`client`] | reading and writing |
//! | [`watch`] | what changes below a prefix |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod client;
pub mod endpoint;
#[doc(hidden)]
pub mod fuzz;
pub mod watch;

pub use client::{Client, Key, Put, Reading, Written};
pub use endpoint::{Endpoint, Tls};
pub use watch::{News, Watch};

use std::time::Duration;

/// Bytes of an answer at most: twice what a fleet may keep there.
pub const MAX_ANSWER: usize = 32 << 20;
/// For a connection, and for an answer.
pub const TIME: Duration = Duration::from_secs(5);

/// Messages and clients generated from `proto/`.
#[allow(missing_docs, clippy::all)]
mod pb {
    pub(crate) mod mvccpb {
        tonic::include_proto!("mvccpb");
    }
    pub(crate) mod etcdserverpb {
        tonic::include_proto!("etcdserverpb");
    }
}

/// Why etcd did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No member could be reached.
    #[error("no etcd answers: {0}")]
    Unreachable(String),
    /// A certificate or a key cannot be used.
    #[error("the certificates cannot be used: {0}")]
    Tls(String),
    /// It answered, and refused.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// It did not answer in time.
    #[error("etcd did not answer within {} s", TIME.as_secs())]
    Late,
    /// The connection broke.
    #[error("the connection to etcd broke: {0}")]
    Broken(String),
    /// The watch begins before what etcd still knows.
    #[error("etcd has forgotten what was before revision {0}")]
    Compacted(u64),
}

/// A number of etcd's, which are never negative.
fn number(raw: i64) -> u64 {
    u64::try_from(raw).unwrap_or(0)
}

/// The first key after all that begin so; empty: there is none.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// What a call's failure is.
fn failed(status: &tonic::Status) -> Error {
    use tonic::Code::{Cancelled, DeadlineExceeded, Unavailable, Unknown};
    let text = match std::error::Error::source(status) {
        Some(source) => format!("{}: {source}", status.message()),
        None => status.message().to_owned(),
    };
    match status.code() {
        DeadlineExceeded => Error::Late,
        Unavailable | Cancelled | Unknown => Error::Broken(text),
        _ => Error::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn what_comes_after_a_prefix() {
        assert_eq!(after("/sluice/a/"), b"/sluice/a0");
        assert_eq!(after(""), b"");
    }
}
