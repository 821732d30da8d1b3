//! The ring buffer in which the kernel's programs tell what happened: its pages are mapped, and a record is read by loads and
//! one store. Whoever has the descriptor needs no privilege and no bpf(2) for that.
//!
//! Layout, as the kernel documents it (`kernel/bpf/ringbuf.rst`): a page with the reader's position, which the reader writes; a
//! page with the writer's; then the records, mapped twice in a row so that none is ever broken. Positions only rise.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::abi::{Event, read_record};

/// A record that is being written, and one that its writer took back.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record: its length, and what only the kernel needs.
const HEADER: u64 = 8;

/// Pages of a map, unmapped when dropped.
#[derive(Debug)]
struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel anyway; what is written in it is read by atomics or lies still until the reader's
// position has passed it.
unsafe impl Send for Pages {}

impl Pages {
    fn map(fd: BorrowedFd<'_>, at: usize, bytes: usize, protection: libc::c_int) -> io::Result<Pages> {
        let at = libc::off_t::try_from(at).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else refers to it.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), at) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Pages { base, bytes })
    }

    /// The position at the pages' begin.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: the first eight bytes of a page are mapped and aligned, and live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The reader of a ring buffer; there is one.
#[derive(Debug)]
pub(crate) struct Ring {
    fd: OwnedFd,
    reader: Pages,
    writer: Pages,
    page: usize,
    /// Bytes of records; a power of two.
    bytes: usize,
}

impl Ring {
    /// Maps the ring buffer of this descriptor, which has room for `bytes` of records.
    ///
    /// # Errors
    /// The system's refusal; [`io::ErrorKind::InvalidInput`] for a size that no ring buffer has.
    pub(crate) fn new(fd: OwnedFd, bytes: u32) -> io::Result<Ring> {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let bytes = bytes as usize;
        if !bytes.is_power_of_two() || bytes < page || bytes > 1 << 30 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no ring buffer has this size"));
        }
        let reader = Pages::map(fd.as_fd(), 0, page, libc::PROT_READ | libc::PROT_WRITE)?;
        let writer = Pages::map(fd.as_fd(), page, page + 2 * bytes, libc::PROT_READ)?;
        Ok(Ring { fd, reader, writer, page, bytes })
    }

    /// Readable when there is a record.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Takes the next record; `None` if there is none, or the next is being written still.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            // Only this process writes it.
            let at = self.reader.position().load(Ordering::Relaxed);
            // After the store of the reader's position in one order with the writer's look at it: either that one sees that all
            // was taken and wakes, or this sees the record.
            let end = self.writer.position().load(Ordering::SeqCst);
            if at >= end {
                return None;
            }
            let offset = (at & (self.bytes as u64 - 1)) as usize;
            // SAFETY: an offset below `bytes`, aligned to eight as positions are, in the first of the two copies.
            let record = unsafe { self.writer.base.add(self.page + (offset & !7)) };
            // SAFETY: the four bytes there are mapped and aligned; the kernel writes them with atomics.
            let header = unsafe { AtomicU32::from_ptr(record.as_ptr().cast()) }.load(Ordering::Acquire);
            if header & BUSY != 0 {
                return None;
            }
            let length = u64::from(header & !(BUSY | DISCARDED));
            // A length that cannot be would lead nowhere: what the writer has is left out then.
            let next =
                if length + HEADER > self.bytes as u64 { end } else { at + (length + HEADER).next_multiple_of(8) };
            let event = (header & DISCARDED == 0 && length + HEADER <= self.bytes as u64).then(|| {
                // SAFETY: a record of `length` bytes that begins below `bytes` ends below twice that, where the second copy ends. The
                // kernel writes it again only once the reader's position has passed it.
                let body = unsafe { std::slice::from_raw_parts(record.as_ptr().add(HEADER as usize), length as usize) };
                read_record(body)
            });
            self.reader.position().store(next, Ordering::SeqCst);
            if event.is_some() {
                return event;
            }
        }
    }
}
