//! Between which switches a flow's path may choose, for whoever asks them by probes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use sluice_schedule::HostId;

use super::{Fabric, MAX_PATHS};
use crate::monitor::tuple::Tuple;
use crate::topology::path::Ladder;

/// By own link, other host and its cable.
type Ends = (usize, HostId, Option<usize>);

/// Ladders that were drawn.
#[derive(Debug, Default)]
pub(super) struct Ladders(RefCell<HashMap<Ends, Rc<Ladder>>>);

impl Fabric {
    /// The switches at each distance on the paths that a flow may take; `None` where switches keep no tables, so that a path
    /// would be of no use, or where there are none between the hosts.
    pub fn ladder(&self, tuple: &Tuple) -> Option<Rc<Ladder>> {
        let (local, remote) = (tuple.local_ip(), tuple.remote_ip());
        let (index, to) = (self.link_between(local, remote)?, self.host_of(remote));
        let (topology, from, node) = self.ends(to)?;
        if self.switches.is_empty() || self.cables.contains_key(&to) {
            return None;
        }
        let rail = topology.rail_of(node, remote).filter(|_| self.has_rails() && topology.route(from, node).is_none());
        let mut ladders = self.ladders.0.borrow_mut();
        if let Some(known) = ladders.get(&(index, to, rail)) {
            return Some(known.clone());
        }
        let by_rail = rail.and_then(|rail| topology.ladder_between((from, index), (node, rail)));
        let ladder = Rc::new(by_rail.unwrap_or_else(|| topology.ladder(from, node)));
        if ladders.len() >= MAX_PATHS {
            ladders.clear();
        }
        ladders.insert((index, to, rail), ladder.clone());
        Some(ladder)
    }
}
