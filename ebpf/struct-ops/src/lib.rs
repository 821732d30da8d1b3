//! Registers a BPF struct_ops from programs that aya-obj has parsed and relocated: the one step that aya does not do.
//!
//! The kernel describes its own structs in BTF; [`btf`] finds ids, offsets and signatures there, [`register`] loads one
//! program per member, fills the struct's value and registers it, and `sys` holds every bpf(2) call and all `unsafe` of
//! this crate. Which programs to choose, where maps come from and what is pinned is left to the caller.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod btf;
pub mod register;
mod sys;
pub mod verify;

pub use btf::{Btf, BtfError, Member, Structure};
pub use register::{Error, Member as Program, Registration, Request, prepare};
pub use sys::{BpfError, link_detach, map_delete, object_get, object_pin};
