//! Rates, bytes, times, slots and ids as types, so that no bare number crosses a function's edge.
//!
//! Arithmetic saturates: a brain never panics or wraps on a number that came from outside. Slots are the exception:
//! they wrap by design (serial arithmetic over 2³²).

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $type);
    )*};
}

numbers! {
    /// A rate of payload bytes, in bit/s.
    Rate(u64);
    /// A number of payload bytes.
    Bytes(u64);
    /// A length of time, or an instant on the clock the context names, in nanoseconds.
    Nanos(u64);
    /// A host of the cluster: 32-bit FNV-1a of its node name.
    HostId(u32);
    /// A training job: 64-bit FNV-1a of the job id's text, so that all hosts agree without talking.
    JobId(u64);
    /// A flow: sender's host id in the upper half, a hash of the 4-tuple in the lower, so that both ends know it.
    FlowId(u64);
    /// A directed link: the node it leaves (32-bit FNV-1a of the node's name) in the upper half, the port in the lower.
    /// A host's own egress is `(host, 0)`; its ingress without switch help is `(host, 1)`.
    LinkId(u64);
    /// Whoever keeps a load table: a switch (32-bit FNV-1a of its name) or, in `nic` mode, a host for its own links.
    HolderId(u32);
    /// Drawn anew at every start of a process; messages are ordered by (boot id, sequence).
    BootId(u64);
}

/// A slot of the cluster's time grid: floor(time / slot length) mod 2³², compared in serial arithmetic.
///
/// Deliberately not `Ord`: `a < b` has no meaning on a circle. Use [`Slot::since`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot(pub u32);

/// What may be added and taken away; both saturate.
macro_rules! amounts {
    ($($name:ident),*) => {$(
        impl $name {
            /// Nothing at all; sums begin with it.
            pub const ZERO: $name = $name(0);

            /// The sum, at most 2⁶⁴ − 1.
            pub const fn plus(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }
            /// The difference, at least zero.
            pub const fn minus(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }
        }
    )*};
}
amounts!(Rate, Bytes, Nanos);

/// What a flow carries of each round, against the flow of its job that carries most: 2^20 parts are as much.
///
/// Only a plan says that flows of one job carry different parts of its data; everywhere else all carry the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Share(u32);

impl Share {
    /// As much as the flow that carries most.
    pub const FULL: Share = Share(1 << 20);

    /// `part` of `most` to the nearest share, at least the smallest there is and at most [`Share::FULL`].
    pub fn of(part: u64, most: u64) -> Share {
        let most = u128::from(most.max(1));
        let parts = (u128::from(part) * u128::from(Share::FULL.0) + most / 2) / most;
        Share(u32::try_from(parts).unwrap_or(u32::MAX).clamp(1, Share::FULL.0))
    }
    /// The share of each of `n` that carry this one together, at least the smallest there is.
    pub const fn divided(self, n: u64) -> Share {
        let parts = self.0 as u64 / if n == 0 { 1 } else { n };
        Share(if parts == 0 { 1 } else { parts as u32 })
    }
    /// The number of parts.
    pub const fn parts(self) -> u64 {
        self.0 as u64
    }
}

impl Default for Share {
    fn default() -> Share {
        Share::FULL
    }
}

impl Rate {
    /// The largest rate, which means that there is no limit.
    pub const MAX: Rate = Rate(u64::MAX);

    /// A rate given in 10⁶ bit/s.
    pub const fn mbps(mbps: u64) -> Rate {
        Rate(mbps.saturating_mul(1_000_000))
    }
    /// The payload that a link of this wire rate carries in full frames: 1448 of 1514 bytes (Ethernet header 14, IPv4 20,
    /// TCP with timestamps 32). No limit stays no limit.
    pub const fn payload(self) -> Rate {
        if self.0 == u64::MAX { self } else { Rate((self.0 as u128 * 1448 / 1514) as u64) }
    }
    /// As bytes per second, rounded down.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
    /// The bytes this rate moves in `time`.
    pub fn over(self, time: Nanos) -> Bytes {
        // A decision asks this a thousand times, and a wide division costs many times a narrow one.
        match self.0.checked_mul(time.0) {
            Some(product) => Bytes(product / 8_000_000_000),
            None => Bytes(saturate(u128::from(self.0) * u128::from(time.0) / 8_000_000_000)),
        }
    }
    /// The rate that moves `bytes` in `time`, rounded up; [`Rate::MAX`] in no time at all.
    pub fn needed(bytes: Bytes, time: Nanos) -> Rate {
        if time.0 == 0 {
            return if bytes.0 == 0 { Rate::ZERO } else { Rate::MAX };
        }
        match bytes.0.checked_mul(8_000_000_000) {
            Some(product) => Rate(product.div_ceil(time.0)),
            None => Rate(saturate((u128::from(bytes.0) * 8_000_000_000).div_ceil(u128::from(time.0)))),
        }
    }
    /// An equal share among `n` (none counts as one).
    pub const fn share(self, n: u64) -> Rate {
        Rate(self.0 / if n == 0 { 1 } else { n })
    }
    /// The rate of a flow with this share, where a full one has this rate. No limit stays no limit.
    pub(crate) fn for_share(self, share: Share) -> Rate {
        if self == Rate::MAX || share == Share::FULL {
            return self;
        }
        Rate(saturate(u128::from(self.0) * u128::from(share.parts()) / u128::from(Share::FULL.parts())))
    }
    /// The rate that a full flow has where one with this share has this rate. No limit stays no limit.
    pub(crate) fn per_share(self, share: Share) -> Rate {
        self.split(Share::FULL.parts(), share.parts())
    }
    /// `part` of `whole` equal parts of this rate; no parts at all count as one. No limit stays no limit.
    pub fn split(self, part: u64, whole: u64) -> Rate {
        if self == Rate::MAX || part == whole {
            return self;
        }
        Rate(saturate(u128::from(self.0) * u128::from(part) / u128::from(whole.max(1))))
    }
    /// This rate times a ratio; NaN and negative ratios count as zero.
    pub fn times(self, ratio: f64) -> Rate {
        Rate((self.0 as f64 * ratio.max(0.0)) as u64)
    }
    /// This rate as a part of `whole`; 0 of nothing is 0, something of nothing is infinite.
    pub fn ratio_of(self, whole: Rate) -> f64 {
        match (self.0, whole.0) {
            (0, _) => 0.0,
            (_, 0) => f64::INFINITY,
            (a, b) => a as f64 / b as f64,
        }
    }
}

impl Bytes {
    /// The bytes that a full flow has where one with this share has so many.
    pub(crate) fn per_share(self, share: Share) -> Bytes {
        Bytes(saturate(u128::from(self.0) * u128::from(Share::FULL.parts()) / u128::from(share.parts())))
    }
    /// How long `rate` needs for this many bytes, rounded up; [`Nanos::MAX`] at no rate.
    pub fn at(self, rate: Rate) -> Nanos {
        if self.0 == 0 {
            return Nanos::ZERO;
        }
        if rate.0 == 0 {
            return Nanos::MAX;
        }
        Nanos(saturate((u128::from(self.0) * 8_000_000_000).div_ceil(u128::from(rate.0))))
    }
}

impl Nanos {
    /// The longest time, which means for ever.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A time given in milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }
    /// This time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// This time `n` times over, saturating.
    pub const fn times(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }
    /// This time times a ratio; NaN and negative ratios count as zero.
    pub fn scaled(self, ratio: f64) -> Nanos {
        Nanos((self.0 as f64 * ratio.max(0.0)) as u64)
    }
}

impl Slot {
    /// The slot `n` later (or earlier).
    pub const fn offset(self, n: i32) -> Slot {
        Slot(self.0.wrapping_add_signed(n))
    }
    /// How many slots this one lies after `other`; negative before it (RFC 1982 serial arithmetic).
    pub const fn since(self, other: Slot) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

/// 32-bit FNV-1a, the hash behind ids made from names.
pub const fn fnv1a32(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash
}

/// 64-bit FNV-1a, the hash behind ids of jobs.
pub const fn fnv1a64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// The finaliser of SplitMix64: numbers that differ little become numbers that have nothing in common.
pub const fn mixed(number: u64) -> u64 {
    let x = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl HostId {
    /// The id of the host with this node name.
    pub const fn of(name: &str) -> HostId {
        HostId(fnv1a32(name.as_bytes()))
    }
    /// The host as keeper of the tables of its own links.
    pub const fn holder(self) -> HolderId {
        HolderId(self.0)
    }
}

impl HolderId {
    /// The id of the switch with this name.
    pub const fn of(name: &str) -> HolderId {
        HolderId(fnv1a32(name.as_bytes()))
    }
}

impl JobId {
    /// The id of the job with this id text.
    pub const fn of(text: &str) -> JobId {
        JobId(fnv1a64(text.as_bytes()))
    }
}

impl LinkId {
    /// Port `port` of the node (host or switch) with this id.
    pub const fn new(node: u32, port: u32) -> LinkId {
        LinkId((node as u64) << 32 | port as u64)
    }
    /// The node the link leaves.
    pub const fn node(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The port at that node.
    pub const fn port(self) -> u32 {
        self.0 as u32
    }
    /// The link by which `host` sends.
    pub const fn egress(host: HostId) -> LinkId {
        LinkId::new(host.0, 0)
    }
    /// The link by which `host` receives, where no switch keeps a table of it.
    pub const fn ingress(host: HostId) -> LinkId {
        LinkId::new(host.0, 1)
    }
}

impl FlowId {
    /// The flow that `sender` sends over the TCP connection with this 4-tuple (IPv4 as mapped IPv6).
    pub fn of(sender: HostId, src: ([u8; 16], u16), dst: ([u8; 16], u16)) -> FlowId {
        let mut tuple = [0_u8; 36];
        tuple[..16].copy_from_slice(&src.0);
        tuple[16..18].copy_from_slice(&src.1.to_be_bytes());
        tuple[18..34].copy_from_slice(&dst.0);
        tuple[34..].copy_from_slice(&dst.1.to_be_bytes());
        FlowId(u64::from(sender.0) << 32 | u64::from(fnv1a32(&tuple)))
    }
    /// The host that sends it.
    pub const fn sender(self) -> HostId {
        HostId((self.0 >> 32) as u32)
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl fmt::Display for Rate {
    /// Three digits and an SI unit: `1.25 Gbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Rate::MAX {
            return f.pad("unlimited");
        }
        f.pad(&format!("{}bit/s", si(self.0 as f64)))
    }
}

impl fmt::Display for Bytes {
    /// Three digits and an SI unit: `575 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}B", si(self.0 as f64)))
    }
}

impl fmt::Display for Nanos {
    /// Three digits and a unit from ns to s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            ns if ns >= 1_000_000_000 => (ns as f64 / 1e9, "s"),
            ns if ns >= 1_000_000 => (ns as f64 / 1e6, "ms"),
            ns if ns >= 1_000 => (ns as f64 / 1e3, "µs"),
            ns => (ns as f64, "ns"),
        };
        f.pad(&format!("{} {unit}", three_digits(value)))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

macro_rules! hex_display {
    ($($id:ident: $width:literal),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!(concat!("{:0", $width, "x}"), self.0))
            }
        }
    )*};
}
hex_display!(HostId: "8", HolderId: "8", JobId: "16", FlowId: "16", LinkId: "16", BootId: "16");

fn si(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{} {prefix}", three_digits(scaled))
}

fn three_digits(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_invert_each_other() {
        let rate = Rate::mbps(200);
        assert_eq!(rate.over(Nanos::from_millis(60)), Bytes(1_500_000));
        assert_eq!(Bytes(1_500_000).at(rate), Nanos::from_millis(60));
        assert_eq!(Rate::needed(Bytes(1_500_000), Nanos::from_millis(60)), rate);
    }

    proptest::proptest! {
        /// The narrow way and the wide one give the same, on both sides of where the narrow one ends.
        #[test]
        fn rates_over_times_are_what_wide_numbers_say(bits: [u32; 2], rate: u64, time: u64) {
            let (a, b) = (rate >> (bits[0] % 64), time >> (bits[1] % 64));
            let wide = u128::from(a) * u128::from(b) / 8_000_000_000;
            proptest::prop_assert_eq!(u128::from(Rate(a).over(Nanos(b)).0), wide.min(u128::from(u64::MAX)));
            if b > 0 {
                let wide = (u128::from(a) * 8_000_000_000).div_ceil(u128::from(b));
                proptest::prop_assert_eq!(u128::from(Rate::needed(Bytes(a), Nanos(b)).0), wide.min(u128::from(u64::MAX)));
            }
        }
    }

    #[test]
    fn payload_leaves_room_for_headers() {
        assert_eq!(Rate::mbps(1514).payload(), Rate::mbps(1448));
        assert_eq!(Rate::MAX.payload(), Rate::MAX);
    }

    #[test]
    fn the_largest_numbers_saturate() {
        assert_eq!(Rate::MAX.over(Nanos::MAX), Bytes(u64::MAX));
        assert_eq!(Bytes(u64::MAX).at(Rate(1)), Nanos::MAX);
        assert_eq!(Rate::MAX.plus(Rate(1)), Rate::MAX);
        assert_eq!(Rate(7).times(f64::NAN), Rate::ZERO);
    }

    /// Promises: P-21
    #[test]
    fn slots_compare_across_the_wrap() {
        assert_eq!(Slot(1).since(Slot(u32::MAX)), 2);
        assert_eq!(Slot(u32::MAX).since(Slot(1)), -2);
        assert_eq!(Slot(3).offset(-5), Slot(u32::MAX - 1));
    }

    #[test]
    fn display_gives_three_digits_and_a_unit() {
        assert_eq!(Rate(1_250_000_000).to_string(), "1.25 Gbit/s");
        assert_eq!(Bytes(574_668_960).to_string(), "575 MB");
        assert_eq!(Nanos(412_000_000).to_string(), "412 ms");
    }

    #[test]
    fn fnv_matches_its_check_values() {
        assert_eq!(fnv1a64(b"arrivals"), 0xb10b_c22c_a203_cc53);
        assert_eq!(fnv1a32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a32(b"a"), 0xe40c_292c);
    }
}
