//! Invariants of load tables: leases, order of news, and the reference they must equal in the calm.

use std::collections::BTreeMap;

use sluice_schedule::message::{Announcement, Refusal};
use sluice_schedule::mutant::Mutant as InBrain;
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HostId, LinkId, Nanos, Slot};

use crate::Mutant;
use crate::setup::host_id;
use crate::situations::Situation;
use crate::world::World;

/// What a double buffer counted of a host: its first schedule of a slot, flow by flow, in units.
#[derive(Clone, Debug)]
pub struct Counted {
    slot: Slot,
    rates: BTreeMap<(LinkId, FlowId), Vec<u64>>,
}

impl World {
    /// Invariant 12, while faults go on: news of a living process is never taken for old. (A process whose clock was set
    /// back over its predecessor's slots has to wait for the lease.)
    pub fn check_refusal(&mut self, holder: usize, from: usize, said: (BootId, u64), refused: Option<Refusal>) {
        let reached = self.measures.reached.entry((self.cluster.holders[holder].boot(), said.0)).or_default();
        let news = said.1 > *reached && self.cluster.daemons[from].config.boot == said.0;
        let overtaken = said.1 < *reached;
        *reached = (*reached).max(said.1);
        self.report.seen.note(Situation::Overtaken, u64::from(overtaken));
        if news
            && refused == Some(Refusal::Old)
            && self.options.amounts.steps == 0
            && self.options.amounts.pauses == 0
            && self.options.core.is_none()
        {
            self.blame(12, format!("news {} of host {from} (boot {}) is refused as old", said.1, said.0));
        }
    }

    /// Invariants 3 and 9: leases in force at a holder.
    pub fn check_leases(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        let Some(switch) = &place.switch else { return };
        let amounts = self.options.amounts;
        let steady = amounts.steps + amounts.pauses == 0 && self.options.core.is_none() || self.settled();
        let mut wrong = None;
        for lease in switch.leases() {
            let left = lease.ends.since(slot);
            let age = slot.since(lease.slot);
            if !(1..=3).contains(&left) || !(-1..=3).contains(&age) {
                wrong = Some(format!("{} holds slot {} of {} until {}", place.id, lease.slot, lease.host, lease.ends));
            }
            let Some(daemon) = self.cluster.daemons.iter().find(|daemon| daemon.id == lease.host) else { continue };
            let gone = match daemon.died {
                Some(death) if daemon.brain.is_none() => Some(death.at),
                _ if daemon.config.boot != lease.boot => Some(daemon.born),
                _ => None,
            };
            if steady && gone.is_some_and(|gone| self.now.minus(gone) > self.slot.scaled(5.0)) {
                wrong = Some(format!("{} still holds boot {} of {}", place.id, lease.boot, lease.host));
            }
        }
        if switch.hosts().count() > self.options.hosts
            || switch.hosts().count() > self.options.limits.hosts
            || switch.statuses() > self.options.hosts * self.options.jobs.len()
            || switch.leases().any(|lease| lease.promises > self.most_promises())
        {
            return self.blame(9, format!("{} keeps more hosts, promises or statuses than it may", place.id));
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
        if switch.kind() == TableKind::DoubleBuffer {
            return self.check_double_buffer(holder, slot);
        }
        let mut wrong = None;
        let by_sequence = self.mutant == Some(Mutant::InBrain(InBrain::SequenceWithoutBoot));
        let tight = self.options.tight();
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
                    if (lease.seq, lease.slot) == (said.seq, said.slot) && (lease.boot == said.boot || by_sequence) =>
                {
                    add_promises(&mut expected, said, slot, self.options.horizon, &place.links);
                }
                None if slot.since(said.slot) >= 2 => {}
                // It may have been refused: what it said before is in force until its lease ends.
                _ if tight => return,
                other => {
                    wrong =
                        Some(format!("{}: {} said {} for {}, held {other:?}", place.id, daemon.id, said.seq, said.slot))
                }
            }
        }
        for link in switch.links() {
            let sums = expected.remove(&link.link).unwrap_or_else(|| vec![0; self.options.horizon]);
            if link.load.iter().zip(&sums).any(|(held, sum)| u128::from(held.0) != *sum) {
                wrong = Some(format!("{}: {:?} instead of {sums:?} on {}", place.id, link.load, link.link));
            }
        }
        self.report.tables += 1;
        if let Some(wrong) = wrong {
            self.blame(12, wrong);
        }
    }

    fn most_promises(&self) -> usize {
        // A double buffer keeps the first schedules of a slot, also of flows that a second word does not name.
        self.options.limits.promises.saturating_mul(if self.options.double_buffer { 2 } else { 1 })
    }

    /// Remembers what a double buffer counts of an announcement that it took.
    pub fn note_counted(&mut self, holder: usize, from: usize, said: &Announcement) {
        let place = &self.cluster.holders[holder];
        if place.table != TableKind::DoubleBuffer {
            return;
        }
        let (unit, horizon) = (self.unit(holder), self.options.horizon);
        let mut rates: BTreeMap<(LinkId, FlowId), Vec<u64>> = BTreeMap::new();
        for config in &place.links {
            let promises: Vec<_> = said.flows.iter().filter(|promise| promise.links.contains(&config.link)).collect();
            for promise in &promises {
                let clipped = (0..horizon).map(|ahead| {
                    let (most, own) = (u128::from(config.capacity.0), u128::from(promise.rate(ahead).0));
                    let all: u128 = promises.iter().map(|promise| u128::from(promise.rate(ahead).0)).sum();
                    let rate = if all > most { own * most / all } else { own } as u64;
                    rate.div_ceil(unit).min(u64::from(u16::MAX))
                });
                rates.entry((config.link, promise.flow)).or_insert_with(|| clipped.collect());
            }
        }
        let (boot, host) = (place.boot(), self.cluster.daemons[from].id);
        let counted = self.measures.counted.entry((boot, host));
        let counted = counted.or_insert_with(|| Counted { slot: said.slot, rates: BTreeMap::new() });
        if counted.slot == said.slot && !counted.rates.is_empty() {
            for (key, rates) in rates {
                counted.rates.entry(key).or_insert(rates);
            }
            self.report.seen.note(Situation::MixedSchedules, 1);
        } else {
            // A flow that is gone promises nothing in this slot, and that is its first schedule of it.
            let before = counted.rates.iter().filter(|_| said.slot.since(counted.slot) == 1);
            for (key, _) in before.filter(|(_, rates)| rates.iter().any(|rate| *rate > 0)) {
                rates.entry(*key).or_insert_with(|| vec![0; horizon]);
            }
            *counted = Counted { slot: said.slot, rates };
        }
        self.report.seen.note(Situation::SumsOnly, 1);
    }

    fn unit(&self, holder: usize) -> u64 {
        let most = self.cluster.holders[holder].links.iter().map(|link| link.capacity.0).max().unwrap_or(0);
        let mut unit = 1_000_000;
        while most / unit > u64::from(u16::MAX) {
            unit *= 2;
        }
        unit
    }

    /// Invariant 12 for a double buffer: what it shows is the first schedules of this slot, and those of the last one of
    /// hosts that have not said anything in this one.
    fn check_double_buffer(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        let Some(switch) = &place.switch else { return };
        let boot = place.boot();
        // A word for the next slot, of a host whose clock is a little ahead, begins to fill what is read now.
        let mine = |key: &(BootId, HostId)| key.0 == boot;
        let counted = || self.measures.counted.iter().filter(|(key, _)| mine(key)).map(|(_, counted)| counted);
        let fresh = self.now.minus(place.born.max(self.settled_at.unwrap_or(Nanos::MAX))) > self.slot.times(3);
        if !fresh || counted().any(|counted| counted.slot.since(slot) > 0) {
            return;
        }
        let unit = self.unit(holder);
        let wrong = switch.links().find_map(|link| {
            (0..self.options.horizon).find_map(|ahead| {
                let of = |counted: &Counted| {
                    let passed = slot.since(counted.slot);
                    let place = ahead + usize::try_from(passed).unwrap_or(0);
                    let all = counted.rates.iter().filter(|((on, _), _)| *on == link.link && passed < 2);
                    all.map(|(_, rates)| rates.get(place).copied().unwrap_or(0)).sum::<u64>()
                };
                let sum = counted().map(of).sum::<u64>() * unit;
                (link.load[ahead].0 != sum).then(|| {
                    let load = link.load[ahead];
                    format!("{}: {load} instead of {sum} bit/s on {}, {ahead} slots ahead", place.id, link.link)
                })
            })
        });
        self.report.tables += 1;
        if let Some(wrong) = wrong {
            self.blame(12, wrong);
        }
    }

    /// Invariant 2 (P-10): what is accepted for a slot, at the moment in which that becomes the current one. It is counted here
    /// and judged over many runs: hosts that begin rounds in the same moment cannot know of each other yet.
    pub fn check_promises(&mut self, holder: usize) {
        let place = &self.cluster.holders[holder];
        let Some(switch) = &place.switch else { return };
        let quiet = self.options.faultless() && self.now >= self.slot.times(3);
        if !quiet && !self.settled() {
            return;
        }
        let over: Vec<(LinkId, f64)> = switch
            .links()
            .map(|link| (link.link, link.load.first().copied().unwrap_or_default().ratio_of(link.capacity)))
            .collect();
        // A flow that its host said would be over by now is counted on by nobody, though its sum is still there.
        let lasting = (place.table == TableKind::Exact).then(|| self.lasting_promises(holder));
        let kind = self.kind();
        for (link, ratio) in over {
            self.count_promised(kind.clone(), (link, false), ratio);
            if ratio > 1.0 {
                self.report.seen.note(Situation::PromisedOver, 1);
            }
        }
        for (link, ratio) in lasting.into_iter().flatten() {
            self.count_promised(format!("{kind}, of flows that are not over"), (link, true), ratio);
        }
    }

    fn count_promised(&mut self, kind: String, of: (LinkId, bool), ratio: f64) {
        let promised = self.report.promised.entry(kind).or_default();
        promised.samples += 1;
        promised.over_5 += u64::from(ratio > 1.05);
        promised.over_25 += u64::from(ratio > 1.25);
        promised.worst = promised.worst.max(ratio);
        let run = self.measures.promised_over.entry(of).or_default();
        *run = if ratio > 1.05 { *run + 1 } else { 0 };
        promised.longest = promised.longest.max(*run);
    }

    /// What hosts said last for the holder's slot, link by link as part of its rate, of flows that are not over by that word.
    fn lasting_promises(&self, holder: usize) -> Vec<(LinkId, f64)> {
        let place = &self.cluster.holders[holder];
        let (Some(slot), wall) = (place.edge, place.clock.wall(self.now)) else { return Vec::new() };
        let of_link = |link: LinkId| {
            let said = self.cluster.daemons.iter().filter_map(|daemon| daemon.said.get(&place.id));
            let current = said.filter_map(|said| Some((said, usize::try_from(slot.since(said.slot)).ok()?)));
            let promises = current.filter(|(_, ahead)| *ahead < 2).flat_map(move |(said, ahead)| {
                let lasts = move |until: Nanos| until == Nanos::ZERO || until > wall;
                let here =
                    said.flows.iter().filter(move |promise| promise.links.contains(&link) && lasts(promise.until));
                here.map(move |promise| promise.rate(ahead).0)
            });
            promises.sum::<u64>()
        };
        place
            .links
            .iter()
            .map(|config| (config.link, of_link(config.link) as f64 / config.capacity.0.max(1) as f64))
            .collect()
    }

    /// What P-10 is counted by.
    fn kind(&self) -> String {
        let options = &self.options;
        let words = [
            if options.double_buffer { ", sums only" } else { "" },
            if options.events { "" } else { ", at edges only" },
            if options.faultless() { ", no faults" } else { "" },
            if options.lasting.is_some() { ", lasting cut" } else { "" },
            if options.tight() { ", tight" } else { "" },
        ];
        format!("{:?}{}", options.policy, words.concat())
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
