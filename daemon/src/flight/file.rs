//! The ring of segments on disk: opened with suspicion, written one frame at a time, never larger than its bound. What was
//! handed to the kernel outlives the daemon, so that `kill -9` costs the slot that was being written and no more; nothing is
//! synced, so that a machine that loses power may lose the last half minute.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nix::fcntl::{Flock, FlockArg};
use sluice_attribution::record::{self, HEAD, SEGMENT};
use sluice_attribution::seen::Seen;
use sluice_schedule::Nanos;

use super::Kept;
use crate::clock::monotonic;

/// Ends a segment's frames; the next frame takes its place.
const END: [u8; 4] = [0; 4];

/// A segment in use.
#[derive(Clone, Copy, Debug)]
struct Segment {
    serial: u64,
    /// When it was last written to, CLOCK_MONOTONIC.
    written: Nanos,
}

/// The file under way.
pub(super) struct Ring {
    file: Flock<File>,
    host: String,
    time: Nanos,
    /// Segments at most.
    max: usize,
    segments: Vec<Segment>,
    serial: u64,
    at: usize,
    offset: usize,
    frame: Vec<u8>,
}

impl Ring {
    /// Opens it, or makes it; `None`: it stays as it is, and was told of.
    pub fn open(kept: &Kept, host: &str) -> io::Result<Option<Ring>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o640);
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(&kept.path)?;
        let refuse = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what.to_owned()));
        if !file.metadata()?.is_file() {
            return refuse("not a regular file");
        }
        let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            return refuse("another daemon writes to it; each needs a flight.file of its own");
        };
        let max = usize::try_from(kept.max_bytes / SEGMENT as u64).unwrap_or(usize::MAX).max(2);
        let mut ring = Ring {
            file,
            host: host.to_owned(),
            time: kept.time,
            max,
            segments: Vec::new(),
            serial: 0,
            at: 0,
            offset: SEGMENT,
            frame: Vec::new(),
        };
        match ring.read_heads()? {
            Found::Ours => {}
            Found::Foreign => return refuse("the file is there and is no flight record"),
            Found::Other(what) => {
                let file = kept.path.display();
                tracing::info!(event = "flight-anew", %file, what, "an earlier flight record is replaced");
                ring.segments.clear();
                ring.file.set_len(0)?;
            }
        }
        Ok(Some(ring))
    }

    fn read_heads(&mut self) -> io::Result<Found> {
        let length = self.file.metadata()?.len();
        let count = usize::try_from(length.div_ceil(SEGMENT as u64)).unwrap_or(usize::MAX);
        let mut other = None;
        for at in 0..count.min(self.max) {
            let mut head = [0; HEAD];
            let mut read = 0;
            while read < HEAD {
                match self.file.read_at(&mut head[read..], (at * SEGMENT + read) as u64)? {
                    0 => break,
                    more => read += more,
                }
            }
            let serial = match record::read_head(&head) {
                Some(head) if head.version != record::VERSION => {
                    other = Some("another version");
                    head.serial
                }
                Some(head) if head.host != self.host => {
                    other = Some("another host");
                    head.serial
                }
                Some(head) => head.serial,
                // What its machine died over while it was made, or what a broken disk left: used again.
                None if at > 0 || record::may_become_head(&head[..read]) => 0,
                None => return Ok(Found::Foreign),
            };
            self.serial = self.serial.max(serial);
            self.segments.push(Segment { serial, written: monotonic() });
        }
        if count > self.max {
            self.file.set_len((self.max * SEGMENT) as u64)?;
        }
        Ok(other.map_or(Found::Ours, Found::Other))
    }

    /// Writes a slot.
    pub fn write(&mut self, seen: &Seen) -> io::Result<()> {
        self.frame.clear();
        let serial = self.serial;
        let framed = self.offset < SEGMENT && record::frame(serial, seen, &mut self.frame);
        if framed && self.offset + self.frame.len() <= SEGMENT {
            return self.put();
        }
        self.next_segment()?;
        self.frame.clear();
        // One that no segment has room for is not written; its bounds see to that.
        if record::frame(self.serial, seen, &mut self.frame) { self.put() } else { Ok(()) }
    }

    /// The frame, and the end of frames behind it, in one call.
    fn put(&mut self) -> io::Result<()> {
        let length = self.frame.len();
        if self.offset + length + END.len() <= SEGMENT {
            self.frame.extend(END);
        }
        self.file.write_all_at(&self.frame, (self.at * SEGMENT + self.offset) as u64)?;
        self.offset += length;
        if let Some(segment) = self.segments.get_mut(self.at) {
            segment.written = monotonic();
        }
        Ok(())
    }

    /// A further segment, or the oldest one where that is old enough or there is no room.
    fn next_segment(&mut self) -> io::Result<()> {
        self.serial += 1;
        let now = monotonic();
        let oldest = self.segments.iter().enumerate().min_by_key(|(_, segment)| segment.serial);
        let old = |segment: &Segment| segment.serial == 0 || now.minus(segment.written) > self.time;
        self.at = match oldest {
            Some((at, segment)) if self.segments.len() >= self.max || old(segment) => at,
            _ => self.segments.len(),
        };
        let fresh = Segment { serial: self.serial, written: now };
        match self.segments.get_mut(self.at) {
            Some(segment) => *segment = fresh,
            None => self.segments.push(fresh),
        }
        let mut head = record::head(self.serial, &self.host).to_vec();
        head.extend(END);
        self.file.write_all_at(&head, (self.at * SEGMENT) as u64)?;
        self.offset = HEAD;
        Ok(())
    }
}

enum Found {
    Ours,
    /// It is one, but not one that goes on.
    Other(&'static str),
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn kept(path: &Path, seconds: u64, segments: usize) -> Kept {
        let time = Nanos::from_millis(seconds * 1000);
        Kept { path: path.to_owned(), time, max_bytes: (segments * SEGMENT) as u64 }
    }

    fn slot(number: u64) -> Seen {
        let peers = vec!["x".repeat(300); 200];
        Seen { from: Nanos(number), to: Nanos(number + 1), peers, ..Seen::default() }
    }

    fn write(kept: &Kept, host: &str, numbers: std::ops::Range<u64>) {
        let mut ring = Ring::open(kept, host).expect("opened").expect("ours");
        numbers.for_each(|number| ring.write(&slot(number)).expect("written"));
    }

    fn read(path: &Path) -> (Vec<u64>, usize) {
        let record = record::read(&std::fs::read(path).expect("a file")).expect("a record");
        (record.slots.iter().map(|slot| slot.from.0).collect(), record.torn)
    }

    #[test]
    fn it_stays_within_its_bound_and_keeps_the_newest() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("flight.ring");
        // Four slots to a segment, four segments.
        write(&kept(&path, 600, 4), "h0", 0..103);
        let (numbers, torn) = read(&path);
        assert!((13..=16).contains(&numbers.len()) && torn == 0, "{numbers:?} {torn}");
        assert_eq!(numbers, (103 - numbers.len() as u64..103).collect::<Vec<_>>());
        assert_eq!(std::fs::metadata(&path).expect("a file").len().div_ceil(SEGMENT as u64), 4);
        // A daemon that is started again goes on in it.
        write(&kept(&path, 600, 4), "h0", 103..105);
        let (numbers, _) = read(&path);
        assert_eq!(numbers[numbers.len() - 3..], [102, 103, 104]);
        // And one with less room takes less.
        write(&kept(&path, 600, 2), "h0", 105..106);
        assert!(std::fs::metadata(&path).expect("a file").len() <= 2 * SEGMENT as u64);
        assert_eq!(read(&path).0.last(), Some(&105));
    }

    #[test]
    fn a_host_that_does_little_takes_little_disk() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("flight.ring");
        // What is older than no time at all may be used again at once.
        write(&kept(&path, 0, 100), "h0", 0..60);
        assert!(std::fs::metadata(&path).expect("a file").len() <= 2 * SEGMENT as u64);
        assert_eq!(read(&path).0.last(), Some(&59));
    }

    #[test]
    fn what_is_no_record_is_left_alone_and_another_hosts_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("passwd"), dir.path().join("link"));
        std::fs::write(&path, "root:x:0:0").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        for place in [&path, &link, &dir.path().to_owned()] {
            assert!(Ring::open(&kept(place, 600, 4), "h0").is_err(), "{}", place.display());
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "root:x:0:0");
        let ring = dir.path().join("flight.ring");
        write(&kept(&ring, 600, 4), "h0", 0..9);
        write(&kept(&ring, 600, 4), "h1", 20..21);
        assert_eq!(read(&ring).0, [20]);
        let _taken = Ring::open(&kept(&ring, 600, 4), "h1").expect("opened").expect("ours");
        let error = Ring::open(&kept(&ring, 600, 4), "h1").err().expect("refused");
        assert!(error.to_string().contains("another daemon"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_off_anywhere_is_gone_on_with() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("flight.ring");
        write(&kept(&path, 600, 4), "h0", 0..9);
        let whole = std::fs::read(&path).expect("a file");
        for cut in [0, 1, HEAD - 1, HEAD, HEAD + 5, SEGMENT - 1, SEGMENT, SEGMENT + 9, 2 * SEGMENT + 100, whole.len()] {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let opened = Ring::open(&kept(&path, 600, 4), "h0");
            let mut ring = opened.expect("opened").expect("ours");
            ring.write(&slot(100)).expect("written");
            drop(ring);
            assert_eq!(read(&path).0.last(), Some(&100), "{cut}");
        }
    }
}
