//! Watching a directory of pages within a budget: whoever fills it with files costs hints, never time.
//!
//! A pass over the directory may take several steps; each looks at 512 entries or for 2 ms at most. At most 64 pages
//! of one user and 4096 in all are open. Once those are open, a user takes the place of another's page for as long as that
//! user has two more than itself. A refused file is reported once, and looked at again in the next pass.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::layout;
use crate::reader::{Liveness, PageError, Reader};
use crate::sys;

/// How much one step may do, and how much may be open.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Directory entries per step.
    pub entries: usize,
    /// The time that one step may take.
    pub time: Duration,
    /// Pages of one user.
    pub per_uid: usize,
    /// How many pages may be open in all.
    pub pages: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { entries: 512, time: Duration::from_millis(2), per_uid: 64, pages: 4096 }
    }
}

/// A page of a scan; keys are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey(pub u64);

/// What a step found.
#[derive(Debug)]
pub enum Found {
    /// A new page; it is in [`Scan::pages`] from now on.
    Appeared(PageKey),
    /// A page was closed for one of a user who has fewer, and appears again once there is room.
    Displaced(PageKey),
    /// A file that is not a page, reported once.
    Refused(PageError),
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct Step {
    /// Pages that were found and opened.
    pub found: Vec<Found>,
    /// The pass is over; the next step begins a new one.
    pub complete: bool,
}

/// Opens a file of the directory in the place of this process, which may not.
pub type Opener = Box<dyn Fn(&CStr) -> io::Result<File> + Send>;

/// All pages of one directory.
pub struct Scan {
    dir: PathBuf,
    opener: Option<Opener>,
    budget: Budget,
    pass: Option<Pass>,
    pages: BTreeMap<PageKey, Reader>,
    names: HashMap<CString, PageKey>,
    per_uid: HashMap<u32, usize>,
    refused: HashSet<CString>,
    refused_now: HashSet<CString>,
    next_key: u64,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("dir", &self.dir).field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl Scan {
    /// Watches `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>, budget: Budget) -> Scan {
        Scan {
            dir: dir.into(),
            opener: None,
            budget,
            pass: None,
            pages: BTreeMap::new(),
            names: HashMap::new(),
            per_uid: HashMap::new(),
            refused: HashSet::new(),
            refused_now: HashSet::new(),
            next_key: 1,
        }
    }

    /// From now on files are opened by this, which has to do it as [`open_beneath`](crate::open_beneath) does.
    pub fn opened_by(&mut self, opener: Opener) {
        self.opener = Some(opener);
    }

    /// The directory that is looked through.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Goes on with the pass, or begins one.
    ///
    /// # Errors
    /// The directory is absent, not a directory, or not readable. Open pages stay open.
    pub fn step(&mut self) -> io::Result<Step> {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => Pass::begin(&self.dir)?,
        };
        let started = Instant::now();
        let mut step = Step::default();
        for looked_at in 0..self.budget.entries {
            if looked_at % 16 == 15 && started.elapsed() > self.budget.time {
                break;
            }
            let Some(name) = pass.next() else {
                step.complete = true;
                break;
            };
            if is_page_name(&name) && !self.names.contains_key(&name) {
                self.look_at(&pass, name, &mut step.found);
            }
        }
        if step.complete {
            self.refused = std::mem::take(&mut self.refused_now);
        } else {
            self.pass = Some(pass);
        }
        Ok(step)
    }

    /// All open pages, in the order of their appearance.
    pub fn pages(&mut self) -> impl Iterator<Item = (PageKey, &mut Reader)> {
        self.pages.iter_mut().map(|(&key, reader)| (key, reader))
    }

    /// An open page by its key.
    pub fn page(&mut self, key: PageKey) -> Option<&mut Reader> {
        self.pages.get_mut(&key)
    }

    /// Number of open pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// No page is open.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Closes a page, for example after a failed read; if its file is still a page, the next pass finds it again.
    pub fn close(&mut self, key: PageKey) {
        let Some(reader) = self.pages.remove(&key) else { return };
        self.names.retain(|_, named| *named != key);
        if let Some(count) = self.per_uid.get_mut(&reader.uid()) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.per_uid.remove(&reader.uid());
            }
        }
    }

    /// Closes every page whose publisher is dead or not its owner, removes the files of the dead, and returns the
    /// keys. Not being permitted to remove a file is not an error: the directory is swept again at the next boot.
    pub fn reap(&mut self) -> Vec<PageKey> {
        let gone = |(&key, reader): (&PageKey, &Reader)| match reader.owner() {
            Liveness::Alive { .. } => None,
            dead_or_foreign => Some((key, dead_or_foreign == Liveness::Dead)),
        };
        let gone: Vec<_> = self.pages.iter().filter_map(gone).collect();
        for &(key, dead) in &gone {
            if dead && let Some(reader) = self.pages.get(&key) {
                let _ = reader.remove_from(&self.dir);
            }
            self.close(key);
        }
        gone.into_iter().map(|(key, _)| key).collect()
    }

    fn look_at(&mut self, pass: &Pass, name: CString, found: &mut Vec<Found>) {
        let path = self.dir.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let reader = match &self.opener {
            Some(open) => Reader::of(open(&name), path),
            None => Reader::open_at(pass.dir.as_raw_fd(), &name, path),
        };
        match reader.and_then(|reader| self.place_for(reader)) {
            Ok((reader, displaced)) => {
                if let Some(key) = displaced {
                    self.close(key);
                    found.push(Found::Displaced(key));
                }
                let key = PageKey(self.next_key);
                self.next_key += 1;
                *self.per_uid.entry(reader.uid()).or_default() += 1;
                self.pages.insert(key, reader);
                self.names.insert(name, key);
                found.push(Found::Appeared(key));
            }
            // Removed between the listing and the opening.
            Err(PageError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let known = self.refused.contains(&name) || self.refused_now.contains(&name);
                let room = self.refused_now.len() < self.budget.pages;
                if room {
                    self.refused_now.insert(name);
                }
                if !known && room {
                    found.push(Found::Refused(error));
                }
            }
        }
    }

    /// May this page be open too, and which one goes for it?
    fn place_for(&self, reader: Reader) -> Result<(Reader, Option<PageKey>), PageError> {
        let uid = reader.uid();
        let mine = self.per_uid.get(&uid).copied().unwrap_or(0);
        let refuse = |scope: String, allowed| Err(PageError::Quota { path: reader.path().to_owned(), scope, allowed });
        if mine >= self.budget.per_uid {
            return refuse(format!("uid {uid}"), self.budget.per_uid);
        }
        if self.pages.len() < self.budget.pages {
            return Ok((reader, None));
        }
        // The last of those that came: who has run for long goes on.
        let newest = |of: u32| self.pages.iter().rev().find(|(_, page)| page.uid() == of).map(|(key, _)| *key);
        match most_of(&self.per_uid).filter(|(_, theirs)| gives_way(*theirs, mine)).and_then(|(of, _)| newest(of)) {
            Some(key) => Ok((reader, Some(key))),
            None => refuse("the directory".into(), self.budget.pages),
        }
    }
}

/// Who has most of something, and how much; of several the one with the least id.
pub fn most_of(shares: &HashMap<u32, usize>) -> Option<(u32, usize)> {
    shares.iter().map(|(of, share)| (*of, *share)).max_by_key(|(of, share)| (*share, std::cmp::Reverse(*of)))
}

/// Does somebody who has so much of a full table give one place to somebody who has less? Only if that one has no more
/// afterwards, so that no place goes to and fro.
pub const fn gives_way(theirs: usize, mine: usize) -> bool {
    mine + 1 < theirs
}

/// Only the extension counts; the rest of a name is never read for meaning.
fn is_page_name(name: &CStr) -> bool {
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).extension().is_some_and(|ext| ext == layout::EXTENSION)
}

/// One pass over the directory, held open between steps.
#[derive(Debug)]
struct Pass {
    dir: OwnedFd,
    stream: NonNull<libc::DIR>,
}

// SAFETY: a directory stream may move between threads; it is used by one at a time.
unsafe impl Send for Pass {}

impl Pass {
    fn begin(dir: &Path) -> io::Result<Pass> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the path is NUL-terminated; the descriptor is owned from here on.
        let dir = unsafe { OwnedFd::from_raw_fd(sys::check(libc::open(path.as_ptr(), flags))?) };
        let listed = dir.try_clone()?.into_raw_fd();
        // SAFETY: `listed` is an open directory that the stream takes over.
        match NonNull::new(unsafe { libc::fdopendir(listed) }) {
            Some(stream) => Ok(Pass { dir, stream }),
            None => {
                let error = io::Error::last_os_error();
                // SAFETY: on failure the descriptor is still ours.
                drop(unsafe { OwnedFd::from_raw_fd(listed) });
                Err(error)
            }
        }
    }

    /// The next name, `None` at the end or when the directory cannot be read on.
    fn next(&mut self) -> Option<CString> {
        // SAFETY: the stream is open; the entry is copied before the next call.
        unsafe {
            let entry = libc::readdir(self.stream.as_ptr());
            (!entry.is_null()).then(|| CStr::from_ptr((*entry).d_name.as_ptr()).to_owned())
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // SAFETY: the stream is open and not used again.
        unsafe { libc::closedir(self.stream.as_ptr()) };
    }
}
