//! Connections between hosts and holders: how they end, and when a host dials again.
//!
//! When a process dies its machine closes its connections at once; when the network is cut, the keep-alive finds it. A host
//! dials by the product's own [`Backoff`].

use sluice_schedule::Event;
use sluice_schedule::backoff::Backoff;
use sluice_schedule::mutant::Mutant as InBrain;
use sluice_schedule::units::Nanos;

use crate::Mutant;
use crate::queue::Ev;
use crate::situations::Situation;
use crate::world::World;

/// A connection without an answer is closed after so long.
pub const KEEP_ALIVE: Nanos = Nanos::from_millis(2_000);
/// Dials that are no further apart fall together.
const TOGETHER: Nanos = Nanos(500_000);

/// One connection.
#[derive(Clone, Debug)]
pub struct Dial {
    pub connected: bool,
    backoff: Backoff,
    /// Counts states, so that a dial of an earlier one is not taken for one of this.
    pub ticket: u64,
    /// Dials in vain since it was lost.
    tries: u32,
    /// When the first two of them were.
    first: [Nanos; 2],
    /// When it came to be as it is.
    pub since: Nanos,
}

impl Dial {
    pub fn new(mutant: Option<Mutant>) -> Dial {
        let backoff = match mutant {
            Some(Mutant::InBrain(planted @ (InBrain::BackoffWithoutJitter | InBrain::GivesUp))) => {
                Backoff::with_mutant(planted)
            }
            _ => Backoff::default(),
        };
        Dial { connected: true, backoff, ticket: 0, tries: 0, first: [Nanos::ZERO; 2], since: Nanos::ZERO }
    }
}

impl World {
    fn dial_at(&self, host: usize, holder: usize) -> usize {
        host * self.cluster.holders.len() + holder
    }

    /// Can they talk to each other, as far as the connection goes?
    pub fn is_connected(&self, host: usize, holder: usize) -> bool {
        self.cluster.holders[holder].within == Some(host) || self.dials[self.dial_at(host, holder)].connected
    }

    /// The other end is gone, and after `delay` the host knows.
    pub fn disconnect(&mut self, host: usize, holder: usize, delay: Nanos) {
        let at = self.dial_at(host, holder);
        if self.cluster.holders[holder].within == Some(host) || !self.dials[at].connected {
            return;
        }
        let dial = &mut self.dials[at];
        (dial.connected, dial.tries, dial.since) = (false, 0, self.now);
        dial.ticket += 1;
        let ticket = dial.ticket;
        self.after(delay, Ev::Lost { host, holder, ticket });
    }

    /// A new process has no connections and dials at once.
    pub fn dial_all(&mut self, host: usize) {
        for holder in 0..self.cluster.holders.len() {
            let at = self.dial_at(host, holder);
            if self.cluster.holders[holder].within == Some(host) {
                continue;
            }
            let dial = &mut self.dials[at];
            (dial.connected, dial.tries, dial.since) = (false, 0, self.now);
            dial.backoff.reset();
            dial.ticket += 1;
            let ticket = dial.ticket;
            self.after(Nanos(200_000), Ev::Dial { host, holder, ticket });
        }
    }

    /// A host hears that a connection ended.
    pub fn lost(&mut self, host: usize, holder: usize, ticket: u64) {
        let at = self.dial_at(host, holder);
        if self.dials[at].ticket != ticket || self.cluster.daemons[host].brain.is_none() {
            return;
        }
        let id = self.cluster.holders[holder].id;
        self.cluster.daemons[host].offsets.remove(&id);
        self.wake(host, vec![Event::HolderLost(id)]);
        self.dial_later(host, holder);
    }

    fn dial_later(&mut self, host: usize, holder: usize) {
        let at = self.dial_at(host, holder);
        let ticket = self.dials[at].ticket;
        let tries = u64::from(self.dials[at].tries);
        let random = self.chance(&[0xd1a1, host as u64, holder as u64, ticket, tries]).next();
        let wait = self.dials[at].backoff.next(random);
        self.after(wait, Ev::Dial { host, holder, ticket });
    }

    /// A host dials.
    pub fn dial(&mut self, host: usize, holder: usize, ticket: u64) {
        let at = self.dial_at(host, holder);
        let daemon = &self.cluster.daemons[host];
        if self.dials[at].ticket != ticket || self.dials[at].connected || daemon.brain.is_none() {
            return;
        }
        if daemon.hangs_until > self.now {
            let then = daemon.hangs_until;
            return self.at(then, Ev::Dial { host, holder, ticket });
        }
        let place = &self.cluster.holders[holder];
        let id = place.id;
        let answers = place.switch.is_some() && self.holder_hangs(holder) <= self.now;
        if answers && !self.cuts.contains_key(&(host, holder)) {
            let dial = &mut self.dials[at];
            (dial.connected, dial.since) = (true, self.now);
            dial.ticket += 1;
            dial.backoff.reset();
            self.seen(Situation::Reconnected);
            self.wake(host, vec![Event::HolderBack(id)]);
            return;
        }
        self.seen(Situation::DialFailed);
        let dial = &mut self.dials[at];
        if let Some(first) = dial.first.get_mut(dial.tries as usize) {
            *first = self.now;
        }
        dial.tries += 1;
        let tries = dial.tries;
        if tries == 4 {
            self.seen(Situation::DialedOften);
        }
        self.check_herd(host, holder, tries);
        if tries == 1 {
            self.cluster.daemons[host].offsets.remove(&id);
            self.wake(host, vec![Event::HolderLost(id)]);
        }
        self.dial_later(host, holder);
    }

    /// Invariant 11 for dials: hosts that lost a holder together do not dial together, twice in a row.
    fn check_herd(&mut self, host: usize, holder: usize, tries: u32) {
        let own = &self.dials[self.dial_at(host, holder)];
        let near = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) <= TOGETHER.0;
        let others: Vec<&Dial> = (0..self.cluster.daemons.len())
            .filter(|other| *other != host && self.cluster.holders[holder].within != Some(*other))
            .map(|other| &self.dials[self.dial_at(other, holder)])
            .filter(|dial| !dial.connected && dial.tries >= tries)
            .collect();
        if tries == 1 && others.iter().any(|dial| dial.first[0].0.abs_diff(own.first[0].0) <= 1_000_000) {
            return self.seen(Situation::DialedTogether);
        }
        let both = |dial: &&&Dial| near(dial.first[0], own.first[0]) && near(dial.first[1], own.first[1]);
        let count = others.iter().filter(both).count();
        if tries == 2 && count >= 2 {
            self.blame(11, format!("host {host} and {count} others dial holder {holder} together, twice in a row"));
        }
    }

    /// So long after a cut its connection is closed, if it lasts.
    pub fn keep_alive(&mut self, host: usize, holder: usize) {
        let silent = self.cuts.get(&(host, holder)).is_some_and(|cut| self.now.minus(cut.since) >= KEEP_ALIVE);
        if silent {
            self.disconnect(host, holder, Nanos::ZERO);
        }
    }

    /// Until when a holder does nothing.
    pub fn holder_hangs(&self, holder: usize) -> Nanos {
        let place = &self.cluster.holders[holder];
        place.within.map_or(place.hangs_until, |host| self.cluster.daemons[host].hangs_until)
    }
}
