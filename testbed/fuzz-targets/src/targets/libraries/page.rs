//! F20: the C functions of the progress page, in any order and with any handle.

use std::ffi::{CString, c_int};
use std::ptr;

use sluice_progress::{
    SluiceIdent, SluicePeer, sluice_close, sluice_enqueue, sluice_iteration, sluice_net_begin, sluice_net_end,
    sluice_open, sluice_peer, sluice_peer_sent, sluice_received, sluice_sent, sluice_state, sluice_version,
};

use super::published;
use crate::mutate::Shape;
use crate::{Seed, Target};

/// Calls of twelve bytes each: which, for which handle, with which number.
pub static PAGE_API: Target = Target {
    name: "F20-page-api",
    parser: "the C functions `sluice_*`, in any order, with any handle and number",
    property: "a good handle gives 0, a bad one -1, and nothing else happens; handles are those that were given",
    shape: Shape::Bytes,
    run: api,
    seeds,
};

/// Handles at one time, as the library has them.
const MOST: usize = 64;
/// Calls of one input at most.
const CALLS: usize = 400;

fn api(bytes: &[u8]) {
    published();
    assert_eq!(sluice_version(), 1000);
    let mut open: Vec<c_int> = Vec::new();
    for call in bytes.chunks_exact(12).take(CALLS) {
        let (what, which) = (call[0], call[1]);
        let number = u64::from_le_bytes([call[4], call[5], call[6], call[7], call[8], call[9], call[10], call[11]]);
        // One in two calls goes to a handle that there is.
        let handle = match open.get(usize::from(which / 2) % open.len().max(1)) {
            Some(handle) if which % 2 == 0 => *handle,
            _ => c_int::from_le_bytes([call[2], call[3], call[8], call[9]]),
        };
        let good = open.contains(&handle);
        let expected = if good { 0 } else { -1 };
        let given = match what % 12 {
            0 => {
                let handle = opened(call, number);
                if handle >= 0 {
                    assert!((handle as usize) < MOST && !open.contains(&handle), "handle {handle} is new");
                    open.push(handle);
                }
                continue;
            }
            1 => sluice_enqueue(handle, number, number.rotate_left(7)),
            2 => sluice_net_begin(handle),
            3 => sluice_net_end(handle),
            4 => sluice_sent(handle, number),
            5 => sluice_received(handle, number),
            6 => sluice_iteration(handle),
            7 => sluice_state(handle, number),
            8 => {
                let index = peer(handle, call, number);
                assert!(index >= -1 && (good || index == -1), "{index} of {handle}");
                continue;
            }
            9 => sluice_peer_sent(handle, number as c_int, number),
            _ => {
                open.retain(|other| *other != handle);
                sluice_close(handle)
            }
        };
        assert_eq!(given, expected, "call {what} of handle {handle}");
    }
    for handle in open {
        assert_eq!(sluice_close(handle), 0);
        assert_eq!(sluice_close(handle), -1, "it is closed");
    }
}

fn opened(call: &[u8], number: u64) -> c_int {
    let text = CString::new(call.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>()).unwrap_or_default();
    let text = |null: bool| if null { ptr::null() } else { text.as_ptr() };
    let whole = size_of::<SluiceIdent>() as u32;
    let ident = SluiceIdent {
        size: if call[1].is_multiple_of(8) { u32::from(call[2]) } else { whole },
        source: number as u32,
        job_id: text(call[1].is_multiple_of(3)),
        producer: text(call[1].is_multiple_of(5)),
        comm_id: number,
        rank: (number >> 32) as u32,
        nranks: number as u32,
        nnodes: u32::from(call[3]),
        local_rank: u32::MAX,
        pattern: number as u32 % 6,
        role: number as u32,
        hint_iter_bytes: number,
        hint_compute_ns: number,
    };
    // SAFETY: a struct with its size, or a size below its own; texts end with a zero, or are null.
    unsafe { sluice_open(&raw const ident) }
}

fn peer(handle: c_int, call: &[u8], number: u64) -> c_int {
    let mut address = [0; 16];
    address[..12].copy_from_slice(call);
    if call[1].is_multiple_of(4) {
        address[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }
    let whole = size_of::<SluicePeer>() as u32;
    let peer = SluicePeer {
        size: if call[1] % 8 == 7 { 0 } else { whole },
        rank: number as u32,
        kind: u16::from(call[2]),
        lport: number as u16,
        rport: (number >> 16) as u16,
        reserved: 0,
        laddr: address,
        raddr: address,
        cookie: number,
    };
    // SAFETY: a struct with its size, or nothing at all.
    unsafe { sluice_peer(handle, if call[1] % 16 == 5 { ptr::null() } else { &raw const peer }) }
}

/// A life of a page, one of several at once, and calls for handles that nobody gave.
fn seeds() -> Vec<Seed> {
    let call = |what: u8, which: u8, number: u64| {
        let mut bytes = vec![what, which, 0, 0];
        bytes.extend(number.to_le_bytes());
        bytes
    };
    let life = [
        call(0, 1, 7),
        call(8, 2, 9),
        call(1, 0, 1000),
        call(2, 0, 0),
        call(4, 0, 10),
        call(9, 0, 0),
        call(3, 0, 0),
        call(6, 0, 0),
        call(10, 0, 0),
    ];
    let several: Vec<u8> = (0..4).flat_map(|n| [call(0, 1, n), call(1, 2 * n as u8, 5)]).flatten().collect();
    let strange = [call(1, 1, 5), call(10, 1, 64 << 32), call(8, 1, 1), call(7, 1, u64::MAX)];
    vec![Seed::new("life", life.concat()), Seed::new("several", several), Seed::new("strange", strange.concat())]
}
