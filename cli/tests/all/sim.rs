//! `sluice sim` as people call it: the real program on small scenarios, its files and exit statuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

const BIN: &str = env!("CARGO_BIN_EXE_sluice");

/// Two rings of unequal size on the same hosts.
fn scenario(iterations: u32, jitter: &str) -> String {
    let job = |id: &str, bytes: u64| {
        format!(
            "[[jobs]]\nid = \"{id}\"\nbytes = {bytes}\ncompute_s = 1\narch = \"ring\"\nworkers = 2\niterations = {iterations}\ncompute_jitter = {jitter}\n"
        )
    };
    format!(
        "version = 1\nname = \"two\"\nseed = 3\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"spread\"\n[scheduler]\nsweep = [\"fair\", \"sluice\", \"mcs\"]\n{}{}",
        job("long", 1_500_000_000),
        job("short", 500_000_000)
    )
}

fn sluice(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(BIN);
    command.args(args).current_dir(dir).env("NO_COLOR", "1").output().expect("the program")
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|list| list.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort_unstable();
    names
}

#[test]
fn a_run_gives_a_table_files_and_one_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = scenario(3, "0").replace("[network]", "output = {csv = true, timeline = true}\n[network]");
    fs::write(dir.path().join("two.toml"), text).expect("written");
    let done = sluice(dir.path(), &["sim", "run", "two.toml", "--out", "r", "--report", "page.html"]);
    let (table, said) = (out(&done), String::from_utf8_lossy(&done.stderr).into_owned());
    assert!(said.contains("results are in r\n"), "{said}");
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    for (name, against) in [("fair", false), ("sluice", true), ("mcs", true)] {
        let line = lines.iter().find(|line| line.starts_with(name)).expect("a line");
        assert_eq!(line.ends_with("lower") || line.ends_with("higher"), against, "{line}");
    }
    let want: Vec<String> = ["fair", "mcs", "sluice"]
        .iter()
        .flat_map(|p| ["csv", "json", "trace.json"].map(|e| format!("two.{p}.{e}")))
        .collect();
    assert_eq!(files(&dir.path().join("r")), want);
    let fair = fs::read(dir.path().join("r/two.fair.json")).expect("a result");
    let fair: Value = serde_json::from_slice(&fair).expect("JSON");
    assert!(fair["machine"]["wall_s"].is_number() && fair["result"]["jct_mean_s"].is_number());
    let page = fs::read_to_string(dir.path().join("page.html")).expect("a page");
    for title in ["Distribution of job", "Slowdown", "Link utilisation", "Who sends when", "Rates over time"] {
        assert!(page.contains(title), "{title}");
    }
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page asks for {outside}");
    }
}

#[test]
fn files_are_written_only_where_somebody_named_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("two.toml"), scenario(1, "0")).expect("written");
    for more in [&[][..], &["--json"]] {
        let done = sluice(dir.path(), &[&["sim", "run", "two.toml", "--policy", "fair"], more].concat());
        assert!(!out(&done).is_empty() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(files(dir.path()), ["two.toml"], "{more:?}");
    }
    let named = ["sim", "run", "two.toml", "--policy", "fair", "--set", "output.dir=kept"];
    let said = String::from_utf8_lossy(&sluice(dir.path(), &named).stderr).into_owned();
    assert!(said.contains("results are in kept\n"), "{said}");
    assert_eq!(files(&dir.path().join("kept")), ["two.fair.json"]);
    let lost = ["sim", "run", "two.toml", "--policy", "fair", "--set", "output.csv=true"];
    let said = String::from_utf8_lossy(&sluice(dir.path(), &lost).stderr).into_owned();
    assert!(said.contains("output.csv") && said.contains("--out DIR"), "{said}");
}

#[test]
fn json_is_the_same_twice_with_any_number_of_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("two.toml"), scenario(3, "0.1")).expect("written");
    let run = |threads: &str, more: &[&str]| {
        out(&sluice(dir.path(), &[&["sim", "run", "two.toml", "--json", "--threads", threads], more].concat()))
    };
    let first = run("1", &[]);
    assert_eq!(first, run("1", &[]));
    assert_eq!(first, run("3", &[]));
    assert_ne!(first, run("1", &["--seed", "4"]), "jitter is drawn from the seed");
    let all: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(all["runs"].as_array().map(Vec::len), Some(3));
    assert!(all.get("policy").is_none() && all["runs"][0].get("machine").is_none());
    let one: Value = serde_json::from_str(&run("1", &["--policy", "fair"])).expect("JSON");
    for key in ["policy", "jct_mean_s", "jct_p50_s", "jct_p99_s", "jct_max_s", "jobs"] {
        assert_eq!(one[key], all["runs"][0][key], "{key}");
    }
}

/// All schedulers, three kinds of time, random hosts, jitter, cross traffic, messages that get lost.
#[test]
fn every_scheduler_in_every_mode_gives_the_same_bytes_on_any_number_of_threads() {
    const NAMES: &str = "fair static sluice sluice:primal-dual sluice:fair mcs ccml cassini mltcp sincronia varys oracle aalo \
                         echelonflow crux bound";
    let dir = tempfile::tempdir().expect("a directory");
    let more =
        "placement = {policy = \"random\"}\ncross_traffic = {every_s = 1}\ncontrol = {jitter_us = 200, loss = 0.05}\n";
    let text = scenario(3, "0.1").replace("[placement]\npolicy = \"spread\"\n", "");
    fs::write(dir.path().join("two.toml"), text.replace("[network]", &format!("{more}[network]"))).expect("written");
    let policies: Vec<&str> = NAMES.split_whitespace().flat_map(|name| ["--policy", name]).collect();
    for mode in ["time.mode=event", "time.mode=slot", "time.mode=paper-slot"] {
        let run = |threads: &str, profile: &[&str]| {
            let args = ["sim", "run", "two.toml", "--json", "--set", mode, "--threads", threads];
            out(&sluice(dir.path(), &[&args[..], profile, &policies].concat()))
        };
        let first = run("1", &[]);
        assert_eq!(first, run("4", &[]), "{mode}");
        assert_eq!(first, run("1", &["--profile"]), "{mode}: measuring changes nothing");
        let all: Value = serde_json::from_str(&first).expect("JSON");
        assert_eq!(all["runs"].as_array().map(Vec::len), Some(policies.len() / 2));
    }
}

#[test]
fn a_profile_says_where_the_time_went() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("two.toml"), scenario(3, "0")).expect("written");
    let done = sluice(dir.path(), &["sim", "run", "two.toml", "--profile", "--out", "r", "--policy", "sluice"]);
    assert!(done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(["sharing", "scheduler", "events", "decision p90", "MiB"].iter().all(|word| said.contains(word)), "{said}");
    let file = fs::read(dir.path().join("r/two.sluice.json")).expect("a result");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let (machine, parts) = (&file["machine"], &file["machine"]["profile"]);
    let sum: f64 = ["sharing_s", "scheduler_s", "events_s"].iter().filter_map(|part| parts[part].as_f64()).sum();
    let wall = machine["wall_s"].as_f64().expect("a time");
    assert!((sum - wall).abs() <= 1e-9 * wall.max(1.0), "{parts} of {wall}");
}

#[test]
fn results_are_compared_on_the_same_jobs_only() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("two.toml"), scenario(3, "0")).expect("written");
    out(&sluice(dir.path(), &["sim", "run", "two.toml", "--out", "a"]));
    out(&sluice(dir.path(), &["sim", "run", "two.toml", "--out", "b", "--seed", "4"]));
    let table = out(&sluice(dir.path(), &["sim", "compare", "a/two.fair.json", "a/two.mcs.json"]));
    assert!(table.contains("fair") && table.contains("mcs") && table.contains('%'), "{table}");
    let refused = sluice(dir.path(), &["sim", "compare", "a/two.fair.json", "b/two.mcs.json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("seed 4") && refused.stdout.is_empty());
    let stopped = scenario(3, "0").replace("[network]", "time = {end_s = 8}\n[network]");
    fs::write(dir.path().join("stopped.toml"), stopped).expect("written");
    out(&sluice(dir.path(), &["sim", "run", "stopped.toml", "--out", "c", "--policy", "fair"]));
    let refused = sluice(dir.path(), &["sim", "compare", "a/two.fair.json", "c/two.fair.json"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stdout));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("\"long\""));
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let bad = scenario(0, "0").replace("gbps", "gpbs");
    fs::write(dir.path().join("bad.toml"), bad).expect("written");
    fs::write(dir.path().join("two.toml"), scenario(3, "0")).expect("written");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["sim", "run", "bad.toml", "--out", "r", "--report", "p.html"], &["E_KEY", "gpbs", "E_RANGE", "bad.toml:"]),
        (&["sim", "run", "two.toml", "--out", "r", "--policy", "sluise"], &["did you mean `sluice`"]),
        (&["sim", "run", "two.toml", "--out", "r", "--set", "time.max_events=10"], &["E_LIMIT", "time.max_events"]),
        (&["sim", "sweep", "two.toml", "--out", "r", "--set", "time.slot_mss=20"], &["E_KEY", "slot_ms"]),
        (&["sim", "sweep", "two.toml", "--out", "r", "--set", "time.slot_ms=20,0"], &["E_RANGE", "slot_ms"]),
        (&["sim", "compare", "two.toml"], &["two.toml", "no result"]),
    ];
    for (args, said) in cases {
        let refused = sluice(dir.path(), args);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(said.iter().all(|s| stderr.contains(s)) && refused.stdout.is_empty(), "{args:?}: {stderr}");
    }
    assert_eq!(files(dir.path()), ["bad.toml", "two.toml"]);
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("two.toml"), scenario(4000, "0.1")).expect("written");
    let args = ["sim", "sweep", "two.toml", "--set", "network.gbps=8,10", "--seeds", "6", "--policy", "fair"];
    let sweep = |to: &'static str, threads: &'static str| [&args[..], &["--out", to, "--threads", threads]].concat();
    let mut first = Command::new(BIN)
        .args(sweep("s", "1"))
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program");
    let there = dir.path().join("s");
    let finished = || files(&there).iter().filter(|name| name.ends_with(".json")).count();
    while finished() < 2 && first.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(first.id()).expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("a signal");
    assert_eq!(first.wait().expect("a child").code(), Some(130));
    let made = files(&there);
    assert!(made.len() >= 2 && made.len() < 12 && made.iter().all(|name| name.ends_with(".json")), "{made:?}");
    let times = || -> BTreeMap<String, SystemTime> {
        let time = |name: &String| fs::metadata(there.join(name)).and_then(|m| m.modified()).expect("a time");
        made.iter().map(|name| (name.clone(), time(name))).collect()
    };
    // One of them was only half written.
    let half = made.last().expect("a file").clone();
    let text = fs::read(there.join(&half)).expect("a result");
    fs::write(there.join(&half), &text[..text.len() / 2]).expect("written");
    let before = times();
    let resumed = sluice(dir.path(), &sweep("s", "2"));
    let fresh = sluice(dir.path(), &sweep("t", "1"));
    assert_eq!(out(&resumed), out(&fresh));
    for (name, time) in times() {
        assert_eq!(time == before[&name], name != half, "{name}");
    }
    let said = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(said.contains(&format!("{} of 12 runs are there already", made.len() - 1)), "{said}");
    assert_eq!(files(&there), files(&dir.path().join("t")));
    let table = |at: &str| fs::read_to_string(dir.path().join(at).join("table.csv")).expect("a table");
    assert_eq!(table("s"), table("t"));
    assert_eq!(table("s").lines().count(), 13);
}

/// The recording of one of two hosts that send to each other, two rounds of 125 MB on 1 Gbit/s.
fn recording(host: u32) -> String {
    let (other, second) = (1 - host, 1_000_000_000_u64);
    let round = |at: u64| {
        let (began, ended) = (at * second, at * second + 1_100_000_000);
        format!(
            "{{\"kind\":\"round\",\"job\":\"j\",\"began_ns\":{began},\"ended_ns\":{ended},\"flows\":[[\"f\",125000000]]}}\n"
        )
    };
    format!(
        "{{\"kind\":\"start\",\"version\":1,\"host\":\"h{host}\",\"addresses\":[\"10.0.0.{host}\"],\"links\":[{{\"name\":\"eth0\",\"rate\":1000000000}}],\"slot_ms\":60,\"unix_ns\":7}}\n\
         {{\"kind\":\"job\",\"job\":\"j\",\"name\":\"vgg19\",\"pattern\":\"ring\"}}\n\
         {{\"kind\":\"flow\",\"flow\":\"f\",\"job\":\"j\",\"to\":\"10.0.0.{other}\",\"role\":\"ring\"}}\n{}{}",
        round(10),
        round(13)
    )
}

#[test]
fn what_daemons_recorded_is_replayed_and_stays_as_a_scenario() {
    let dir = tempfile::tempdir().expect("a directory");
    for host in 0..2 {
        fs::write(dir.path().join(format!("h{host}.jsonl")), recording(host)).expect("written");
    }
    let done = sluice(dir.path(), &["sim", "replay", "h0.jsonl", "h1.jsonl"]);
    let (table, said) = (out(&done), String::from_utf8_lossy(&done.stderr).into_owned());
    assert!(said.contains("never full") && said.contains("replay.json"), "{said}");
    let line =
        |name: &str| table.lines().find(|line| line.trim().starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    assert!(line("vgg19").contains("250000000") && line("vgg19").contains("1.100 s"), "{table}");
    for policy in ["fair", "sluice", "oracle"] {
        // Two rounds of a second with 1.9 s in between.
        assert!(line(policy).contains("3.900 s"), "{table}");
    }
    let again = out(&sluice(dir.path(), &["sim", "run", "replay.json", "--policy", "fair"]));
    assert!(again.contains("3.900 s"), "{again}");
    fs::write(dir.path().join("bad.jsonl"), recording(0).replace("\"role\":\"ring\"", "\"role\":\"king\""))
        .expect("written");
    let bad = sluice(dir.path(), &["sim", "replay", "bad.jsonl"]);
    let said = String::from_utf8_lossy(&bad.stderr);
    assert_eq!(bad.status.code(), Some(2));
    assert!(said.contains("bad.jsonl:3") && said.contains("/role") && said.contains("king"), "{said}");
}
