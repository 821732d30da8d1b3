//! `sluice why` over flight records that are made here: the words, the figures, and what it says of files that are none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sluice_attribution::record;
use sluice_attribution::seen::{FlowSeen, JobBytes, JobSeen, Limits, LinkSeen, Mark, Seen};
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Rate};

const ROUNDS: u64 = 16;
/// Of these the last ones are slower.
const QUICK: u64 = 12;

fn sluice(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments).args(files).env_remove("SLUICE_SOCKET");
    command.output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Rounds of 60 ms of compute and 60 ms of sending, in slots of 60 ms; the last four send three times as long, since another job
/// has two thirds of the link, or their receiver takes little.
fn file(dir: &Path, receiver: bool) -> PathBuf {
    let mut bytes = record::head(1, "gpu-17").to_vec();
    let mut at = 0;
    let mut write = |marks: Vec<Mark>, sends: bool, slow: bool| {
        let slot = Nanos::from_millis(60);
        let (from, to) = (Nanos(at * slot.0), Nanos((at + 1) * slot.0));
        at += 1;
        let whole = Rate::mbps(1000).over(slot);
        let part = Bytes(if slow { whole.0 / 3 } else { whole.0 });
        let job =
            |id: u64, name: &str, marks| JobSeen { id: JobId(id), name: name.into(), marks, ..JobSeen::default() };
        let marks = marks.into_iter().map(|mark| Mark { at: if mark.ended { to } else { from }, ..mark }).collect();
        let mut seen = Seen { from, to, jobs: vec![job(1, "vgg19", marks), job(2, "bert", vec![])], ..Seen::default() };
        seen.peers = vec!["gpu-18".into()];
        let mut link = LinkSeen { name: "gpu-17:eth0".into(), capacity: Rate::mbps(1000), ..LinkSeen::default() };
        if sends {
            link.jobs.push(JobBytes { job: 0, bytes: part });
            if slow && !receiver {
                link.jobs.push(JobBytes { job: 1, bytes: Bytes(whole.0 - part.0) });
            }
            let shut = if slow && receiver { slot.scaled(2.0 / 3.0) } else { Nanos::ZERO };
            seen.flows.push(FlowSeen {
                flow: FlowId(1),
                path: vec![0],
                delivered: part,
                segment: Bytes(1448),
                limits: Some(Limits { receiver: shut, ..Limits::default() }),
                ..FlowSeen::default()
            });
        }
        seen.links.push(link);
        assert!(record::frame(1, &seen, &mut bytes));
    };
    let mark = |round, ended| Mark { round, ended, ..Mark::default() };
    write(vec![mark(0, true)], false, false);
    for round in 1..=ROUNDS {
        let slots = if round > QUICK { 3 } else { 1 };
        write(vec![], false, false);
        for slot in 0..slots {
            let mut marks = Vec::new();
            if slot == 0 {
                marks.push(mark(round, false));
            }
            if slot + 1 == slots {
                marks.push(mark(round, true));
            }
            write(marks, true, slots > 1);
        }
    }
    let file = dir.join("flight.ring");
    std::fs::write(&file, bytes).expect("written");
    file
}

#[test]
fn an_operator_reads_whose_job_has_the_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = file(dir.path(), false);
    let asked = sluice(&["why", "vgg19", "--rounds", "4", "--from"], &[&file]);
    let said = text(&asked.stdout);
    assert!(asked.status.success(), "{said}{}", text(&asked.stderr));
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "job vgg19 on gpu-17: the last 4 rounds took 240 ms each",
        "job bert on link gpu-17:eth0 120 ms 50 %",
        "compute: nothing to send",
        "Rounds usually take 120 ms (the quickest 4 of 16 recorded); these take 2.0 times as long.",
        "Of what is more, 100 % went to: job bert on link gpu-17:eth0.",
        "Next: sluice why bert",
    ] {
        assert!(words.contains(part), "{part:?} is not in:\n{said}");
    }
    // Over all rounds most of them are as quick as they can be.
    let asked = sluice(&["why", "vgg19", "--rounds", "12", "--json", "--from"], &[&file]);
    let answer: Value = serde_json::from_slice(&asked.stdout).expect("one document");
    assert_eq!((&answer["schema"], &answer["rounds"], &answer["recorded"]), (&1.into(), &12.into(), &16.into()));
    let sum: f64 =
        answer["shares"].as_array().expect("a list").iter().filter_map(|share| share["ratio"].as_f64()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{answer:#}");
    assert_eq!(answer["more"][0]["cause"], "job");
    assert_eq!(answer["more"][0]["job"], "bert");
    assert_eq!(answer["usual"]["took_ns"], 120_000_000);
    assert_eq!(answer["confidence"], 1.0);
}

#[test]
fn a_host_that_was_waited_for_is_named_with_the_way_to_know_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let asked = sluice(&["why", "vgg19", "--rounds", "4", "--from"], &[&file(dir.path(), true)]);
    let said = text(&asked.stdout);
    for part in
        ["host gpu-18, which computed, sent or took nothing", "Next: sluice why vgg19 --host gpu-18", "--with gpu-18"]
    {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}

#[test]
fn what_cannot_be_answered_is_said_with_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = file(dir.path(), false);
    let other = dir.path().join("other");
    std::fs::write(&other, "no record").expect("written");
    let gone = dir.path().join("gone");
    for (job, file, code, part) in [
        ("vgg16", &file, 3, "recorded: vgg19, bert"),
        ("bert", &file, 3, "no whole round of `bert`"),
        ("vgg19", &other, 2, "it does not begin with SLUICEFR"),
        ("vgg19", &gone, 2, "gone: No such file"),
    ] {
        let asked = sluice(&["why", job, "--from"], &[file]);
        let said = text(&asked.stderr);
        assert_eq!(asked.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    }
    // The tail of a file whose machine died over it is left out.
    let whole = std::fs::read(&file).expect("a file");
    std::fs::write(&other, &whole[..whole.len() - 7]).expect("written");
    let asked = sluice(&["why", "vgg19", "--json", "--from"], &[&other]);
    let answer: Value = serde_json::from_slice(&asked.stdout).expect("one document");
    assert_eq!(answer["recorded"], 15);
}

#[test]
fn help_has_an_example_and_says_where_records_come_from() {
    let said = text(&sluice(&["why", "--help"], &[]).stdout);
    for part in ["Example: sluice why vgg19 --rounds 50", "--from <FILE>...", "--with", "flight record"] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}
