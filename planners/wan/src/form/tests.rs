//! Instances in JSON: what is read is written, and mistakes have their place.

use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use crate::random::Random;

const TEXT: &str = r#"{ "name": "small", "nodes": 3,
  "links": [ {"id": 1, "src": 1, "dst": 2, "cap": 1e1}, {"id": 0, "src": 0, "dst": 1, "cap": 0.1} ],
  "flows": [ {"id": 0, "collective": 0, "group": 0, "order": 0, "src": 0, "dst": 2, "size": 2.6673215349608546, "path": [0, 1]} ] }"#;

#[track_caller]
fn refused(from: &str, to: &str, code: &str, key: &str) {
    let text = TEXT.replacen(from, to, 1);
    assert_ne!(text, TEXT, "{from}");
    let problems = read(text.as_bytes(), "tried.json").expect_err("refused");
    let first = problems.all().first().expect("one");
    assert_eq!((first.code, &*first.key, &*first.file), (code, key, "tried.json"), "{problems}");
}

#[test]
fn a_file_is_read_to_the_last_bit_and_its_ids_may_stand_in_any_order() {
    let instance = read(TEXT.as_bytes(), "small.json").expect("read");
    assert_eq!(instance.name(), "small");
    assert_eq!(instance.links()[0], instance::Link { from: 0, to: 1, capacity: 0.1 });
    assert_eq!(instance.flows()[0].size, 2.667_321_534_960_854_6);
    assert_eq!(read(write(&instance).as_bytes(), "again").expect("read"), instance);
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let graph = Graph::ring(5).expect("a ring");
    for strict_steps in [false, true] {
        let workload = Workload { strict_steps, ..Workload::new(&graph, 3, 9) };
        let instance = workload.generate().expect("generated");
        assert_eq!(read(write(&instance).as_bytes(), "written").expect("read"), instance);
    }
    let late = TEXT.replace(r#""path""#, r#""release_s": 0.25, "path""#);
    let late = read(late.as_bytes(), "late.json").expect("read");
    assert_eq!(late.flows()[0].release, 0.25);
    assert_eq!(read(write(&late).as_bytes(), "written").expect("read"), late);
}

#[test]
fn mistakes_have_their_place() {
    refused("}", "", "E_PARSE", "/links/0");
    refused(r#""nodes": 3"#, r#""nodes": -3"#, "E_RANGE", "/nodes");
    refused(r#""nodes": 3,"#, "", "E_MISSING", "/nodes");
    refused(r#""size""#, r#""colour""#, "E_KEY", "/flows/0/colour");
    refused("1e1", "1e999", "E_RANGE", "/links/0/cap");
    refused("1e1", "0", "BadCapacity", "/links/0/cap");
    refused("0.1", "-0.1", "BadCapacity", "/links/1/cap");
    refused("2.6673", "-2.6673", "BadSize", "/flows/0/size");
    refused(r#""path": [0, 1]"#, r#""release_s": -1, "path": [0, 1]"#, "BadSize", "/flows/0/release_s");
    refused("[0, 1]", "[0]", "BadRoute", "/flows/0/path");
    refused(r#""src": 0, "dst": 2"#, r#""src": 0, "dst": 0"#, "SelfFlow", "/flows/0");
    refused(r#""id": 1"#, r#""id": 0"#, "DuplicateId", "/links/1/id");
    refused(r#""id": 1"#, r#""id": 2"#, "GapInIds", "/links/0/id");
    refused(r#"{"id": 0, "collective""#, r#"{"id": 1, "collective""#, "GapInIds", "/flows/0/id");
    refused(r#""collective": 0"#, r#""collective": 1"#, "Empty", "/flows");
    refused(r#""group": 0"#, r#""group": 1"#, "GapInIds", "/flows");
    refused(r#""order": 0"#, r#""order": 1"#, "NotAChain", "/flows");
    refused(r#""nodes": 3"#, r#""nodes": 3, "deps": [[0, 7]]"#, "GapInIds", "/deps");
    refused(r#""nodes": 3"#, r#""nodes": 3, "deps": [[0, 0]]"#, "Cycle", "/flows/0");
    refused("1e1", "1e10", "Range", "/links");
    refused(r#""nodes": 3"#, r#""nodes": 2"#, "BadRoute", "/links/0");
    refused(r#""nodes": 3"#, r#""nodes": 18446744073709551615"#, "TooLarge", "");
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let problems = read(&vec![b' '; MAX_BYTES + 1], "large.json").expect_err("too large");
    assert_eq!(problems.code(), "TooLarge");
}

/// Whatever is in a file, it is read or refused.
#[test]
fn broken_files_are_refused() {
    let mut random = Random::new(4);
    for _ in 0..20_000 {
        let mut bytes = TEXT.as_bytes().to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = b"0123456789-.e,:[]{}\" "[random.below(21)],
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"0123456789-.e,:[]{}\" "[random.below(21)]),
                _ => {
                    let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
                    let part = bytes[from.min(to)..from.max(to)].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        if let Ok(instance) = read(&bytes, "broken.json") {
            assert!(instance.collectives() > 0);
        }
    }
}
