//! What daemons and holders say to each other, over a network that loses, copies, delays and reorders.

use sluice_schedule::message::{Announcement, Feedback};
use sluice_schedule::units::{BootId, FlowId, HolderId, Nanos};
use sluice_schedule::{Event, Now};

use super::Bug;
use super::world::{Ev, World};

impl World {
    pub fn announce(&mut self, host: usize, now: Now, holder: HolderId, announcement: Announcement) {
        self.check_announcement(host, now, holder, &announcement);
        let Some(place) = self.cluster.holders.iter().position(|known| known.id == holder) else { return };
        for delay in self.deliveries(host, place, 0) {
            self.cluster.holders[place].in_flight += 1;
            let announcement = Box::new(announcement.clone());
            self.after(delay, Ev::ToHolder { holder: place, from: host, announcement });
        }
        self.cluster.daemons[host].said.insert(holder, announcement);
    }

    /// The delays of the copies of one message that arrive; way 0 is to the holder.
    fn deliveries(&mut self, host: usize, holder: usize, way: usize) -> Vec<Nanos> {
        if self.cluster.holders[holder].within == Some(host) {
            return vec![Nanos(20_000)];
        }
        if self.cuts.get(&(host, holder)).is_some_and(|ways| ways[way]) {
            return Vec::new();
        }
        let base = self.rng.range(150_000, 400_000);
        if self.calm {
            return vec![Nanos(base)];
        }
        let faults = self.options.faults.clone();
        let copies = 1 + u64::from(self.rng.chance(faults.copy_percent));
        let mut delays = Vec::new();
        for _ in 0..copies {
            if !self.rng.chance(faults.loss_percent) {
                let late = self.rng.chance(30) && faults.jitter_percent > 0;
                let extra = if late { self.rng.range(0, self.slot.0 / 100 * faults.jitter_percent) } else { 0 };
                delays.push(Nanos(base + extra));
            }
        }
        delays
    }

    pub fn holder_hears(&mut self, holder: usize, from: usize, mut announcement: Announcement) {
        self.cluster.holders[holder].in_flight -= 1;
        let slot = self.cluster.holders[holder].slot(self.now);
        let (boot, seq) = (announcement.boot, announcement.seq);
        match self.bug {
            Some(Bug::SeqWithoutBoot) => announcement.boot = BootId(1),
            Some(Bug::GuardOff) => announcement.slot = slot,
            Some(Bug::Added) => {
                let mut piled = announcement.clone();
                if let Some(earlier) = self.piled.get(&(holder, from)) {
                    piled.flows.extend(earlier.flows.iter().cloned().map(|mut promise| {
                        promise.flow = FlowId(promise.flow.0 ^ (0x8000_0000 | earlier.seq << 16));
                        promise
                    }));
                }
                self.piled.insert((holder, from), announcement);
                announcement = piled;
            }
            _ => {}
        }
        let Some(switch) = &mut self.cluster.holders[holder].switch else { return };
        let feedback = switch.announce(slot, &announcement);
        self.say_routes(holder, from, &announcement);
        self.check_refusal(holder, from, (boot, seq), feedback.refused);
        self.check_leases(holder, slot);
        self.answer(holder, from, feedback);
        self.schedule_push(holder);
    }

    fn answer(&mut self, holder: usize, host: usize, feedback: Feedback) {
        let id = self.cluster.holders[holder].id;
        for delay in self.deliveries(host, holder, 1) {
            self.after(delay, Ev::ToHost { host, holder: id, feedback: Box::new(feedback.clone()) });
        }
    }

    fn schedule_push(&mut self, holder: usize) {
        if !std::mem::replace(&mut self.cluster.holders[holder].push_due, true) {
            self.after(Nanos(500_000), Ev::Push(holder));
        }
    }

    pub fn push(&mut self, holder: usize) {
        self.cluster.holders[holder].push_due = false;
        let slot = self.cluster.holders[holder].slot(self.now);
        let Some(switch) = &mut self.cluster.holders[holder].switch else { return };
        let stale = switch.take_stale();
        let answers: Vec<_> = stale.into_iter().filter_map(|host| Some((host, switch.feedback(slot, host)?))).collect();
        for (id, feedback) in answers {
            if let Some(host) = self.cluster.daemons.iter().position(|daemon| daemon.id == id) {
                self.answer(holder, host, feedback);
            }
        }
    }

    pub fn holder_tick(&mut self, holder: usize) {
        let slot = self.cluster.holders[holder].slot(self.now);
        if let Some(switch) = &mut self.cluster.holders[holder].switch {
            switch.expire(slot);
            self.check_leases(holder, slot);
            self.check_table(holder, slot);
            self.schedule_push(holder);
        }
        let place = &self.cluster.holders[holder];
        let edge = place.grid.until_edge(place.clock.wall(self.now));
        let (next, life) = (Nanos(self.slot.0 / 3).min(edge).max(Nanos(1000)), place.life);
        self.after(next, Ev::HolderTick { holder, life });
    }

    pub fn host_hears(&mut self, host: usize, holder: HolderId, feedback: Feedback) {
        let raw = self.bug == Some(Bug::SlotsGoBack);
        let sender = self.cluster.holders.iter().find(|place| place.id == holder);
        let daemon = &mut self.cluster.daemons[host];
        // The connection on which a dead process answered is gone with it.
        if daemon.brain.is_none() || sender.is_some_and(|place| place.boot() != feedback.boot) {
            return;
        }
        let now = daemon.now(self.now, raw);
        daemon.offsets.insert(holder, feedback.slot.since(now.slot));
        self.note_heard(host, holder, &feedback);
        self.wake(host, vec![Event::Feedback { holder, feedback }]);
    }

    /// Answers of nobody that say every silent holder's links are empty (a mutant).
    pub fn imagined(&self, host: usize, now: Now) -> Vec<Event> {
        let silent = self
            .measures
            .heard
            .iter()
            .filter(|((at, _), view)| *at == host && self.now.minus(view.at) > self.slot.times(2));
        silent
            .map(|((_, holder), view)| {
                let links = view.last.links.iter().map(|link| sluice_schedule::LinkView {
                    load: Vec::new(),
                    flows: Vec::new(),
                    ..link.clone()
                });
                let feedback = Feedback { slot: now.slot, warm: true, links: links.collect(), ..view.last.clone() };
                Event::Feedback { holder: *holder, feedback }
            })
            .collect()
    }
}
