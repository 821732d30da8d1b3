//! A host whose clock is not trusted promises nothing, but asks in which slot others are: with what it heard last as its only
//! evidence it would take itself for wrong for ever.

use super::audience::Part;
use super::{HolderState, Summary};
use crate::clock::SELDOM_SLOTS;
use crate::event::{Action, ClockTrust, Now};
use crate::host::Host;
use crate::message::{Announcement, Refusal};
use crate::mutant::Mutant;
use crate::units::HolderId;

impl Host {
    /// Announces nothing at all to holders that can be reached, once in a slot: the answer says its slot, and what it keeps of
    /// this host's ends.
    pub(in crate::host) fn ask_for_slots(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.planted.is(Mutant::SilentInDoubt) {
            return;
        }
        let (host, boot, slot) = (self.config.host, self.config.boot, self.config.slot);
        for (holder, part) in self.audience() {
            let Some(state) = self.announcer.holders.get_mut(&holder) else { continue };
            let soon = part != Part::None || state.keeps || now.slot.0 % SELDOM_SLOTS == holder.0 % SELDOM_SLOTS;
            let due = state.seq == 0 || now.mono.minus(state.announced_at) >= slot;
            if !soon || !due || self.announcer.lost.contains(&holder) {
                continue;
            }
            let seq = state.seq + 1;
            // Once the clock is trusted again, everything is news.
            *state = HolderState {
                seq,
                asked: seq,
                renewed: None,
                announced_at: now.mono,
                keeps: false,
                announced: Summary::default(),
                ..std::mem::take(state)
            };
            let announcement = Announcement { host, boot, seq, slot: now.slot, ..Announcement::default() };
            actions.push(Action::Announce { holder, announcement });
        }
    }

    /// Whether slots may be trusted from here on. What was known before they could not is known no longer: it says nothing of
    /// the slots that others are in by now.
    pub(in crate::host) fn judge_clock(&mut self, trust: ClockTrust) {
        if trust == ClockTrust::Trusted && self.trust == ClockTrust::Untrusted {
            self.links.forget_heard();
        }
        self.trust = trust;
    }

    /// Does what a holder says of its links count? In another slot it talks of other slots, and whoever only asked for its slot
    /// watches none of its links: an answer without any would be taken for empty ones. What was known ages instead.
    pub(in crate::host) fn counts(&self, holder: HolderId, seq: u64, refused: Option<Refusal>) -> bool {
        let asked = self.announcer.holders.get(&holder).is_some_and(|state| state.asked > 0 && state.asked == seq);
        refused != Some(Refusal::SlotGuard) && !(asked && self.trust == ClockTrust::Trusted)
    }
}
