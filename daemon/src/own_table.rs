//! The tables of links that this host keeps, because no switch does that knows ranks, and serves to the hosts that send: of its
//! ingress, where hosts forward of the cables by which it sends, and in band of links between switches.
//!
//! It is the very brain a switch runs. Two sides use it: the peer service (other hosts announce) and the deciding loop
//! (this host tells what it measured and which jobs it has, and hears what others said). Both hold the lock only for a
//! call into the brain. Who changes something is answered only where that is news to him; a task of its own tells everybody
//! else, as a switch's does: what many hosts say in a round is one message to each, not one for each of theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
use sluice_schedule::Rate;
use sluice_schedule::switch::{LinkConfig, Switch};
use sluice_schedule::{Announcement, Feedback, HostId, Nanos, Refusal, Slot};
use sluice_wire::attach::Places;
use sluice_wire::push;
use sluice_wire::session::PeerSender;
use sluice_wire::speakers::{Source, Speaker, Speakers};
use tokio::sync::Notify;
use tonic::Status;

/// The table, and whom to tell when it changes.
pub struct OwnTable {
    host: HostId,
    switch: Switch,
    listeners: BTreeMap<HostId, Listener>,
    joins: u64,
    speakers: Speakers,
    own_news: bool,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Something changed that somebody may want to hear.
    changed: Arc<Notify>,
}

/// Whoever is told of changes.
struct Listener {
    source: Source,
    sender: PeerSender,
    number: u64,
}

impl OwnTable {
    pub fn new(host: HostId, switch: Switch) -> OwnTable {
        OwnTable {
            host,
            switch,
            listeners: BTreeMap::new(),
            joins: 0,
            speakers: Speakers::new(None),
            own_news: false,
            wake: None,
            changed: Arc::default(),
        }
    }
    /// Whom to call when the own host should look.
    pub fn on_news(&mut self, wake: Box<dyn Fn() + Send>) {
        self.wake = Some(wake);
    }
    /// These links are kept here from now on, and carry so much. What was kept before stays, until nobody announces it.
    pub fn carry(&mut self, kept: Vec<LinkConfig>) {
        kept.into_iter().for_each(|link| self.switch.keep_link(link));
    }
    /// Where hosts are attached, which bounds what they may announce.
    pub fn place(&mut self, places: Option<Arc<Places>>) {
        self.switch.attach(places.as_ref().map(|places| places.anywhere()).unwrap_or_default());
        self.speakers.place(places);
    }
    /// May this one speak in this name, which is its own from then on? Whoever is connected keeps its name in silence too.
    ///
    /// # Errors
    /// The refusal, for people.
    pub fn greet(&mut self, mono: Nanos, name: &str, speaker: Speaker) -> Result<(), Status> {
        if let Some(listener) = self.listeners.get(&speaker.host) {
            let _ = self.speakers.hear(mono, Speaker { source: listener.source, ..speaker });
        }
        self.speakers.hear(mono, speaker).map_err(|why| self.speakers.denied(name, speaker.source, why))
    }
    /// Another host announced from there, at `mono` on the monotonic clock; the answer, where it says anything new.
    pub fn announce(
        &mut self,
        slot: Slot,
        mono: Nanos,
        source: Source,
        announcement: &Announcement,
    ) -> Option<Feedback> {
        let speaker = Speaker { source, host: announcement.host };
        if self.speakers.is_banned(mono, speaker) || self.speakers.hear(mono, speaker).is_err() {
            return None;
        }
        self.changed.notify_one();
        let answer = self.switch.hear(slot, announcement);
        match answer.as_ref().and_then(|answer| answer.refused) {
            Some(Refusal::Quota) => self.offended(mono, speaker),
            None => self.speakers.behaved(mono, speaker),
            Some(_) => {}
        }
        answer
    }
    fn offended(&mut self, mono: Nanos, speaker: Speaker) {
        if !self.speakers.offended(mono, speaker) {
            return;
        }
        let Speaker { source, host } = speaker;
        tracing::warn!(
            event = "host-over-quota",
            %host,
            cost = "it is not listened to here for a minute from where it asked",
            next = "mend its links in the topology if the host is right; log.level = \"debug\" says from where",
            "a host asked for more than it can send 10 times in a row"
        );
        tracing::debug!(event = "host-over-quota", %host, from = %source, "it asked from there");
    }
    /// This host announced, which costs no message.
    pub fn announce_own(&mut self, slot: Slot, announcement: &Announcement) -> Feedback {
        self.changed.notify_one();
        self.switch.announce(slot, announcement)
    }
    /// What this host should see, if that changed since it last looked.
    pub fn news_for_own(&mut self, slot: Slot) -> Option<Feedback> {
        if std::mem::take(&mut self.own_news) { self.switch.feedback(slot, self.host) } else { None }
    }
    /// A slot began: leases that are over end.
    pub fn slot_edge(&mut self, slot: Slot, mono: Nanos) {
        self.speakers.tick(mono);
        self.switch.expire(slot);
        self.changed.notify_one();
    }
    /// A host that was greeted connected; it is told of changes from here on.
    /// Gives the connection's number.
    pub fn joined(&mut self, Speaker { source, host }: Speaker, sender: PeerSender) -> u64 {
        self.joins += 1;
        if self.listeners.len() < self.switch.limits().hosts || self.listeners.contains_key(&host) {
            self.listeners.insert(host, Listener { source, sender, number: self.joins });
        }
        self.joins
    }
    /// The stream of a host with this number ended; a newer one of it stays.
    pub fn left(&mut self, host: HostId, number: u64) {
        if self.listeners.get(&host).is_some_and(|listener| listener.number == number) {
            self.listeners.remove(&host);
        }
    }
    #[cfg(test)]
    /// What the first link carries.
    pub fn capacity(&self) -> Rate {
        self.switch.links().next().map_or(Rate::ZERO, |link| link.capacity)
    }
    #[cfg(test)]
    /// Promised by all hosts in the present slot.
    pub fn promised(&self) -> Rate {
        self.switch.links().next().and_then(|link| link.load.first().copied()).unwrap_or(Rate::ZERO)
    }

    /// Tells whoever has to hear of what changed; gives how many hosts are connected.
    fn push(&mut self, slot: Slot) -> usize {
        for host in self.switch.take_stale() {
            if host == self.host {
                self.own_news = true;
                if let Some(wake) = &self.wake {
                    wake();
                }
            } else if let Some(listener) = self.listeners.get(&host)
                && let Some(feedback) = self.switch.feedback(slot, host)
            {
                listener.sender.feedback(self.host.holder(), feedback);
            }
        }
        self.listeners.len()
    }
}

/// Tells hosts what others changed, for as long as it is polled; `slot` is the present one.
pub async fn tell(table: Arc<Mutex<OwnTable>>, slot: impl Fn() -> Slot) {
    let lock = || table.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = lock().changed.clone();
    push::run(&changed, || lock().push(slot())).await;
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use sluice_schedule::offenders::PENALTY;
    use sluice_schedule::switch::Limits;
    use sluice_schedule::{BootId, LinkId};
    use sluice_wire::hello::{ClockSource, Grid, Hello};
    use sluice_wire::session::peer_outbox;

    use super::*;

    fn table() -> OwnTable {
        OwnTable::new(HostId::of("h0"), Switch::new(BootId(1), Limits::default(), &[]))
    }

    fn at(last: u8) -> Source {
        Source::from(IpAddr::from([10, 0, 0, last]))
    }

    fn speaker(source: Source, host: &str) -> Speaker {
        Speaker { source, host: HostId::of(host) }
    }

    fn says(host: &str, seq: u64, watch: usize) -> Announcement {
        let (host, boot, watch) = (HostId::of(host), BootId(2), vec![LinkId(1); watch]);
        Announcement { host, boot, seq, slot: Slot(100), watch, ..Announcement::default() }
    }

    fn refused(answer: Option<Feedback>) -> Option<Refusal> {
        answer.and_then(|answer| answer.refused)
    }

    fn hello() -> Hello {
        let grid = Grid {
            cluster: "c".into(),
            slot_length: Nanos::from_millis(60),
            horizon: 10,
            epoch: Nanos::ZERO,
            clock: ClockSource::Realtime,
        };
        let (boot, slot, now) = (BootId(1), Slot(0), Nanos::ZERO);
        Hello { grid, name: "h0".into(), host: HostId::of("h0"), boot, slot, now }
    }

    #[test]
    fn who_asks_for_too_much_ten_times_is_not_heard_for_a_minute_and_nobody_else_suffers() {
        let (mut table, began) = (table(), Nanos::from_millis(7));
        for seq in 1..=10 {
            let answer = table.announce(Slot(100), began, at(1), &says("h1", seq, 9_000));
            assert_eq!(refused(answer), Some(Refusal::Quota));
        }
        assert_eq!(table.announce(Slot(100), began, at(1), &says("h1", 11, 1)), None, "not heard");
        assert!(table.announce(Slot(100), began, at(2), &says("h2", 1, 1)).is_some());
        // The cluster's clock is set ahead by an hour: that is no minute.
        let (ahead, later) = (Slot(60_100), |seq| Announcement { slot: Slot(60_100), ..says("h1", seq, 1) });
        table.slot_edge(ahead, began);
        assert_eq!(table.announce(ahead, began, at(1), &later(12)), None, "not heard");
        let over = began.plus(PENALTY);
        table.slot_edge(ahead, over);
        assert!(table.announce(ahead, over, at(1), &later(13)).is_some());
    }

    #[test]
    fn a_ban_hits_who_sent_it_and_not_whose_name_it_bore() {
        let (mut table, began) = (table(), Nanos::from_millis(7));
        let (rogue, own) = (speaker(at(9), "h1"), speaker(at(1), "h1"));
        table.greet(began, "h1", rogue).expect("nobody has the name");
        for seq in 1..=10 {
            let answer = table.announce(Slot(100), began, rogue.source, &says("h1", seq, 9_000));
            assert_eq!(refused(answer), Some(Refusal::Quota));
        }
        // It goes on and is not heard, so the name is free again five seconds later.
        let later = began.plus(Nanos::from_millis(5_000));
        assert_eq!(table.announce(Slot(100), later, rogue.source, &says("h1", 11, 1)), None);
        table.greet(later, "h1", own).expect("the name is free");
        assert!(table.announce(Slot(100), later, own.source, &says("h1", 12, 1)).is_some());
    }

    #[test]
    fn the_name_of_whoever_speaks_or_is_connected_is_nobody_elses() {
        let (mut table, began) = (table(), Nanos::from_millis(7));
        let (rogue, own) = (speaker(at(9), "h1"), speaker(at(1), "h1"));
        table.greet(began, "h1", own).expect("nobody has the name");
        let (sender, _drain) = peer_outbox(&hello());
        let number = table.joined(own, sender);
        // However long it has nothing to say.
        let later = began.plus(PENALTY);
        let why = table.greet(later, "h1", rogue).expect_err("the name is in use");
        assert!(why.message().starts_with("identity-not-host: h1 is in use"), "{}", why.message());
        assert_eq!(table.announce(Slot(100), later, rogue.source, &says("h1", 1, 1)), None, "nor in an old session");
        assert!(table.announce(Slot(100), later, own.source, &says("h1", 2, 1)).is_some());
        table.greet(later, "h1", own).expect("its own stays its own");
        table.left(own.host, number);
        assert!(table.greet(later, "h1", rogue).is_err(), "it may come back");
        table.greet(later.plus(Nanos::from_millis(5_000)), "h1", rogue).expect("it has gone");
    }

    #[test]
    fn a_stream_that_ends_takes_no_newer_one_of_its_host_along() {
        let (mut table, host) = (table(), speaker(at(1), "h1"));
        let (first, _first) = peer_outbox(&hello());
        let (second, _second) = peer_outbox(&hello());
        let old = table.joined(host, first);
        let new = table.joined(host, second);
        table.left(host.host, old);
        assert_eq!(table.listeners.len(), 1);
        table.left(host.host, new);
        assert!(table.listeners.is_empty());
    }
}
