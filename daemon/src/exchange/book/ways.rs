//! What echoes say of the ways of flows; and where hosts keep all links, they say nothing else.

use sluice_schedule::{FlowId, Slot};

use super::read::View;
use super::{Asked, Book};

/// By which way a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub flow: FlowId,
    /// The signatures of its links, by exclusive or.
    pub signature: u32,
}

impl Book {
    pub(super) fn note_way(&mut self, asked: &Asked, signature: u32) {
        if let Some(flow) = self.flows.get_mut(&asked.flow)
            && flow.tuple == asked.tuple
            && flow.signature.replace(signature) != Some(signature)
        {
            self.passed.insert(asked.flow, signature);
        }
    }

    /// By which ways flows go, as far as that is news since the last call.
    pub fn take_passed(&mut self) -> Vec<Passed> {
        std::mem::take(&mut self.passed).into_iter().map(|(flow, signature)| Passed { flow, signature }).collect()
    }

    /// Links of switches have nothing against anybody: that is told once a slot, without asking.
    pub(super) fn assume_room(&mut self, slot: Slot) {
        for link in self.watched() {
            if self.views.get(&link).is_none_or(|view| view.slot != slot) {
                self.views.insert(link, View::empty(slot));
                self.heard = true;
            }
        }
    }
}
