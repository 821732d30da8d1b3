//! Whatever a daemon wrote before it was killed is read, and nothing that anybody puts into a file makes a reader panic.

use super::*;
use crate::seen::sample as seen;
use proptest::prelude::*;

/// A segment with these slots.
fn segment(serial: u64, host: &str, slots: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = head(serial, host).to_vec();
    slots.for_each(|number| assert!(frame(serial, &seen(number), &mut bytes)));
    bytes.resize(SEGMENT, 0);
    bytes
}

fn numbers(record: &Record) -> Vec<u64> {
    record.slots.iter().map(|slot| slot.from.0 / 60).collect()
}

#[test]
fn segments_come_back_in_the_order_of_time_wherever_they_lie() {
    let file = [segment(9, "h0", 4..7), segment(7, "h0", 0..2), vec![0; SEGMENT], segment(8, "h0", 2..4)].concat();
    let record = read(&file).expect("a record");
    assert_eq!((record.host.as_str(), record.torn), ("h0", 0));
    assert_eq!(numbers(&record), (0..7).collect::<Vec<_>>());
    assert_eq!(record.slots[3], seen(3));
}

#[test]
fn a_segment_that_is_used_again_forgets_its_earlier_frames() {
    let mut bytes = segment(1, "h0", 0..30);
    let mut fresh = head(5, "h0").to_vec();
    (100..102).for_each(|number| assert!(frame(5, &seen(number), &mut fresh)));
    bytes[..fresh.len()].copy_from_slice(&fresh);
    let record = read(&bytes).expect("a record");
    assert_eq!(numbers(&record), [100, 101]);
}

#[test]
fn a_file_cut_off_anywhere_gives_all_whole_frames_before_the_cut() {
    let file = segment(1, "h0", 0..5);
    let mut ends = vec![HEAD];
    for _ in 0..5 {
        let at = ends[ends.len() - 1];
        ends.push(at + FRAME + u32_at(&file, at).expect("a length") as usize);
    }
    for cut in 0..ends[5] + 40 {
        let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1) as u64;
        match read(&file[..cut]) {
            Ok(record) => assert_eq!(numbers(&record), (0..whole).collect::<Vec<_>>(), "{cut}"),
            Err(why) => assert_eq!((why, cut < HEAD), (Unreadable::Foreign, true), "{cut}"),
        }
    }
}

#[test]
fn what_is_no_record_is_told_apart_from_one_of_another_version() {
    assert_eq!(read(b""), Err(Unreadable::Foreign));
    assert_eq!(read(&[7; 1000]), Err(Unreadable::Foreign));
    let mut later = segment(1, "h0", 0..1);
    later[8..12].copy_from_slice(&9_u32.to_le_bytes());
    let sum = CRC.checksum(&later[..HEAD - 4]);
    later[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(read(&later), Err(Unreadable::Version { seen: 9 }));
    // One that still has segments of this version is read.
    let both = [later, segment(0, "h0", 0..2)].concat();
    assert_eq!(numbers(&read(&both).expect("a record")), [0, 1]);
    let two = [segment(1, "a", 0..1), segment(2, "b", 1..2)].concat();
    assert_eq!(read(&two), Err(Unreadable::Hosts("a".into(), "b".into())));
}

#[test]
fn names_of_any_length_have_a_head() {
    for name in ["", "gpu-17", &"ü".repeat(300)] {
        let head = read_head(&head(3, name)).expect("a head");
        assert!(name.starts_with(&head.host) && head.serial == 3 && head.host.len() <= MAX_NAME, "{name}");
    }
}

#[test]
fn a_slot_larger_than_a_segment_is_not_written() {
    let large = Seen { peers: vec!["x".repeat(1000); 300], ..seen(1) };
    let mut out = vec![1, 2, 3];
    assert!(!frame(1, &large, &mut out));
    assert_eq!(out, [1, 2, 3]);
}

proptest! {
    /// Bits that turn over, wherever: what is read is a part of what was written, and nothing panics.
    #[test]
    fn any_damage_is_survived(flips in prop::collection::vec((0_usize..2 * SEGMENT, any::<u8>()), 1..20)) {
        let mut file = [segment(1, "h0", 0..40), segment(2, "h0", 40..80)].concat();
        for (at, byte) in flips {
            // Most of a segment is empty; damage where something lies.
            let at = if at % 2 == 0 { at } else { at / SEGMENT * SEGMENT + at % 6000 };
            file[at] ^= byte;
        }
        if let Ok(record) = read(&file) {
            prop_assert!(record.slots.iter().all(|slot| *slot == seen(slot.from.0 / 60)));
        }
    }
}
