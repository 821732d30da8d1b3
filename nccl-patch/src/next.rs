//! The profiler behind this one (`SLUICE_NCCL_NEXT`): NCCL has one slot, so whoever had it gets every call from here.
//!
//! It sees what it would see without Sluice: the events it asked for, its own handles and contexts, its own parents.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::OnceLock;

use crate::abi::{Finalize, InitV2, InitV4, InitV5, Logger, Profiler, RecordState, StartEvent, StopEvent, Version};
use crate::descr::{Descr, at};
use crate::events;

/// The environment variable that names the next library.
pub const VARIABLE: &str = "SLUICE_NCCL_NEXT";

/// The functions of the next library.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    init: Init,
    start: StartEvent,
    stop: StopEvent,
    state: RecordState,
    finalize: Finalize,
}

#[derive(Clone, Copy, Debug)]
enum Init {
    V2(InitV2),
    V4(InitV4),
    V5(InitV5),
}

#[derive(Clone, Copy, Debug)]
pub struct Behind {
    next: Next,
    context: *mut c_void,
    /// The events it asked for.
    pub mask: c_int,
}

// SAFETY: the context is only handed back to the profiler that it came from, which NCCL too calls from any thread.
unsafe impl Send for Behind {}
// SAFETY: as above.
unsafe impl Sync for Behind {}

/// What NCCL said of a communicator.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The communicator's id or hash.
    pub id: u64,
    /// Its name, or null.
    pub name: *const c_char,
    /// How many hosts the communicator has.
    pub nnodes: c_int,
    /// How many ranks it has.
    pub nranks: c_int,
    /// Rank of this process in it.
    pub rank: c_int,
    /// The logger that NCCL gave, if it did.
    pub logger: Option<Logger>,
}

/// Loads what the environment names, once. `Ok(None)`: it names nothing.
///
/// # Errors
/// What cannot be loaded, and why.
pub fn load(version: Version) -> Result<Option<Next>, &'static str> {
    static LOADED: OnceLock<(Version, Result<Option<Next>, String>)> = OnceLock::new();
    let (of, loaded) = LOADED.get_or_init(|| (version, open(version)));
    match loaded {
        Ok(Some(_)) if *of != version => Err("it was loaded for another version of the interface"),
        Ok(next) => Ok(*next),
        Err(why) => Err(why),
    }
}

fn open(version: Version) -> Result<Option<Next>, String> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return Ok(None) };
    let shown = path.to_string_lossy().into_owned();
    let path = CString::new(path.into_vec()).map_err(|_| format!("{shown:?} holds a NUL"))?;
    // SAFETY: the path is NUL-terminated; that the library may be loaded is what naming it says.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(format!("{shown} cannot be loaded"));
    }
    let symbol = format!("ncclProfiler_v{version}");
    let name = CString::new(symbol.as_str()).unwrap_or_default();
    // SAFETY: the library is open, the name NUL-terminated.
    let table = unsafe { libc::dlsym(library, name.as_ptr()) };
    if table.is_null() {
        return Err(format!("{shown} has no {symbol}, the version that this NCCL speaks with Sluice"));
    }
    let pointers = table.cast::<[*const c_void; 6]>();
    if !pointers.is_aligned() {
        return Err(format!("{shown}: {symbol} is not a table of functions"));
    }
    // SAFETY: a symbol of this name is six pointers by NCCL's interface, and aligned.
    let functions = unsafe { pointers.read() };
    if functions.iter().skip(1).any(|function| function.is_null()) {
        return Err(format!("{shown}: {symbol} lacks a function"));
    }
    // SAFETY: the table has this layout in this version; no function in it is null.
    let next = unsafe {
        match version {
            2 | 3 => Next::of(&*table.cast::<Profiler<InitV2>>(), Init::V2),
            4 => Next::of(&*table.cast::<Profiler<InitV4>>(), Init::V4),
            _ => Next::of(&*table.cast::<Profiler<InitV5>>(), Init::V5),
        }
    };
    Ok(Some(next))
}

impl Next {
    fn of<I: Copy>(table: &Profiler<I>, init: fn(I) -> Init) -> Next {
        Next {
            init: init(table.init),
            start: table.start_event,
            stop: table.stop_event,
            state: table.record_event_state,
            finalize: table.finalize,
        }
    }

    /// Sets it up for a communicator; `None` if it does not want to. `mask`: what NCCL's mask holds before.
    pub fn init(self, arguments: &Arguments, mut mask: c_int) -> Option<Behind> {
        let mut context = ptr::null_mut();
        let Arguments { id, name, nnodes, nranks, rank, logger } = *arguments;
        // SAFETY: the arguments are NCCL's own, but for two places of ours.
        let result = unsafe {
            match self.init {
                Init::V2(init) => init(&mut context, &mut mask),
                Init::V4(init) => init(&mut context, &mut mask, name, id, nnodes, nranks, rank, logger),
                Init::V5(init) => init(&mut context, id, &mut mask, name, nnodes, nranks, rank, logger),
            }
        };
        (result == 0).then_some(Behind { next: self, context, mask })
    }
}

impl Behind {
    /// Passes an event on; its handle, null for an event it did not ask for or does not follow.
    pub fn start(&self, descr: &Descr) -> *mut c_void {
        if descr.kind() & u64::from(self.mask.cast_unsigned()) == 0 {
            return ptr::null_mut();
        }
        let mut copy = descr.copy();
        for offset in [Some(at::PARENT), descr.group_at()].into_iter().flatten() {
            if let Some(parent) = copy.get_mut(offset / 8) {
                *parent = events::look(*parent).map_or(0, |(entry, _)| entry.next as u64);
            }
        }
        let mut handle = ptr::null_mut();
        // SAFETY: a descriptor of this version with parents of its own, and its own context.
        unsafe { (self.next.start)(self.context, &mut handle, copy.as_ptr().cast()) };
        handle
    }

    pub fn stop(&self, handle: *mut c_void) {
        if !handle.is_null() {
            // SAFETY: a handle of its own that has not been ended.
            unsafe { (self.next.stop)(handle) };
        }
    }

    pub fn state(&self, handle: *mut c_void, state: c_int, arguments: *const c_void) {
        if !handle.is_null() {
            // SAFETY: a handle of its own that has not been ended; the arguments are NCCL's.
            unsafe { (self.next.state)(handle, state, arguments) };
        }
    }

    /// Passes the end of the communicator on.
    pub fn finalize(&self) {
        // SAFETY: its own context.
        unsafe { (self.next.finalize)(self.context) };
    }
}
