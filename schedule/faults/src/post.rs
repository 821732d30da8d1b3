//! What daemons and holders say to each other, over a network that loses, copies, delays and reorders.

use sluice_schedule::Event;
use sluice_schedule::Now;
use sluice_schedule::clock::Shown;
use sluice_schedule::message::{Announcement, Feedback, Refusal};
use sluice_schedule::units::{HolderId, Nanos};

use crate::Mutant;
use crate::plan::Fate;
use crate::queue::Ev;
use crate::situations::Situation;
use crate::world::World;

impl World {
    pub fn announce(&mut self, host: usize, now: Now, holder: HolderId, mut announcement: Announcement) {
        self.check_announcement(host, holder, &announcement);
        let Some(place) = self.cluster.holders.iter().position(|known| known.id == holder) else { return };
        // Without a connection it is dropped, and no message: the brain says it again once there is one.
        if !self.is_connected(host, place) {
            return;
        }
        self.check_storm(host, now, holder);
        if self.cluster.daemons[host].older {
            announcement.flows.iter_mut().for_each(|promise| promise.until = Nanos::ZERO);
            announcement.routes.clear();
            announcement.measured.clear();
        }
        for delay in self.deliveries(host, place, false) {
            self.cluster.holders[place].in_flight += 1;
            let announcement = Box::new(announcement.clone());
            self.after(delay, Ev::ToHolder { holder: place, from: host, announcement });
        }
        let daemon = &mut self.cluster.daemons[host];
        daemon.says(holder, announcement.seq, announcement.slot);
        daemon.said.insert(holder, announcement);
    }

    /// The delays of the copies of one message that arrive; `back`: to the host.
    fn deliveries(&mut self, host: usize, holder: usize, back: bool) -> Vec<Nanos> {
        if self.cluster.holders[holder].within == Some(host) {
            return vec![Nanos(20_000)];
        }
        if !self.is_connected(host, holder) {
            return Vec::new();
        }
        let way = (host, holder, back);
        let count = self.sent.entry(way).or_default();
        *count += 1;
        let nth = *count;
        let mut rng = self.chance(&[0x3e55, host as u64, holder as u64, u64::from(back), nth]);
        let base = rng.range(150_000, 400_000);
        if self.cuts.get(&(host, holder)).is_some_and(|cut| cut.ways[usize::from(back)]) {
            return Vec::new();
        }
        // What such a switch says comes late; what it is told comes in time for the slot guard.
        let late = self.slow_leaves.get(&holder).copied().unwrap_or_default();
        let late = if back { late } else { late.min(Nanos(self.slot.0 / 10 * 9)) };
        let base = Nanos(base).plus(late);
        if self.calm {
            return vec![base];
        }
        let fate = self.fate(way, nth, &mut rng);
        let very = |by: u64| u64::from(by > self.slot.0);
        match fate {
            None => vec![base],
            Some(Fate::Lost) => {
                self.seen(Situation::MessageLost);
                Vec::new()
            }
            Some(Fate::Late(by)) => {
                let very = very(by);
                self.report.seen.note(Situation::MessageLate, very);
                vec![base.plus(Nanos(by))]
            }
            Some(Fate::Twice([first, second])) => {
                let very = very(first.max(second));
                self.report.seen.note(Situation::MessageLate, very);
                self.seen(Situation::MessageCopied);
                vec![base.plus(Nanos(first)), base.plus(Nanos(second))]
            }
        }
    }

    pub fn holder_hears(&mut self, holder: usize, from: usize, announcement: Box<Announcement>) {
        let hangs = self.holder_hangs(holder);
        if hangs > self.now && self.cluster.holders[holder].switch.is_some() {
            return self.at(hangs, Ev::ToHolder { holder, from, announcement });
        }
        self.cluster.holders[holder].in_flight -= 1;
        let slot = self.cluster.holders[holder].slot(self.now);
        let (boot, seq) = (announcement.boot, announcement.seq);
        if self.cluster.holders[holder].switch.is_none() {
            return self.seen(Situation::AnnouncedToTheDead);
        }
        if boot != self.cluster.daemons[from].config.boot {
            self.seen(Situation::OldBootAnnounced);
        }
        let id = self.cluster.daemons[from].id;
        let ahead = announcement.slot.since(slot);
        let Some(switch) = &mut self.cluster.holders[holder].switch else { return };
        let full = switch.hosts().count() >= self.options.limits.hosts && switch.hosts().all(|host| host != id);
        let before = switch.leases().find(|lease| lease.host == id);
        let feedback = switch.announce(slot, &announcement);
        let applied = switch.leases().find(|lease| lease.host == id).is_some_and(|lease| {
            (lease.boot, lease.seq) == (boot, seq)
                && before.is_none_or(|before| (before.boot, before.seq) != (boot, seq))
        });
        if full && feedback.refused == Some(Refusal::Quota) {
            self.seen(Situation::HostsFull);
        }
        if ahead == 1 && applied {
            self.seen(Situation::GuardEdge);
        }
        if ahead.unsigned_abs() > 1 && applied {
            let what =
                format!("holder {holder} in {slot} took an announcement for {} of host {from}", announcement.slot);
            self.blame(12, what);
        }
        if applied {
            self.note_counted(holder, from, &announcement);
        }
        self.say_routes(holder, from, &announcement);
        self.check_refusal(holder, from, (boot, seq), feedback.refused);
        self.check_leases(holder, slot);
        self.answer(holder, from, feedback);
        self.schedule_push(holder);
    }

    fn answer(&mut self, holder: usize, host: usize, feedback: Feedback) {
        let id = self.cluster.holders[holder].id;
        for delay in self.deliveries(host, holder, true) {
            self.after(delay, Ev::ToHost { host, holder: id, feedback: Box::new(feedback.clone()) });
        }
    }

    fn schedule_push(&mut self, holder: usize) {
        if !std::mem::replace(&mut self.cluster.holders[holder].push_due, true) {
            self.after(Nanos(500_000), Ev::Push(holder));
        }
    }

    pub fn push(&mut self, holder: usize) {
        let hangs = self.holder_hangs(holder);
        if hangs > self.now && self.cluster.holders[holder].switch.is_some() {
            return self.at(hangs, Ev::Push(holder));
        }
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
        let life = self.cluster.holders[holder].life;
        let hangs = self.holder_hangs(holder);
        if hangs > self.now {
            return self.at(hangs, Ev::HolderTick { holder, life });
        }
        let slot = self.cluster.holders[holder].slot(self.now);
        if let Some(switch) = &mut self.cluster.holders[holder].switch {
            let before: Vec<_> = switch.hosts().collect();
            switch.expire(slot);
            let gone = before.len() - switch.hosts().count();
            if gone > 0 {
                self.note_ended(holder, &before);
            }
            if self.cluster.holders[holder].edge.replace(slot) != Some(slot) {
                self.check_promises(holder);
            }
            self.check_leases(holder, slot);
            self.check_table(holder, slot);
            self.schedule_push(holder);
        }
        let place = &self.cluster.holders[holder];
        let edge = place.grid.until_edge(place.clock.wall(self.now));
        let next = Nanos(self.slot.0 / 3).min(edge).max(Nanos(1000));
        self.after(next, Ev::HolderTick { holder, life });
    }

    /// Leases ended: of a host that is dialing?
    fn note_ended(&mut self, holder: usize, before: &[sluice_schedule::HostId]) {
        let Some(switch) = &self.cluster.holders[holder].switch else { return };
        let left: Vec<_> = switch.hosts().collect();
        let dialing = before.iter().filter(|id| !left.contains(id)).any(|id| {
            let host = self.cluster.daemons.iter().position(|daemon| daemon.id == *id);
            host.is_some_and(|host| !self.is_connected(host, holder))
        });
        self.report.seen.note(Situation::LeaseEndedWhileDialing, u64::from(dialing));
    }

    pub fn host_hears(&mut self, host: usize, holder: HolderId, mut feedback: Feedback) {
        let raw = self.mutant == Some(Mutant::SlotsGoBack);
        let sender = self.cluster.holders.iter().find(|place| place.id == holder);
        let late = sender.is_some_and(|place| place.boot() != feedback.boot);
        let daemon = &mut self.cluster.daemons[host];
        if daemon.brain.is_none() {
            return self.seen(Situation::AnsweredTheDead);
        }
        // The connection on which a dead process answered is gone with it.
        if late {
            return self.seen(Situation::OldBootAnswered);
        }
        if daemon.hangs_until > self.now {
            daemon.keep(vec![Event::Feedback { holder, feedback }]);
            return;
        }
        if daemon.older {
            feedback.routes.clear();
            feedback.crowds.clear();
        }
        let (now, _) = daemon.now(self.now, raw);
        let offset = daemon.offset_of(holder, &feedback, now.slot);
        // The table that it keeps itself shows it its own clock.
        if holder != daemon.id.holder() {
            daemon.offsets.insert(holder, Shown { offset, at: now.mono, slot: now.slot });
        }
        if !feedback.warm {
            self.seen(Situation::NotWarm);
        }
        self.wake(host, vec![Event::Feedback { holder, feedback }]);
    }
}
