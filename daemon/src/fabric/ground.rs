//! What datagrams to switches have to know of the network: the rates of their links, and where this host is attached.

use std::net::IpAddr;

use sluice_schedule::{HolderId, Rate};
use sluice_wire::udp;

use super::Fabric;
use crate::exchange::book::Ground;

impl Fabric {
    /// The same for all datagrams of this host.
    pub fn ground(&self) -> Ground {
        let links = self.topology().filter(|_| !self.datagrams.is_empty());
        let links =
            links.iter().flat_map(|topology| topology.links.iter().enumerate().map(move |link| (topology, link)));
        // One unit for the whole fabric, which a topology gives to all hosts alike: switches add numbers.
        let fastest = links.clone().map(|(_, (_, link))| link.capacity).max().unwrap_or(Rate::ZERO);
        let unit = udp::unit(fastest);
        let kept = |from: usize| self.topology().is_some_and(|t| self.datagrams.contains(&HolderId::of(t.name(from))));
        let of_switches = links.filter(|(_, (_, link))| kept(link.from));
        let capacities =
            of_switches.filter_map(|(topology, (at, link))| Some((topology.link_id(at)?, link.capacity.payload())));
        let attached = (0..self.links.len()).filter_map(|at| {
            let hop = self.ingress(at).filter(|hop| hop.holder.is_some_and(|of| self.datagrams.contains(&of)))?;
            let own = self.links[at].addresses.iter().find_map(|address| match address.to_canonical() {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            });
            Some((hop.link, own?))
        });
        let (capacities, ingress) = (capacities.collect(), attached.collect());
        Ground { host: self.host, unit, capacities, ingress, along_paths: false, ways_only: false }
    }
}
