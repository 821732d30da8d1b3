//! Both notations read alike, and no bytes break the reader.

use proptest::prelude::*;

use super::*;
use crate::problem::{E_DUP, E_KEY, E_MISSING, E_PARSE, E_RANGE, Problem, Problems};
use crate::quantity::Rational;

/// What the tests read: one key of each type.
#[derive(Debug, PartialEq)]
struct Read {
    name: String,
    rate: Rational,
    ports: Vec<u64>,
    fast: bool,
}

fn read(text: &str, notation: Notation) -> Result<Read, Problems> {
    let collector = Collector::new("f", text, notation);
    let node = Node::parse(&collector);
    let value = if collector.count() == 0 { Item::root(&node, &collector).table().and_then(of) } else { None };
    match Problems::of(collector.into_problems()) {
        Some(problems) => Err(problems),
        None => value.ok_or_else(|| Problem::new(E_PARSE, "", "nothing").into()),
    }
}

fn of(table: Table<'_>) -> Option<Read> {
    let name = table.require("name").and_then(|item| item.text());
    let rate = table.number("rate", &Rational::ZERO, &Rational::from(10));
    let ports = table.list("ports").map(|list| list.iter().filter_map(|item| item.int(&(1..=65_535))).collect());
    let link = table.table("link");
    let fast = link.as_ref().and_then(|link| link.choice("speed", &[("fast", true), ("slow", false)]));
    if let Some(link) = &link {
        link.finish();
    }
    table.finish();
    Some(Read { name: name?.to_owned(), rate: rate?, ports: ports?, fast: fast? })
}

const TOML: &str = "name = \"n\"\nrate = \"1/3\"\nports = [1, 0x10]\n[link]\nspeed = \"fast\"\n";
const JSON: &str = r#"{"name": "n", "rate": "1/3", "ports": [1, 16], "link": {"speed": "fast"}}"#;

#[test]
fn both_notations_give_the_same() {
    let of_toml = read(TOML, Notation::Toml).expect("good");
    assert_eq!(read(JSON, Notation::Json).expect("good"), of_toml);
    assert_eq!(of_toml.rate, Rational::new(1, 3).expect("not over zero"));
}

#[test]
fn both_notations_refuse_the_same_each_with_its_place() {
    for (toml, json, code, toml_key, json_key) in [
        (("name = \"n\"", ""), ("\"name\": \"n\", ", ""), E_MISSING, "name", "/name"),
        (("\"1/3\"", "11"), ("\"1/3\"", "11"), E_RANGE, "rate", "/rate"),
        (("\"1/3\"", "\"fast\""), ("\"1/3\"", "\"fast\""), E_PARSE, "rate", "/rate"),
        (("0x10", "70000"), ("16", "70000"), E_RANGE, "ports[1]", "/ports/1"),
        (("0x10", "\"a\""), ("16", "\"a\""), E_PARSE, "ports[1]", "/ports/1"),
        (("0x10", "1.5"), ("16", "1.5"), E_PARSE, "ports[1]", "/ports/1"),
        (("\"fast\"", "\"fsat\""), ("\"fast\"", "\"fsat\""), E_RANGE, "link.speed", "/link/speed"),
        (("speed", "sped"), ("speed", "sped"), E_KEY, "link.sped", "/link/sped"),
    ] {
        let of_toml = read(&TOML.replace(toml.0, toml.1), Notation::Toml).expect_err(toml.1);
        let of_json = read(&JSON.replace(json.0, json.1), Notation::Json).expect_err(json.1);
        let (t, j) = (&of_toml.all()[0], &of_json.all()[0]);
        assert_eq!((t.code, t.key.as_str()), (code, toml_key), "{of_toml}");
        assert_eq!((j.code, j.key.as_str()), (code, json_key), "{of_json}");
        assert_eq!((&t.found, &t.allowed, &t.help), (&j.found, &j.allowed, &j.help));
        assert!(code == E_MISSING || t.line > 0, "{of_toml}");
    }
}

#[test]
fn a_slip_is_pointed_out_at_its_line() {
    let problems = read(&TOML.replace("speed", "sped"), Notation::Toml).expect_err("a slip");
    assert_eq!(
        problems.to_string(),
        "error[E_KEY]: unknown key `sped` in [link]\n  --> f:5:1\n   |\n 5 | sped = \"fast\"\n   | ^^^^ \
         allowed: speed\n   = help: did you mean `speed`?\n1 error"
    );
}

#[test]
fn a_key_that_stands_twice_is_one_mistake() {
    for (text, notation) in [("a = 1\na = 2\n", Notation::Toml), ("{\"a\": 1, \"a\": 2}", Notation::Json)] {
        let problems = read(text, notation).expect_err("twice");
        assert_eq!(problems.code(), E_DUP, "{problems}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_it(at in 0..TOML.len(), byte in any::<u8>(), cut in 0..JSON.len(), json in any::<bool>()) {
        let (text, notation) = if json { (JSON, Notation::Json) } else { (TOML, Notation::Toml) };
        let mut bytes = text.as_bytes().to_vec();
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        bytes.truncate(bytes.len().max(1) - cut % 2 * (cut % bytes.len()));
        let text = String::from_utf8_lossy(&bytes);
        if let Err(problems) = read(&text, notation) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }
}
