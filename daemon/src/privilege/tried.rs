//! `sluiced privileges`: becomes brain and helper, looks at both from outside, and tries in the brain what it may not do. Touches
//! nothing: no programs are loaded, no sockets captured, no ports taken.
#![allow(clippy::print_stdout, reason = "a command says what it found")]
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use serde_json::{Value, json};

use super::start;
use crate::config::Loaded;
use crate::logging;

/// What `/proc/PID/status` says of a process, of what a split is about.
const FIELDS: [&str; 8] = ["Name", "Uid", "Gid", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"];

/// Prints one JSON document. Exit status 0 if everything that was tried was refused.
pub fn run(loaded: &Loaded, file: Option<&Path>) -> ExitCode {
    let split = match start::become_two(loaded, file) {
        Ok(split) => split,
        Err(why) => {
            eprintln!("sluiced privileges: {why}");
            return ExitCode::FAILURE;
        }
    };
    let _filter = logging::start(&loaded.config.log);
    let tried = attempts();
    let refused = tried.values().all(|(result, errno)| *result == -1 && *errno == Errno::EPERM);
    let tried: BTreeMap<_, _> = tried.into_iter().map(|(name, (_, errno))| (name, errno.to_string())).collect();
    let document = json!({
        "schema": 1,
        "user": split.user,
        "brain": status(std::process::id()),
        "helper": status(split.pid()),
        "tried_in_the_brain": tried,
        "all_refused": refused,
    });
    println!("{document:#}");
    if refused { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn status(pid: u32) -> BTreeMap<&'static str, Value> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        (name, Value::from(line.unwrap_or("?").trim()))
    };
    std::iter::once(("pid", pid.into())).chain(FIELDS.into_iter().map(field)).collect()
}

/// A process, which if there is one ends at once.
fn fork() -> (i64, Errno) {
    Errno::clear();
    // SAFETY: a plain fork; the child ends before it touches anything.
    let result = unsafe {
        let result = libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0_i64, 0_i64, 0_i64, 0_i64);
        if result == 0 {
            libc::_exit(0);
        }
        result
    };
    (result, Errno::last())
}

/// Calls that would give the brain back what it has not, with nothing in them that would do harm if they were let through.
fn attempts() -> BTreeMap<&'static str, (i64, Errno)> {
    let (path, none) = (c"/nonexistent", std::ptr::null::<libc::c_char>());
    let arguments = [path.as_ptr(), none];
    // SAFETY: each is refused before it looks at its arguments; let through, it would find descriptors that are not open, a file
    // that is not there, and no process of number 0.
    let call = |number: libc::c_long, first: i64, second: i64, third: i64| unsafe {
        Errno::clear();
        let result = libc::syscall(number, first, second, third, 0, 0);
        (result, Errno::last())
    };
    let text = path.as_ptr() as i64;
    BTreeMap::from([
        ("bpf", call(libc::SYS_bpf, 0, 0, 0)),
        ("setns", call(libc::SYS_setns, -1, 0, 0)),
        ("ptrace", call(libc::SYS_ptrace, i64::from(libc::PTRACE_PEEKDATA), 0, 0)),
        ("execve", call(libc::SYS_execve, text, arguments.as_ptr() as i64, 0)),
        ("execveat", call(libc::SYS_execveat, -1, text, arguments.as_ptr() as i64)),
        ("unshare", call(libc::SYS_unshare, 0, 0, 0)),
        ("mount", call(libc::SYS_mount, text, text, 0)),
        ("process_vm_readv", call(libc::SYS_process_vm_readv, 0, 0, 0)),
        ("capset", call(libc::SYS_capset, 0, 0, 0)),
        ("setuid", call(libc::SYS_setuid, 0, 0, 0)),
        ("fork", fork()),
        ("socket of packets", call(libc::SYS_socket, i64::from(libc::AF_PACKET), i64::from(libc::SOCK_RAW), 0)),
    ])
}
