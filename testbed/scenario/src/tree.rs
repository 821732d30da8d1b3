//! One tree of values for both notations: TOML with byte offsets, JSON with pointers. Numbers stay text, so that they
//! stay exact.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

use super::problem::{Code, Log};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) offset: usize,
}

/// A value of either notation.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// The number as it was written, in decimal.
    Number(String),
    Bool(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// Something that no key takes: a date, a null.
    Other(&'static str),
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// The value in few words, for a message.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Text(t) => format!("{t:?}"),
            Value::Number(n) => n.clone(),
            Value::Bool(b) => b.to_string(),
            Value::List(l) => format!("a list of {}", l.len()),
            Value::Table(_) => "a table".to_owned(),
            Value::Other(kind) => (*kind).to_owned(),
        }
    }
}

/// Reads TOML; every syntax error lands in the log.
pub(crate) fn from_toml(text: &str, log: &Log) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        let at = e.span().map_or(0, |s| s.start);
        log.add(Code::Parse, at, "", e.message().trim().replace('\n', ", "), "TOML");
    }
    toml_table(table.get_ref(), table.span().start)
}

fn toml_table(table: &DeTable<'_>, offset: usize) -> Node {
    let mut entries: Vec<(usize, (String, Node))> = table
        .iter()
        .map(|(k, v)| {
            let mut node = toml_value(v.get_ref(), v.span().start);
            // A table's own place is its header, which the key's span names.
            if matches!(node.value, Value::Table(_)) {
                node.offset = k.span().start;
            }
            (k.span().start, (k.get_ref().to_string(), node))
        })
        .collect();
    entries.sort_by_key(|(at, _)| *at);
    Node { value: Value::Table(entries.into_iter().map(|(_, e)| e).collect()), offset }
}

fn toml_value(value: &DeValue<'_>, offset: usize) -> Node {
    let value = match value {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(i) if i.radix() == 10 => Value::Number(i.as_str().to_owned()),
        DeValue::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Value::Number(n.to_string()),
            Err(_) => Value::Other("an integer that does not fit"),
        },
        DeValue::Float(f) => Value::Number(f.as_str().to_owned()),
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(a) => Value::List(a.iter().map(|v| toml_value(v.get_ref(), v.span().start)).collect()),
        DeValue::Table(t) => return toml_table(t, offset),
    };
    Node { value, offset }
}

/// Reads JSON; an error lands in the log and gives an empty table.
pub(crate) fn from_json(text: &str, log: &Log) -> Node {
    match serde_json::from_str::<Node>(text) {
        Ok(node) => node,
        Err(e) => {
            log.add(Code::Parse, 0, "", e.to_string(), "JSON");
            Node { value: Value::Table(Vec::new()), offset: 0 }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
                Ok(Value::Bool(b))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
                Ok(Value::Number(n.to_string()))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
                Ok(Value::Number(n.to_string()))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
                // The shortest text that reads back as this float is what stood in the file, for every sane file.
                Ok(Value::Number(format!("{n:?}")))
            }
            fn visit_str<E>(self, s: &str) -> Result<Value, E> {
                Ok(Value::Text(s.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Other("null"))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(node) = seq.next_element()? {
                    list.push(node);
                }
                Ok(Value::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut entries: Vec<(String, Node)> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some((key, node)) = map.next_entry::<String, Node>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("key {key:?} stands twice in one table")));
                    }
                    entries.push((key, node));
                }
                Ok(Value::Table(entries))
            }
        }
        deserializer.deserialize_any(Any).map(|value| Node { value, offset: 0 })
    }
}
