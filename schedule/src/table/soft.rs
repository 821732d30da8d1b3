//! The double-buffered soft table: the load table of a P4 switch.
//!
//! Two arrays of cells by parity of the announcing period p. In period p, `ACC` = array[p mod 2] gathers what is
//! announced for p; `PUB` = array[(p-1) mod 2] is what is read, and gets every addition too, less what the flow had
//! announced in p-1 if that was counted. Next period `ACC` is `PUB` by itself, so a lost packet or a dead host is healed
//! in one period, without timers or withdrawals. Lane j carries slots s with s mod K = j. The farthest slot's lane was
//! never announced in p-1, so there only `ACC` is read and written.
//!
//! [`DoubleBuffer`] has the P4 program's registers and nothing else; hashing is the caller's. [`SoftTable`] puts it
//! behind [`LoadTable`] by remembering, like a sending host, what was announced last.

use super::cell::{Cell, DedupeRegister, LATE_WINDOW, Sighting};
use super::{Entry, LoadTable, Promises, TableKind};
use crate::mutant::{Mutant, Planted};
use crate::units::{FlowId, Rate, Slot};

/// The registers of one switch: cells of all ports and the dedupe array.
#[derive(Clone, Debug)]
pub struct DoubleBuffer {
    horizon: usize,
    cells: [Vec<Cell>; 2],
    dedupe: Vec<DedupeRegister>,
}

/// One announcement of one flow, in lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<'a> {
    /// The slot in which the announcement is made.
    pub period: Slot,
    /// The lane of the farthest slot, (p + K - 1) mod K.
    pub wrap: usize,
    /// What is announced now, per lane.
    pub new: &'a [u16],
    /// What was announced in the period before, per lane.
    pub previous: &'a [u16],
}

impl DoubleBuffer {
    /// Registers for `ports` ports, K = `horizon` lanes and `dedupe` dedupe registers, all zero.
    pub fn new(ports: usize, horizon: usize, dedupe: usize) -> DoubleBuffer {
        let cells = vec![Cell::default(); ports * horizon];
        DoubleBuffer { horizon, cells: [cells.clone(), cells], dedupe: vec![DedupeRegister::default(); dedupe.max(1)] }
    }

    /// Makes every untouched cell old news at `period`. A zero cell is right for all slot numbers but 0 and the three
    /// before it, where it would pass for a newer one; a controller that can write registers does this at start.
    pub fn prime(&mut self, period: Slot) {
        let tag = period.0.wrapping_sub(LATE_WINDOW + 1);
        self.cells.iter_mut().flatten().filter(|cell| **cell == Cell::default()).for_each(|cell| cell.tag = tag);
    }

    /// Counts a flow's announcement at a port, once per period; `index` (taken modulo the array) and `signature` are
    /// hashes of (flow, port).
    pub fn announce(&mut self, port: usize, index: u32, signature: u32, lanes: Lanes<'_>) -> Sighting {
        let at = index as usize % self.dedupe.len();
        let sighting = self.dedupe[at].note(signature, lanes.period);
        if sighting == Sighting::Duplicate {
            return sighting;
        }
        let (horizon, period) = (self.horizon, lanes.period);
        let places = port * horizon..(port + 1) * horizon;
        let [even, odd] = &mut self.cells;
        let (gather, published) = if period.0 & 1 == 0 { (even, odd) } else { (odd, even) };
        let (Some(gather), Some(published)) = (gather.get_mut(places.clone()), published.get_mut(places)) else {
            return sighting;
        };
        for (lane, (gather, published)) in gather.iter_mut().zip(published).enumerate() {
            let value = |from: &[u16]| i32::from(from.get(lane).copied().unwrap_or(0));
            let new = value(lanes.new);
            gather.add(period, new);
            if lane != lanes.wrap {
                let step = if sighting == Sighting::HadPrevious { new - value(lanes.previous) } else { new };
                published.add(period.offset(-1), step);
            }
        }
        sighting
    }

    /// The loads of all of a port's lanes, as [`DoubleBuffer::read`] has each.
    pub fn read_all(&self, port: usize, period: Slot, wrap: usize, mut each: impl FnMut(usize, i32)) {
        let places = port * self.horizon..(port + 1) * self.horizon;
        let (before, parity) = (period.offset(-1), (period.0 & 1) as usize);
        let published = self.cells[parity ^ 1].get(places.clone()).unwrap_or_default();
        for (lane, cell) in published.iter().enumerate() {
            let load = if lane == wrap { self.read(port, lane, period, wrap) } else { cell.read(before) };
            each(lane, load);
        }
    }

    /// The load of a port's lane as a packet of `period` reads it: `ACC` on the wrap lane, else `PUB`. May be negative.
    pub fn read(&self, port: usize, lane: usize, period: Slot, wrap: usize) -> i32 {
        let published = lane != wrap;
        let tag = if published { period.offset(-1) } else { period };
        let cell = self.cells[(tag.0 & 1) as usize].get(port * self.horizon + lane);
        cell.map_or(0, |cell| cell.read(tag))
    }
}

/// The double buffer behind the common trait.
#[derive(Clone, Debug)]
pub struct SoftTable {
    horizon: usize,
    unit: u64,
    buffer: DoubleBuffer,
    primed: bool,
    planted: Planted,
}

impl SoftTable {
    /// How many dedupe registers there are: with 2,000 live flows about 3 of 100 collide.
    pub const DEDUPE_REGISTERS: usize = 1 << 16;

    /// An empty table; `most` is the largest link rate, from which the unit (2ⁿ Mbit/s in 16 bits) follows.
    pub fn new(links: usize, horizon: usize, most: Rate) -> SoftTable {
        let mut unit = 1_000_000;
        while most.0 / unit > u64::from(u16::MAX) {
            unit *= 2;
        }
        let buffer = DoubleBuffer::new(links, horizon, Self::DEDUPE_REGISTERS);
        SoftTable { horizon, unit, buffer, primed: false, planted: Planted::default() }
    }

    /// Makes it a table with this defect, for tests that must notice it.
    #[cfg(feature = "mutants")]
    pub(crate) fn plant(&mut self, mutant: Mutant) {
        self.planted = Planted::with(mutant);
    }

    /// The two hashes of (flow, link) for the dedupe register: its index and its signature.
    pub fn hashes(flow: FlowId, link: u32) -> (u32, u32) {
        let mix = |seed: u64| {
            let mut x = flow.0 ^ ((u64::from(link) << 32) | u64::from(link)).wrapping_mul(seed);
            x = (x ^ (x >> 32)).wrapping_mul(seed);
            (x ^ (x >> 29)) as u32
        };
        (mix(0x9e37_79b9_7f4a_7c15), mix(0xd1b5_4a32_d192_ed03))
    }

    fn lanes(&self, promises: &Promises, at: usize, values: &mut Vec<u16>) {
        values.clear();
        values.resize(self.horizon, 0);
        for (ahead, rate) in promises.rates_of(at, self.horizon).iter().enumerate() {
            let first = promises.start + u64::from(self.planted.is(Mutant::LaneOffByOne));
            let lane = (first + ahead as u64) % self.horizon as u64;
            values[lane as usize] = u16::try_from(rate.0 / self.unit).unwrap_or(u16::MAX);
        }
    }

    fn wrap(&self, period: u64) -> usize {
        if self.planted.is(Mutant::WrapLaneLikeOthers) {
            return self.horizon; // No lane is this one.
        }
        ((period + self.horizon as u64 - 1) % self.horizon as u64) as usize
    }

    fn count(&mut self, entry: Entry, period: u64, new: &[u16], previous: &[u16]) {
        let (index, signature) = Self::hashes(entry.flow, entry.link);
        let lanes = Lanes { period: Slot(period as u32), wrap: self.wrap(period), new, previous };
        self.buffer.announce(entry.link as usize, index, signature, lanes);
    }
}

impl LoadTable for SoftTable {
    fn kind(&self) -> TableKind {
        TableKind::DoubleBuffer
    }

    /// Rounded up to the unit, at most 65535 units.
    fn quantise(&self, rate: Rate) -> Rate {
        Rate(rate.0.div_ceil(self.unit).min(u64::from(u16::MAX)) * self.unit)
    }

    fn replace(&mut self, old: &Promises, new: &mut Promises) {
        if !std::mem::replace(&mut self.primed, true) {
            self.buffer.prime(Slot(new.start as u32));
        }
        if old.start == new.start && !old.entries.is_empty() {
            keep_first_schedule(old, new, self.horizon);
        }
        let follows = old.start + 1 == new.start;
        let (mut values, mut previous, nothing) = (Vec::new(), Vec::new(), vec![0; self.horizon]);
        for at in 0..new.entries.len() {
            let entry = new.entries[at];
            self.lanes(new, at, &mut values);
            match find(old, entry) {
                Some(before) if follows => self.lanes(old, before, &mut previous),
                _ => previous.clone_from(&nothing),
            }
            self.count(entry, new.start, &values, &previous);
        }
        // A flow that is no longer announced promises nothing, as its host would say with a last packet. That is its first
        // schedule of the slot, which stands even if it has something to send again before the next one.
        if follows {
            let mut gone = Promises { start: new.start, ..Promises::default() };
            for (at, entry) in old.entries.iter().enumerate() {
                let promised = old.rates_of(at, self.horizon).iter().any(|rate| *rate > Rate::ZERO);
                if promised && find(new, *entry).is_none() {
                    self.lanes(old, at, &mut previous);
                    self.count(*entry, new.start, &nothing, &previous);
                    gone.entries.push(*entry);
                    gone.rates.resize(gone.entries.len() * self.horizon, Rate::ZERO);
                }
            }
            if !gone.entries.is_empty() {
                keep_first_schedule(&gone, new, self.horizon);
            }
        }
    }

    fn remove(&mut self, _old: &Promises) {}

    /// From the slot it is for: the next period but one forgets it, whenever it came.
    fn lease_from(&self, start: u64, _now: u64) -> u64 {
        start
    }

    fn load(&self, link: u32, now: u64, out: &mut [Rate]) {
        let wrap = self.wrap(now);
        for (ahead, rate) in out.iter_mut().enumerate() {
            let lane = ((now + ahead as u64) % self.horizon as u64) as usize;
            let value =
                if ahead < self.horizon { self.buffer.read(link as usize, lane, Slot(now as u32), wrap) } else { 0 };
            *rate = Rate(u64::try_from(value).unwrap_or(0) * self.unit);
        }
    }
}

fn find(promises: &Promises, entry: Entry) -> Option<usize> {
    promises.entries.binary_search_by_key(&(entry.link, entry.flow), |e| (e.link, e.flow)).ok()
}

/// Inside one slot the first schedule of each flow stands, also of flows that are no longer announced.
fn keep_first_schedule(old: &Promises, new: &mut Promises, horizon: usize) {
    let mut merged = Promises { start: new.start, ..Promises::default() };
    let (mut a, mut b) = (0, 0);
    loop {
        let key = |entry: &Entry| (entry.link, entry.flow);
        let (from, at) = match (old.entries.get(a).map(key), new.entries.get(b).map(key)) {
            (None, None) => break,
            (Some(x), Some(y)) if x > y => (&*new, b),
            (None, Some(_)) => (&*new, b),
            _ => (old, a),
        };
        let entry = from.entries[at];
        merged.entries.push(entry);
        merged.rates.extend_from_slice(from.rates_of(at, horizon));
        a += usize::from(old.entries.get(a).is_some_and(|e| key(e) == key(&entry)));
        b += usize::from(new.entries.get(b).is_some_and(|e| key(e) == key(&entry)));
    }
    *new = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes<'a>(period: u32, wrap: usize, new: &'a [u16], previous: &'a [u16]) -> Lanes<'a> {
        Lanes { period: Slot(period), wrap, new, previous }
    }

    #[test]
    fn what_is_announced_is_visible_at_once_and_gone_after_one_silent_period() {
        let mut buffer = DoubleBuffer::new(1, 3, 16);
        // Period 7 of K = 3: wrap lane (7 + 2) mod 3 = 0.
        assert_eq!(buffer.announce(0, 1, 1, lanes(7, 0, &[4, 5, 6], &[0; 3])), Sighting::New);
        assert_eq!([0, 1, 2].map(|lane| buffer.read(0, lane, Slot(7), 0)), [4, 5, 6]);
        assert_eq!(buffer.announce(0, 1, 1, lanes(7, 0, &[4, 5, 6], &[0; 3])), Sighting::Duplicate);
        assert_eq!([0, 1, 2].map(|lane| buffer.read(0, lane, Slot(7), 0)), [4, 5, 6]);
        // Period 8: wrap lane 1; PUB is what was gathered in 7.
        assert_eq!(buffer.announce(0, 1, 1, lanes(8, 1, &[9, 9, 9], &[4, 5, 6])), Sighting::HadPrevious);
        assert_eq!([0, 1, 2].map(|lane| buffer.read(0, lane, Slot(8), 1)), [9, 9, 9]);
        // Silence: in 9 the numbers of 8 are read, in 10 nothing is left.
        assert_eq!([0, 1, 2].map(|lane| buffer.read(0, lane, Slot(9), 2)), [9, 9, 0]);
        assert_eq!([0, 1, 2].map(|lane| buffer.read(0, lane, Slot(10), 0)), [0, 0, 0]);
    }

    #[test]
    fn colliding_flows_overcount_for_a_period_and_never_lose_a_load() {
        let mut buffer = DoubleBuffer::new(1, 2, 1);
        for period in 20..24_u32 {
            let wrap = ((period + 1) % 2) as usize;
            for signature in [1, 2] {
                buffer.announce(0, 0, signature, lanes(period, wrap, &[10, 10], &[10, 10]));
            }
            let pub_lane = 1 - wrap;
            let read = buffer.read(0, pub_lane, Slot(period), wrap);
            assert!(read >= 20, "period {period}: {read}");
            assert_eq!(buffer.read(0, wrap, Slot(period), wrap), 20, "ACC stays exact");
        }
    }

    #[test]
    fn the_unit_lets_the_largest_link_fit() {
        let table = SoftTable::new(1, 10, Rate::mbps(400_000));
        assert_eq!(table.unit, 8_000_000);
        assert_eq!(table.quantise(Rate(1)), Rate(8_000_000));
        assert!(table.quantise(Rate::MAX) >= Rate::mbps(400_000));
    }

    /// One flow's promises on one link; no rates: it is not announced.
    fn promises(start: u64, rates: &[u64]) -> Promises {
        Promises {
            start,
            entries: rates.iter().map(|_| Entry { link: 0, flow: FlowId(7), which: 0 }).take(1).collect(),
            rates: rates.iter().map(|&rate| Rate::mbps(rate)).collect(),
        }
    }

    fn shows(table: &SoftTable, now: u64) -> [Rate; 3] {
        let mut load = [Rate::ZERO; 3];
        table.load(0, now, &mut load);
        load
    }

    #[test]
    fn a_flow_that_ends_and_begins_again_within_a_slot_shows_what_its_host_is_told_it_counts() {
        let mut table = SoftTable::new(1, 3, Rate::mbps(1_000));
        let mut first = promises(100, &[50, 50, 50]);
        table.replace(&Promises::default(), &mut first);
        let mut ended = promises(101, &[]);
        table.replace(&first, &mut ended);
        let mut again = promises(101, &[70, 70, 70]);
        table.replace(&ended, &mut again);
        // The end was the slot's first word, and it stands, here and in what the holder takes for counted.
        assert_eq!(shows(&table, 101), [Rate::ZERO; 3]);
        assert_eq!(again.rates_of(0, 3), [Rate::ZERO; 3]);
        let mut next = promises(102, &[70, 70, 70]);
        table.replace(&again, &mut next);
        assert_eq!(shows(&table, 102), [Rate::mbps(70); 3]);
        assert_eq!(next.rates_of(0, 3), [Rate::mbps(70); 3]);
    }

    #[test]
    fn a_flow_that_promised_nothing_has_no_end_that_would_stand_in_the_way_of_its_beginning() {
        let mut table = SoftTable::new(1, 3, Rate::mbps(1_000));
        let mut waits = promises(100, &[0, 0, 0]);
        table.replace(&Promises::default(), &mut waits);
        let mut gone = promises(101, &[]);
        table.replace(&waits, &mut gone);
        let mut begins = promises(101, &[70, 70, 70]);
        table.replace(&gone, &mut begins);
        assert_eq!(shows(&table, 101), [Rate::mbps(70); 3]);
        assert_eq!(begins.rates_of(0, 3), [Rate::mbps(70); 3]);
    }
}
