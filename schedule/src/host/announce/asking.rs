//! A host whose clock is not trusted promises nothing, but asks in which slot others are: with what it heard last as its only
//! evidence it would take itself for wrong for ever.

use super::{HolderState, Summary};
use crate::event::{Action, Now};
use crate::host::Host;
use crate::message::Announcement;
use crate::mutant::Mutant;

impl Host {
    /// Announces nothing at all to every holder that can be reached, once in a slot: its answer says its slot, and what it
    /// keeps of this host's ends.
    pub(in crate::host) fn ask_for_slots(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.planted.is(Mutant::SilentInDoubt) {
            return;
        }
        let (host, boot, slot) = (self.config.host, self.config.boot, self.config.slot);
        // Whose links are in use by now is one of them, also where nothing was ever promised.
        let _ = self.audience();
        let lost = &self.announcer.lost;
        let reached = self.announcer.holders.iter_mut().filter(|(holder, state)| {
            !lost.contains(holder) && (state.seq == 0 || now.mono.minus(state.announced_at) >= slot)
        });
        for (&holder, state) in reached {
            let seq = state.seq + 1;
            // Once the clock is trusted again, everything is news.
            *state = HolderState {
                seq,
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
}
