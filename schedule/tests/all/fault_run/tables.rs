//! Invariants of load tables: leases, order of news, and the reference they must equal in the calm.

use std::collections::BTreeMap;

use sluice_schedule::message::{Announcement, Refusal};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, LinkId, Slot};

use super::Bug;
use super::setup::host_id;
use super::world::World;

impl World {
    /// Invariant 12, while faults go on: news of a living process is never taken for old. (A process whose clock was set
    /// back over its predecessor's slots has to wait for the lease.)
    pub fn check_refusal(&mut self, holder: usize, from: usize, said: (BootId, u64), refused: Option<Refusal>) {
        let reached = self.measures.reached.entry((self.cluster.holders[holder].boot(), said.0)).or_default();
        let news = said.1 > *reached && self.cluster.daemons[from].config.boot == said.0;
        *reached = (*reached).max(said.1);
        if news && refused == Some(Refusal::Old) && self.options.faults.steps == 0 {
            self.blame(12, format!("news {} of host {from} (boot {}) is refused as old", said.1, said.0));
        }
    }

    /// Invariants 3 and 9: leases in force at a holder.
    pub fn check_leases(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        let Some(switch) = &place.switch else { return };
        let steady = self.options.faults.steps == 0 || self.settled();
        let mut wrong = None;
        for lease in switch.leases() {
            let left = lease.ends.since(slot);
            let age = slot.since(lease.slot);
            if !(1..=3).contains(&left) || !(-1..=3).contains(&age) {
                wrong = Some(format!("{} holds slot {} of {} until {}", place.id, lease.slot, lease.host, lease.ends));
            }
            let Some(daemon) = self.cluster.daemons.iter().find(|daemon| daemon.id == lease.host) else { continue };
            let gone = match daemon.died {
                Some(died) if daemon.brain.is_none() => Some(died),
                _ if daemon.config.boot != lease.boot && self.bug.is_none() => Some(daemon.born),
                _ => None,
            };
            if steady && gone.is_some_and(|gone| self.now.minus(gone) > self.slot.scaled(5.0)) {
                wrong = Some(format!("{} still holds boot {} of {}", place.id, lease.boot, lease.host));
            }
        }
        if switch.hosts().count() > self.options.hosts
            || switch.statuses() > self.options.hosts * self.options.jobs.len()
        {
            return self.blame(9, format!("{} keeps more hosts or statuses than there are", place.id));
        }
        if let Some(wrong) = wrong {
            self.blame(3, wrong);
        }
    }

    /// Invariant 12: in the calm a table is what the last announcements say, to the bit.
    pub fn check_table(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        if !self.settled() || place.in_flight > 0 {
            return;
        }
        let Some(switch) = &place.switch else { return };
        let mut wrong = None;
        let mut expected: BTreeMap<LinkId, Vec<u128>> = BTreeMap::new();
        for daemon in &self.cluster.daemons {
            let Some(said) = daemon.said.get(&place.id) else { continue };
            let lease = switch.leases().find(|lease| lease.host == daemon.id);
            let mute =
                self.options.lasting.is_some_and(|lasting| lasting.ways[0] && host_id(lasting.host) == daemon.id);
            if mute && place.within.is_none_or(|host| host_id(host) != daemon.id) {
                if lease.is_some() {
                    wrong = Some(format!("{} keeps a lease of {}, which it cannot hear", place.id, daemon.id));
                }
                continue;
            }
            match lease {
                Some(lease)
                    if (lease.seq, lease.slot) == (said.seq, said.slot)
                        && (lease.boot == said.boot || self.bug == Some(Bug::SeqWithoutBoot)) =>
                {
                    add_promises(&mut expected, said, slot, self.options.horizon, &place.links);
                }
                None if slot.since(said.slot) >= 2 => {}
                other => {
                    wrong =
                        Some(format!("{}: {} said {} for {}, held {other:?}", place.id, daemon.id, said.seq, said.slot))
                }
            }
        }
        for link in switch.links() {
            let sums = expected.remove(&link.link).unwrap_or_else(|| vec![0; self.options.horizon]);
            // A double buffer keeps the first schedule of a slot; `tests/tables.rs` holds it to its own reference.
            let exact = switch.kind() == TableKind::Exact;
            if exact && link.load.iter().zip(&sums).any(|(held, sum)| u128::from(held.0) != *sum) {
                wrong = Some(format!("{}: {:?} instead of {sums:?} on {}", place.id, link.load, link.link));
            }
        }
        self.report.tables += 1;
        if let Some(wrong) = wrong {
            self.blame(12, wrong);
        }
    }
}

/// Adds what one host promised, clipped to each link like a holder must, for the slots from `slot` on.
fn add_promises(
    sums: &mut BTreeMap<LinkId, Vec<u128>>,
    said: &Announcement,
    slot: Slot,
    horizon: usize,
    links: &[sluice_schedule::switch::LinkConfig],
) {
    for config in links {
        let promises = || said.flows.iter().filter(|promise| promise.links.contains(&config.link));
        for ahead in 0..horizon {
            let place = slot.offset(ahead as i32).since(said.slot);
            if !(0..horizon as i32).contains(&place) {
                continue;
            }
            let most = u128::from(config.capacity.0);
            let all: u128 = promises().map(|promise| u128::from(promise.rate(place as usize).0)).sum();
            let clip = |rate: u128| if all > most { rate * most / all } else { rate };
            let sum: u128 = promises().map(|promise| clip(u128::from(promise.rate(place as usize).0))).sum();
            sums.entry(config.link).or_insert_with(|| vec![0; horizon])[ahead] += sum;
        }
    }
}
