//! Commands that need no daemon: manual pages, limits, lists, reports, checks of fabrics, traces, a report of a bug.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::desk::{Desk, stderr, stdout};

const SNAPSHOT: &str = include_str!("../data/snapshot.json");

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let desk = Desk::new();
    let value = desk.json("man pages");
    let pages: Vec<&str> = value["pages"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for page in [
        "sluice.1",
        "sluice-status.1",
        "sluice-plan-bfb.1",
        "sluice-config-show.1",
        "sluiced.8",
        "sluiced-cleanup.8",
        "sluice-switch.8",
        "sluice-switch-links.8",
        "sluiced.toml.5",
        "sluice-switch.toml.5",
        "sluice-topology.5",
    ] {
        assert!(pages.contains(&page), "{page} in {pages:?}");
        let text = desk.read(&format!("pages/{page}"));
        assert!(text.contains(".TH") && text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(!pages.contains(&"sluice-testbed-keep.1"), "what is hidden has no page");
    assert!(desk.read("pages/sluice-doctor.1").contains("traces"));
    assert!(desk.read("pages/sluiced.8").contains("offline"));
    // The packages' list names each of them, in the folder of its section, and no others but those of the testbed's programs.
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/packages/files.txt");
    let list = std::fs::read_to_string(list).expect("the list");
    let packed = list.lines().filter_map(|line| line.split_once("/usr/share/man/man")?.1.strip_suffix(".gz"));
    let packed: BTreeSet<String> = packed.map(str::to_owned).collect();
    let section = |page: &str| page.rsplit('.').next().unwrap_or_default().to_owned();
    let mut made: BTreeSet<String> = pages.iter().map(|page| format!("{}/{page}", section(page))).collect();
    if cfg!(feature = "testbed") {
        made.extend(["1/sluice-experiment.1", "1/sluice-job.1"].map(str::to_owned));
        assert_eq!(made, packed, "deploy/packages/files.txt");
    }
    assert!(made.is_subset(&packed), "{made:?}");
}

#[test]
fn the_examples_in_the_pages_of_files_are_valid() {
    let desk = Desk::new();
    desk.json("man pages");
    // The switches' file names the topology.
    for (page, file, check) in [
        ("sluice-topology.5", "topology.json", "topology check topology.json"),
        ("sluice-switch.toml.5", "sluice-switch.toml", "config check --switch sluice-switch.toml"),
        ("sluiced.toml.5", "sluiced.toml", "config check sluiced.toml --offline"),
    ] {
        let text = desk.read(&format!("pages/{page}"));
        let (_, example) = text.split_once("\n.nf\n").expect("an example");
        let (example, _) = example.split_once(".fi\n").expect("its end");
        desk.write(file, &example.replace("\\-", "-").replace("\\&", ""));
        let output = desk.run(check);
        assert_eq!(output.status.code(), Some(0), "{page}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn limits_stand_without_a_daemon_too() {
    let desk = Desk::new();
    let output = desk.run("limits --json --socket none.sock");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let limits = value["limits"].as_array().expect("a list");
    assert!(limits.len() > 20 && limits.iter().all(|limit| limit["allowed"].is_u64() && limit["used"].is_null()));
}

#[test]
fn scenarios_and_schedulers_are_listed() {
    let desk = Desk::new();
    let scenario = "# A first look. And more.\nversion = 1\nname = \"first\"\n[network]\nkind = \"star\"\n";
    desk.write("first.toml", scenario);
    desk.write("other.toml", "title = \"no scenario\"\n");
    let value = desk.json("sim list .");
    assert_eq!(value["scenarios"].as_array().map(Vec::len), Some(1), "{value:#}");
    assert_eq!(
        (&value["scenarios"][0]["name"], &value["scenarios"][0]["about"]),
        (&"first".into(), &"A first look".into())
    );
    assert!(value["schedulers"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "oracle")));
    assert_eq!(desk.run("sim list nowhere").status.code(), Some(2));
}

#[test]
fn results_become_a_page() {
    let desk = Desk::new();
    let result = |policy: &str, a: f64| {
        format!(
            r#"{{"scenario":"mix","seed":1,"runs":[{{"policy":"{policy}","jobs":[{{"id":"a","jct_s":{a}}},{{"id":"b","jct_s":4}}]}}]}}"#
        )
    };
    desk.write("fair.json", &result("fair", 8.0));
    desk.write("sluice.json", &result("sluice", 4.0));
    let value = desk.json("report fair.json sluice.json out.html --title two --baseline sluice");
    assert_eq!((&value["baseline"], &value["file"]), (&"sluice".into(), &"out.html".into()));
    let page = desk.read("out.html");
    assert!(
        page.contains("<h1>two</h1>") && page.contains("lower than sluice") && !page.contains("https://"),
        "{page}"
    );
    for (line, word) in [
        ("report fair.json sluice.json", "ends in .html"),
        ("report fair.json sluice.json out.html --baseline fairr", "did you mean `fair`"),
        ("report fair.json none.json out.html", "none.json"),
    ] {
        let output = desk.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(word), "{line}: {}", stderr(&output));
    }
}

#[test]
fn a_fabric_is_checked_for_what_daemons_need() {
    let desk = Desk::new();
    let whole = r#"{"sluice_topology":1,"nodes":[
        {"id":"h0","kind":"host","addresses":["10.0.0.1"]},{"id":"h1","kind":"host"},
        {"id":"s0","kind":"switch","addresses":["10.0.0.9:9604"]}],
        "links":[{"from":"h0","to":"s0","capacity":"10Gbit/s","duplex":true},{"from":"h1","to":"s0","capacity":"10Gbit/s","duplex":true}]}"#;
    desk.write("t.json", whole);
    let value = desk.json("topology check t.json --node h0");
    assert_eq!((&value["ends"], value["missing"].as_array().map(Vec::len)), (&2.into(), Some(0)), "{value:#}");
    assert!(value["notes"][0]["what"].as_str().is_some_and(|what| what.contains("h1")), "{value:#}");
    let no = desk.run("topology check t.json --node h1");
    assert_eq!(no.status.code(), Some(3), "{}", stdout(&no));
    assert!(stdout(&no).contains("h1 has no address"), "{}", stdout(&no));
    desk.write("t.json", &whole.replace(r#","capacity":"10Gbit/s","duplex":true}]"#, r#","capacity":"fast"}]"#));
    assert_eq!(desk.run("topology check t.json").status.code(), Some(2));
    desk.write(
        "t.json",
        &whole.replace(
            r#"{"from":"h1","to":"s0","capacity":"10Gbit/s","duplex":true}"#,
            r#"{"from":"h0","to":"s0","capacity":"10Gbit/s","duplex":true}"#,
        ),
    );
    let apart = desk.run("topology check t.json");
    assert_eq!(apart.status.code(), Some(3));
    assert!(stdout(&apart).contains("no way to and fro: h1"), "{}", stdout(&apart));
}

#[test]
fn traces_are_told_and_the_exit_status_says_whether_there_are_any() {
    let desk = Desk::new();
    let output = desk.run("doctor --traces --json");
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let traces = value["traces"].as_array().expect("a list");
    assert!(value["schema"] == 1 && value["unseen"].is_array(), "{value:#}");
    assert_eq!(output.status.code(), Some(if traces.is_empty() { 0 } else { 3 }));
    for trace in traces {
        assert!(trace["kind"].is_string() && trace["what"].is_string() && trace["undo"].is_string(), "{trace}");
    }
}

#[test]
fn a_report_of_a_bug_says_what_it_has_and_no_address_or_name_survives() {
    let desk = Desk::new();
    let listener = UnixListener::bind(desk.path("d.sock")).expect("a socket");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 2048];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let text = match request.split(' ').nth(1).unwrap_or_default() {
                "/api/v1/snapshot" => SNAPSHOT,
                "/api/v1/config" => {
                    r#"{"schema":1,"keys":{"peer.peers":{"value":"[\"10.77.0.0/16\"]","from":"/etc/sluice/sluiced.toml:3"}},"links":[],"switches":[{"name":"\"leaf-1\"","address":"\"leaf-1.pod-a.example:9604\""}]}"#
                }
                "/metrics" => "sluice_up{switch=\"leaf-1\"} 1\n",
                path if path.starts_with("/api/v1/timeline") => {
                    "{\"otherData\":{\"host\":\"gpu-17\"},\"traceEvents\":[\n{\"name\":\"links on gpu-17\",\"args\":{\"to\":\"[fd12::7]:5\"}}\n]}\n"
                }
                _ => "{}",
            };
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        }
    });
    let value = desk.json("bugreport --out r.tar.gz --socket d.sock");
    assert_eq!((&value["redacted"], &value["file"]), (&true.into(), &"r.tar.gz".into()));
    let read = |name: &str| {
        let file = std::fs::File::open(desk.path(name)).expect("written");
        let mut all = Vec::new();
        for entry in tar::Archive::new(GzDecoder::new(file)).entries().expect("a tar") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            all.push((path, text));
        }
        all
    };
    let all = read("r.tar.gz");
    let snapshot: Value = serde_json::from_str(SNAPSHOT).expect("JSON");
    let mut gone: Vec<String> = ["gpu-17", "leaf-1", "pod-a", "10.77.0.0", "fd12::7"].map(str::to_owned).into();
    for flow in snapshot["flows"].as_array().expect("flows") {
        let end = flow["to"].as_str().expect("an address");
        gone.push(end.rsplit_once(':').map_or(end, |(address, _)| address).to_owned());
    }
    for (name, text) in &all {
        for word in gone.iter().filter(|word| !word.is_empty()) {
            assert!(!text.contains(word.as_str()), "{word} in {name}");
        }
    }
    let one = |name: &str| &all.iter().find(|(path, _)| path.ends_with(name)).unwrap_or_else(|| panic!("{name}")).1;
    assert!(one("README.txt").contains("salt") && one("README.txt").contains("snapshot.json"));
    let snapshot: Value = serde_json::from_str(one("snapshot.json")).expect("still a document");
    let hidden = snapshot["daemon"]["host"].as_str().expect("a name");
    assert!(hidden.starts_with("host-") && one("timeline.json").contains(hidden), "one name, one hash: {hidden}");
    serde_json::from_str::<Value>(one("timeline.json")).expect("still a trace");
    let again = desk.run("bugreport --out r.tar.gz --socket d.sock");
    assert_eq!(again.status.code(), Some(1), "nothing is overwritten: {}", stderr(&again));
    desk.json("bugreport --out plain.tar.gz --no-redact --socket d.sock");
    assert!(read("plain.tar.gz").iter().any(|(_, text)| text.contains("gpu-17")));
}

#[test]
fn doctor_says_hello_to_every_switch() {
    let (told, heard) = std::sync::mpsc::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let switch = std::thread::spawn(move || {
        let text = "[listen]\ngrpc = \"127.0.0.1:0\"\nhttp = \"off\"\n[[switches]]\nname = \"leaf-1\"\nports = [{ id = 0, to = \"h0\", gbps = 1 }]\n";
        let config = sluice_switch::config::Config::parse(std::path::Path::new("s.toml"), text).expect("valid");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = sluice_switch::server::Server::bind(config).await.expect("a free port");
            told.send(server.bound().expect("bound").grpc).expect("the test waits");
            let stop = async { drop(ended.await) };
            server.run(stop).await.expect("it ends in order");
        });
    });
    let address = heard.recv().expect("it listens");
    let desk = Desk::new();
    let states = |name: &str, slot_ms: u64, port: u16| {
        let text = format!(
            "[slot]\nlength_ms = {slot_ms}\n[node]\nstate_dir = \"/nonexistent\"\n[[switches]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n"
        );
        desk.write("sluiced.toml", &text);
        let output = desk.run("doctor --json --config sluiced.toml --socket none.sock");
        let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let checks = value["checks"].as_array().expect("checks").clone();
        let check = checks.into_iter().find(|check| check["id"] == "handshake").expect("a handshake");
        (check["state"].as_str().expect("a word").to_owned(), check["found"].as_str().expect("a text").to_owned())
    };
    let (state, found) = states("leaf-1", 60, address.port());
    assert_eq!(state, "ok", "{found}");
    let (state, found) = states("leaf-2", 60, address.port());
    assert!(state == "warn" && found.contains("leaf-1"), "{state}: {found}");
    let (state, found) = states("leaf-1", 30, address.port());
    assert!(state == "fail" && found.contains("slot-length-mismatch"), "{state}: {found}");
    end.send(()).expect("it runs");
    switch.join().expect("it ended");
    let (state, found) = states("leaf-1", 60, address.port());
    assert!(state == "warn" && found.contains("does not answer"), "{state}: {found}");
}
