//! Sums that are copied while others are still added up: for every part the last step that adds to it comes before the
//! first that copies it.

use std::collections::BTreeMap;

/// A part of an item that is added to or copied in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub item: u64,
    /// The first unit.
    pub lo: u64,
    /// The unit after the last.
    pub hi: u64,
    pub step: usize,
    /// Is it added up, else copied?
    pub adds: bool,
}

/// A unit that is copied in a step in which, or after which, something is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early {
    pub item: u64,
    pub unit: u64,
    /// The step that copies it first.
    pub step: usize,
}

/// Where a part of an item begins or ends. Of those at one unit what ends comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Border {
    unit: u64,
    begins: bool,
    step: usize,
    adds: bool,
}

/// The first such unit of the first item that has one.
pub fn early(mut events: Vec<Event>) -> Option<Early> {
    events.sort_unstable_by_key(|event| event.item);
    events.chunk_by(|a, b| a.item == b.item).find_map(early_of)
}

/// The same of the events of one item.
fn early_of(events: &[Event]) -> Option<Early> {
    let item = events.first()?.item;
    let mut borders: Vec<Border> = Vec::with_capacity(events.len() * 2);
    for &Event { lo, hi, step, adds, .. } in events {
        borders.push(Border { unit: lo, begins: true, step, adds });
        borders.push(Border { unit: hi, begins: false, step, adds });
    }
    borders.sort_unstable();
    // The steps that add to the units from here on, and those that copy them, with how many sends do it.
    let (mut adding, mut copying) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
    let mut all = borders.into_iter().peekable();
    while let Some(Border { unit, begins, step, adds }) = all.next() {
        let steps = if adds { &mut adding } else { &mut copying };
        if begins {
            *steps.entry(step).or_default() += 1;
        } else if let Some(left) = steps.get_mut(&step) {
            *left -= 1;
            if *left == 0 {
                steps.remove(&step);
            }
        }
        let is_last = all.peek().is_none_or(|next| next.unit != unit);
        if is_last
            && let (Some((last, _)), Some((first, _))) = (adding.last_key_value(), copying.first_key_value())
            && last >= first
        {
            return Some(Early { item, unit, step: *first });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any events, against every unit by itself.
        #[test]
        fn it_finds_what_every_unit_by_itself_shows(
            list in proptest::collection::vec((0_u64..2, 0_u64..8, 1_u64..6, 0_usize..6, any::<bool>()), 0..12),
        ) {
            let event = |(item, lo, length, step, adds)| Event { item, lo, hi: lo + length, step, adds };
            let events: Vec<Event> = list.into_iter().map(event).collect();
            let places = (0..2).flat_map(|item| (0..14).map(move |unit| (item, unit)));
            let naive = places.filter_map(|(item, unit)| {
                let here = |adds: bool| {
                    let on = move |event: &&Event| event.item == item && event.lo <= unit && unit < event.hi;
                    events.iter().filter(on).filter(move |event| event.adds == adds).map(|event| event.step)
                };
                let (last, first) = (here(true).max()?, here(false).min()?);
                (last >= first).then_some(Early { item, unit, step: first })
            });
            prop_assert_eq!(early(events.clone()), naive.min_by_key(|early| (early.item, early.unit)));
        }
    }
}
