//! The stories of `vectors/`: what each tells is written down in `told` by hand, not taken from the twin. The files are what
//! this says (`SLUICE_WRITE_VECTORS=1` writes them anew), and the twin does what the files say.

#![allow(clippy::disallowed_methods, reason = "it compares files")]

mod told;

use std::path::Path;

use sluice_pipeline::vectors::{Outcome, Step, Story, replay_files, stories};
use sluice_pipeline::{Switch, UDP_PORT, frame};
use sluice_schedule::Slot;
use sluice_wire::udp::LANES;
use told::{farthest, written};

#[test]
fn the_files_are_what_is_written_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    for (name, text) in written() {
        let file = folder.join(format!("{name}.txt"));
        if std::env::var_os("SLUICE_WRITE_VECTORS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert!(std::fs::read_to_string(&file).unwrap() == text, "{} differs", file.display());
    }
}

#[test]
fn the_twin_does_what_the_stories_say() {
    let stories = stories();
    assert_eq!(stories.len(), written().len());
    for story in stories {
        if let Err(mismatch) = story.replay(UDP_PORT) {
            let packet = |outcome: &Outcome| match outcome {
                Outcome::Out { bytes, .. } => frame::packet(bytes),
                Outcome::Drop(_) => None,
            };
            panic!("{mismatch}\nexpected {:?}\ngot {:?}", packet(&mismatch.expected), packet(&mismatch.got));
        }
    }
}

#[test]
fn a_wrong_story_is_not_replayed() {
    for story in stories() {
        let mut wrong = story.clone();
        let changed = wrong.steps.iter_mut().rev().find_map(|step| match step {
            Step::Frame { expected: Outcome::Out { bytes, .. }, .. } => bytes.last_mut(),
            _ => None,
        });
        *changed.unwrap() ^= 1;
        assert!(wrong.replay(UDP_PORT).is_err(), "{}", story.name);
    }
}

#[test]
fn every_frame_is_in_the_captures() {
    for story in stories() {
        let files = replay_files(&story);
        let frames = |end: &str| -> usize {
            let captures = files.iter().filter(|file| file.path.ends_with(end));
            captures.map(|file| records(&file.bytes)).sum()
        };
        let (mut came, mut left) = (0, 0);
        for step in &story.steps {
            if let Step::Frame { expected, .. } = step {
                came += 1;
                left += usize::from(matches!(expected, Outcome::Out { .. }));
            }
        }
        assert_eq!((frames("_in.pcap"), frames("_out.pcap")), (came, left), "{}", story.name);
    }
}

fn records(capture: &[u8]) -> usize {
    let (mut at, mut count) = (24, 0);
    while at < capture.len() {
        at += 16 + u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap()) as usize;
        count += 1;
    }
    assert_eq!(at, capture.len());
    count
}

#[test]
fn wrong_texts_say_where() {
    let error = |text: &str| Story::read("s", text).unwrap_err().to_string();
    assert_eq!(error("guard 1\nin 0 0"), "s, line 2: the frame is no hexadecimal of 0 to 9216 bytes");
    assert_eq!(error("in 0 00\nguard 1"), "s, line 2: `in` and its `out` or `drop` come by turns");
    assert_eq!(error("in 600 00"), "s, line 1: the port is `600`; allowed is 0 to 511");
    assert_eq!(
        error("in 0 00\ndrop it"),
        "s, line 2: the reason is `it`; allowed are malformed, not-ipv4, spoofed, ttl-expired, no-route"
    );
    assert_eq!(error("edge 0 ten"), "s, line 1: the sources is `ten`; allowed is a prefix such as 10.0.1.0/24");
}

#[test]
fn a_million_frames_of_any_kind_touch_no_foreign_cell() {
    // Frames that were stories once, changed at random: nothing panics, and no port but the one a packet leaves by is
    // written.
    let mut switch = Switch::new(UDP_PORT);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let stories = stories();
    let frames: Vec<&Vec<u8>> = stories
        .iter()
        .flat_map(|story| &story.steps)
        .filter_map(|step| match step {
            Step::Frame { bytes, .. } => Some(bytes),
            Step::Control(statement) => {
                statement.apply(&mut switch);
                None
            }
        })
        .collect();
    switch.set_guard(Some(Slot(100)));
    for _ in 0..1_000_000 {
        let mut bytes = frames[next() as usize % frames.len()].clone();
        for _ in 0..next() % 4 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        if next() % 8 == 0 {
            bytes.truncate(next() as usize % (bytes.len() + 1));
        }
        switch.process((next() % 600) as u16, &mut bytes);
    }
    // Stories send by ports 1 and 2, and only port 1 has a link.
    let cells = |port| {
        let all = (0..LANES).flat_map(|lane| (99..=101).map(move |slot| (lane, slot)));
        all.map(move |(lane, slot)| (lane, Slot(slot), usize::from(farthest(slot.into())))).map(move |at| (port, at))
    };
    let written = |(port, (lane, slot, farthest))| switch.load(port, lane, slot, farthest) != 0;
    assert!(cells(1).any(written), "no packet was counted at all");
    for port in (0..512).filter(|port| *port != 1) {
        assert!(!cells(port).any(written), "a cell of port {port} was written");
    }
}
