//! Who is told anything, and what it is to this host.

use super::Announcer;
use crate::host::Host;
use crate::units::HolderId;

/// What a holder is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It keeps links that are in use here.
    Links,
    /// Jobs of this host meet there.
    Jobs,
    /// Neither of them any more.
    None,
}

impl Host {
    /// Every holder that this host announces to or announced to, by id, with what it is to this host now.
    pub(super) fn audience(&mut self) -> Vec<(HolderId, Part)> {
        let Announcer { holders, rendezvous, .. } = &mut self.announcer;
        let used = self.links.holders().map(|(holder, _)| holder);
        for holder in used.chain(rendezvous.all()).chain(self.routes.holders()) {
            holders.entry(holder).or_default();
        }
        let part = |holder| match () {
            () if self.links.in_use(holder) => Part::Links,
            () if rendezvous.is_at(holder) => Part::Jobs,
            () => Part::None,
        };
        holders.keys().map(|&holder| (holder, part(holder))).collect()
    }
}
