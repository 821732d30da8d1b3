//! Every key at its ends, outside, of the wrong type and misspelt; mutated files; layers; reload.

use std::path::Path;

use proptest::prelude::*;
use sluice_formats::problem::{Code, E_CONFLICT, E_KEY, E_MISSING, E_MOVED, E_PARSE, E_RANGE};

use super::keys::{Key, MOVED};
use super::value::Rule;
use super::*;

fn read(text: &str) -> Result<Loaded, Problems> {
    let mut reader = read::Reader::default();
    reader.text(Path::new("sluiced.toml"), text);
    judge(reader, true)
}

/// Values a rule takes and values of the right type that it refuses, as TOML.
fn samples(key: &Key<Config>) -> (Vec<String>, Vec<String>) {
    let list = |text: &str, n: usize| format!("[{}]", vec![format!("\"{text}\""); n].join(","));
    match key.rule {
        Rule::Int(a, b) => {
            let below = if a == 0 { "-1".to_owned() } else { (a - 1).to_string() };
            (vec![a.to_string(), b.to_string()], vec![below, (b + 1).to_string()])
        }
        Rule::PowerOfTwo(a, b) => {
            (vec![a.to_string(), b.to_string()], vec![(a + 1).to_string(), (a / 2).to_string(), (b * 2).to_string()])
        }
        Rule::Number(a, b) => (
            vec![format!("{a:?}"), format!("{b:?}")],
            vec![format!("{:?}", a - 0.5), format!("{:?}", b * 2.0 + 1.0), "nan".into()],
        ),
        Rule::Words(words) if key.kind == "a list of texts" => {
            (vec![list(words[0], 1), "[]".into()], vec![list("no-such", 1)])
        }
        Rule::Words(words) => {
            (words.iter().map(|word| format!("\"{word}\"")).collect(), vec!["\"no-such\"".into(), "\"\"".into()])
        }
        Rule::Name => (
            vec!["\"a\"".into(), format!("\"{}\"", "x".repeat(63))],
            vec!["\"\"".into(), "\"A b\"".into(), format!("\"{}\"", "x".repeat(64))],
        ),
        Rule::Suffix(n) => (
            vec!["\"\"".into(), format!("\"{}\"", "z".repeat(n))],
            vec![format!("\"{}\"", "z".repeat(n + 1)), "\"A\"".into()],
        ),
        Rule::Path => (vec!["\"/x\"".into()], vec!["\"relative\"".into(), "\"\"".into()]),
        Rule::List(n) => (vec!["[]".into(), list("a", n)], vec![list("a", n + 1)]),
        Rule::Ports(n) => {
            (vec!["[22, \"5-6\"]".into(), list("1", n)], vec![list("1", n + 1), list("6-5", 1), "[70000]".into()])
        }
        Rule::Networks(n) => (vec![list("10.0.0.0/8", n)], vec![list("10.0.0.0/8", n + 1), list("10.0.0.0/33", 1)]),
        Rule::Addresses(n) => (vec![list("[::]:1", n), "[]".into()], vec![list("[::]:1", n + 1), list("host", 1)]),
        Rule::Endpoints(n) => (
            vec![list("http://[::1]:2379", n), "[]".into()],
            vec![list("http://[::1]:2379", n + 1), list("etcd:2379", 1), list("https://etcd", 1)],
        ),
        Rule::LogFilter => (
            vec!["\"info\"".into(), "\"info,sluiced::monitor=debug\"".into()],
            vec!["\"sluiced=loud\"".into(), "\"=,=bad[\"".into()],
        ),
        Rule::HostPort | Rule::Any => (
            if key.kind == "true or false" { vec!["true".into(), "false".into()] } else { vec!["\"x\"".into()] },
            vec![],
        ),
    }
}

fn line(path: &str, value: &str) -> String {
    format!("{path} = {value}\n")
}

#[test]
fn every_key_takes_its_ends_and_refuses_what_lies_outside() {
    for key in KEYS {
        let (good, bad) = samples(key);
        for value in good {
            let problems = match read(&line(key.path, &value)) {
                Ok(_) => continue,
                Err(problems) => problems,
            };
            // A value may be fine by itself and only disagree with another key's default.
            assert!(problems.all().iter().all(|p| p.code == E_CONFLICT), "{} = {value}: {problems}", key.path);
        }
        for value in bad {
            let problems = read(&line(key.path, &value)).expect_err(&format!("{} = {value}", key.path));
            let problem = &problems.all()[0];
            assert_eq!((problem.code, problem.line, problem.key.as_str()), (E_RANGE, 1, key.path), "{value}");
            assert!(!problem.found.is_empty() && !problem.allowed.is_empty() && !problem.help.is_empty(), "{problem}");
        }
    }
}

#[test]
fn every_key_refuses_another_type() {
    for key in KEYS {
        let wrong = if key.kind.contains("text") || key.kind.contains("word") || key.kind.contains("path") {
            "7"
        } else {
            "\"7\""
        };
        let problems = read(&line(key.path, wrong)).expect_err(key.path);
        assert_eq!(problems.code(), E_PARSE, "{}: {problems}", key.path);
        assert!(problems.all()[0].message.contains("not "), "{problems}");
    }
}

#[test]
fn every_misspelt_key_gets_its_name_suggested() {
    for key in KEYS {
        let (head, name) = key.path.rsplit_once('.').map_or(("", key.path), |(h, n)| (h, n));
        let slip = format!("{}_{}", &name[..1], &name[1..]);
        let path = if head.is_empty() { slip } else { format!("{head}.{slip}") };
        let problems = read(&line(&path, "1")).expect_err(&path);
        assert_eq!(problems.all()[0].code, E_KEY, "{problems}");
        assert!(problems.all()[0].help.contains(&format!("`{name}`")), "{problems}");
    }
}

#[test]
fn the_commented_defaults_are_a_valid_file_and_change_nothing() {
    let text = commented_defaults();
    let mut loaded = read(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    loaded.config.node.name.clear();
    assert_eq!(loaded.config, Config::default());
}

#[test]
fn all_problems_of_all_files_are_shown_at_once() {
    let mut reader = read::Reader::default();
    reader.text(Path::new("a.toml"), "mode = \"fast\"\n[slot]\nlength_ms = 600\nlenght_ms = 60\n");
    reader.text(Path::new("b.toml"), "[[switches]]\nname = \"leaf-1\"\n[clock\n");
    let problems = judge(reader, true).expect_err("four mistakes");
    let codes: Vec<Code> = problems.all().iter().map(|problem| problem.code).collect();
    for code in [E_RANGE, E_KEY, E_PARSE, E_MISSING] {
        assert!(codes.contains(&code), "{code} in {codes:?}");
    }
    assert!(problems.to_string().ends_with("in 2 files"));
}

#[test]
fn later_layers_win_and_entries_of_one_name_replace() {
    let mut reader = read::Reader::default();
    reader.text(Path::new("a"), "mode = \"active\"\n[[switches]]\nname = \"s\"\naddress = \"a:1\"\n");
    reader.text(Path::new("b"), "mode = \"bypass\"\n[[switches]]\nname = \"s\"\naddress = \"b:2\"\n[[switches]]\nname = \"t\"\naddress = \"c:3\"\n");
    let loaded = judge(reader, true).expect("valid");
    assert_eq!(loaded.config.mode, Mode::Bypass);
    assert_eq!(loaded.origins["mode"], Origin { file: "b".into(), line: 1 });
    let switches: Vec<_> = loaded.config.switches.iter().map(|s| s.address.to_string()).collect();
    assert_eq!(switches, ["b:2", "c:3"]);
}

#[test]
fn keys_that_disagree_name_both_places() {
    let problems = read("[slot]\nlength_ms = 200\n[enforce]\ndeadline_slots = 10\n").expect_err("2 s").into_all();
    assert_eq!((problems[0].code, problems[0].line), (E_CONFLICT, 4));
    assert!(problems[0].found.contains("sluiced.toml:2"), "{}", problems[0]);
    let problems = read("[metrics]\njobs = \"off\"\nflows = \"index\"\n").expect_err("no job to number in").into_all();
    assert_eq!((problems[0].code, problems[0].line), (E_CONFLICT, 3));
}

#[test]
fn an_identity_is_three_files_of_one_table() {
    for (text, missing) in [("ca = \"/a\"", "tls.cert"), ("cert = \"/c\"\nkey = \"/k\"", "tls.ca")] {
        let problem = read(&format!("[tls]\n{text}")).expect_err(text).into_all().remove(0);
        assert_eq!((problem.code, problem.line), (E_CONFLICT, 2), "{problem}");
        assert!(problem.message.contains(missing), "{problem}");
    }
    let files = read("[tls]\nca = \"/a\"\ncert = \"/c\"\nkey = \"/k\"").expect("whole").config.identity_files();
    assert_eq!(files.expect("three").key, Path::new("/k"));
}

#[test]
fn what_listens_beyond_this_machine_asks_for_proof_or_for_the_word_that_there_is_none() {
    const TLS: &str = "[tls]\nca = \"/a\"\ncert = \"/c\"\nkey = \"/k\"\n";
    let nic = "topology = \"/t.json\"\n";
    let along = "[[switches]]\nname = \"s\"\naddress = \"0.0.0.0:9604\"\ntransport = \"inband\"\n";
    let listed = "[peer]\npeers = [\"10.0.0.0/8\"]\n";
    for text in [format!("{nic}{listed}"), format!("{listed}{along}"), format!("{listed}{TLS}{along}")] {
        let problem = read(&text).expect_err(&text).into_all().remove(0);
        assert_eq!(problem.code, E_CONFLICT, "{problem}");
        assert!(problem.help.contains("unauthenticated = true"), "{problem}");
        read(&format!("unauthenticated = true\n{text}")).unwrap_or_else(|problems| panic!("{problems}"));
    }
    // Proof is enough, wherever hosts come from; whoever only asks opens nothing.
    read(&format!("{nic}{TLS}")).unwrap_or_else(|problems| panic!("{problems}"));
    let asks = read("[[switches]]\nname = \"s\"\naddress = \"10.0.0.1:1\"\n").expect("it asks").config;
    assert!(matches!(asks.unproven(), Some(Unproven::Switch(_))));
    let here = read("[[switches]]\nname = \"s\"\naddress = \"[::1]:1\"\n").expect("it asks").config;
    assert_eq!(here.unproven(), None);
}

#[test]
fn a_key_that_is_elsewhere_is_refused_with_its_place() {
    for (key, place) in MOVED {
        assert!(KEYS.iter().all(|known| known.path != *key), "{key} is here");
        let (table, name) = key.rsplit_once('.').expect("a table");
        let head = if ["links", "switches"].contains(&table) { format!("[[{table}]]") } else { format!("[{table}]") };
        let problems = read(&format!("{head}\n{name} = {{ ca = \"x\" }}\n")).expect_err(key).into_all();
        let problem = problems.iter().find(|problem| problem.code == E_MOVED);
        let problem = problem.unwrap_or_else(|| panic!("{key}: {problems:?}"));
        assert_eq!((problem.line, problem.help.as_str()), (2, *place), "{problem}");
        assert!(problem.message.contains(key), "{problem}");
    }
}

/// Files of earlier versions, as they were written then. A key of theirs that is gone has to be among [`MOVED`].
const OLD_FILES: &[(&str, &str)] = &[
    ("0.1, per-flow series", include_str!("../../tests/data/old/metrics-flows.toml")),
    ("0.1, what every version takes", include_str!("../../tests/data/old/plain.toml")),
];

/// Promises: P-23
#[test]
fn files_of_earlier_versions_are_taken() {
    for (name, text) in OLD_FILES {
        let loaded = read(text).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert!(!loaded.origins.is_empty(), "{name}");
    }
}

#[test]
fn reload_keeps_what_needs_a_restart() {
    let old = Config::default();
    let mut new = old.clone();
    new.mode = Mode::Active;
    new.slot.length_ms = 30;
    let (merged, keys) = reload(&old, &new);
    assert_eq!((merged.mode, merged.slot.length_ms), (Mode::Active, 60));
    assert_eq!((keys.taken, keys.waiting), (vec!["mode"], vec!["slot.length_ms"]));
    // Every key that needs a restart must really be kept.
    for key in KEYS.iter().filter(|key| key.restart) {
        assert_eq!((key.get)(&merged), (key.get)(&old), "{}", key.path);
    }
}

#[test]
fn a_peer_service_beyond_loopback_says_who_may_connect() {
    let nic = "topology = \"/t.json\"\n[peer]\n";
    let refused = |text: &str| read(text).expect_err(text).into_all().remove(0);
    // The default address, and one that is written out; the line to blame is the key that is there.
    for (listen, found, line) in [("", "[::]:9604", 1), ("listen = [\"127.0.0.1:1\", \"10.0.0.1:1\"]", "10.0.0.1:1", 3)]
    {
        let problem = refused(&format!("{nic}{listen}"));
        assert_eq!((problem.code, problem.key.as_str(), problem.line), (E_CONFLICT, "peer.listen", line));
        assert_eq!(problem.found, found);
        assert!(problem.allowed.contains("loopback") && problem.help.contains("peers = ["), "{problem}");
    }
    for told in ["peers = [\"10.0.0.0/8\"]", "open = true"] {
        read(&format!("unauthenticated = true\n{nic}{told}")).unwrap_or_else(|problems| panic!("{problems}"));
    }
    for told in ["listen = [\"127.0.0.1:1\", \"[::ffff:127.0.0.1]:1\"]", "listen = []"] {
        read(&format!("{nic}{told}")).unwrap_or_else(|problems| panic!("{problems}"));
    }
    // With switches nobody connects.
    read("topology = \"/t.json\"\n[[switches]]\nname = \"s\"\naddress = \"s:1\"\n").expect("no peer service");
    assert_eq!(refused(&format!("{nic}peers = [\"10.0.0.0/8\"]\nopen = true")).key, "peer.open");
}

#[test]
fn problems_are_one_json_array() {
    let problems = read("mode = 3\n").expect_err("wrong type");
    let json = serde_json::to_value(&problems).expect("serializable");
    assert_eq!(json[0]["code"], "E_PARSE");
    assert_eq!(json[0]["line"], 1);
    assert_eq!(json[0]["key"], "mode");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn mutated_files_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 0..40)) {
        let mut bytes = commented_defaults().replace("# [[", "[[").into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        if let Err(problems) = read(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(problems.to_string().len() < 200_000);
        }
    }
}

#[test]
fn a_fleet_is_told_of_what_its_keys_lack() {
    let good = [
        "etcd = [\"http://127.0.0.1:2379\"]",
        "etcd = [\"http://10.0.0.1:2379\"]\nplaintext = true",
        "etcd = [\"https://etcd-1:2379\", \"https://etcd-2:2379\"]\ntls_ca = \"/ca\"\ntls_cert = \"/c\"\ntls_key = \"/k\"",
    ];
    for text in good {
        read(&format!("[fleet]\n{text}")).expect(text);
    }
    for (text, part) in [
        ("etcd = [\"http://10.0.0.1:2379\"]", "plaintext = true"),
        ("etcd = [\"https://etcd-1:2379\"]", "needs fleet.tls_ca"),
        ("tls_cert = \"/c\"", "one of them is missing"),
        ("group = \".rack\"", "begins with a dot"),
    ] {
        let problems = read(&format!("[fleet]\n{text}")).expect_err(text);
        assert!(problems.code() == E_CONFLICT && problems.to_string().contains(part), "{problems}");
    }
}

#[test]
fn what_the_fleet_says_stands_below_the_hosts_own_files_and_keeps_nobody_from_starting() {
    let dir = tempfile::tempdir().expect("a directory");
    let (main, state) = (dir.path().join("sluiced.toml"), dir.path().join("state"));
    let layer = state.join("fleet/fleet.toml");
    std::fs::create_dir_all(state.join("fleet")).expect("made");
    let switch = |name: &str, port: u16| format!("[[switches]]\nname = \"{name}\"\naddress = \"10.0.0.1:{port}\"\n");
    let node = format!("[node]\nname = \"h0\"\nstate_dir = \"{}\"\n", state.display());
    std::fs::write(&layer, switch("a", 1) + &switch("b", 1)).expect("written");
    std::fs::write(&main, format!("{node}{}", switch("b", 2))).expect("written");
    // Who is in no fleet has no such layer.
    assert_eq!(load(Some(&main), true).expect("good").config.switches.len(), 1);
    std::fs::write(&main, format!("{node}[fleet]\netcd = [\"http://[::1]:2379\"]\n{}", switch("b", 2)))
        .expect("written");
    let loaded = load(Some(&main), true).expect("good");
    let ports: Vec<u16> = loaded.config.switches.iter().map(|switch| switch.address.port).collect();
    assert_eq!(ports, [1, 2]);
    std::fs::write(&layer, "switches = 3").expect("written");
    load(Some(&main), true).expect_err("a broken layer");
    assert_eq!(load_to_start(Some(&main)).expect("without it").config.switches.len(), 1);
    // Its own files are another matter.
    std::fs::write(&main, "mode = 3").expect("written");
    load_to_start(Some(&main)).expect_err("its own file");
}
