//! A network out of namespaces: one per host and per switch, a veth pair per cable, each direction shaped to its rate.
//!
//! [`FabricSpec`] is plain data; [`Fabric::build`] makes it real and dropping the [`Fabric`] removes it. Namespaces
//! have no name in the file system: they live as long as their keeper thread and the processes in them, and those die
//! with this process, so a `kill -9` leaves nothing of the network behind. Control traffic has a network of its own
//! (a bridge, 10.255.0.0/16), as on real clusters. What runs in the namespaces is `run`'s and the tests' business.

pub mod cgroup;
mod counters;
mod delays;
mod groups;
pub mod layout;
mod loss;
mod netns;
mod route;
mod setup;

use std::net::Ipv4Addr;

use sluice_schedule::{Bytes, Nanos, Rate};
use thiserror::Error;

pub use cgroup::{Cgroup, CgroupTree};
pub use counters::Counters;
pub use delays::Delays;
pub use layout::{Layout, PortRef};
pub use loss::Losses;
pub use netns::NetNs;

/// A cable: two directed links between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Name of one end.
    pub a: String,
    /// Name of the other end.
    pub b: String,
    /// Wire rate from a to b.
    pub ab: Rate,
    /// Wire rate from b to a.
    pub ba: Rate,
    /// What a switch's port may hold before it drops, wire bytes. A host's own port holds [`FabricSpec::host_queue`].
    pub queue: Bytes,
    /// One-way delay beyond the veth's own few µs. Kept for the topology; packets are delayed with [`FabricSpec::relays`].
    pub delay: Nanos,
    /// Part of the packets dropped at random in each direction, 0 to 1.
    pub loss: f64,
}

impl Cable {
    /// The same rate both ways, no delay and no loss.
    pub fn plain(a: impl Into<String>, b: impl Into<String>, rate: Rate, queue: Bytes) -> Cable {
        Cable { a: a.into(), b: b.into(), ab: rate, ba: rate, queue, delay: Nanos::ZERO, loss: 0.0 }
    }
}

/// Directed links that share a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Its links, by their numbers in the [`Layout`]; no link is in two groups.
    pub links: Vec<usize>,
    /// What they carry together, wire rate.
    pub rate: Rate,
}

/// A network to build.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricSpec {
    /// Host names; they send and receive, and never forward, unless they are memories or there are [`FabricSpec::routes`].
    pub hosts: Vec<String>,
    /// Switch names; they forward.
    pub switches: Vec<String>,
    /// Cards of every host, each with an address of its own; with more than one every cable is one host's next card and
    /// leads to a switch that no other switch knows, so that what is sent from a card arrives by the same one.
    pub rails: usize,
    /// Cables between hosts and switches; cable c is links 2c and 2c + 1 of the [`Layout`].
    pub cables: Vec<Cable>,
    /// MTU of every link, 576 to 65 535.
    pub mtu: u32,
    /// Largest burst the stack may hand over as one piece; one MTU turns segmentation offload off.
    pub gso_max: Bytes,
    /// What a host's own port may queue. Generous, since a host feels its own queue and does not drop into it.
    pub host_queue: Bytes,
    /// Hosts with a network of containers behind them ([`layout::container_address`]), by index.
    pub containers: Vec<usize>,
    /// Hosts that are memories, by index: they have no data of their own, forward, and run relays.
    pub memories: Vec<usize>,
    /// Limits that links share.
    pub groups: Vec<Group>,
    /// The ways between hosts, each as its links in order; with any of them hosts forward, and there are no other ways.
    /// What two ways to one host have in common they do alike, since nodes look at where a packet goes alone.
    pub routes: Vec<Vec<usize>>,
    /// Cables that delay this long or longer have a relay in user space, which carries some 10 000 packets a second; others do
    /// not delay. `None`: none does.
    pub relays: Option<Nanos>,
    /// Part of the packets of the management network that are lost, each once on its way; 0 to 1.
    pub control_loss: f64,
    /// By what equal routes are chosen beside addresses, protocol and ports: the same number, the same draw of paths.
    /// 0: what the machine drew when it started.
    pub ecmp_seed: u32,
}

/// Ethernet, IPv4 and TCP headers (with timestamps) of one full segment: wire bytes against payload.
pub const HEADERS: u64 = 14 + 20 + 32;

impl FabricSpec {
    /// `n` hosts `h0…` on one switch `s0`, every link at `rate` with `queue` bytes per port.
    pub fn star(n: usize, rate: Rate, queue: Bytes) -> FabricSpec {
        let hosts: Vec<String> = (0..n).map(|i| format!("h{i}")).collect();
        let cables = hosts.iter().map(|h| Cable::plain(h, "s0", rate, queue)).collect();
        FabricSpec { hosts, switches: vec!["s0".into()], cables, ..FabricSpec::default() }
    }

    /// `n` hosts with so many cards each, and a switch for each card; every link at `rate` with `queue` bytes per port.
    pub fn rails(n: usize, rails: usize, rate: Rate, queue: Bytes) -> FabricSpec {
        let hosts: Vec<String> = (0..n).map(|i| format!("h{i}")).collect();
        let cable = |host, rail| Cable::plain(host, format!("s{rail}"), rate, queue);
        let cables = hosts.iter().flat_map(|host| (0..rails).map(move |rail| cable(host, rail))).collect();
        let switches = (0..rails).map(|rail| format!("s{rail}")).collect();
        FabricSpec { hosts, switches, cables, rails, ..FabricSpec::default() }
    }

    /// The hosts with data of their own, by index.
    pub fn members(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| !self.memories.contains(host)).collect()
    }

    /// The wire rate of a directed link, by its number in the [`Layout`].
    pub fn rate(&self, link: usize) -> Rate {
        let cable = &self.cables[link / 2];
        if link.is_multiple_of(2) { cable.ab } else { cable.ba }
    }

    /// The largest piece that the stack hands over.
    fn gso(&self) -> Bytes {
        Bytes(self.gso_max.0.clamp(u64::from(self.mtu), 65_536))
    }

    /// Bytes that a token bucket of this rate holds: one largest burst and at least 0.1 ms, so that timer wake-ups do not
    /// cost rate; more would let a sender exceed its link for long.
    fn bucket(&self, rate: Rate) -> u64 {
        (rate.bytes_per_second() / 10_000).max(self.gso().0 + 2048).max(u64::from(self.mtu) * 2)
    }

    /// Does this host pass on what is not for it?
    fn forwards(&self, host: usize) -> bool {
        !self.routes.is_empty() || self.memories.contains(&host)
    }

    /// The payload rate of a link with this wire rate.
    pub fn payload(&self, wire: Rate) -> Rate {
        let mtu = u64::from(self.mtu);
        Rate((u128::from(wire.0) * u128::from(mtu.saturating_sub(52)) / u128::from(mtu + 14)) as u64)
    }
}

impl Default for FabricSpec {
    fn default() -> FabricSpec {
        FabricSpec {
            hosts: Vec::new(),
            switches: Vec::new(),
            rails: 1,
            cables: Vec::new(),
            mtu: 1500,
            gso_max: Bytes(16_384),
            host_queue: Bytes(4_000_000),
            containers: Vec::new(),
            memories: Vec::new(),
            groups: Vec::new(),
            routes: Vec::new(),
            relays: None,
            control_loss: 0.0,
            ecmp_seed: 0,
        }
    }
}

/// Why a fabric could not be built.
#[derive(Debug, Error)]
pub enum FabricError {
    /// The description contradicts itself.
    #[error("fabric: {0}")]
    Spec(String),
    /// Something this machine or user lacks.
    #[error("the fabric needs {what}: {why}. Run as root on a kernel with network namespaces, veth and tbf")]
    Missing {
        /// What the machine or the user lacks.
        what: String,
        /// What the system said.
        why: String,
    },
    /// A command of iproute2 failed.
    #[error("{tool} in namespace {node} failed: {output}")]
    Tool {
        /// Name of the program: `ip` or `tc`.
        tool: &'static str,
        /// Which namespace it ran in.
        node: String,
        /// What it printed, its input lines included where it names them.
        output: String,
    },
    /// A file or thread of the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, as a phrase that begins with a verb.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl FabricError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> FabricError {
        let what = what.into();
        move |source| FabricError::Io { what, source }
    }
}

/// A node that exists.
#[derive(Debug)]
pub struct Node {
    /// Its name in the spec.
    pub name: String,
    /// The namespace that its processes run in.
    pub ns: NetNs,
    /// Its address on the data network.
    pub address: Ipv4Addr,
    /// Its address on the management network.
    pub management: Ipv4Addr,
}

/// A network that exists; dropping it removes it and kills what runs in it.
#[derive(Debug)]
pub struct Fabric {
    /// What was asked for.
    pub spec: FabricSpec,
    /// Ports, addresses and next hops.
    pub layout: Layout,
    /// The hosts, in the spec's order.
    pub hosts: Vec<Node>,
    /// The switches, in the spec's order.
    pub switches: Vec<Node>,
    /// The namespace of the management bridge; `sluice-switch` runs here.
    pub management: NetNs,
    /// Address of the bridge: where `sluice-switch` listens.
    pub management_address: Ipv4Addr,
    /// One cgroup per host, below one of this process.
    pub cgroups: CgroupTree,
    /// Random loss, where cables have it.
    pub losses: Losses,
    /// Delays, where cables have them.
    pub delays: Delays,
    /// Where the cables of groups pass through, if there are any.
    gate: Option<NetNs>,
}

impl Fabric {
    /// Builds the network: namespaces, cables, addresses, routes, shaping, sysctls.
    ///
    /// # Errors
    /// When the spec contradicts itself, or the machine refuses (not root, no iproute2, no tbf; no TAP devices for delays).
    pub fn build(spec: FabricSpec) -> Result<Fabric, FabricError> {
        cgroup::remove_leftovers();
        let layout = Layout::of(&spec)?;
        let cgroups = CgroupTree::create(&spec.hosts)?;
        let node = |name: &String, address, management| {
            Ok::<Node, FabricError>(Node { name: name.clone(), ns: NetNs::create(name)?, address, management })
        };
        let mut hosts = Vec::with_capacity(spec.hosts.len());
        for (i, name) in spec.hosts.iter().enumerate() {
            hosts.push(node(name, layout.host_address(i), layout::management_address(i))?);
        }
        let mut switches = Vec::with_capacity(spec.switches.len());
        for (i, name) in spec.switches.iter().enumerate() {
            switches.push(node(name, layout.switch_address(i), layout::management_address(spec.hosts.len() + i))?);
        }
        let management = NetNs::create("management")?;
        let gate = if spec.groups.is_empty() { None } else { Some(NetNs::create("gate")?) };
        let mut fabric = Fabric {
            spec,
            layout,
            hosts,
            switches,
            management,
            management_address: layout::MANAGEMENT_BRIDGE,
            cgroups,
            losses: Losses::default(),
            delays: Delays::default(),
            gate,
        };
        fabric.delays = Delays::start(&fabric)?;
        setup::wire(&fabric)?;
        fabric.losses = Losses::attach(&fabric)?;
        Ok(fabric)
    }

    /// The host with this name.
    pub fn host(&self, name: &str) -> Option<&Node> {
        self.hosts.iter().find(|n| n.name == name)
    }

    /// Takes a cable away from a host or a switch (both directions) or gives it back: a partition.
    ///
    /// # Errors
    /// When the node does not exist or `ip` refuses.
    pub fn set_link(&self, node: &str, device: &str, up: bool) -> Result<(), FabricError> {
        let named = |n: &&Node| n.name == node;
        let known = self.hosts.iter().chain(&self.switches).find(named);
        let node = known.ok_or_else(|| FabricError::Spec(format!("no host or switch named {node:?}")))?;
        setup::ip(&node.ns, &format!("link set dev {device} {}\n", if up { "up" } else { "down" }))
    }

    /// The longest delay of a cable that does not delay.
    pub fn undelayed(&self) -> Nanos {
        let plain = (0..self.spec.cables.len()).filter(|cable| !delays::is_relayed(&self.spec, *cable));
        plain.map(|cable| self.spec.cables[cable].delay).max().unwrap_or_default()
    }

    fn node(&self, at: usize) -> &Node {
        if at < self.hosts.len() { &self.hosts[at] } else { &self.switches[at - self.hosts.len()] }
    }
}
