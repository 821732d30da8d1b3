//! Every crash that the writer of small files can meet: after each of its operations, with each subset of what was not synced
//! by then on the disk and the rest lost, a write in any pieces.
//!
//! Promises: P-38

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{Layer, remove_on, replace_on};

/// Pieces of so many bytes reach the disk or do not. Eight make every torn file of this size a short matter.
const PIECES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    /// A name for a new, empty file, or the one that it has made empty.
    Create(PathBuf, usize),
    Piece {
        file: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Sync(usize),
    Rename(PathBuf, PathBuf),
    SyncNames,
    Remove(PathBuf),
}

/// A file system that notes what is asked of it. With `careless` it forgets to sync files.
#[derive(Default)]
struct Noting {
    operations: Vec<Operation>,
    files: usize,
    careless: bool,
}

struct Noted {
    file: usize,
    length: usize,
}

impl Layer for Noting {
    type File = Noted;

    fn create(&mut self, path: &Path) -> io::Result<Noted> {
        self.files += 1;
        self.operations.push(Operation::Create(path.to_owned(), self.files));
        Ok(Noted { file: self.files, length: 0 })
    }

    fn write(&mut self, file: &mut Noted, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(bytes.len().div_ceil(PIECES).max(1)) {
            self.operations.push(Operation::Piece { file: file.file, at: file.length, bytes: piece.to_vec() });
            file.length += piece.len();
        }
        Ok(())
    }

    fn sync(&mut self, file: &Noted) -> io::Result<()> {
        if !self.careless {
            self.operations.push(Operation::Sync(file.file));
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.operations.push(Operation::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn sync_names(&mut self, _: &Path) -> io::Result<()> {
        self.operations.push(Operation::SyncNames);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.operations.push(Operation::Remove(path.to_owned()));
        Ok(())
    }
}

/// Names and contents on the disk.
#[derive(Clone, Debug, Default)]
struct Disk {
    names: BTreeMap<PathBuf, usize>,
    files: BTreeMap<usize, Vec<u8>>,
}

impl Disk {
    fn take(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path, file) => {
                self.names.insert(path.clone(), *file);
            }
            Operation::Piece { file, at, bytes } => {
                let content = self.files.entry(*file).or_default();
                // What is missing before it reads as zeros.
                content.resize(content.len().max(at + bytes.len()), 0);
                content[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Operation::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Operation::Remove(path) => drop(self.names.remove(path)),
            Operation::Sync(_) | Operation::SyncNames => {}
        }
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.names.get(path).map(|file| self.files.get(file).cloned().unwrap_or_default())
    }
}

/// Was the operation on the disk for certain once these had followed it?
fn settled(operation: &Operation, later: &[Operation]) -> bool {
    match operation {
        Operation::Piece { file, .. } => later.contains(&Operation::Sync(*file)),
        Operation::Create(..) | Operation::Rename(..) | Operation::Remove(_) => later.contains(&Operation::SyncNames),
        Operation::Sync(_) | Operation::SyncNames => true,
    }
}

const FILE: &str = "/state/file.json";

/// Everything that a file may hold after a crash while `new` is written in the place of `old`; `None`: it is not there.
fn contents(old: Option<&[u8]>, new: &[u8], careless: bool) -> BTreeSet<Option<Vec<u8>>> {
    let mut noting = Noting { careless, ..Noting::default() };
    replace_on(&mut noting, Path::new(FILE), new).expect("nothing refuses");
    after(old, &noting.operations, 0)
}

/// Everything that a file which held `old` may hold after a crash that these operations met, so many of them at least.
fn after(old: Option<&[u8]>, operations: &[Operation], least: usize) -> BTreeSet<Option<Vec<u8>>> {
    let path = Path::new(FILE);
    let mut before = Disk::default();
    if let Some(old) = old {
        before.files.insert(0, old.to_vec());
        before.names.insert(path.to_owned(), 0);
    }
    let mut found = BTreeSet::new();
    for end in least..=operations.len() {
        let done = &operations[..end];
        let open: Vec<usize> = (0..end).filter(|&at| !settled(&done[at], &done[at + 1..])).collect();
        assert!(open.len() < 16, "{} subsets would take too long", open.len());
        for subset in 0..1_u32 << open.len() {
            let lost = |at: &usize| open.iter().position(|o| o == at).is_some_and(|bit| subset >> bit & 1 == 0);
            let mut disk = before.clone();
            (0..end).filter(|at| !lost(at)).for_each(|at| disk.take(&done[at]));
            found.insert(disk.content(path));
        }
    }
    found
}

/// What `new` in the place of `old` may leave, by the writer as it is.
pub(crate) fn after_any_crash(old: Option<&[u8]>, new: &[u8]) -> BTreeSet<Option<Vec<u8>>> {
    contents(old, new, false)
}

#[test]
fn whatever_moment_a_crash_takes_the_file_before_or_the_new_one_is_there_whole() {
    let (old, new) =
        (br#"{"schema":1,"starts_ns":[1]}"#.as_slice(), br#"{"schema":1,"starts_ns":[1,20000]}"#.as_slice());
    assert_eq!(after_any_crash(Some(old), new), BTreeSet::from([Some(old.to_vec()), Some(new.to_vec())]));
    assert_eq!(after_any_crash(None, new), BTreeSet::from([None, Some(new.to_vec())]));
    // It takes a sync to get there: without one, torn and empty files are found.
    let careless = contents(Some(old), new, true);
    assert!(careless.len() > 100 && careless.contains(&Some(Vec::new())), "{}", careless.len());
}

#[test]
fn what_was_removed_does_not_come_back() {
    let mut noting = Noting::default();
    remove_on(&mut noting, Path::new(FILE)).expect("nothing refuses");
    let (all, old) = (noting.operations, Some(b"old".to_vec()));
    assert_eq!(after(old.as_deref(), &all, 0), BTreeSet::from([None, old.clone()]));
    assert_eq!(after(old.as_deref(), &all, all.len()), BTreeSet::from([None]));
}

/// Files of state as they are written, before and after, and what reads them: 0 the one, 1 the other, 2 nothing.
#[test]
fn readers_of_every_file_take_the_one_before_the_new_one_or_none_whatever_is_torn() {
    let journal = |dir: &Path| format!("{:?}", crate::journal::Journal::new(dir).read());
    let starts = |dir: &Path| crate::starts::Starts::new(dir).note(sluice_schedule::Nanos(40)).to_string();
    let mode = |dir: &Path| {
        let mut reader = crate::config::read::Reader::default();
        reader.directory(dir);
        let (loaded, problems) = reader.parts();
        if problems.is_empty() { loaded.config.mode.word().to_owned() } else { "refused".to_owned() }
    };
    let kept = |mode: &str| format!("# Set by `sluice mode --persist`.\nmode = \"{mode}\"\n");
    let change =
        |old: &str| format!(r#"{{"schema":1,"sysctls":[{{"key":"tcp_tso_rtt_log","old":"{old}","new":"0"}}]}}"#);
    type Read = dyn Fn(&Path) -> String;
    let cases: [(&str, String, String, &Read); 3] = [
        ("changes.json", change("9"), change("5"), &journal),
        ("starts.json", r#"{"schema":1,"starts_ns":[1]}"#.into(), r#"{"schema":1,"starts_ns":[1,20]}"#.into(), &starts),
        ("90-mode.toml", kept("active"), kept("bypass"), &mode),
    ];
    for (name, old, new, read) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        let of = |content: Option<&[u8]>| {
            match content {
                Some(content) => std::fs::write(&path, content).expect("written"),
                None => drop(std::fs::remove_file(&path)),
            }
            read(dir.path())
        };
        let (before, after) = (of(Some(old.as_bytes())), of(Some(new.as_bytes())));
        let (absent, refused) = (of(None), of(Some(b"{".as_slice())));
        assert!(before != after && before != absent && after != absent, "{name}: {before} {after} {absent}");
        for content in after_any_crash(Some(old.as_bytes()), new.as_bytes()) {
            assert!([&before, &after].contains(&&of(content.as_deref())), "{name}: {content:?}");
        }
        // What only a broken disk leaves is ignored: nobody acts upon half a file.
        for content in contents(Some(old.as_bytes()), new.as_bytes(), true) {
            let seen = of(content.as_deref());
            assert!([&before, &after, &absent, &refused].contains(&&seen), "{name}: {content:?}: {seen}");
        }
    }
}
