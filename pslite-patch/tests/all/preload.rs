//! The library as a job has it: preloaded into a worker and a server that really send and receive.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::calls::Style;
use crate::support::node::{self, Job};
use crate::support::{Running, clean, library, page, pages};
use sluice_progress::{PageView, Pattern, PeerKind, Reader, Role, Source, State};
use sluice_skip::skip;

#[test]
#[ignore = "the process that other tests start, one for each node of the double"]
fn node() {
    let _sockets = node::run(node::wanted().expect("told"));
    node::wait();
}

fn program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn job() -> Job {
    Job {
        rounds: 4,
        sizes: vec![300, 70_000, 9, 20_000],
        style: Style::Mixed(0x1234_5678_9abc),
        one_connection: false,
        fork: false,
    }
}

/// Worker and server through their work. `with`: what each has beside the work itself; whether the library is before it.
fn pair(job: &Job, mut with: impl FnMut(bool, &mut Command) -> bool) -> [Running; 2] {
    let meeting = tempfile::tempdir().expect("a directory");
    let mut start = |worker| {
        let mut probe = clean(&program(), false);
        let mut command = clean(&program(), with(worker, &mut probe));
        node::tell(&mut command, worker, meeting.path(), job);
        with(worker, &mut command);
        Running::start(command)
    };
    let mut both = [start(true), start(false)];
    both.iter_mut().for_each(Running::finish);
    both
}

/// The library before both, with their roles and this directory of pages.
fn published(job: &Job, dir: &Path) -> [Running; 2] {
    pair(job, |worker, command| {
        command.env("DMLC_ROLE", if worker { "worker" } else { "server" }).env("SLUICE_SHM_DIR", dir);
        true
    })
}

/// What both say without any of this.
fn plain(job: &Job) -> [String; 2] {
    let both = pair(job, |_, _| false);
    let said = [both[0].said.clone(), both[1].said.clone()];
    both.into_iter().for_each(Running::end);
    said
}

#[test]
fn the_page_has_the_bytes_and_the_rounds_and_the_job_notices_nothing() {
    for one_connection in [false, true] {
        let (dir, job) = (tempfile::tempdir().expect("a directory"), Job { one_connection, ..job() });
        let both = published(&job, dir.path());
        assert_eq!([&both[0].said, &both[1].said], plain(&job).each_ref());
        for (running, worker) in both.into_iter().zip([true, false]) {
            let view = page(dir.path(), running.pid()).expect("a page");
            assert_eq!((view.tx_bytes, view.rx_bytes), (running.number("sent"), running.number("received")));
            assert_eq!(view.enq_bytes, u64::from(job.rounds) * job.bytes());
            // A server answers on its own connection, or on the worker's.
            let named = if worker { "ps9" } else { "ps8" };
            let handshakes = node::handshake_bytes(Some(named)) + node::handshake_bytes(None);
            assert_eq!(view.enq_wire_bytes, view.tx_bytes - handshakes);
            assert_eq!((view.enq_ops, view.phase_seq), (u64::from(job.rounds) * job.sizes.len() as u64, 4));
            assert_eq!((view.iteration.count, view.iteration_bytes()), (4, job.bytes()));
            assert_eq!((view.hint_iter_bytes, view.state, view.inflight), (job.bytes(), State::Compute, 0));
            assert_eq!((view.source, view.pattern), (Source::PslitePreload, Pattern::ParameterServer));
            assert_eq!(view.role, if worker { Role::Worker } else { Role::Server });
            assert_eq!((view.rank, view.nranks, view.drops, view.errors), (Some(0), 1, 0, 0));
            assert!(view.comm_id != 0 && view.last_enq_ns >= view.created_ns && view.created_ns > 0);
            let mut kinds: Vec<_> = view.peers.iter().map(|peer| (peer.kind.raw(), peer.rank)).collect();
            kinds.sort_unstable();
            let (near, far) = (PeerKind::Connected.raw(), PeerKind::Accepted.raw());
            let expected = match (one_connection, worker) {
                (false, _) => vec![(near, None), (far, Some(0))],
                (true, true) => vec![(near, Some(0))],
                (true, false) => vec![(far, Some(0))],
            };
            assert_eq!(kinds, expected);
            let by_peers: u64 = view.peers.iter().map(|peer| peer.tx_bytes).sum();
            let unlisted = if one_connection { view.tx_bytes - by_peers } else { 0 };
            assert!(by_peers + unlisted == view.tx_bytes && unlisted < 200, "{by_peers} of {}", view.tx_bytes);
            running.end();
        }
    }
}

#[test]
fn any_mixture_of_calls_and_pieces_gives_the_same_page() {
    let mixed = [1, 0xdead_beef, 0x7777_7777_7777].map(Style::Mixed);
    for style in mixed.into_iter().chain([Style::Zmq, Style::Plain(8192)]) {
        let dir = tempfile::tempdir().expect("a directory");
        let job = Job { style, rounds: 2, sizes: vec![1, 255, 256, 100_000], ..job() };
        for running in published(&job, dir.path()) {
            let view = page(dir.path(), running.pid()).expect("a page");
            assert_eq!((view.tx_bytes, view.rx_bytes), (running.number("sent"), running.number("received")));
            assert_eq!((view.enq_bytes, view.iteration.count, view.errors), (2 * job.bytes(), 2, 0));
            running.end();
        }
    }
}

#[test]
fn one_side_alone_no_role_and_the_switch() {
    let (job, said) = (job(), plain(&job()));
    for (what, wanted) in [("worker only", 1), ("server only", 1), ("no role", 0), ("disabled", 0)] {
        let dir = tempfile::tempdir().expect("a directory");
        let both = pair(&job, |worker, command| {
            command.env("SLUICE_SHM_DIR", dir.path());
            if what != "no role" {
                command.env("DMLC_ROLE", if worker { "worker" } else { "server" });
            }
            if what == "disabled" {
                command.env("SLUICE_DISABLE", "1");
            }
            what != if worker { "server only" } else { "worker only" }
        });
        assert_eq!([&both[0].said, &both[1].said], said.each_ref(), "{what}");
        assert_eq!(pages(dir.path()).len(), wanted, "{what}");
        both.into_iter().for_each(Running::end);
    }
}

#[test]
fn a_forked_child_writes_nothing_and_what_it_sends_is_not_its_parents() {
    let (dir, job) = (tempfile::tempdir().expect("a directory"), Job { fork: true, ..job() });
    let [worker, server] = published(&job, dir.path());
    let by_child = worker.number("by-child");
    assert!(by_child > 0 && pages(dir.path()).len() == 2);
    let view = page(dir.path(), worker.pid()).expect("a page");
    assert_eq!(view.tx_bytes, worker.number("sent"));
    assert_eq!(view.enq_bytes, u64::from(job.rounds) * job.bytes() - job.sizes[0] as u64);
    let view = page(dir.path(), server.pid()).expect("a page");
    assert_eq!(view.rx_bytes, worker.number("sent") + by_child);
    worker.end();
    server.end();
}

#[test]
fn a_hostile_directory_is_silence() {
    let (root, job, said) = (tempfile::tempdir().expect("a directory"), job(), plain(&job()));
    let at = |name: &str| root.path().join(name);
    let fifo = CString::new(at("fifo").as_os_str().as_bytes()).expect("a name");
    // SAFETY: the name is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    symlink(at("loop"), at("loop")).expect("linked");
    symlink(at("nowhere"), at("dangling")).expect("linked");
    fs::write(at("file"), b"no directory").expect("written");
    for dir in ["absent", "fifo", "loop", "dangling", "file"].map(at).into_iter().chain(["/proc".into(), "/sys".into()])
    {
        let both = published(&job, &dir);
        assert_eq!([&both[0].said, &both[1].said], said.each_ref(), "{}", dir.display());
        both.into_iter().for_each(Running::end);
    }
}

/// Promises: P-7
#[test]
fn a_full_and_a_read_only_file_system_are_silence() {
    use std::os::unix::process::CommandExt;
    let (root, job, said) = (tempfile::tempdir().expect("a directory"), job(), plain(&job()));
    let target = CString::new(root.path().as_os_str().as_bytes()).expect("a name");
    for (what, flags, options) in [("full", 0, c"size=4k,nr_inodes=1"), ("read-only", libc::MS_RDONLY, c"size=64k")] {
        let mount = {
            let target = target.clone();
            move || {
                // SAFETY: all texts are NUL-terminated; only this child gets the mount.
                let done = unsafe {
                    libc::unshare(libc::CLONE_NEWNS) == 0
                        && libc::mount(
                            c"none".as_ptr(),
                            c"/".as_ptr(),
                            std::ptr::null(),
                            libc::MS_REC | libc::MS_PRIVATE,
                            std::ptr::null(),
                        ) == 0
                        && libc::mount(
                            c"none".as_ptr(),
                            target.as_ptr(),
                            c"tmpfs".as_ptr(),
                            flags,
                            options.as_ptr().cast(),
                        ) == 0
                };
                if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            }
        };
        let mut probe = Command::new("true");
        // SAFETY: only system calls.
        unsafe { probe.pre_exec(mount.clone()) };
        if let Err(why) = probe.status() {
            return skip!(Privilege, "no mounts here: {why}");
        }
        let both = pair(&job, |worker, command| {
            command.env("DMLC_ROLE", if worker { "worker" } else { "server" }).env("SLUICE_SHM_DIR", root.path());
            // SAFETY: as above.
            unsafe { command.pre_exec(mount.clone()) };
            true
        });
        assert_eq!([&both[0].said, &both[1].said], said.each_ref(), "{what}");
        both.into_iter().for_each(Running::end);
        assert!(pages(root.path()).is_empty());
    }
}

/// A program in C of `tests/support`.
fn compiled(dir: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(name);
    let binary = dir.join(name).with_extension("");
    let mut cc = Command::new("cc");
    let compiled = cc.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&binary).arg(&source).output();
    let compiled = compiled.expect("cc, which links these tests too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    binary
}

/// Runs it with the library before it or not: the bytes that it says, and its page.
fn run(binary: &Path, dir: &Path, argument: &str, preload: bool) -> (u64, Option<PageView>) {
    let mut command = clean(binary, preload);
    command.arg(argument).env("DMLC_ROLE", "worker").env("SLUICE_SHM_DIR", dir);
    let output = command.output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{argument} {preload}: {} {out} {err}", output.status);
    let views: Vec<_> = pages(dir)
        .into_iter()
        .map(|path| {
            let view = Reader::open(&path).and_then(|mut page| page.read()).expect("a good page");
            fs::remove_file(path).expect("removed");
            view
        })
        .collect();
    assert_eq!(views.len(), usize::from(preload), "{argument}");
    (out.trim().parse().expect("bytes"), views.into_iter().next())
}

/// A thread cancelled inside a call unwinds through this library; a child of `vfork` closes only its own descriptors.
#[test]
fn a_cancelled_thread_and_a_child_of_vfork_do_as_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = compiled(dir.path(), "edges.c");
    run(&binary, dir.path(), "", false);
    let (sent, view) = run(&binary, dir.path(), "", true);
    assert_eq!(view.expect("a page").tx_bytes, sent, "what was sent after the child closed its copy counts too");
}

/// No byte of a connection is missed because it goes by a copy of its descriptor, and none of anything else counts because
/// it has a connection's old number.
#[test]
fn a_connection_is_followed_through_copies_and_no_further() {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = compiled(dir.path(), "descriptors.c");
    for what in ["copies", "replaced", "ranges", "children", "receives", "tensors"] {
        let (plain, _) = run(&binary, dir.path(), what, false);
        let (sent, view) = run(&binary, dir.path(), what, true);
        let view = view.expect("a page");
        assert_eq!((sent, view.tx_bytes, view.errors), (plain, sent, 0), "{what}");
        assert_eq!(view.rx_bytes, if what == "receives" { 88 } else { 0 }, "{what}");
        let peers: Vec<u64> = view.peers.iter().map(|peer| peer.tx_bytes).collect();
        assert_eq!(peers, if what == "tensors" { vec![sent] } else { vec![] }, "{what}");
        assert_eq!(view.enq_bytes, if what == "tensors" { 400 } else { 0 }, "{what}");
    }
}

/// Threads that replace and close each other's descriptors in the middle of calls: the job's own fault, and no worse with
/// the library. A connection made after it is followed.
#[test]
fn threads_that_meddle_with_descriptors_do_no_worse_than_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = compiled(dir.path(), "descriptors.c");
    for _ in 0..3 {
        let (sent, view) = run(&binary, dir.path(), "threads", true);
        assert_eq!(view.expect("a page").tx_bytes, sent);
    }
}

#[test]
fn the_library_exports_its_functions_and_no_others_that_a_job_could_meet() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output();
    let output = String::from_utf8_lossy(&output.expect("nm, which comes with the linker").stdout).into_owned();
    let mut names: Vec<&str> = output.lines().filter_map(|line| line.split(' ').next_back()).collect();
    names.retain(|name| !name.starts_with("sluice_"));
    names.sort_unstable();
    let hooks =
        ["accept", "accept4", "close", "close_range", "connect", "dup", "dup2", "dup3", "read", "readv", "recv"];
    let more = ["recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto", "write", "writev"];
    assert_eq!(names, hooks.into_iter().chain(more).collect::<Vec<_>>());
}
