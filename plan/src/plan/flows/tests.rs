//! Files of flows: read, refused, renamed and written back; bytes that are damaged panic nowhere.

use proptest::prelude::*;

use super::*;
use sluice_formats::problem::E_RANGE;

/// Canonical, but for the line ends.
const FILE: &str = r#"{"deps":[[0,7]],"flows":[{"collective":0,"dst":"b","group":0,"id":0,"order":0,"path":[0,3],"release_s":0.50,"size":"5/2MB","src":"a"},{"collective":1,"dst":"c","group":2,"id":7,"order":0,"path":[1],"size":"1GiB","src":"b"}],"sluice_flows":1}"#;

#[test]
fn what_is_written_is_what_was_read() {
    let (flows, names) = Flows::read(FILE.as_bytes(), "f").expect("valid");
    assert_eq!(Writer::compact(&flows, Some(&names)), FILE);
    let (again, others) = Flows::read(flows.to_text(&names).as_bytes(), "f").expect("what is written is valid");
    assert_eq!((&again, again.to_text(&others)), (&flows, flows.to_text(&names)));
    // Names in another order are the same flows.
    let mut into = Names::default();
    into.intern("x");
    into.intern("c");
    let renamed = flows.renamed(&names, &mut into);
    assert_ne!(renamed, flows);
    assert_eq!(renamed.to_text(&into), flows.to_text(&names));
}

#[test]
fn mistakes_have_their_place() {
    let cases = [
        (r#""sluice_flows":1"#, r#""sluice_flows":2"#, "E_VERSION", "/sluice_flows"),
        (r#""size":"1GiB""#, r#""size":"1GB/s""#, E_RANGE, "/flows/1/size"),
        (r#""path":[1]"#, r#""path":[-1]"#, E_RANGE, "/flows/1/path/0"),
        (r#""id":7,"#, "", "E_MISSING", "/flows/1/id"),
        (r#"[[0,7]]"#, r#"[[0,7,1]]"#, "E_PARSE", "/deps/0"),
        (r#""order":0"#, r#""order":0,"pred":[7]"#, E_KEY, "/flows/0/pred"),
        (r#""order":0"#, r#""order":0,"rank":1"#, E_KEY, "/flows/0/rank"),
        (r#""order":0"#, r#""order":0,"rate":"1MB/s""#, E_KEY, "/flows/0/rate"),
        (r#""order":0"#, r#""order":0,"start_s":1"#, E_KEY, "/flows/0/start_s"),
        (r#""order":0"#, r#""order":0,"weight":1"#, E_KEY, "/flows/0/weight"),
    ];
    for (from, to, code, key) in cases {
        let problems = Flows::read(FILE.replacen(from, to, 1).as_bytes(), "f.json").expect_err(key);
        let first = &problems.all()[0];
        assert_eq!((first.code, &*first.key, &*first.file), (code, key, "f.json"), "{problems}");
    }
    // A plan's decisions in every flow are not told more than fifty times.
    let flow = r#"{"collective":0,"dst":"b","group":0,"id":0,"order":0,"path":[],"rank":1,"size":"1B","src":"a","start_s":0},"#;
    let many = FILE.replacen(r#""flows":["#, &format!(r#""flows":[{}"#, flow.repeat(60)), 1);
    assert_eq!(Flows::read(many.as_bytes(), "f").expect_err("decided").all().len(), MAX_PROBLEMS);
}

#[test]
fn a_large_file_is_refused() {
    let code = |bytes, flows| {
        Flows::read_at_most(FILE.as_bytes(), "f", bytes, flows).map(drop).map_err(|errors| errors.code())
    };
    assert!(code(FILE.len(), 2).is_ok());
    assert_eq!(code(FILE.len() - 1, 2), Err(TOO_LARGE));
    assert_eq!(code(FILE.len(), 1), Err(TOO_LARGE));
    let zeros = vec![b'0'; MAX_FLOWS_BYTES + 1];
    assert_eq!(Flows::read(&zeros, "f").map(drop).map_err(|errors| errors.code()), Err(TOO_LARGE));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_file_is_read_or_refused(at in 0_usize..1000, byte: u8, drop in 0_usize..30, cut: bool) {
        let mut bytes = FILE.as_bytes().to_vec();
        let at = at % bytes.len();
        if cut {
            bytes.drain(at..(at + drop).min(bytes.len()));
        } else {
            bytes[at] = byte;
        }
        if let Ok((flows, names)) = Flows::read(&bytes, "f") {
            let (again, others) = Flows::read(flows.to_text(&names).as_bytes(), "f").expect("what is written is valid");
            prop_assert_eq!(again.to_text(&others), flows.to_text(&names));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}",:0-9a-z_ ]{0,120}"#) {
        let _ = (Flows::read(&bytes, "f"), Flows::read(text.as_bytes(), "f"));
    }
}
