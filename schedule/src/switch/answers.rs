//! Routes that hosts asked for and the shell has found, until the next feedback takes them along.

use std::collections::BTreeMap;

use crate::message::{MAX_ROUTES, Route};
use crate::units::HostId;

/// Answers that wait, of hosts with a lease. One that is lost on its way is asked for again.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: BTreeMap<HostId, Vec<Route>>,
    /// Hosts that were not named yet among those to be told something.
    changed: Vec<HostId>,
}

impl Answers {
    /// Another answer, in place of an older one of the same flow. False: one feedback has no room for more.
    pub fn add(&mut self, host: HostId, route: Route) -> bool {
        let waiting = self.waiting.entry(host).or_default();
        waiting.retain(|known| known.flow != route.flow);
        if waiting.is_empty() {
            self.changed.push(host);
        }
        if waiting.len() >= MAX_ROUTES {
            return false;
        }
        waiting.push(route);
        true
    }

    /// What goes with a feedback to this host; also for one that is gone.
    pub fn take(&mut self, host: HostId) -> Vec<Route> {
        self.waiting.remove(&host).unwrap_or_default()
    }

    /// Hosts that have come to have answers since the last call and still have them.
    pub fn drain_changed(&mut self, stale: &mut Vec<HostId>) {
        stale.extend(self.changed.drain(..).filter(|host| self.waiting.contains_key(host)));
    }
}
