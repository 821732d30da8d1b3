//! The plug-in as NCCL drives it. What counts allocations is a program of its own, `allocation`.

mod abi;
mod chain;
mod gpu;
mod layout;
mod moves;
mod producer;
#[path = "../../../progress/tests/support/rights.rs"]
mod rights;
mod secure;
#[path = "../support/mod.rs"]
mod support;
mod transport;
mod versions;
