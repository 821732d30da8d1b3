//! One corpus of good and damaged files, fed to every reader there is: what one accepts all accept, and a fault has one
//! text wherever the file is read.

use std::path::{Path, PathBuf};

use sluice_formats::problem::{
    DUPLICATE_NODE, E_DUP, E_KEY, E_LIMIT, E_MISSING, E_NET, E_PARSE, E_RANGE, E_VERSION, NON_POSITIVE_BANDWIDTH,
    Problem, Problems, UNKNOWN_NODE, UNSUPPORTED_FIELD,
};
use sluice_formats::topology::Topology;
use sluice_scenario::{Notation, Scenario};

/// Two hosts and two switches in a row, with all that a running fabric says about itself.
const GOOD: &str = r#"{ "sluice_topology": 1, "name": "row",
 "nodes": [ {"id": "h0", "kind": "host", "addresses": ["10.0.0.1", "fd00::1"]},
   {"id": "h1", "kind": "host", "addresses": ["10.0.1.0/24"]},
   {"id": "s0", "kind": "switch", "addresses": ["10.9.0.1:9604"]}, {"id": "s1", "kind": "switch"} ],
 "links": [ {"from": "h0", "to": "s0", "capacity": "25Gbit/s", "latency": "0.7us", "duplex": true},
   {"from": "h1", "to": "s1", "capacity": "7/2 GB/s", "duplex": true},
   {"from": "s0", "to": "s1", "capacity": "100Gbit/s", "duplex": true, "count": 2} ],
 "routing": {"kind": "explicit", "paths": [ {"src": "h0", "dst": "h1", "via": ["s0", "s1"]} ]} }"#;

/// A reader of topology.json: its name, and what it says about a file.
struct Reader {
    name: &'static str,
    read: fn(&Path) -> Result<(), Problems>,
}

const READERS: [Reader; 4] = [
    Reader { name: "planners", read: |path| Topology::load(path).map(drop) },
    Reader { name: "daemon", read: |path| sluiced::topology::Topology::load(path).map(drop) },
    Reader { name: "switch", read: switch },
    Reader { name: "scenario", read: scenario },
];

fn switch(path: &Path) -> Result<(), Problems> {
    let text = format!(
        "open = true\nunauthenticated = true\ntopology = {path:?}\n[[switches]]\nname = \"s0\"\nfrom_topology = true\n"
    );
    sluice_switch::config::Config::parse(Path::new("sluice-switch.toml"), &text).map(drop)
}

fn scenario(path: &Path) -> Result<(), Problems> {
    let text = format!(
        "version = 1\nname = \"t\"\n[network]\nkind = \"topology\"\nfile = {path:?}\n[[jobs]]\nid = \"a\"\nbytes = \
         9\ncompute_s = 0\narch = \"ring\"\nworkers = 2\niterations = 1\n"
    );
    Scenario::parse(&text, Notation::Toml, "t.toml", Path::new("/")).map(drop)
}

/// What all readers say about this text; they must say the same.
fn verdict(dir: &Path, text: &[u8]) -> Result<(), Vec<Problem>> {
    let path: PathBuf = dir.join("fabric.json");
    std::fs::write(&path, text).expect("written");
    let of = |reader: &Reader| (reader.read)(&path).map_err(Problems::into_all);
    let first = of(&READERS[0]);
    for reader in &READERS[1..] {
        let shown = |verdict: &Result<(), Vec<Problem>>| match verdict {
            Ok(()) => "accepted".to_owned(),
            Err(problems) => problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"),
        };
        let other = of(reader);
        let (first, other) = (shown(&first), shown(&other));
        assert_eq!(
            first,
            other,
            "{} and {} differ on\n{}",
            READERS[0].name,
            reader.name,
            String::from_utf8_lossy(text)
        );
    }
    first
}

fn dir(name: &str) -> tempfile::TempDir {
    tempfile::Builder::new().prefix(name).tempdir().expect("a directory")
}

#[test]
fn good_topologies_are_good_for_everybody() {
    let dir = dir("good");
    for (from, to) in [
        ("", ""),
        ("0.7us", "0.7µs"),
        ("25Gbit/s", "3125MB/s"),
        (", \"addresses\": [\"10.0.1.0/24\"]", ""),
        ("\"h0\", \"kind\"", "\"h0\", \"can\": {\"reduce\": false}, \"weight\": 3, \"kind\""),
        ("\"duplex\": true, \"count\": 2", "\"cost\": \"1/2\", \"duplex\": true, \"count\": 4096"),
        ("\"kind\": \"explicit\"", "\"kind\": \"ecmp\""),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert!(from.is_empty() || text != GOOD, "{from}");
        if let Err(problems) = verdict(dir.path(), text.as_bytes()) {
            panic!("{to}: {problems:?}");
        }
    }
}

#[test]
fn a_fault_has_one_text_wherever_the_file_is_read() {
    let dir = dir("faults");
    for (from, to, code, key) in [
        ("\"sluice_topology\": 1", "\"sluice_topology\": 2", E_VERSION, "/sluice_topology"),
        ("\"sluice_topology\": 1, ", "", E_MISSING, "/sluice_topology"),
        ("\"routing\"", "\"rooting\"", E_KEY, "/rooting"),
        ("\"name\": \"row\"", "\"name\": \"row\", \"name\": \"x\"", E_KEY, "/name"),
        ("\"kind\": \"switch\"}", "\"kind\": \"router\"}", E_RANGE, "/nodes/3/kind"),
        ("\"id\": \"h1\"", "\"id\": \"h0\"", DUPLICATE_NODE, "/nodes/1/id"),
        ("\"from\": \"h1\"", "\"from\": \"h9\"", UNKNOWN_NODE, "/links/1/from"),
        ("25Gbit/s", "25Gbps", E_RANGE, "/links/0/capacity"),
        ("25Gbit/s", "1e9bit/s", E_RANGE, "/links/0/capacity"),
        ("25Gbit/s", "0Gbit/s", NON_POSITIVE_BANDWIDTH, "/links/0/capacity"),
        ("\"25Gbit/s\"", "25", E_PARSE, "/links/0/capacity"),
        ("0.7us", "0.7", E_RANGE, "/links/0/latency"),
        ("0.7us", "-1us", E_RANGE, "/links/0/latency"),
        ("\"count\": 2", "\"count\": 0", E_RANGE, "/links/2/count"),
        ("\"count\": 2", "\"count\": 1000000", E_LIMIT, "/links"),
        ("10.0.1.0/24", "10.0.1.0/33", E_RANGE, "/nodes/1/addresses/0"),
        ("10.0.1.0/24", "10.0.0.1", E_DUP, "/nodes/1/addresses/0"),
        ("10.9.0.1:9604", "10.9.0.1", E_RANGE, "/nodes/2/addresses/0"),
        ("\"via\": [\"s0\", \"s1\"]", "\"via\": [\"s0\"]", E_NET, "/routing/paths/0"),
        ("\"dst\": \"h1\"", "\"dst\": \"h7\"", UNKNOWN_NODE, "/routing/paths/0/dst"),
        ("\"links\"", "\"links\" \"x\"", E_PARSE, ""),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let problems = verdict(dir.path(), text.as_bytes()).expect_err(to);
        let first = &problems[0];
        assert_eq!((first.code, first.key.as_str()), (code, key), "{to}: {first}");
        assert!(first.file.ends_with("fabric.json"), "{first}");
    }
    for bytes in [&b""[..], b"\xff\xfe", b"[[[[", b"null", b"{}"] {
        verdict(dir.path(), bytes).expect_err("no topology");
    }
    let deep = "[".repeat(100_000);
    verdict(dir.path(), deep.as_bytes()).expect_err("nested too deeply");
}

#[test]
fn no_cut_and_no_flipped_byte_makes_readers_disagree() {
    let dir = dir("mutated");
    let mut state = 1_u64;
    for _ in 0..400 {
        let mut bytes = GOOD.as_bytes().to_vec();
        for _ in 0..2 {
            // A linear congruential generator is random enough to pick a place.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            match state >> 20 & 3 {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.remove(at)),
                _ => bytes[at] = b"0129,:\"{}[]/ax"[(state >> 24) as usize % 14],
            }
        }
        let path = dir.path().join("fabric.json");
        std::fs::write(&path, &bytes).expect("written");
        let texts = |problems: &Problems| problems.all().iter().map(Problem::to_string).collect::<Vec<_>>();
        let planners = (READERS[0].read)(&path);
        for reader in &READERS[1..] {
            let same = match (&planners, (reader.read)(&path)) {
                (Ok(()), Ok(())) => true,
                (Ok(()), Err(problems)) => problems.all().iter().all(is_own),
                (Err(planners), Err(problems)) => texts(planners) == texts(&problems),
                (Err(_), Ok(())) => false,
            };
            assert!(same, "{}: {planners:?}\n{}", reader.name, String::from_utf8_lossy(&bytes));
        }
    }
}

/// A refusal that belongs to a reader's own purpose and not to the file: a graph without rates, a fabric without the switch
/// that is asked for, hosts that cannot reach each other.
fn is_own(problem: &Problem) -> bool {
    problem.code == UNSUPPORTED_FIELD || !problem.file.ends_with("fabric.json")
}

#[test]
fn settings_are_refused_with_the_same_words_in_every_file() {
    let scenario = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 2\ngbps = 1\n[[jobs]]\nid = \"a\"\nbytes = \
                    9\ncompute_s = 0\narch = \"ring\"\nworkers = 2\niterations = 1\n[time]\n";
    let switch = "open = true\nunauthenticated = true\n[[switches]]\nname = \"s\"\nports = []\n[slot]\n";
    let daemon = "[slot]\n";
    let of_daemon = |line: &str| {
        let mut reader = sluiced::config::read::Reader::default();
        reader.text(Path::new("f"), &format!("{daemon}{line}"));
        sluiced::config::judge(reader, true).map(drop)
    };
    let of_switch =
        |line: &str| sluice_switch::config::Config::parse(Path::new("f"), &format!("{switch}{line}")).map(drop);
    let of_scenario =
        |line: &str| Scenario::parse(&format!("{scenario}{line}"), Notation::Toml, "f", Path::new("/")).map(drop);
    // Code and message without the key's name, which is each file's own.
    let said = |result: Result<(), Problems>, key: &str| {
        let problems = result.expect_err(key);
        let first = &problems.all()[0];
        assert!(first.line > 0 && first.excerpt.is_some(), "{first}");
        (first.code, first.message.replace(&format!("slot.{key}"), "K").replace(&format!("time.{key}"), "K"))
    };
    for (value, code) in [("\"x\"", E_PARSE), ("true", E_PARSE), ("0", E_RANGE), ("99999", E_RANGE), ("[1]", E_PARSE)] {
        let daemon = said(of_daemon(&format!("length_ms = {value}")), "length_ms");
        let switch = said(of_switch(&format!("length_ms = {value}")), "length_ms");
        let scenario = said(of_scenario(&format!("slot_ms = {value}")), "slot_ms");
        assert_eq!([daemon.0, switch.0, scenario.0], [code; 3], "{value}: {daemon:?} {switch:?} {scenario:?}");
    }
    let unknown = |result: Result<(), Problems>| {
        let problems = result.expect_err("unknown");
        let first = problems.all()[0].clone();
        (first.code, first.message.replace("[time]", "[slot]"), first.help)
    };
    assert_eq!(unknown(of_daemon("horizn = 10")), unknown(of_switch("horizn = 10")));
    assert_eq!(unknown(of_daemon("colour = 10")), unknown(of_scenario("colour = 10")));
    for broken in ["a = = 1", "horizon = 10\nhorizon = 10", "x = \"no end"] {
        let first = |result: Result<(), Problems>| {
            let problem = result.expect_err(broken).all()[0].clone();
            (problem.code, problem.message, problem.allowed)
        };
        assert_eq!(first(of_daemon(broken)), first(of_switch(broken)), "{broken}");
        assert_eq!(first(of_daemon(broken)), first(of_scenario(broken)), "{broken}");
    }
}
