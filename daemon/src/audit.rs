//! Who commanded what, why, and what came of it: an event in the log, and a line in `audit.jsonl` in the state directory.
//!
//! One thread, `audit`, owns the file; whoever notes something leaves it in a bounded queue and goes on, so that neither a
//! slow disk nor a full one keeps anybody waiting, the deciding loop least of all. What could not be written is counted and
//! told, and changes nothing else. The thread ends with the last handle.
//!
//! The file is bounded: past [`MAX_BYTES`] it becomes `audit.jsonl.1`, in place of the one before. A line is one write, and
//! on disk before the next; a line that a crash has torn is ended by the next start's first, and counted by readers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sluice_wire::audit::{self, Entry};

/// A file's name in the state directory.
pub const NAME: &str = "audit.jsonl";
/// Bytes of a file; there are two at most. About a thousand commands each.
const MAX_BYTES: u64 = 512 << 10;
/// Entries that wait for the disk.
const QUEUE: usize = 256;
/// A reader waits so long for what was noted before.
const PATIENCE: Duration = Duration::from_millis(500);

enum Note {
    Entry(Box<Entry>),
    /// Answers when everything before it is on disk.
    Reached(SyncSender<()>),
}

/// The audit log of a daemon.
#[derive(Clone, Debug)]
pub struct Audit {
    notes: SyncSender<Note>,
    path: PathBuf,
    unrecorded: Arc<AtomicU64>,
}

impl Audit {
    /// Begins in this directory. `unrecorded` counts what could not be written.
    pub fn start(state_dir: &Path, unrecorded: Arc<AtomicU64>) -> Audit {
        let (notes, queue) = sync_channel(QUEUE);
        let path = state_dir.join(NAME);
        let (to, lost) = (path.clone(), unrecorded.clone());
        // Without the thread the queue has no other end, and everything counts as unrecorded.
        drop(std::thread::Builder::new().name("audit".into()).spawn(move || write_all(&to, &queue, &lost)));
        Audit { notes, path, unrecorded }
    }

    /// Notes a command: in the log now, in the file soon.
    pub fn note(&self, entry: Entry) {
        let entry = entry.bounded();
        tell(&entry);
        if self.notes.try_send(Note::Entry(Box::new(entry))).is_err() {
            self.unrecorded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last so many commands, those just noted included. Reads files: not for the deciding loop.
    pub fn last(&self, last: usize) -> audit::Audit {
        let (reached, wait) = sync_channel(1);
        if self.notes.try_send(Note::Reached(reached)).is_ok() {
            let _ = wait.recv_timeout(PATIENCE); // A stuck disk: what is there is shown.
        }
        let mut found = audit::Audit { unrecorded: self.unrecorded.load(Ordering::Relaxed), ..audit::Audit::default() };
        for path in [older(&self.path), self.path.clone()] {
            found.read(&content(&path));
        }
        found.keep(last);
        found
    }
}

fn tell(entry: &Entry) {
    let user = entry.user.as_deref().unwrap_or_default();
    tracing::info!(
        event = "command",
        command = entry.command,
        asked = entry.asked,
        reason = entry.reason,
        result = entry.result.as_str(),
        uid = entry.uid,
        user,
        pid = entry.pid,
        "{}",
        entry.message
    );
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("jsonl.1")
}

/// What a file has; nothing if it is not one of ours.
fn content(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    if let Ok(file) = open
        && file.metadata().is_ok_and(|meta| meta.is_file())
    {
        // What can be read before an error counts.
        let _ = file.take(2 * MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

fn write_all(path: &Path, queue: &Receiver<Note>, lost: &AtomicU64) {
    while let Ok(note) = queue.recv() {
        match note {
            Note::Reached(reached) => drop(reached.try_send(())),
            Note::Entry(entry) => {
                if let Err(error) = write(path, &entry) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(
                        event = "commands-unrecorded",
                        %error,
                        file = %path.display(),
                        cost = "who gave the command stands in the log only; it was carried out all the same",
                        next = "make room on the file system of node.state_dir, and let the daemon write there",
                        "a command is not in the audit file"
                    );
                }
            }
        }
    }
}

/// Appends a line. The file is opened anew each time: commands are rare, and somebody may have moved it away.
fn write(path: &Path, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    let (mut file, mut length) = open(path)?;
    if length > 0 && length.saturating_add(line.len() as u64) > MAX_BYTES {
        fs::rename(path, older(path))?;
        (file, length) = open(path)?;
    }
    if length > 0 && last_byte(&mut file)? != b'\n' {
        // A crash, or a full disk, has torn the last line; it ends here.
        line.insert(0, b'\n');
    }
    file.write_all(&line)?;
    file.sync_data()
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is there and is no regular file; move it away"));
    }
    Ok((file, meta.len()))
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: usize) -> Entry {
        Entry { command: "mode".into(), asked: n.to_string(), ..Entry::default() }.bounded()
    }

    fn start(dir: &Path) -> (Audit, Arc<AtomicU64>) {
        let unrecorded = Arc::new(AtomicU64::new(0));
        (Audit::start(dir, unrecorded.clone()), unrecorded)
    }

    fn asked(audit: &audit::Audit) -> Vec<&str> {
        audit.entries.iter().map(|entry| entry.asked.as_str()).collect()
    }

    #[test]
    fn what_was_noted_is_read_in_order_and_by_the_next_daemon_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let (audit, _) = start(&state);
        assert_eq!(audit.last(10).entries, []);
        for n in 0..5 {
            audit.note(entry(n));
        }
        assert_eq!(asked(&audit.last(3)), ["2", "3", "4"]);
        drop(audit);
        let (audit, unrecorded) = start(&state);
        audit.note(entry(5));
        assert_eq!(asked(&audit.last(100)), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(unrecorded.load(Ordering::Relaxed), 0);
    }

    /// Promises: P-38
    #[test]
    fn wherever_a_crash_tears_the_file_what_was_whole_is_kept_and_what_follows_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(NAME);
        for n in 0..3 {
            write(&path, &entry(n)).expect("written");
        }
        let whole = fs::read(&path).expect("there");
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).expect("torn");
            write(&path, &entry(7)).expect("goes on");
            let mut read = audit::Audit::default();
            read.read(&content(&path));
            // A line without its end, but with all of its object, is whole.
            let (mut before, mut rest) = (0, &whole[..length]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                (before, rest) = (before + 1, &rest[end + 1..]);
            }
            let complete = usize::from(rest.ends_with(b"}"));
            assert_eq!(read.entries.len(), before + complete + 1, "{length}");
            assert_eq!(read.unreadable, usize::from(!rest.is_empty()) - complete, "{length}");
            assert_eq!(read.entries.last(), Some(&entry(7)));
        }
    }

    #[test]
    fn the_files_stay_within_their_bound_and_the_last_commands_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(NAME);
        let long = |n: usize| Entry { reason: "é".repeat(300), ..entry(n) };
        let line = serde_json::to_vec(&long(0)).expect("JSON").len() as u64;
        let most = (3 * MAX_BYTES / line) as usize;
        fs::write(&path, []).expect("written");
        for n in 0..most {
            // As `write`, without waiting for the disk each time.
            let (mut file, length) = open(&path).expect("opens");
            if length + line + 1 > MAX_BYTES {
                drop(file);
                write(&path, &long(n)).expect("written");
                continue;
            }
            let text = serde_json::to_string(&long(n)).expect("JSON");
            writeln!(file, "{text}").expect("written");
        }
        let sizes: u64 =
            fs::read_dir(dir.path()).expect("there").map(|e| e.expect("one").metadata().expect("its").len()).sum();
        assert!(sizes <= 2 * MAX_BYTES, "{sizes}");
        let (audit, _) = start(dir.path());
        let last = audit.last(usize::MAX);
        let numbers: Vec<usize> = last.entries.iter().map(|entry| entry.asked.parse().expect("a number")).collect();
        assert!(
            numbers.len() >= most / 3 && numbers.is_sorted() && numbers.last() == Some(&(most - 1)),
            "{}",
            numbers.len()
        );
    }

    #[test]
    fn a_place_that_takes_nothing_is_counted_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "x").expect("written");
        let (audit, unrecorded) = start(&file);
        audit.note(entry(1));
        assert_eq!(audit.last(9).entries, []);
        assert_eq!(unrecorded.load(Ordering::Relaxed), 1);
        // Another's file behind a link is not written to.
        let (audit, unrecorded) = start(dir.path());
        std::os::unix::fs::symlink(&file, dir.path().join(NAME)).expect("linked");
        audit.note(entry(1));
        assert_eq!((audit.last(9).entries.len(), unrecorded.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(fs::read_to_string(&file).expect("there"), "x");
    }

    /// Promises: P-33
    #[test]
    fn a_full_disk_is_counted_and_when_there_is_room_again_it_goes_on() {
        use nix::mount::{MsFlags, mount};
        use nix::sched::{CloneFlags, unshare};
        let dir = tempfile::tempdir().expect("a directory");
        if !nix::unistd::geteuid().is_root() {
            sluice_skip::skip!(Privilege, "mounting needs root");
            return;
        }
        // This thread's own view of the file system, and that of the thread it starts.
        unshare(CloneFlags::CLONE_NEWNS).expect("a namespace");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some("size=16k")).expect("a small disk");
        let (audit, unrecorded) = start(dir.path());
        audit.note(entry(1));
        assert_eq!(audit.last(9).entries.len(), 1);
        let filler = dir.path().join("filler");
        let mut file = File::create(&filler).expect("a file");
        while file.write_all(&[0; 512]).is_ok() {}
        for n in 0..40 {
            audit.note(Entry { reason: "x".repeat(300), ..entry(n) });
        }
        let while_full = audit.last(99);
        let lost = unrecorded.load(Ordering::Relaxed);
        assert!(lost > 0 && while_full.unrecorded == lost, "{lost}");
        drop(file);
        fs::remove_file(&filler).expect("removed");
        audit.note(entry(77));
        let after = audit.last(99);
        assert_eq!(after.entries.last().map(|entry| entry.asked.clone()), Some("77".into()));
        assert_eq!(after.entries.len() as u64 + unrecorded.load(Ordering::Relaxed), 42);
    }
}
