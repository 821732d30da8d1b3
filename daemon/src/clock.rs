//! Time as the daemon sees it: the monotonic clock for leases, the cluster's clock for slots, and whether to trust it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use sluice_clock::KernelClock;
pub use sluice_clock::{monotonic, thread_cpu};
use sluice_schedule::clock::{ClockStep, PeersDiffer, SlotClock};
use sluice_schedule::{ClockTrust, Nanos, Now};

use crate::config::{ClockSource, Config};

/// How often the clock was set by more than a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSteps {
    pub forward: u64,
    pub back: u64,
}

/// The clock that slots are counted on, in the loop and in every hello: all clones are wrong by the same `clock.offset_ms`.
#[derive(Clone, Debug)]
pub struct Wall {
    source: ClockSource,
    offset_ns: Arc<AtomicI64>,
}

impl Wall {
    pub fn new(config: &Config) -> Wall {
        let wall = Wall { source: config.clock.source, offset_ns: Arc::default() };
        wall.reconfigure(config);
        wall
    }
    /// Takes over how wrong it is to be.
    pub fn reconfigure(&self, config: &Config) {
        self.offset_ns.store((config.clock.offset_ms * 1e6) as i64, Ordering::Relaxed);
    }
    pub fn now(&self) -> Nanos {
        Nanos(wall(self.source).0.saturating_add_signed(self.offset_ns.load(Ordering::Relaxed)))
    }
}

#[derive(Clone, Debug)]
pub struct Clock {
    wall: Wall,
    grid: SlotClock,
    /// Steps of the clock of more than a slot.
    pub steps: ClockSteps,
    /// Slots that began without being read.
    pub skipped: u64,
    /// It was set back, and slots stand still until it is where it was.
    pub waits: bool,
}

impl Clock {
    pub fn new(config: &Config, wall: Wall) -> Clock {
        let grid = SlotClock::new(config.slot_length());
        Clock { wall, grid, steps: ClockSteps::default(), skipped: 0, waits: false }
    }

    pub fn now(&mut self) -> Now {
        self.at(monotonic(), self.wall.now())
    }

    pub fn at(&mut self, mono: Nanos, wall: Nanos) -> Now {
        let reading = self.grid.read(mono, wall);
        self.skipped += reading.skipped;
        self.waits = reading.waiting > Nanos::ZERO;
        match reading.step.filter(|step| step.size() > self.grid.length()) {
            Some(ClockStep::Forward(_)) => self.steps.forward += 1,
            Some(ClockStep::Back(_)) => self.steps.back += 1,
            None => {}
        }
        Now { mono, wall, slot: reading.slot, into_slot: reading.into_slot }
    }

    /// Time until the next slot begins, as of this reading.
    pub fn until_edge(&self, now: Now) -> Nanos {
        self.grid.until_edge(now.wall)
    }
}

/// What a source shows, whatever the slots are counted on.
pub fn wall(source: ClockSource) -> Nanos {
    match source {
        ClockSource::Realtime => sluice_clock::realtime(),
        ClockSource::Tai => sluice_clock::tai(),
    }
}

/// The time source's own word on itself; `None` where `adjtimex` is refused.
pub fn kernel() -> Option<KernelClock> {
    sluice_clock::kernel().ok()
}

/// Whether slots may be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub trust: ClockTrust,
    /// Why not, or not fully; for people.
    pub why: Option<String>,
}

/// May slots be trusted, by what peers showed of theirs and by the kernel's word?
pub fn trust(config: &Config, kernel: Option<KernelClock>, peers: Result<ClockTrust, PeersDiffer>) -> Verdict {
    let by_peers = match peers {
        Ok(trust) => trust,
        Err(differ) => return Verdict { trust: ClockTrust::Untrusted, why: Some(differ.to_string()) },
    };
    let Some(kernel) = kernel else {
        return Verdict {
            trust: ClockTrust::Untrusted,
            why: Some("adjtimex is refused, so the clock's error is unknown".into()),
        };
    };
    if config.clock.source == ClockSource::Tai && kernel.tai_offset != config.clock.tai_offset_s as i64 {
        let text = format!("the kernel's TAI offset is {} s, not {}", kernel.tai_offset, config.clock.tai_offset_s);
        return Verdict { trust: ClockTrust::Untrusted, why: Some(text) };
    }
    let allowed = config.max_clock_error();
    if kernel.synchronised && kernel.max_error <= allowed {
        return Verdict { trust: by_peers, why: None };
    }
    let text = if kernel.synchronised {
        format!("the kernel's error bound is {}, allowed is {allowed}", kernel.max_error)
    } else {
        format!("no time service disciplines the clock (error bound {})", kernel.max_error)
    };
    let trust = if config.clock.require_sync { ClockTrust::Untrusted } else { by_peers };
    Verdict { trust, why: Some(text) }
}

#[cfg(test)]
mod tests {
    use sluice_schedule::Slot;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Promises: P-19
    #[test]
    fn steps_and_skipped_slots_are_counted() {
        let mut clock = Clock::new(&Config::default(), Wall::new(&Config::default()));
        assert_eq!(clock.at(Nanos(1), Nanos(600 * MS)).slot, Slot(10));
        assert_eq!(clock.at(Nanos(5 * MS), Nanos(100 * MS)).slot, Slot(10));
        assert_eq!(clock.steps, ClockSteps { forward: 0, back: 1 });
        assert_eq!(clock.at(Nanos(6 * MS), Nanos(1200 * MS)).slot, Slot(20));
        assert_eq!((clock.steps, clock.skipped), (ClockSteps { forward: 1, back: 1 }, 9));
    }

    #[test]
    fn a_clock_is_made_wrong_for_all_who_read_it_and_right_again() {
        let mut config = Config::default();
        let wall = Wall::new(&config);
        let other = wall.clone();
        for (offset_ms, sign) in [(3_600_000.0, 1), (-3_600_000.0, -1), (0.0, 0)] {
            config.clock.offset_ms = offset_ms;
            wall.reconfigure(&config);
            let off = other.now().0 as i64 - super::wall(config.clock.source).0 as i64;
            assert!((off - sign * 3_600 * 1_000_000_000).abs() < 60_000_000_000, "{offset_ms}: {off}");
        }
    }

    /// Promises: P-20
    #[test]
    fn an_unsynchronised_clock_is_trusted_only_where_that_was_asked_for() {
        let mut config = Config::default();
        let kernel = KernelClock { max_error: Nanos(16_000 * MS), ..Default::default() };
        let good = KernelClock { synchronised: true, max_error: Nanos(MS), ..kernel };
        for peers in [ClockTrust::Trusted, ClockTrust::Contradicted] {
            config.clock.require_sync = true;
            assert_eq!(trust(&config, Some(kernel), Ok(peers)).trust, ClockTrust::Untrusted);
            config.clock.require_sync = false;
            assert_eq!(trust(&config, Some(kernel), Ok(peers)).trust, peers);
            assert!(trust(&config, Some(kernel), Ok(peers)).why.is_some());
            let verdict = trust(&Config::default(), Some(good), Ok(peers));
            assert_eq!(verdict, Verdict { trust: peers, why: None });
        }
        let differ = Err(PeersDiffer { median: 600 });
        assert_eq!(trust(&Config::default(), Some(good), differ).trust, ClockTrust::Untrusted);
    }

    #[test]
    fn how_wrong_a_clock_may_be_and_by_what_tai_differs_is_for_the_operator_to_say() {
        let kernel =
            KernelClock { synchronised: true, max_error: Nanos(40 * MS), tai_offset: 36, ..Default::default() };
        let mut config = Config::default();
        let trusted = |config: &Config| trust(config, Some(kernel), Ok(ClockTrust::Trusted)).trust.is_trusted();
        assert!(!trusted(&config), "more than half a slot of 60 ms");
        config.clock.max_error_ms = Some(40);
        assert!(trusted(&config));
        config.clock.source = ClockSource::Tai;
        assert!(!trusted(&config), "37 s are the default");
        config.clock.tai_offset_s = 36;
        assert!(trusted(&config));
        config.clock.max_error_ms = Some(39);
        assert!(!trusted(&config));
    }
}
