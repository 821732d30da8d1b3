//! Keys of the `network` table that several kinds have, and how large a network may be.

use sluice_formats::document::{Item, Table};
use sluice_formats::problem::E_RANGE;
use sluice_schedule::{Nanos, Rate};

use super::Cable;
use crate::quantities::Quantity;

/// Most hosts of a scenario.
pub(crate) const MAX_HOSTS: u64 = 4096;
/// Most hosts and switches together.
pub(crate) const MAX_NODES: usize = 65_536;

/// What holds for links that say nothing of their own.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    pub(crate) delay: Nanos,
    pub(crate) loss: f64,
}

impl Defaults {
    pub(crate) fn cable(self, a: String, b: String, rate: Rate) -> Cable {
        Cable { a, b, forward: rate, back: rate, delay: self.delay, loss: self.loss }
    }
}

/// GPUs per host, where one number holds for all.
pub(crate) fn gpus(t: &Table<'_>) -> u32 {
    t.int32("gpus", 0..=1024).unwrap_or(1)
}

/// Three rates: host–ToR, ToR–edge, edge–aggregation.
pub(crate) fn three_rates(t: &Table<'_>) -> Option<[Rate; 3]> {
    let item = t.require("gbps")?;
    let list = item.list()?;
    let rates: Vec<Rate> = list.iter().filter_map(Item::gbps).collect();
    if list.len() != 3 {
        item.fail(E_RANGE, format!("{} rates", list.len()), "3 rates: host–ToR, ToR–edge, edge–aggregation");
    }
    rates.try_into().ok()
}

/// Parallel cables ToR–edge and edge–aggregation.
pub(crate) fn uplinks(t: &Table<'_>) -> Option<[u64; 2]> {
    let Some(item) = t.get("uplinks") else { return Some([1, 1]) };
    let list = item.list()?;
    let counts: Vec<u64> = list.iter().filter_map(|i| i.int(&(1..=64))).collect();
    if list.len() != 2 {
        item.fail(E_RANGE, format!("{} numbers", list.len()), "2 numbers: ToR–edge, edge–aggregation");
    }
    counts.try_into().ok()
}
