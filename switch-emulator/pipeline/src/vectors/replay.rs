//! Stories as files that BMv2 replays: captures by port, and commands for its command line.
//!
//! A story is a row of phases: first the control plane writes, then frames come. Each phase is a folder with
//! `commands.txt` for `simple_switch_CLI`, `N_in.pcap` with what comes in by port N and `N_out.pcap` with what must leave
//! by it, named as `simple_switch --use-files` names them. Timestamps give the order over all ports.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Outcome, Step, Story};
use crate::control::Statement;
use crate::routes::{Action, NextHop};

/// One file, and where it belongs below the folder that all are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayFile {
    /// The path, such as `count/1/0_in.pcap`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The files of a story.
pub fn replay_files(story: &Story) -> Vec<ReplayFile> {
    let mut files = Vec::new();
    let mut steps = story.steps.iter().peekable();
    for phase in 1.. {
        if steps.peek().is_none() {
            break;
        }
        let folder = format!("{}/{phase}", story.name);
        let mut commands = if phase == 1 { ONCE.to_owned() } else { String::new() };
        while let Some(Step::Control(statement)) = steps.peek() {
            command(*statement, &mut commands);
            steps.next();
        }
        files.push(ReplayFile { path: format!("{folder}/commands.txt"), bytes: commands.into_bytes() });
        let mut captures: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut at = 0;
        while let Some(Step::Frame { port, bytes, expected }) = steps.peek() {
            captured(captures.entry(format!("{folder}/{port}_in.pcap")).or_insert_with(header), at, bytes);
            if let Outcome::Out { port, bytes } = expected {
                captured(captures.entry(format!("{folder}/{port}_out.pcap")).or_insert_with(header), at, bytes);
            }
            at += 1;
            steps.next();
        }
        files.extend(captures.into_iter().map(|(path, bytes)| ReplayFile { path, bytes }));
    }
    files
}

/// The program asks for CRC-32C, which v1model has by its parameters only.
const ONCE: &str = "set_crc32_parameters calc_1 0x1edc6f41 0xffffffff 0xffffffff true true\n";

fn command(statement: Statement, out: &mut String) {
    let address = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let hop = |hop: NextHop| format!("{} {} {}", hop.port, address(hop.destination), address(hop.source));
    let line = match statement {
        Statement::Route(to, Action::Hop(by)) => format!("table_add lpm forward {to} => {}", hop(by)),
        Statement::Route(to, Action::Group(group)) => {
            format!("table_add lpm choose {to} => {} {} {}", group.id, group.size, group.seed)
        }
        Statement::Member(member, by) => {
            format!("table_add ecmp forward {} {} => {}", member.group, member.bucket, hop(by))
        }
        Statement::Edge(port, sources) => {
            format!("table_add edge bind {port} => {} {:#x}", sources.network(), u32::from(sources.netmask()))
        }
        Statement::Link(port, link) => {
            format!("table_add links link {port} => {} {} {:#x}", link.capacity, link.unit, link.signature)
        }
        Statement::Guard(slot) => format!("table_set_default guard set_slot {}", slot.0),
        // The switch begins anew: what follows is for a new one.
        Statement::Restart => format!("reset_state\n{}", ONCE.trim_end()),
    };
    let _ = writeln!(out, "{line}");
}

/// The head of a capture of Ethernet frames: classic format, microseconds.
fn header() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0xa1b2_c3d4_u32.to_le_bytes());
    for version in [2_u16, 4] {
        bytes.extend(version.to_le_bytes());
    }
    for field in [0_u32, 0, 65_535, 1] {
        bytes.extend(field.to_le_bytes());
    }
    bytes
}

fn captured(file: &mut Vec<u8>, at: u32, frame: &[u8]) {
    let length = frame.len() as u32;
    for field in [at / 1_000_000, at % 1_000_000, length, length] {
        file.extend(field.to_le_bytes());
    }
    file.extend(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_becomes_phases_of_commands_and_captures() {
        let text = "link 1 capacity 500 unit 0 signature 7\nguard 9\nin 0 0102\nout 1 0304\nin 2 05\ndrop malformed\nguard 10\nin 0 06\ndrop not-ipv4\n";
        let files = replay_files(&Story::read("s", text).unwrap());
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "s/1/commands.txt",
                "s/1/0_in.pcap",
                "s/1/1_out.pcap",
                "s/1/2_in.pcap",
                "s/2/commands.txt",
                "s/2/0_in.pcap"
            ]
        );
        let commands = String::from_utf8(files[0].bytes.clone()).unwrap();
        assert!(
            commands.ends_with("table_add links link 1 => 500 0 0x7\ntable_set_default guard set_slot 9\n"),
            "{commands}"
        );
        let capture = &files[1].bytes;
        assert_eq!(capture.len(), 24 + 16 + 2);
        assert_eq!(capture[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(capture[20..24], [1, 0, 0, 0], "Ethernet");
        assert_eq!(capture[32..36], [2, 0, 0, 0], "the length");
        assert_eq!(capture[40..], [1, 2]);
    }
}
