//! The adversary suite: every test *performs* an attack of the table in docs/security.md, against the real programs, and asserts
//! what the defence does and what it counts. `cargo xtask`'s tests hold the table against these functions, both ways.
//!
//! | module | who attacks, and what |
//! | --- | --- |
//! | `pages` | a local user, by progress pages |
//! | `liars` | a tenant, by what its pages claim |
//! | `text` | a tenant, by names |
//! | `sockets` | a local user, by the daemon's socket and its metrics |
//! | `directories` | a local user, by the directories of the daemon and of its kernel objects |
//! | `hosts` | a host of the cluster |
//! | `switches` | a switch of the cluster |
//! | `wire` | somebody on the network, by connections |
//! | `frames` | somebody on the network, by HTTP/2 |
//! | `datagrams` | somebody on the network, by datagrams |
//! | `files` | who writes a file that somebody else reads |
//! | `libraries` | who calls a program with more rights than its own |
//!
//! Local attackers are processes of user 65534 in namespaces of their own ([`attacker`]), hosts speak by [`speaker`]. Needs root; tests take turns.

#![expect(clippy::mem_forget, reason = "what an attacker's process holds stays open until the process is ended")]

mod attacker;
mod datagrams;
mod directories;
mod files;
mod frames;
mod hosts;
mod liars;
mod libraries;
mod pages;
mod programs;
mod sockets;
mod speaker;
mod switches;
mod text;
mod wire;
