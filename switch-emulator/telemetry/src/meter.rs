//! Octet counters in, smoothed wire rates out: one per interface, whatever the counters and clocks of switches do.
//!
//! A rate is what a counter moved by over what the switch's own clock moved by, so that neither the way here nor a
//! queue on it changes it. How true it still is goes by the clock here: a load that nobody renews is held for a while,
//! as most of it is likely to be there still, and then dropped, as capacity that is taken away for ever helps nobody.

use std::collections::BTreeMap;

use sluice_schedule::{Bytes, Nanos, Rate};

/// Intervals without a new rate after which the last one is only held.
const HELD_AFTER: u64 = 3;
/// Intervals without a new rate after which there is none.
const LOST_AFTER: u64 = 10;
/// Where a counter of 32 bits begins anew.
const NARROW: u64 = 1 << 32;

/// What a meter goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How far apart readings of an interface are meant to be; none counts as a nanosecond.
    pub interval: Nanos,
    /// How long smoothing remembers: after this time a new rate makes up 63 % of the load. None turns it off.
    pub time_constant: Nanos,
    /// What no interface carries. A counter that seems to have moved faster began anew. Twice the fastest link leaves
    /// room for switches whose time stamps are late.
    pub ceiling: Rate,
    /// Interfaces at most.
    pub interfaces: usize,
}

impl Settings {
    fn held_after(&self) -> Nanos {
        self.interval.times(HELD_AFTER)
    }

    fn lost_after(&self) -> Nanos {
        self.interval.times(LOST_AFTER)
    }
}

/// One reading of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Octets that left so far.
    pub octets: u64,
    /// When that was, by the clock of the switch, wherever that begins.
    pub taken: Nanos,
    /// When it was heard here, by a clock that does not step.
    pub heard: Nanos,
}

/// What became of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The first of its interface, or the first after a silence that lost the load: there is nothing to compare with.
    Begun,
    /// The interface carried this on average since the reading before; it is in the load now.
    Measured(Rate),
    /// Not newer than the last one: a duplicate, or overtaken on its way.
    Ignored,
    /// The counter or the clock of the switch began anew. The load stays as it was; the next reading counts from here.
    Restarted,
    /// There is no place for one more interface.
    Full,
}

/// What an interface carries on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing is known yet: it takes two readings.
    Unknown,
    /// Renewed in time.
    Fresh(Rate),
    /// Not renewed for 3 intervals or more: the last load, held.
    Held(Rate),
    /// Not renewed for 10 intervals or more: nothing is known any more.
    Lost,
}

impl Load {
    /// The load to go by; zero where nothing is known.
    pub fn rate(self) -> Rate {
        match self {
            Load::Fresh(rate) | Load::Held(rate) => rate,
            Load::Unknown | Load::Lost => Rate::ZERO,
        }
    }

    /// Was the interface heard of, and is its load no longer renewed?
    pub fn is_stale(self) -> bool {
        matches!(self, Load::Held(_) | Load::Lost)
    }
}

/// What is on a link and not managed: what it carries in all less what the managed flows on it carry, at least zero.
///
/// Both are wire rates. The caller averages the managed one over the same time as the meter does the other
/// ([`Settings::time_constant`]): otherwise every change of the managed flows shows in the difference for as long.
pub fn background(total: Rate, managed: Rate) -> Rate {
    total.minus(managed)
}

/// The loads of many interfaces, by a key that names agent and interface.
#[derive(Clone, Debug)]
pub struct Meter<K> {
    settings: Settings,
    lines: BTreeMap<K, Line>,
    /// When lost interfaces were last looked for to make room.
    cleared: Option<Nanos>,
}

impl<K: Ord> Meter<K> {
    /// A meter that has heard nothing.
    pub fn new(settings: Settings) -> Meter<K> {
        let settings = Settings { interval: settings.interval.max(Nanos(1)), ..settings };
        Meter { settings, lines: BTreeMap::new(), cleared: None }
    }

    /// Takes one reading of `interface`.
    pub fn record(&mut self, interface: K, sample: Sample) -> Outcome {
        if let Some(line) = self.lines.get_mut(&interface) {
            return line.take(&self.settings, sample);
        }
        if self.lines.len() >= self.settings.interfaces && !self.make_room(sample.heard) {
            return Outcome::Full;
        }
        self.lines.insert(interface, Line::begin(sample));
        Outcome::Begun
    }

    /// What `interface` carries, at `now` of the clock by which readings were heard.
    pub fn load(&self, interface: &K, now: Nanos) -> Load {
        self.lines.get(interface).map_or(Load::Unknown, |line| line.load(&self.settings, now))
    }

    /// What every interface carries that was ever heard of and not forgotten for others, in the order of their keys.
    pub fn loads(&self, now: Nanos) -> impl Iterator<Item = (&K, Load)> {
        self.lines.iter().map(move |(interface, line)| (interface, line.load(&self.settings, now)))
    }

    /// Forgets interfaces whose load is lost; once in an interval at most, so that strangers who come in numbers do not
    /// cost a look at all the others each.
    fn make_room(&mut self, now: Nanos) -> bool {
        if self.cleared.is_some_and(|cleared| now.minus(cleared) < self.settings.interval) {
            return false;
        }
        self.cleared = Some(now);
        let lost_after = self.settings.lost_after();
        self.lines.retain(|_, line| now.minus(line.renewed) < lost_after);
        self.lines.len() < self.settings.interfaces
    }
}

/// What is remembered of an interface.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The last reading.
    octets: u64,
    taken: Nanos,
    /// The switch's clock when the counter last had another value than in the reading before.
    moved: Nanos,
    /// The clock here when the load was last renewed; at first, when the line began.
    renewed: Nanos,
    /// Has the counter been where one of 32 bits never is?
    wide: bool,
    /// In bit/s; none before the second reading.
    smoothed: Option<f64>,
}

impl Line {
    fn begin(sample: Sample) -> Line {
        let Sample { octets, taken, heard } = sample;
        Line { octets, taken, moved: taken, renewed: heard, wide: octets >= NARROW, smoothed: None }
    }

    fn take(&mut self, settings: &Settings, sample: Sample) -> Outcome {
        let lost_after = settings.lost_after();
        if sample.heard.minus(self.renewed) >= lost_after {
            *self = Line::begin(sample);
            return Outcome::Begun;
        }
        let (forward, back) = (sample.taken.minus(self.taken), self.taken.minus(sample.taken));
        if forward.max(back) >= lost_after {
            // So much time has not passed here: the clock of the switch was set, or began anew.
            self.restart(sample);
            return Outcome::Restarted;
        }
        if forward == Nanos::ZERO {
            return Outcome::Ignored;
        }
        // Many switches look at their counters less often than they are asked: what comes at once may have taken as
        // long as the counter stood still.
        let longest = sample.taken.minus(self.moved).min(lost_after);
        let plausible = |moved: &Bytes| Rate::needed(*moved, longest) <= settings.ceiling;
        let Some(moved) = self.moved_to(sample.octets).filter(plausible) else {
            self.restart(sample);
            return Outcome::Restarted;
        };
        let rate = Rate::needed(moved, forward);
        self.smoothed = Some(smooth(self.smoothed, rate.0 as f64, forward, settings.time_constant));
        if moved != Bytes::ZERO {
            self.moved = sample.taken;
        }
        (self.octets, self.taken, self.renewed) = (sample.octets, sample.taken, sample.heard);
        self.wide |= sample.octets >= NARROW;
        Outcome::Measured(rate)
    }

    /// Counts from this reading on, and keeps the load and how old it is.
    fn restart(&mut self, sample: Sample) {
        let (renewed, smoothed) = (self.renewed, self.smoothed);
        *self = Line { renewed, smoothed, wide: self.wide || sample.octets >= NARROW, ..Line::begin(sample) };
    }

    /// What the counter moved by to be at `octets`. None if one of 32 bits would have moved by half of its range or
    /// more: it is likelier that it began anew.
    fn moved_to(&self, octets: u64) -> Option<Bytes> {
        if octets >= self.octets {
            return Some(Bytes(octets - self.octets));
        }
        if self.wide {
            return Some(Bytes(octets.wrapping_sub(self.octets)));
        }
        let moved = octets + NARROW - self.octets;
        (moved < NARROW / 2).then_some(Bytes(moved))
    }

    fn load(&self, settings: &Settings, now: Nanos) -> Load {
        let age = now.minus(self.renewed);
        if age >= settings.lost_after() {
            return Load::Lost;
        }
        let Some(bits) = self.smoothed else { return Load::Unknown };
        let rate = Rate(bits as u64).min(settings.ceiling);
        if age >= settings.held_after() { Load::Held(rate) } else { Load::Fresh(rate) }
    }
}

/// The load after `rate` held for `elapsed`: an exponential average over time, whatever the readings' distances.
fn smooth(before: Option<f64>, rate: f64, elapsed: Nanos, time_constant: Nanos) -> f64 {
    let Some(before) = before else { return rate };
    let kept = (-(elapsed.as_secs_f64() / time_constant.as_secs_f64())).exp();
    // Rounding must not take it beyond what was measured.
    (rate + (before - rate) * kept).clamp(before.min(rate), before.max(rate))
}

#[cfg(test)]
mod tests;
