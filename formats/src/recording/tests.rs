//! What is written is read back; what is wrong is named with file, line and key; no bytes make the reader panic.

use super::*;
use proptest::prelude::*;

const START: &str = r#"{"kind":"start","version":1,"host":"h0","addresses":["10.0.0.1"],"links":[{"name":"eth0","rate":500}],"slot_ms":60,"unix_ns":7}
"#;

fn start(host: &str) -> Line {
    let links = vec![Link { name: "eth0".into(), rate: 500 }];
    Line::Start {
        version: VERSION,
        host: host.into(),
        addresses: vec!["10.0.0.1".into()],
        links,
        slot_ms: 60,
        unix_ns: 7,
    }
}

#[test]
fn the_form_of_a_start_is_fixed() {
    assert_eq!(start("h0").text(), START);
}

#[test]
fn what_is_written_is_read_back() {
    let job = Line::Job { job: "j".into(), name: "a \"job\"".into(), pattern: Pattern::Ring };
    let flow = Line::Flow { flow: "f".into(), job: "j".into(), to: "h1".into(), role: Role::Ring };
    let round = Line::Round { job: "j".into(), began_ns: 8, ended_ns: 9, flows: vec![("f".into(), 1000)] };
    let again = Line::Flow { flow: "f".into(), job: "j".into(), to: "10.0.0.9".into(), role: Role::Plain };
    let lines =
        [start("h0"), job, flow, round.clone(), Line::Lost { lines: 3 }, start("h0"), again, round, Line::Full {}];
    let text: String = lines.iter().map(Line::text).collect();
    // The last line was being written when its daemon died.
    let recording = parse(&(text + "{\"kind\":\"rou"), "a").unwrap_or_else(|e| panic!("{e}"));
    let round = |to: &str, role| Round { job: "j".into(), began: 8, ended: 9, flows: vec![(to.into(), role, 1000)] };
    assert_eq!(recording.rounds, [round("h1", Role::Ring), round("10.0.0.9", Role::Plain)]);
    assert_eq!(recording.jobs["j"], ("a \"job\"".into(), Pattern::Ring));
    assert_eq!((recording.lost, recording.full, recording.began), (3, true, 7));
    assert_eq!(recording.host.links, [Link { name: "eth0".into(), rate: 500 }]);
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_key() {
    let job = "{\"kind\":\"job\",\"job\":\"j\",\"name\":\"n\",\"pattern\":\"ring\"}\n";
    for (lines, line, key, code) in [
        ("", 0, "/kind", E_MISSING),
        (job, 1, "", E_MISSING),
        ("nonsense\n", 1, "", crate::problem::E_PARSE),
        ("[]\n", 1, "", crate::problem::E_PARSE),
        (&START.replace("\"version\":1", "\"version\":2"), 1, "/version", E_VERSION),
        (&START.replace("\"slot_ms\":60", "\"slot_ms\":0"), 1, "/slot_ms", E_RANGE),
        (&START.replace("\"slot_ms\"", "\"slots_ms\""), 1, "/slot_ms", E_MISSING),
        (&START.replace("500", "\"500\""), 1, "/links/0/rate", crate::problem::E_PARSE),
        (&format!("{START}{}", START.replace("h0", "h1")), 2, "", E_REF),
        (&format!("{START}{}", job.replace("ring", "rings")), 2, "/pattern", E_RANGE),
        (
            &format!(
                "{START}{{\"kind\":\"round\",\"job\":\"j\",\"began_ns\":2,\"ended_ns\":1,\"flows\":[[\"f\",-1]]}}\n"
            ),
            2,
            "/flows/0/1",
            E_RANGE,
        ),
        (
            &format!("{START}{job}{{\"kind\":\"round\",\"job\":\"j\",\"began_ns\":2,\"ended_ns\":1,\"flows\":[]}}\n"),
            3,
            "",
            E_RANGE,
        ),
        (
            &format!(
                "{START}{job}{{\"kind\":\"round\",\"job\":\"j\",\"began_ns\":1,\"ended_ns\":1,\"flows\":[[\"f\",1]]}}\n"
            ),
            3,
            "/flows/0/0",
            E_REF,
        ),
    ] {
        let problems = parse(lines, "h0.rec").expect_err(lines).into_all();
        let named = problems.iter().any(|p| p.file == "h0.rec" && p.line == line && p.key == key && p.code == code);
        assert!(named, "{lines}\nwants {line} {key:?} {code}, has {problems:#?}");
    }
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("\"kind\":"),
        Just("\"round\""),
        Just("\"start\""),
        Just("\"flows\":[["),
        Just("]]"),
        Just("{"),
        Just("}"),
        Just("\n"),
        Just(","),
        Just("-1e400"),
        Just("18446744073709551616"),
        Just("\"é\\u0000\""),
        Just("[[[[")
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in text()) {
        let _ = parse(&text, "x");
        let _ = parse(&format!("{START}{text}\n"), "x");
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic(at in 0_usize..400, byte in any::<u8>()) {
        let round = "{\"kind\":\"round\",\"job\":\"j\",\"began_ns\":1,\"ended_ns\":2,\"flows\":[[\"f\",1]]}\n";
        let mut bytes = format!("{START}{{\"kind\":\"job\",\"job\":\"j\",\"name\":\"n\",\"pattern\":\"ring\"}}\n{{\"kind\":\"flow\",\"flow\":\"f\",\"job\":\"j\",\"to\":\"b\",\"role\":\"ring\"}}\n{round}").into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = parse(&text, "x");
        }
    }

    #[test]
    fn every_name_comes_back(name in "\\PC{1,60}") {
        let text = start("h0").text() + &Line::Job { job: "j".into(), name: name.clone(), pattern: Pattern::Ps }.text();
        prop_assert_eq!(&parse(&text, "x").unwrap().jobs["j"].0, &name);
    }
}
