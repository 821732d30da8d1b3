//! A file of settings as a tree of values with their places, TOML and JSON alike; tables that are read key by key, so
//! that every mistake is found and told at once.
//!
//! Numbers stay text until somebody asks for one, so they are exact. [`Table`] remembers which keys were asked for and
//! reports the others; [`Item`] gives a value its type and range or says what is wrong with it; a [`Collector`] keeps
//! what was said.

mod collector;
mod item;
mod table;
mod tree;

pub use collector::Collector;
pub use item::Item;
pub use table::{Table, unknown_key};
pub use tree::{Entry, NOWHERE, Node, Value};

/// The notation of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Places are lines and columns, keys are written with dots.
    Toml,
    /// Places are JSON pointers.
    Json,
}

#[cfg(test)]
mod tests;
