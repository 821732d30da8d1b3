//! Other people's forms of a topology: each becomes an ordinary [`super::Topology`], built through the same checks.
//!
//! Numbers are read from their text, never through a float. A mistake is reported with the pointer or line of the form
//! itself and the name its own literature has for it.

mod edges;
mod fluid;
mod forestcoll;
mod graphml;
mod nvidia;
mod teccl;
pub mod xml;

pub use edges::{Edges, edges};
pub use fluid::{Ends, fluid};
pub use forestcoll::forestcoll;
pub use graphml::graphml;
pub use nvidia::{Speeds, nvidia_smi};
pub use teccl::teccl;

use std::collections::BTreeMap;

use super::{File, LinkEntry, NodeEntry, Text, Version};
use crate::json::{Json, Kind as JsonKind, Read, Reader, Writer};
use crate::problem::{E_LIMIT, E_PARSE, E_RANGE, Problem, Problems};
use crate::quantity::{Capacity, Rational};

/// Bytes of an imported text at most.
const MAX_BYTES: usize = 64_000_000;

/// A text form: bounded and in UTF-8.
fn text<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str, Problems> {
    if bytes.len() > MAX_BYTES {
        let error = Problem::new(E_LIMIT, "", "the file is too large").found(format!("{} bytes", bytes.len()));
        return Err(Problems::from(error.allowed(format!("at most {MAX_BYTES} bytes"))).in_file(file));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("not UTF-8 at byte {}", error.valid_up_to());
        Problems::from(Problem::new(E_PARSE, "", message)).in_file(file)
    })
}

/// Refuses a capacity given by the caller that nobody can read.
fn capacity_parameter(name: &'static str, value: &str) -> Result<(), Problems> {
    match Capacity::parse(value) {
        Ok((Capacity::Finite(base), _)) if !base.is_positive() => {
            Err(Problem::new(E_RANGE, name, "a capacity of nothing").found(value).allowed("more than 0").into())
        }
        Ok(_) => Ok(()),
        Err(misread) => {
            let error = Problem::new(E_RANGE, name, format!("not {}", misread.what)).found(value);
            Err(error.allowed(misread.allowed).help(misread.help).into())
        }
    }
}

fn empty_file() -> File {
    File {
        boxes: None,
        groups: None,
        links: Vec::new(),
        name: None,
        nodes: Vec::new(),
        routing: None,
        version: Version,
    }
}

fn node(id: Text, kind: super::Kind) -> NodeEntry {
    NodeEntry { addresses: None, buffer: None, can: None, id, kind, port_addresses: None, weight: None }
}

fn link(from: Text, to: Text, capacity: Text, duplex: bool) -> LinkEntry {
    LinkEntry {
        capacity,
        capacity_per_epoch: None,
        cost: None,
        count: None,
        duplex: duplex.then_some(true),
        from,
        latency: None,
        to,
    }
}

/// A number, or `p/q` as text, as it was written, and its value if it has one: what is wrong with it is for its form.
#[derive(Clone, Debug, PartialEq)]
struct Exact {
    value: Option<Rational>,
    written: Text,
}

impl Json for Exact {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Exact>> {
        let allowed = "a number or p/q as text";
        let read = if reader.peek()? == JsonKind::Number {
            reader.number(allowed)?.map(|number| (Rational::parse_json_number(number).ok(), number.into()))
        } else {
            reader.string(allowed)?.map(|text| (Rational::parse(&text).ok(), text))
        };
        Ok(read.map(|(value, written)| Exact { value, written: reader.share(&written) }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.text(&self.written);
    }
}

/// Gives equal texts one allocation.
#[derive(Default)]
struct Share(BTreeMap<String, Text>);

impl Share {
    fn text(&mut self, text: &str) -> Text {
        if let Some(shared) = self.0.get(text) {
            return shared.clone();
        }
        let shared = Text::from(text);
        self.0.insert(text.to_owned(), shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests;
