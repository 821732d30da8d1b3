//! Which NCCL this process runs, asked of NCCL itself: its interface for profilers does not say.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::Logger;

/// NCCL's own function that tells its version.
type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
const SYMBOL: &std::ffi::CStr = c"ncclGetVersion";
/// Numbers between are versions of an NCCL that has profilers: 2.23 is 22300.
const PLAUSIBLE: std::ops::Range<c_int> = 22_000..1_000_000;

/// Its version as people write it; `None` where it cannot be found or says nothing that could be one.
pub fn version(logger: Option<Logger>) -> Option<String> {
    let function = found(logger)?;
    let mut code = 0;
    // SAFETY: NCCL's function of this name takes a place for a number, writes it, and does nothing else.
    let result = unsafe { function(&mut code) };
    (result == 0 && PLAUSIBLE.contains(&code)).then(|| text(code))
}

/// 10000 for each major version, 100 for each minor one.
fn text(code: c_int) -> String {
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

/// The function in the library that the logger lies in, which is the NCCL that called; else in what every library may see,
/// else in the NCCL that is loaded. A program like Python loads it where nobody else sees it.
fn found(logger: Option<Logger>) -> Option<GetVersion> {
    let function =
        of_logger(logger).or_else(|| symbol(libc::RTLD_DEFAULT)).or_else(|| loaded(c"libnccl.so.2".as_ptr()))?;
    // SAFETY: a function of NCCL's of this name has this signature.
    Some(unsafe { std::mem::transmute::<*mut c_void, GetVersion>(function) })
}

fn of_logger(logger: Option<Logger>) -> Option<*mut c_void> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(logger? as *const c_void, &mut info) } != 0;
    (known && !info.dli_fname.is_null()).then_some(info.dli_fname).and_then(loaded)
}

/// The function in a library that is loaded already; nothing is loaded by asking.
fn loaded(name: *const std::ffi::c_char) -> Option<*mut c_void> {
    // SAFETY: the name is NUL-terminated.
    let library = unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    let function = symbol(library);
    // SAFETY: opened above; whoever loaded the library still holds it.
    unsafe { libc::dlclose(library) };
    function
}

fn symbol(library: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: an open library, and a name that ends with a NUL.
    let function = unsafe { libc::dlsym(library, SYMBOL.as_ptr()) };
    (!function.is_null()).then_some(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_nccl_writes_it_and_a_process_without_nccl_has_no_version() {
        assert_eq!((text(22_809), text(23_206), text(30_100)), ("2.28.9".into(), "2.32.6".into(), "3.1.0".into()));
        assert_eq!(version(None), None);
    }
}
