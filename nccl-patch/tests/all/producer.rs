//! The page names the NCCL that made it, wherever that says its version, and no other.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use crate::support::*;
use nccl_profiler_sluice::abi::Logger;

/// As much of an NCCL as this asks: its version, and a logger that lies in it.
const NCCL: &str = r#"
#include <errno.h>
int ncclGetVersion(int *version) { errno = 5; *version = CODE; return RESULT; }
void logger(int level, unsigned long subsystems, const char *file, int line, const char *format, ...) {}
"#;

fn double(dir: &Path, name: &str, code: &str, result: &str) -> PathBuf {
    let options = [format!("-DCODE={code}"), format!("-DRESULT={result}"), format!("-Wl,-soname,{name}")];
    compile(dir, name, NCCL, &options.each_ref().map(String::as_str))
}

/// Loads it as Python does, where nobody else sees it; its logger.
fn load(library: &Path) -> Option<Logger> {
    let path = CString::new(library.to_str().expect("text")).expect("no NUL");
    // SAFETY: NUL-terminated texts; the function has a logger's signature.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let logger = libc::dlsym(library, c"logger".as_ptr());
        assert!(!logger.is_null());
        Some(std::mem::transmute::<*mut libc::c_void, Logger>(logger))
    }
}

fn producer(name: &str, code: &str, result: &str, with_logger: bool) -> String {
    let root = tempfile::tempdir().expect("a directory");
    set("SLUICE_SHM_DIR", root.path());
    let logger = load(&double(root.path(), name, code, result));
    let nccl = Nccl::load(&library(), 5);
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = 77 };
    let (context, _) = nccl.init(PAIR, logger.filter(|_| with_logger));
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 77, "NCCL's errno is its own");
    let producer = only(root.path()).producer;
    nccl.finalize(context);
    producer
}

#[test]
fn the_library_that_the_logger_lies_in_is_asked() {
    alone(&[], || assert_eq!(producer("libanother.so", "22809", "0", true), "nccl 2.28.9 v5"));
}

#[test]
fn without_a_logger_the_nccl_that_is_loaded_is_asked() {
    alone(&[], || assert_eq!(producer("libnccl.so.2", "23206", "0", false), "nccl 2.32.6 v5"));
}

#[test]
fn one_of_another_name_that_nobody_sees_is_not_found() {
    alone(&[], || assert_eq!(producer("libanother.so", "22809", "0", false), "nccl v5"));
}

#[test]
fn a_version_that_cannot_be_one_is_left_out() {
    for (code, result) in [("-1", "0"), ("0", "0"), ("2147483647", "0"), ("22809", "3")] {
        alone(&[], || assert_eq!(producer("libanother.so", code, result, true), "nccl v5", "{code} {result}"));
    }
}
