//! The rows of `bpf/sluice_abi.h` as Rust structs, byte for byte; what each field and number means stands there. A test
//! compiles the header and compares.

/// Number in the pin path. A build with `--cfg sluice_next_abi` plays the next version, for rehearsals of an upgrade to it.
pub const ABI: u32 = if cfg!(sluice_next_abi) { 5 } else { 4 };

pub const CTL_RELEASE: u32 = 1;
pub const CTL_SURPLUS: u32 = 2;
pub const CTL_YIELDS: u32 = 4;
pub const STAT_LIVE: u32 = 1;
pub const STAT_LOSS_GUARD: u32 = 2;
pub const CFG_SETSOCKOPT: u32 = 1;
pub const CFG_CALLBACKS_EARLY: u32 = 2;
/// What an iterator answers for a socket that is somebody else's.
pub const NOT_OURS: i32 = 1;

/// An order. Rates are bytes/s, times CLOCK_MONOTONIC nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ctl {
    pub rate: u64,
    pub expiry: u64,
    pub generation: u32,
    pub flags: u32,
    pub mark: u64,
    pub fence: u64,
    pub link: u64,
    pub reserved: [u64; 2],
}

/// What a flow takes beyond its order, and what it knows of that. Rates are bytes/s.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurplusRow {
    pub extra: u64,
    pub peak: u64,
    pub link: u64,
    pub looked: u64,
    pub lost: u32,
    pub cuts: u16,
    pub yields: u16,
}

/// What hooks measured of one flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stat {
    pub seq: u32,
    pub generation: u32,
    pub cookie: u64,
    pub acked: u64,
    pub queued: u64,
    pub delivery_rate: u64,
    pub pacing_rate: u64,
    pub last_ns: u64,
    pub srtt_us: u32,
    pub rtt_min_us: u32,
    pub retransmitted: u32,
    pub lost: u32,
    pub delivered: u32,
    pub cwnd: u32,
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    pub uid: u32,
    pub flags: u32,
    pub told: u32,
    pub netns: u32,
    pub snd_una: u32,
    pub fence: u64,
    pub rcv_nxt: u32,
    pub mss: u32,
    pub surplus: SurplusRow,
}

/// One record of the ring buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    pub kind: u32,
    pub index: u32,
    pub generation: u32,
    pub uid: u32,
    pub cookie: u64,
    pub time: u64,
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    pub netns: u32,
}

/// A socket that is to be managed, with its first order; its cookie is the key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedRow {
    pub rate: u64,
    pub expiry: u64,
}

/// What the daemon tells all programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cfg {
    pub floor: u64,
    pub ceiling: u64,
    pub max_expiry: u64,
    pub idle_ns: u64,
    pub loss_window: u64,
    pub loss_retrip: u64,
    pub loss_ban: u64,
    pub loss_permille: u32,
    pub flags: u32,
    pub digest: u64,
    pub cc_name: [u8; 16],
    pub release_to: [u8; 16],
    pub system_default: [u8; 16],
    pub ready: u32,
    pub abi: u32,
    pub other_name: [u8; 16],
    pub reserved: u64,
}

/// Counters that only rise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that found no room in the ring buffer.
    pub events_lost: u64,
    /// Sockets that found no free row.
    pub table_full: u64,
    /// Sockets another program took away.
    pub foreign: u64,
    /// Sockets no congestion control would take back.
    pub refused: u64,
    /// Trips of the loss guard.
    pub loss_trips: u64,
    /// Flows whose window was cut because their queue grew.
    pub squeezes: u64,
    /// Sockets that were given a row.
    pub captured: u64,
    /// Losses that halved what a flow took beyond its order.
    pub surplus_cuts: u64,
}

/// One line of an iterator's answer; `result` is 0, [`NOT_OURS`] or a negative errno.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VisitedSocket {
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    pub uid: u32,
    pub cookie: u64,
    pub result: i32,
    pub reserved: u32,
}

/// A name as the kernel keeps it; `None` if it has more than 15 bytes or a zero byte.
pub fn name16(name: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if name.len() > 15 || name.bytes().any(|b| b == 0) {
        return None;
    }
    out.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(out)
}

/// The text of such a name.
pub fn text16(name: &[u8; 16]) -> String {
    name.iter().take_while(|&&b| b != 0).map(|&b| char::from(b)).collect()
}

/// Splits a byte stream into records of `T`; an incomplete tail is dropped.
pub fn records<T: Copy + Default + Record>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(read_record).collect()
}

/// Reads one record; bytes beyond it are ignored, missing ones read as zero.
pub fn read_record<T: Copy + Default + Record>(bytes: &[u8]) -> T {
    let mut value = T::default();
    let size = size_of::<T>().min(bytes.len());
    // SAFETY: `Record` promises that every bit pattern is a valid T without padding; at most size_of::<T>() bytes are copied.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::from_mut(&mut value).cast::<u8>(), size) };
    value
}

/// A struct of integers without padding.
///
/// # Safety
/// Every bit pattern must be a value.
pub unsafe trait Record {}
// SAFETY: integers and arrays of integers only, laid out without padding (the layout test checks the sizes).
unsafe impl Record for Event {}
// SAFETY: as above.
unsafe impl Record for VisitedSocket {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Asks the C compiler for the header's layouts.
    fn header(expressions: &[&str]) -> Vec<usize> {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("layout.c");
        let rows: String = expressions.iter().map(|e| format!("printf(\"%zu\\n\", (size_t)({e}));")).collect();
        let text = format!(
            "#include <stdio.h>\n#include <stddef.h>\n#include <linux/types.h>\n#include \"sluice_abi.h\"\n\
             int main(void) {{ {rows} return 0; }}"
        );
        std::fs::write(&source, text).unwrap();
        let binary = dir.path().join("layout");
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/bpf");
        let built = std::process::Command::new("cc").arg(include).arg(&source).arg("-o").arg(&binary).status();
        assert!(built.unwrap().success(), "the ABI header does not compile as user-space C");
        let output = std::process::Command::new(&binary).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect()
    }

    #[test]
    fn the_structs_are_the_headers() {
        let c = [
            "sizeof(struct sluice_ctl)",
            "offsetof(struct sluice_ctl, flags)",
            "offsetof(struct sluice_ctl, mark)",
            "offsetof(struct sluice_ctl, link)",
            "sizeof(struct sluice_stat)",
            "offsetof(struct sluice_stat, local)",
            "offsetof(struct sluice_stat, flags)",
            "offsetof(struct sluice_stat, told)",
            "offsetof(struct sluice_stat, netns)",
            "offsetof(struct sluice_stat, snd_una)",
            "offsetof(struct sluice_stat, fence)",
            "offsetof(struct sluice_stat, rcv_nxt)",
            "offsetof(struct sluice_stat, mss)",
            "offsetof(struct sluice_stat, surplus)",
            "sizeof(struct sluice_surplus)",
            "offsetof(struct sluice_surplus, looked)",
            "offsetof(struct sluice_surplus, cuts)",
            "offsetof(struct sluice_surplus, yields)",
            "offsetof(struct sluice_event, netns)",
            "sizeof(struct sluice_wanted)",
            "sizeof(struct sluice_event)",
            "offsetof(struct sluice_event, local_port)",
            "sizeof(struct sluice_cfg)",
            "offsetof(struct sluice_cfg, digest)",
            "offsetof(struct sluice_cfg, ready)",
            "offsetof(struct sluice_cfg, other_name)",
            "sizeof(struct sluice_counters)",
            "offsetof(struct sluice_counters, captured)",
            "offsetof(struct sluice_counters, surplus_cuts)",
            "SLUICE_CTL_SURPLUS",
            "SLUICE_CTL_YIELDS",
            "sizeof(struct sluice_seen)",
            "offsetof(struct sluice_seen, result)",
            "SLUICE_ABI",
        ];
        let rust = [
            size_of::<Ctl>(),
            offset_of!(Ctl, flags),
            offset_of!(Ctl, mark),
            offset_of!(Ctl, link),
            size_of::<Stat>(),
            offset_of!(Stat, local),
            offset_of!(Stat, flags),
            offset_of!(Stat, told),
            offset_of!(Stat, netns),
            offset_of!(Stat, snd_una),
            offset_of!(Stat, fence),
            offset_of!(Stat, rcv_nxt),
            offset_of!(Stat, mss),
            offset_of!(Stat, surplus),
            size_of::<SurplusRow>(),
            offset_of!(SurplusRow, looked),
            offset_of!(SurplusRow, cuts),
            offset_of!(SurplusRow, yields),
            offset_of!(Event, netns),
            size_of::<WantedRow>(),
            size_of::<Event>(),
            offset_of!(Event, local_port),
            size_of::<Cfg>(),
            offset_of!(Cfg, digest),
            offset_of!(Cfg, ready),
            offset_of!(Cfg, other_name),
            size_of::<Counters>(),
            offset_of!(Counters, captured),
            offset_of!(Counters, surplus_cuts),
            CTL_SURPLUS as usize,
            CTL_YIELDS as usize,
            size_of::<VisitedSocket>(),
            offset_of!(VisitedSocket, result),
            ABI as usize,
        ];
        assert_eq!((size_of::<Ctl>(), size_of::<Stat>()), (64, 192));
        assert_eq!(header(&c), rust);
    }

    #[test]
    fn records_from_any_bytes() {
        assert!(records::<VisitedSocket>(&[1; 20]).is_empty());
        assert_eq!(records::<VisitedSocket>(&[0xff; 160])[1].result, -1);
        assert_eq!(read_record::<Event>(&[7]).kind & 0xff, 7);
    }

    #[test]
    fn names_have_room_for_their_end() {
        assert_eq!(text16(&name16("sluice1").unwrap()), "sluice1");
        assert!(name16("0123456789abcdef").is_none());
    }
}
