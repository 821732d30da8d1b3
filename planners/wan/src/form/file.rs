//! What stands in a file, key by key.

use sluice_formats::json::{Json, Read, Reader, Text, Writer, form};
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_formats::quantity::Rational;

/// A number that is computed with, and as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// The nearest float, which is finite.
    pub value: f64,
    text: Text,
}

impl Number {
    /// Exactly what was written; `None` of more digits than a file takes.
    pub fn exact(&self) -> Option<Rational> {
        Rational::parse_json_number(&self.text).ok()
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number { value, text: format!("{value:?}").into() }
    }
}

impl Json for Number {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Number>> {
        let allowed = "a number";
        let Some(text) = reader.number(allowed)? else { return Ok(None) };
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        if value.is_none() {
            reader.refuse(Problem::new(E_RANGE, "", "too large a number").found(text).allowed("below 1.8e308"));
        }
        let text = Text::from(text);
        Ok(value.map(|value| Number { value, text }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.text);
    }
}

form! {
    /// An instance.
    pub struct File {
        /// Pairs (a, b): flow b does not begin before flow a has ended.
        pub deps: Option<Vec<(u64, u64)>> = "deps",
        pub flows: Vec<Flow> = "flows",
        pub links: Vec<Link> = "links",
        /// What it is called.
        pub name: Text = "name",
        /// How many there are.
        pub nodes: u64 = "nodes",
    }
}

form! {
    /// A directed link.
    pub struct Link {
        /// In MB/s.
        pub cap: Number = "cap",
        pub dst: u64 = "dst",
        pub id: u64 = "id",
        pub src: u64 = "src",
    }
}

form! {
    /// A flow.
    pub struct Flow {
        pub collective: u64 = "collective",
        pub dst: u64 = "dst",
        /// Its chain, within the collective.
        pub group: u64 = "group",
        pub id: u64 = "id",
        /// Its place in the chain.
        pub order: u64 = "order",
        /// Ids of links, in order.
        pub path: Vec<u64> = "path",
        /// Seconds before which it does not begin.
        pub release_s: Option<Number> = "release_s",
        /// In MB.
        pub size: Number = "size",
        pub src: u64 = "src",
    }
}
