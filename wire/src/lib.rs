//! What travels: the gRPC services, the UDP format, and the status snapshot, with their codecs.
//!
//! Values of [`sluice_schedule`] go in and come out; nothing here decides. Whatever arrives is checked against the table
//! in [`limits`] before it becomes a value of ours.
//!
//! | module | is |
//! | --- | --- |
//! | [`accept`] | who may connect to a gRPC service, and how many |
//! | [`attach`] | where hosts are attached, and what each may do there |
//! | [`audit`] | what the audit log of commands says, and how it is read |
//! | [`pb`] | the messages and stubs generated from `proto/sluice/v1/sluice.proto` |
//! | [`limits`] | every bound on what is accepted, and the server settings that go with them |
//! | [`hello`] | the handshake: who speaks, on which time grid |
//! | [`calls`] | a typed client of the two calls |
//! | [`dial`] | how connections are opened, and who has to answer |
//! | [`convert`] | messages of [`pb`] to and from announcements and feedback |
//! | [`outbox`] | a queue that keeps the newest message per key |
//! | [`push`] | how often a holder of tables tells hosts what others changed |
//! | [`record`] | what one host's brain was told and said, and its replay |
//! | [`refusal`] | why one end refuses the other: the ids by which programs decide |
//! | [`session`] | typed clients of both services |
//! | [`snapshot`] | the one model behind status, top, JSON, metrics and the API |
//! | [`speakers`] | who speaks in whose name to a holder of tables, and who is shut out |
//! | [`udp`] | the UDP format, version 1 |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod accept;
pub mod attach;
pub mod audit;
pub mod calls;
pub mod convert;
pub mod dial;
pub mod hello;
pub mod limits;
pub mod outbox;
pub mod push;
pub mod record;
pub mod refusal;
pub mod session;
pub mod snapshot;
pub mod speakers;
pub mod text;
pub mod timeline;
pub mod udp;

#[cfg(test)]
mod golden;

/// Messages, clients and servers generated from `proto/sluice/v1/sluice.proto`.
#[allow(missing_docs, clippy::all)]
pub mod pb {
    tonic::include_proto!("sluice.v1");
}
