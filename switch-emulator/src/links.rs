//! The `link` statements of a programmable switch, as a topology gives them: rates, the unit that all switches have, and by
//! which signature hosts know each link.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use sluice_formats::topology::{Kind, Topology};
use sluice_pipeline::PORTS;
use sluice_pipeline::control::Statement;
use sluice_pipeline::egress::Link;
use sluice_schedule::{HolderId, LinkId, Rate};
use sluice_wire::udp::{self, mark};

/// Of which switch.
#[derive(Args)]
pub struct Links {
    /// The topology.json that hosts have, too
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// The switch's name there
    #[arg(long, value_name = "NAME")]
    switch: String,
    /// Also those that lead to hosts, for hosts that keep no tables (peer.listen = [])
    #[arg(long)]
    to_hosts: bool,
}

/// The statements, one a line.
///
/// # Errors
/// The file is no topology with rates, or has no such switch.
pub fn print(links: &Links) -> anyhow::Result<String> {
    let topology = Topology::load(&links.topology)?;
    topology.with_rates(&links.topology.display().to_string())?;
    let leaving = topology.node(&links.switch).map(|at| topology.links().iter().filter(|link| link.from == at).count());
    anyhow::ensure!(
        leaving.unwrap_or(0) <= usize::from(PORTS),
        "{}: switch {:?} has {} links; allowed are 0 to {PORTS}",
        links.topology.display(),
        links.switch,
        leaving.unwrap_or(0)
    );
    statements(&topology, &links.switch, links.to_hosts).with_context(|| {
        let switches = topology.nodes().iter().filter(|node| node.kind == Kind::Switch).map(|node| &*node.id);
        let known = switches.collect::<Vec<_>>().join(", ");
        format!("{}: there is no switch {:?}; allowed are {known}", links.topology.display(), links.switch)
    })
}

fn statements(topology: &Topology, switch: &str, to_hosts: bool) -> Option<String> {
    let nodes = topology.nodes();
    let at = topology.node(switch).filter(|node| nodes[*node].kind == Kind::Switch)?;
    let rate = |link: &sluice_formats::topology::Link| link.capacity.bits_per_second().map_or(Rate::MAX, Rate);
    let unit = udp::unit(topology.links().iter().map(rate).max().unwrap_or(Rate::ZERO));
    let holder = HolderId::of(switch);
    let mut text = String::new();
    let own = topology.links().iter().filter(|link| link.from == at);
    for (port, link) in (0..PORTS).zip(own).filter(|(_, link)| to_hosts || nodes[link.to].kind == Kind::Switch) {
        let capacity = u32::try_from(rate(link).payload().0 / (1_000_000 << unit)).unwrap_or(u32::MAX);
        let signature = mark(LinkId::new(holder.0, port.into()));
        let statement = Statement::Link(port, Link { capacity, unit, signature });
        _ = writeln!(text, "{statement} # to {}", nodes[link.to].id);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_switches_have_a_statement_each_and_the_others_on_request() {
        let text = r#"{ "sluice_topology": 1, "nodes": [ {"id": "h0", "kind": "host"}, {"id": "l0", "kind": "switch"},
            {"id": "s0", "kind": "switch"}, {"id": "s1", "kind": "switch"}],
          "links": [ {"from": "h0", "to": "l0", "capacity": "100Gbit/s", "duplex": true},
            {"from": "l0", "to": "s0", "capacity": "100Gbit/s", "duplex": true},
            {"from": "l0", "to": "s1", "capacity": "50Gbit/s", "duplex": true} ] }"#;
        let topology = Topology::read(text.as_bytes(), "t.json").unwrap();
        let said = statements(&topology, "l0", false).unwrap();
        let signature = |port| mark(LinkId::new(HolderId::of("l0").0, port));
        let expected = format!(
            "link 1 capacity 47820 unit 1 signature {:#010x} # to s0\nlink 2 capacity 23910 unit 1 signature {:#010x} # to s1\n",
            signature(1),
            signature(2)
        );
        assert_eq!(said, expected);
        assert!(sluice_pipeline::control::statements(&said).all(|(_, statement)| statement.is_ok()));
        assert_eq!(statements(&topology, "l0", true).unwrap().lines().count(), 3);
        assert_eq!(statements(&topology, "h0", true), None);
    }
}
