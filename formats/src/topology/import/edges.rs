//! Plain text: `from to capacity [latency]` per line, directed; `#` begins a remark.

use std::collections::HashSet;

use super::{Problems, Share, empty_file, link, node, text};
use crate::problem::{E_LIMIT, E_PARSE, MAX_PROBLEMS, Problem};
use crate::topology::{Kind, MAX_LINKS, Topology};

/// What the lines do not say.
#[derive(Clone, Debug)]
pub struct Edges<'a> {
    /// What a node is if nothing else is said.
    pub kind: Kind,
    /// Ids of the nodes that are switches.
    pub switches: &'a [&'a str],
}

impl Default for Edges<'_> {
    fn default() -> Self {
        Edges { kind: Kind::Gpu, switches: &[] }
    }
}

/// Reads the lines. Nodes are numbered in the order in which they first appear.
///
/// # Errors
/// `E_PARSE` with the line for a line of another shape; for the rest those of a topology file, whose `/links/i` is the
/// i-th line that has a link.
pub fn edges(bytes: &[u8], file: &str, options: &Edges<'_>) -> Result<Topology, Problems> {
    let (mut made, mut errors, mut share) = (empty_file(), Vec::new(), Share::default());
    let mut known = HashSet::new();
    for (number, line) in text(bytes, file)?.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().take(6).collect();
        let (from, to, capacity, latency) = match words[..] {
            [] => continue,
            [from, to, capacity] => (from, to, capacity, None),
            [from, to, capacity, latency] => (from, to, capacity, Some(latency)),
            _ => {
                let message = format!("line {} has {} words", number + 1, words.len());
                let error = Problem::new(E_PARSE, format!("line {}", number + 1), message).found(line);
                errors.push(error.allowed("from to capacity [latency]"));
                if errors.len() == MAX_PROBLEMS {
                    break;
                }
                continue;
            }
        };
        if made.links.len() as u64 == MAX_LINKS {
            let error = Problem::new(E_LIMIT, format!("line {}", number + 1), "too many links");
            errors.push(error.allowed(format!("at most {MAX_LINKS}")));
            break;
        }
        let (from, to) = (share.text(from), share.text(to));
        for id in [&from, &to] {
            if known.insert(id.clone()) {
                let kind = if options.switches.contains(&&**id) { Kind::Switch } else { options.kind };
                made.nodes.push(node(id.clone(), kind));
            }
        }
        let mut entry = link(from, to, share.text(capacity), false);
        entry.latency = latency.map(|latency| share.text(latency));
        made.links.push(entry);
    }
    match Problems::collect(errors, file) {
        Some(errors) => Err(errors),
        None => Topology::build(made, file),
    }
}
