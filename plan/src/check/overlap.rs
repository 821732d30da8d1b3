//! Sums that are copied while others are still added up: for every part the last step that adds to it comes before the
//! first that copies it.

use std::collections::BTreeMap;

/// A part of an item that is added to or copied in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which item.
    pub item: u64,
    /// The first unit.
    pub lo: u64,
    /// The unit after the last.
    pub hi: u64,
    /// The step.
    pub step: usize,
    /// Is it added up, else copied?
    pub adds: bool,
}

/// A unit that is copied in a step in which, or after which, something is added to it: its item, itself, the step.
pub fn early(mut events: Vec<Event>) -> Option<(u64, u64, usize)> {
    events.sort_unstable_by_key(|event| event.item);
    let of_item = |events: &[Event]| early_of(events).map(|(unit, step)| (events[0].item, unit, step));
    events.chunk_by(|a, b| a.item == b.item).find_map(of_item)
}

/// The same of one item.
fn early_of(events: &[Event]) -> Option<(u64, usize)> {
    // Where a part begins or ends, by unit; what ends comes first.
    let mut borders: Vec<(u64, bool, usize, bool)> = Vec::with_capacity(events.len() * 2);
    for Event { lo, hi, step, adds, .. } in events {
        borders.push((*lo, true, *step, *adds));
        borders.push((*hi, false, *step, *adds));
    }
    borders.sort_unstable();
    // The steps that add to the units from here on, and those that copy them, with how many sends do it.
    let (mut adding, mut copying) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
    let mut all = borders.into_iter().peekable();
    while let Some((unit, begins, step, adds)) = all.next() {
        let steps = if adds { &mut adding } else { &mut copying };
        if begins {
            *steps.entry(step).or_default() += 1;
        } else if let Some(left) = steps.get_mut(&step) {
            *left -= 1;
            if *left == 0 {
                steps.remove(&step);
            }
        }
        let is_last = all.peek().is_none_or(|next| next.0 != unit);
        if is_last
            && let (Some((last, _)), Some((first, _))) = (adding.last_key_value(), copying.first_key_value())
            && last >= first
        {
            return Some((unit, *first));
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
                (last >= first).then_some((item, unit, first))
            });
            prop_assert_eq!(early(events.clone()), naive.min_by_key(|(item, unit, _)| (*item, *unit)));
        }
    }
}
