//! Every kind is read and written back, byte for byte the same; mistakes have their place. Damaged plans are F09's of docs/fuzzing.md.

use std::sync::LazyLock;

use super::*;
use sluice_formats::problem::Code;

/// One plan of every kind, canonical but for the line ends; `sluice-fuzz-targets` begins with them too.
static PLANS: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("samples.jsonl").lines().collect());

#[test]
fn every_kind_is_written_as_it_was_read() {
    for &text in PLANS.iter() {
        let plan = Plan::read(text.as_bytes(), "p.json").expect("valid");
        assert_eq!(Writer::compact(&plan.body, Some(&plan.names)), text);
        let lines = plan.to_text();
        let again = Plan::read(lines.as_bytes(), "p.json").expect("what is written is valid");
        assert_eq!(again, plan);
        assert_eq!(again.to_text(), lines);
    }
}

#[test]
fn kind_may_come_before_or_behind_its_content() {
    let text = PLANS[1].replace(r#""kind":"paths","pairs""#, r#""pairs""#).replace("}]}", r#"}],"kind":"paths"}"#);
    assert_eq!(Plan::read(text.as_bytes(), "p"), Plan::read(PLANS[1].as_bytes(), "p"));
}

#[test]
fn mistakes_have_their_place() {
    let cases: &[(usize, &str, &str, Code, &str)] = &[
        (0, r#""sluice_plan":1"#, r#""sluice_plan":3"#, "E_VERSION", "/sluice_plan"),
        (0, r#"["a","s","b"]"#, r#"["a","s","c"]"#, "E_RANGE", "/content/forests/0/trees/0/edges/0/path"),
        (0, r#"["a","s","b"]"#, r#"["a"]"#, "E_RANGE", "/content/forests/0/trees/0/edges/0/path"),
        (0, r#""weight":"1/3""#, r#""weight":0.25"#, "E_RANGE", "/content/forests/0/trees/0/weight"),
        (0, r#""k":1,"#, "", "E_MISSING", "/content/forests/0/k"),
        (0, r#""direction":"out""#, r#""direction":"inn""#, "E_RANGE", "/content/forests/0/direction"),
        (0, r#"["s","b"],"#, r#"["s"],"#, "E_PARSE", "/content/forests/0/trees/0/hops/1"),
        (0, r#""kind":"trees""#, r#""kind":"paths""#, "E_KEY", "/content/forests"),
        (0, r#""collective":"allgather","#, "", "E_MISSING", "/collective"),
        (0, "\"1/3 s/B\"", "\"1/3 s\"", "E_RANGE", "/claim/time_per_byte"),
        (2, "[0,0,4,1]", "[0,0,4]", "E_PARSE", "/content/steps/0/sends/0"),
        (2, "[0,0,4,1]", "[0,0,-4,1]", "E_RANGE", "/content/steps/0/sends/0/2"),
        (3, r#""25000B""#, r#""25KB""#, "E_RANGE", "/content/model/chunk"),
        (3, r#""op":"reduce""#, r#""op":"add""#, "E_RANGE", "/content/sends/0/op"),
        (3, r#""bytes":10,"#, "", "E_PARSE", "/content/sends/0"),
        (4, r#""reserve":[[0,"10MB/s"]]"#, r#""weight":1"#, "E_MISSING", "/content/groups/0"),
        (4, r#""rate":"10MB/s""#, r#""rate":"10MBps""#, "E_RANGE", "/content/flows/0/rate"),
        (6, r#","price":"1/3""#, "", "E_MISSING", "/claim/certificate/rows/0/price"),
        (6, r#""price":"1/3""#, r#""price":0.5"#, "E_RANGE", "/claim/certificate/rows/0/price"),
        (6, r#""execution":"order_preserving","#, "", "E_MISSING", "/content/execution"),
    ];
    for (plan, from, to, code, pointer) in cases {
        assert!(PLANS[*plan].contains(from), "{from}");
        let errors = Plan::read(PLANS[*plan].replacen(from, to, 1).as_bytes(), "p").expect_err(pointer);
        assert_eq!((errors.code(), errors.all()[0].key.as_str()), (*code, *pointer), "{errors}");
    }
}

#[test]
fn routes_are_not_endless() {
    let path = format!("[0{}]", ",0".repeat(MAX_EDGES as usize));
    let text = PLANS[4].replacen("[0,3]", &path, 1);
    let errors = Plan::read(text.as_bytes(), "p").expect_err("too long");
    assert_eq!((errors.code(), &*errors.all()[0].key), ("E_LIMIT", "/content/flows"));
}

#[test]
fn a_daemon_loads_less() {
    let text = PLANS[0].as_bytes();
    assert!(Plan::read_at_most(text, "p", text.len()).is_ok());
    assert_eq!(Plan::read_at_most(text, "p", text.len() - 1).expect_err("too long").code(), "E_LIMIT");
}

#[test]
fn the_command_line_may_spell_collectives_its_way() {
    for (word, collective) in [
        ("all-gather", Collective::AllGather),
        ("AllToAll", Collective::AllToAll),
        ("reduce_scatter", Collective::ReduceScatter),
        ("Reduce-Scatter", Collective::ReduceScatter),
    ] {
        assert_eq!(Collective::parse_loosely(word), Some(collective));
    }
    assert_eq!(Collective::parse_loosely("gather all"), None);
}
