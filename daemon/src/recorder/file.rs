//! The file of a recording: opened with suspicion, appended to, bounded.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::Receiver;

use sluice_formats::recording::{Line, MAX_LINE};

/// How a recording begins; a file that begins otherwise is not one of ours and is left alone.
const HEAD: &[u8] = b"{\"kind\":\"start\"";

/// Writes what comes until nobody is left who could say more, the file is full, or it cannot be written.
pub fn write(path: &Path, max_bytes: u64, from: &Receiver<Line>) {
    let result =
        open(path).and_then(|opened| opened.map_or(Ok(true), |(file, length)| lines(file, length, max_bytes, from)));
    match result {
        Ok(false) => {}
        Ok(true) => {
            tracing::warn!(
                event = "record-full",
                file = %path.display(),
                max_bytes,
                cost = "what jobs do from now on is not in it; they are scheduled as before",
                next = "raise record.max_bytes, or move the file away and start again",
                "the recording has reached record.max_bytes; nothing more is recorded"
            );
        }
        Err(error) => {
            tracing::warn!(
                event = "record-failed",
                file = %path.display(),
                %error,
                cost = "what jobs do from now on is not in it; they are scheduled as before",
                next = "make room for the file, or name another in record.file, and start again",
                "nothing more is recorded"
            );
        }
    }
}

/// Returns whether the file is full.
fn lines(file: File, mut length: u64, max_bytes: u64, from: &Receiver<Line>) -> io::Result<bool> {
    let full = Line::Full {}.text();
    let mut out = BufWriter::new(file);
    while let Ok(line) = from.recv() {
        let mut next = Some(line);
        while let Some(line) = next {
            let text = line.text();
            // A line that no reader would take is none: its host has more flows than a recording is for.
            if text.len() <= MAX_LINE {
                if length + (text.len() + full.len()) as u64 > max_bytes {
                    if length + full.len() as u64 <= max_bytes {
                        out.write_all(full.as_bytes())?;
                        out.flush()?;
                    }
                    return Ok(true);
                }
                out.write_all(text.as_bytes())?;
                length += text.len() as u64;
            }
            next = from.try_recv().ok();
        }
        out.flush()?;
    }
    out.flush()?;
    Ok(false)
}

/// Opens a recording for appending, behind its last whole line, or makes it. Returns its length; `None`: it is full.
fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640);
    let mut file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let meta = file.metadata()?;
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !meta.is_file() {
        return refuse("not a regular file");
    }
    let length = meta.len();
    let mut head = Vec::new();
    (&file).take(HEAD.len() as u64).read_to_end(&mut head)?;
    if !head.is_empty() && head != HEAD {
        return refuse("the file is there and is no recording");
    }
    let tail_from = length.saturating_sub(MAX_LINE as u64);
    file.seek(SeekFrom::Start(tail_from))?;
    let mut tail = Vec::new();
    (&file).take(MAX_LINE as u64).read_to_end(&mut tail)?;
    let whole = tail_from + tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
    if whole < length {
        file.set_len(whole)?;
    }
    Ok((!tail.ends_with(Line::Full {}.text().as_bytes())).then_some((file, whole)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_formats::recording::{self, VERSION};
    use std::sync::mpsc::sync_channel;

    fn start() -> Line {
        let (addresses, links) = (Vec::new(), Vec::new());
        Line::Start { version: VERSION, host: "h".into(), addresses, links, slot_ms: 60, unix_ns: 1 }
    }

    fn say(path: &Path, max_bytes: u64, lines: impl IntoIterator<Item = Line>) {
        let (to, from) = sync_channel(100);
        lines.into_iter().for_each(|line| to.send(line).expect("room"));
        drop(to);
        write(path, max_bytes, &from);
    }

    #[test]
    fn a_file_goes_on_behind_its_last_whole_line_up_to_its_bound() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        say(&path, 1 << 20, [start(), Line::Lost { lines: 1 }]);
        std::fs::write(&path, std::fs::read_to_string(&path).expect("a file") + "{\"kind\":\"lo").expect("torn");
        say(&path, 1 << 20, [start(), Line::Lost { lines: 2 }]);
        let read = recording::load(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((read.lost, read.full), (3, false));
        let bound = 400;
        say(&path, bound, (0..100).map(|lines| Line::Lost { lines }));
        let length = std::fs::metadata(&path).expect("a file").len();
        assert!(length <= bound && length > bound - 60, "{length}");
        assert!(recording::load(&path).unwrap_or_else(|e| panic!("{e}")).full);
        say(&path, bound, [start()]);
        assert_eq!(std::fs::metadata(&path).expect("a file").len(), length);
    }

    #[test]
    fn what_is_no_recording_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("passwd"), dir.path().join("link"));
        std::fs::write(&path, "root:x:0:0\n{torn").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        for place in [&path, &link, &dir.path().to_owned()] {
            say(place, 1 << 20, [start()]);
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "root:x:0:0\n{torn");
    }
}
