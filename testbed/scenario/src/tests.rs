//! Tests of the reader as a whole: what it accepts, what it says about what it refuses, and that no bytes break it.

use std::path::Path;

use proptest::prelude::*;
use sluice_formats::document::Notation;
use sluice_formats::problem::{
    Code, E_ARCH, E_CYCLE, E_DUP, E_FIT, E_KEY, E_MISSING, E_NET, E_PARSE, E_RANGE, E_REF, E_TESTBED, E_TRACE,
    E_VERSION, Problems, UNSUPPORTED_FIELD,
};

use super::*;

fn toml(text: &str) -> Result<Scenario, Problems> {
    Scenario::parse(text, Notation::Toml, "test.toml", Path::new("/nonexistent"))
}

const SMALL: &str = concat!("\n", include_str!("tests/small.toml"));

fn codes(text: &str) -> Vec<Code> {
    toml(text).err().map(|e| e.all().iter().map(|p| p.code).collect()).unwrap_or_default()
}

#[test]
fn a_small_scenario_is_read() {
    let s = toml(SMALL).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((s.network.hosts.len(), s.network.switches.len(), s.network.links.len()), (4, 1, 8));
    assert_eq!(s.jobs.first().map(|j| j.compute.0), Some(333_333_333));
    assert_eq!(s.jobs.get(1).map(|j| j.arrival.0), Some(1_500_000_000));
    assert_eq!(s.schedulers.policies.first().map(|p| p.to_string()), Some("sluice".into()));
    assert_eq!(s.time.slot.0, 60_000_000);
}

#[test]
fn both_notations_give_the_same() {
    let json = r#"{"version":1,"name":"small","seed":7,"network":{"kind":"star","hosts":4,"gpus":2,"gbps":10},
        "placement":{"policy":"spread","server_gpus":0},"models":{"tiny":{"bytes":1000,"compute_s":"1/3"}},
        "jobs":[{"id":"a","model":"tiny","arch":"ring","workers":3,"iterations":2},
        {"id":"b","bytes":50,"compute_s":0.5,"arch":"ps","workers":2,"servers":2,"iterations":1,"arrival_s":1.5}]}"#;
    assert_eq!(Scenario::parse(json, Notation::Json, "t.json", Path::new(".")), toml(SMALL));
}

#[test]
fn all_problems_come_at_once_with_line_and_hint() {
    let text = SMALL
        .replace("gbps = 10", "gbps = 0")
        .replace("iterations = 1\n", "itterations = 1\n")
        .replace("seed = 7", "seed = -7");
    let e = toml(&text).expect_err("three mistakes");
    let all = e.to_string();
    assert!(e.has(E_RANGE) && e.has(E_KEY) && e.has(E_MISSING), "{all}");
    assert!(all.contains("error[E_RANGE]: seed is out of range\n  --> test.toml:4:8\n"), "{all}");
    assert!(all.contains("did you mean `iterations`?"), "{all}");
    assert!(all.contains("network.gbps is no capacity"), "{all}");
}

#[test]
fn each_kind_of_mistake_has_its_code() {
    let with = |from: &str, to: &str| codes(&SMALL.replace(from, to));
    assert_eq!(codes("version = "), [E_PARSE]);
    assert!(with("version = 1", "version = 2").contains(&E_VERSION));
    assert!(with("version = 1", "").contains(&E_VERSION));
    assert!(with("name = \"small\"", "").contains(&E_MISSING));
    assert!(with("name = \"small\"", "name = \"Small!\"").contains(&E_RANGE));
    assert!(with("id = \"b\"", "id = \"a\"").contains(&E_DUP));
    assert!(with("model = \"tiny\"", "model = \"tinny\"").contains(&E_REF));
    assert!(with("servers = 2", "").contains(&E_ARCH));
    assert!(with("arch = \"ring\"", "arch = \"ring\"\nservers = 1").contains(&E_ARCH));
    assert!(with("workers = 3", "workers = 9").contains(&E_FIT));
    assert!(with("hosts = 4", "hosts = 5000").contains(&E_RANGE));
    assert!(with("hosts = 4", "hosts = \"4\"").contains(&E_PARSE));
    assert!(with("compute_s = \"1/3\"", "compute_s = 1\nfull_batch_s = 2").contains(&E_KEY));
    assert!(with("[placement]", "[scheduler]\nname = \"slice\"\n[placement]").contains(&E_REF));
    assert!(with("iterations = 2", "iterations = 0").contains(&E_RANGE));
    assert!(with("iterations = 2", "iterations = 2\nplacement = {workers = [\"h7\"]}").contains(&E_REF));
    assert!(with("gbps = 10", "gbps = nan").contains(&E_RANGE));
    assert!(with("gbps = 10", "gbps = 1e400").contains(&E_RANGE));
    let no_jobs = SMALL.split("[[jobs]]").next().unwrap_or_default();
    assert!(codes(no_jobs).contains(&E_MISSING));
    let trace = format!(
        "{no_jobs}[arrivals]\nkind = \"per-minute\"\nfile = \"none.csv\"\niterations = 1\nmix = [{{model = \"tiny\", arch = \"ring\", workers = 2}}]\n"
    );
    assert!(codes(&trace).contains(&E_TRACE));
}

const EXPLICIT: &str = r#"
version = 1
name = "leaf-spine"
[network]
kind = "explicit"
hosts = [{id = "h10"}, {id = "h9"}]
switches = [{id = "l0"}, {id = "l1"}, {id = "s0"}, {id = "s1"}]
links = [
  {a = "h9", b = "l0", gbps = 8}, {a = "h10", b = "l1", gbps = 8},
  {a = "l0", b = "s0", gbps = 8}, {a = "l0", b = "s1", gbps = 8, count = 2},
  {a = "l1", b = "s0", gbps = 8}, {a = "l1", b = "s1", gbps = 8, gbps_back = 4},
]
[[jobs]]
id = "f"
arch = "flows"
compute_s = 0
iterations = 1
flows = [{id = "x", src = "h9", dst = "h10", bytes = 5}, {id = "y", src = "h10", dst = "h9", bytes = 5, after = ["x"]}]
"#;

#[test]
fn explicit_networks_order_ids_and_find_paths() {
    let s = toml(EXPLICIT).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (0..s.network.nodes()).map(|i| s.network.name(NodeIx(i))).collect::<Vec<_>>(),
        ["h9", "h10", "l0", "l1", "s0", "s1"]
    );
    let path = s.path("f", "x", NodeIx(0), NodeIx(1)).unwrap_or_default();
    assert_eq!(path.len(), 4);
    let hops = super::route::next_hops(&s.network, NodeIx(1));
    assert_eq!(hops.get(2).map(Vec::len), Some(3), "one cable to s0, two to s1");
    let cut = EXPLICIT.replace(", {a = \"h10\", b = \"l1\", gbps = 8}", "");
    assert!(codes(&cut).contains(&E_NET));
    let cycle = EXPLICIT.replace("bytes = 5}, {", "bytes = 5, pipelined = [\"y\"]}, {");
    assert!(codes(&cycle).contains(&E_CYCLE));
    let path = format!(
        "{EXPLICIT}[routing]\nkind = \"explicit\"\npaths = [{{src = \"h9\", dst = \"h10\", via = [\"l0\", \"l1\"]}}]\n"
    );
    assert!(codes(&path).contains(&E_NET));
    let path = path.replace("[\"l0\", \"l1\"]", "[\"l0\", \"s1\", \"l1\"]");
    assert!(codes(&path).is_empty(), "{:?}", codes(&path));
}

#[test]
fn three_tier_has_the_names_of_the_format() {
    let text = SMALL.replace(
        "hosts = 4",
        "servers_per_rack = 2\nracks_per_edge = 2\nedges = 2\naggregations = 2\nuplinks = [2, 1]",
    );
    let s = toml(&text.replace("\"star\"", "\"three-tier\"").replace("gbps = 10", "gbps = [10, 20, 40]"));
    let s = s.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((s.network.hosts.len(), s.network.switches.len()), (8, 4 + 2 + 2));
    assert_eq!(s.network.links.len(), 2 * (8 + 4 * 2 + 2 * 2));
    assert_eq!(s.path("j", "f", NodeIx(0), NodeIx(7)).map(|p| p.len()), Some(6));
    assert_eq!(s.network.hosts.get(7).map(|h| (h.rack, h.edge)), Some((3, 1)));
}

#[test]
fn the_testbed_scales_and_refuses() {
    let s = toml(&format!("{SMALL}[testbed]\nscale = 10\n")).unwrap_or_else(|e| panic!("{e}"));
    let t = s.for_testbed(&s.schedulers.policies).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(t.network.links.first().map(|l| l.rate.0), Some(1_000_000_000));
    assert_eq!(t.jobs.first().map(|j| j.bytes), Some(100));
    assert_eq!(t.jobs.first().map(|j| j.compute.0), Some(333_333_333));
    let mcs = "mcs".parse::<Policy>().unwrap_or_else(|e| panic!("{e}"));
    assert!(s.for_testbed(&[mcs]).is_err_and(|e| e.has(E_TESTBED)));
    assert!(toml(SMALL).is_ok_and(|s| s.for_testbed(&[]).is_err_and(|e| e.has(E_TESTBED))));
}

#[test]
fn what_only_the_simulated_product_can_do_is_refused_on_the_testbed() {
    let with = |line: &str| {
        let text =
            format!("{SMALL}[testbed]\nscale = 10\n[scheduler]\nname = \"sluice\"\n[scheduler.sluice]\n{line}\n");
        toml(&text).unwrap_or_else(|e| panic!("{e}"))
    };
    for (line, refused) in [
        ("tables = \"own\"", true),
        ("announce_gap_ms = 60", true),
        ("known_routes = true", true),
        ("learned_routes = true", false),
        ("transport = \"udp\"", false),
        ("fair_floor_alone = 0.5", false),
        ("fair_floor_brief = 0.5", false),
        ("newcomer_share = 0.2", false),
        ("surplus = \"always\"", false),
    ] {
        assert_eq!(with(line).for_testbed(&[]).is_err_and(|e| e.has(E_TESTBED)), refused, "{line}");
    }
}

#[test]
fn shipped_scenarios_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "toml" || e == "json") {
            count += 1;
            if let Err(e) = Scenario::load(&path) {
                panic!("{}:\n{e}", path.display());
            }
        }
    }
    assert!(count > 0, "no scenario in {}", folder.display());
}

const TOPOLOGY: &str = r#"{ "sluice_topology": 1, "name": "t",
  "nodes": [ {"id": "a", "kind": "host"}, {"id": "b", "kind": "host"}, {"id": "s", "kind": "switch"} ],
  "links": [ {"from": "a", "to": "s", "capacity": "10Gbit/s", "latency": "2us", "duplex": true},
             {"from": "b", "to": "s", "capacity": "1.25 GB/s"}, {"from": "s", "to": "b", "capacity": "5Gbit/s"} ] }"#;

/// A scenario whose network is in a file beside it.
fn with_file(kind: &str, name: &str, content: &[u8], keys: &str) -> Result<Scenario, Problems> {
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(folder.path().join(name), content).unwrap_or_else(|e| panic!("{e}"));
    let text = format!(
        "version = 1\nname = \"f\"\n[network]\nkind = \"{kind}\"\nfile = \"{name}\"\n{keys}\n[[jobs]]\nid = \"a\"\nbytes = 9\ncompute_s = 0\narch = \"ring\"\nworkers = 2\niterations = 1\n"
    );
    Scenario::parse(&text, Notation::Toml, "f.toml", folder.path())
}

#[test]
fn networks_come_from_topology_files() {
    let s = with_file("topology", "t.json", TOPOLOGY.as_bytes(), "").unwrap_or_else(|e| panic!("{e}"));
    let rates: Vec<u64> = s.network.links.iter().map(|l| l.rate.0 / 1_000_000_000).collect();
    assert_eq!(rates, [10, 10, 10, 5]);
    assert_eq!(s.network.links.first().map(|l| l.delay.0), Some(2_000));
    let one_way = TOPOLOGY.replace(", {\"from\": \"s\", \"to\": \"b\", \"capacity\": \"5Gbit/s\"}", "");
    assert!(with_file("topology", "t.json", one_way.as_bytes(), "").is_err_and(|e| e.has(UNSUPPORTED_FIELD)));
    let gpu = TOPOLOGY.replace("\"kind\": \"switch\"", "\"kind\": \"gpu\"");
    let e = with_file("topology", "t.json", gpu.as_bytes(), "").expect_err("a gpu node");
    assert!(e.to_string().contains("/nodes/2/kind"), "{e}");
}

#[test]
fn networks_come_from_lists_of_hosts() {
    let keys = "gpus = 2\ngbps = [25, 100, 100]\nuplinks = [2, 1]";
    let csv = "host,asw,psw,dsw\n0,S1,P1,G1\n1,S1,P1,G1\n2,S1,P2,G1\n";
    let s = with_file("file", "n.csv", csv.as_bytes(), keys).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((s.network.hosts.len(), s.network.switches.len()), (3, 2 + 2 + 1));
    assert_eq!(s.path("j", "f", NodeIx(0), NodeIx(2)).map(|p| p.len()), Some(6));
    let e = with_file("file", "n.csv", "host,asw\n".as_bytes(), keys).expect_err("a wrong header");
    assert!(e.has(E_TRACE) && e.to_string().contains("n.csv:1"), "{e}");
}

fn never_panics(text: &str) {
    for notation in [Notation::Toml, Notation::Json] {
        match Scenario::parse(text, notation, "fuzz", Path::new("/nonexistent")) {
            Ok(s) => assert!(!s.jobs.is_empty()),
            Err(e) => assert!(!e.all().is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_errors_or_a_scenario(text in ".{0,200}") {
        never_panics(&text);
    }

    #[test]
    fn mutated_scenarios_are_errors_or_scenarios(
        which in 0usize..2,
        cuts in prop::collection::vec((0usize..900, 0usize..6, "[-a-z0-9\"\\[\\]{}=,. \n]{0,6}"), 1..6),
    ) {
        let mut text = [SMALL, EXPLICIT][which].to_owned();
        for (at, len, with) in cuts {
            let at = at % text.len().max(1);
            let end = (at + len).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &with);
            }
        }
        never_panics(&text);
    }

    #[test]
    fn hostile_numbers_are_refused_or_read(
        key in prop::sample::select(vec!["hosts = 4", "gpus = 2", "gbps = 10", "bytes = 50", "workers = 3", "servers = 2", "iterations = 1", "arrival_s = 1.5", "seed = 7"]),
        value in prop::sample::select(vec!["-0", "-1", "0", "0.5", "1e400", "9223372036854775808", "18446744073709551616", "nan", "-inf", "\"1/0\"", "\"1/3\"", "\"\"", "true", "[]", "{}", "1979-05-27"]),
    ) {
        let name = key.split(' ').next().unwrap_or_default();
        never_panics(&SMALL.replace(key, &format!("{name} = {value}")));
    }

    #[test]
    fn files_beside_a_scenario_may_hold_anything(
        noise in prop::collection::vec(any::<u8>(), 0..120),
        at in 0usize..400,
        which in 0usize..3,
    ) {
        let (kind, name, text, keys) = [
            ("topology", "t.json", TOPOLOGY, ""),
            ("file", "n.csv", "host,asw,psw,dsw\n0,S1,P1,G1\n1,S1,P1,G1\n", "gbps = [1, 1, 1]"),
            ("star", "m.csv", "minute,jobs\n0,2\n1,1\n", "hosts = 2\ngbps = 1\n[arrivals]\nkind = \"per-minute\"\nfile = \"m.csv\"\niterations = 1\nmix = [{model = \"vgg16\", arch = \"ring\", workers = 2}]"),
        ][which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes.splice(at.., noise);
        if let Err(e) = with_file(kind, name, &bytes, keys) {
            prop_assert!(!e.all().is_empty());
        }
    }
}

#[test]
fn compute_times_one_by_one_are_scaled_and_the_last_one_stays() {
    let list = |line: &str| {
        toml(
            &SMALL.replace("compute_s = 0.5", line).replace("seed = 7", "seed = 7\ndefaults = { compute_scale = 0.5 }"),
        )
    };
    let s = list("compute_list_s = [0.2, 0.4, 0.9]").unwrap_or_else(|e| panic!("{e}"));
    let job = &s.jobs[1];
    let ms = |iteration| job.compute_of(iteration).0 / 1_000_000;
    assert_eq!((ms(0), ms(2), ms(9), job.compute.0 / 1_000_000), (100, 450, 450, 250));
    assert_eq!(s.jobs[0].compute_of(3), s.jobs[0].compute);
    let refused = |line: &str| list(line).err().map(|e| e.all().iter().map(|p| p.code).collect::<Vec<_>>());
    assert_eq!(refused("compute_s = 1\ncompute_list_s = [1]"), Some(vec![E_KEY]));
    assert_eq!(refused("compute_list_s = []"), Some(vec![E_RANGE]));
    assert_eq!(refused("compute_list_s = [1, -1]"), Some(vec![E_RANGE]));
    assert!(refused("compute_list_s = 1").is_some());
}

#[test]
fn a_fault_may_come_again_and_again_if_it_is_over_by_then() {
    let fault = |more: &str| {
        let fault = format!("seed = 7\nfaults = [{{ at_s = 1, kind = \"daemon-stop\", target = \"h0\" {more} }}]");
        toml(&SMALL.replace("seed = 7", &fault))
    };
    let read = fault(", for_s = 0.1, every_s = 0.5, times = 3").unwrap_or_else(|e| panic!("{e}"));
    let at: Vec<u64> = read.faults.iter().map(|fault| fault.at.0 / 1_000_000).collect();
    assert_eq!(at, [1_000, 1_500, 2_000]);
    assert_eq!(read.faults.iter().map(|fault| fault.before).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(fault(", for_s = 0.1").unwrap_or_else(|e| panic!("{e}")).faults.len(), 1);
    for wrong in [
        ", for_s = 0.5, every_s = 0.5, times = 3",
        ", every_s = 0.5, times = 3",
        ", for_s = 0.1, every_s = 0.5",
        ", for_s = 0.1, times = 3",
        ", for_s = 0.1, every_s = 0.5, times = 0",
    ] {
        let refused = fault(wrong).err().unwrap_or_else(|| panic!("{wrong}"));
        assert!(refused.all().iter().all(|problem| problem.code == E_RANGE), "{wrong}: {refused}");
    }
}
