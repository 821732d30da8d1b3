//! The file of a page: filled, locked, and only then given its name.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::ident::Ident;
use crate::layout::{self, PAGE_BYTES, PEER_CAP, at};
use crate::sys;

/// Creates `<stem>.tmp`, locks and fills it, and renames it to `<stem>.sp1` unless that exists.
pub(super) fn create_named(dir: &OwnedFd, stem: &str, page: &[u8; PAGE_BYTES]) -> io::Result<(File, CString)> {
    let temporary = CString::new(format!("{stem}.tmp"))?;
    let name = CString::new(format!("{stem}.{}", layout::EXTENSION))?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is NUL-terminated, the directory descriptor is open; the new descriptor is owned here.
    let file = unsafe {
        let fd = sys::check(libc::openat(dir.as_raw_fd(), temporary.as_ptr(), flags, 0o600))?;
        File::from_raw_fd(fd)
    };
    let filled = fill(dir, &file, page).and_then(|()| rename(dir.as_raw_fd(), &temporary, &name));
    match filled {
        Ok(()) => Ok((file, name)),
        Err(error) => {
            unlink(dir, &temporary);
            Err(error)
        }
    }
}

fn fill(dir: &OwnedFd, file: &File, page: &[u8; PAGE_BYTES]) -> io::Result<()> {
    sys::lock_byte0(file.as_raw_fd())?;
    // Written, not only mapped: a full file system must fail here and not by a signal at the first store.
    file.write_all_at(page, 0)?;
    // A setgid directory means: its group (the daemon's) reads.
    let of_dir = File::from(dir.try_clone()?).metadata()?;
    if of_dir.mode() & libc::S_ISGID != 0 && file.metadata()?.gid() == of_dir.gid() {
        // SAFETY: the descriptor is open.
        sys::check(unsafe { libc::fchmod(file.as_raw_fd(), 0o640) })?;
    }
    Ok(())
}

fn rename(dir: RawFd, from: &CString, to: &CString) -> io::Result<()> {
    // SAFETY: both names are NUL-terminated. By number: old C libraries have no wrapper.
    let result =
        unsafe { libc::syscall(libc::SYS_renameat2, dir, from.as_ptr(), dir, to.as_ptr(), libc::RENAME_NOREPLACE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn unlink(dir: &OwnedFd, name: &CString) {
    // SAFETY: the name is NUL-terminated, the directory descriptor is open.
    unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), 0) };
}

/// The page as it is before its first event.
pub(super) fn encode(ident: &Ident, start: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0_u8; PAGE_BYTES];
    #[allow(clippy::indexing_slicing, reason = "offsets are constants, which a test compares with the page's layout")]
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(at::MAGIC, &layout::MAGIC);
    put(at::ABI_MAJOR, &layout::MAJOR.to_le_bytes());
    put(at::ABI_MINOR, &layout::MINOR.to_le_bytes());
    put(at::SEG_BYTES, &(PAGE_BYTES as u32).to_le_bytes());
    put(at::PEERS_OFF, &(at::PEERS as u32).to_le_bytes());
    put(at::PEER_BYTES, &(layout::PEER_BYTES as u16).to_le_bytes());
    put(at::PEER_CAP, &(PEER_CAP as u16).to_le_bytes());
    let now = sys::tick_ns();
    // SAFETY: getpid and geteuid have no preconditions.
    let (pid, uid) = unsafe { (libc::getpid() as u32, libc::geteuid()) };
    for (at, value) in [
        (at::CREATED_NS, now),
        (at::HEARTBEAT_NS, now),
        (at::BOOT_ID, sys::boot_id()),
        (at::PID_START, start),
        (at::COMM_ID, ident.comm_id),
        (at::HINT_ITER_BYTES, ident.hint_iter_bytes),
        (at::HINT_COMPUTE_NS, ident.hint_compute_ns),
        (at::FEATURE_BITS, if sys::host_monotonic() { layout::FEATURE_HOST_MONOTONIC } else { 0 }),
    ] {
        put(at, &value.to_le_bytes());
    }
    for (at, value) in [
        (at::PID, pid),
        (at::PID_NS, sys::pid_namespace()),
        (at::UID, uid),
        (at::SOURCE, ident.source.raw()),
        (at::RANK, ident.rank),
        (at::NRANKS, ident.nranks),
        (at::NNODES, ident.nnodes),
        (at::LOCAL_RANK, ident.local_rank),
        (at::PATTERN, ident.pattern.raw()),
        (at::ROLE, ident.role.raw()),
        (at::RING_PREV, layout::NO_RANK),
        (at::RING_NEXT, layout::NO_RANK),
    ] {
        put(at, &value.to_le_bytes());
    }
    put(at::JOB_ID, cut(&ident.job_id, layout::JOB_ID_BYTES));
    put(at::PRODUCER, cut(&ident.producer, layout::PRODUCER_BYTES));
    page
}

/// At most `most` bytes of a text, never half a character.
fn cut(text: &str, most: usize) -> &[u8] {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.as_bytes().get(..end).unwrap_or_default()
}
