//! The way of a flow: the links that it crosses, and who can say by which of several.

use std::sync::Arc;

use sluice_formats::topology::Kind;
use sluice_schedule::{FlowId, HolderId, Hop, HostId, LinkId, Rate};
use sluice_wire::snapshot::PathSource;

use super::routes::{self, By};
use super::{Fabric, MAX_PATHS};
use crate::monitor::tuple::Tuple;
use crate::topology::Topology;

/// What a path depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathKey {
    /// The own link.
    from: usize,
    to: HostId,
    /// The other host's cable.
    rail: Option<usize>,
    /// Links of the topology by which the flow is known to go.
    goes: Vec<(usize, By)>,
    /// Datagrams, which have room for IPv4 only, cannot say it.
    unsaid: bool,
}

/// What is known of a flow's way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// The own egress first.
    pub path: Vec<Hop>,
    /// The switches that can be asked by which of several equal links the flow goes on.
    pub forks: Vec<HolderId>,
    /// Who says by which of several paths it goes.
    pub source: PathSource,
}

impl Fabric {
    /// The way of a flow from this host; `None` where nothing may be managed.
    pub fn way(&self, flow: FlowId, tuple: &Tuple) -> Option<Way> {
        let (local, remote) = (tuple.local_ip(), tuple.remote_ip());
        if !self.covers(local, remote) {
            return None;
        }
        let index = self.link_between(local, remote)?;
        let link = self.links.get(index)?;
        let to = self.host_of(remote);
        let rail = self.ends(to).and_then(|(topology, _, node)| topology.rail_of(node, remote));
        let known = |topology: &Arc<Topology>| self.learned.links(flow, tuple, self.told.as_deref(), topology);
        let goes = self.topology.as_ref().map(known).unwrap_or_default();
        let key = PathKey { from: index, to, rail, goes, unsaid: !(local.is_ipv4() && remote.is_ipv4()) };
        if let Some(way) = self.ways.borrow().get(&key) {
            return Some(way.clone());
        }
        let mut path = vec![Hop { link: link.egress, capacity: link.capacity?, holder: None }];
        let (mut forks, mut source) = (Vec::new(), PathSource::Only);
        if let Some((topology, route)) = self.route(to) {
            path[0].holder = self.keeper();
            path.extend(route.iter().skip(1).filter_map(|&hop| host_hop(topology, hop)));
            let capacity = self.ends(to).map_or(Rate::MAX, |(_, _, to)| topology.receiving_rate(to));
            path.push(Hop { link: LinkId::ingress(to), capacity: capacity.payload(), holder: Some(to.holder()) });
        } else if !self.cables.contains_key(&to)
            && let Some((topology, from, to_node)) = self.ends(to)
        {
            let by_rail = rail.filter(|_| self.has_rails() && topology.route(from, to_node).is_none());
            let goes: Vec<usize> = key.goes.iter().map(|(link, _)| *link).collect();
            let by_rail = by_rail.and_then(|rail| topology.shared_between((from, index), (to_node, rail), &goes));
            let shared = by_rail.unwrap_or_else(|| topology.shared(from, to_node, &goes));
            source = routes::source(topology, (from, to_node), &shared, &key.goes);
            path.extend(shared.links.iter().filter_map(|&hop| self.kept_inside(topology, hop)));
            let told = shared.links.iter().filter(|hop| self.is_told(topology, &shared.links, **hop));
            path.extend(told.filter_map(|&hop| self.switch_hop(topology, hop)));
            let asked = shared.forks.iter().map(|&node| HolderId::of(topology.name(node)));
            forks.extend(asked.filter(|fork| self.switches.contains(fork) && !self.datagrams.contains(fork)));
            if self.nic_mode() {
                let last = shared.links.last().map(|&hop| topology.links[hop].capacity);
                let capacity = last.or_else(|| topology.sending_rates(to_node).into_iter().min()).unwrap_or(Rate::MAX);
                let link = ingress(to, rail.unwrap_or(0));
                path.push(Hop { link, capacity: capacity.payload(), holder: Some(to.holder()) });
            }
        }
        path.retain(|hop| !key.unsaid || hop.holder.is_none_or(|holder| !self.datagrams.contains(&holder)));
        let way = Way { path, forks, source };
        let mut ways = self.ways.borrow_mut();
        if ways.len() < MAX_PATHS {
            ways.insert(key, way.clone());
        }
        Some(way)
    }

    /// A link between switches whose table a host keeps.
    fn kept_inside(&self, topology: &Topology, link: usize) -> Option<Hop> {
        let holder = self.keepers.keeper(link)?;
        let capacity = topology.links[link].capacity.payload();
        Some(Hop { link: topology.link_id(link)?, capacity, holder: Some(holder) })
    }

    /// Is a switch told what a flow puts on this link? Where hosts keep all tables, only of the last link, for all before it,
    /// since it is the way that switches are to tell: behind a single one there is none to tell.
    fn is_told(&self, topology: &Topology, shared: &[usize], link: usize) -> bool {
        let (switch, to) = (topology.links[link].from, topology.links[link].to);
        let alone = || shared.first().is_some_and(|first| topology.links[*first].to == switch);
        !self.hosts_keep_all() || (topology.kind(to) != Some(Kind::Switch) && !alone())
    }

    pub(super) fn switch_hop(&self, topology: &Topology, link: usize) -> Option<Hop> {
        let from = topology.links[link].from;
        let holder = HolderId::of(topology.name(from));
        let kept = topology.kind(from) == Some(Kind::Switch) && self.switches.contains(&holder);
        let capacity = topology.links[link].capacity.payload();
        kept.then_some(())?;
        Some(Hop { link: topology.link_id(link)?, capacity, holder: Some(holder) })
    }
}

/// The link by which a host receives on one of its cards, where it keeps the table itself.
fn ingress(host: HostId, rail: usize) -> LinkId {
    LinkId::new(host.0, 2 * rail as u32 + 1)
}

/// A cable that leaves a host which forwards; that host keeps its table.
fn host_hop(topology: &Topology, link: usize) -> Option<Hop> {
    let of = topology.links[link];
    let holder = HostId::of(topology.name(of.from)).holder();
    Some(Hop { link: topology.link_id(link)?, capacity: of.capacity.payload(), holder: Some(holder) })
}
