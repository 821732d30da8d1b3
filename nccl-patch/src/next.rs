//! The profiler behind this one (`SLUICE_NCCL_NEXT`): NCCL has one slot, so whoever had it gets every call from here.
//!
//! It sees what it would see without Sluice: the events it asked for, in the version of the interface that NCCL itself would
//! have chosen for it, with its own handles and contexts and its own parents.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::OnceLock;

use crate::abi::{Finalize, InitV2, InitV4, InitV5, Logger, Profiler, RecordState, StartEvent, StopEvent, Version};
use crate::descr::{Descr, at};
use crate::events;
use crate::translate::{self, Told};

/// The environment variable that names the next library.
pub const VARIABLE: &str = "SLUICE_NCCL_NEXT";
/// Versions of the interface that a next library may have.
const OLDEST: Version = 2;
const NEWEST: Version = 7;

/// The functions of the next library.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    version: Version,
    /// That of NCCL, and so of what it says.
    of: Version,
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
    /// Those that it gets.
    gets: u64,
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

/// Loads what the environment names, once for each version that NCCL speaks. `Ok(None)`: it names nothing.
///
/// # Errors
/// What cannot be loaded, and why.
pub fn load(version: Version) -> Result<Option<Next>, &'static str> {
    static LOADED: [OnceLock<Result<Option<Next>, String>>; NEWEST as usize + 1] =
        [const { OnceLock::new() }; NEWEST as usize + 1];
    let Some(loaded) = LOADED.get(usize::from(version)) else { return Ok(None) };
    match loaded.get_or_init(|| open(version)) {
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
    let table = |version: Version| {
        let name = CString::new(format!("ncclProfiler_v{version}")).ok()?;
        // SAFETY: the library is open, the name NUL-terminated.
        let table = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!table.is_null()).then_some((version, table))
    };
    // As NCCL looks: its own version first, then the older ones.
    let Some((own, table)) = (OLDEST..=version).rev().find_map(table) else {
        let has: Vec<String> = (1..=NEWEST).filter_map(table).map(|(version, _)| format!("v{version}")).collect();
        let has = if has.is_empty() { "no table of a profiler".to_owned() } else { has.join(", ") };
        return Err(format!(
            "{shown} has {has}, and this NCCL speaks v{version} with Sluice, so v{OLDEST} to v{version} would do"
        ));
    };
    let symbol = format!("ncclProfiler_v{own}");
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
        match own {
            2 | 3 => Next::of(own, version, &*table.cast::<Profiler<InitV2>>(), Init::V2),
            4 => Next::of(own, version, &*table.cast::<Profiler<InitV4>>(), Init::V4),
            _ => Next::of(own, version, &*table.cast::<Profiler<InitV5>>(), Init::V5),
        }
    };
    Ok(Some(next))
}

impl Next {
    fn of<I: Copy>(version: Version, of: Version, table: &Profiler<I>, init: fn(I) -> Init) -> Next {
        Next {
            version,
            of,
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
        if result != 0 {
            return None;
        }
        // What its version has no words for, NCCL would not send it.
        let asked = u64::from(mask.cast_unsigned()) & translate::known(self.version);
        let mask = c_int::try_from(asked & u64::from(c_int::MAX.cast_unsigned())).unwrap_or(0);
        Some(Behind { next: self, context, mask, gets: translate::with_parents(asked) })
    }
}

impl Behind {
    /// Passes an event on; its handle, null for an event it did not ask for or does not follow.
    pub fn start(&self, descr: &Descr) -> *mut c_void {
        if descr.kind() & self.gets == 0 {
            return ptr::null_mut();
        }
        let Some(mut copy) = translate::descr(descr, self.next.version) else { return ptr::null_mut() };
        let group = descr.group_at().filter(|_| self.next.version >= 5);
        for offset in [Some(at::PARENT), group].into_iter().flatten() {
            let parent = events::look(copy.word(offset)).map_or(0, |(entry, _)| entry.next as u64);
            copy.put(offset, parent.to_ne_bytes());
        }
        let mut handle = ptr::null_mut();
        // SAFETY: a descriptor of this version with parents of its own, and its own context.
        unsafe { (self.next.start)(self.context, &mut handle, (&raw const copy).cast()) };
        handle
    }

    pub fn stop(&self, handle: *mut c_void) {
        if !handle.is_null() {
            // SAFETY: a handle of its own that has not been ended.
            unsafe { (self.next.stop)(handle) };
        }
    }

    pub fn state(&self, handle: *mut c_void, state: c_int, arguments: *const c_void) {
        if handle.is_null() {
            return;
        }
        let mut own = [0_u64; 2];
        let own = match translate::state(self.next.of, self.next.version, state) {
            Told::Not => return,
            // An older version's plug-in always had arguments, so it may not ask whether there are any.
            Told::AsIs if arguments.is_null() && self.next.of != self.next.version => own.as_ptr().cast(),
            Told::AsIs => arguments,
            Told::Number if !arguments.is_null() => {
                // SAFETY: at such a state NCCL's arguments hold a number.
                own[0] = u64::from(unsafe { arguments.cast::<u32>().read_unaligned() });
                own.as_ptr().cast()
            }
            Told::Number | Told::Empty => own.as_ptr().cast(),
        };
        // SAFETY: a handle of its own that has not been ended; the arguments are NCCL's, or as long as its version's.
        unsafe { (self.next.state)(handle, state, own) };
    }

    /// Passes the end of the communicator on.
    pub fn finalize(&self) {
        // SAFETY: its own context.
        unsafe { (self.next.finalize)(self.context) };
    }
}
