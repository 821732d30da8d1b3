//! One key of a scenario with another value than the file's: what a sweep varies.

use sluice_formats::document::{Collector, Entry, NOWHERE, Node, Value};
use sluice_formats::problem::{E_KEY, Problem};
use std::str::FromStr;

/// A key and the value it gets: `time.slot_ms` = `20`, `jobs.0.workers` = `4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Names of tables and the key, with dots; a number picks an entry of a list, from 0.
    pub key: String,
    /// The value as JSON, or a plain text: `20`, `true`, `[10, 20, 40]`, `slot`, `1/3`.
    pub value: String,
}

/// A key with the values a sweep tries: `time.slot_ms=20,60`; commas inside brackets separate nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Names of tables and the key, as in [`Set`].
    pub key: String,
    /// In order, at least one, each once.
    pub values: Vec<String>,
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Set, String> {
        let (key, value) = split(text)?;
        if value.is_empty() {
            return Err(format!("{key} has an empty value; write key=value, for example time.slot_ms=20"));
        }
        Ok(Set { key: key.to_owned(), value: value.to_owned() })
    }
}

/// Key and what stands after `=`.
fn split(text: &str) -> Result<(&str, &str), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("{text:?} has no `=`; write key=value, for example time.slot_ms=20"));
    };
    let key = key.trim();
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(format!("{key:?} is no key; write names with dots between them, for example time.slot_ms"));
    }
    Ok((key, value.trim()))
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Axis, String> {
        let (key, list) = split(text)?;
        let mut values: Vec<String> = Vec::new();
        let (mut depth, mut from) = (0_usize, 0);
        let ends = list.char_indices().filter(|&(_, c)| {
            depth = if "[{".contains(c) { depth + 1 } else { depth.saturating_sub(usize::from("]}".contains(c))) };
            c == ',' && depth == 0
        });
        for end in ends.map(|(at, _)| at).chain([list.len()]).collect::<Vec<_>>() {
            let value = list.get(from..end).unwrap_or_default().trim();
            from = end + 1;
            if value.is_empty() {
                return Err(format!("{key} has an empty value in {list:?}; write values with one comma between them"));
            }
            if values.iter().any(|v| v == value) {
                return Err(format!("{key} has {value:?} twice; write each value once"));
            }
            values.push(value.to_owned());
        }
        Ok(Axis { key: key.to_owned(), values })
    }
}

/// Puts the value into the tree; what does not fit there lands in the collector, now or when the tree is read.
pub(crate) fn apply(tree: &mut Node, set: &Set, collector: &Collector<'_>) {
    let mut node = tree;
    for part in set.key.split('.') {
        let shown = node.value.shown();
        let next = match &mut node.value {
            Value::Table(entries) => {
                let at = entries.iter().position(|entry| entry.name == part).unwrap_or_else(|| {
                    let node = Node { value: Value::Table(Vec::new()), span: NOWHERE };
                    entries.push(Entry { name: part.to_owned(), span: NOWHERE, node });
                    entries.len() - 1
                });
                entries.get_mut(at).map(|entry| &mut entry.node)
            }
            Value::List(nodes) => part.parse::<usize>().ok().and_then(|at| nodes.get_mut(at)),
            _ => None,
        };
        let Some(next) = next else {
            let what = format!("{} cannot be set: {part:?} is no part of {shown}", set.key);
            let problem = Problem::new(E_KEY, &set.key, what);
            return collector.add(problem.allowed("names of tables and keys, numbers of entries in lists"), NOWHERE);
        };
        node = next;
    }
    let text = || Node { value: Value::Text(set.value.clone()), span: NOWHERE };
    *node = Node::json(&set.value).unwrap_or_else(text);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sluice_formats::problem::{E_RANGE, Problems};

    use super::*;
    use crate::{Notation, Scenario};

    const TEXT: &str = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[[jobs]]\nid = \"a\"\nmodel = \"vgg16\"\narch = \"ring\"\nworkers = 2\niterations = 5\n";

    fn with(sets: &[(&str, &str)]) -> Result<Scenario, Problems> {
        let sets: Vec<Set> = sets.iter().map(|&(k, v)| Set { key: k.to_owned(), value: v.to_owned() }).collect();
        Scenario::parse_with(TEXT, Notation::Toml, "t", Path::new("."), &sets)
    }

    #[test]
    fn keys_old_and_new_take_numbers_and_texts() {
        let s = with(&[("time.slot_ms", "20"), ("time.mode", "slot"), ("jobs.0.iterations", "7"), ("seed", "9")]);
        let s = s.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((s.time.slot.0, s.jobs[0].iterations, s.seed), (20_000_000, 7, 9));
        let scaled = with(&[("defaults.compute_scale", "1/4")]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(scaled.defaults.compute_scale.to_f64(), 0.25);
    }

    #[test]
    fn wrong_keys_and_values_are_refused_as_in_a_file() {
        assert!(with(&[("time.slot_mss", "20")]).is_err_and(|e| e.to_string().contains("slot_ms")));
        assert!(with(&[("time.slot_ms", "0")]).is_err_and(|e| e.has(E_RANGE)));
        assert!(with(&[("jobs.3.workers", "2")]).is_err_and(|e| e.has(E_KEY)));
        assert!(with(&[("name.x", "2")]).is_err_and(|e| e.has(E_KEY)));
    }

    #[test]
    fn a_set_takes_all_that_stands_after_the_sign() {
        let set: Set = "network.gbps = [10,20,40]".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((set.key.as_str(), set.value.as_str()), ("network.gbps", "[10,20,40]"));
        for wrong in ["x", "=1", "a..b=1", "a="] {
            assert!(wrong.parse::<Set>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn axes() {
        let axis: Axis = "network.gbps=[10,20,40],[5, 5, 5]".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(axis.values, ["[10,20,40]", "[5, 5, 5]"]);
        for wrong in ["x", "=1", "a..b=1", "a=1,,2", "a=1,1", "a="] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }
}
