//! Time as the daemon sees it: the monotonic clock for leases, the cluster's clock for slots, and whether to trust it.

use sluice_schedule::clock::{ClockFacts, ClockStep, Distrust, SlotClock, trust as peers_agree};
use sluice_schedule::{ClockTrust, Nanos, Now};

use crate::config::{ClockSource, Config};

/// What the kernel says about its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelClock {
    /// Does a time service discipline it?
    pub synchronised: bool,
    /// Bound of its error.
    pub max_error: Nanos,
    /// Estimated error.
    pub estimated_error: Nanos,
    /// TAI − UTC in s; 0: not set.
    pub tai_offset: i64,
}

/// Reads the clocks.
#[derive(Clone, Debug)]
pub struct Clock {
    source: ClockSource,
    grid: SlotClock,
    /// Steps of the clock of more than a slot: forward, backward.
    pub steps: (u64, u64),
    /// Slots that began without being read.
    pub skipped: u64,
}

impl Clock {
    /// A clock for this configuration.
    pub fn new(config: &Config) -> Clock {
        Clock { source: config.clock.source, grid: SlotClock::new(config.slot_length()), steps: (0, 0), skipped: 0 }
    }

    /// The time now.
    pub fn now(&mut self) -> Now {
        self.at(monotonic(), wall(self.source))
    }

    /// The same for given readings.
    pub fn at(&mut self, mono: Nanos, wall: Nanos) -> Now {
        let reading = self.grid.read(mono, wall);
        self.skipped += reading.skipped;
        match reading.step.filter(|step| step.size() > self.grid.length()) {
            Some(ClockStep::Forward(_)) => self.steps.0 += 1,
            Some(ClockStep::Back(_)) => self.steps.1 += 1,
            None => {}
        }
        Now { mono, wall, slot: reading.slot, into_slot: reading.into_slot }
    }

    /// Time until the next slot begins, as of this reading.
    pub fn until_edge(&self, now: Now) -> Nanos {
        self.grid.until_edge(now.wall)
    }
}

/// The cluster's clock.
pub fn wall(source: ClockSource) -> Nanos {
    match source {
        ClockSource::Realtime => read(libc::CLOCK_REALTIME),
        ClockSource::Tai => read(libc::CLOCK_TAI),
    }
}

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of this thread so far.
pub fn thread_cpu() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time source's own word on itself; `None` where `adjtimex` is refused.
pub fn kernel() -> Option<KernelClock> {
    let timex = crate::sys::adjtimex()?;
    let micros = |value: i64| Nanos(u64::try_from(value).unwrap_or(0).saturating_mul(1000));
    Some(KernelClock {
        synchronised: timex.synchronised,
        max_error: micros(timex.max_error_us),
        estimated_error: micros(timex.estimated_error_us),
        tai_offset: timex.tai,
    })
}

/// TAI − UTC as the kernel has it.
pub fn kernel_tai_offset() -> Option<i64> {
    kernel().map(|clock| clock.tai_offset)
}

/// May slots be trusted, and if not fully: why? The text is for a person. `offsets`: other slots minus the own one.
pub fn trust(config: &Config, kernel: Option<KernelClock>, offsets: &[i32]) -> (ClockTrust, Option<String>) {
    let facts = ClockFacts { peer_offsets: offsets.to_vec(), ..ClockFacts::default() };
    if let Err(why @ Distrust::PeerOffset { .. }) = peers_agree(config.slot_length(), false, &facts) {
        return (ClockTrust::Untrusted, Some(why.to_string()));
    }
    let Some(kernel) = kernel else {
        return (ClockTrust::Untrusted, Some("adjtimex is refused, so the clock's error is unknown".into()));
    };
    if config.clock.source == ClockSource::Tai && kernel.tai_offset != config.clock.tai_offset_s as i64 {
        let text = format!("the kernel's TAI offset is {} s, not {}", kernel.tai_offset, config.clock.tai_offset_s);
        return (ClockTrust::Untrusted, Some(text));
    }
    let allowed = config.max_clock_error();
    if kernel.synchronised && kernel.max_error <= allowed {
        return (ClockTrust::Trusted, None);
    }
    let text = if kernel.synchronised {
        format!("the kernel's error bound is {}, allowed is {allowed}", kernel.max_error)
    } else {
        format!("no time service disciplines the clock (error bound {})", kernel.max_error)
    };
    let trust = if config.clock.require_sync { ClockTrust::Untrusted } else { ClockTrust::Trusted };
    (trust, Some(text))
}

fn read(clock: libc::clockid_t) -> Nanos {
    let time = nix::time::clock_gettime(nix::time::ClockId::from_raw(clock));
    time.map_or(Nanos::ZERO, |time| {
        let (seconds, nanos) = (u64::try_from(time.tv_sec()).unwrap_or(0), u64::try_from(time.tv_nsec()).unwrap_or(0));
        Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    })
}

#[cfg(test)]
mod tests {
    use sluice_schedule::Slot;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn steps_and_skipped_slots_are_counted() {
        let mut clock = Clock::new(&Config::default());
        assert_eq!(clock.at(Nanos(1), Nanos(600 * MS)).slot, Slot(10));
        assert_eq!(clock.at(Nanos(5 * MS), Nanos(100 * MS)).slot, Slot(10));
        assert_eq!(clock.steps, (0, 1));
        assert_eq!(clock.at(Nanos(6 * MS), Nanos(1200 * MS)).slot, Slot(20));
        assert_eq!((clock.steps, clock.skipped), ((1, 1), 9));
    }

    #[test]
    fn an_unsynchronised_clock_is_trusted_only_where_that_was_asked_for() {
        let mut config = Config::default();
        let kernel = KernelClock { max_error: Nanos(16_000 * MS), ..Default::default() };
        assert_eq!(trust(&config, Some(kernel), &[]).0, ClockTrust::Untrusted);
        config.clock.require_sync = false;
        assert_eq!(trust(&config, Some(kernel), &[]).0, ClockTrust::Trusted);
        assert!(trust(&config, Some(kernel), &[]).1.is_some());
        let good = KernelClock { synchronised: true, max_error: Nanos(MS), ..kernel };
        assert_eq!(trust(&Config::default(), Some(good), &[]), (ClockTrust::Trusted, None));
        assert_eq!(trust(&Config::default(), Some(good), &[600, 600]).0, ClockTrust::Untrusted);
    }
}
