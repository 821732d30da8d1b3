//! What comes from holders of tables and from the kernel. Most of it says nothing new, being answers to what this host said
//! itself, repeats, and flows that ran dry for a moment, so it is taken in as it comes and a turn follows only where there is
//! something to decide on.

use sluice_schedule::{Event, Now};

use super::{Core, Inbound};
use crate::monitor::Haste;

impl Core {
    /// Takes in what came from the exchange, without a turn. True: there is something to decide on.
    pub fn hear(&mut self, now: Now, inbox: &mut Vec<Inbound>) -> bool {
        for message in inbox.drain(..) {
            match message {
                Inbound::Feedback { holder, feedback, at } => {
                    if let Some(took) = self.holders.heard(now, at, holder, &feedback) {
                        self.counters.exchange_s.observe(took.as_secs_f64());
                    }
                    self.count_refused(feedback.refused);
                    self.host.handle(now, Event::Feedback { holder, feedback });
                }
                Inbound::Back { holder, slot_diff, offset_ns } => {
                    self.holders.back(now, holder, slot_diff, offset_ns);
                    self.host.handle(now, Event::HolderBack(holder));
                }
                Inbound::Lost { holder, why, mismatch } => {
                    self.holders.lost(now, holder, why, mismatch);
                    self.host.handle(now, Event::HolderLost(holder));
                }
                Inbound::Datagrams(tally) => self.count_datagrams(tally),
                Inbound::Passed(passed) => passed.iter().for_each(|passed| self.monitor.passed(*passed)),
            }
        }
        self.heard |= self.host.has_news();
        self.heard
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
                self.host.handle(now, Event::Feedback { holder: host.holder(), feedback });
                self.heard |= self.host.has_news();
            }
        }
    }
}
