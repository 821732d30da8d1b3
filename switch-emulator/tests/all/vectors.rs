//! `sluice-switch vectors` as a program: what it writes are the stories, whole and in order, and a switch that has nothing but
//! these files does what they say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sluice_pipeline::control::Statement;
use sluice_pipeline::vectors::{Outcome, Step, Story, outcome, stories};
use sluice_pipeline::{Switch, UDP_PORT};

/// v1model has CRC-32C by its parameters only; a switch that begins has to be told them first.
const ONCE: &str = "set_crc32_parameters calc_1 0x1edc6f41 0xffffffff 0xffffffff true true";
/// Of a capture's head: classic format with microseconds, version 2.4, and Ethernet.
const MAGIC: u32 = 0xa1b2_c3d4;
const VERSION: [u8; 4] = [2, 0, 4, 0];
const ETHERNET: u32 = 1;

/// A frame, when it came or left, in microseconds, and by which port.
type Record = (u64, u16, Vec<u8>);

/// A frame of a story: the port by which it comes, what comes, and what becomes of it.
type Frame = (u16, Vec<u8>, Outcome);

/// What one folder holds.
#[derive(Debug, Default)]
struct Phase {
    commands: Vec<String>,
    came: Vec<Record>,
    left: Vec<Record>,
}

fn vectors(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice-switch")).args(["vectors", "--pcap"]).arg(folder).output().unwrap()
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The frames of a capture at this port.
fn records(file: &Path, port: u16) -> Vec<Record> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (MAGIC, ETHERNET), "{}", file.display());
    assert_eq!((&bytes[4..8], word(8)), (&VERSION[..], 0), "{}", file.display());
    let most = word(16);
    let (mut at, mut records) = (24, Vec::new());
    while at < bytes.len() {
        let [seconds, micros, kept, whole] = [0, 4, 8, 12].map(|field| word(at + field));
        assert!(micros < 1_000_000 && kept == whole && whole <= most, "{}: {kept} of {whole}", file.display());
        let frame = bytes.get(at + 16..at + 16 + kept as usize);
        let frame = frame.unwrap_or_else(|| panic!("{} ends inside a frame", file.display()));
        records.push((u64::from(seconds) * 1_000_000 + u64::from(micros), port, frame.to_vec()));
        at += 16 + kept as usize;
    }
    assert!(!records.is_empty(), "{} has no frame", file.display());
    records
}

fn read(folder: &Path) -> Phase {
    let mut phase = Phase::default();
    for name in names(folder) {
        let file = folder.join(&name);
        if name == "commands.txt" {
            phase.commands = std::fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
            continue;
        }
        let (port, way) = name.split_once('_').unwrap_or_else(|| panic!("{} is no capture", file.display()));
        let found = records(&file, port.parse().unwrap());
        match way {
            "in.pcap" => phase.came.extend(found),
            "out.pcap" => phase.left.extend(found),
            other => panic!("{}: {other} is neither in nor out", file.display()),
        }
    }
    // Over all ports, time gives the order.
    phase.came.sort();
    phase.left.sort();
    phase
}

/// What a command of BMv2's `simple_switch_CLI` does, as a statement.
fn statement(command: &str) -> Statement {
    let words: Vec<&str> = command.split(' ').collect();
    let line = match words.as_slice() {
        ["table_add", "lpm", "forward", to, "=>", port, next, own] => format!("route {to} via {port} {next} {own}"),
        ["table_add", "lpm", "choose", to, "=>", group, size, seed] => {
            format!("route {to} group {group} size {size} seed {seed}")
        }
        ["table_add", "ecmp", "forward", group, bucket, "=>", port, next, own] => {
            format!("member {group} {bucket} via {port} {next} {own}")
        }
        ["table_add", "edge", "bind", port, "=>", network, mask] => {
            let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).unwrap();
            assert_eq!(mask.count_ones(), mask.leading_ones(), "{command}");
            format!("edge {port} {network}/{}", mask.leading_ones())
        }
        ["table_add", "links", "link", port, "=>", capacity, unit, signature] => {
            format!("link {port} capacity {capacity} unit {unit} signature {signature}")
        }
        ["table_set_default", "guard", "set_slot", slot] => format!("guard {slot}"),
        ["reset_state"] => "restart".into(),
        _ => panic!("`{command}` is no command that the program's tables have"),
    };
    line.parse().unwrap_or_else(|error| panic!("`{command}` says {line}: {error}"))
}

/// What the commands of a phase write, without what only a P4 target has to be told, and that in its place.
fn statements(phase: &Phase, first: bool) -> Vec<Statement> {
    let mut begins = first;
    let mut written = Vec::new();
    for command in &phase.commands {
        if std::mem::take(&mut begins) {
            assert_eq!(command, ONCE, "a switch that begins is told it first");
            continue;
        }
        written.push(statement(command));
        begins = command == "reset_state";
    }
    assert!(!begins, "a switch that begins is told nothing: {:?}", phase.commands);
    written
}

/// A story as a row of phases: what is written, then what comes and what becomes of it.
fn phases(story: &Story) -> Vec<(Vec<Statement>, Vec<Frame>)> {
    let mut phases: Vec<(Vec<Statement>, Vec<Frame>)> = vec![Default::default()];
    for step in &story.steps {
        let (statements, frames) = phases.last_mut().unwrap();
        match step {
            Step::Control(statement) if frames.is_empty() => statements.push(*statement),
            Step::Control(statement) => phases.push((vec![*statement], Vec::new())),
            Step::Frame { port, bytes, expected } => frames.push((*port, bytes.clone(), expected.clone())),
        }
    }
    phases
}

/// Writes the stories; the folder of each phase of each story, in order, with the story.
fn written(folder: &Path) -> Vec<(Story, Vec<PathBuf>)> {
    let output = vectors(folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stories = stories();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{}: {} stories\n", folder.display(), stories.len()));
    let known: BTreeSet<String> = stories.iter().map(|story| story.name.clone()).collect();
    assert_eq!(names(folder), known);
    let of = |story: Story| {
        let below = folder.join(&story.name);
        let numbers = 1..=names(&below).len();
        let folders: Vec<PathBuf> = numbers.map(|phase| below.join(phase.to_string())).collect();
        (story, folders)
    };
    stories.into_iter().map(of).collect()
}

#[test]
fn every_frame_and_statement_of_every_story_is_in_its_phases_folder_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    // The folder is made.
    let (mut came, mut left, mut told) = (0, 0, 0);
    for (story, folders) in written(&dir.path().join("new/stories")) {
        let phases = phases(&story);
        assert_eq!(folders.len(), phases.len(), "{}", story.name);
        for (at, (folder, (wanted, frames))) in folders.iter().zip(phases).enumerate() {
            let phase = read(folder);
            assert_eq!(statements(&phase, at == 0), wanted, "{}", folder.display());
            let expected: Vec<Record> =
                frames.iter().zip(0..).map(|((port, bytes, _), at)| (at, *port, bytes.clone())).collect();
            assert_eq!(phase.came, expected, "{}", folder.display());
            let leaves = |((_, _, becomes), at): (&Frame, u64)| match becomes {
                Outcome::Out { port, bytes } => Some((at, *port, bytes.clone())),
                Outcome::Drop(_) => None,
            };
            let expected: Vec<Record> = frames.iter().zip(0..).filter_map(leaves).collect();
            assert_eq!(phase.left, expected, "{}", folder.display());
            (came, left, told) = (came + phase.came.len(), left + phase.left.len(), told + wanted.len());
        }
    }
    assert!(came > 100 && left > 100 && came > left && told > 40, "{came} came, {left} left, {told} statements");
}

#[test]
fn a_switch_that_reads_only_the_files_sends_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let mut frames = 0;
    for (_, folders) in written(dir.path()) {
        let mut switch = Switch::new(UDP_PORT);
        for (at, folder) in folders.iter().enumerate() {
            let phase = read(folder);
            statements(&phase, at == 0).into_iter().for_each(|statement| statement.apply(&mut switch));
            let send = |(at, port, bytes): &Record| match outcome(&mut switch, *port, bytes) {
                Outcome::Out { port, bytes } => Some((*at, port, bytes)),
                Outcome::Drop(_) => None,
            };
            let left: Vec<Record> = phase.came.iter().filter_map(send).collect();
            assert_eq!(left, phase.left, "{}", folder.display());
            frames += phase.came.len();
        }
    }
    assert!(frames > 100, "{frames} frames");
}

/// BMv2 refuses to add an entry that is there (`DUPLICATE_ENTRY`), and the story would go on with the old one.
#[test]
fn no_command_adds_an_entry_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut added = 0;
    for (_, folders) in written(dir.path()) {
        let mut there: BTreeSet<String> = BTreeSet::new();
        for folder in folders {
            for command in read(&folder).commands {
                if command == "reset_state" {
                    there.clear();
                }
                let Some((head, _)) = command.split_once(" => ").filter(|_| command.starts_with("table_add ")) else {
                    continue;
                };
                // Table and key; what an entry does is no part of it.
                let words: Vec<&str> = head.split(' ').collect();
                let key = format!("{} {}", words[1], words[3..].join(" "));
                assert!(there.insert(key), "{}: `{command}` adds what is there", folder.display());
                added += 1;
            }
        }
    }
    assert!(added > 15, "{added} entries");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    for folder in [file.clone(), file.join("stories")] {
        let output = vectors(&folder);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(&format!("error: making {}/", folder.display())), "{text}");
        assert!(text.contains("Not a directory"), "{text}");
        assert!(output.stdout.is_empty(), "nothing is claimed");
    }
    assert_eq!(names(dir.path()).len(), 1, "and nothing is written");
}
