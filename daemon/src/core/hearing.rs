//! What comes from holders of tables and from the kernel. Most of it says nothing new, being answers to what this host said
//! itself, repeats, and flows that ran dry for a moment, so it is taken in as it comes and a turn follows only where there is
//! something to decide on.

use sluice_ebpf::{SocketEventKind, Tier};
use sluice_schedule::clock::{self, PeersDiffer, Shown};
use sluice_schedule::{ClockTrust, Event, Now, Rate};

use super::{Core, FEW, Inbound};
use crate::config::Mode;
use crate::monitor::Haste;

impl Core {
    /// What the slots of holders say of the own clock.
    pub fn judge_by_peers(&self, now: Now) -> Result<ClockTrust, PeersDiffer> {
        let shown: Vec<Shown> = self.holders.shown().collect();
        clock::trust(now, self.config.slot_length(), self.clock.trust, &shown)
    }

    /// Takes in what came from the exchange, without a turn. True: there is something to decide on.
    pub fn hear(&mut self, now: Now, inbox: &mut Vec<Inbound>) -> bool {
        for message in inbox.drain(..) {
            match message {
                Inbound::Feedback { holder, feedback, at } => {
                    if let Some(took) = self.holders.heard(now, at, holder, &feedback) {
                        self.counters.exchange_s.observe(took.as_secs_f64());
                    }
                    self.count_refused(feedback.refused);
                    self.counters.refused_views +=
                        feedback.links.iter().filter(|view| !self.host.knows(view.link)).count() as u64;
                    if !self.doubts.believes(now.mono, holder, feedback.boot) {
                        self.counters.refused_feedback += 1;
                        continue;
                    }
                    self.tell(now, Event::Feedback { holder, feedback });
                }
                Inbound::Back { holder, slot_diff, offset_ns } => {
                    self.holders.back(now, holder, slot_diff, offset_ns);
                    self.doubts.connected(holder);
                    self.tell(now, Event::HolderBack(holder));
                }
                Inbound::Lost { holder, why, mismatch } => {
                    self.holders.lost(now, holder, why, mismatch);
                    self.tell(now, Event::HolderLost(holder));
                }
                Inbound::Datagrams(tally) => self.count_datagrams(tally),
                Inbound::Passed(passed) => passed.iter().for_each(|passed| self.monitor.passed(*passed)),
            }
        }
        self.heard |= self.host.has_news();
        self.heard
    }

    /// Tells the brain.
    pub(super) fn tell(&mut self, now: Now, event: Event) {
        crate::crashed::heed(now, &event);
        self.host.handle(now, event);
    }

    /// How soon there has to be a turn for what the kernel told.
    pub fn haste(&self) -> Haste {
        self.haste
    }

    /// Takes in what the kernel tells, without a turn; says how soon there has to be one.
    pub fn hear_kernel(&mut self, now: Now) -> Haste {
        self.take_socket_events(now);
        self.haste
    }

    /// What the table of the own ingress has to say to this host.
    pub(super) fn hear_own_table(&mut self, now: Now) {
        if let Some(table) = &self.own_table {
            let host = self.host.config().host;
            let mut table = table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(feedback) = table.news_for_own(now.slot) {
                let event = Event::Feedback { holder: host.holder(), feedback };
                crate::crashed::heed(now, &event);
                self.host.handle(now, event);
                self.heard |= self.host.has_news();
            }
        }
    }

    pub(super) fn take_socket_events(&mut self, now: Now) {
        self.socket_events.clear();
        if self.mode == Mode::Active || self.datapath.tier() == Tier::None {
            self.datapath.events(&mut self.socket_events);
        }
        let events = std::mem::take(&mut self.socket_events);
        for event in &events {
            match event.kind {
                SocketEventKind::Opened => self.counters.flows_opened += 1,
                SocketEventKind::Closed => self.counters.flows_closed += 1,
                SocketEventKind::Expired => self.counters.released_deadline += 1,
                SocketEventKind::LossGuard => {
                    self.counters.released_loss += 1;
                    self.counters.loss_guards += 1;
                }
                SocketEventKind::Started | SocketEventKind::Finished | SocketEventKind::Released => {}
            }
            let haste = self.monitor.socket_event(now, event, &mut self.events);
            // The end of one of few flows frees much, and somebody waits for it.
            let much = haste == Haste::Some && self.active <= FEW;
            self.haste = self.haste.max(if much { Haste::Much } else { haste });
        }
        self.socket_events = events;
    }

    /// What other hosts promised to send to this one in the present slot, link by link.
    pub(super) fn promised_here(&self, now: Now) -> Vec<Rate> {
        let fabric = &self.monitor.fabric;
        let promised = |at: usize| {
            let Some(ingress) = fabric.ingress(at) else { return Rate::MAX };
            // What comes beyond a promise may be its surplus. Taken for a stranger's it would allow itself for ever.
            if self.host.competes(now, ingress.link) {
                return Rate::MAX;
            }
            let mut links = self.host.links().filter(|status| status.link == ingress.link);
            links.next().and_then(|status| status.load.first().copied()).unwrap_or(Rate::ZERO)
        };
        (0..fabric.links.len()).map(promised).collect()
    }
}
