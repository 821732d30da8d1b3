//! What stands in an instance, key by key, with numbers as they were written.

use sluice_formats::json::{Decimal, Json, Read, Reader, Text, Writer, form};
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_formats::quantity::Rational;

/// A number, exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Number(Rational);

impl Number {
    /// As a plan has it.
    pub fn decimal(&self) -> Decimal {
        Decimal::from(&self.0)
    }
    /// As a quantity begins: a decimal where one of forty digits is the number, else a fraction.
    pub fn written(&self) -> String {
        let decimal = Writer::compact(&self.decimal(), None);
        if decimal.contains('e') { self.0.to_string() } else { decimal }
    }
}

impl Json for Number {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Number>> {
        let allowed = "a number";
        let Some(text) = reader.number(allowed)? else { return Ok(None) };
        let value = Rational::parse_json_number(text).ok();
        if value.is_none() {
            reader.refuse(Problem::new(E_RANGE, "", "not a number anybody needs").found(text).allowed(allowed));
        }
        Ok(value.map(Number))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        self.decimal().write(writer);
    }
}

form! {
    pub struct Instance {
        /// Pairs (a, b): flow b does not begin before flow a has ended.
        pub deps: Option<Vec<(u64, u64)>> = "deps",
        pub flows: Vec<Entry> = "flows",
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
    pub struct Entry {
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
