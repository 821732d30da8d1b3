//! GraphML as the Internet Topology Zoo writes it: nodes and edges; the data of both is not needed.
//!
//! Node identity is the GraphML id (labels are not unique), in numerical order where the ids are numbers. External
//! nodes stay, self-loops go, parallel edges are one. Each edge becomes one duplex entry, ascending by its two ids.

use std::collections::BTreeSet;

use super::xml::{Tag, Tags};
use super::{Problems, capacity_parameter, empty_file, link, node, text};
use crate::problem::{DUPLICATE_NODE, E_LIMIT, E_MISSING, E_PARSE, Problem, UNKNOWN_NODE};
use crate::topology::{Kind, MAX_LINKS, Text, Topology};

/// An id that sorts as a number where it is one, numbers before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Number(u64, String),
    Name(String),
}

impl Id {
    fn of(text: &str) -> Id {
        match text.parse() {
            Ok(number) => Id::Number(number, text.to_owned()),
            Err(_) => Id::Name(text.to_owned()),
        }
    }
    fn text(&self) -> &str {
        match self {
            Id::Number(_, text) | Id::Name(text) => text,
        }
    }
}

/// Reads the form; all links get `capacity`.
///
/// # Errors
/// `E_PARSE` for what is no GraphML, `DUPLICATE_NODE`, `UNKNOWN_NODE`, each with its line.
pub fn graphml(bytes: &[u8], file: &str, capacity: &str) -> Result<Topology, Problems> {
    capacity_parameter("capacity", capacity)?;
    let (nodes, pairs) = read(text(bytes, file)?).map_err(|errors| errors.in_file(file))?;
    let mut made = empty_file();
    made.nodes = nodes.iter().map(|id| node(id.text().into(), Kind::Site)).collect();
    let capacity = Text::from(capacity);
    let ends = |(a, b): &(Id, Id)| link(a.text().into(), b.text().into(), capacity.clone(), true);
    made.links = pairs.iter().map(ends).collect();
    Topology::build(made, file)
}

/// The nodes, and the pairs that have an edge.
type Graph = (BTreeSet<Id>, BTreeSet<(Id, Id)>);

fn read(text: &str) -> Result<Graph, Problems> {
    let mut tags = Tags::new(text);
    let (mut nodes, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    let mut edges: Vec<(Id, Id, usize)> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut graphs = 0;
    while let Some(tag) = tags.next_tag()? {
        let (name, attributes) = match tag {
            Tag::End(_) => {
                path.pop();
                continue;
            }
            Tag::Start(name, attributes) => (name, attributes),
        };
        let line = tags.line();
        let at = |error: Problem| Problems::from(Problem { key: format!("line {line}"), ..error });
        let attribute = |key: &str| {
            let value = attributes.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_ref());
            value.ok_or_else(|| at(Problem::new(E_MISSING, "", format!("<{name}> without `{key}`"))))
        };
        match (path.as_slice(), name) {
            ([], "graphml") | (["graphml"], _) if name != "graph" => {}
            (["graphml"], "graph") => graphs += 1,
            (["graphml", "graph"], "node") => {
                let id = Id::of(attribute("id")?);
                if !nodes.insert(id.clone()) {
                    return Err(at(Problem::new(DUPLICATE_NODE, "", "two nodes have this id").found(id.text())));
                }
            }
            (["graphml", "graph"], "edge") => {
                if edges.len() as u64 == MAX_LINKS {
                    return Err(
                        at(Problem::new(E_LIMIT, "", "too many edges").allowed(format!("at most {MAX_LINKS}"))),
                    );
                }
                edges.push((Id::of(attribute("source")?), Id::of(attribute("target")?), line));
            }
            ([], _) => return Err(at(Problem::new(E_PARSE, "", "not GraphML").found(name).allowed("<graphml>"))),
            (_, "graph" | "hyperedge" | "port") => {
                let error = Problem::new(E_PARSE, "", format!("<{name}> here is not read")).found(name);
                return Err(at(error.allowed("one graph of nodes and edges")));
            }
            _ => {}
        }
        path.push(name);
    }
    if graphs != 1 {
        let error = Problem::new(E_PARSE, "", "not one graph").found(format!("{graphs} graphs"));
        return Err(error.allowed("one <graph> in <graphml>").into());
    }
    for (from, to, line) in edges {
        for id in [&from, &to] {
            if !nodes.contains(id) {
                let error = Problem::new(UNKNOWN_NODE, format!("line {line}"), "an edge to a node that is not there");
                return Err(error.found(id.text()).into());
            }
        }
        if from != to {
            pairs.insert(if from < to { (from, to) } else { (to, from) });
        }
    }
    Ok((nodes, pairs))
}
