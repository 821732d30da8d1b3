//! The daemon's side of one page: opened with care, checked on the descriptor, read by `pread` only.
//!
//! A page is never mapped: whoever owns the file could truncate it and turn the next access into a signal. A short
//! read drops the page. Groups under a sequence number are read again up to eight times, then the last good copy
//! stays; a writer killed inside such a group leaves it odd for ever, which is harmless.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::layout::{self, PAGE_BYTES, at};
use crate::opening;
use crate::sys;
use crate::view::{PageView, u16_at, u32_at, u64_at};

/// Reads of a group before its last good copy is kept.
const TRIES: u32 = 8;

/// Why a file is not a page, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The file could not be opened.
    #[error("{path}: cannot be opened: {source}; the daemon needs CAP_DAC_READ_SEARCH or the directory's group")]
    Open {
        /// Path of the page.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A link instead of a file.
    #[error("{path}: is a symbolic link; a page must be a regular file")]
    Symlink {
        /// Path of the page.
        path: PathBuf,
    },
    /// Another file system's file is mounted on it.
    #[error("{path}: something is mounted there; a page must be a file of its directory's own file system")]
    Mounted {
        /// Path of the page.
        path: PathBuf,
    },
    /// Somebody holds a lease on it.
    #[error("{path}: its owner holds a file lease; it is tried again at the next scan")]
    Leased {
        /// Path of the page.
        path: PathBuf,
    },
    /// A FIFO, directory, device or socket.
    #[error("{path}: is a {kind}; a page must be a regular file")]
    NotRegular {
        /// Path of the page.
        path: PathBuf,
        /// Which kind of file it is instead.
        kind: &'static str,
    },
    /// Too short or too long.
    #[error("{path}: size is {size} bytes, must be exactly 4096")]
    WrongSize {
        /// Path of the page.
        path: PathBuf,
        /// Size of the file, in bytes.
        size: u64,
    },
    /// It has other names.
    #[error("{path}: link count is {links}, must be 1: a hard link could lend it another owner's place")]
    Linked {
        /// Path of the page.
        path: PathBuf,
        /// How many names the file has.
        links: u64,
    },
    /// The lock's holder runs as somebody else.
    #[error("{path}: belongs to uid {owner}, but process {pid} that holds its lock runs as another user")]
    WrongOwner {
        /// Path of the page.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// Who holds the lock.
        pid: u32,
    },
    /// The file does not begin as a page does.
    #[error("{path}: magic is {found:02x?}, must be \"SLUICEP1\"")]
    BadMagic {
        /// Path of the page.
        path: PathBuf,
        /// Its first eight bytes.
        found: [u8; 8],
    },
    /// A page of another version.
    #[error("{path}: abi_major is {found}, this version reads 1 only; update the older of library and daemon")]
    Major {
        /// Path of the page.
        path: PathBuf,
        /// The version that was found.
        found: u16,
    },
    /// A header field that has only one allowed value in this version.
    #[error("{path}: {field} is {found}, must be {allowed}")]
    Header {
        /// Path of the page.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// The value that was found.
        found: u64,
        /// The value that is allowed.
        allowed: u64,
    },
    /// Left over, or copied, from another boot.
    #[error("{path}: boot_id is {found:016x}, this boot's is {allowed:016x}: the page is of an earlier boot")]
    OtherBoot {
        /// Path of the page.
        path: PathBuf,
        /// Boot of the page.
        found: u64,
        /// The value for the present boot of this host.
        allowed: u64,
    },
    /// It became shorter while it was read, or reading failed.
    #[error("{path}: could not be read whole: {source}")]
    Short {
        /// Path of the page.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// More pages than allowed.
    #[error("{path}: {scope} already has {allowed} pages, no more are read")]
    Quota {
        /// Path of the page.
        path: PathBuf,
        /// `uid 1000` or `the directory`.
        scope: String,
        /// How many are allowed.
        allowed: usize,
    },
}

/// Does the publisher live?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Yes; the pid is that of the daemon's own namespace, `None` if it is not visible there.
    Alive {
        /// Process id, if the name says one.
        pid: Option<u32>,
    },
    /// No: the lock is free.
    Dead,
    /// A process of another user holds the lock: nothing of the page may be believed.
    Foreign {
        /// Process id of the writer that is gone.
        pid: u32,
    },
}

/// A page that is open and was checked.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: File,
    uid: u32,
    last: PageView,
    /// A sequence number that stayed odd through all tries: its writer died there, no need to try so often again.
    stuck: Seqs,
    /// The topology's sequence number when the peers of the last reading were written.
    peers_of: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seqs {
    iteration: u64,
    topology: u32,
}

impl Reader {
    /// Opens and checks a page.
    ///
    /// # Errors
    /// A [`PageError`] that names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, PageError> {
        let path = path.as_ref();
        let name = CString::new(path.as_os_str().as_bytes());
        let name = name.map_err(|error| PageError::Open { path: path.into(), source: error.into() })?;
        Reader::open_at(libc::AT_FDCWD, &name, path.to_owned())
    }

    /// As [`Reader::open`], for a name in an open directory; `path` is for messages.
    pub(crate) fn open_at(dir: RawFd, name: &CString, path: PathBuf) -> Result<Reader, PageError> {
        Reader::of(opening::open(dir, name), path)
    }

    /// Checks a file that was opened as [`open_beneath`](crate::open_beneath) does; `path` is for messages.
    ///
    /// # Errors
    /// A [`PageError`] that names the file and what is wrong with it.
    pub(crate) fn of(opened: io::Result<File>, path: PathBuf) -> Result<Reader, PageError> {
        let file = match opened {
            Ok(file) => file,
            Err(source) => {
                return Err(match source.raw_os_error() {
                    Some(libc::ELOOP) => PageError::Symlink { path },
                    Some(libc::EAGAIN) => PageError::Leased { path },
                    Some(libc::EXDEV) => PageError::Mounted { path },
                    // A socket, or a device without a driver.
                    Some(libc::ENXIO | libc::ENODEV) => PageError::NotRegular { path, kind: "socket or device" },
                    _ => PageError::Open { path, source },
                });
            }
        };
        let meta = match file.metadata() {
            Ok(meta) => meta,
            Err(source) => return Err(PageError::Open { path, source }),
        };
        match meta.mode() & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(PageError::NotRegular { path, kind: "directory" }),
            libc::S_IFIFO => return Err(PageError::NotRegular { path, kind: "FIFO" }),
            _ => return Err(PageError::NotRegular { path, kind: "device" }),
        }
        if meta.size() != PAGE_BYTES as u64 {
            return Err(PageError::WrongSize { path, size: meta.size() });
        }
        if meta.nlink() != 1 {
            return Err(PageError::Linked { path, links: meta.nlink() });
        }
        let mut reader =
            Reader { path, file, uid: meta.uid(), last: PageView::default(), stuck: Seqs::default(), peers_of: None };
        if let Liveness::Foreign { pid } = reader.owner() {
            return Err(PageError::WrongOwner { path: reader.path, owner: reader.uid, pid });
        }
        let page = reader.page()?;
        reader.check_header(&page)?;
        let boot = u64_at(&page, at::BOOT_ID);
        let own = sys::boot_id();
        if boot != 0 && own != 0 && boot != own {
            return Err(PageError::OtherBoot { path: reader.path, found: boot, allowed: own });
        }
        reader.read()?;
        Ok(reader)
    }

    /// Path of the page.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's owner: only flows of this uid may be affected by what the page says.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Reads the page. The daemon calls this once per slot; three reads of the kernel's cache in the usual case.
    ///
    /// # Errors
    /// The file became shorter, or its header changed.
    pub fn read(&mut self) -> Result<PageView, PageError> {
        let (mut iteration, mut peers) = (None, None);
        let (mut counters, mut good_topology) = (None, None);
        for attempt in 1..=TRIES {
            let before = self.seqs()?;
            let page = self.page()?;
            let after = self.seqs()?;
            let view = PageView::decode(&page);
            if counters.is_none() {
                self.check_header(&page)?;
            }
            if iteration.is_none() && before.iteration == after.iteration && before.iteration & 1 == 0 {
                iteration = Some(view.iteration);
            }
            if peers.is_none() && before.topology == after.topology && before.topology & 1 == 0 {
                peers = Some((view.ring_prev, view.ring_next, view.peers.clone()));
                good_topology = Some(before.topology);
            }
            counters = Some(view);
            if iteration.is_some() && peers.is_some() {
                self.stuck = Seqs::default();
                break;
            }
            let stuck = Seqs {
                iteration: if iteration.is_none() { after.iteration } else { 0 },
                topology: if peers.is_none() { after.topology } else { 0 },
            };
            if stuck == self.stuck {
                break;
            }
            if attempt == TRIES {
                self.stuck = stuck;
            }
        }
        let mut view = counters.unwrap_or_default();
        view.iteration_stale = iteration.is_none();
        view.peers_stale = peers.is_none();
        view.iteration = iteration.unwrap_or(self.last.iteration);
        match peers {
            Some((prev, next, list)) => (view.ring_prev, view.ring_next, view.peers) = (prev, next, list),
            None => {
                view.ring_prev = self.last.ring_prev;
                view.ring_next = self.last.ring_next;
                view.peers.clone_from(&self.last.peers);
            }
        }
        self.last = view.clone();
        self.peers_of = if view.peers_stale { None } else { good_topology };
        Ok(view)
    }

    /// Brings an earlier reading's state, counters and iteration up to date, at a tenth of the cost of
    /// [`Reader::read`]. False, and nothing changed, if the connections are other ones by now or a group is being
    /// written: then read the whole page.
    ///
    /// # Errors
    /// The file became shorter.
    pub fn refresh(&mut self, view: &mut PageView) -> Result<bool, PageError> {
        let before = self.seqs()?;
        if self.peers_of != Some(before.topology) || before.iteration & 1 == 1 {
            return Ok(false);
        }
        let mut page = [0; PAGE_BYTES];
        self.read_at(&mut page[at::STATE..at::TOPO_SEQ], at::STATE)?;
        if self.seqs()? != before {
            return Ok(false);
        }
        view.take_live(&page);
        view.iteration_stale = false;
        self.last.iteration = view.iteration;
        Ok(true)
    }

    /// Asks the kernel who holds the publisher's lock.
    ///
    /// Never ask for a page of the own process: its locks do not show, and closing the reader would drop them.
    pub fn owner(&self) -> Liveness {
        match sys::holder_of_byte0(&self.file) {
            Ok(None) => Liveness::Dead,
            Ok(Some(0)) => Liveness::Alive { pid: self.claimed_pid() },
            Ok(Some(pid)) if sys::runs_as(pid, self.uid) == Some(false) => Liveness::Foreign { pid },
            Ok(Some(pid)) => Liveness::Alive { pid: Some(pid) },
            // No locks on this file system: fall back on what the page says.
            Err(_) => match self.claimed_pid() {
                Some(pid) => Liveness::Alive { pid: Some(pid) },
                None => Liveness::Dead,
            },
        }
    }

    /// The pid the page names, if a process with that start time lives and runs as the file's owner.
    fn claimed_pid(&self) -> Option<u32> {
        let page = self.page().ok()?;
        let pid = u32_at(&page, at::PID);
        let start = sys::start_ticks(&pid.to_string())?;
        (start == u64_at(&page, at::PID_START) && sys::runs_as(pid, self.uid) == Some(true)).then_some(pid)
    }

    /// Removes its file from this directory, if that is still the file that was opened.
    pub(crate) fn remove_from(&self, dir: &Path) -> io::Result<()> {
        let name = self.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        opening::remove(dir, &CString::new(name)?, &self.file)
    }

    fn page(&self) -> Result<[u8; PAGE_BYTES], PageError> {
        let mut page = [0; PAGE_BYTES];
        self.read_at(&mut page, 0)?;
        Ok(page)
    }

    fn read_at(&self, bytes: &mut [u8], offset: usize) -> Result<(), PageError> {
        let short = |source| PageError::Short { path: self.path.clone(), source };
        self.file.read_exact_at(bytes, offset as u64).map_err(short)
    }

    /// Both sequence numbers in one read.
    fn seqs(&self) -> Result<Seqs, PageError> {
        let mut bytes = [0; at::TOPO_SEQ + 4 - at::ITER_SEQ];
        self.read_at(&mut bytes, at::ITER_SEQ)?;
        Ok(Seqs { iteration: u64_at(&bytes, 0), topology: u32_at(&bytes, at::TOPO_SEQ - at::ITER_SEQ) })
    }

    fn check_header(&self, page: &[u8; PAGE_BYTES]) -> Result<(), PageError> {
        let magic = page.first_chunk::<8>().copied().unwrap_or_default();
        // The last byte is the major version's digit: the next version must read as such.
        if magic.get(..7) != layout::MAGIC.get(..7) || !magic.last().is_some_and(u8::is_ascii_digit) {
            return Err(PageError::BadMagic { path: self.path.clone(), found: magic });
        }
        let major = u16_at(page, at::ABI_MAJOR);
        if magic != layout::MAGIC || major != layout::MAJOR {
            return Err(PageError::Major { path: self.path.clone(), found: major });
        }
        for (field, found, allowed) in [
            ("seg_bytes", u64::from(u32_at(page, at::SEG_BYTES)), PAGE_BYTES as u64),
            ("peers_off", u64::from(u32_at(page, at::PEERS_OFF)), at::PEERS as u64),
            ("peer_bytes", u64::from(u16_at(page, at::PEER_BYTES)), layout::PEER_BYTES as u64),
            ("peer_cap", u64::from(u16_at(page, at::PEER_CAP)), layout::PEER_CAP as u64),
        ] {
            if found != allowed {
                return Err(PageError::Header { path: self.path.clone(), field, found, allowed });
            }
        }
        Ok(())
    }
}
