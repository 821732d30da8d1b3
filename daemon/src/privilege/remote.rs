//! The brain's side: eyes and hands that ask the helper.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use sluice_ebpf::sysctl::{Applied, Change};
use sluice_ebpf::{Datapath, Descriptors, Error, Hands, Kernel, MAX_WANTED, Opened, Options, Tier, Wanted};

use super::eyes::{Eyes, PageOpener};
use super::line::{Answer, Line};
use super::message::{self, Changed, Numbers, PageName, Reply, Request, Sysctl};
use super::rows;
use crate::monitor::environ::Environ;
use crate::monitor::namespaces;
use crate::monitor::tuple::NetNs;

/// The deciding loop waits so long for an answer, and then no longer for that one: orders live three slots.
const LOOP: Duration = Duration::from_millis(40);
/// Who looks for jobs waits so long.
const LOOKS: Duration = Duration::from_millis(2_000);
/// Loading programs takes the verifier a while; nobody decides meanwhile.
const OPENING: Duration = Duration::from_secs(20);

/// The helper, as the brain has it.
#[derive(Debug)]
pub struct Helper {
    /// For the deciding loop.
    deciding: Line,
    /// For everybody else.
    looking: Line,
    /// Which opening of the kernel side is the present one.
    opening: AtomicU32,
}

impl Helper {
    pub fn new(deciding: Line, looking: Line) -> Helper {
        Helper { deciding, looking, opening: AtomicU32::new(0) }
    }

    /// Waits until it is there on both lines.
    ///
    /// # Errors
    /// Why it is not.
    pub fn greet(&self) -> io::Result<()> {
        for line in [&self.deciding, &self.looking] {
            line.ask(&Request::Hello, &[], OPENING)?;
        }
        Ok(())
    }

    /// As [`Kernel::open`].
    ///
    /// # Errors
    /// As there, and where the helper does not answer.
    pub fn open(self: &Arc<Helper>, options: &Options) -> Result<Opened, Error> {
        let wrong = |error| Error::Helper { what: "open the kernel side", error };
        let request = Request::Open {
            floor: options.floor.0,
            ceiling: options.ceiling.0,
            longest: options.longest_order.0,
            loss_guard: (options.loss_guard * 1e6) as u32,
        };
        let Answer { reply, descriptors, desk } = self.deciding.ask(&request, &[], OPENING).map_err(wrong)?;
        let Reply::Opened(opened) = reply else { return Err(wrong(unexpected())) };
        let mut reasons: Vec<String> = String::from_utf8_lossy(&desk).lines().map(str::to_owned).collect();
        let tier = match opened.tier {
            1 => Tier::StructOps,
            2 => Tier::StructOpsNoLink,
            3 => Tier::SetSockOpt,
            _ => return Ok(Opened { datapath: Box::new(sluice_ebpf::Observe), tier: Tier::None, reasons, adopted: 0 }),
        };
        let [ctl, stat, counters, events] = <[OwnedFd; 4]>::try_from(descriptors).map_err(|_| wrong(unexpected()))?;
        let maps = Descriptors { ctl, stat, counters, events, rows: opened.rows, ring_bytes: opened.ring_bytes };
        let opening = self.opening.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut kernel = Kernel::over(tier, maps, Box::new(FarHands { helper: self.clone(), opening }))?;
        let name = opened.name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect::<String>();
        kernel.prove(&name, &mut reasons);
        Ok(Opened { tier: kernel.tier(), datapath: Box::new(kernel), reasons, adopted: opened.adopted as usize })
    }

    /// As `sluice_ebpf::sysctl::apply`.
    pub fn set_sysctls(&self) -> Applied {
        let file = |error: io::Error| Error::Helper { what: "set sysctls", error };
        match self.looking.ask(&Request::SetSysctls, &[], LOOKS) {
            Ok(Answer { reply: Reply::Changed { changes, .. }, desk, .. }) => {
                let change = |Changed { which, old, new }: Changed| Change {
                    key: which.key().into(),
                    old: old.to_string(),
                    new: new.to_string(),
                };
                let said = String::from_utf8_lossy(&desk).into_owned();
                let errors = said.lines().map(|line| file(io::Error::other(line.to_owned()))).collect();
                Applied { changes: changes.into_iter().map(change).collect(), errors }
            }
            Ok(_) => Applied { errors: vec![file(unexpected())], ..Applied::default() },
            Err(error) => Applied { errors: vec![file(error)], ..Applied::default() },
        }
    }

    /// As `sluice_ebpf::sysctl::restore`.
    pub fn restore_sysctls(&self, changes: &[Change]) -> Vec<String> {
        let mut left = Vec::new();
        for change in changes {
            let numbers = (Sysctl::of(&change.key), Numbers::parse(&change.old), Numbers::parse(&change.new));
            let (Some(which), Some(old), Some(new)) = numbers else {
                left.push(format!("net.ipv4.{}: its values are no numbers; left alone", change.key));
                continue;
            };
            match self.looking.ask(&Request::RestoreSysctl(Changed { which, old, new }), &[], LOOKS) {
                Ok(Answer { desk, .. }) => {
                    left.extend(String::from_utf8_lossy(&desk).lines().map(str::to_owned));
                }
                Err(error) => left.push(format!("net.ipv4.{}: {error}, by the helper; it was {old}", which.key())),
            }
        }
        left
    }
}

/// Eyes of one who asks on one of the lines.
#[derive(Debug)]
pub struct FarEyes {
    helper: Arc<Helper>,
    deciding: bool,
}

impl FarEyes {
    /// Those of the deciding loop.
    pub fn deciding(helper: &Arc<Helper>) -> FarEyes {
        FarEyes { helper: helper.clone(), deciding: true }
    }
    /// Those of everybody else.
    pub fn looking(helper: &Arc<Helper>) -> FarEyes {
        FarEyes { helper: helper.clone(), deciding: false }
    }
    fn ask(&self, request: &Request) -> io::Result<Answer> {
        ask(&self.helper, self.deciding, request)
    }
}

fn ask(helper: &Helper, deciding: bool, request: &Request) -> io::Result<Answer> {
    if deciding { helper.deciding.ask(request, &[], LOOP) } else { helper.looking.ask(request, &[], LOOKS) }
}

impl Eyes for FarEyes {
    fn netns(&self, pid: u32) -> Option<NetNs> {
        if pid == std::process::id() {
            return namespaces::of(pid);
        }
        match self.ask(&Request::Netns { pid }).ok()?.reply {
            Reply::Netns(inode) => Some(NetNs(inode)),
            _ => None,
        }
    }
    fn diag(&self, pid: u32) -> io::Result<OwnedFd> {
        one(self.ask(&Request::Diag { pid })?)
    }
    fn environ(&self, pid: u32) -> Option<Environ> {
        Some(Environ::parse(&self.ask(&Request::Environ { pid }).ok()?.desk))
    }
    fn sockets(&self, pid: u32) -> BTreeSet<u64> {
        let desk = self.ask(&Request::Sockets { pid }).map(|answer| answer.desk).unwrap_or_default();
        desk.as_chunks::<8>().0.iter().map(|inode| u64::from_le_bytes(*inode)).collect()
    }
    fn plan(&self, pid: u32, _path: &Path) -> io::Result<File> {
        one(self.ask(&Request::Plan { pid })?).map(File::from)
    }
    fn pages(&self) -> Option<PageOpener> {
        let (helper, deciding) = (self.helper.clone(), self.deciding);
        Some(Box::new(move |name: &CStr| {
            // Names of that length are nobody's who publishes by our libraries.
            let name = PageName::new(name.to_bytes()).ok_or(io::Error::from(Errno::ENAMETOOLONG))?;
            one(ask(&helper, deciding, &Request::Page(name))?).map(File::from)
        }))
    }
}

/// The one descriptor of an answer.
fn one(answer: Answer) -> io::Result<OwnedFd> {
    let mut descriptors = answer.descriptors.into_iter();
    match (descriptors.next(), descriptors.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "another answer than what was asked for")
}

/// Hands of the helper.
struct FarHands {
    helper: Arc<Helper>,
    opening: u32,
}

impl FarHands {
    fn ask(&self, what: &'static str, request: &Request, rows: &[u8]) -> Result<Answer, Error> {
        self.helper.deciding.ask(request, rows, LOOP).map_err(|error| Error::Helper { what, error })
    }
}

impl Hands for FarHands {
    fn capture(&mut self, wanted: &[Wanted]) -> Result<BTreeMap<u64, i32>, Error> {
        let wanted = wanted.get(..MAX_WANTED).unwrap_or(wanted);
        let pid = wanted.first().map(|wanted| wanted.pid).unwrap_or_default();
        let own = pid == 0 || pid == std::process::id();
        let request = Request::Capture { pid: if own { 0 } else { pid }, count: wanted.len() as u32 };
        let answer = self.ask("capture sockets", &request, &rows::of_wanted(wanted))?;
        Ok(rows::answers(&answer.desk).into_iter().collect())
    }
    fn reclaim(&mut self) -> Result<u32, Error> {
        match self.ask("take rows back", &Request::Reclaim, &[])?.reply {
            Reply::Count(count) => Ok(count),
            _ => Err(Error::Helper { what: "take rows back", error: unexpected() }),
        }
    }
    fn ask_early(&mut self) -> Result<(), Error> {
        self.ask("change the programs' configuration", &Request::AskEarly, &[]).map(drop)
    }
    fn enters(&self) -> bool {
        true
    }
}

impl Drop for FarHands {
    fn drop(&mut self) {
        // What was opened anew since is not to be closed. Where the helper is gone, nothing is open.
        if self.helper.opening.load(Ordering::Relaxed) == self.opening {
            let _ = self.helper.deciding.ask(&Request::Close, &[], LOOP);
        }
    }
}

const _: () = assert!(MAX_WANTED * rows::WANTED_BYTES <= super::line::DESK, "what is asked for fits on the desk");
const _: () = assert!(message::MAX_NAME + 9 <= message::BYTES, "a name fits into a message");
