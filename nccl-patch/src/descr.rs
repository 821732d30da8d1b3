//! Event descriptors, read: two decoders, one for versions 2 and 3, one for 4 to 7.
//!
//! Only the fields of the event at hand are read, at the offsets of [`at`]; a pointer to a text is followed for at most
//! 24 bytes. `parentObj` is a number here and is never followed.

use std::ffi::c_char;

use crate::abi::{Version, event};
use crate::names::{self, Algo, Func, Name};

/// Byte offsets of the fields that are read.
#[allow(missing_docs, reason = "the names are those of NCCL")]
pub mod at {
    pub const TYPE: usize = 0;
    pub const PARENT: usize = 8;
    /// Where what is different for every kind begins.
    pub const UNION: usize = 24;

    /// Versions 4 to 7.
    pub mod v4 {
        pub const COLL_FUNC: usize = 32;
        pub const COLL_COUNT: usize = 56;
        pub const COLL_ROOT: usize = 64;
        pub const COLL_DATATYPE: usize = 72;
        pub const COLL_CHANNELS: usize = 80;
        pub const COLL_ALGO: usize = 88;
        /// From version 5 on.
        pub const COLL_PARENT_GROUP: usize = 104;
        /// Offset from version 7 of the interface on, in bytes.
        pub const COLL_USER_TAG: usize = 128;
        pub const P2P_FUNC: usize = 24;
        pub const P2P_DATATYPE: usize = 40;
        pub const P2P_COUNT: usize = 48;
        pub const P2P_PEER: usize = 56;
        pub const P2P_CHANNELS: usize = 60;
        /// From version 5 on.
        pub const P2P_PARENT_GROUP: usize = 64;
        /// Offset from version 7 of the interface on, in bytes.
        pub const P2P_USER_TAG: usize = 72;
    }

    /// Versions 2 and 3.
    pub mod v2 {
        pub const COLL_FUNC: usize = 48;
        pub const COLL_COUNT: usize = 72;
        pub const COLL_DATATYPE: usize = 88;
        /// Offset in version 2 of the interface, in bytes.
        pub const COLL_ALGO_V2: usize = 112;
        /// Offset in version 3 of the interface, in bytes.
        pub const COLL_ALGO_V3: usize = 104;
        pub const P2P_FUNC: usize = 40;
        pub const P2P_DATATYPE: usize = 56;
        pub const P2P_COUNT: usize = 64;
        pub const P2P_PEER: usize = 72;
    }

    /// Offsets that are the same in all versions, in bytes.
    pub mod op {
        pub const PID: usize = 24;
        pub const CHANNEL: usize = 28;
        pub const PEER: usize = 32;
        pub const IS_SEND: usize = 44;
    }

    /// What a transport reports; since version 3.
    pub mod net {
        pub const ID: usize = 24;
        pub const DATA: usize = 32;
        /// Offsets in the data of the socket transport.
        pub const SOCKET_KIND: usize = 0;
        pub const SOCKET_FD: usize = 8;
        pub const SOCKET_OP: usize = 12;
        pub const SOCKET_BYTES: usize = 16;
    }
}

/// Whose data an event of a transport has: the socket transport's, version 1.
const SOCKET_ID: u64 = 0x2_0001;
/// The one kind of its events, and what its operation is when it sends.
const SOCKET_MOVES: u8 = 1;
const SOCKET_SENDS: i32 = 0;

/// `sizeof` of a version's descriptor; 0 for a version there is not.
pub const fn size(version: Version) -> usize {
    match version {
        2 => 128,
        3 => 120,
        4 => 104,
        5 | 6 => 112,
        7 => 136,
        _ => 0,
    }
}

/// A descriptor of our own, of any version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Raw([u8; Raw::BYTES]);

impl Default for Raw {
    fn default() -> Raw {
        Raw([0; Raw::BYTES])
    }
}

impl Raw {
    /// As many as the longest version has.
    pub const BYTES: usize = size(7);

    /// Puts these bytes here, as far as there is room for all.
    pub fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.0.get_mut(at..at + N) {
            place.copy_from_slice(&bytes);
        }
    }

    /// The eight bytes here, as a number.
    pub fn word(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Takes so many bytes of another one that lie there, to here.
    pub fn take(&mut self, other: &Raw, there: usize, here: usize, bytes: usize) {
        if let (Some(from), Some(to)) = (other.0.get(there..there + bytes), self.0.get_mut(here..here + bytes)) {
            to.copy_from_slice(from);
        }
    }
}

/// A collective as it is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coll {
    /// Which collective it is.
    pub func: Func,
    /// The algorithm by which NCCL runs it.
    pub algo: Algo,
    /// Bytes per rank: count times the size of an element; `None`: an element that is not known.
    pub bytes: Option<u64>,
    /// The root's rank, where the version tells it.
    pub root: Option<i32>,
    /// Channels it runs on; 0: the version does not tell.
    pub channels: u8,
    /// The application's tag; 0: none.
    pub user_tag: u64,
}

/// A send or receive as it is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P2p {
    /// True for a send.
    pub is_send: bool,
    /// Bytes; `None`: an element that is not known.
    pub bytes: Option<u64>,
    /// Rank of the other end.
    pub peer: i32,
    /// Channels it runs on; 0: the version does not tell.
    pub channels: u8,
    /// The application's tag; 0: none.
    pub user_tag: u64,
}

/// One channel and direction of an operation on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyOp {
    /// Whose it is: with PXN that of another process, and then the parent means nothing here.
    pub pid: i32,
    /// Number of the channel.
    pub channel: u8,
    /// Rank of the other end.
    pub peer: i32,
    /// True for a send.
    pub is_send: bool,
}

/// A chunk on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSocket {
    /// Its descriptor.
    pub fd: i32,
    /// True where it is sent.
    pub is_send: bool,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A collective operation such as an all-reduce.
    Coll(Coll),
    /// A send or receive.
    P2p(P2p),
    /// Its part on the network.
    ProxyOp(ProxyOp),
    /// A chunk of that.
    ProxyStep,
    /// An event of the network transport's own; of the socket transport with what it says.
    NetPlugin(Option<NetSocket>),
    /// An event that is not counted.
    Other,
}

/// The bytes of an event's descriptor as NCCL gave it.
#[derive(Clone, Copy, Debug)]
pub struct Descr {
    version: Version,
    at: *const u8,
}

impl Descr {
    /// `None` for a null pointer or an unknown version.
    ///
    /// # Safety
    /// `at` is null or points to `size(version)` readable bytes whose text pointers are null or NUL-terminated; where it
    /// says that it is an event of the socket transport, the data are those of one, or null.
    pub unsafe fn new(version: Version, at: *const std::ffi::c_void) -> Option<Descr> {
        (!at.is_null() && size(version) > 0).then_some(Descr { version, at: at.cast() })
    }

    /// The bit that says which kind of event it is.
    pub fn kind(&self) -> u64 {
        // One byte up to version 4, eight from 5 on.
        if self.version <= 4 { u64::from(self.get::<u8>(at::TYPE)) } else { self.get(at::TYPE) }
    }

    /// `parentObj` as a number.
    pub fn parent(&self) -> u64 {
        self.get(at::PARENT)
    }

    /// Which version it is of.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The bytes, for a profiler behind this one.
    pub fn copy(&self) -> Raw {
        let mut copy = Raw::default();
        let bytes = size(self.version).min(Raw::BYTES);
        // SAFETY: `size(version)` bytes are readable by the promise of `new`, and the copy has as many.
        unsafe { std::ptr::copy_nonoverlapping(self.at, copy.0.as_mut_ptr(), bytes) };
        copy
    }

    /// Offset of the second handle in the descriptor, that of the group.
    pub fn group_at(&self) -> Option<usize> {
        match self.kind() {
            _ if self.version < 5 => None,
            event::COLL => Some(at::v4::COLL_PARENT_GROUP),
            event::P2P => Some(at::v4::P2P_PARENT_GROUP),
            _ => None,
        }
    }

    /// What begins with this event.
    #[inline(always)]
    pub fn event(&self) -> Event {
        match self.kind() {
            event::COLL => Event::Coll(if self.version <= 3 { self.coll_v2() } else { self.coll_v4() }),
            event::P2P => Event::P2p(if self.version <= 3 { self.p2p_v2() } else { self.p2p_v4() }),
            event::PROXY_OP => Event::ProxyOp(ProxyOp {
                pid: self.get(at::op::PID),
                channel: self.get(at::op::CHANNEL),
                peer: self.get(at::op::PEER),
                is_send: self.get::<i32>(at::op::IS_SEND) != 0,
            }),
            event::PROXY_STEP => Event::ProxyStep,
            event::NET_PLUGIN => Event::NetPlugin(self.socket()),
            _ => Event::Other,
        }
    }

    fn socket(&self) -> Option<NetSocket> {
        use at::net;
        let data = self.get::<usize>(net::DATA) as *const u8;
        if self.version < 3
            || self.get::<u64>(net::ID) != SOCKET_ID
            || data.is_null()
            || !data.cast::<u64>().is_aligned()
        {
            return None;
        }
        // SAFETY: by the promise of `new` the socket transport's data, of which these are fields.
        unsafe {
            (data.add(net::SOCKET_KIND).read() == SOCKET_MOVES).then(|| NetSocket {
                fd: data.add(net::SOCKET_FD).cast::<i32>().read(),
                is_send: data.add(net::SOCKET_OP).cast::<i32>().read() == SOCKET_SENDS,
                bytes: data.add(net::SOCKET_BYTES).cast::<u64>().read(),
            })
        }
    }

    fn coll_v4(&self) -> Coll {
        use at::v4;
        Coll {
            func: names::func(self.name(v4::COLL_FUNC)),
            algo: names::algo(self.name(v4::COLL_ALGO)),
            bytes: self.bytes(v4::COLL_COUNT, v4::COLL_DATATYPE),
            root: Some(self.get(v4::COLL_ROOT)),
            channels: self.get(v4::COLL_CHANNELS),
            user_tag: if self.version >= 7 { self.get(v4::COLL_USER_TAG) } else { 0 },
        }
    }

    fn coll_v2(&self) -> Coll {
        use at::v2;
        let algo = if self.version == 2 { v2::COLL_ALGO_V2 } else { v2::COLL_ALGO_V3 };
        Coll {
            func: names::func(self.name(v2::COLL_FUNC)),
            algo: names::algo(self.name(algo)),
            bytes: self.bytes(v2::COLL_COUNT, v2::COLL_DATATYPE),
            root: None,
            channels: 0,
            user_tag: 0,
        }
    }

    fn p2p_v4(&self) -> P2p {
        use at::v4;
        P2p {
            is_send: names::is_send(self.name(v4::P2P_FUNC)),
            bytes: self.bytes(v4::P2P_COUNT, v4::P2P_DATATYPE),
            peer: self.get(v4::P2P_PEER),
            channels: self.get(v4::P2P_CHANNELS),
            user_tag: if self.version >= 7 { self.get(v4::P2P_USER_TAG) } else { 0 },
        }
    }

    fn p2p_v2(&self) -> P2p {
        use at::v2;
        P2p {
            is_send: names::is_send(self.name(v2::P2P_FUNC)),
            bytes: self.bytes(v2::P2P_COUNT, v2::P2P_DATATYPE),
            peer: self.get(v2::P2P_PEER),
            channels: 0,
            user_tag: 0,
        }
    }

    fn bytes(&self, count: usize, datatype: usize) -> Option<u64> {
        let element = names::element_bytes(self.name(datatype))?;
        Some(self.get::<u64>(count).saturating_mul(element))
    }

    fn name(&self, at: usize) -> Name {
        // SAFETY: by the promise of `new` null or NUL-terminated.
        unsafe { Name::of(self.get::<usize>(at) as *const c_char) }
    }

    fn get<T: Copy + Number>(&self, at: usize) -> T {
        debug_assert!(at + size_of::<T>() <= size(self.version));
        // SAFETY: all offsets lie within the version's size (a test holds them against it), which is readable by the
        // promise of `new`; any bytes are a number.
        unsafe { self.at.add(at).cast::<T>().read_unaligned() }
    }
}

trait Number {}
impl Number for u8 {}
impl Number for i32 {}
impl Number for u64 {}
impl Number for usize {}
