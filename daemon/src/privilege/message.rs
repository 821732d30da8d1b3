//! What brain and helper say to each other: messages of one fixed size, of one version, read totally. Whatever is longer than a
//! few numbers and a name lies in memory that both can read, the desk ([`super::line`]), and a message has its length only.
//!
//! Bytes: version, kind, two zeros, number (which an answer repeats), then the fields in their order, little-endian, then zeros.
//! What is read is written to the same bytes again: nothing that stands for the same is written twofold.

use std::fmt;

/// Bytes of a message.
pub const BYTES: usize = 256;
/// Version of what is said. Brain and helper are one program, so another version is no version at all.
pub const VERSION: u8 = 1;
/// Bytes of a page's name.
pub const MAX_NAME: usize = 200;
/// Numbers of a sysctl's value.
pub const MAX_NUMBERS: usize = 3;

pub type Bytes = [u8; BYTES];

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0} bytes; a message has {BYTES}")]
    Length(usize),
    #[error("version {0}; this one is {VERSION}")]
    Version(u8),
    #[error("kind {0} is none")]
    Kind(u8),
    #[error("field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// One of the two sysctls that are ever changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sysctl {
    TsoRttLog,
    Wmem,
}

impl Sysctl {
    pub const fn key(self) -> &'static str {
        match self {
            Sysctl::TsoRttLog => "tcp_tso_rtt_log",
            Sysctl::Wmem => "tcp_wmem",
        }
    }
    pub fn of(key: &str) -> Option<Sysctl> {
        [Sysctl::TsoRttLog, Sysctl::Wmem].into_iter().find(|which| which.key() == key)
    }
}

/// The value of a sysctl: one to three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    count: u8,
    numbers: [u64; MAX_NUMBERS],
}

impl Numbers {
    /// As the kernel writes them; `None` for anything else.
    pub fn parse(text: &str) -> Option<Numbers> {
        let mut read = Numbers::default();
        for word in text.split_ascii_whitespace() {
            *read.numbers.get_mut(usize::from(read.count))? = word.parse().ok()?;
            read.count += 1;
        }
        (read.count > 0).then_some(read)
    }
    pub fn all(&self) -> &[u64] {
        self.numbers.get(..usize::from(self.count)).unwrap_or_default()
    }
}

/// As the kernel writes them.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.all().iter().enumerate() {
            if at > 0 {
                f.write_str("\t")?;
            }
            write!(f, "{number}")?;
        }
        Ok(())
    }
}

/// A change of a sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub which: Sysctl,
    pub old: Numbers,
    pub new: Numbers,
}

/// The name of a file in the directory of progress pages: 1 to [`MAX_NAME`] bytes, no slash and no zero byte among them, and
/// neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName(Vec<u8>);

impl PageName {
    pub fn new(name: &[u8]) -> Option<PageName> {
        let fits = !name.is_empty() && name.len() <= MAX_NAME;
        let is_name = !name.iter().any(|byte| matches!(byte, 0 | b'/')) && name != b"." && name != b"..";
        (fits && is_name).then(|| PageName(name.to_owned()))
    }
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What the brain asks of the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Is it there?
    Hello,
    /// Open the kernel side within these bounds; the rest stands in the configuration that the helper has read itself. The answer
    /// has four descriptors: orders, measurements, counters, ring buffer.
    Open {
        /// No flow is paced below this, bit/s.
        floor: u64,
        /// Nor above this.
        ceiling: u64,
        /// The longest life of an order, ns.
        longest: u64,
        /// Millionths of what is delivered, above which the loss guard trips.
        loss_guard: u32,
    },
    /// Let go of it.
    Close,
    /// Capture the sockets whose rows lie on the desk, in the network namespace of a process; 0: the helper's own.
    Capture { pid: u32, count: u32 },
    /// Take the rows of silent flows back.
    Reclaim,
    /// New connections are to ask for their callbacks.
    AskEarly,
    /// Set the sysctls that exact pacing needs.
    SetSysctls,
    /// Give one back, if it still has the value that was set.
    RestoreSysctl(Changed),
    /// Which network namespace is this process in?
    Netns { pid: u32 },
    /// A socket to ask for the connections of this process's namespace by.
    Diag { pid: u32 },
    /// The entries of its environment that are about jobs.
    Environ { pid: u32 },
    /// The inodes of the sockets that it has open.
    Sockets { pid: u32 },
    /// A progress page.
    Page(PageName),
    /// The plan that its environment names.
    Plan { pid: u32 },
}

/// What the helper answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was not done, by this errno, 1 to 4095.
    Refused(i32),
    Done,
    /// The kernel side is open. Reasons why not better lie on the desk, a line each.
    Opened(Opened),
    /// So many rows of the desk were written, or so many of the kernel's taken back.
    Count(u32),
    /// A network namespace.
    Netns(u32),
    /// So many bytes lie on the desk.
    Written(u32),
    /// A descriptor comes with it.
    Descriptor,
    /// Sysctls that have another value now. What could not be changed lies on the desk, a line each.
    Changed {
        changes: Vec<Changed>,
        errors: u32,
    },
}

/// How the kernel side was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// 0: no tier but none; 1 to 3: in the order of `sluice_ebpf::Tier`, and four descriptors come with it.
    pub tier: u8,
    pub rows: u32,
    pub ring_bytes: u32,
    pub adopted: u32,
    /// Bytes of reasons on the desk.
    pub reasons: u32,
    /// The congestion control's name, zeros behind.
    pub name: [u8; 16],
}

struct Writer {
    bytes: Bytes,
    at: usize,
}

impl Writer {
    fn new(kind: u8, number: u32) -> Writer {
        let mut writer = Writer { bytes: [0; BYTES], at: 0 };
        writer.put(&[VERSION, kind, 0, 0]);
        writer.u32(number);
        writer
    }
    /// Every message is shorter than there is room, which a test of the longest shows.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
    fn numbers(&mut self, numbers: &Numbers) {
        self.u8(numbers.count);
        numbers.numbers.iter().for_each(|number| self.u64(*number));
    }
    fn changed(&mut self, changed: &Changed) {
        self.u8(changed.which as u8);
        self.numbers(&changed.old);
        self.numbers(&changed.new);
    }
}

struct Read<'a> {
    rest: &'a [u8],
}

impl<'a> Read<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Field("length"))?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed::Field("length"))
    }
    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn numbers(&mut self) -> Result<Numbers, Malformed> {
        let count = self.u8()?;
        let mut numbers = [0; MAX_NUMBERS];
        for number in &mut numbers {
            *number = self.u64()?;
        }
        let unused = numbers.get(usize::from(count)..).ok_or(Malformed::Field("numbers"))?;
        if count == 0 || unused.iter().any(|number| *number != 0) {
            return Err(Malformed::Field("numbers"));
        }
        Ok(Numbers { count, numbers })
    }
    fn changed(&mut self) -> Result<Changed, Malformed> {
        let which = match self.u8()? {
            0 => Sysctl::TsoRttLog,
            1 => Sysctl::Wmem,
            _ => return Err(Malformed::Field("sysctl")),
        };
        Ok(Changed { which, old: self.numbers()?, new: self.numbers()? })
    }
    /// The rest is nothing.
    fn end(self) -> Result<(), Malformed> {
        if self.rest.iter().any(|byte| *byte != 0) { Err(Malformed::Field("rest")) } else { Ok(()) }
    }
}

/// Kind, number and fields of a message.
fn open(bytes: &[u8]) -> Result<(u8, u32, Read<'_>), Malformed> {
    if bytes.len() != BYTES {
        return Err(Malformed::Length(bytes.len()));
    }
    let mut read = Read { rest: bytes };
    let [version, kind, zeros @ ..] = read.array::<4>()?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    if zeros != [0, 0] {
        return Err(Malformed::Field("zeros"));
    }
    let number = read.u32()?;
    Ok((kind, number, read))
}

impl Request {
    /// The message with this number.
    pub fn encode(&self, number: u32) -> Bytes {
        let with_pid = |kind, pid: &u32| {
            let mut writer = Writer::new(kind, number);
            writer.u32(*pid);
            writer
        };
        let writer = match self {
            Request::Hello => Writer::new(1, number),
            Request::Open { floor, ceiling, longest, loss_guard } => {
                let mut writer = Writer::new(2, number);
                [floor, ceiling, longest].into_iter().for_each(|value| writer.u64(*value));
                writer.u32(*loss_guard);
                writer
            }
            Request::Close => Writer::new(3, number),
            Request::Capture { pid, count } => {
                let mut writer = with_pid(4, pid);
                writer.u32(*count);
                writer
            }
            Request::Reclaim => Writer::new(5, number),
            Request::AskEarly => Writer::new(6, number),
            Request::SetSysctls => Writer::new(7, number),
            Request::RestoreSysctl(changed) => {
                let mut writer = Writer::new(8, number);
                writer.changed(changed);
                writer
            }
            Request::Netns { pid } => with_pid(9, pid),
            Request::Diag { pid } => with_pid(10, pid),
            Request::Environ { pid } => with_pid(11, pid),
            Request::Sockets { pid } => with_pid(12, pid),
            Request::Page(name) => {
                let mut writer = Writer::new(13, number);
                writer.u8(name.0.len() as u8);
                writer.put(&name.0);
                writer
            }
            Request::Plan { pid } => with_pid(14, pid),
        };
        writer.bytes
    }

    /// What these bytes ask, and their number.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<(Request, u32), Malformed> {
        let (kind, number, mut read) = open(bytes)?;
        let request = match kind {
            1 => Request::Hello,
            2 => Request::Open {
                floor: read.u64()?,
                ceiling: read.u64()?,
                longest: read.u64()?,
                loss_guard: read.u32()?,
            },
            3 => Request::Close,
            4 => Request::Capture { pid: read.u32()?, count: read.u32()? },
            5 => Request::Reclaim,
            6 => Request::AskEarly,
            7 => Request::SetSysctls,
            8 => Request::RestoreSysctl(read.changed()?),
            9 => Request::Netns { pid: read.u32()? },
            10 => Request::Diag { pid: read.u32()? },
            11 => Request::Environ { pid: read.u32()? },
            12 => Request::Sockets { pid: read.u32()? },
            13 => {
                let length = read.u8()?;
                let name = PageName::new(read.take(usize::from(length))?);
                Request::Page(name.ok_or(Malformed::Field("name"))?)
            }
            14 => Request::Plan { pid: read.u32()? },
            other => return Err(Malformed::Kind(other)),
        };
        read.end()?;
        Ok((request, number))
    }
}

impl Reply {
    /// The message with this number.
    pub fn encode(&self, number: u32) -> Bytes {
        let mut writer = match self {
            Reply::Refused(_) => Writer::new(129, number),
            Reply::Done => Writer::new(130, number),
            Reply::Opened(_) => Writer::new(131, number),
            Reply::Count(_) => Writer::new(132, number),
            Reply::Netns(_) => Writer::new(133, number),
            Reply::Written(_) => Writer::new(134, number),
            Reply::Descriptor => Writer::new(135, number),
            Reply::Changed { .. } => Writer::new(136, number),
        };
        match self {
            Reply::Refused(errno) => writer.u32(errno.unsigned_abs()),
            Reply::Done | Reply::Descriptor => {}
            Reply::Opened(Opened { tier, rows, ring_bytes, adopted, reasons, name }) => {
                writer.u8(*tier);
                [rows, ring_bytes, adopted, reasons].into_iter().for_each(|value| writer.u32(*value));
                writer.put(name);
            }
            Reply::Count(value) | Reply::Netns(value) | Reply::Written(value) => writer.u32(*value),
            Reply::Changed { changes, errors } => {
                writer.u32(*errors);
                let changes = changes.get(..2).unwrap_or(changes);
                writer.u8(changes.len() as u8);
                changes.iter().for_each(|changed| writer.changed(changed));
            }
        }
        writer.bytes
    }

    /// What these bytes answer, and the number of what was asked.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<(Reply, u32), Malformed> {
        let (kind, number, mut read) = open(bytes)?;
        let reply = match kind {
            129 => {
                let errno = i32::try_from(read.u32()?).ok().filter(|errno| (1..4096).contains(errno));
                Reply::Refused(errno.ok_or(Malformed::Field("errno"))?)
            }
            130 => Reply::Done,
            131 => {
                let tier = read.u8()?;
                if tier > 3 {
                    return Err(Malformed::Field("tier"));
                }
                let (rows, ring_bytes, adopted, reasons) = (read.u32()?, read.u32()?, read.u32()?, read.u32()?);
                Reply::Opened(Opened { tier, rows, ring_bytes, adopted, reasons, name: read.array()? })
            }
            132 => Reply::Count(read.u32()?),
            133 => Reply::Netns(read.u32()?),
            134 => Reply::Written(read.u32()?),
            135 => Reply::Descriptor,
            136 => {
                let errors = read.u32()?;
                let count = read.u8()?;
                if count > 2 {
                    return Err(Malformed::Field("changes"));
                }
                let changes = (0..count).map(|_| read.changed()).collect::<Result<_, _>>()?;
                Reply::Changed { changes, errors }
            }
            other => return Err(Malformed::Kind(other)),
        };
        read.end()?;
        Ok((reply, number))
    }
}

#[cfg(test)]
mod tests;
