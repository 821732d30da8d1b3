//! Which host keeps the table of a link between switches, where no switch knows ranks.
//!
//! Every host finds the same one from the topology alone: of the hosts with an address that are nearest below the link, which is
//! where flows that cross it begin or end, the one that a hash draws. So the links of a rack's switch are shared out among that rack's hosts.

use std::collections::BTreeMap;

use sluice_formats::topology::Kind;
use sluice_schedule::units::mixed;
use sluice_schedule::{HolderId, HostId};

use super::Topology;
use crate::topology::Link;

/// Hosts among which is drawn at most, the first in the topology's order: so many spread a switch's links enough.
const MAX_DRAWN: usize = 256;

/// Of each link between switches, by its place in the topology, who keeps its table.
#[derive(Debug, Default)]
pub(super) struct Keepers(BTreeMap<usize, HolderId>);

/// How far a switch is above hosts, and the hosts that are so near.
#[derive(Clone, Debug, Default)]
struct Below {
    height: usize,
    hosts: Vec<usize>,
}

impl Keepers {
    /// For a topology, among the hosts that have an address.
    pub fn of(topology: &Topology, speaks: impl Fn(usize) -> bool) -> Keepers {
        let is_switch = |node: usize| topology.kind(node) == Some(Kind::Switch);
        let below = below(topology, speaks);
        let hashes: Vec<u64> =
            topology.file.nodes().iter().map(|node| mixed(u64::from(HostId::of(&node.id).0))).collect();
        let keeper = |(at, link): (usize, &Link)| {
            let (from, to) = (below.get(&link.from)?, below.get(&link.to)?);
            let lower = if from.height <= to.height { from } else { to };
            let id = topology.link_id(at)?;
            let drawn = |node: &&usize| mixed(id.0 ^ hashes.get(**node).copied().unwrap_or(0));
            Some((at, HostId::of(topology.name(*lower.hosts.iter().max_by_key(drawn)?)).holder()))
        };
        let between = topology.links.iter().enumerate().filter(|(_, link)| is_switch(link.from) && is_switch(link.to));
        Keepers(between.filter_map(keeper).collect())
    }

    /// Who keeps a link; `None`: it is not between switches, or no host is below it.
    pub fn keeper(&self, link: usize) -> Option<HolderId> {
        self.0.get(&link).copied()
    }

    /// The links that one keeps.
    pub fn kept_by(&self, holder: HolderId) -> impl Iterator<Item = usize> {
        self.0.iter().filter(move |(_, keeper)| **keeper == holder).map(|(link, _)| *link)
    }
}

/// Of every switch, how far it is above the nearest hosts, and which hosts are below it at just that distance.
fn below(topology: &Topology, speaks: impl Fn(usize) -> bool) -> BTreeMap<usize, Below> {
    let mut below: BTreeMap<usize, Below> = BTreeMap::new();
    let hosts = (0..topology.file.nodes().len()).filter(|node| topology.kind(*node) == Some(Kind::Host));
    let mut here: Vec<(usize, Vec<usize>)> =
        hosts.filter(|node| speaks(*node)).map(|node| (node, vec![node])).collect();
    let mut height = 0;
    while !here.is_empty() {
        height += 1;
        let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, hosts) in &here {
            for link in topology.leaving(*node) {
                let to = topology.links[*link].to;
                if topology.kind(to) == Some(Kind::Switch) && !below.contains_key(&to) {
                    next.entry(to).or_default().extend(hosts);
                }
            }
        }
        for (node, hosts) in &mut next {
            hosts.sort_unstable();
            hosts.dedup();
            hosts.truncate(MAX_DRAWN);
            below.insert(*node, Below { height, hosts: hosts.clone() });
        }
        here = next.into_iter().collect();
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::leaf_spine;

    #[test]
    fn a_link_between_switches_is_kept_by_a_host_below_it() {
        let topology = leaf_spine();
        let keepers = Keepers::of(&topology, |_| true);
        let node = |name: &str| topology.node(name).expect("there");
        let of = |from: &str, to: &str| keepers.keeper(topology.between(node(from), node(to))[0]);
        let host = |name: &str| Some(HostId::of(name).holder());
        for spine in ["s0", "s1"] {
            assert_eq!([of("l0", spine), of(spine, "l0")], [host("h0"); 2]);
            assert_eq!([of("l1", spine), of(spine, "l1")], [host("h1"); 2]);
        }
        assert_eq!([of("h0", "l0"), of("l1", "h1")], [None; 2], "hosts keep their own links anyway");
        assert_eq!(keepers.kept_by(HostId::of("h0").holder()).count(), 4);
        let one = Keepers::of(&topology, |node| topology.name(node) == "h1");
        let left = one.keeper(topology.between(node("l0"), node("s0"))[0]);
        assert_eq!(left, host("h1"), "who has no address keeps nothing");
        assert_eq!(Keepers::of(&topology, |_| false).kept_by(HostId::of("h0").holder()).count(), 0);
    }

    #[test]
    fn the_links_of_a_rack_are_shared_out_among_its_hosts() {
        let hosts: Vec<String> = (0..8).map(|at| format!(r#"{{"id":"h{at}","kind":"host"}}"#)).collect();
        let cables: Vec<String> = (0..8)
            .map(|at| format!(r#"{{"from":"h{at}","to":"l{}","capacity":"1Gbit/s","duplex":true}}"#, at / 4))
            .collect();
        let mut switches: Vec<String> = (0..2).map(|at| format!(r#"{{"id":"l{at}","kind":"switch"}}"#)).collect();
        switches.extend((0..16).map(|at| format!(r#"{{"id":"s{at}","kind":"switch"}}"#)));
        let inner: Vec<String> = (0..32)
            .map(|at| format!(r#"{{"from":"l{}","to":"s{}","capacity":"1Gbit/s","duplex":true}}"#, at % 2, at / 2))
            .collect();
        let text = format!(
            r#"{{"sluice_topology":1,"nodes":[{},{}],"links":[{},{}]}}"#,
            hosts.join(","),
            switches.join(","),
            cables.join(","),
            inner.join(",")
        );
        let topology = Topology::of_text(&text);
        let keepers = Keepers::of(&topology, |_| true);
        let kept: Vec<usize> =
            (0..8).map(|at| keepers.kept_by(HostId::of(&format!("h{at}")).holder()).count()).collect();
        assert_eq!(kept.iter().sum::<usize>(), 64);
        assert!(kept.iter().all(|kept| (2..16).contains(kept)), "{kept:?}");
    }
}
