//! The handles of events: a static table of numbered slots. A handle is a slot's index and generation, never a pointer,
//! so that any number a caller hands in is either a living event's or nothing.
//!
//! A slot that was stopped keeps what it holds until it is used again, a few thousand events later: an operation on the
//! network begins long after its collective "stopped", and still names it as its parent. So an event whose end means
//! nothing is ended from the start ([`keep`]).

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Events that may be alive at once, and about how many back a parent is still known.
pub const SLOTS: usize = 4096;
/// Slots that are tried before an event is let go.
const PROBES: usize = 64;
/// The top byte of every handle: no address on this architecture looks so.
const TAG: u64 = 0x5e << 56;
const TAG_MASK: u64 = 0xff << 56;
const INDEX_BITS: u32 = SLOTS.trailing_zeros();
/// Generations fit between the tag and the index.
const GENERATIONS: u64 = 1 << (56 - INDEX_BITS);
/// Bits of a slot's word below the generation.
const LIVE: u64 = 1;
const FILLING: u64 = 2;
const WORD_BITS: u32 = 2;

/// What kind of event a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A collective, a send or a receive.
    Work,
    /// An operation on the network.
    Op,
    /// A chunk of such an operation.
    Step,
    /// A chunk on a socket, as the transport reports it.
    Net,
    /// One that only the profiler behind this one wants.
    Other,
}

impl Kind {
    fn of(raw: u64) -> Kind {
        match raw {
            0 => Kind::Work,
            1 => Kind::Op,
            2 => Kind::Step,
            3 => Kind::Net,
            _ => Kind::Other,
        }
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// The context of its communicator.
    pub comm: u64,
    /// Work: bytes of one send on the network. Step: bytes that moved. Net: bytes of the chunk. Op: one more than the rank at
    /// the other end.
    pub bytes: u64,
    /// Work, op, step, net: what `comm` packed.
    pub facts: u64,
    /// The handle of the profiler behind this one, or null.
    pub next: *mut c_void,
}

/// One cache line, so that threads with neighbouring events do not disturb each other.
#[repr(align(64))]
struct Slot {
    word: AtomicU64,
    kind: AtomicU64,
    comm: AtomicU64,
    bytes: AtomicU64,
    facts: AtomicU64,
    next: AtomicPtr<c_void>,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        word: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        comm: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        facts: AtomicU64::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
    }
}; SLOTS];
static CURSOR: AtomicUsize = AtomicUsize::new(0);

/// Takes a slot; `None` when a run of slots is alive: then the event is let go.
pub fn begin(entry: &Entry) -> Option<u64> {
    take(entry, LIVE)
}

/// Takes a slot for an event whose end means nothing: it has ended, and is known as a parent like any that has.
pub fn keep(entry: &Entry) -> Option<u64> {
    take(entry, 0)
}

fn take(entry: &Entry, live: u64) -> Option<u64> {
    for _ in 0..PROBES {
        let index = CURSOR.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let slot = TABLE.get(index)?;
        let word = slot.word.load(Ordering::Relaxed);
        if word & LIVE != 0 {
            continue;
        }
        let generation = ((word >> WORD_BITS) + 1) % GENERATIONS;
        let filled = generation << WORD_BITS | live;
        // Alive while it is filled, so that nobody else takes it.
        let filling = generation << WORD_BITS | LIVE | FILLING;
        if slot.word.compare_exchange(word, filling, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            continue;
        }
        fence(Ordering::Release);
        slot.kind.store(entry.kind as u64, Ordering::Relaxed);
        slot.comm.store(entry.comm, Ordering::Relaxed);
        slot.bytes.store(entry.bytes, Ordering::Relaxed);
        slot.facts.store(entry.facts, Ordering::Relaxed);
        slot.next.store(entry.next, Ordering::Relaxed);
        slot.word.store(filled, Ordering::Release);
        return Some(TAG | generation << INDEX_BITS | index as u64);
    }
    None
}

/// What a handle stands for, and whether it is still alive; `None` for anything that is not a handle, or an old one.
pub fn look(handle: u64) -> Option<(Entry, bool)> {
    let (slot, generation) = slot_of(handle)?;
    let word = slot.word.load(Ordering::Acquire);
    if word >> WORD_BITS != generation || word & FILLING != 0 || generation == 0 {
        return None;
    }
    let entry = Entry {
        kind: Kind::of(slot.kind.load(Ordering::Relaxed)),
        comm: slot.comm.load(Ordering::Relaxed),
        bytes: slot.bytes.load(Ordering::Relaxed),
        facts: slot.facts.load(Ordering::Relaxed),
        next: slot.next.load(Ordering::Relaxed),
    };
    // An old handle's slot may have been taken meanwhile; then what was read belongs together with nothing.
    fence(Ordering::Acquire);
    (slot.word.load(Ordering::Relaxed) >> WORD_BITS == generation).then_some((entry, word & LIVE != 0))
}

/// Ends an event, once: `None` for every further call.
pub fn end(handle: u64) -> Option<Entry> {
    let (entry, live) = look(handle)?;
    if !live {
        return None;
    }
    let (slot, generation) = slot_of(handle)?;
    let (live, dead) = (generation << WORD_BITS | LIVE, generation << WORD_BITS);
    slot.word.compare_exchange(live, dead, Ordering::AcqRel, Ordering::Relaxed).ok()?;
    Some(entry)
}

/// Replaces the bytes of a living event, and returns what was there.
pub fn swap_bytes(handle: u64, bytes: u64) -> u64 {
    match (look(handle), slot_of(handle)) {
        (Some(_), Some((slot, _))) => slot.bytes.swap(bytes, Ordering::Relaxed),
        _ => 0,
    }
}

/// Ends all events of a communicator.
pub fn end_all(comm: u64) {
    for slot in &TABLE {
        let word = slot.word.load(Ordering::Acquire);
        if word & (LIVE | FILLING) == LIVE && slot.comm.load(Ordering::Relaxed) == comm {
            let _ = slot.word.compare_exchange(word, word & !LIVE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

fn slot_of(handle: u64) -> Option<(&'static Slot, u64)> {
    if handle & TAG_MASK != TAG {
        return None;
    }
    let index = usize::try_from(handle & (SLOTS as u64 - 1)).ok()?;
    Some((TABLE.get(index)?, (handle & !TAG_MASK) >> INDEX_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn entry(comm: u64, bytes: u64) -> Entry {
        Entry { kind: Kind::Op, comm, bytes, facts: bytes + 1, next: ptr::null_mut() }
    }

    /// Against a map, with every handle ever given tried again: one test, since the table is the process's.
    #[test]
    fn a_handle_ends_once_and_is_nobody_elses() {
        let mut model: HashMap<u64, (u64, bool)> = HashMap::new();
        let mut all = Vec::new();
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..60_000_u64 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if !x.is_multiple_of(3) {
                let live = model.values().filter(|(_, live)| *live).count();
                if live > 2000 {
                    continue;
                }
                let handle = begin(&entry(1, step)).expect("there is room");
                assert!(model.insert(handle, (step, true)).is_none(), "a handle is given once");
                all.push(handle);
            } else if let Some(&handle) = all.get(x as usize % all.len().max(1)) {
                let known = model.get_mut(&handle).expect("given");
                match end(handle) {
                    Some(ended) => assert_eq!((ended.bytes, known.1), (known.0, true)),
                    None => assert!(!known.1, "a living event ends"),
                }
                known.1 = false;
            }
        }
        for wrong in [0, 1, u64::MAX, TAG, TAG | 5, 0x7fff_ffff_f000] {
            assert!(end(wrong).is_none() && swap_bytes(wrong, 1) == 0, "{wrong:#x}");
        }
        // A stopped event is still known as a parent, a living one is ended with its communicator.
        let (parent, other) = (begin(&entry(1, 7)).expect("room"), begin(&entry(2, 8)).expect("room"));
        assert!(end(parent).is_some() && look(parent).is_some_and(|(entry, live)| entry.bytes == 7 && !live));
        assert_eq!((swap_bytes(other, 9), swap_bytes(other, 0)), (8, 9));
        end_all(1);
        assert!(end(other).is_some());
        // One that has ended from the start is known as a parent, and has no end.
        let kept = keep(&entry(1, 5)).expect("room");
        assert_eq!(swap_bytes(kept, 6), 5);
        assert!(end(kept).is_none() && look(kept).is_some_and(|(entry, live)| entry.bytes == 6 && !live));
        // A full table lets events go, and takes them again when one ends.
        let held: Vec<u64> = std::iter::from_fn(|| begin(&entry(3, 0))).collect();
        assert!(held.len() > SLOTS - PROBES && held.len() <= SLOTS, "{}", held.len());
        end_all(3);
        assert!(begin(&entry(4, 0)).and_then(end).is_some());
    }
}
