//! What a value may be: the types that stand in files, each with its reading and its writing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::{Kind, Read, Reader, Writer};
use crate::problem::{E_KEY, E_PARSE, E_RANGE, E_VERSION, Problem};
use crate::quantity::{self, Capacity, Misread, Rational};

/// A text that may be shared: node ids occur millions of times in a plan.
pub type Text = Arc<str>;

/// How a type stands in JSON.
pub trait Json: Sized {
    /// Reads a value. A mistake is noted in the reader, the value skipped, and `None` given.
    fn read(reader: &mut Reader<'_>) -> Read<Option<Self>>;
    /// Writes the value as `read` takes it.
    fn write(&self, writer: &mut Writer<'_>);
    /// The value of a key that is not there, if it may be absent.
    fn absent() -> Option<Self> {
        None
    }
    /// Is there anything to write?
    fn is_present(&self) -> bool {
        true
    }
}

/// A node of a plan: the place of its id in the plan's [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The ids of nodes that occur in a file, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    list: Vec<Text>,
    places: HashMap<Text, NodeId>,
}

impl Names {
    /// The place of an id, new if it was not there.
    pub fn intern(&mut self, id: &str) -> NodeId {
        if let Some(place) = self.places.get(id) {
            return *place;
        }
        let (text, place) = (Text::from(id), NodeId(self.list.len() as u32));
        self.list.push(text.clone());
        self.places.insert(text, place);
        place
    }
    /// The place of an id that is there.
    pub fn find(&self, id: &str) -> Option<NodeId> {
        self.places.get(id).copied()
    }
    /// The id at a place.
    pub fn text(&self, node: NodeId) -> &str {
        self.list.get(node.0 as usize).map_or("", |text| text)
    }
    /// All of them, by place.
    pub fn all(&self) -> &[Text] {
        &self.list
    }
}

/// A number as it was written, for figures that are kept but not computed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal(Text);

impl Decimal {
    /// The number, exactly.
    pub fn value(&self) -> Rational {
        Rational::parse_json_number(&self.0).unwrap_or(Rational::ZERO)
    }
}

impl From<std::time::Duration> for Decimal {
    /// In seconds, with six digits.
    fn from(value: std::time::Duration) -> Decimal {
        Decimal(format!("{:.6}", value.as_secs_f64()).into())
    }
}

impl From<&Rational> for Decimal {
    /// Exactly, where a decimal is; else with some fifteen digits.
    fn from(value: &Rational) -> Decimal {
        const MAX_DIGITS: usize = 40;
        let (mut left, mut digits, mut scaled) = (value.denominator(), 0, value.numerator());
        while left != 1.into() && digits < MAX_DIGITS {
            scaled *= 10_u32;
            let common = num_integer::Integer::gcd(&left, &10.into());
            left /= common;
            digits += 1;
        }
        if left != 1.into() {
            return Decimal(format!("{:e}", value.to_f64()).into());
        }
        let whole = (scaled / value.denominator()).to_string();
        let (sign, whole) = whole.strip_prefix('-').map_or(("", &*whole), |whole| ("-", whole));
        let whole = format!("{whole:0>width$}", width = digits + 1);
        let (before, after) = whole.split_at(whole.len() - digits);
        let point = if digits > 0 { "." } else { "" };
        Decimal(format!("{sign}{before}{point}{after}").into())
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Decimal {
        Decimal(value.to_string().into())
    }
}

/// A value or `null`, where `null` says something else than nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nullable<T>(pub Option<T>);

impl Json for Text {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Text>> {
        Ok(reader.string("a text")?.map(|text| reader.share(&text)))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.text(self);
    }
}

impl Json for bool {
    fn read(reader: &mut Reader<'_>) -> Read<Option<bool>> {
        reader.boolean()
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(if *self { "true" } else { "false" });
    }
}

/// Whole numbers of a machine word.
macro_rules! whole {
    ($($type:ty),*) => {$(
        impl Json for $type {
            fn read(reader: &mut Reader<'_>) -> Read<Option<$type>> {
                let allowed = format!("a whole number from 0 to {}", <$type>::MAX);
                let Some(number) = reader.number(&allowed)? else { return Ok(None) };
                let value = number.parse().ok();
                if value.is_none() {
                    reader.refuse(Problem::new(E_RANGE, "", "not a whole number").found(number).allowed(allowed));
                }
                Ok(value)
            }
            fn write(&self, writer: &mut Writer<'_>) {
                writer.number((*self).into());
            }
        }
    )*};
}
whole!(u64, u32);

/// A whole number, or `"p/q"` or a decimal as text; written as a number where it is a whole one that fits.
impl Json for Rational {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Rational>> {
        let allowed = "a whole number, or a decimal or p/q as text";
        let (found, value) = match reader.peek()? {
            Kind::Number => {
                let Some(number) = reader.number(allowed)? else { return Ok(None) };
                (number.to_owned(), Rational::parse(number).ok().filter(Rational::is_integer))
            }
            _ => {
                let Some(text) = reader.string(allowed)? else { return Ok(None) };
                let value = Rational::parse(&text).ok();
                (text.into_owned(), value)
            }
        };
        if value.is_none() {
            let help = if found.contains(['.', 'e', 'E']) { "put the decimal in quotes, without exponent" } else { "" };
            let error = Problem::new(E_RANGE, "", "not an exact number").found(found).allowed(allowed);
            reader.refuse(error.help(help));
        }
        Ok(value)
    }
    fn write(&self, writer: &mut Writer<'_>) {
        match self.to_u64() {
            Some(whole) => writer.number(whole),
            None => writer.text(&self.to_string()),
        }
    }
}

impl Json for Decimal {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Decimal>> {
        let allowed = "a number";
        let Some(number) = reader.number(allowed)? else { return Ok(None) };
        if Rational::parse_json_number(number).is_err() {
            reader.refuse(Problem::new(E_RANGE, "", "not a number anybody needs").found(number).allowed(allowed));
            return Ok(None);
        }
        Ok(Some(Decimal(reader.share(number))))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }
}

impl Json for NodeId {
    fn read(reader: &mut Reader<'_>) -> Read<Option<NodeId>> {
        Ok(reader.string("the id of a node")?.map(|id| reader.names.intern(&id)))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.node(*self);
    }
}

impl<T: Json> Json for Option<T> {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Option<T>>> {
        Ok(T::read(reader)?.map(Some))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        if let Some(value) = self {
            value.write(writer);
        }
    }
    fn absent() -> Option<Option<T>> {
        Some(None)
    }
    fn is_present(&self) -> bool {
        self.is_some()
    }
}

impl<T: Json> Json for Nullable<T> {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Nullable<T>>> {
        if reader.peek()? == Kind::Null {
            reader.skip()?;
            return Ok(Some(Nullable(None)));
        }
        Ok(T::read(reader)?.map(|value| Nullable(Some(value))))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        match &self.0 {
            Some(value) => value.write(writer),
            None => writer.raw("null"),
        }
    }
}

impl<T: Json> Json for Vec<T> {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Vec<T>>> {
        let mut list = Vec::new();
        let ours = reader.list(&mut |reader| {
            if let Some(value) = T::read(reader)? {
                list.push(value);
            }
            Ok(())
        })?;
        list.shrink_to_fit();
        Ok(ours.then_some(list))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin('[');
        for value in self {
            writer.item();
            value.write(writer);
        }
        writer.end(']');
    }
}

impl<T: Json> Json for Box<T> {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Box<T>>> {
        Ok(T::read(reader)?.map(Box::new))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        (**self).write(writer);
    }
}

/// An object whose keys are names.
impl<T: Json> Json for BTreeMap<Text, T> {
    fn read(reader: &mut Reader<'_>) -> Read<Option<BTreeMap<Text, T>>> {
        let (mut map, mut keys) = (BTreeMap::new(), HashSet::new());
        let ours = reader.entries(&mut |reader, key| {
            let key = reader.share(key);
            let value = T::read(reader)?;
            if !keys.insert(key.clone()) {
                reader.refuse(Problem::new(E_KEY, "", format!("the key `{key}` stands twice")).found(&*key));
            } else if let Some(value) = value {
                map.insert(key, value);
            }
            Ok(())
        })?;
        Ok(ours.then_some(map))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin('{');
        for (key, value) in self {
            writer.key(key);
            value.write(writer);
        }
        writer.end('}');
    }
}

/// Lists of a fixed number of parts.
macro_rules! tuple {
    ($length:literal, $allowed:literal: $($part:ident $type:ident $place:tt),*) => {
        impl<$($type: Json),*> Json for ($($type,)*) {
            fn read(reader: &mut Reader<'_>) -> Read<Option<Self>> {
                $(let mut $part: Option<$type> = None;)*
                let mut length = 0_usize;
                let ours = reader.list(&mut |reader| {
                    length += 1;
                    match length - 1 {
                        $($place => $part = $type::read(reader)?,)*
                        _ => reader.skip()?,
                    }
                    Ok(())
                })?;
                if ours && length != $length {
                    let error = Problem::new(E_PARSE, "", "a list of another length").found(format!("{length} parts"));
                    reader.refuse(error.allowed($allowed));
                    return Ok(None);
                }
                Ok((|| Some(($($part?,)*)))())
            }
            fn write(&self, writer: &mut Writer<'_>) {
                writer.begin('[');
                $(
                    writer.item();
                    self.$place.write(writer);
                )*
                writer.end(']');
            }
        }
    };
}
tuple!(2, "a list of two": a A 0, b B 1);
tuple!(3, "a list of three": a A 0, b B 1, c C 2);
tuple!(4, "a list of four": a A 0, b B 1, c C 2, d D 3);

/// A text that is a quantity; written as it was read.
macro_rules! quantity_text {
    ($(#[$meta:meta])* $name:ident, $value:ty, $parse:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(Text, $value);

        impl $name {
            /// Reads the quantity.
            ///
            /// # Errors
            /// What may stand there instead.
            pub fn parse(text: &str) -> Result<$name, Misread> {
                let parse: fn(&str) -> Result<$value, Misread> = $parse;
                Ok($name(text.into(), parse(text)?))
            }
            /// What it is in base units.
            pub fn value(&self) -> &$value {
                &self.1
            }
            /// As it was written.
            pub fn text(&self) -> &str {
                &self.0
            }
        }

        impl Json for $name {
            fn read(reader: &mut Reader<'_>) -> Read<Option<$name>> {
                let Some(text) = reader.string("a quantity with unit")? else { return Ok(None) };
                match $name::parse(&text) {
                    Ok(value) => Ok(Some(value)),
                    Err(misread) => {
                        let error = Problem::new(E_RANGE, "", format!("not {}", misread.what)).found(text);
                        reader.refuse(error.allowed(misread.allowed).help(misread.help));
                        Ok(None)
                    }
                }
            }
            fn write(&self, writer: &mut Writer<'_>) {
                writer.text(&self.0);
            }
        }
    };
}
quantity_text!(
    /// A size with unit, in bytes.
    Size, Rational, |text| quantity::size(text)
);
quantity_text!(
    /// A rate with unit, in bytes per second, or none for unlimited.
    RateText, Capacity, |text| Ok(Capacity::parse(text)?.0)
);
quantity_text!(
    /// A time with unit, in seconds.
    Duration, Rational, |text| Ok(quantity::latency(text)?.0)
);

/// The version of a file: 1, the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

impl Json for Version {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Version>> {
        let Some(number) = reader.number("1")? else { return Ok(None) };
        if number != "1" {
            reader
                .refuse(Problem::new(E_VERSION, "", "a version this program does not know").found(number).allowed("1"));
            return Ok(None);
        }
        Ok(Some(Version))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw("1");
    }
}
