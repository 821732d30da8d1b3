//! The functions behind this library's: the next ones of the same names, or the system calls themselves.
//!
//! They are looked up when the library is loaded. Whatever calls earlier, from the start of another library, looks its
//! function up itself.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_long, c_uint, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Where the next library's function lies, once it was looked up.
struct Next(AtomicPtr<c_void>);

impl Next {
    const fn new() -> Next {
        Next(AtomicPtr::new(ptr::null_mut()))
    }

    /// Null: there is none.
    #[inline]
    fn get(&self, name: &str) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() { self.find(name) } else { known }
    }

    #[cold]
    fn find(&self, name: &str) -> *mut c_void {
        // SAFETY: all names end with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $call:ident($($given:expr),*);)*) => {
        $(
            mod $name {
                pub(super) static NEXT: super::Next = super::Next::new();
                pub(super) const NAME: &str = concat!(stringify!($name), "\0");
            }

            /// The next function of this name.
            ///
            /// # Safety
            /// Its own.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) -> $result {
                // A thread that is cancelled inside unwinds through here.
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                let next = $name::NEXT.get($name::NAME);
                if next.is_null() {
                    // SAFETY: the system call of the same meaning, with the caller's arguments.
                    return unsafe { libc::syscall(libc::$call, $($given as c_long),*) as $result };
                }
                // SAFETY: the C library's function of this name has this signature.
                unsafe { std::mem::transmute::<*mut c_void, Function>(next)($($arg),*) }
            }
        )*

        /// Looks all of them up.
        #[cold]
        pub fn find_all() {
            $($name::NEXT.get($name::NAME);)*
        }
    };
}

functions! {
    connect(fd: c_int, to: *const sockaddr, size: socklen_t) -> c_int = SYS_connect(fd, to, size);
    accept(fd: c_int, from: *mut sockaddr, size: *mut socklen_t) -> c_int = SYS_accept4(fd, from, size, 0);
    accept4(fd: c_int, from: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int =
        SYS_accept4(fd, from, size, flags);
    send(fd: c_int, at: *const c_void, size: size_t, flags: c_int) -> ssize_t =
        SYS_sendto(fd, at, size, flags, 0, 0);
    sendto(fd: c_int, at: *const c_void, size: size_t, flags: c_int, to: *const sockaddr, to_size: socklen_t)
        -> ssize_t = SYS_sendto(fd, at, size, flags, to, to_size);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = SYS_sendmsg(fd, message, flags);
    write(fd: c_int, at: *const c_void, size: size_t) -> ssize_t = SYS_write(fd, at, size);
    writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = SYS_writev(fd, pieces, count);
    recv(fd: c_int, at: *mut c_void, size: size_t, flags: c_int) -> ssize_t =
        SYS_recvfrom(fd, at, size, flags, 0, 0);
    recvfrom(fd: c_int, at: *mut c_void, size: size_t, flags: c_int, from: *mut sockaddr, from_size: *mut socklen_t)
        -> ssize_t = SYS_recvfrom(fd, at, size, flags, from, from_size);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = SYS_recvmsg(fd, message, flags);
    read(fd: c_int, at: *mut c_void, size: size_t) -> ssize_t = SYS_read(fd, at, size);
    readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = SYS_readv(fd, pieces, count);
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int =
        SYS_sendmmsg(fd, messages, count, flags);
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int =
        SYS_recvmmsg(fd, messages, count, flags, limit);
    close(fd: c_int) -> c_int = SYS_close(fd);
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = SYS_close_range(first, last, flags);
    dup(fd: c_int) -> c_int = SYS_dup(fd);
    // Every C library has `dup2`, and not every kernel.
    dup2(fd: c_int, to: c_int) -> c_int = SYS_dup3(fd, to, 0);
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = SYS_dup3(fd, to, flags);
}
