//! What the author of a topology, a plan or a configuration can do to who reads it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::attacker::turn;
use crate::programs::sluice;

/// A reader has no more memory than this.
const MEMORY: u64 = 2 << 30;
/// Nor more time, on however busy a machine.
const TIME: Duration = Duration::from_secs(60);

fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

/// Has it refused the file with a word of why, and in time?
fn refused(arguments: &[&str], word: &str) {
    let (status, text, took) = sluice(arguments, MEMORY);
    assert!(matches!(status, Some(1..=4)), "{arguments:?}: {status:?} {text}");
    assert!(text.contains(word), "{arguments:?} does not say {word}: {text}");
    assert!(took < TIME, "{arguments:?} took {took:?}");
    assert_eq!(crate::programs::unsafe_in(&text), [], "{arguments:?}");
    assert!(text.len() < 64 << 10, "{} bytes of complaint", text.len());
}

/// depth, numbers, names, sizes and encodings of a topology.
#[test]
fn a_hostile_topology_is_refused_by_its_fault() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let with = |nodes: &str, links: &str| format!("{{\"sluice_topology\":1,\"nodes\":[{nodes}],\"links\":[{links}]}}");
    let two = "{\"id\":\"a\",\"kind\":\"host\"},{\"id\":\"b\",\"kind\":\"host\"}";
    let link = |capacity: &str| with(two, &format!("{{\"from\":\"a\",\"to\":\"b\",\"capacity\":{capacity}}}"));
    let mut deep = String::from("{\"sluice_topology\":1,\"nodes\":");
    (0..100_000).for_each(|_| deep.push('['));
    let mut many = String::from("{\"sluice_topology\":1,\"nodes\":[");
    for n in 0..400_000 {
        let _ = write!(many, "{}{{\"id\":\"n{n}\",\"kind\":\"host\"}}", if n == 0 { "" } else { "," });
    }
    many.push_str("],\"links\":[]}");
    for (name, text, word) in [
        ("deep.json", deep.into_bytes(), "nested too deeply"),
        ("many.json", many.into_bytes(), "MISSING"),
        ("nan.json", link("NaN").into_bytes(), "error"),
        ("infinite.json", link("1e999").into_bytes(), "error"),
        ("huge.json", link(&format!("\"{}bit/s\"", "9".repeat(400))).into_bytes(), "error"),
        ("negative.json", link("\"-1Gbit/s\"").into_bytes(), "error"),
        ("twice.json", "{\"sluice_topology\":1,\"nodes\":[],\"nodes\":[],\"links\":[]}".into(), "twice"),
        (
            "unknown.json",
            "{\"sluice_topology\":1,\"nodes\":[],\"links\":[],\"include\":\"/etc/shadow\"}".into(),
            "include",
        ),
        ("not-utf8.json", b"{\"sluice_topology\":1,\"nodes\":[{\"id\":\"\xff\"}],\"links\":[]}".to_vec(), "UTF-8"),
        ("compressed.json", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "error"),
        ("escapes.json", b"{\"sluice_topology\":1,\"\x1b[2J\\u202e\":1}".to_vec(), "error"),
    ] {
        let file = write(dir.path(), name, text);
        refused(&["topology", "check", &file.display().to_string()], word);
    }
    // A size that no number of bytes bears out.
    let file = dir.path().join("endless.json");
    std::fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    refused(&["topology", "check", &file.display().to_string()], "too large");
}

/// entities that grow, entities that fetch, and depth, in GraphML.
#[test]
fn a_hostile_graphml_defines_nothing_and_fetches_nothing() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let mut laughs = String::from("<?xml version=\"1.0\"?><!DOCTYPE graphml [<!ENTITY a \"ha\">");
    for n in 1..30 {
        let _ = write!(laughs, "<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1);
    }
    laughs.push_str("]><graphml>&a29;</graphml>");
    let mut deep = String::from("<graphml>");
    (0..100_000).for_each(|_| deep.push_str("<g>"));
    let external =
        "<?xml version=\"1.0\"?><!DOCTYPE g [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><graphml>&x;</graphml>";
    let import = |name: &str, text: &str| {
        let file = write(dir.path(), name, text);
        sluice(&["topology", "import", "graphml", &file.display().to_string(), "--capacity", "10Gbit/s"], MEMORY)
    };
    // The same words are understood where the file is a good one.
    let good = "<graphml><graph edgedefault=\"undirected\"><node id=\"0\"/><node id=\"1\"/>\
                <edge source=\"0\" target=\"1\"/></graph></graphml>";
    let (status, said, _) = import("good.graphml", good);
    assert_eq!(status, Some(0), "{said}");
    for (name, text, word) in [
        ("laughs.graphml", laughs.as_str(), "error"),
        ("external.graphml", external, "error"),
        ("deep.graphml", deep.as_str(), "error"),
    ] {
        let (status, said, took) = import(name, text);
        assert!(matches!(status, Some(1..=4)), "{name}: {status:?} {said}");
        assert!(said.contains(word) && took < TIME, "{name}: {said} {took:?}");
        assert!(!said.contains("root:"), "{name} read another file: {said}");
    }
}

/// configurations of the daemon.
#[test]
fn a_hostile_configuration_is_refused_with_its_place() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let program = crate::programs::binaries().daemon().expect("built");
    let mut deep = String::from("x = ");
    (0..100_000).for_each(|_| deep.push('['));
    for (name, text, word) in [
        ("deep.toml", deep.into_bytes(), "E_"),
        ("twice.toml", b"mode = \"active\"\nmode = \"observe\"\n".to_vec(), "E_"),
        ("unknown.toml", b"moed = \"active\"\n".to_vec(), "did you mean `mode`"),
        ("range.toml", b"[slot]\nlength_ms = 99999999999999999999999999\n".to_vec(), "E_"),
        ("nan.toml", b"[clock]\noffset_ms = nan\n".to_vec(), "E_"),
        ("not-utf8.toml", b"mode = \"\xff\"\n".to_vec(), "UTF-8"),
        ("large.toml", vec![b'#'; 64 << 20], "too large"),
    ] {
        let file = write(dir.path(), name, text);
        let output =
            std::process::Command::new(&program).arg("--config").arg(&file).args(["--check", "--offline"]).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(word) && said.contains(name), "{name} does not say {word}: {said}");
    }
    // What is no file makes nobody wait: neither in the configuration's place nor in that of what it names.
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a FIFO");
    let named =
        write(dir.path(), "names.toml", format!("topology = {fifo:?}\n[node]\nname = \"a\"\n[peer]\nlisten = []\n"));
    for file in [&fifo, &named] {
        let mut child = std::process::Command::new(&program)
            .arg("--config")
            .arg(file)
            .arg("--check")
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it runs");
        crate::attacker::until("it says that this is no file", || child.try_wait().expect("waited for").is_some());
        assert_eq!(child.wait().expect("waited for").code(), Some(2), "{}", file.display());
    }
}

/// where a plan is written is said by who asks for it, never by a file.
#[test]
fn a_file_names_no_place_to_write_to() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let target = dir.path().join("written");
    let text =
        format!("{{\"sluice_topology\":1,\"name\":{:?},\"nodes\":[],\"links\":[],\"output\":{:?}}}", target, target);
    let file = write(dir.path(), "topology.json", text);
    refused(&["topology", "check", &file.display().to_string()], "output");
    assert!(!target.exists());
}

/// a topology, or a configuration, that says ten times what a card carries.
#[test]
fn a_link_ten_times_too_large_is_told_and_the_smaller_rate_counts() {
    let Some(_turn) = turn() else { return };
    // A pair of virtual cards, which say that they carry 10 Gbit/s.
    let ns = sluice_testbed::fabric::NetNs::create("card").expect("as root");
    let made = ns
        .run(|| {
            let ip = |arguments: &str| {
                let run = std::process::Command::new("ip").args(arguments.split(' ')).status();
                run.is_ok_and(|status| status.success())
            };
            ip("link add card0 type veth peer name card1")
                && ip("addr add 10.9.0.1/24 dev card0")
                && ip("link set card0 up")
                && ip("link set card1 up")
                && ip("link set lo up")
        })
        .expect("it runs");
    assert!(made, "ip makes a pair of cards");
    let dir = crate::attacker::dir();
    let more = "[capture]\ninterfaces = [\"card0\"]\n[[links]]\nname = \"card0\"\ngbps = 100\n";
    let file = crate::programs::Daemon::configured(dir.path(), more);
    let log = std::fs::File::create(dir.path().join("log")).expect("a file");
    // Speeds are told by a /sys of this network namespace only.
    let mut command = std::process::Command::new("unshare");
    let script = "mount -t sysfs none /sys && exec \"$0\" --config \"$1\"";
    command.args(["--mount", "sh", "-c", script]).arg(crate::programs::binaries().daemon().expect("built")).arg(file);
    command.stdout(std::process::Stdio::null()).stderr(log);
    let mut child = ns.spawn(command, None).expect("it starts");
    let said = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    crate::attacker::until("it tells of the card", || {
        assert!(child.try_wait().expect("waited for").is_none(), "{}", said());
        said().contains("link-speed-differs")
    });
    let _ = child.kill();
    let _ = child.wait();
    assert!(said().contains("card0") && said().contains("the smaller one counts"), "{}", said());
}
