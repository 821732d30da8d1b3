//! Where hosts are attached, as the shell knows it from the topology: how much each can send at all, and which of the links
//! kept here lie on its ways. What a host promises beyond that is refused, whoever it is: nobody can reserve more of a
//! fabric than fits its own cables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Limits, Switch};
use crate::message::{Announcement, Refusal};
use crate::units::{HostId, LinkId, Rate};

/// What becomes of promises beyond what a host can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// A little is scaled down, more is refused.
    Refused,
    /// All of it is scaled down.
    Scaled,
}

/// One host's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// The payload rate of all links together by which it sends.
    pub access: Rate,
    /// The links kept here over which something it sends can go, sorted; `None`: any.
    pub reach: Option<Arc<[LinkId]>>,
}

/// The places of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Those that are known.
    pub hosts: BTreeMap<HostId, Attachment>,
    /// Others may promise too, as much as links carry: the shell does not know all hosts.
    pub others: bool,
}

impl Default for Attached {
    /// Nothing is known of anybody.
    fn default() -> Attached {
        Attached { hosts: BTreeMap::new(), others: true }
    }
}

impl Attached {
    /// What this host can send at most; `None`: that is not known.
    pub(super) fn access(&self, host: HostId) -> Option<Rate> {
        self.hosts.get(&host).map(|place| place.access)
    }

    /// May this be promised from where its host is attached?
    pub(super) fn check(&self, announcement: &Announcement, horizon: usize, excess: Excess) -> Result<(), Refusal> {
        let Some(place) = self.hosts.get(&announcement.host) else {
            return if self.others { Ok(()) } else { Err(Refusal::UnknownHost) };
        };
        if let Some(reach) = &place.reach {
            for flow in &announcement.flows {
                let beyond = flow.links.iter().any(|link| reach.binary_search(link).is_err());
                // A flow leaves each switch by one link.
                let mut nodes: Vec<u32> = flow.links.iter().map(|link| link.node()).collect();
                nodes.sort_unstable();
                if beyond || nodes.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(Refusal::LinkNotYours);
                }
            }
        }
        if excess == Excess::Scaled {
            return Ok(());
        }
        // Rounding and what a host learns late may make a sum a little too large: that is scaled down. More is no mistake.
        let most = u128::from(place.access.0) + u128::from(place.access.0) / Limits::ACCESS_SLACK;
        let on_links = || announcement.flows.iter().filter(|flow| !flow.links.is_empty());
        let over = (0..horizon).any(|ahead| on_links().map(|flow| u128::from(flow.rate(ahead).0)).sum::<u128>() > most);
        if over { Err(Refusal::Quota) } else { Ok(()) }
    }
}

impl Switch {
    /// From now on what hosts promise is bounded by where they are attached. What is in force stays until it is replaced.
    pub fn attach(&mut self, attached: Attached) {
        self.attached = attached;
    }
}
