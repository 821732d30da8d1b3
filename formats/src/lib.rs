//! What files say, read in one way for everybody.
//!
//! | module | is |
//! | --- | --- |
//! | [`quantity`] | exact numbers and their units: rates, sizes, times |
//! | [`problem`] | what is wrong with a file: code, place, value seen, value allowed, what to do |
//! | [`document`] | files of settings, TOML and JSON alike: tables read key by key, every mistake with its place |
//! | [`mod@file`] | whole files of bounded size |
//! | [`json`] | a bounded reader and a canonical writer of JSON with typed forms |
//! | [`label`] | names from outside, fit for terminal, log and metric |
//! | [`network`] | address ranges |
//! | [`recording`] | what a daemon saw of its host's work, for the simulator to do again |
//! | [`topology`] | `topology.json`: nodes, links, limits; generators, imports, pictures |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod document;
pub mod file;
pub mod json;
pub mod label;
pub mod network;
pub mod problem;
pub mod quantity;
pub mod recording;
pub mod topology;
