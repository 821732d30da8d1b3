//! The tables of links that this host keeps, because no switch does that knows ranks, and serves to the hosts that send: of its
//! ingress, where hosts forward of the cables by which it sends, and in band of links between switches.
//!
//! It is the very brain a switch runs. Two sides use it: the peer service (other hosts announce) and the deciding loop
//! (this host tells what it measured and which jobs it has, and hears what others said). Both hold the lock only for a
//! call into the brain. Who changes something is answered only where that is news to him; a task of its own tells everybody
//! else, as a switch's does: what many hosts say in a round is one message to each, not one for each of theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
use sluice_schedule::Rate;
use sluice_schedule::offenders::Offenders;
use sluice_schedule::switch::{LinkConfig, Switch};
use sluice_schedule::{Announcement, Feedback, HostId, Nanos, Refusal, Slot};
use sluice_wire::attach::Places;
use sluice_wire::push;
use sluice_wire::session::PeerSender;
use tokio::sync::Notify;

/// The table, and whom to tell when it changes.
pub struct OwnTable {
    host: HostId,
    switch: Switch,
    listeners: BTreeMap<HostId, Listener>,
    joins: u64,
    offenders: Offenders<HostId>,
    places: Option<Arc<Places>>,
    own_news: bool,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Something changed that somebody may want to hear.
    changed: Arc<Notify>,
}

/// Whoever is told of changes.
struct Listener {
    sender: PeerSender,
    number: u64,
}

impl OwnTable {
    pub fn new(host: HostId, switch: Switch) -> OwnTable {
        OwnTable {
            host,
            offenders: Offenders::new(switch.limits().hosts),
            switch,
            listeners: BTreeMap::new(),
            joins: 0,
            places: None,
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
        self.places = places;
    }
    /// The host that the topology gives this address to.
    pub fn host_at(&self, address: IpAddr) -> Option<HostId> {
        self.places.as_ref()?.at(address)
    }
    /// Another host announced, at `mono` on the monotonic clock; the answer, where it says anything new.
    pub fn announce(&mut self, slot: Slot, mono: Nanos, announcement: &Announcement) -> Option<Feedback> {
        let host = announcement.host;
        if self.offenders.is_shut_out(mono, &host) {
            return None;
        }
        self.changed.notify_one();
        let answer = self.switch.hear(slot, announcement);
        match answer.as_ref().and_then(|answer| answer.refused) {
            Some(Refusal::Quota) => self.offended(mono, host),
            None => self.offenders.behaved(mono, &host),
            Some(_) => {}
        }
        answer
    }
    fn offended(&mut self, mono: Nanos, host: HostId) {
        if !self.offenders.offended(mono, host) {
            return;
        }
        tracing::warn!(
            event = "host-over-quota",
            %host,
            cost = "it is not listened to here for a minute",
            next = "mend its links in the topology if the host is right",
            "a host asked for more than it can send 10 times in a row"
        );
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
        self.offenders.forget_old(mono);
        self.switch.expire(slot);
        self.changed.notify_one();
    }
    /// A host connected; it is told of changes from here on.
    /// Gives the connection's number.
    pub fn joined(&mut self, host: HostId, sender: PeerSender) -> u64 {
        self.joins += 1;
        if self.listeners.len() < self.switch.limits().hosts || self.listeners.contains_key(&host) {
            self.listeners.insert(host, Listener { sender, number: self.joins });
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
    use sluice_schedule::BootId;
    use sluice_schedule::offenders::PENALTY;
    use sluice_schedule::switch::Limits;
    use sluice_wire::hello::{ClockSource, Grid, Hello};
    use sluice_wire::session::peer_outbox;

    use super::*;

    #[test]
    fn who_asks_for_too_much_ten_times_is_not_heard_for_a_minute_and_nobody_else_suffers() {
        let mut table = OwnTable::new(HostId::of("h0"), Switch::new(BootId(1), Limits::default(), &[]));
        let says = |host: &str, seq, watch| {
            let (host, boot, watch) = (HostId::of(host), BootId(2), vec![sluice_schedule::LinkId(1); watch]);
            Announcement { host, boot, seq, slot: Slot(100), watch, ..Announcement::default() }
        };
        let refused = |answer: Option<Feedback>| answer.and_then(|answer| answer.refused);
        let began = Nanos::from_millis(7);
        for seq in 1..=10 {
            assert_eq!(refused(table.announce(Slot(100), began, &says("h1", seq, 9_000))), Some(Refusal::Quota));
        }
        assert_eq!(table.announce(Slot(100), began, &says("h1", 11, 1)), None, "not heard");
        assert!(table.announce(Slot(100), began, &says("h2", 1, 1)).is_some());
        // The cluster's clock is set ahead by an hour: that is no minute.
        let (ahead, later) = (Slot(60_100), |seq| Announcement { slot: Slot(60_100), ..says("h1", seq, 1) });
        table.slot_edge(ahead, began);
        assert_eq!(table.announce(ahead, began, &later(12)), None, "not heard");
        let over = began.plus(PENALTY);
        table.slot_edge(ahead, over);
        assert!(table.announce(ahead, over, &later(13)).is_some());
    }

    #[test]
    fn a_stream_that_ends_takes_no_newer_one_of_its_host_along() {
        let grid = Grid {
            cluster: "c".into(),
            slot_length: sluice_schedule::Nanos::from_millis(60),
            horizon: 10,
            epoch: sluice_schedule::Nanos::ZERO,
            clock: ClockSource::Realtime,
        };
        let host = HostId::of("h1");
        let (boot, slot, now) = (BootId(1), Slot(0), sluice_schedule::Nanos::ZERO);
        let hello = Hello { grid, name: "h0".into(), host: HostId::of("h0"), boot, slot, now };
        let mut table = OwnTable::new(HostId::of("h0"), Switch::new(BootId(1), Limits::default(), &[]));
        let (first, _first) = peer_outbox(&hello);
        let (second, _second) = peer_outbox(&hello);
        let old = table.joined(host, first);
        let new = table.joined(host, second);
        table.left(host, old);
        assert_eq!(table.listeners.len(), 1);
        table.left(host, new);
        assert!(table.listeners.is_empty());
    }
}
