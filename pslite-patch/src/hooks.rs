//! The functions of the C library that this library stands before. Each calls the real one first, with the caller's
//! arguments, and returns what that returned; then it looks at what moved, if the descriptor is watched.
//!
//! Nothing that needs dropping lives across a real call: a cancelled thread unwinds through it.

use std::ffi::c_void;

use libc::{c_int, c_uint, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use sluice_progress::PeerKind;
use sluice_progress::guest::{self, Errno};

use crate::connections::{self, Way};
use crate::{on, real};

/// Bytes that were only looked at, or are no part of the stream.
const BESIDE: c_int = libc::MSG_PEEK | libc::MSG_ERRQUEUE;
/// Bytes that went without being in the caller's buffer, or out of order.
const UNSEEN: c_int = libc::MSG_TRUNC | libc::MSG_OOB;

/// `CLOSE_RANGE_UNSHARE` of linux/close_range.h: the descriptors are closed for the calling thread alone.
const CLOSE_RANGE_UNSHARE: c_int = 2;

/// Looks at something, without leaving a trace.
#[inline]
fn look(act: impl FnOnce()) {
    let _errno = Errno::keep();
    guest::guard(act);
}

/// `result` bytes from `at` went this way.
///
/// # Safety
/// The real call has moved so many bytes between the descriptor and this buffer.
#[inline]
unsafe fn moved(fd: c_int, way: Way, at: *const c_void, flags: c_int, result: ssize_t) {
    if result > 0 && connections::watched(fd) && flags & BESIDE == 0 {
        let piece = iovec { iov_base: at.cast_mut(), iov_len: result.unsigned_abs() };
        // SAFETY: by the caller's promise.
        unsafe { moved_watched(fd, way, &piece, 1, flags, result) };
    }
}

/// `result` bytes of these pieces went this way.
///
/// # Safety
/// As [`moved`], with the pieces in order.
#[inline]
unsafe fn moved_pieces(fd: c_int, way: Way, pieces: *const iovec, count: usize, flags: c_int, result: ssize_t) {
    if result > 0 && connections::watched(fd) && flags & BESIDE == 0 {
        // SAFETY: by the caller's promise.
        unsafe { moved_watched(fd, way, pieces, count, flags, result) };
    }
}

/// The same of a descriptor that is watched: apart, so that little stands before and behind any other call, and once, so
/// that all that a job's calls run through lies together.
///
/// # Safety
/// As [`moved_pieces`].
#[inline(never)]
unsafe fn moved_watched(fd: c_int, way: Way, pieces: *const iovec, count: usize, flags: c_int, result: ssize_t) {
    look(|| {
        let Some(mut left) = usize::try_from(result).ok().filter(|_| flags & UNSEEN == 0) else {
            return connections::leave(fd);
        };
        let each = (0..count).map_while(|index| {
            // SAFETY: the kernel has read `count` pieces here.
            let piece = unsafe { pieces.add(index).read() };
            let take = piece.iov_len.min(left);
            left -= take;
            // SAFETY: by the caller's promise; an empty piece may have no place.
            let bytes = (take > 0).then(|| unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), take) });
            (left > 0 || take > 0).then(|| bytes.unwrap_or_default())
        });
        connections::moved(fd, way, each);
    });
}

#[inline]
fn accepted(result: c_int) {
    if result >= 0 && on() {
        look(|| connections::begins(result, PeerKind::Accepted));
    }
}

/// `connect(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, size: socklen_t) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::connect(fd, to, size) };
    if on() {
        look(|| {
            // SAFETY: this thread's.
            let errno = unsafe { *libc::__errno_location() };
            let begun = result == 0 || matches!(errno, libc::EINPROGRESS | libc::EINTR);
            // SAFETY: the kernel has read an address of this size.
            let family = || unsafe { c_int::from(to.read_unaligned().sa_family) };
            if begun && size as usize >= size_of::<sockaddr>() && matches!(family(), libc::AF_INET | libc::AF_INET6) {
                connections::begins(fd, PeerKind::Connected);
            }
        });
    }
    result
}

/// `accept(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(fd: c_int, from: *mut sockaddr, size: *mut socklen_t) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::accept(fd, from, size) };
    accepted(result);
    result
}

/// `accept4(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(fd: c_int, from: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::accept4(fd, from, size, flags) };
    accepted(result);
    result
}

/// Functions that move the bytes of one buffer, by their name, this way.
macro_rules! moves {
    ($(fn $name:ident($fd:ident, $at:ident: $buffer:ty $(, $arg:ident: $type:ty)*) => $way:ident, $flags:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// Its own.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($fd: c_int, $at: $buffer $(, $arg: $type)*) -> ssize_t {
            // SAFETY: the caller's; then what the real call has moved.
            unsafe {
                let result = real::$name($fd, $at $(, $arg)*);
                moved($fd, Way::$way, $at, $flags, result);
                result
            }
        }
    )*};
}

moves! {
    fn send(fd, at: *const c_void, size: size_t, flags: c_int) => Sent, flags & libc::MSG_OOB;
    fn sendto(fd, at: *const c_void, size: size_t, flags: c_int, to: *const sockaddr, to_size: socklen_t)
        => Sent, flags & libc::MSG_OOB;
    fn write(fd, at: *const c_void, size: size_t) => Sent, 0;
    fn recv(fd, at: *mut c_void, size: size_t, flags: c_int) => Received, flags;
    fn recvfrom(fd, at: *mut c_void, size: size_t, flags: c_int, from: *mut sockaddr, from_size: *mut socklen_t)
        => Received, flags;
    fn read(fd, at: *mut c_void, size: size_t) => Received, 0;
}

/// `sendmsg(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as in `moves`; after bytes have moved the message is a good one.
    unsafe {
        let result = real::sendmsg(fd, message, flags);
        if result > 0 {
            moved_pieces(fd, Way::Sent, (*message).msg_iov, pieces(message), flags & libc::MSG_OOB, result);
        }
        result
    }
}

/// `writev(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as in `moves`.
    unsafe {
        let result = real::writev(fd, pieces, count);
        moved_pieces(fd, Way::Sent, pieces, usize::try_from(count).unwrap_or(0), 0, result);
        result
    }
}

/// `recvmsg(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as in `sendmsg`.
    unsafe {
        let result = real::recvmsg(fd, message, flags);
        if result > 0 {
            moved_pieces(fd, Way::Received, (*message).msg_iov, pieces(message), flags, result);
        }
        result
    }
}

/// `readv(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as in `moves`.
    unsafe {
        let result = real::readv(fd, pieces, count);
        moved_pieces(fd, Way::Received, pieces, usize::try_from(count).unwrap_or(0), 0, result);
        result
    }
}

/// `close(2)`. Another thread may get the same number as soon as the real one has it.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if connections::watched(fd) {
        look(|| connections::ends(fd));
    }
    // SAFETY: the caller's.
    unsafe { real::close(fd) }
}

/// `sendmmsg(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's; then the messages that the real call has sent.
    unsafe {
        let result = real::sendmmsg(fd, messages, count, flags);
        moved_messages(fd, Way::Sent, messages, flags & libc::MSG_OOB, result);
        result
    }
}

/// `recvmmsg(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    limit: *mut timespec,
) -> c_int {
    // SAFETY: as in `sendmmsg`.
    unsafe {
        let result = real::recvmmsg(fd, messages, count, flags, limit);
        moved_messages(fd, Way::Received, messages, flags, result);
        result
    }
}

/// `close_range(2)`. As with [`close`], another thread may get the numbers at once; of descriptors that are only marked to
/// be closed later nothing ends.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if on() && flags & !CLOSE_RANGE_UNSHARE == 0 {
        look(|| connections::all_end(first, last));
    }
    // SAFETY: the caller's.
    unsafe { real::close_range(first, last, flags) }
}

/// `dup(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::dup(fd) };
    copied(fd, result);
    result
}

/// `dup2(2)`. What `to` was stays open until the real call closes it, and nobody else can get the number.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::dup2(fd, to) };
    copied(fd, result);
    result
}

/// `dup3(2)`.
///
/// # Safety
/// Its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::dup3(fd, to, flags) };
    copied(fd, result);
    result
}

#[inline]
fn copied(fd: c_int, result: c_int) {
    if result >= 0 && result != fd && (connections::watched(fd) || connections::watched(result)) {
        look(|| connections::copied(fd, result));
    }
}

/// The first `result` of these messages went this way.
///
/// # Safety
/// As [`moved_pieces`], of each message.
#[inline]
unsafe fn moved_messages(fd: c_int, way: Way, messages: *const mmsghdr, flags: c_int, result: c_int) {
    for at in 0..usize::try_from(result).unwrap_or(0) {
        // SAFETY: the real call has moved so many messages, and written how many bytes each has.
        unsafe {
            let message = messages.add(at);
            let bytes = ssize_t::try_from((*message).msg_len).unwrap_or(ssize_t::MAX);
            let head = &raw const (*message).msg_hdr;
            moved_pieces(fd, way, (*head).msg_iov, pieces(head), flags, bytes);
        }
    }
}

/// Pieces of a message.
///
/// # Safety
/// The message is one.
unsafe fn pieces(message: *const msghdr) -> usize {
    // SAFETY: by the caller's promise. Its type is not the same in every C library.
    #[allow(clippy::unnecessary_cast, reason = "size_t with glibc, int with musl")]
    unsafe {
        (*message).msg_iovlen as usize
    }
}
