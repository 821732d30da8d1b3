//! A host whose clock is not trusted promises nothing, but asks in which slot others are: with what it heard last as its only
//! evidence it would take itself for wrong for ever. One whose clock is trusted though somebody contradicts it asks those to
//! whom it has nothing to say.

use super::audience::Part;
use super::{HolderState, Summary};
use crate::clock::SELDOM_SLOTS;
use crate::event::{Action, ClockTrust, Now};
use crate::host::Host;
use crate::message::{Announcement, Refusal};
use crate::mutant::Mutant;
use crate::units::HolderId;

impl Host {
    /// Asks all holders that can be reached for their slots.
    pub(in crate::host) fn ask_for_slots(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.planted.is(Mutant::SilentInDoubt) {
            return;
        }
        self.announcer.now = now.mono;
        for (holder, part) in self.audience() {
            let Some(state) = self.announcer.holders.get(&holder) else { continue };
            let has_part = part != Part::None || state.keeps;
            match () {
                () if self.announcer.lost.contains(&holder) => {}
                () if has_part => self.ask(now, holder, actions),
                () => self.ask_seldom(now, holder, actions),
            }
        }
    }

    /// Asks a holder to whom there is nothing else to say, in one slot of several, in which not all hosts ask it.
    pub(super) fn ask_seldom(&mut self, now: Now, holder: HolderId, actions: &mut Vec<Action>) {
        let turn = holder.0.wrapping_add(self.config.host.0);
        if now.slot.0 % SELDOM_SLOTS == turn % SELDOM_SLOTS {
            self.ask(now, holder, actions);
        }
    }

    /// Announces nothing at all, once in a slot: the answer says the holder's slot, and what it keeps of this host's ends.
    /// Whatever is announced there next is told in full.
    fn ask(&mut self, now: Now, holder: HolderId, actions: &mut Vec<Action>) {
        let Some(state) = self.announcer.holders.get_mut(&holder) else { return };
        if state.seq > 0 && now.mono.minus(state.announced_at) < self.config.slot {
            return;
        }
        let seq = state.seq + 1;
        *state = HolderState {
            seq,
            asked: seq,
            renewed: None,
            announced_at: now.mono,
            keeps: false,
            announced: Summary::default(),
            ..std::mem::take(state)
        };
        let (host, boot) = (self.config.host, self.config.boot);
        let announcement = Announcement { host, boot, seq, slot: now.slot, ..Announcement::default() };
        actions.push(Action::Announce { holder, announcement });
    }

    /// Whether slots may be trusted from here on. What was known before they could not is known no longer: it says nothing of
    /// the slots that others are in by now.
    pub(in crate::host) fn judge_clock(&mut self, trust: ClockTrust) {
        if trust.is_trusted() && !self.trust.is_trusted() {
            self.links.forget_heard();
        }
        self.trust = trust;
    }

    /// Does what a holder says of its links count? In another slot it talks of other slots, and whoever only asked for its slot
    /// watches none of its links: an answer without any would be taken for empty ones. What was known ages instead.
    pub(in crate::host) fn counts(&self, holder: HolderId, seq: u64, refused: Option<Refusal>) -> bool {
        let asked = self.announcer.holders.get(&holder).is_some_and(|state| state.asked > 0 && state.asked == seq);
        refused != Some(Refusal::SlotGuard) && !(asked && self.trust.is_trusted())
    }
}
