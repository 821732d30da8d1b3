//! The helper: holds the privileges, does what the brain asks, and believes nothing of it.
//!
//! It has no socket of a network but netlink's and those that are never connected, runs nothing, and reads of what users wrote
//! only the entries of environments that name jobs. Where things are it knows from the administrator's files, which it reads
//! itself: never from a message, and never from the state directory, where the brain writes. A row count is held against what
//! fits; a network namespace is entered only if the helper itself found a job's process in it; a page is a name in the one
//! directory; a sysctl is one of two. What is refused is counted and logged here, where the brain cannot unsay it.
//!
//! Two threads, one a line. It ends when the brain does.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use sluice_ebpf::sysctl::{self, Change};
use sluice_ebpf::{Descriptors, Grip, Gripped, Hands, MAX_WANTED, Options, Tier};
use sluice_schedule::{Nanos, Rate};

use super::eyes::{self, SharedEyes};
use super::line::{DESK, End, MAX_DESCRIPTORS};
use super::message::{Changed, Numbers, Opened, PageName, Reply, Request, Sysctl};
use super::rows;
use crate::config::Loaded;
use crate::enforce;
use crate::monitor::discovery::{self, Settings};
use crate::monitor::tuple::NetNs;
use crate::monitor::{environ, namespaces, settings};
use crate::sock_diag;

/// Processes whose namespaces may be entered, remembered; more, and all are looked at anew.
const MAX_FOUND: usize = 4096;
/// Of them at most so many of one user.
const MAX_FOUND_OF_USER: usize = 1024;
/// No order lives longer: twice the longest `enforce.coast_ms`.
const LONGEST: Nanos = Nanos::from_millis(20_000);
/// Bytes of text for people on a desk.
const MAX_TEXT: usize = 16 << 10;
/// What a sysctl that is given back may have been.
const MOST: u64 = i32::MAX as u64;
const LEAST_WMEM: u64 = 4096;

/// What one thread of it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The kernel side and pages, for the deciding loop.
    Deciding,
    /// Everything else.
    Looking,
}

/// What both threads know.
#[derive(Debug)]
pub struct Known {
    options: Options,
    settings: Settings,
    progress_dir: std::path::PathBuf,
    eyes: SharedEyes,
    own: Option<NetNs>,
    jobs: Mutex<Jobs>,
    refused: AtomicU64,
}

/// Processes that were found to be jobs'.
#[derive(Debug, Default)]
struct Jobs {
    /// With the namespace that each was in.
    found: HashMap<u32, NetNs>,
    of_user: HashMap<u32, usize>,
    /// Those that hold a page's lock.
    publishers: HashSet<u32>,
}

impl Known {
    pub fn new(loaded: &Loaded) -> Known {
        Known {
            options: enforce::options(loaded, None),
            settings: settings(&loaded.config),
            progress_dir: loaded.config.progress_dir(),
            eyes: eyes::own(),
            own: namespaces::of(std::process::id()),
            jobs: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// What takes more than the helper keeps: the file system of pins, where it is missing.
    pub fn prepare(&self) {
        if let Err(error) = sluice_ebpf::mount_pins(&self.options) {
            tracing::debug!(event = "no-bpffs", %error, "there is no file system for pins");
        }
    }

    /// Its namespace is this process's own, or one that a process of a job is in.
    fn may_enter(&self, pid: u32) -> io::Result<NetNs> {
        let netns = namespaces::of(pid).ok_or(Errno::ESRCH)?;
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if self.own == Some(netns) || jobs.found.get(&pid) == Some(&netns) {
            return Ok(netns);
        }
        let publishes = jobs.publishers.contains(&pid);
        drop(jobs);
        if !publishes && !discovery::names_a_job(&self.settings, &*self.eyes, pid) {
            return Err(Errno::EPERM.into());
        }
        let uid = std::fs::metadata(format!("/proc/{pid}"))?.uid();
        jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.found.len() >= MAX_FOUND {
            (jobs.found, jobs.of_user) = (HashMap::new(), HashMap::new());
        }
        let of_user = jobs.of_user.entry(uid).or_default();
        if *of_user >= MAX_FOUND_OF_USER {
            return Err(Errno::EDQUOT.into());
        }
        *of_user += 1;
        jobs.found.insert(pid, netns);
        tracing::info!(
            event = "helper-entered",
            pid,
            uid,
            netns = netns.0,
            "a job's network namespace may be looked into"
        );
        Ok(netns)
    }
}

/// A thread of the helper.
pub struct Server {
    part: Part,
    end: End,
    known: Arc<Known>,
    grip: Option<Grip>,
    set: Vec<Change>,
}

/// What goes back.
struct Answer {
    reply: Reply,
    descriptors: Vec<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { reply, descriptors: Vec::new() }
    }
}

fn with(descriptor: OwnedFd) -> Answer {
    Answer { reply: Reply::Descriptor, descriptors: vec![descriptor] }
}

impl Server {
    pub fn new(part: Part, end: End, known: Arc<Known>) -> Server {
        Server { part, end, known, grip: None, set: Vec::new() }
    }

    /// Answers until the brain is gone.
    pub fn run(mut self) {
        while let Ok(Some(received)) = self.end.receive(false) {
            let (answer, number) = match Request::decode(&received.bytes) {
                Ok((request, number)) => (self.answer(&request), number),
                Err(malformed) => (Err(io::Error::new(io::ErrorKind::InvalidData, malformed)), 0),
            };
            let answer = answer.unwrap_or_else(|error| self.refuse(&error));
            let descriptors: Vec<_> = answer.descriptors.iter().take(MAX_DESCRIPTORS).map(AsFd::as_fd).collect();
            if self.end.send(&answer.reply.encode(number), &descriptors).is_err() {
                return;
            }
        }
    }

    /// Counts what is refused for what it is; that a process has ended meanwhile is nobody's fault.
    fn refuse(&self, error: &io::Error) -> Answer {
        let errno = match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => errno,
            (None, io::ErrorKind::InvalidData) => libc::EPROTO,
            (None, _) => libc::EIO,
        };
        if matches!(errno, libc::EPROTO | libc::EPERM | libc::EINVAL | libc::EDQUOT) {
            let count = self.known.refused.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_power_of_two() {
                tracing::warn!(
                    event = "helper-refused",
                    count,
                    %error,
                    cost = "nothing: it was not done",
                    next = "if nobody tries what the configuration does not allow, the brain is not itself: stop it and report this",
                    "the helper has refused what the brain asked"
                );
            }
        }
        Reply::Refused(errno).into()
    }

    fn answer(&mut self, request: &Request) -> io::Result<Answer> {
        let part = match request {
            Request::Open { .. } | Request::Close | Request::Capture { .. } | Request::Reclaim | Request::AskEarly => {
                Part::Deciding
            }
            Request::SetSysctls | Request::RestoreSysctl(_) => Part::Looking,
            _ => self.part,
        };
        if part != self.part {
            return Err(Errno::EPERM.into());
        }
        match request {
            Request::Hello => Ok(Reply::Done.into()),
            Request::Open { floor, ceiling, longest, loss_guard } => self.open(&Options {
                floor: Rate(*floor),
                ceiling: Rate(*ceiling),
                longest_order: Nanos(*longest).min(LONGEST),
                loss_guard: f64::from(*loss_guard) / 1e6,
                ..self.known.options.clone()
            }),
            Request::Close => {
                self.grip = None;
                Ok(Reply::Done.into())
            }
            Request::Capture { pid, count } => self.capture(*pid, *count),
            Request::Reclaim => {
                let taken = self.grip()?.reclaim().map_err(io::Error::other)?;
                Ok(Reply::Count(taken).into())
            }
            Request::AskEarly => {
                self.grip()?.ask_early().map_err(io::Error::other)?;
                Ok(Reply::Done.into())
            }
            Request::SetSysctls => self.set_sysctls(),
            Request::RestoreSysctl(changed) => self.restore_sysctl(*changed),
            Request::Netns { pid } => {
                let NetNs(inode) = namespaces::of(*pid).ok_or(Errno::ESRCH)?;
                Ok(Reply::Netns(inode).into())
            }
            Request::Diag { pid } => {
                self.known.may_enter(*pid)?;
                Ok(with(namespaces::within(*pid, sock_diag::open)??))
            }
            Request::Environ { pid } => self.write(&environ::of_jobs(*pid)?),
            Request::Sockets { pid } => {
                let inodes = self.known.eyes.sockets(*pid);
                let bytes: Vec<u8> = inodes.into_iter().take(DESK / 8).flat_map(u64::to_le_bytes).collect();
                self.write(&bytes)
            }
            Request::Page(name) => self.page(name).map(with),
            Request::Plan { pid } => plan(*pid).map(with),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<Answer> {
        Ok(Reply::Written(self.end.put(bytes)?).into())
    }

    fn grip(&mut self) -> io::Result<&mut Grip> {
        self.grip.as_mut().ok_or(Errno::EBADF.into())
    }

    fn open(&mut self, options: &Options) -> io::Result<Answer> {
        // One at a time: what was open is left to its pins first.
        self.grip = None;
        options.check().map_err(|_| io::Error::from(Errno::EINVAL))?;
        let mut reasons = Vec::new();
        let opened = match Grip::open(options, &mut reasons) {
            Ok(opened) => opened,
            Err(error) => {
                reasons.push(error.to_string());
                None
            }
        };
        let lent = opened.map(|gripped| gripped.grip.descriptors().map(|lent| (gripped, lent)));
        let (opened, descriptors) = match lent {
            Some(Ok((Gripped { grip, tier, name, adopted }, lent))) => {
                let mut bytes = [0; 16];
                bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
                let Descriptors { ctl, stat, counters, events, rows, ring_bytes } = lent;
                self.grip = Some(grip);
                tracing::info!(event = "helper-opened", tier = tier.name(), rows, adopted, "the kernel side is open");
                let tier = match tier {
                    Tier::StructOps => 1,
                    Tier::StructOpsNoLink => 2,
                    Tier::SetSockOpt => 3,
                    Tier::None => 0,
                };
                let opened = Opened { tier, rows, ring_bytes, adopted: adopted as u32, reasons: 0, name: bytes };
                (opened, vec![ctl, stat, counters, events])
            }
            Some(Err(error)) => {
                reasons.push(format!("the maps cannot be lent: {error}"));
                (Opened { tier: 0, rows: 0, ring_bytes: 0, adopted: 0, reasons: 0, name: [0; 16] }, Vec::new())
            }
            None => (Opened { tier: 0, rows: 0, ring_bytes: 0, adopted: 0, reasons: 0, name: [0; 16] }, Vec::new()),
        };
        let reasons = self.end.put(&lines(&reasons))?;
        Ok(Answer { reply: Reply::Opened(Opened { reasons, ..opened }), descriptors })
    }

    fn capture(&mut self, pid: u32, count: u32) -> io::Result<Answer> {
        let count = count as usize;
        if count == 0 || count > MAX_WANTED {
            return Err(Errno::EINVAL.into());
        }
        let own = self.known.own;
        let netns = if pid == 0 { own } else { Some(self.known.may_enter(pid)?) };
        // Copied before it is looked at: whoever changes it afterwards changes nothing.
        let wanted = rows::wanted(&self.end.take(count * rows::WANTED_BYTES)?);
        let grip = self.grip()?;
        let captured =
            if netns == own { grip.capture(&wanted) } else { namespaces::within(pid, || grip.capture(&wanted))? };
        let asked: HashSet<u64> = wanted.iter().map(|wanted| wanted.cookie).collect();
        let answers = captured.map_err(io::Error::other)?.into_iter().filter(|(cookie, _)| asked.contains(cookie));
        let written = self.end.put(&rows::of_answers(answers))?;
        Ok(Reply::Count(written / rows::ANSWER_BYTES as u32).into())
    }

    fn set_sysctls(&mut self) -> io::Result<Answer> {
        let sysctl::Applied { changes, errors } = sysctl::apply();
        let told = |change: &Change| {
            let (old, new) = (Numbers::parse(&change.old)?, Numbers::parse(&change.new)?);
            Some(Changed { which: Sysctl::of(&change.key)?, old, new })
        };
        let changed = changes.iter().filter_map(told).collect();
        for change in changes {
            self.set.retain(|known| known.key != change.key);
            self.set.push(change);
        }
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Ok(Reply::Changed { changes: changed, errors: self.end.put(&lines(&errors))? }.into())
    }

    /// What this process has set it knows itself; of what an earlier one has set it takes the brain's word, within bounds.
    fn restore_sysctl(&mut self, Changed { which, old, new }: Changed) -> io::Result<Answer> {
        let numbers = old.all();
        let can_be = match which {
            Sysctl::TsoRttLog => matches!(numbers, [log] if *log <= 255),
            Sysctl::Wmem => numbers.len() == 3 && numbers.iter().all(|bytes| (LEAST_WMEM..=MOST).contains(bytes)),
        };
        let known = self.set.iter().position(|change| change.key == which.key()).map(|at| self.set.remove(at));
        let change = match known {
            Some(known) => known,
            None if can_be => Change { key: which.key().into(), old: old.to_string(), new: new.to_string() },
            None => return Err(Errno::EINVAL.into()),
        };
        self.write(&lines(&sysctl::restore(&[change])))
    }

    fn page(&self, name: &PageName) -> io::Result<OwnedFd> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let dir = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&self.known.progress_dir)?;
        let file = sluice_progress::open_beneath(dir.as_raw_fd(), &CString::new(name.bytes())?)?;
        let meta = file.metadata()?;
        // What is no page by its outside is nobody's to read; the rest is judged by who reads it.
        if !meta.is_file() || meta.size() != sluice_progress::layout::PAGE_BYTES as u64 || meta.nlink() != 1 {
            return Err(Errno::EBADMSG.into());
        }
        if let Some(pid) = sluice_progress::publisher_of(&file) {
            let mut jobs = self.known.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            if jobs.publishers.len() >= MAX_FOUND {
                jobs.publishers.clear();
            }
            jobs.publishers.insert(pid);
        }
        Ok(file.into())
    }
}

/// The plan that a process's environment names: a regular file, its user's own or readable by everybody.
fn plan(pid: u32) -> io::Result<OwnedFd> {
    let uid = std::fs::metadata(format!("/proc/{pid}"))?.uid();
    let named = environ::Environ::of(pid).and_then(|environ| environ.plan).ok_or(Errno::ENOENT)?;
    let file: File = eyes::open_plan(&named.file)?;
    let meta = file.metadata()?;
    if !meta.is_file() || !(meta.uid() == uid || meta.mode() & 0o004 != 0) {
        return Err(Errno::EACCES.into());
    }
    Ok(file.into())
}

/// Texts for people, each in a line.
fn lines(texts: &[String]) -> Vec<u8> {
    let mut all = texts.iter().map(|text| text.replace('\n', " ")).collect::<Vec<_>>().join("\n").into_bytes();
    all.truncate(MAX_TEXT);
    all
}

/// Serves both lines; comes back when the brain is gone.
///
/// # Errors
/// The system's, where there is no second thread.
pub fn serve(deciding: End, looking: End, known: Known) -> io::Result<()> {
    let known = Arc::new(known);
    let second = Server::new(Part::Looking, looking, known.clone());
    std::thread::Builder::new().name("looking".into()).spawn(move || second.run())?;
    Server::new(Part::Deciding, deciding, known).run();
    Ok(())
}
