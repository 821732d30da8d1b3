//! Where every field of a progress page lies (version 1.0, little-endian, 4096 bytes).
//!
//! The offsets in [`at`] are the format; [`RawPage`] is the same page as a struct, for the writer's mapping. A test
//! compares the two field by field. Times are CLOCK_MONOTONIC in nanoseconds; those of iterations and phases are exact,
//! `created_ns`, `last_enq_ns`, `last_net_ns` and `heartbeat_ns` may be one tick of the kernel (at most 10 ms) behind, and
//! step back by less than that: a writer may take CLOCK_MONOTONIC_COARSE for them. Minor versions add fields in reserved
//! (zero) space only; another major version has another magic digit. Readers ignore bits they do not know.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// First eight bytes of every page; the digit is the major version.
pub const MAGIC: [u8; 8] = *b"SLUICEP1";
/// Major version of this layout.
pub const MAJOR: u16 = 1;
/// Minor version of this layout.
pub const MINOR: u16 = 0;
/// Bytes of one peer entry.
pub const PEER_BYTES: usize = 64;
/// Peer entries of a page.
pub const PEER_CAP: usize = 56;
/// Bytes of the job id text.
pub const JOB_ID_BYTES: usize = 64;
/// Bytes of the producer text.
pub const PRODUCER_BYTES: usize = 32;
/// A rank that is not known.
pub const NO_RANK: u32 = u32::MAX;
/// Bit of `feature_bits`: times are of the host's monotonic clock, not of a time namespace with its own offset.
pub const FEATURE_HOST_MONOTONIC: u64 = 1 << 0;
/// Bit of `feature_bits`: there are more peers than entries; the reader finds the rest by socket.
pub const FEATURE_MORE_PEERS: u64 = 1 << 1;
/// Bit of a peer's `flags`: the entry is in use.
pub const PEER_USED: u32 = 1 << 0;
/// Extension of the name of every complete page.
pub const EXTENSION: &str = "sp1";

/// Byte offsets in a page.
#[allow(missing_docs)]
pub mod at {
    pub const MAGIC: usize = 0x000;
    pub const ABI_MAJOR: usize = 0x008;
    pub const ABI_MINOR: usize = 0x00a;
    pub const SEG_BYTES: usize = 0x00c;
    pub const PEERS_OFF: usize = 0x010;
    pub const PEER_BYTES: usize = 0x014;
    pub const PEER_CAP: usize = 0x016;
    pub const CREATED_NS: usize = 0x018;
    pub const BOOT_ID: usize = 0x020;
    pub const PID: usize = 0x028;
    pub const PID_NS: usize = 0x02c;
    pub const PID_START: usize = 0x030;
    pub const UID: usize = 0x038;
    pub const SOURCE: usize = 0x03c;
    pub const JOB_ID: usize = 0x040;
    pub const PRODUCER: usize = 0x080;
    pub const COMM_ID: usize = 0x0a0;
    pub const RANK: usize = 0x0a8;
    pub const NRANKS: usize = 0x0ac;
    pub const NNODES: usize = 0x0b0;
    pub const LOCAL_RANK: usize = 0x0b4;
    pub const PATTERN: usize = 0x0b8;
    pub const ROLE: usize = 0x0bc;
    pub const HINT_ITER_BYTES: usize = 0x0c0;
    pub const HINT_COMPUTE_NS: usize = 0x0c8;

    pub const STATE: usize = 0x100;
    pub const ENQ_BYTES: usize = 0x108;
    pub const ENQ_OPS: usize = 0x110;
    pub const ENQ_WIRE_BYTES: usize = 0x118;
    pub const LAST_ENQ_NS: usize = 0x120;
    pub const ITER: usize = 0x128;
    pub const ITER_BASE_BYTES: usize = 0x130;
    pub const ITER_START_NS: usize = 0x138;
    pub const TX_BYTES: usize = 0x140;
    pub const RX_BYTES: usize = 0x148;
    pub const INFLIGHT: usize = 0x150;
    pub const PHASE_SEQ: usize = 0x158;
    pub const PHASE_BEGIN_NS: usize = 0x160;
    pub const PHASE_END_NS: usize = 0x168;
    pub const LAST_NET_NS: usize = 0x170;
    pub const ITER_SEQ: usize = 0x178;
    pub const HEARTBEAT_NS: usize = 0x180;
    pub const DROPS: usize = 0x188;
    pub const ERRORS: usize = 0x190;
    pub const FEATURE_BITS: usize = 0x198;
    pub const TOPO_SEQ: usize = 0x1c0;
    pub const NPEERS: usize = 0x1c4;
    pub const RING_PREV: usize = 0x1c8;
    pub const RING_NEXT: usize = 0x1cc;
    pub const PEERS: usize = 0x200;

    /// Offsets within one peer entry.
    pub mod peer {
        pub const FLAGS: usize = 0;
        pub const RANK: usize = 4;
        pub const FAMILY: usize = 8;
        pub const KIND: usize = 10;
        pub const LPORT: usize = 12;
        pub const RPORT: usize = 14;
        pub const LADDR: usize = 16;
        pub const RADDR: usize = 32;
        pub const COOKIE: usize = 48;
        pub const TX_BYTES: usize = 56;
    }
}

/// A page as the writer maps it. Fields written once are plain, all others atomic.
#[repr(C, align(4096))]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct RawPage {
    pub magic: [u8; 8],
    pub abi_major: u16,
    pub abi_minor: u16,
    pub seg_bytes: u32,
    pub peers_off: u32,
    pub peer_bytes: u16,
    pub peer_cap: u16,
    pub created_ns: u64,
    pub boot_id: u64,
    pub pid: u32,
    pub pid_ns: u32,
    pub pid_start: u64,
    pub uid: u32,
    pub source: u32,
    pub job_id: [u8; JOB_ID_BYTES],
    pub producer: [u8; PRODUCER_BYTES],
    pub comm_id: u64,
    pub rank: u32,
    pub nranks: u32,
    pub nnodes: u32,
    pub local_rank: u32,
    /// Under `topo_seq`: a library may learn it with its first operation.
    pub pattern: AtomicU32,
    pub role: u32,
    /// Under `topo_seq`: a library may learn it with its second round.
    pub hint_iter_bytes: AtomicU64,
    pub hint_compute_ns: u64,
    pub reserved0: [u8; 48],
    pub state: AtomicU64,
    pub enq_bytes: AtomicU64,
    pub enq_ops: AtomicU64,
    pub enq_wire_bytes: AtomicU64,
    pub last_enq_ns: AtomicU64,
    pub iter: AtomicU64,
    pub iter_base_bytes: AtomicU64,
    pub iter_start_ns: AtomicU64,
    pub tx_bytes: AtomicU64,
    pub rx_bytes: AtomicU64,
    pub inflight: AtomicU64,
    pub phase_seq: AtomicU64,
    pub phase_begin_ns: AtomicU64,
    pub phase_end_ns: AtomicU64,
    pub last_net_ns: AtomicU64,
    pub iter_seq: AtomicU64,
    pub heartbeat_ns: AtomicU64,
    pub drops: AtomicU64,
    pub errors: AtomicU64,
    pub feature_bits: AtomicU64,
    pub reserved1: [u8; 32],
    pub topo_seq: AtomicU32,
    pub npeers: AtomicU32,
    pub ring_prev: AtomicU32,
    pub ring_next: AtomicU32,
    pub reserved2: [u8; 48],
    pub peers: [RawPeer; PEER_CAP],
}

/// One peer entry as the writer maps it: eight words, all written by relaxed stores.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct RawPeer {
    pub flags: AtomicU32,
    pub rank: AtomicU32,
    /// Family in the lower half, kind in the upper.
    pub family_kind: AtomicU32,
    /// Local port in the lower half, remote port in the upper.
    pub ports: AtomicU32,
    pub laddr: [AtomicU64; 2],
    pub raddr: [AtomicU64; 2],
    pub cookie: AtomicU64,
    pub tx_bytes: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    macro_rules! same {
        ($($field:ident = $at:ident),* $(,)?) => {$(
            assert_eq!(offset_of!(RawPage, $field), at::$at, stringify!($field));
        )*};
    }

    #[test]
    fn the_struct_and_the_offsets_are_one_layout() {
        same!(
            magic = MAGIC,
            abi_major = ABI_MAJOR,
            abi_minor = ABI_MINOR,
            seg_bytes = SEG_BYTES,
            peers_off = PEERS_OFF,
            peer_bytes = PEER_BYTES,
            peer_cap = PEER_CAP,
            created_ns = CREATED_NS,
            boot_id = BOOT_ID,
            pid = PID,
            pid_ns = PID_NS,
            pid_start = PID_START,
            uid = UID,
            source = SOURCE,
            job_id = JOB_ID,
            producer = PRODUCER,
            comm_id = COMM_ID,
            rank = RANK,
            nranks = NRANKS,
            nnodes = NNODES,
            local_rank = LOCAL_RANK,
            pattern = PATTERN,
            role = ROLE,
            hint_iter_bytes = HINT_ITER_BYTES,
            hint_compute_ns = HINT_COMPUTE_NS,
            state = STATE,
            enq_bytes = ENQ_BYTES,
            enq_ops = ENQ_OPS,
            enq_wire_bytes = ENQ_WIRE_BYTES,
            last_enq_ns = LAST_ENQ_NS,
            iter = ITER,
            iter_base_bytes = ITER_BASE_BYTES,
            iter_start_ns = ITER_START_NS,
            tx_bytes = TX_BYTES,
            rx_bytes = RX_BYTES,
            inflight = INFLIGHT,
            phase_seq = PHASE_SEQ,
            phase_begin_ns = PHASE_BEGIN_NS,
            phase_end_ns = PHASE_END_NS,
            last_net_ns = LAST_NET_NS,
            iter_seq = ITER_SEQ,
            heartbeat_ns = HEARTBEAT_NS,
            drops = DROPS,
            errors = ERRORS,
            feature_bits = FEATURE_BITS,
            topo_seq = TOPO_SEQ,
            npeers = NPEERS,
            ring_prev = RING_PREV,
            ring_next = RING_NEXT,
            peers = PEERS,
        );
        assert_eq!(size_of::<RawPage>(), PAGE_BYTES);
        assert_eq!(align_of::<RawPage>(), PAGE_BYTES);
    }

    #[test]
    fn a_peer_entry_is_64_bytes_with_the_published_offsets() {
        use at::peer;
        assert_eq!(size_of::<RawPeer>(), PEER_BYTES);
        assert_eq!(offset_of!(RawPeer, flags), peer::FLAGS);
        assert_eq!(offset_of!(RawPeer, rank), peer::RANK);
        assert_eq!(offset_of!(RawPeer, family_kind), peer::FAMILY);
        assert_eq!(offset_of!(RawPeer, family_kind) + 2, peer::KIND);
        assert_eq!(offset_of!(RawPeer, ports), peer::LPORT);
        assert_eq!(offset_of!(RawPeer, ports) + 2, peer::RPORT);
        assert_eq!(offset_of!(RawPeer, laddr), peer::LADDR);
        assert_eq!(offset_of!(RawPeer, raddr), peer::RADDR);
        assert_eq!(offset_of!(RawPeer, cookie), peer::COOKIE);
        assert_eq!(offset_of!(RawPeer, tx_bytes), peer::TX_BYTES);
        assert_eq!(at::PEERS + PEER_CAP * PEER_BYTES, PAGE_BYTES);
    }
}
