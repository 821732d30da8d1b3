//! `sluice-switch`: load tables of many switches in one process, behind gRPC and UDP.
//!
//! A switch that cannot be programmed gets its table here: hosts announce what they will send, and are told what others
//! announced. What a table *is* stands in [`sluice_schedule::switch`]; what travels, in [`sluice_wire`]. This crate adds
//! sockets, time, limits and metrics, and forwards no packet, unless it has a data plane ([`sluice_data_plane`]).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod args;
mod background;
mod certificates;
pub mod config;
pub mod control;
mod grpc;
mod http;
pub mod links;
mod metrics;
mod path;
mod plane;
mod quiet;
mod routes;
pub mod server;
mod sessions;
mod shown;
mod tables;
mod time;
mod udp;
pub mod urgency;
pub mod vectors;
