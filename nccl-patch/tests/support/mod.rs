//! A double of NCCL: it loads the library as NCCL does and drives it in NCCL's order, with descriptors built from the
//! structs of NCCL's headers, not from the offsets that the library reads by.
#![allow(dead_code)] // Every test program uses its own part.

pub mod headers;

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use headers::*;
use nccl_profiler_sluice::abi::{InitV2, InitV4, InitV5, Logger, Profiler, event};
use sluice_progress::{PageView, Reader};

/// Versions of the interface.
pub const VERSIONS: [u8; 6] = [2, 3, 4, 5, 6, 7];

/// The library as cargo built it, beside this test's executable.
pub fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("this program");
    let deps = exe.parent().expect("its folder");
    let found = [deps, deps.parent().expect("the profile's folder")];
    let found = found.iter().map(|dir| dir.join("libnccl_profiler_sluice.so")).find(|path| path.exists());
    found.expect("cargo builds the library before its tests")
}

/// A shared library of this C source, with these definitions.
pub fn compile(dir: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (text, library) = (dir.join(name).with_extension("c"), dir.join(name));
    std::fs::write(&text, source).expect("write");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).args(options).arg(&text);
    let output = cc.output().expect("cc, which links this test too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Runs `body` of the test that calls this in a process of its own with these variables and no others of ours; fails if
/// it fails or writes a word to standard error.
pub fn alone(variables: &[(&str, &str)], body: impl FnOnce()) {
    const ALONE: &str = "SLUICE_TEST_ALONE";
    let thread = std::thread::current();
    let test = thread.name().expect("a test's thread bears its name");
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, test);
    clean(&mut command);
    let output = command.envs(variables.iter().copied()).output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {}\n{out}\n{err}", output.status);
    assert_eq!(err, "", "{test}: nothing is written to standard error");
    print!("{out}");
}

/// Takes everything out of a command's environment that decides something here.
pub fn clean(command: &mut Command) {
    for name in ["SLUICE_DISABLE", "SLUICE_SHM_DIR", "SLUICE_JOB_ID", "SLUICE_ITER_BYTES", "SLUICE_NCCL_STEPS"] {
        command.env_remove(name);
    }
    for name in ["SLUICE_NCCL_NEXT", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK"] {
        command.env_remove(name);
    }
}

/// Sets a variable; only in a process of [`alone`], before its first thread.
pub fn set(name: &str, value: &Path) {
    // SAFETY: the test runs alone in its process.
    unsafe { std::env::set_var(name, value) };
}

/// Pages of a directory, in the order of their names.
pub fn pages(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut pages: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "sp1")).collect();
    pages.sort();
    pages
}

/// What a page of this very process says: through a copy, since closing the page itself would drop its lock.
pub fn view(page: &Path) -> PageView {
    let copies = tempfile::tempdir().expect("a directory");
    let copy = copies.path().join("copy.sp1");
    // `fs::copy` would close a descriptor of the page; so does this, but the tests that look here ask for no lock.
    std::fs::write(&copy, std::fs::read(page).expect("readable")).expect("written");
    Reader::open(&copy).and_then(|mut reader| reader.read()).expect("a good page")
}

/// The one page of a directory.
pub fn only(dir: &Path) -> PageView {
    let pages = pages(dir);
    assert_eq!(pages.len(), 1, "{pages:?}");
    view(&pages[0])
}

/// Lines that came to NCCL's logger: level, subsystems, text.
pub static LINES: Mutex<Vec<(c_int, c_ulong, String)>> = Mutex::new(Vec::new());

/// Stable Rust cannot define a variadic function. The library passes one text after the format, which this takes.
unsafe extern "C" fn log(
    level: c_int,
    subsystems: c_ulong,
    _: *const c_char,
    _: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: both are NUL-terminated.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    assert_eq!(format, c"%s");
    LINES.lock().expect("no panic").push((level, subsystems, text.to_string_lossy().into_owned()));
}

/// [`log`] as NCCL's logger.
pub fn logger() -> Option<Logger> {
    type Fixed = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    // SAFETY: on the calling conventions of x86-64 and aarch64 Linux a variadic call with these arguments is this one.
    Some(unsafe { std::mem::transmute::<Fixed, Logger>(log) })
}

/// The library as loaded by NCCL of one version.
#[derive(Clone, Copy)]
pub struct Nccl {
    pub version: u8,
    library: *mut c_void,
    table: *const c_void,
}

// SAFETY: a loaded library and a table of functions that may be called from any thread.
unsafe impl Send for Nccl {}
// SAFETY: as above.
unsafe impl Sync for Nccl {}

/// What a communicator is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub id: u64,
    pub nnodes: c_int,
    pub nranks: c_int,
    pub rank: c_int,
}

/// Two ranks on two hosts.
pub const PAIR: Shape = Shape { id: 0x1234, nnodes: 2, nranks: 2, rank: 0 };

pub type Handle = usize;

impl Nccl {
    pub fn load(path: &Path, version: u8) -> Nccl {
        let path = CString::new(path.to_str().expect("text")).expect("no NUL");
        let symbol = CString::new(format!("ncclProfiler_v{version}")).expect("no NUL");
        // SAFETY: NUL-terminated texts.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{path:?} cannot be loaded");
            let table = libc::dlsym(library, symbol.as_ptr());
            assert!(!table.is_null(), "{path:?} has no {symbol:?}");
            Nccl { version, library, table }
        }
    }

    /// The table; the place of `init` differs by version, the rest does not.
    fn table<I>(&self) -> &Profiler<I> {
        // SAFETY: a table of the loaded library, which is never unmapped.
        unsafe { &*self.table.cast::<Profiler<I>>() }
    }

    pub fn name(&self) -> &CStr {
        // SAFETY: NUL-terminated and static.
        unsafe { CStr::from_ptr(self.table::<InitV5>().name) }
    }

    /// Context and mask.
    pub fn init(&self, shape: Shape, logger: Option<Logger>) -> (usize, c_int) {
        let (mut context, mut mask) = (std::ptr::null_mut(), 0);
        let name = c"world".as_ptr();
        let Shape { id, nnodes, nranks, rank } = shape;
        // SAFETY: the version's own signature.
        let result = unsafe {
            match self.version {
                2 | 3 => (self.table::<InitV2>().init)(&mut context, &mut mask),
                4 => {
                    let init = self.table::<InitV4>().init;
                    init(&mut context, &mut mask, name, id, nnodes, nranks, rank, logger)
                }
                _ => {
                    let init = self.table::<InitV5>().init;
                    init(&mut context, id, &mut mask, name, nnodes, nranks, rank, logger)
                }
            }
        };
        assert_eq!(result, 0);
        (context as usize, mask)
    }

    /// `startEvent` with any bytes.
    pub fn start_raw(&self, context: usize, descr: *const c_void) -> Handle {
        let mut handle = 0x77 as *mut c_void;
        // SAFETY: the place is ours.
        let result = unsafe { (self.table::<InitV5>().start_event)(context as *mut c_void, &mut handle, descr) };
        assert_eq!(result, 0);
        assert_ne!(handle as usize, 0x77, "the place of the handle is always written");
        handle as Handle
    }

    /// `startEvent` without a place for the handle.
    pub fn start_nowhere(&self, context: usize, descr: *const c_void) {
        // SAFETY: a null place is allowed to be tried.
        let result =
            unsafe { (self.table::<InitV5>().start_event)(context as *mut c_void, std::ptr::null_mut(), descr) };
        assert_eq!(result, 0);
    }

    pub fn stop(&self, handle: Handle) {
        // SAFETY: any value may be handed in.
        assert_eq!(unsafe { (self.table::<InitV5>().stop_event)(handle as *mut c_void) }, 0);
    }

    /// `recordEventState` with `transSize`, or without arguments.
    pub fn state(&self, handle: Handle, state: c_int, bytes: Option<u64>) {
        let arguments = [bytes.unwrap_or(0), 0];
        let at = bytes.map_or(std::ptr::null(), |_| arguments.as_ptr().cast());
        // SAFETY: any handle may be handed in; the arguments are as long as any version's.
        assert_eq!(unsafe { (self.table::<InitV5>().record_event_state)(handle as *mut c_void, state, at) }, 0);
    }

    pub fn finalize(&self, context: usize) {
        // SAFETY: any value may be handed in.
        assert_eq!(unsafe { (self.table::<InitV5>().finalize)(context as *mut c_void) }, 0);
    }

    pub fn close(&self) {
        // SAFETY: opened by `load`.
        unsafe { libc::dlclose(self.library) };
    }

    /// A collective is enqueued: start and stop.
    pub fn coll(&self, context: usize, coll: &CollOf) -> Handle {
        let handle = self.coll_start(context, coll);
        self.stop(handle);
        handle
    }

    pub fn coll_start(&self, context: usize, coll: &CollOf) -> Handle {
        let union = coll.union(self.version);
        self.start_raw(context, Descr::new(self.version, event::COLL, 0, coll.rank, &union).at())
    }

    /// A collective in a group: start and stop.
    pub fn coll_in(&self, context: usize, coll: &CollOf, group: Handle) -> Handle {
        let mut union = coll.union(self.version);
        union.v7.parent_group = group as *const c_void;
        let handle = self.start_raw(context, Descr::new(self.version, event::COLL, 0, coll.rank, &union).at());
        self.stop(handle);
        handle
    }

    /// A send or receive of float32.
    pub fn p2p(&self, context: usize, send: bool, peer: c_int, count: usize, channels: u8) -> Handle {
        let func = if send { c"Send" } else { c"Recv" }.as_ptr();
        let datatype = c"ncclFloat32".as_ptr();
        let handle = if self.version <= 3 {
            let p2p = P2pV2 { name: EMPTY, comm_hash: 1, func, buff: NOWHERE, datatype, count, peer };
            self.start_raw(context, Descr::new(self.version, event::P2P, 0, 0, &p2p).at())
        } else {
            let p2p = P2pV7 {
                func,
                buff: NOWHERE,
                datatype,
                count,
                peer,
                n_channels: channels,
                parent_group: NOWHERE,
                user_tag: 0,
            };
            self.start_raw(context, Descr::new(self.version, event::P2P, 0, 0, &p2p).at())
        };
        self.stop(handle);
        handle
    }

    /// An operation on the network begins.
    pub fn op(&self, context: usize, parent: Handle, channel: u8, peer: c_int, send: bool) -> Handle {
        // SAFETY: getpid has no preconditions.
        self.op_of(context, parent, unsafe { libc::getpid() }, channel, peer, send)
    }

    pub fn op_of(&self, context: usize, parent: Handle, pid: c_int, channel: u8, peer: c_int, send: bool) -> Handle {
        let op =
            ProxyOp { pid, channel_id: channel, peer, n_steps: 1, chunk_size: 1 << 19, is_send: c_int::from(send) };
        self.start_raw(context, Descr::new(self.version, event::PROXY_OP, parent, 0, &op).at())
    }

    pub fn step(&self, context: usize, parent: Handle, step: c_int) -> Handle {
        let step = ProxyStep { step };
        self.start_raw(context, Descr::new(self.version, event::PROXY_STEP, parent, 0, &step).at())
    }

    /// An event of a kind that only has a head.
    pub fn other(&self, context: usize, kind: u64) -> Handle {
        self.start_raw(context, Descr::new(self.version, kind, 0, 0, &ProxyStep { step: 0 }).at())
    }
}

/// A collective as tests describe it.
#[derive(Clone, Copy, Debug)]
pub struct CollOf {
    pub func: &'static CStr,
    pub algo: &'static CStr,
    pub datatype: &'static CStr,
    pub count: usize,
    pub root: c_int,
    pub rank: c_int,
    pub channels: u8,
    pub user_tag: u64,
}

/// A ring all-reduce of so many float32 on so many channels.
pub fn all_reduce(count: usize, channels: u8) -> CollOf {
    let (func, algo, datatype) = (c"AllReduce", c"RING", c"ncclFloat32");
    CollOf { func, algo, datatype, count, root: 0, rank: 0, channels, user_tag: 0 }
}

impl CollOf {
    /// As that version has it.
    pub fn union(&self, version: u8) -> CollAny {
        let (func, algo, datatype) = (self.func.as_ptr(), self.algo.as_ptr(), self.datatype.as_ptr());
        let (count, root, proto) = (self.count, self.root, c"SIMPLE".as_ptr());
        let (send_buff, recv_buff) = (NOWHERE, NOWHERE);
        match version {
            2 => CollAny {
                v2: CollV2 {
                    name: EMPTY,
                    comm_hash: 1,
                    seq: 1,
                    func,
                    send_buff,
                    recv_buff,
                    count,
                    root,
                    datatype,
                    between: [0; 2],
                    algo,
                    proto,
                },
            },
            3 => CollAny {
                v3: CollV3 {
                    name: EMPTY,
                    comm_hash: 1,
                    seq: 1,
                    func,
                    send_buff,
                    recv_buff,
                    count,
                    root,
                    datatype,
                    between: 0,
                    algo,
                    proto,
                },
            },
            _ => CollAny {
                v7: CollV7 {
                    seq: 1,
                    func,
                    send_buff,
                    recv_buff,
                    count,
                    root,
                    datatype,
                    n_channels: self.channels,
                    n_warps: 8,
                    algo,
                    proto,
                    parent_group: NOWHERE,
                    kernel_variant: EMPTY,
                    is_sym_coll: 0,
                    user_tag: self.user_tag,
                },
            },
        }
    }
}
