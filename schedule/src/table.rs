//! Load tables: per link, what is promised for each of the next K slots.
//!
//! Two forms behind one trait. [`exact::ExactTable`] is the per-flow map: what a host promised is subtracted again when
//! it promises anew or its lease ends. [`soft::SoftTable`] is what a P4 switch can do: two arrays of tagged sums that
//! forget by themselves. With one schedule per flow and slot both show the same sums; the soft one takes no second
//! schedule inside a slot. Who may promise, message order and leases are the business of [`crate::switch`].

pub mod cell;
pub mod exact;
pub mod soft;

use crate::units::{FlowId, Rate};

/// The forms a load table comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// The per-flow map: takes any later announcement, lists flows in views.
    #[default]
    Exact,
    /// The P4 switch's double buffer: sums only, one schedule per flow and slot.
    DoubleBuffer,
}

/// One host's promises on one holder's links, flattened: sorted by (link, flow), K rates each.
///
/// Slots are counts that do not wrap ([`crate::clock::Unroll`]), links are indices of the holder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promises {
    /// The slot of the first rate.
    pub start: u64,
    /// Which flow promises on which link.
    pub entries: Vec<Entry>,
    /// K rates per entry.
    pub rates: Vec<Rate>,
}

/// One flow on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The holder's index of the link.
    pub link: u32,
    /// Id of the promised flow.
    pub flow: FlowId,
    /// Where the flow stands in the announcement.
    pub which: u32,
}

impl Promises {
    /// The K rates of entry `at`, none if there is no such entry.
    pub(crate) fn rates_of(&self, at: usize, horizon: usize) -> &[Rate] {
        self.rates.get(at * horizon..(at + 1) * horizon).unwrap_or_default()
    }
    /// What entry `at` promises for `slot`: zero before the first and beyond the last of its K slots.
    pub(crate) fn rate_at(&self, at: usize, slot: u64, horizon: usize) -> Rate {
        let ahead = slot.checked_sub(self.start).and_then(|ahead| usize::try_from(ahead).ok());
        ahead.and_then(|ahead| self.rates_of(at, horizon).get(ahead)).copied().unwrap_or(Rate::ZERO)
    }
    /// The entries of one link, as positions.
    pub fn on_link(&self, link: u32) -> std::ops::Range<usize> {
        let from = self.entries.partition_point(|entry| entry.link < link);
        let to = from + self.entries[from..].partition_point(|entry| entry.link == link);
        from..to
    }
}

/// The sums of a holder's links.
pub trait LoadTable {
    /// Which form this table has.
    fn kind(&self) -> TableKind;
    /// A rate as this table can hold it, never less than asked for unless the table cannot hold as much.
    fn quantise(&self, rate: Rate) -> Rate;
    /// `new` takes the place of the same host's `old` promises. A table that takes one schedule per flow and slot
    /// changes `new` to what it counted.
    fn replace(&mut self, old: &Promises, new: &mut Promises);
    /// A host's lease ended.
    fn remove(&mut self, old: &Promises);
    /// The slot from which a lease on promises for `start` that came in at `now` runs.
    fn lease_from(&self, start: u64, now: u64) -> u64;
    /// Fills `out` with the sums of a link for the slots from `now` on; what lies beyond the horizon is zero.
    fn load(&self, link: u32, now: u64, out: &mut [Rate]);
}
