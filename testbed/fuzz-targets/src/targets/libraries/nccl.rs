//! F19: the functions of the NCCL profiler, called with nothing, with the wrong version, in the wrong order.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;

use nccl_profiler_sluice::abi::{Finalize, RecordState, StartEvent, StopEvent, Version, event};
use nccl_profiler_sluice::descr::{Raw, at, size};
use nccl_profiler_sluice::{
    ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7,
};
use sluice_progress::guest;

use super::published;
use crate::mutate::Shape;
use crate::{Seed, Target};

/// Calls of 24 bytes each: which function of which version, for which communicator and event, with which fields.
pub static NCCL: Target = Target {
    name: "F19-nccl",
    parser: "the functions of the NCCL profiler, versions 2 to 7: null, misaligned, wrong versions, any order, any handle",
    property: "success whatever is given, no panic inside, and not a byte written but handle, mask and context; descriptors stay as they were",
    shape: Shape::Bytes,
    run: nccl,
    seeds,
};

/// Bytes of a call.
const CALL: usize = 24;
/// Calls of one input, and communicators among them, at most.
const CALLS: usize = 300;
const COMMUNICATORS: usize = 4;
/// Stands around what may be written.
const GUARD: u64 = 0x5a5a_1234_5a5a_4321;

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Counts panics that the library catches. It would silence them all; so it does that first, and then is overruled.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        guest::quiet_panics();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            told(info);
        }));
    });
}

/// The functions of a version but `init`.
struct Functions {
    start: StartEvent,
    stop: StopEvent,
    state: RecordState,
    finalize: Finalize,
}

fn functions(version: Version) -> Functions {
    macro_rules! of {
        ($table:expr) => {
            Functions {
                start: $table.start_event,
                stop: $table.stop_event,
                state: $table.record_event_state,
                finalize: $table.finalize,
            }
        };
    }
    match version {
        2 => of!(ncclProfiler_v2),
        3 => of!(ncclProfiler_v3),
        4 => of!(ncclProfiler_v4),
        5 => of!(ncclProfiler_v5),
        6 => of!(ncclProfiler_v6),
        _ => of!(ncclProfiler_v7),
    }
}

/// A place that may be written, between two that may not.
#[repr(C)]
struct Place(u64, *mut c_void, u64);

impl Place {
    fn new() -> Place {
        Place(GUARD, ptr::dangling_mut(), GUARD)
    }

    fn check(&self) {
        assert_eq!((self.0, self.2), (GUARD, GUARD), "written beside its place");
    }
}

/// Texts that descriptors point to, each with room behind for whoever takes it for a struct.
static TEXTS: Texts = Texts([
    text(b"AllReduce"),
    text(b"ncclFloat16"),
    text(b"RING"),
    text(b"\x01 begins what the socket transport tells"),
]);

#[repr(C, align(8))]
struct Texts([[u8; 64]; 4]);

const fn text(given: &[u8]) -> [u8; 64] {
    let mut text = [0; 64];
    let mut at = 0;
    while at < given.len() {
        text[at] = given[at];
        at += 1;
    }
    text
}

fn nccl(bytes: &[u8]) {
    published();
    watch_panics();
    let before = PANICS.get();
    let (mut contexts, mut handles): (Vec<*mut c_void>, Vec<*mut c_void>) = (Vec::new(), Vec::new());
    for call in bytes.chunks_exact(CALL).take(CALLS) {
        let version = 2 + call[1] % 6;
        let functions = functions(version);
        let word = |at: usize| u64::from_le_bytes(call[at..at + 8].try_into().expect("eight bytes"));
        let one_of = |list: &[*mut c_void]| match list.get(usize::from(call[2]) % list.len().max(1)) {
            Some(known) if call[3] % 4 > 0 => *known,
            _ => word(8) as *mut c_void,
        };
        let given = match call[0] % 6 {
            0 if contexts.len() < COMMUNICATORS => init(version, call, &mut contexts),
            0 | 1 => {
                let (raw, mut place) = (descriptor(version, call, &handles), Place::new());
                let descr = if call[4] == 255 { ptr::null() } else { (&raw const raw).cast() };
                let to = if call[5] == 255 { ptr::null_mut() } else { &raw mut place.1 };
                let copy = raw;
                // SAFETY: a descriptor as long as any version's, or none; a place for a handle, or none.
                let given = unsafe { (functions.start)(one_of(&contexts), to, descr) };
                assert!(copy == raw, "a descriptor is only read");
                place.check();
                if !to.is_null() && !place.1.is_null() {
                    handles.push(place.1);
                }
                given
            }
            2 | 3 => {
                // SAFETY: any value is taken.
                unsafe { (functions.stop)(one_of(&handles)) }
            }
            4 => {
                let arguments = [word(8), word(16), GUARD, 0];
                let to = if call[4] % 4 == 0 { ptr::null() } else { arguments.as_ptr().cast() };
                // SAFETY: as many bytes as any state's arguments have, or none.
                let given = unsafe { (functions.state)(one_of(&handles), c_int::from(call[5]) - 1, to) };
                assert_eq!(arguments[2], GUARD, "arguments are only read");
                given
            }
            _ => {
                let context = one_of(&contexts);
                contexts.retain(|known| *known != context);
                // SAFETY: any value is taken.
                unsafe { (functions.finalize)(context) }
            }
        };
        assert_eq!(given, 0, "success, whatever is given: {call:02x?}");
        assert_eq!(PANICS.get(), before, "a panic inside: {call:02x?}");
    }
    for context in contexts {
        // SAFETY: any value is taken.
        assert_eq!(unsafe { (ncclProfiler_v4.finalize)(context) }, 0);
    }
    assert_eq!(PANICS.get(), before, "a panic inside at the end");
}

fn init(version: Version, call: &[u8], contexts: &mut Vec<*mut c_void>) -> c_int {
    let (mut place, mut mask) = (Place::new(), [c_int::MAX, 0x55, c_int::MAX]);
    let to = if call[4] == 255 { ptr::null_mut() } else { &raw mut place.1 };
    let wanted = if call[5] == 255 { ptr::null_mut() } else { &raw mut mask[1] };
    let name = if call[6].is_multiple_of(4) {
        ptr::null()
    } else {
        TEXTS.0[usize::from(call[6]) % TEXTS.0.len()].as_ptr().cast()
    };
    let number = |at: usize| c_int::from_le_bytes(call[at..at + 4].try_into().expect("four bytes"));
    let id = u64::from_le_bytes(call[8..16].try_into().expect("eight bytes"));
    let (nodes, ranks, rank) = (number(8), number(12), number(16));
    // SAFETY: places that may be written, or none; a text with its end, or none.
    let given = unsafe {
        match version {
            2 => (ncclProfiler_v2.init)(to, wanted),
            3 => (ncclProfiler_v3.init)(to, wanted),
            4 => (ncclProfiler_v4.init)(to, wanted, name, id, nodes, ranks, rank, None),
            5 => (ncclProfiler_v5.init)(to, id, wanted, name, nodes, ranks, rank, None),
            6 => (ncclProfiler_v6.init)(to, id, wanted, name, nodes, ranks, rank, None),
            _ => (ncclProfiler_v7.init)(to, id, wanted, name, nodes, ranks, rank, None),
        }
    };
    place.check();
    assert_eq!((mask[0], mask[2]), (c_int::MAX, c_int::MAX), "written beside the mask");
    if !to.is_null() && !place.1.is_null() {
        contexts.push(place.1);
    }
    given
}

/// A descriptor of this version with any fields; pointers lead to a text or nowhere.
fn descriptor(version: Version, call: &[u8], handles: &[*mut c_void]) -> Raw {
    let mut raw = Raw::default();
    for place in (0..Raw::BYTES - 8).step_by(8) {
        let mut word = [0; 8];
        word.copy_from_slice(&call[8 + place % 9..16 + place % 9]);
        raw.put(place, word);
    }
    let kind = 1_u64 << (call[6] % 16);
    if version <= 4 {
        raw.put(at::TYPE, [kind as u8])
    } else {
        raw.put(at::TYPE, kind.to_ne_bytes())
    }
    let parent = handles.get(usize::from(call[7]) % handles.len().max(1)).map_or(0, |handle| *handle as u64);
    raw.put(at::PARENT, parent.to_ne_bytes());
    let pointer = |number: usize| match usize::from(call[3]).wrapping_add(number) % 5 {
        0 => 0,
        other => TEXTS.0[other - 1].as_ptr() as u64,
    };
    let mut point = |places: &[usize]| {
        for (number, place) in places.iter().enumerate() {
            raw.put(*place, pointer(number).to_ne_bytes());
        }
    };
    match (kind, version) {
        (event::COLL, 2 | 3) => {
            point(&[at::v2::COLL_FUNC, at::v2::COLL_DATATYPE, at::v2::COLL_ALGO_V2, at::v2::COLL_ALGO_V3])
        }
        (event::COLL, _) => point(&[at::v4::COLL_FUNC, at::v4::COLL_DATATYPE, at::v4::COLL_ALGO]),
        (event::P2P, 2 | 3) => point(&[at::v2::P2P_FUNC, at::v2::P2P_DATATYPE]),
        (event::P2P, _) => point(&[at::v4::P2P_FUNC, at::v4::P2P_DATATYPE]),
        (event::NET_PLUGIN, _) => {
            point(&[at::net::DATA]);
            if call[4].is_multiple_of(2) {
                // The socket transport's, whose data is read.
                raw.put(at::net::ID, 0x2_0001_u64.to_ne_bytes());
            }
        }
        _ => {}
    }
    const { assert!(size(7) == Raw::BYTES) };
    raw
}

/// A life in NCCL's order for two versions, and calls without anything before.
fn seeds() -> Vec<Seed> {
    let call = |what: u8, version: u8, kind: u8| {
        let mut call = [0; CALL];
        (call[0], call[1], call[3], call[4], call[6]) = (what, version - 2, 1, 1, kind);
        call[8..12].copy_from_slice(&2_i32.to_le_bytes());
        call[12..16].copy_from_slice(&4_i32.to_le_bytes());
        call[16..20].copy_from_slice(&1_i32.to_le_bytes());
        call
    };
    let life = |version: u8| {
        let state = |state: u8| {
            let mut call = call(4, version, 0);
            call[5] = state + 1;
            call
        };
        let events = [0, 1, 3, 4, 7, 2].map(|kind| call(1, version, kind));
        let ends =
            [state(9), call(2, version, 0), call(2, version, 0), state(12), call(3, version, 0), call(5, version, 0)];
        [&[call(0, version, 1)][..], &events, &ends].concat().concat()
    };
    let strange: Vec<u8> = (2..8)
        .flat_map(|version| {
            [call(2, version, 0), call(4, version, 0), call(5, version, 0), call(1, version, 1)].concat()
        })
        .collect();
    vec![
        Seed::new("life-4", life(4)),
        Seed::new("life-7", life(7)),
        Seed::new("life-2", life(2)),
        Seed::new("strange", strange),
    ]
}
