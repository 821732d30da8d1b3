//! What fixed-function switches say of the load of their links: octet counters by sFlow or gNMI, made wire rates.
//!
//! No such switch knows of future load; what it counted is good for one thing, the traffic that nobody manages, which
//! is taken off a link's capacity. What is decided by that is decided elsewhere.
//!
//! | module | is | touches the world |
//! | --- | --- | --- |
//! | [`sflow`] | sFlow version 5: datagrams to readings, and back for tests | no |
//! | [`receiver`] | a UDP socket on which sFlow agents are heard | yes |
//! | [`gnmi`] | gNMI notifications to readings | no |
//! | [`gnmi::client`] | a subscription that comes back when its target does | yes |
//! | [`meter`] | readings to smoothed rates, and which of them is still true | no |
//! | [`counts`] | how much was heard, and what became of it | no |
//! | [`testing`] | an agent and a target that say what they are given, for tests and demonstrations | yes |
//! | [`pb`] | the messages and stubs generated from `proto/gnmi.proto` | no |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod counts;
pub mod gnmi;
pub mod meter;
mod quiet;
pub mod receiver;
pub mod sflow;
pub mod testing;

/// Messages, client and server generated from `proto/gnmi.proto`.
#[allow(missing_docs, clippy::all)]
pub mod pb {
    tonic::include_proto!("gnmi");
}
