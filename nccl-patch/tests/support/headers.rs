//! The structs of NCCL's profiler headers, versions 2 to 7, as a C compiler lays them out: the union's members that the
//! tests fill, and the head before them.

use std::ffi::{c_char, c_int, c_void};

/// No pointer.
pub const NOWHERE: *const c_void = std::ptr::null();
/// No text.
pub const EMPTY: *const c_char = std::ptr::null();

/// The head of versions 2 to 4.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Head8 {
    pub kind: u8,
    pub parent_obj: usize,
    pub rank: c_int,
    pub union_at: [u64; 0],
}

/// The head of versions 5 to 7.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Head64 {
    pub kind: u64,
    pub parent_obj: usize,
    pub rank: c_int,
    pub union_at: [u64; 0],
}

/// Versions 4 (to `proto`), 5 and 6 (to `parent_group`), 7.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollV7 {
    pub seq: u64,
    pub func: *const c_char,
    pub send_buff: *const c_void,
    pub recv_buff: *const c_void,
    pub count: usize,
    pub root: c_int,
    pub datatype: *const c_char,
    pub n_channels: u8,
    pub n_warps: u8,
    pub algo: *const c_char,
    pub proto: *const c_char,
    pub parent_group: *const c_void,
    pub kernel_variant: *const c_char,
    pub is_sym_coll: u8,
    pub user_tag: u64,
}

/// Version 2.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollV2 {
    pub name: *const c_char,
    pub comm_hash: u64,
    pub seq: u64,
    pub func: *const c_char,
    pub send_buff: *const c_void,
    pub recv_buff: *const c_void,
    pub count: usize,
    pub root: c_int,
    pub datatype: *const c_char,
    pub between: [u64; 2],
    pub algo: *const c_char,
    pub proto: *const c_char,
}

/// Version 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollV3 {
    pub name: *const c_char,
    pub comm_hash: u64,
    pub seq: u64,
    pub func: *const c_char,
    pub send_buff: *const c_void,
    pub recv_buff: *const c_void,
    pub count: usize,
    pub root: c_int,
    pub datatype: *const c_char,
    pub between: u64,
    pub algo: *const c_char,
    pub proto: *const c_char,
}

/// Any of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CollAny {
    pub v2: CollV2,
    pub v3: CollV3,
    pub v7: CollV7,
}

/// Versions 4 (to `n_channels`), 5 and 6 (to `parent_group`), 7.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct P2pV7 {
    pub func: *const c_char,
    pub buff: *const c_void,
    pub datatype: *const c_char,
    pub count: usize,
    pub peer: c_int,
    pub n_channels: u8,
    pub parent_group: *const c_void,
    pub user_tag: u64,
}

/// Versions 2 and 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct P2pV2 {
    pub name: *const c_char,
    pub comm_hash: u64,
    pub func: *const c_char,
    pub buff: *const c_void,
    pub datatype: *const c_char,
    pub count: usize,
    pub peer: c_int,
}

/// All versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProxyOp {
    pub pid: c_int,
    pub channel_id: u8,
    pub peer: c_int,
    pub n_steps: c_int,
    pub chunk_size: c_int,
    pub is_send: c_int,
}

/// All versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProxyStep {
    pub step: c_int,
}

/// All versions from 3 on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetPlugin {
    pub id: i64,
    pub data: *const c_void,
}

/// What the socket transport has as data of its events.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetSocket {
    pub kind: u8,
    pub sock: NetSock,
}

/// The one member of its union.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetSock {
    pub fd: c_int,
    pub op: c_int,
    pub length: usize,
}

/// A descriptor of exactly a version's size; what its union does not fill is garbage.
pub struct Descr {
    words: [u64; 17],
}

impl Descr {
    pub fn new<U: Copy>(version: u8, kind: u64, parent: usize, rank: c_int, union: &U) -> Descr {
        let mut words = [0x5a5a_5a5a_5a5a_5a5a; 17];
        let at = words.as_mut_ptr();
        // SAFETY: the head and as much of the union as the version has fit into 136 bytes.
        unsafe {
            if version <= 4 {
                at.cast::<Head8>().write(Head8 { kind: kind as u8, parent_obj: parent, rank, union_at: [] });
            } else {
                at.cast::<Head64>().write(Head64 { kind, parent_obj: parent, rank, union_at: [] });
            }
            let size = nccl_profiler_sluice::descr::size(version) - 24;
            let from = std::ptr::from_ref(union).cast::<u8>();
            std::ptr::copy_nonoverlapping(from, at.cast::<u8>().add(24), size.min(size_of::<U>()));
        }
        Descr { words }
    }

    /// Where it lies.
    pub fn at(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }
}
