//! One tree of values for both notations.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Collector, Notation};
use crate::json::{Kind, Limits, Read, Reader};
use crate::problem::{E_DUP, E_PARSE, Problem, printable};

/// The place of what stands in no file, such as a value of the command line.
pub const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// A value and the bytes where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value as the notation has it.
    pub value: Value,
    /// Its bytes in the text; of a table its header.
    pub span: Range<usize>,
}

/// A key of a table and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key, without those of the tables around it.
    pub name: String,
    /// The bytes of the key.
    pub span: Range<usize>,
    /// The value of the key, with its place.
    pub node: Node,
}

/// A value of either notation.
#[derive(Clone, Debug)]
pub enum Value {
    /// A text, free of escapes.
    Text(String),
    /// The number as it was written, in decimal.
    Number(String),
    /// True or false.
    Bool(bool),
    /// A list, in the order of the file.
    List(Vec<Node>),
    /// In the order of the file, each key once.
    Table(Vec<Entry>),
    /// Something that no key takes: a date, a null.
    Other(&'static str),
}

impl Value {
    /// What it is, with an article.
    pub fn kind(&self) -> &'static str {
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
    pub fn shown(&self) -> String {
        match self {
            Value::Text(text) => format!("\"{}\"", printable(text, 60)),
            Value::Number(number) => number.clone(),
            Value::Bool(bool) => bool.to_string(),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Table(_) => "a table".to_owned(),
            Value::Other(kind) => (*kind).to_owned(),
        }
    }
}

/// Nodes of a JSON document at most; a TOML file of the largest size allowed has fewer.
const LIMITS: Limits = Limits { bytes: 16 << 20, elements: 4_000_000, charged: (u64::MAX, "") };

impl Node {
    /// Reads a text; what is no TOML or JSON lands in the collector, and what could be read is given back.
    pub fn parse(collector: &Collector<'_>) -> Node {
        match collector.notation() {
            Notation::Toml => toml(collector),
            Notation::Json => json(collector),
        }
    }
    /// A JSON value from [`NOWHERE`]; `None` if the text is no JSON.
    pub fn json(text: &str) -> Option<Node> {
        let collector = Collector::new("", text, Notation::Json);
        let mut node = Node::parse(&collector);
        node.uproot();
        (collector.count() == 0).then_some(node)
    }
    /// Takes its place from the node and from all in it.
    fn uproot(&mut self) {
        self.span = NOWHERE;
        match &mut self.value {
            Value::List(nodes) => nodes.iter_mut().for_each(Node::uproot),
            Value::Table(entries) => entries.iter_mut().for_each(|entry| {
                entry.span = NOWHERE;
                entry.node.uproot();
            }),
            _ => {}
        }
    }
    /// A table without keys.
    pub fn empty() -> Node {
        Node { value: Value::Table(Vec::new()), span: 0..0 }
    }
}

fn toml(collector: &Collector<'_>) -> Node {
    let (table, errors) = DeTable::parse_recoverable(collector.source().text);
    for error in errors {
        // An error of `toml` has only a text to be told by, no kind; a test holds that a key that stands twice is found.
        let code = if error.message().contains("duplicate key") { E_DUP } else { E_PARSE };
        let message = error.message().trim().replace('\n', ", ");
        collector.add(Problem::new(code, "", message).allowed("TOML 1.0"), error.span().unwrap_or(0..0));
    }
    toml_table(table.get_ref(), table.span())
}

fn toml_table(table: &DeTable<'_>, span: Range<usize>) -> Node {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let mut node = toml_value(value.get_ref(), value.span());
        // A table's own place is its header, which the key's span names.
        if matches!(node.value, Value::Table(_)) {
            node.span = key.span();
        }
        Entry { name: String::from(AsRef::<str>::as_ref(key.get_ref())), span: key.span(), node }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.span.start);
    Node { value: Value::Table(entries), span }
}

fn toml_value(value: &DeValue<'_>, span: Range<usize>) -> Node {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Value::Number(integer.as_str().to_owned()),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::Number(number.to_string()),
            Err(_) => Value::Other("an integer that does not fit"),
        },
        DeValue::Float(float) => Value::Number(float.as_str().to_owned()),
        DeValue::Boolean(bool) => Value::Bool(*bool),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(array) => {
            Value::List(array.iter().map(|item| toml_value(item.get_ref(), item.span())).collect())
        }
        DeValue::Table(table) => return toml_table(table, span),
    };
    Node { value, span }
}

fn json(collector: &Collector<'_>) -> Node {
    let source = collector.source();
    let read = Reader::new(source.text.as_bytes(), LIMITS, source.file).and_then(|reader| reader.document(json_value));
    match read {
        Ok((node, _)) => node,
        Err(problems) => {
            problems.into_all().into_iter().for_each(|problem| collector.push(problem));
            Node::empty()
        }
    }
}

fn json_value(reader: &mut Reader<'_>) -> Read<Option<Node>> {
    let kind = reader.peek()?;
    let start = reader.offset();
    let value = match kind {
        Kind::Null => {
            reader.skip()?;
            Some(Value::Other("null"))
        }
        Kind::Boolean => reader.boolean()?.map(Value::Bool),
        Kind::Number => reader.number("a number")?.map(|number| Value::Number(number.to_owned())),
        Kind::Text => reader.string("a text")?.map(|text| Value::Text(text.into_owned())),
        Kind::List => {
            let mut list = Vec::new();
            reader.list(&mut |reader| {
                list.extend(json_value(reader)?);
                Ok(())
            })?;
            Some(Value::List(list))
        }
        Kind::Object => {
            let mut entries: Vec<Entry> = Vec::new();
            let mut seen = std::collections::HashSet::new();
            reader.entries(&mut |reader, key| {
                if !seen.insert(key.to_owned()) {
                    reader.refuse(Problem::new(E_DUP, "", format!("the key `{}` stands twice", printable(key, 60))));
                }
                let span = reader.offset()..reader.offset();
                entries.extend(json_value(reader)?.map(|node| Entry { name: key.to_owned(), span, node }));
                Ok(())
            })?;
            Some(Value::Table(entries))
        }
    };
    let span = start..reader.offset();
    Ok(value.map(|value| Node { value, span }))
}
