//! Whose is this socket? Asked for sockets that send much and that no page names, answered from `/proc`.
//!
//! Walking `/proc` takes milliseconds on a large host, so it runs on its own thread, started with the first question.
//! Only processes of the socket's owner are looked at, only those of this network namespace can be found.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sluice_schedule::Nanos;

use super::environ::Environ;
use super::tuple::Tuple;

/// Questions that may wait.
const MOST_WAITING: usize = 256;
/// A socket is asked about again after this long.
const AGAIN: Nanos = Nanos::from_millis(10_000);
/// Sockets remembered as asked about.
const MOST_ASKED: usize = 16_384;
/// Pause after each walk, so that a storm of sockets costs little; what is asked meanwhile is answered by the next one.
const PAUSE: Duration = Duration::from_millis(1_000);

/// Whose a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The socket.
    pub tuple: Tuple,
    /// The process.
    pub pid: u32,
    /// What its environment says.
    pub environ: Environ,
}

/// A socket and its owner.
type Question = (Tuple, u32);

/// The asking end.
#[derive(Debug)]
pub struct Discovery {
    /// May `/proc/PID/environ` be read?
    pub enabled: bool,
    asked: HashMap<Tuple, Nanos>,
    thread: Option<(SyncSender<Question>, Receiver<Origin>)>,
}

impl Discovery {
    /// No thread yet.
    pub fn new(enabled: bool) -> Discovery {
        Discovery { enabled, asked: HashMap::new(), thread: None }
    }

    /// Asks whose a socket of this uid is; the answer, if any, comes later.
    pub fn ask(&mut self, now: Nanos, tuple: Tuple, uid: u32) {
        if !self.enabled || self.asked.get(&tuple).is_some_and(|at| now.minus(*at) < AGAIN) {
            return;
        }
        if self.asked.len() >= MOST_ASKED {
            self.asked.clear();
        }
        self.asked.insert(tuple, now);
        if self.thread.is_none() {
            let (questions, from_daemon) = sync_channel(MOST_WAITING);
            let (answers, to_daemon) = sync_channel(MOST_WAITING);
            let thread = std::thread::Builder::new().name("discovery".into());
            if thread.spawn(move || answer_all(&from_daemon, &answers)).is_ok() {
                self.thread = Some((questions, to_daemon));
            }
        }
        if let Some((questions, _)) = &self.thread {
            let _ = questions.try_send((tuple, uid));
        }
    }

    /// Appends the answers that have come.
    pub fn answers(&mut self, out: &mut Vec<Origin>) {
        if let Some((_, answers)) = &self.thread {
            out.extend(answers.try_iter());
        }
    }
}

fn answer_all(questions: &Receiver<Question>, answers: &SyncSender<Origin>) {
    while let Ok(first) = questions.recv() {
        let asked: HashMap<Tuple, u32> = std::iter::once(first).chain(questions.try_iter()).collect();
        let mut wanted = inodes_of(&asked);
        for (tuple, pid) in holders_of(&mut wanted) {
            let Some(environ) = Environ::of(pid) else { continue };
            if answers.send(Origin { tuple, pid, environ }).is_err() {
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The sockets by inode, with their owner, from the tables of this network namespace.
fn inodes_of(asked: &HashMap<Tuple, u32>) -> HashMap<u64, (Tuple, u32)> {
    let mut found = HashMap::new();
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for (tuple, inode) in text.lines().skip(1).filter_map(parse_line) {
            if let Some(uid) = asked.get(&tuple) {
                found.insert(inode, (tuple, *uid));
            }
        }
    }
    found
}

fn parse_line(line: &str) -> Option<(Tuple, u64)> {
    let mut fields = line.split_whitespace();
    let (local, remote) = (end(fields.nth(1)?)?, end(fields.next()?)?);
    let inode = fields.nth(6)?.parse().ok()?;
    Some((Tuple { local, remote }, inode))
}

/// An address as `/proc/net/tcp` writes it: 32-bit words in the host's byte order, then the port.
fn end(text: &str) -> Option<([u8; 16], u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |i: usize| u32::from_str_radix(address.get(i * 8..i * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let mut bytes = [0_u8; 16];
    match address.len() {
        8 => {
            bytes[10..12].fill(0xff);
            bytes[12..].copy_from_slice(&word(0)?);
        }
        32 => {
            for i in 0..4 {
                bytes[i * 4..i * 4 + 4].copy_from_slice(&word(i)?);
            }
        }
        _ => return None,
    }
    Some((bytes, port))
}

/// Which processes have these sockets open; each must belong to the socket's owner. One walk answers all.
fn holders_of(wanted: &mut HashMap<u64, (Tuple, u32)>) -> Vec<(Tuple, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if wanted.is_empty() {
            break;
        }
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(owner) = entry.metadata().map(|meta| meta.uid()) else { continue };
        if !wanted.values().any(|(_, uid)| *uid == owner) {
            continue;
        }
        for fd in std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(fd.path()) else { continue };
            let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(inode) = inode
                && wanted.get(&inode).is_some_and(|(_, uid)| *uid == owner)
                && let Some((tuple, _)) = wanted.remove(&inode)
            {
                found.push((tuple, pid));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_process_behind_a_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let tuple = Tuple::of(stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"));
        let uid = nix::unistd::getuid().as_raw();
        let mut wanted = inodes_of(&HashMap::from([(tuple, uid)]));
        if wanted.is_empty() {
            println!("skipped: /proc/self/net/tcp cannot be read here");
            return;
        }
        assert_eq!(holders_of(&mut wanted), [(tuple, std::process::id())]);
        let nobodys = (tuple, u32::MAX);
        assert_eq!(holders_of(&mut HashMap::from([(1, nobodys)])), []);
    }

    #[test]
    fn lines_of_any_shape_are_survived() {
        for line in
            ["", "x", "0: 0100007F:1F90 0200007F:1F91 01 0:0 0:0 0 0 0 77", "0: zz:1 0200007F:1F91", "0: 01:1 02:2 1"]
        {
            let _ = parse_line(line);
        }
        let (tuple, inode) = parse_line("0: 0100007F:1F90 0200007F:1F91 01 00:00 00:00 00 0 0 77 1").expect("whole");
        assert_eq!(inode, 77);
        assert_eq!((tuple.local_ip().to_string(), tuple.remote.1), ("127.0.0.1".into(), 0x1f91));
    }
}
