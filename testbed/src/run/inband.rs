//! Switches that forward in band: each one's `sluice-switch` in place of its kernel, by tables made from the layout.

use std::fmt::Write as _;
use std::path::Path;

use sluice_schedule::units::mixed;
use sluice_schedule::{HolderId, LinkId, Rate};
use sluice_wire::udp::{self, mark};

use super::RunError;
use crate::fabric::layout::DirectedLink;
use crate::fabric::{Fabric, FabricSpec, Layout, Node};

/// The statements of a switch's tables: where hosts are, whose packets come in by which port, and its links.
pub(super) fn tables(spec: &FabricSpec, layout: &Layout, node: usize) -> String {
    let mut text = String::new();
    let via = |link: &DirectedLink| format!("via {} {} {}", link.from.port, link.to.mac, link.from.mac);
    for (host, hops) in layout.next[node].iter().enumerate() {
        // With several cards each has a way of its own, and an address.
        let targets: Vec<(std::net::Ipv4Addr, Vec<&DirectedLink>)> = if layout.rails > 1 {
            let own = |hop: &usize| (layout.rail_address(host, layout.links[*hop].to.port), vec![&layout.links[*hop]]);
            hops.iter().map(own).collect()
        } else {
            vec![(layout.host_address(host), hops.iter().map(|hop| &layout.links[*hop]).collect())]
        };
        for (address, ways) in targets {
            match ways.as_slice() {
                [] => {}
                [one] => _ = writeln!(text, "route {address}/32 {}", via(one)),
                several => {
                    // The same seed at two switches in a row would leave half of the ways unused.
                    let seed = mixed(u64::from(spec.ecmp_seed) << 32 | node as u64) as u32;
                    let size = several.len();
                    _ = writeln!(text, "route {address}/32 group {host} size {size} seed {seed}");
                    for (bucket, way) in several.iter().enumerate() {
                        _ = writeln!(text, "member {host} {bucket} {}", via(way));
                    }
                }
            }
        }
    }
    let fastest = (0..layout.links.len()).map(|link| spec.rate(link)).max().unwrap_or(Rate::ZERO);
    let unit = udp::unit(fastest);
    let own = layout.links.iter().enumerate().filter(|(_, link)| link.from.node == node);
    // As the topology numbers them, in its order.
    for (number, (at, link)) in own.enumerate() {
        let capacity = spec.rate(at).payload().0 / (1_000_000 << unit);
        let signature = mark(LinkId::new(HolderId::of(&layout.nodes[node]).0, number as u32));
        // What leads to a host its receiver knows better, with ranks.
        if link.to.node < layout.hosts {
            _ = writeln!(text, "edge {} {}/32", link.from.port, layout.port_address(&link.to));
        } else {
            _ = writeln!(text, "link {} capacity {capacity} unit {unit} signature {signature:#010x}", link.from.port);
        }
    }
    text
}

/// The part of the switch's file that makes it forward.
pub(super) fn section(layout: &Layout, node: usize, tables: &Path) -> String {
    let mut ports: Vec<&DirectedLink> = layout.links.iter().filter(|link| link.from.node == node).collect();
    ports.sort_unstable_by_key(|link| link.from.port);
    let devices: Vec<String> = ports.iter().map(|link| format!("{:?}", link.from.device)).collect();
    format!("[data_plane]\ninterfaces = [{}]\ntables = {:?}\n", devices.join(", "), tables.display().to_string())
}

/// From now on the switch's kernel forwards nothing.
pub(super) fn take_over(switch: &Node) -> Result<(), RunError> {
    let off = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "0");
    switch.ns.run(off)?.map_err(RunError::io(format!("ending the forwarding of {}'s kernel", switch.name)))
}

/// Tables of every switch of a fabric anew, by a layout that may have fewer links than the fabric had.
///
/// # Errors
/// When a file cannot be written.
pub fn rewrite(fabric: &Fabric, layout: &Layout, dir: &Path) -> Result<(), RunError> {
    for (at, switch) in fabric.switches.iter().enumerate() {
        let text = tables(&fabric.spec, layout, layout.hosts + at);
        // At once: half a file would be none.
        let (path, part) = (file(dir, &switch.name), dir.join(format!("{}.part", switch.name)));
        super::write(&part, &text)?;
        std::fs::rename(&part, &path).map_err(RunError::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

/// Where a switch's tables are.
pub(super) fn file(dir: &Path, switch: &str) -> std::path::PathBuf {
    dir.join(format!("sluice-switch-{switch}.tables"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Cable;
    use sluice_schedule::Bytes;

    #[test]
    fn a_leaf_has_two_ways_up_and_one_to_each_of_its_hosts() {
        let (rate, queue) = (Rate::mbps(100), Bytes(100_000));
        let cable = |a: &str, b: &str| Cable::plain(a, b, rate, queue);
        let spec = FabricSpec {
            hosts: ["h0", "h1", "h2"].map(String::from).to_vec(),
            switches: ["l0", "l1", "s0", "s1"].map(String::from).to_vec(),
            cables: vec![
                cable("h0", "l0"),
                cable("h1", "l0"),
                cable("h2", "l1"),
                cable("l0", "s0"),
                cable("l0", "s1"),
                cable("l1", "s0"),
                cable("l1", "s1"),
            ],
            ..FabricSpec::default()
        };
        let layout = Layout::of(&spec).unwrap();
        let leaf = tables(&spec, &layout, 3);
        let count = |word: &str| leaf.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((count("route"), count("member"), count("link"), count("edge")), (3, 2, 2, 2), "{leaf}");
        assert!(leaf.contains("group 2 size 2 seed"), "{leaf}");
        assert!(leaf.contains("link 2 capacity 95 unit 0"), "{leaf}");
        let other = tables(&spec, &layout, 4);
        let seed =
            |text: &str| text.lines().find_map(|line| line.split_once(" seed ").map(|(_, seed)| seed.to_owned()));
        assert_ne!(seed(&leaf), seed(&other));
        for (line, statement) in sluice_pipeline::control::statements(&leaf) {
            assert!(statement.is_ok(), "line {line} of {leaf}");
        }
        let devices = section(&layout, 3, Path::new("/x/l0.tables"));
        assert_eq!(devices, "[data_plane]\ninterfaces = [\"p0\", \"p1\", \"p2\", \"p3\"]\ntables = \"/x/l0.tables\"\n");
    }
}
