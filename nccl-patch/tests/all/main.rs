//! The plug-in as NCCL drives it. What counts allocations is a program of its own, `allocation`.

mod abi;
mod chain;
mod gpu;
mod layout;
mod moves;
#[path = "../support/mod.rs"]
mod support;
