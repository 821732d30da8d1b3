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
use sluice_schedule::{Announcement, Feedback, HostId, Slot};
use sluice_wire::push;
use sluice_wire::session::PeerSender;
use tokio::sync::Notify;

/// The table, and whom to tell when it changes.
pub struct OwnTable {
    host: HostId,
    switch: Switch,
    listeners: BTreeMap<HostId, PeerSender>,
    own_news: bool,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Something changed that somebody may want to hear.
    changed: Arc<Notify>,
}

impl OwnTable {
    pub fn new(host: HostId, switch: Switch) -> OwnTable {
        OwnTable { host, switch, listeners: BTreeMap::new(), own_news: false, wake: None, changed: Arc::default() }
    }
    /// Whom to call when the own host should look.
    pub fn on_news(&mut self, wake: Box<dyn Fn() + Send>) {
        self.wake = Some(wake);
    }
    /// These links are kept here from now on, and carry so much. What was kept before stays, until nobody announces it.
    pub fn carry(&mut self, kept: Vec<LinkConfig>) {
        kept.into_iter().for_each(|link| self.switch.keep_link(link));
    }
    /// Another host announced; the answer, where it says anything new.
    pub fn announce(&mut self, slot: Slot, announcement: &Announcement) -> Option<Feedback> {
        self.changed.notify_one();
        self.switch.hear(slot, announcement)
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
    pub fn slot_edge(&mut self, slot: Slot) {
        self.switch.expire(slot);
        self.changed.notify_one();
    }
    /// A host connected; it is told of changes from here on.
    pub fn joined(&mut self, host: HostId, sender: PeerSender) {
        if self.listeners.len() < self.switch.limits().hosts || self.listeners.contains_key(&host) {
            self.listeners.insert(host, sender);
        }
    }
    /// The stream of a host ended.
    pub fn left(&mut self, host: HostId) {
        self.listeners.remove(&host);
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
                listener.feedback(self.host.holder(), feedback);
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
