//! Who a host or a switch is on the network.
//!
//! An identity is one name in an X.509 certificate, `spiffe://CLUSTER/host/ID` or `spiffe://CLUSTER/switch/ID`, whoever
//! issued it; a certificate without such a name may have the ID as a DNS name instead. Certificates, keys and the
//! authorities that are believed are files, which are read again when they change. Nothing here opens a socket or decides
//! what an identity may do.
//!
//! | module | is |
//! | --- | --- |
//! | [`name`] | the name, and what a certificate proves |
//! | [`files`] | the three files: their sizes, the mode of the key, what they hold |
//! | [`tls`] | the two sides of a TLS 1.3 connection, and why one was refused |
//! | [`credentials`] | what is in force now, and the watch on the files |
//! | [`authority`] | a small authority for a cluster that has none (feature `authority`) |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

#[cfg(feature = "authority")]
pub mod authority;
pub mod credentials;
pub mod files;
pub mod name;
pub mod tls;

pub use credentials::{Credentials, Life, Standing};
pub use files::{Fault, Files};
pub use name::{Expected, Kind, Name, Proven};
pub use tls::Reason;
