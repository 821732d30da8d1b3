//! Numbers as text, keys once, limits, pointers, and any bytes at all.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::problem::{E_KEY, E_LIMIT, E_MISSING, E_PARSE, E_RANGE, Problems};
use crate::quantity::Rational;

form! {
    /// For these tests.
    pub struct Inner {
        /// Required.
        pub id: Text = "id",
        /// May be absent.
        pub more: Option<Vec<u64>> = "more",
    }
}

form! {
    /// For these tests.
    pub struct Outer {
        /// Named values.
        pub map: Option<BTreeMap<Text, Rational>> = "map",
        /// A list.
        pub parts: Vec<Inner> = "parts",
        /// A number kept as it is.
        pub seconds: Option<Decimal> = "seconds",
        /// Unlimited or absent or given.
        pub size: Option<Nullable<Text>> = "size",
    }
}

const LIMITS: Limits = Limits { bytes: 10_000, elements: 100, charged: (10, "edges") };

fn read(text: &str) -> Result<Outer, Problems> {
    read_bytes(text.as_bytes())
}

fn read_bytes(bytes: &[u8]) -> Result<Outer, Problems> {
    Reader::new(bytes, LIMITS, "t.json")?.document(Outer::read).map(|(outer, _)| outer)
}

fn refused(text: &str) -> (crate::problem::Code, String) {
    let errors = read(text).expect_err(text);
    (errors.code(), errors.all()[0].key.clone())
}

#[test]
fn what_is_written_is_what_was_read() {
    let text = r#"{"map":{"a":1,"b":"1/3"},"parts":[{"id":"\u00e4\ud83d\ude00\n"},{"id":"y","more":[1,2]}],"seconds":0.10,"size":null}"#;
    let outer = read(text).expect("valid");
    assert_eq!(outer.parts[0].id.as_ref(), "ä😀\n");
    let written = Writer::compact(&outer, None);
    assert_eq!(written, text.replace("\\u00e4\\ud83d\\ude00", "ä😀"));
    assert_eq!(read(&Writer::lines(&outer, None)), Ok(outer));
}

#[test]
fn every_mistake_has_its_pointer() {
    assert_eq!(refused(r#"{"parts":[{"id":"a"},{"id":3}]}"#), (E_PARSE, "/parts/1/id".into()));
    assert_eq!(refused(r#"{"parts":[{"id":"a"},{}]}"#), (E_MISSING, "/parts/1/id".into()));
    assert_eq!(refused(r#"{"parts":[],"parst":[]}"#), (E_KEY, "/parst".into()));
    assert_eq!(refused(r#"{"parts":[],"parts":[]}"#), (E_KEY, "/parts".into()));
    assert_eq!(refused(r#"{"parts":[],"map":{"a/b":1,"a/b":1}}"#), (E_KEY, "/map/a~1b".into()));
    assert_eq!(refused(r#"{"parts":[],"map":{"a":0.5}}"#), (E_RANGE, "/map/a".into()));
    assert_eq!(refused(r#"{"parts":[{"id":"a","more":[1,-1]}]}"#), (E_RANGE, "/parts/0/more/1".into()));
    let errors = read(r#"{"parts":[],"parst":[]}"#).expect_err("a slip");
    assert_eq!(errors.all()[0].help, "did you mean `parts`?");
}

#[test]
fn what_is_no_json_says_where() {
    for text in ["", "{", "{\"parts\":[}", "[1,]", "{\"a\"}", "{\"parts\":[] \"a\":1}", "{'a':1}", "{\"parts\":[]}}"] {
        assert_eq!(refused(text).0, E_PARSE, "{text}");
    }
    for bad in ["01", "1.", "-", "1e", "+1", "NaN", "\"\\x\"", "\"\\ud800\"", "\"\u{1}\"", "tru", "\"a"] {
        assert_eq!(refused(&format!("{{\"parts\":[],\"seconds\":{bad}}}")).0, E_PARSE, "{bad}");
    }
    let errors = read("{\n \"parts\": [],\n  x").expect_err("broken");
    assert_eq!(
        (errors.all()[0].details["line"].as_u64(), errors.all()[0].details["column"].as_u64()),
        (Some(3), Some(3))
    );
}

#[test]
fn limits_come_before_memory() {
    assert_eq!(refused(&"[".repeat(9_000)).0, E_LIMIT);
    let deep = read(&format!("{{\"x\":{}", "[".repeat(9_000))).expect_err("deep");
    assert!(deep.all().iter().any(|error| error.code == E_LIMIT), "below an unknown key too");
    assert_eq!(refused(&" ".repeat(10_001)).0, E_LIMIT);
    assert_eq!(refused(&format!("{{\"parts\":[{}]}}", "{},".repeat(200))).0, E_MISSING);
    assert_eq!(refused(&format!("{{\"parts\":[{{\"id\":\"a\",\"more\":[{}0]}}]}}", "0,".repeat(200))).0, E_LIMIT);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_eq!(read_bytes(b"{\"parts\":[{\"id\":\"\xff\"}]}").expect_err("not UTF-8").code(), E_PARSE);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = read_bytes(&bytes);
    }

    #[test]
    fn a_changed_document_is_read_or_refused(at in 0_usize..200, byte: u8, drop in any::<bool>()) {
        let mut bytes =
            r#"{"map":{"a":1,"b":"1/3"},"parts":[{"id":"\u00e4\n"},{"id":"y","more":[1,2]}],"seconds":1e-3}"#.as_bytes().to_vec();
        let at = at % bytes.len();
        if drop { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(outer) = read_bytes(&bytes) {
            prop_assert_eq!(read(&Writer::compact(&outer, None)), Ok(outer));
        }
    }

    #[test]
    fn any_text_survives(id in ".{0,20}") {
        let outer = Outer { map: None, parts: vec![Inner { id: id.into(), more: None }], seconds: None, size: None };
        prop_assert_eq!(read(&Writer::compact(&outer, None)), Ok(outer));
    }
}
