//! From echoes to what a holder would have said of its links.

use std::collections::{BTreeMap, BTreeSet};

use sluice_schedule::{BootId, Feedback, HolderId, LinkId, LinkView, Rate, Refusal, Slot};
use sluice_wire::udp::{LANES, NO_HOP_YET, Packet};

use super::{Book, Fate, Flow, Told, Units};

/// What an echo says of a path, from the slot of its datagram on.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) slot: Slot,
    /// The number of the datagram: what had a lower one was there before it.
    order: u64,
    links: Vec<LinkId>,
    hops: u8,
    /// All promises on the links together.
    load: Units,
    /// The least room; [`NO_HOP_YET`]: not known.
    room: Units,
}

/// What is known of a link's others, from a slot on.
#[derive(Debug)]
pub(super) struct View {
    pub(super) slot: Slot,
    others: Units,
    cross: Rate,
    /// Own flows had been announced there in this slot.
    claimed: bool,
    /// It was read since feedback was made.
    news: bool,
}

impl View {
    /// Nobody else is there.
    pub(super) fn empty(slot: Slot) -> View {
        View { slot, others: [0; LANES], cross: Rate::ZERO, claimed: false, news: true }
    }
}

impl Reading {
    pub(super) fn of(packet: &Packet, order: u64, links: Vec<LinkId>) -> Reading {
        let (mut load, mut room) = ([0; LANES], [0; LANES]);
        for ahead in 0..LANES {
            let lane = packet.lanes[packet.lane_of(ahead)];
            load[ahead] = u32::try_from(lane.load_sum).unwrap_or(0);
            room[ahead] = u32::from(lane.headroom);
        }
        Reading { slot: packet.slot, order, links, hops: packet.hops, load, room }
    }
}

impl Flow {
    /// What the switch has of it in `slot`, as far as is known: never more than that.
    fn there(&self, slot: Slot, ahead: usize) -> u32 {
        let (said, before) = (self.said.at(slot, ahead), self.had(slot, ahead));
        match self.fate {
            Fate::Counted => said,
            Fate::Unknown => said.min(before),
            Fate::Refused => before,
        }
    }

    /// What the switch had of it before its last datagram.
    fn had(&self, slot: Slot, ahead: usize) -> u32 {
        self.before.map_or(0, |before| before.at(slot, ahead))
    }
}

/// What own flows have on links as datagrams come in, one after another.
struct Own {
    slot: Slot,
    on: BTreeMap<LinkId, Units>,
    claimed: BTreeSet<LinkId>,
}

impl Own {
    fn put(&mut self, flow: &Flow, applied: bool) {
        for link in &flow.links {
            let on = self.on.entry(*link).or_default();
            for (ahead, sum) in on.iter_mut().enumerate() {
                let (had, has) = (flow.had(self.slot, ahead), flow.there(self.slot, ahead));
                *sum = if applied { sum.saturating_sub(had).saturating_add(has) } else { sum.saturating_add(had) };
            }
        }
        if applied && flow.said.slot == self.slot {
            self.claimed.extend(flow.links.iter().copied());
        }
    }
}

impl Book {
    /// What came since the last time, as each holder would have said it; `None`: nothing came.
    pub fn feedback(&mut self, now: Slot) -> Option<Vec<(HolderId, Feedback)>> {
        if !std::mem::take(&mut self.heard) {
            return None;
        }
        let readings = std::mem::take(&mut self.readings);
        let mut slots: Vec<Slot> = readings.iter().map(|reading| reading.slot).collect();
        slots.sort_unstable_by_key(|slot| slot.since(now));
        slots.dedup();
        for slot in slots {
            let mut of_slot: Vec<&Reading> = readings.iter().filter(|reading| reading.slot == slot).collect();
            of_slot.sort_unstable_by_key(|reading| reading.order);
            self.take_in(slot, &of_slot);
        }
        let told = self.holders.iter().map(|(holder, told)| (*holder, self.of_holder(now, told)));
        let feedback = told.filter_map(|(holder, feedback)| Some((holder, feedback?))).collect();
        self.views.values_mut().for_each(|view| view.news = false);
        Some(feedback)
    }

    fn take_in(&mut self, slot: Slot, readings: &[&Reading]) {
        let mut own = Own { slot, on: BTreeMap::new(), claimed: BTreeSet::new() };
        let mut flows: Vec<&Flow> = self.flows.values().collect();
        flows.sort_unstable_by_key(|flow| flow.order);
        flows.iter().for_each(|flow| own.put(flow, false));
        let mut next = flows.into_iter().peekable();
        let mut seen = Vec::new();
        for reading in readings {
            while let Some(flow) = next.next_if(|flow| flow.order <= reading.order) {
                own.put(flow, true);
            }
            for link in &reading.links {
                let Some(capacity) = self.ground.capacities.get(link) else { continue };
                let mine = own.on.get(link).copied().unwrap_or_default();
                let (others, cross) = self.judge(reading, *capacity, &mine);
                seen.push((*link, others, cross, own.claimed.contains(link)));
            }
        }
        for (link, others, cross, claimed) in seen {
            let fresh = View { slot, others, cross: Rate::ZERO, claimed, news: true };
            match self.views.get_mut(&link) {
                Some(view) if view.slot == slot && view.claimed => {
                    view.others.iter_mut().zip(others).for_each(|(known, new)| *known = new.min(*known));
                    view.news = true;
                }
                Some(view) => *view = View { cross: view.cross, ..fresh },
                None => _ = self.views.insert(link, fresh),
            }
            if let (Some(cross), Some(view)) = (cross, self.views.get_mut(&link)) {
                view.cross = cross;
            }
        }
    }

    /// What others have on a link of this rate, and what is left there to unmanaged traffic; `None`: that is not said.
    fn judge(&self, reading: &Reading, capacity: Rate, mine: &Units) -> (Units, Option<Rate>) {
        let unit = 1_000_000_u64 << self.ground.unit;
        let whole = u32::try_from(capacity.0 / unit).unwrap_or(u32::MAX);
        let alone = reading.hops == 1 && reading.links.len() == 1;
        let mut others = [0; LANES];
        for (ahead, others) in others.iter_mut().enumerate() {
            let (load, room) = (reading.load[ahead], reading.room[ahead]);
            let unsaid = room == u32::from(NO_HOP_YET);
            // A path of several links: no link of it has less room than the least.
            let load = if alone || unsaid { load } else { whole.saturating_sub(room) };
            *others = load.saturating_sub(mine[ahead]);
        }
        // A link that is full does not say of what. Loads are rounded up and rooms down: less than two units are nothing.
        let said = (0..LANES).find(|ahead| alone && (1..u32::from(NO_HOP_YET)).contains(&reading.room[*ahead]));
        let cross = said.map(|ahead| {
            let left = whole.saturating_sub(reading.load[ahead].saturating_add(reading.room[ahead]));
            if left < 2 { Rate::ZERO } else { Rate(u64::from(left) * unit) }
        });
        (others, cross)
    }

    /// What a holder would say now; `None`: it would say nothing new.
    fn of_holder(&self, now: Slot, told: &Told) -> Option<Feedback> {
        let mut feedback = Feedback {
            boot: BootId(self.boot),
            seq: told.seq,
            slot: now,
            warm: now.since(self.warm_from) >= 0,
            ..Feedback::default()
        };
        if self.guarded {
            feedback.refused = Some(Refusal::SlotGuard);
            return Some(feedback);
        }
        for link in &told.watch {
            match self.views.get(link).map(|view| (now.since(view.slot), view)) {
                Some((age @ (0 | 1), view)) => {
                    feedback.links.extend(view.news.then(|| self.view_of(*link, view, age as usize)));
                }
                // Nobody said anything of a link that flows of this host cross: what is known of the others is no news.
                _ if self.is_readable(*link) && !self.unknown.contains(link) => return None,
                _ => {}
            }
        }
        let unknown = told.watch.iter().any(|link| self.unknown.contains(link));
        feedback.refused = match () {
            () if unknown => Some(Refusal::UnknownLink),
            () if self.refused => Some(Refusal::Quota),
            () if feedback.links.is_empty() => return None,
            () => None,
        };
        Some(feedback)
    }

    fn is_readable(&self, link: LinkId) -> bool {
        let known = self.ground.capacities.contains_key(&link);
        known && (self.ways.contains_key(&link) || self.ground.ingress.contains_key(&link))
    }

    fn view_of(&self, link: LinkId, view: &View, age: usize) -> LinkView {
        let rate = |units: u32| Rate(u64::from(units) * (1_000_000 << self.ground.unit));
        let load = (age..LANES + age).map(|ahead| rate(view.others[ahead.min(LANES - 1)])).collect();
        LinkView { link, cross: view.cross, load, ..LinkView::default() }
    }
}
