//! Every mistake by its code and pointer, what is written is what was read, and damaged files.

use proptest::prelude::*;

use super::*;
use crate::problem::Code;

const TWO_BOX: &str = r#"{"sluice_topology":1,"name":"two-box",
 "nodes":[{"id":"b0.g0","kind":"gpu","weight":2},{"id":"b0.sw","kind":"switch","can":{"multicast":true},"port_addresses":["10.9.0.1","fd00::1"]},
  {"id":"b0.mem","kind":"memory","can":{"store":true,"copy":true,"reduce":false},"buffer":"4MiB"},{"id":"h","kind":"host","addresses":["10.0.0.1","fe80::/10"],"buffer":null}],
 "links":[{"from":"b0.g0","to":"b0.sw","capacity":"300GB/s","latency":"0.7us","count":2,"duplex":true,"cost":"1/2"},
  {"from":"b0.sw","to":"h","capacity":"200Gbit/s","capacity_per_epoch":["0GB/s","25GB/s"]},{"from":"h","to":"b0.mem","capacity":"unlimited"}],
 "groups":[{"name":"pcie0","links":[["b0.g0","b0.sw"],["b0.sw","b0.g0",1]],"capacity":"32GB/s"}],
 "routing":{"kind":"explicit","paths":[{"src":"b0.g0","dst":"h","via":["b0.sw"]}]},
 "box":{"b0.g0":"b0","b0.sw":"b0"}}"#;

fn read(text: &str) -> Result<Topology, Problems> {
    Topology::read(text.as_bytes(), "t.json")
}

#[test]
fn a_file_means_what_it_says() {
    let topology = read(TWO_BOX).expect("valid");
    let ends: Vec<(usize, usize)> = topology.links().iter().map(|link| (link.from, link.to)).collect();
    assert_eq!(ends, [(0, 1), (1, 0), (0, 1), (1, 0), (1, 3), (3, 2)], "copy by copy, forward before backward");
    assert_eq!(topology.links()[4].capacity, Capacity::Finite(Rational::from(25_000_000_000)));
    assert_eq!(topology.links()[4].per_epoch.as_deref().map(<[Capacity]>::len), Some(2));
    assert_eq!(topology.links()[0].latency, Rational::new(7, 10_000_000).unwrap());
    assert_eq!(topology.groups()[0].links, [0, 2, 3]);
    assert_eq!(topology.unit().write(&topology.links()[4].capacity), "25GB/s");
    let can = |id: &str| topology.nodes()[topology.node(id).unwrap()].can;
    assert_eq!(can("b0.sw"), Can { store: false, copy: true, reduce: false });
    assert_eq!(can("h"), Can { store: true, copy: true, reduce: true });
    assert_eq!(topology.nodes()[0].weight, 2);
    assert_eq!(topology.nodes()[2].buffer, Some(Rational::from(4 << 20)));
    assert_eq!(topology.nodes()[0].machine.as_deref(), Some("b0"));
    assert_eq!(topology.nodes()[1].port_addresses, ["10.9.0.1", "fd00::1"].map(|a| a.parse::<IpAddr>().unwrap()));
    assert_eq!(topology.compute(), [0, 3]);
}

#[test]
fn the_digest_is_of_the_sorted_compact_text_without_defaults() {
    let text = r#"{ "links": [], "sluice_topology": 1, "nodes": [ {"kind": "gpu", "id": "ä"} ] }"#;
    let topology = read(text).expect("valid");
    assert_eq!(topology.to_compact(), r#"{"links":[],"nodes":[{"id":"ä","kind":"gpu"}],"sluice_topology":1}"#);
    // printf '%s' '{"links":[],"nodes":[{"id":"ä","kind":"gpu"}],"sluice_topology":1}' | sha256sum
    assert_eq!(topology.digest(), "cb0618591f703cb5ce1ecaff9a8034122aaff45c5b421c02158e1b21b92eb74c");
    let spelt_out = read(&text.replace(r#""kind": "gpu""#, r#""kind": "gpu", "weight": 1"#)).expect("valid");
    assert_ne!(spelt_out.digest(), topology.digest(), "a default that is written is another text");
}

#[test]
fn what_is_written_is_what_was_read() {
    let topology = read(TWO_BOX).expect("valid");
    for text in [topology.to_text(), topology.to_compact()] {
        let again = read(&text).expect("valid");
        assert_eq!(again.file(), topology.file());
        assert_eq!(again.digest(), topology.digest());
    }
}

/// What to replace, by what, and the code and pointer that must come of it.
const MISTAKES: &[(&str, &str, Code, &str)] = &[
    (r#""sluice_topology":1"#, r#""sluice_topology":2"#, "E_VERSION", "/sluice_topology"),
    (r#""sluice_topology":1,"#, "", "E_MISSING", "/sluice_topology"),
    (r#""capacity":"300GB/s""#, r#""capacity":300"#, "E_PARSE", "/links/0/capacity"),
    (r#""capacity":"300GB/s""#, r#""capacity":"300GBps""#, "E_RANGE", "/links/0/capacity"),
    (r#""capacity":"300GB/s""#, r#""capacity":"300""#, "E_RANGE", "/links/0/latency"),
    (r#""capacity":"300GB/s""#, r#""capacity":"0GB/s""#, "NON_POSITIVE_BANDWIDTH", "/links/0/capacity"),
    (r#""capacity":"300GB/s""#, r#""capacity":"-3GB/s""#, "NON_POSITIVE_BANDWIDTH", "/links/0/capacity"),
    (r#""capacity":"300GB/s""#, r#""capacity":"18446744073709551616bit/s""#, "E_RANGE", "/links/0/capacity"),
    (r#""capacity":"300GB/s","#, "", "E_MISSING", "/links/0/capacity"),
    (r#""latency":"0.7us""#, r#""latency":"0.7""#, "E_RANGE", "/links/0/latency"),
    (r#""latency":"0.7us""#, r#""latency":"-1us""#, "E_RANGE", "/links/0/latency"),
    (r#""count":2"#, r#""count":0"#, "E_RANGE", "/links/0/count"),
    (r#""count":2"#, r#""count":-1"#, "E_RANGE", "/links/0/count"),
    (r#""count":2"#, r#""count":600000"#, "E_LIMIT", "/links"),
    (r#""count":2"#, r#""count":4294967295"#, "E_LIMIT", "/links"),
    (r#""cost":"1/2""#, r#""cost":"-1""#, "BadCost", "/links/0/cost"),
    (r#""cost":"1/2""#, r#""cost":"cheap""#, "E_RANGE", "/links/0/cost"),
    (r#""cost":"1/2""#, r#""costs":"1/2""#, "E_KEY", "/links/0/costs"),
    (r#""from":"h""#, r#""from":"g""#, "UNKNOWN_NODE", "/links/2/from"),
    (r#""id":"h""#, r#""id":"b0.g0""#, "DUPLICATE_NODE", "/nodes/3/id"),
    (r#""id":"h""#, r#""id":"""#, "E_RANGE", "/nodes/3/id"),
    (r#""kind":"host""#, r#""kind":"hots""#, "E_RANGE", "/nodes/3/kind"),
    (r#""weight":2"#, r#""weight":-2"#, "BAD_WEIGHTS", "/nodes/0/weight"),
    (r#""weight":2"#, r#""weight":0.5"#, "E_RANGE", "/nodes/0/weight"),
    (r#""multicast":true"#, r#""multicast":true,"copy":false"#, "E_KEY", "/nodes/1/can/multicast"),
    (r#""reduce":false"#, r#""aggregate":false"#, "E_KEY", "/nodes/2/can/aggregate"),
    (r#""buffer":"4MiB""#, r#""buffer":"4MB/s""#, "E_RANGE", "/nodes/2/buffer"),
    (r#""10.0.0.1""#, r#""10.0.0""#, "E_RANGE", "/nodes/3/addresses/0"),
    (r#""fe80::/10""#, r#""fe80::/129""#, "E_RANGE", "/nodes/3/addresses/1"),
    (r#""10.9.0.1""#, r#""10.9.0.0/24""#, "E_RANGE", "/nodes/1/port_addresses/0"),
    (r#""10.0.0.1""#, r#""10.9.0.1""#, "E_DUP", "/nodes/3/addresses/0"),
    (r#""weight":2"#, r#""port_addresses":[]"#, "E_KEY", "/nodes/0/port_addresses"),
    (r#"["0GB/s","25GB/s"]"#, "[]", "E_RANGE", "/links/1/capacity_per_epoch"),
    (r#"["b0.g0","b0.sw"],"#, r#"["b0.g0","b0.mem"],"#, "UnknownEdge", "/groups/0/links/0"),
    (r#"["b0.sw","b0.g0",1]"#, r#"["b0.sw","b0.g0",2]"#, "UnknownEdge", "/groups/0/links/1"),
    (r#"["b0.sw","b0.g0",1]"#, r#"["b0.g0","b0.sw",1]"#, "RepeatedEdge", "/groups/0/links/1"),
    (r#"[["b0.g0","b0.sw"],["b0.sw","b0.g0",1]]"#, "[]", "EmptyGroup", "/groups/0/links"),
    (r#"["b0.g0","b0.sw"],"#, r#"["b0.g0"],"#, "E_PARSE", "/groups/0/links/0"),
    (r#""via":["b0.sw"]"#, r#""via":["sw"]"#, "UNKNOWN_NODE", "/routing/paths/0/via/0"),
    (r#""b0.sw":"b0""#, r#""b0/sw":"b0""#, "UNKNOWN_NODE", "/box/b0~1sw"),
    (r#""b0.sw":"b0""#, r#""b0.g0":"b1""#, "E_KEY", "/box/b0.g0"),
    (r#""box""#, r#""boxes""#, "E_KEY", "/boxes"),
    (r#""to":"h""#, r#""to":"b0.sw","duplex":true"#, "E_RANGE", "/links/1/duplex"),
];

#[test]
fn every_mistake_has_its_code_and_place() {
    for (from, to, code, pointer) in MISTAKES {
        assert!(TWO_BOX.contains(from), "{from}");
        let errors = read(&TWO_BOX.replacen(from, to, 1)).expect_err(pointer);
        assert_eq!((errors.code(), errors.all()[0].key.as_str()), (*code, *pointer), "{errors}");
        assert!(errors.all().iter().all(|error| error.file == "t.json"));
    }
}

#[test]
fn the_largest_rate_is_taken_and_the_next_one_refused() {
    let with = |capacity: &str| read(&TWO_BOX.replacen("300GB/s", capacity, 1));
    with("18446744073709551615bit/s").expect("2^64 - 1");
    let refused = with("2305843009213693952B/s").expect_err("2^64").to_string();
    for part in [
        "more than a rate can be",
        "found 2305843009213693952B/s",
        "allowed: less than 2^64 bit/s",
        "/links/0/capacity",
    ] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
}

#[test]
fn an_abstract_graph_has_no_units_anywhere() {
    let text = |a: &str, b: &str, latency: &str| {
        format!(
            r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu"}}],"links":[
            {{"from":"a","to":"b","capacity":"{a}","latency":"{latency}"}},{{"from":"b","to":"a","capacity":"{b}"}}]}}"#
        )
    };
    assert_eq!(read(&text("7/2", "1", "2")).expect("valid").unit(), Unit::Abstract);
    assert_eq!(read(&text("7/2", "1GB/s", "2")).expect_err("mixed").all()[0].key, "/links/1/capacity");
    assert_eq!(read(&text("7/2", "1", "2us")).expect_err("mixed").all()[0].key, "/links/0/latency");
    assert!(read(&text("unlimited", "1GB/s", "2us")).is_ok());
    assert!(read(&text("unlimited", "unlimited", "2us")).is_ok());
    assert_eq!(read(&text("unlimited", "1GB/s", "2")).expect_err("no unit").all()[0].key, "/links/0/latency");
}

#[test]
fn weights_that_are_all_zero_are_refused() {
    let text =
        r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu","weight":0},{"id":"s","kind":"switch"}],"links":[]}"#;
    assert_eq!(read(text).expect_err("all zero").code(), "BAD_WEIGHTS");
}

#[test]
fn a_million_links_are_read_and_one_more_is_not() {
    let text = |count: u32| {
        format!(
            r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu"}}],"links":[
            {{"from":"a","to":"b","capacity":"1","count":{count},"duplex":true}}]}}"#
        )
    };
    assert_eq!(read(&text(500_000)).expect("a million").links().len(), 1_000_000);
    assert_eq!(read(&text(500_001)).expect_err("two more").code(), "E_LIMIT");
}

#[test]
fn capacities_have_a_common_denominator() {
    let links: Vec<String> = (1..=10_000).map(|q| format!(r#"{{"from":"a","to":"b","capacity":"1/{q}"}}"#)).collect();
    let text = format!(
        r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu"}}],"links":[{}]}}"#,
        links.join(",")
    );
    assert_eq!(read(&text).expect_err("nothing divides all of them").code(), "E_LIMIT");
}

#[test]
fn a_file_of_mistakes_is_refused_with_the_first_of_them() {
    let nodes: Vec<String> = (0..500).map(|i| format!(r#"{{"id":"{i:0200}","kind":"gpu"}}"#)).collect();
    let link = format!(r#"{{"from":"{:060}","to":"x","capacity":"1"}}"#, 7);
    let text =
        format!(r#"{{"sluice_topology":1,"nodes":[{}],"links":[{}]}}"#, nodes.join(","), vec![link; 100_000].join(","));
    assert_eq!(read(&text).expect_err("no such nodes").all().len(), crate::problem::MAX_PROBLEMS);
}

#[test]
fn groups_cannot_multiply_without_bound() {
    let pair = r#"["a","b"]"#;
    let group = format!(r#"{{"capacity":"1","links":[{pair}]}}"#);
    let groups = vec![group; 1000].join(",");
    let text = format!(
        r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu"}}],"links":[
        {{"from":"a","to":"b","capacity":"1","count":100000}}],"groups":[{groups}]}}"#
    );
    assert_eq!(read(&text).expect_err("10⁸ members").code(), "E_LIMIT");
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused(at in 0_usize..4000, byte: u8, length in 0_usize..40, cut: bool) {
        let mut bytes = TWO_BOX.as_bytes().to_vec();
        let at = at % bytes.len();
        if cut {
            bytes.drain(at..(at + length).min(bytes.len()));
        } else {
            bytes[at] = byte;
        }
        if let Ok(topology) = Topology::read(&bytes, "t") {
            let again = Topology::read(topology.to_compact().as_bytes(), "t").expect("what is written is valid");
            prop_assert_eq!(again.digest(), topology.digest());
        }
    }
}
