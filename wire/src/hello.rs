//! The handshake: who speaks, and on which time grid. Everything must fit before anything else is exchanged.

use std::fmt;

use sluice_formats::label::Label;
use sluice_schedule::{BootId, HolderId, HostId, Nanos, Slot};
use tonic::{Code, Status};

use crate::refusal::RefusalId;
use crate::{limits, pb};

/// Major version of the gRPC messages: another one is refused.
pub const MAJOR: u32 = 1;
/// Minor version: any is accepted, unknown fields are skipped.
pub const MINOR: u32 = 0;
/// How far the slots of two ends may be apart when they say hello.
pub const SLOT_GUARD: u32 = 1;

/// The clock that slots are counted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// Slots are counted by CLOCK_REALTIME.
    #[default]
    Realtime,
    /// Slots are counted by CLOCK_TAI.
    Tai,
}

/// What must be the same on both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Name of the cluster.
    pub cluster: String,
    /// Length of a slot.
    pub slot_length: Nanos,
    /// Slots per schedule (K).
    pub horizon: u32,
    /// Where slot 0 began on the clock.
    pub epoch: Nanos,
    /// The clock by which slots are counted.
    pub clock: ClockSource,
}

/// What one end of a connection says of itself before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The grid it lives on.
    pub grid: Grid,
    /// Node or process name.
    pub name: String,
    /// The hash of the node name.
    pub host: HostId,
    /// Drawn at the start of this process.
    pub boot: BootId,
    /// The slot when this was written.
    pub slot: Slot,
    /// The clock when this was written.
    pub now: Nanos,
}

/// One set of load tables behind a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderInfo {
    /// Id of the holder, made from its name.
    pub id: HolderId,
    /// Name of the switch or host, a [`Label`]'s text.
    pub name: String,
    /// Drawn at the start of its process.
    pub boot: BootId,
    /// False while the tables fill after a start.
    pub warm: bool,
}

/// The answer to a hello that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// What the other end said of itself.
    pub hello: Hello,
    /// The holders that answer there.
    pub holders: Vec<HolderInfo>,
}

/// Why a hello was refused: one stable id, and both values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What it is that does not fit.
    pub id: RefusalId,
    /// The peer's name, cut to a printable label.
    pub peer: String,
    /// The value seen, in the hello.
    pub theirs: String,
    /// The value of this end.
    pub ours: String,
    /// The key to set, or what else to do.
    pub advice: &'static str,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { id, peer, theirs, ours, advice } = self;
        write!(f, "{id}: {peer} has {theirs}, this end {ours}; nothing is exchanged. {advice}")
    }
}

impl std::error::Error for Mismatch {}

impl From<Mismatch> for Status {
    /// FailedPrecondition; the details are the id and both values, each on its line.
    fn from(mismatch: Mismatch) -> Status {
        let details = format!("{}\n{}\n{}", mismatch.id, mismatch.theirs, mismatch.ours);
        Status::with_details(Code::FailedPrecondition, mismatch.to_string(), details.into_bytes().into())
    }
}

impl Hello {
    /// Does the other end live on the same grid? `self` is the other end's hello; `slot` is this end's slot now.
    pub fn check(&self, ours: &Grid, slot: Slot) -> Result<(), Mismatch> {
        let Grid { cluster, slot_length, horizon, epoch, clock } = &self.grid;
        let peer = || format!("host {}", Label::new(&self.name));
        let refuse =
            |id, theirs: String, ours: String, advice| Err(Mismatch { id, peer: peer(), theirs, ours, advice });
        if *cluster != ours.cluster {
            let ours = format!("cluster {}", ours.cluster);
            return refuse(
                RefusalId::ClusterMismatch,
                format!("cluster {}", Label::new(cluster)),
                ours,
                "Set the same cluster name.",
            );
        }
        if *slot_length != ours.slot_length {
            let advice = "Set `slot.length_ms` to the same value on both.";
            return refuse(RefusalId::SlotLengthMismatch, slots_of(*slot_length), slots_of(ours.slot_length), advice);
        }
        if *horizon != ours.horizon {
            let advice = "Set `slot.horizon` to the same value on both.";
            let text = |k: u32| format!("a horizon of {k} slots");
            return refuse(RefusalId::HorizonMismatch, text(*horizon), text(ours.horizon), advice);
        }
        if *clock != ours.clock || *epoch != ours.epoch {
            let text = |c: &ClockSource, e: &Nanos| format!("clock {c} with epoch {} ns", e.0);
            let advice = "Set `clock.source` to the same value on both.";
            return refuse(RefusalId::EpochMismatch, text(clock, epoch), text(&ours.clock, &ours.epoch), advice);
        }
        if HostId::of(&self.name) != self.host {
            let expected = format!("{} for that name", HostId::of(&self.name));
            let advice = "The id of a host is the hash of its name; use one version of Sluice on both.";
            return refuse(RefusalId::IdentityNotHost, format!("host id {}", self.host), expected, advice);
        }
        if self.slot.since(slot).unsigned_abs() > SLOT_GUARD {
            let advice = "Their clocks differ by more than a slot: synchronise them.";
            let (theirs, ours) = (format!("slot {}", self.slot), format!("slot {slot}"));
            return refuse(RefusalId::SlotOffsetTooLarge, theirs, ours, advice);
        }
        Ok(())
    }
}

impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClockSource::Realtime => "realtime",
            ClockSource::Tai => "tai",
        })
    }
}

fn slots_of(length: Nanos) -> String {
    format!("slots of {} ms", length.0 as f64 / 1e6)
}

impl From<&Hello> for pb::Hello {
    fn from(hello: &Hello) -> pb::Hello {
        let clock = match hello.grid.clock {
            ClockSource::Realtime => pb::Clock::Realtime,
            ClockSource::Tai => pb::Clock::Tai,
        };
        pb::Hello {
            cluster: hello.grid.cluster.clone(),
            name: hello.name.clone(),
            host: hello.host.0,
            boot: hello.boot.0,
            major: MAJOR,
            minor: MINOR,
            slot_length: hello.grid.slot_length.0,
            horizon: hello.grid.horizon,
            epoch: hello.grid.epoch.0,
            clock: clock.into(),
            slot: hello.slot.0,
            now: hello.now.0,
        }
    }
}

/// What no correct process says.
fn malformed(what: impl fmt::Display) -> Status {
    let id = RefusalId::MessageMalformed;
    id.status(Code::InvalidArgument, format!("{id}: {what}"))
}

/// What is said to a peer that said no hello within [`limits::HANDSHAKE`].
pub fn late() -> Status {
    let id = RefusalId::MessageMalformed;
    id.status(Code::DeadlineExceeded, format!("{id}: no hello within {} s.", limits::HANDSHAKE.as_secs()))
}

/// Reads a hello. Refuses another major version, over-long names and unknown clocks; checks nothing of the grid.
pub fn read(hello: Option<pb::Hello>) -> Result<Hello, Status> {
    let Some(hello) = hello else {
        return Err(malformed("the first message of a session or call has no hello; send one first."));
    };
    if hello.major != MAJOR {
        return Err(Mismatch {
            id: RefusalId::MajorMismatch,
            peer: format!("host {}", Label::new(&hello.name)),
            theirs: format!("wire version {}.{}", hello.major, hello.minor),
            ours: format!("wire version {MAJOR}.{MINOR}"),
            advice: "Install the same major version of Sluice on both.",
        }
        .into());
    }
    for (field, text) in [("cluster", &hello.cluster), ("name", &hello.name)] {
        if text.is_empty() || text.len() > limits::NAME {
            let allowed = limits::NAME;
            return Err(malformed(format_args!("hello.{field} has {} bytes; allowed 1 to {allowed}.", text.len())));
        }
    }
    let clock = match pb::Clock::try_from(hello.clock) {
        Ok(pb::Clock::Realtime) => ClockSource::Realtime,
        Ok(pb::Clock::Tai) => ClockSource::Tai,
        Err(_) => {
            let found = hello.clock;
            return Err(malformed(format_args!("hello.clock is {found}; allowed 0 (realtime), 1 (tai).")));
        }
    };
    Ok(Hello {
        grid: Grid {
            cluster: hello.cluster,
            slot_length: Nanos(hello.slot_length),
            horizon: hello.horizon,
            epoch: Nanos(hello.epoch),
            clock,
        },
        name: hello.name,
        host: HostId(hello.host),
        boot: BootId(hello.boot),
        slot: Slot(hello.slot),
        now: Nanos(hello.now),
    })
}

impl From<&Welcome> for pb::Welcome {
    fn from(welcome: &Welcome) -> pb::Welcome {
        let holders = welcome.holders.iter();
        let holders = holders.map(|h| pb::Holder { id: h.id.0, name: h.name.clone(), boot: h.boot.0, warm: h.warm });
        pb::Welcome { hello: Some((&welcome.hello).into()), holders: holders.collect() }
    }
}

/// Reads a welcome with the checks of [`read`].
pub(crate) fn read_welcome(welcome: Option<pb::Welcome>) -> Result<Welcome, Status> {
    let welcome = welcome.unwrap_or_default();
    let hello = read(welcome.hello)?;
    if welcome.holders.len() > limits::HOLDERS {
        let (found, allowed) = (welcome.holders.len(), limits::HOLDERS);
        return Err(malformed(format_args!("welcome.holders has {found} entries; allowed 0 to {allowed}.")));
    }
    let holder = |h: pb::Holder| HolderInfo {
        id: HolderId(h.id),
        name: Label::new(&h.name).into(),
        boot: BootId(h.boot),
        warm: h.warm,
    };
    Ok(Welcome { hello, holders: welcome.holders.into_iter().map(holder).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let grid = Grid {
            cluster: "default".into(),
            slot_length: Nanos::from_millis(60),
            horizon: 10,
            epoch: Nanos::ZERO,
            clock: ClockSource::Realtime,
        };
        Hello { grid, name: "host17".into(), host: HostId::of("host17"), boot: BootId(7), slot: Slot(9), now: Nanos(5) }
    }

    #[test]
    fn a_hello_survives_the_wire() {
        assert_eq!(read(Some((&hello()).into())).unwrap(), hello());
        let holder = HolderInfo { id: HolderId(3), name: "leaf0".into(), boot: BootId(1), warm: true };
        let welcome = Welcome { hello: hello(), holders: vec![holder] };
        assert_eq!(read_welcome(Some((&welcome).into())).unwrap(), welcome);
    }

    #[test]
    fn each_difference_is_refused_with_both_values() {
        let grid = hello().grid;
        assert_eq!(hello().check(&grid, Slot(10)), Ok(()));
        let mut other = hello();
        other.grid.slot_length = Nanos::from_millis(50);
        let text = other.check(&grid, Slot(9)).unwrap_err().to_string();
        assert!(
            text.starts_with("slot-length-mismatch: host host17 has slots of 50 ms, this end slots of 60 ms"),
            "{text}"
        );
        other = hello();
        other.grid.horizon = 12;
        assert_eq!(other.check(&grid, Slot(9)).unwrap_err().id, RefusalId::HorizonMismatch);
        other = hello();
        other.grid.clock = ClockSource::Tai;
        assert_eq!(other.check(&grid, Slot(9)).unwrap_err().id, RefusalId::EpochMismatch);
        other = hello();
        other.grid.cluster = "b".into();
        assert_eq!(other.check(&grid, Slot(9)).unwrap_err().id, RefusalId::ClusterMismatch);
        other = hello();
        other.host = HostId(1);
        assert_eq!(other.check(&grid, Slot(9)).unwrap_err().id, RefusalId::IdentityNotHost);
        assert_eq!(hello().check(&grid, Slot(11)).unwrap_err().id, RefusalId::SlotOffsetTooLarge);
        let status = Status::from(hello().check(&grid, Slot(11)).unwrap_err());
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(status.details(), b"slot-offset-too-large\nslot 9\nslot 11");
    }

    #[test]
    fn another_major_version_is_another_language() {
        let mut wire = pb::Hello::from(&hello());
        wire.major = 2;
        let status = read(Some(wire)).unwrap_err();
        assert!(status.message().contains("wire version 2.0") && status.message().contains("wire version 1.0"));
        assert_eq!(read(None).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_refusal_shows_names_as_labels() {
        let mut other = hello();
        other.name = "\u{1b}[2Jh\u{202e}".into();
        let text = other.check(&Grid { horizon: 12, ..hello().grid }, Slot(9)).unwrap_err().to_string();
        assert!(text.contains("host \\x1b\\x5b2Jh\\xe2\\x80\\xae has"), "{text}");
    }
}
