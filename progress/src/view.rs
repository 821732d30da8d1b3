//! What a page says, decoded. Every value is a claim of the process that wrote it; decoding never fails on any
//! 4096 bytes and never takes an index or a length from them without a bound.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ident::{Pattern, Role, Source, State, field_enum};
use crate::layout::{self, NO_RANK, PAGE_BYTES, PEER_CAP, at};

field_enum! {
    /// Which end opened a connection.
    PeerKind: u16, unknown Unknown {
        /// The writing process opened the connection.
        Connected = 1,
        /// The writing process accepted the connection.
        Accepted = 2,
    }
}

/// One connection of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Rank at the other end, if known.
    pub rank: Option<u32>,
    /// Which side opened the connection.
    pub kind: PeerKind,
    /// Address of the writing process's end.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    /// The kernel's socket cookie; 0: not known.
    pub cookie: u64,
    /// Bytes handed to the socket, if the library counts them.
    pub tx_bytes: u64,
}

/// The iteration that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    /// Iterations begun; 0 before the first.
    pub count: u64,
    /// `enq_bytes` when it began.
    pub base_bytes: u64,
    /// When it began, CLOCK_MONOTONIC ns.
    pub start_ns: u64,
}

/// A page as it was read at one moment, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageView {
    /// Minor version of the writer.
    pub abi_minor: u16,
    /// When the page was created, CLOCK_MONOTONIC ns, up to 10 ms behind.
    pub created_ns: u64,
    /// Pid in the writer's pid namespace.
    pub pid: u32,
    /// Inode of that namespace.
    pub pid_ns: u32,
    /// Start of that process in clock ticks.
    pub pid_start: u64,
    /// The library or plug-in that writes the page.
    pub source: Source,
    /// Job id text without control characters; empty: not known.
    pub job_id: String,
    /// Library and version without control characters.
    pub producer: String,
    /// Equal on all ranks of one communicator; 0: not known.
    pub comm_id: u64,
    /// Rank of the process; `None` where it is not known.
    pub rank: Option<u32>,
    /// Ranks; 0: not known.
    pub nranks: u32,
    /// Hosts; 0: not known.
    pub nnodes: u32,
    /// Rank on this host, if known.
    pub local_rank: Option<u32>,
    /// How ranks exchange tensors.
    pub pattern: Pattern,
    /// Part of this process.
    pub role: Role,
    /// Bytes per iteration; 0: none given.
    pub hint_iter_bytes: u64,
    /// Computation per iteration, ns; 0: none given.
    pub hint_compute_ns: u64,
    /// What it does now.
    pub state: State,
    /// Bytes of tensors queued since the page began.
    pub enq_bytes: u64,
    /// Operations that were queued.
    pub enq_ops: u64,
    /// Bytes expected to leave this rank for them.
    pub enq_wire_bytes: u64,
    /// Last time something was queued, CLOCK_MONOTONIC ns, up to 10 ms behind.
    pub last_enq_ns: u64,
    /// The iteration under way.
    pub iteration: Iteration,
    /// Bytes handed to sockets.
    pub tx_bytes: u64,
    /// Bytes taken from sockets.
    pub rx_bytes: u64,
    /// Network operations under way.
    pub inflight: u64,
    /// Network phases that began.
    pub phase_seq: u64,
    /// Start of the last phase, CLOCK_MONOTONIC ns.
    pub phase_begin_ns: u64,
    /// End of the last finished phase, CLOCK_MONOTONIC ns.
    pub phase_end_ns: u64,
    /// Last network event, CLOCK_MONOTONIC ns, up to 10 ms behind.
    pub last_net_ns: u64,
    /// Last event of any kind, CLOCK_MONOTONIC ns, up to 10 ms behind.
    pub heartbeat_ns: u64,
    /// Events the library dropped.
    pub drops: u64,
    /// Errors the library met.
    pub errors: u64,
    /// Times are of the host's monotonic clock.
    pub host_monotonic: bool,
    /// There are more connections than `peers` lists.
    pub more_peers: bool,
    /// Rank before this one in the ring, if known.
    pub ring_prev: Option<u32>,
    /// Rank after this one in the ring, if known.
    pub ring_next: Option<u32>,
    /// Connections in use, 56 at most.
    pub peers: Vec<Peer>,
    /// The iteration could not be read whole; it is the last good one.
    pub iteration_stale: bool,
    /// The peers could not be read whole; they are the last good ones.
    pub peers_stale: bool,
}

impl PageView {
    /// Bytes queued in this iteration, as claimed.
    pub fn iteration_bytes(&self) -> u64 {
        self.enq_bytes.saturating_sub(self.iteration.base_bytes)
    }

    /// Decodes all fields of a page, whatever it holds. The header must have been checked before.
    pub(crate) fn decode(page: &[u8; PAGE_BYTES]) -> PageView {
        let mut view = PageView {
            abi_minor: u16_at(page, at::ABI_MINOR),
            created_ns: u64_at(page, at::CREATED_NS),
            pid: u32_at(page, at::PID),
            pid_ns: u32_at(page, at::PID_NS),
            pid_start: u64_at(page, at::PID_START),
            source: Source::from_raw(u32_at(page, at::SOURCE)),
            job_id: text_at(page, at::JOB_ID, layout::JOB_ID_BYTES),
            producer: text_at(page, at::PRODUCER, layout::PRODUCER_BYTES),
            comm_id: u64_at(page, at::COMM_ID),
            rank: rank_at(page, at::RANK),
            nranks: u32_at(page, at::NRANKS),
            nnodes: u32_at(page, at::NNODES),
            local_rank: rank_at(page, at::LOCAL_RANK),
            pattern: Pattern::from_raw(u32_at(page, at::PATTERN)),
            role: Role::from_raw(u32_at(page, at::ROLE)),
            hint_iter_bytes: u64_at(page, at::HINT_ITER_BYTES),
            hint_compute_ns: u64_at(page, at::HINT_COMPUTE_NS),
            ring_prev: rank_at(page, at::RING_PREV),
            ring_next: rank_at(page, at::RING_NEXT),
            peers: peers(page),
            ..PageView::default()
        };
        view.take_live(page);
        view
    }

    /// Takes over what changes all the time: from the state to the features, without the connections.
    pub(crate) fn take_live(&mut self, page: &[u8; PAGE_BYTES]) {
        let features = u64_at(page, at::FEATURE_BITS);
        self.state = State::from_raw(u64_at(page, at::STATE));
        self.enq_bytes = u64_at(page, at::ENQ_BYTES);
        self.enq_ops = u64_at(page, at::ENQ_OPS);
        self.enq_wire_bytes = u64_at(page, at::ENQ_WIRE_BYTES);
        self.last_enq_ns = u64_at(page, at::LAST_ENQ_NS);
        self.iteration = iteration(page);
        self.tx_bytes = u64_at(page, at::TX_BYTES);
        self.rx_bytes = u64_at(page, at::RX_BYTES);
        self.inflight = u64_at(page, at::INFLIGHT);
        self.phase_seq = u64_at(page, at::PHASE_SEQ);
        self.phase_begin_ns = u64_at(page, at::PHASE_BEGIN_NS);
        self.phase_end_ns = u64_at(page, at::PHASE_END_NS);
        self.last_net_ns = u64_at(page, at::LAST_NET_NS);
        self.heartbeat_ns = u64_at(page, at::HEARTBEAT_NS);
        self.drops = u64_at(page, at::DROPS);
        self.errors = u64_at(page, at::ERRORS);
        self.host_monotonic = features & layout::FEATURE_HOST_MONOTONIC != 0;
        self.more_peers = features & layout::FEATURE_MORE_PEERS != 0;
    }
}

/// The fields under `iter_seq`.
fn iteration(page: &[u8; PAGE_BYTES]) -> Iteration {
    Iteration {
        count: u64_at(page, at::ITER),
        base_bytes: u64_at(page, at::ITER_BASE_BYTES),
        start_ns: u64_at(page, at::ITER_START_NS),
    }
}

/// The peers in use; the claimed number is cut to what fits.
fn peers(page: &[u8; PAGE_BYTES]) -> Vec<Peer> {
    let count = (u32_at(page, at::NPEERS) as usize).min(PEER_CAP);
    (0..count).filter_map(|index| peer(page, at::PEERS + index * layout::PEER_BYTES)).collect()
}

fn peer(page: &[u8; PAGE_BYTES], entry: usize) -> Option<Peer> {
    use at::peer;
    if u32_at(page, entry + peer::FLAGS) & layout::PEER_USED == 0 {
        return None;
    }
    let address = |at: usize, port: usize| {
        let octets = page.get(entry + at..).and_then(|rest| rest.first_chunk::<16>()).copied().unwrap_or_default();
        let ip = Ipv6Addr::from(octets);
        let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
        SocketAddr::new(ip, u16_at(page, entry + port))
    };
    Some(Peer {
        rank: rank_at(page, entry + peer::RANK),
        kind: PeerKind::from_raw(u16_at(page, entry + peer::KIND)),
        local: address(peer::LADDR, peer::LPORT),
        remote: address(peer::RADDR, peer::RPORT),
        cookie: u64_at(page, entry + peer::COOKIE),
        tx_bytes: u64_at(page, entry + peer::TX_BYTES),
    })
}

pub(crate) fn u64_at(page: &[u8], at: usize) -> u64 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn u32_at(page: &[u8], at: usize) -> u32 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn u16_at(page: &[u8], at: usize) -> u16 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn rank_at(page: &[u8], at: usize) -> Option<u32> {
    Some(u32_at(page, at)).filter(|&rank| rank != NO_RANK)
}

/// Text up to the first NUL, with every control character and every wrong byte replaced.
fn text_at(page: &[u8], at: usize, most: usize) -> String {
    let bytes = page.get(at..at + most).unwrap_or_default();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    text.chars().map(|c| if c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_4096_bytes_decode_within_bounds(seed in prop::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let page: [u8; PAGE_BYTES] = seed.try_into().unwrap_or([0; PAGE_BYTES]);
            let view = PageView::decode(&page);
            prop_assert!(view.peers.len() <= PEER_CAP);
            prop_assert!(view.job_id.chars().count() <= layout::JOB_ID_BYTES);
            prop_assert!(!view.job_id.chars().any(char::is_control));
            let _ = view.iteration_bytes();
        }
    }

    #[test]
    fn text_loses_its_control_characters() {
        let mut page = [0_u8; PAGE_BYTES];
        page[at::JOB_ID..at::JOB_ID + 9].copy_from_slice(b"a\n\x1b[2J\xff\0x");
        assert_eq!(PageView::decode(&page).job_id, "a__[2J\u{fffd}");
    }
}
