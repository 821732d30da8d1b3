//! This process's TCP connections, read through its descriptor table: which are new, where they lead, who opened them.
//!
//! NCCL tells a profiler nothing of its sockets. But what exists when a communicator is set up is bootstrap, and what
//! appears by its first collective carries data. Nothing here allocates; one thread at a time looks.

use std::sync::{Mutex, TryLockError};

use libc::c_int;
use sluice_progress::Peer;
use sluice_progress::guest::Errno;
use sluice_progress::guest::socket::{peer_of, tcp_cookie};

/// Descriptors looked at in one pass.
const MAX_DESCRIPTORS: usize = 16_384;
/// Connections that are remembered; further ones are left alone.
const MAX_KNOWN: usize = 6_144;
const TABLE: usize = 8_192;
/// New connections of one pass.
const MAX_NEW: usize = 256;

static LOOKING: Mutex<SeenSockets> =
    Mutex::new(SeenSockets { tables: [[0; TABLE]; 2], current: 0, found: [None; MAX_NEW] });

/// Cookies of connections seen before, as two open-addressed sets: one pass fills the other with what still exists.
struct SeenSockets {
    tables: [[u64; TABLE]; 2],
    current: usize,
    found: [Option<Peer>; MAX_NEW],
}

/// Takes all connections there are as known: bootstrap, a job's own, those of other libraries.
pub fn forget_present() {
    // Another thread in here takes them as known too, or publishes them; waiting for it could deadlock a forked child.
    let _ = take_new(|_| {});
}

/// Calls `each` with every connection that is new, those to other addresses first. `None`: another thread looks.
pub fn take_new(mut each: impl FnMut(&Peer)) -> Option<usize> {
    let mut guard = match LOOKING.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    // What this asks the kernel must not show in the caller's errno.
    let _errno = Errno::keep();
    let count = guard.pass();
    let found = || guard.found.iter().take(count).flatten();
    let same = |peer: &&Peer| peer.local.ip() == peer.remote.ip();
    found().filter(|peer| !same(peer)).for_each(&mut each);
    found().filter(same).for_each(&mut each);
    Some(count)
}

impl SeenSockets {
    fn pass(&mut self) -> usize {
        let next = 1 - self.current;
        let SeenSockets { tables, found, current } = self;
        let [first, second] = tables;
        let (old, new) = if *current == 0 { (&*first, second) } else { (&*second, first) };
        new.fill(0);
        let (mut kept, mut count) = (0, 0);
        each_descriptor(|fd| {
            let Some(cookie) = tcp_cookie(fd) else { return };
            if kept >= MAX_KNOWN {
                return;
            }
            let known = holds(old, cookie);
            if !known {
                let Some(peer) = peer_of(fd, cookie) else { return };
                let Some(room) = found.get_mut(count) else { return };
                *room = Some(peer);
                count += 1;
            }
            put(new, cookie);
            kept += 1;
        });
        *current = next;
        count
    }
}

/// The cell of a cookie or the empty one where it belongs; tables are never full.
fn cell(table: &[u64; TABLE], cookie: u64) -> Option<usize> {
    let start = (cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..TABLE).map(|step| (start + step) % TABLE).find(|at| table.get(*at).is_some_and(|&c| c == 0 || c == cookie))
}

fn holds(table: &[u64; TABLE], cookie: u64) -> bool {
    cell(table, cookie).and_then(|at| table.get(at)) == Some(&cookie)
}

fn put(table: &mut [u64; TABLE], cookie: u64) {
    if let Some(slot) = cell(table, cookie).and_then(|at| table.get_mut(at)) {
        *slot = cookie;
    }
}

/// Reads `/proc/self/fd` without the allocations of `opendir`.
fn each_descriptor(mut each: impl FnMut(c_int)) {
    // SAFETY: the path is NUL-terminated.
    let dir = unsafe { libc::open(c"/proc/self/fd".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if dir < 0 {
        return;
    }
    let mut buffer = [0_u8; 4096];
    let mut seen = 0;
    while seen < MAX_DESCRIPTORS {
        // SAFETY: the kernel writes at most the buffer's length.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, dir, buffer.as_mut_ptr(), buffer.len()) };
        let Some(mut entries) = usize::try_from(read).ok().and_then(|read| buffer.get(..read)) else { break };
        if entries.is_empty() {
            break;
        }
        // struct linux_dirent64: inode 8, offset 8, record length 2, type 1, name.
        while let Some(length) =
            entries.get(16..18).and_then(|bytes| bytes.first_chunk()).map(|b| u16::from_ne_bytes(*b))
        {
            let Some((entry, rest)) = entries.split_at_checked(usize::from(length)) else { break };
            if let Some(fd) = entry.get(19..).and_then(number).filter(|fd| *fd != dir) {
                each(fd);
            }
            seen += 1;
            entries = if length == 0 { &[] } else { rest };
        }
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(dir) };
}

/// The number that a NUL-terminated name is, if it is one.
fn number(name: &[u8]) -> Option<c_int> {
    let digits = name.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use sluice_progress::PeerKind;
    use sluice_progress::guest::socket::kind_of;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        (there, listener.accept().expect("accepted").0)
    }

    /// One test, since the table is the process's.
    #[test]
    fn new_connections_are_found_once_with_the_end_that_opened_them() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let v6 = TcpListener::bind("[::1]:0").ok();
        let _bootstrap = pair(&listener);
        forget_present();
        let (mut there, mut here) = pair(&listener);
        let _more = v6.as_ref().map(pair);
        // A handshake of the one side only, as NCCL's: it changes nothing.
        there.write_all(b"magic").expect("written");
        here.read_exact(&mut [0; 5]).expect("read");
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = 77 };
        let mut found = Vec::new();
        assert_eq!(take_new(|peer| found.push(*peer)), Some(found.len()));
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77, "the caller's errno is its own");
        let of = |stream: &TcpStream| {
            let local = stream.local_addr().expect("bound");
            found.iter().find(|peer| peer.local == local).copied()
        };
        let (near, far) = (of(&there).expect("found"), of(&here).expect("found"));
        assert_eq!((near.kind, near.remote), (PeerKind::Connected, listener.local_addr().expect("bound")));
        assert_eq!((far.kind, far.remote), (PeerKind::Accepted, near.local));
        assert_eq!(found.len(), if v6.is_some() { 4 } else { 2 });
        assert_eq!(take_new(|_| {}), Some(0), "each is new once");
        assert_eq!(tcp_cookie(there.as_raw_fd()), Some(near.cookie));
        // In full flow the end that sends is taken.
        there.set_nonblocking(true).expect("set");
        while there.write(&[0; 65536]).is_ok() {}
        assert_eq!((kind_of(there.as_raw_fd()), kind_of(here.as_raw_fd())), (PeerKind::Connected, PeerKind::Accepted));
    }
}
