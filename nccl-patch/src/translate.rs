//! Events of one version of the interface as an older version has them, as NCCL itself hands them to an older plug-in.
//!
//! Fields that an older version has elsewhere are moved, those that it does not have are left out, and those that only it
//! has are empty. An event or a state that it does not know does not reach it.

use std::ffi::c_int;

use crate::abi::{Version, event, state};
use crate::descr::{Descr, Raw, at};

/// All events that a version knows.
pub fn known(version: Version) -> u64 {
    match version {
        0 | 1 => 0,
        2 => (event::PROXY_CTRL << 1) - 1,
        3 | 4 => (event::NET_PLUGIN << 1) - 1,
        5 => (event::KERNEL_LAUNCH << 1) - 1,
        6 => (event::CE_BATCH << 1) - 1,
        _ => u64::MAX,
    }
}

/// The events that NCCL sends a profiler that asks for these: with each those that are its parents.
pub fn with_parents(asked: u64) -> u64 {
    use event::*;
    let asked = if asked & KERNEL_PHASE != 0 { asked | KERNEL_CH } else { asked };
    let below = |events: u64, parent: u64| if asked & events != 0 { parent } else { 0 };
    let steps = PROXY_STEP | NET_PLUGIN;
    let work = PROXY_OP | steps | KERNEL_CH;
    let copies = CE_COLL | CE_SYNC | CE_BATCH;
    asked
        | below(steps, PROXY_STEP)
        | below(PROXY_OP | steps, PROXY_OP)
        | below(work, COLL | P2P)
        | below(work | COLL | P2P, GROUP)
        | below(work | COLL | copies, COLL_API)
        | below(work | P2P, P2P_API)
        | below(work | GROUP | COLL | P2P | COLL_API | P2P_API | KERNEL_LAUNCH | copies, GROUP_API)
        | below(copies, CE_COLL)
}

/// Where a kind's fields end in the versions from 4 on.
fn end(kind: u64, version: Version) -> usize {
    let since_7 = |before: usize, now: usize| if version >= 7 { now } else { before };
    match kind {
        event::COLL if version == 4 => 104,
        event::COLL => since_7(112, 136),
        event::P2P if version == 4 => 64,
        event::P2P => since_7(72, 80),
        event::PROXY_OP => 48,
        event::PROXY_STEP => 28,
        event::KERNEL_CH | event::NET_PLUGIN => 40,
        event::GROUP_API | event::KERNEL_LAUNCH | event::CE_SYNC => 32,
        event::COLL_API => since_7(72, 80),
        event::P2P_API => since_7(64, 72),
        event::CE_COLL => since_7(112, 120),
        event::CE_BATCH => 48,
        _ => at::UNION,
    }
}

/// Offset, offset in the other version, bytes.
type Moves = &'static [(usize, usize, usize)];

/// From versions 4 to 7 to 3. What 2 and 3 had before, name and hash of the communicator, stays empty: 4 gave it up.
const COLL_4_TO_3: Moves = &[(24, 40, 44), (72, 88, 8), (80, 96, 2), (88, 104, 16)];
const COLL_4_TO_2: Moves = &[(24, 40, 44), (72, 88, 8), (80, 104, 2), (88, 112, 16)];
const COLL_3_TO_2: Moves = &[(24, 24, 72), (96, 104, 2), (104, 112, 16)];
const P2P_4_TO_3: Moves = &[(24, 40, 36)];
const P2P_3_TO_2: Moves = &[(24, 24, 52)];
const PROXY_OP: Moves = &[(24, 24, 24)];
const PROXY_STEP: Moves = &[(24, 24, 4)];
const KERNEL_CH_TO_3: Moves = &[(24, 24, 1)];
const NET_PLUGIN: Moves = &[(24, 24, 16)];

/// What moves where in a descriptor of version 2 or 3.
fn moves(kind: u64, from: Version, to: Version) -> Moves {
    match (kind, from >= 4, to) {
        (event::COLL, true, 3) => COLL_4_TO_3,
        (event::COLL, true, _) => COLL_4_TO_2,
        (event::COLL, false, _) => COLL_3_TO_2,
        (event::P2P, true, _) => P2P_4_TO_3,
        (event::P2P, false, _) => P2P_3_TO_2,
        (event::PROXY_OP, ..) => PROXY_OP,
        (event::PROXY_STEP, ..) => PROXY_STEP,
        (event::KERNEL_CH, ..) => KERNEL_CH_TO_3,
        (event::NET_PLUGIN, ..) => NET_PLUGIN,
        _ => &[],
    }
}

/// The descriptor as version `to` has it, which is this one's or an older one. `None`: it has no such event.
pub fn descr(of: &Descr, to: Version) -> Option<Raw> {
    let (kind, from, whole) = (of.kind(), of.version(), of.copy());
    if from == to {
        return Some(whole);
    }
    if to > from || kind & known(to) == 0 {
        return None;
    }
    let mut new = Raw::default();
    if to <= 4 {
        new.put::<1>(at::TYPE, [u8::try_from(kind).ok()?]);
    } else {
        new.put(at::TYPE, kind.to_ne_bytes());
    }
    new.take(&whole, at::PARENT, at::PARENT, 12);
    // Up to version 4 work is below its group, from 5 on below the call that asked for it, and the group stands apart.
    if let (Some(group), true) = (of.group_at(), to <= 4) {
        new.take(&whole, group, at::PARENT, 8);
    }
    if to <= 3 {
        for (before, now, bytes) in moves(kind, from, to) {
            new.take(&whole, *before, *now, *bytes);
        }
    } else {
        new.take(&whole, at::UNION, at::UNION, end(kind, to) - at::UNION);
    }
    Some(new)
}

/// What a state of an event is to an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// With the arguments as they are.
    AsIs,
    /// With arguments of which only this number is set.
    Number,
    /// With arguments that say nothing.
    Empty,
    /// It does not know it.
    Not,
}

/// How a state that NCCL tells in version `from` is told in version `to`.
pub fn state(from: Version, to: Version, state: c_int) -> Told {
    let step = matches!(state, state::SEND_GPU_WAIT..=state::RECV_GPU_WAIT);
    let control = matches!(state, state::CTRL_FIRST..=state::CTRL_LAST);
    match to {
        _ if from == to => Told::AsIs,
        // Both have the states of operations that version 4 gave up, with the same arguments.
        2 | 3 if from <= 3 => Told::AsIs,
        // Theirs are longer and lie differently: bytes of a step are none of them.
        2 | 3 if step => Told::Empty,
        2 | 3 if control => Told::Number,
        2 | 3 => Told::Not,
        4 if (state::SEND_GPU_WAIT..=state::KERNEL_STOP).contains(&state) => Told::AsIs,
        5 if (state::SEND_GPU_WAIT..=state::GROUP_LAST).contains(&state) => Told::AsIs,
        6 if state <= state::CE_LAST => Told::AsIs,
        _ => Told::Not,
    }
}

#[cfg(test)]
mod tests;
