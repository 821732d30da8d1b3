//! Between which switches a flow's path may choose, for whoever asks them by probes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use sluice_schedule::{HostId, LinkId};
use sluice_wire::udp::mark;

use super::routes::signature;
use super::{Fabric, MAX_PATHS};
use crate::monitor::tuple::Tuple;
use crate::topology::path::Ladder;

/// By own link, other host and its cable.
type Ends = (usize, HostId, Option<usize>);

/// Ladders that were drawn.
#[derive(Debug, Default)]
pub(super) struct Ladders(RefCell<HashMap<Ends, Rc<Ladder>>>);

impl Fabric {
    /// The links between switches that have left their marks in a signature; empty: that cannot be said.
    pub fn passed(&self, tuple: &Tuple, signature: u32) -> Vec<LinkId> {
        let Some(ladder) = self.ladder(tuple) else { return Vec::new() };
        // Where hosts keep their own links, switches leave no mark for these.
        let last = if self.hosts_keep_all() { None } else { self.last_link(tuple) };
        signature::way(&ladder, signature ^ last.map_or(0, mark))
    }

    fn last_link(&self, tuple: &Tuple) -> Option<LinkId> {
        let (topology, _, node) = self.ends(self.host_of(tuple.remote_ip()))?;
        let rail = topology.rail_of(node, tuple.remote_ip()).filter(|_| self.has_rails());
        topology.link_id(topology.back(node, rail.unwrap_or(0))?)
    }

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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sluice_schedule::{Hop, HostId};
    use sluice_wire::snapshot::PathSource;

    use super::*;
    use crate::config::{Config, Transport};
    use crate::fabric::By;
    use crate::interfaces::Interface;
    use crate::testing::leaf_spine_site;

    #[test]
    fn in_band_the_signature_tells_the_way_and_hosts_keep_the_links_on_it() {
        let (mut config, known) = leaf_spine_site();
        config.switches.iter_mut().for_each(|switch| switch.transport = Transport::Inband);
        let listen: SocketAddr = "10.0.0.1:9604".parse().expect("an address");
        config.peer.listen = vec![listen];
        let address = listen.ip();
        let card =
            Interface { name: "eth0".into(), card: "eth0".into(), addresses: vec![address], speed: None, up: true };
        let fabric = |config: &Config| Fabric::new(config, known.topology().cloned(), std::slice::from_ref(&card));
        let tuple =
            Tuple::of(SocketAddr::new(address, 4000), SocketAddr::new("10.0.0.2".parse().expect("an address"), 5000));
        let inside = |fabric: &Fabric, spine: &str| {
            let topology = fabric.topology().expect("one");
            let node = |name: &str| topology.node(name).expect("there");
            [("l0", spine), (spine, "l1")]
                .map(|(from, to)| topology.link_id(topology.between(node(from), node(to))[0]).expect("an id"))
        };
        let links = |path: &[Hop]| path.iter().map(|hop| (hop.link, hop.holder)).collect::<Vec<_>>();

        let keeping = fabric(&config);
        let flow = tuple.outgoing(keeping.host);
        let before = keeping.way(flow, &tuple).expect("covered");
        assert_eq!(
            (before.path.len(), before.source),
            (3, PathSource::Unknown),
            "its ends, and one switch that is told"
        );
        let [up, down] = inside(&keeping, "s1");
        let way = keeping.passed(&tuple, mark(up) ^ mark(down) ^ 0x1230_0000);
        assert_eq!(way, [up, down]);
        assert!(keeping.learned.learn_way(flow, &way, By::Signature));
        assert!(!keeping.learned.learn_way(flow, &way, By::Signature), "no news");
        let after = keeping.way(flow, &tuple).expect("covered");
        assert_eq!(after.source, PathSource::Signature);
        let [h0, h1] = ["h0", "h1"].map(|name| Some(HostId::of(name).holder()));
        let ends = links(&before.path);
        assert_eq!(links(&after.path), [ends[0], (up, h0), (down, h1), ends[1], ends[2]]);
        let kept: Vec<_> = keeping.kept().iter().map(|link| (link.link, link.attached)).collect();
        assert_eq!(kept[0], (keeping.ingress(0).expect("kept").link, Some(keeping.host)));
        assert!(kept.contains(&(up, None)) && kept.len() == 5, "both directions of two links, and its own: {kept:?}");
        assert!(keeping.learned.learn_way(flow, &[], By::Signature));
        assert_eq!(keeping.way(flow, &tuple).expect("covered").path, before.path, "forgotten");

        let again = keeping.with_interfaces(&config, std::slice::from_ref(&card));
        assert!(std::sync::Arc::ptr_eq(&again.keepers, &keeping.keepers), "found once for a topology");

        // Nobody but switches keeps tables: they mark the last link too, and are told of all.
        config.peer.listen.clear();
        let told = fabric(&config);
        let last = told.last_link(&tuple).expect("one");
        assert_eq!(told.passed(&tuple, mark(up) ^ mark(down) ^ mark(last)), [up, down]);
        told.learned.learn_way(flow, &way, By::Signature);
        let path = told.way(flow, &tuple).expect("covered").path;
        let holders: Vec<_> = path.iter().map(|hop| hop.holder).collect();
        assert_eq!(
            holders,
            [None, Some("l0"), Some("s1"), Some("l1")].map(|name| name.map(sluice_schedule::HolderId::of))
        );
        assert!(told.kept().is_empty());
    }
}
