//! Every kind is read and written back, byte for byte the same; mistakes have their place; damaged plans never panic.

use proptest::prelude::*;

use super::*;
use sluice_formats::problem::Code;

/// One plan of every kind, canonical but for the line ends.
pub const PLANS: [&str; 7] = [
    r#"{"claim":{"algorithm_bandwidth":"3","certificate":{"kind":"cut","nodes":["a"]},"lower_bound":"1/3","optimal":true,"time_per_byte":"1/3 s/B"},"collective":"allgather","content":{"forests":[{"U":"1/2","direction":"out","fixed_k":false,"k":1,"trees":[{"edges":[{"dst":"b","path":["a","s","b"],"src":"a"},{"dst":"c","path":["b","c"],"src":"b"}],"hops":[["a","s"],["s","b"],["b","c"]],"root":"a","weight":"1/3"},{"edges":[],"root":"b","weight":2}]}],"kind":"trees"},"ignored":["groups"],"made_by":{"command":"x","seconds":1.50,"seed":0,"version":"0.1.0"},"participants":["a","b","c"],"root":"a","sluice_plan":1,"topology":{"inline":{"links":[],"nodes":[],"sluice_topology":1},"name":"t","sha256":"00"}}"#,
    r#"{"claim":{},"collective":"alltoall","content":{"kind":"paths","pairs":[{"amount":"1/2","dst":"b","path":["a","s","b"],"src":"a"}]},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"T_B":null,"T_L":2,"load_sum":"7/8","loads":["1/2","3/8"]},"collective":"allgather","content":{"P":4,"kind":"steps","shares":[1,2],"step_length":"1/7","steps":[{"op":"copy","sends":[[0,0,4,1],[[0,1],1,2,3]]},{"copies":[[0,0,4,1]],"op":"reduce","sends":[]}]},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"finish_epochs":3,"finish_us":3.0,"status":"feasible"},"collective":"custom","content":{"epoch_us":1.0,"finish_epochs":3,"finish_us":3.0,"kind":"sends","model":{"chunk":"25000B","chunks":1,"divisible":true,"stragglers":[{"alpha_add":1e-6,"link":3}],"tau":"1us","theta":"1/10"},"sends":[{"bytes":10,"chunk":0,"epoch":0,"from":"a","offset":0,"op":"reduce","src":"a","tenant":"x","to":"b","via":"s"},{"chunk":0,"epoch":1,"from":"b","op":"copy","src":"a","to":"c"}]},"demands":{"sluice_demands":1,"tenants":[{"name":"x","triples":[["a",0,"b"]],"weight":1}]},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"T":[1.25,2],"T_mean_s":1.625},"collective":"custom","content":{"execution":"static","flows":[{"collective":0,"dst":"b","group":0,"id":0,"order":0,"path":[0,3],"rate":"10MB/s","release_s":0,"size":"100MB","src":"a"}],"groups":[{"collective":0,"group":0,"reserve":[[0,"10MB/s"]]}],"kind":"rates"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{},"collective":"custom","content":{"execution":"max_min","flows":[],"groups":[{"collective":0,"group":0,"weight":"2/3"}],"kind":"weights"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"certificate":{"kind":"completion","rows":[{"collectives":[0,1],"link":3,"price":"1/3"}]}},"collective":"custom","content":{"execution":"order_preserving","flows":[{"collective":0,"dst":"b","group":0,"id":0,"order":0,"path":[],"pred":[1],"size":"1GiB","src":"a","start_s":0.5}],"kind":"order"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
];

#[test]
fn every_kind_is_written_as_it_was_read() {
    for text in PLANS {
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

proptest! {
    #[test]
    fn a_damaged_plan_is_read_or_refused(which in 0_usize..7, at in 0_usize..2000, byte: u8, drop in 0_usize..30, cut: bool) {
        let mut bytes = PLANS[which].as_bytes().to_vec();
        let at = at % bytes.len();
        if cut {
            bytes.drain(at..(at + drop).min(bytes.len()));
        } else {
            bytes[at] = byte;
        }
        if let Ok(plan) = Plan::read(&bytes, "p") {
            prop_assert_eq!(Plan::read(plan.to_text().as_bytes(), "p"), Ok(plan));
        }
    }
}
