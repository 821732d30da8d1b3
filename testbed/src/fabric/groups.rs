//! Limits that several links share. A cable with such a link passes through a namespace of its own, the gate: what comes
//! from the link is redirected to the group's one device, where every link has a class below the parent with the group's
//! rate, and then goes on over a bridge of two ports. Links with little to send leave the rest to the others.
//!
//! A group's device is an `ifb`: it gives a packet back to where it was taken from. Rates of single links are shaped where
//! they leave their node, as without a group.

use std::fmt::Write as _;

use super::{FabricSpec, Layout};

/// Is a link of this cable in a group?
pub fn is_shared(spec: &FabricSpec, cable: usize) -> bool {
    spec.groups.iter().flat_map(|group| &group.links).any(|link| link / 2 == cable)
}

/// The device in the gate on one side of a cable: 0, where its links 2c come from, or 1.
pub fn side(cable: usize, side: usize) -> String {
    format!("{}{cable}", ["a", "b"][side % 2])
}

/// The bridges of all shared cables and the devices of all groups, as lines of `ip`.
pub fn links(spec: &FabricSpec) -> String {
    let mut text = String::from("link set dev lo up\n");
    for cable in (0..spec.cables.len()).filter(|cable| is_shared(spec, *cable)) {
        _ = writeln!(text, "link add name c{cable} type bridge mcast_snooping 0\nlink set dev c{cable} up");
        for device in [side(cable, 0), side(cable, 1)] {
            _ = writeln!(text, "link set dev {device} mtu {} master c{cable}\nlink set dev {device} up", spec.mtu);
        }
    }
    for g in 0..spec.groups.len() {
        _ = writeln!(text, "link add name g{g} type ifb\nlink set dev g{g} mtu {}\nlink set dev g{g} up", spec.mtu);
    }
    text
}

/// The classes of all groups, as lines of `tc`.
pub fn shape(spec: &FabricSpec, layout: &Layout) -> String {
    let mut text = String::new();
    for (g, group) in spec.groups.iter().enumerate() {
        let (rate, burst) = (group.rate.0, spec.bucket(group.rate));
        let bucket = format!("ceil {rate}bit burst {burst} cburst {burst} quantum {}", spec.gso().0 + 2048);
        _ = writeln!(text, "qdisc add dev g{g} root handle 1: htb");
        _ = writeln!(text, "class add dev g{g} parent 1: classid 1:1 htb rate {rate}bit {bucket}");
        let part = (rate / group.links.len() as u64).max(1_000);
        for (at, &link) in group.links.iter().enumerate() {
            let (class, of) = (class(at), &layout.links[link]);
            let (from, queue) = (&of.from.mac, spec.cables[of.cable].queue.0.max(burst + 1514));
            _ = writeln!(text, "class add dev g{g} parent 1:1 classid {class} htb rate {part}bit {bucket}");
            _ = writeln!(text, "qdisc add dev g{g} parent {class} bfifo limit {queue}");
            _ = writeln!(
                text,
                "filter add dev g{g} parent 1: protocol all prio 1 u32 match ether src {from} flowid {class}"
            );
            let device = side(of.cable, link % 2);
            _ = writeln!(text, "qdisc add dev {device} ingress");
            _ = writeln!(
                text,
                "filter add dev {device} parent ffff: protocol all prio 1 u32 match u32 0 0 \
                 action mirred egress redirect dev g{g}"
            );
        }
    }
    text
}

/// Adds what the queues of the groups dropped to their links, from what `tc -s -j qdisc show` prints in the gate.
pub fn add_drops(spec: &FabricSpec, shown: &str, drops: &mut [u64]) -> serde_json::Result<()> {
    let list: Vec<serde_json::Value> = serde_json::from_str(shown)?;
    for (g, group) in spec.groups.iter().enumerate() {
        for (at, &link) in group.links.iter().enumerate() {
            let mine = |q: &&serde_json::Value| q["dev"] == format!("g{g}") && q["parent"] == class(at);
            let more = list.iter().find(mine).and_then(|q| q["drops"].as_u64()).unwrap_or(0);
            drops[link] += more;
        }
    }
    Ok(())
}

/// The class of a group's n-th link; `tc` counts in hexadecimal.
fn class(at: usize) -> String {
    format!("1:{:x}", at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Group;
    use sluice_schedule::{Bytes, Rate};

    #[test]
    fn every_link_of_a_group_has_a_class_below_its_parent() {
        let group = Group { name: "all".into(), links: vec![0, 3, 4], rate: Rate::mbps(24) };
        let spec = FabricSpec { groups: vec![group], ..FabricSpec::star(3, Rate::mbps(10), Bytes(100_000)) };
        let layout = Layout::of(&spec).unwrap();
        assert!((0..3).all(|cable| is_shared(&spec, cable)));
        let text = shape(&spec, &layout);
        assert_eq!(text.matches("parent 1:1 classid").count(), 3);
        // Link 3 leaves the switch, at side b of cable 1.
        assert!(text.contains("qdisc add dev b1 ingress") && !text.contains("dev a1"), "{text}");
        assert!(text.contains("rate 24000000bit") && text.contains("rate 8000000bit"), "{text}");
        let shown = r#"[{"kind":"bfifo","dev":"g0","parent":"1:3","drops":7},{"kind":"htb","dev":"g0","drops":9}]"#;
        let mut drops = vec![1; 6];
        add_drops(&spec, shown, &mut drops).unwrap();
        assert_eq!(drops, [1, 1, 1, 8, 1, 1]);
    }
}
