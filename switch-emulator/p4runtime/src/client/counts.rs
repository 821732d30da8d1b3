//! What the switch counted, by port and by reason, out of the answer to a read.

use std::collections::BTreeMap;

use sluice_pipeline::counters::PortCounters;
use sluice_pipeline::{PORTS, Reason};

use crate::ids::CounterIds;
use crate::pb::p4::v1::{CounterEntry, Entity, entity};

/// All counters that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By egress port.
    pub ports: BTreeMap<u16, PortCounters>,
    /// Frames that went nowhere, in the order of [`Reason::ALL`].
    pub drops: [u64; Reason::ALL.len()],
}

impl Counts {
    /// The questions to which [`Counts::read`] knows the answers: all places of every counter.
    pub(crate) fn questions(ids: &CounterIds) -> Vec<Entity> {
        let ask = |counter_id| CounterEntry { counter_id, index: None, data: None };
        ids.all().map(|id| Entity { entity: Some(entity::Entity::CounterEntry(ask(id))) }).into()
    }

    /// Reads an answer. Places beyond those that the program has are left out, and so is what was not asked for.
    pub(crate) fn read(ids: &CounterIds, answer: &[Entity]) -> Counts {
        let mut counts = Counts::default();
        for entity in answer {
            if let Some(entity::Entity::CounterEntry(entry)) = &entity.entity {
                counts.take(ids, entry);
            }
        }
        counts
    }

    fn take(&mut self, ids: &CounterIds, entry: &CounterEntry) -> Option<()> {
        let (index, data) = (entry.index?.index, entry.data?);
        // A negative count is none; a counter that is zero says nothing.
        let (frames, bytes) = (u64::try_from(data.packet_count).ok()?, u64::try_from(data.byte_count).ok()?);
        if frames == 0 && bytes == 0 {
            return None;
        }
        let id = entry.counter_id;
        if id == ids.drops {
            *self.drops.get_mut(usize::try_from(index).ok()?)? = frames;
            return Some(());
        }
        let port = u16::try_from(index).ok().filter(|port| *port < PORTS)?;
        if !ids.all().contains(&id) {
            return None;
        }
        let counters = self.ports.entry(port).or_default();
        match id {
            id if id == ids.sent => (counters.frames, counters.bytes) = (frames, bytes),
            id if id == ids.announcements => counters.announcements = frames,
            id if id == ids.duplicates => counters.duplicates = frames,
            id if id == ids.probes => counters.probes = frames,
            id if id == ids.rejected => counters.rejected = frames,
            _ => counters.other_unit = frames,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;
    use crate::info::info;
    use crate::pb::p4::v1::{CounterData, Index};
    use proptest::prelude::*;

    fn entity(counter_id: u32, index: i64, packet_count: i64, byte_count: i64) -> Entity {
        let (index, data) = (Some(Index { index }), Some(CounterData { byte_count, packet_count }));
        Entity { entity: Some(entity::Entity::CounterEntry(CounterEntry { counter_id, index, data })) }
    }

    #[test]
    fn counters_are_told_apart_by_their_numbers() {
        let ids = Ids::of(&info()).unwrap().counters;
        let answer = [
            entity(ids.sent, 3, 7, 700),
            entity(ids.rejected, 3, 2, 0),
            entity(ids.drops, 4, 5, 0),
            entity(ids.probes, 9, 0, 0),
            entity(ids.probes, 512, 1, 0),
            entity(ids.drops, 5, 1, 0),
            entity(77, 1, 1, 1),
            entity(ids.sent, -1, 1, 1),
        ];
        let counts = Counts::read(&ids, &answer);
        let port = PortCounters { frames: 7, bytes: 700, rejected: 2, ..PortCounters::default() };
        assert_eq!(counts, Counts { ports: [(3, port)].into(), drops: [0, 0, 0, 0, 5] });
    }

    proptest! {
        #[test]
        fn any_answer_is_read(numbers in prop::collection::vec(any::<(u32, i64, i64, i64)>(), 0..20)) {
            let ids = Ids::of(&info()).unwrap().counters;
            let answer: Vec<Entity> = numbers.iter().map(|(id, at, n, bytes)| entity(*id, *at, *n, *bytes)).collect();
            Counts::read(&ids, &answer);
        }
    }
}
