//! The commands that make a fabric real: `ip` and `tc` in batch mode, one process per namespace, and the sysctls.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use sluice_schedule::{Bytes, Rate};

use super::layout::{PortRef, container_address};
use super::{Fabric, FabricError, FabricSpec, NetNs, Node, delays, groups};

/// The same for every policy, so that a comparison compares policies. The first two are what `sluiced` needs
/// (TSO bursts by rate, not by round-trip time; room for a full window), the third keeps one connection's losses from
/// being remembered for the next. The default congestion control cannot be set in a namespace unless it is marked as
/// open to all; jobs and cross traffic ask for theirs by `setsockopt`. Among equal routes the kernel chooses by addresses,
/// protocol and ports of the packet, as switches do: policy 1 would take the hash that the sending socket left on it, which
/// comes through veth, is drawn anew after losses and known to nobody else.
const SYSCTLS: [(&str, &str); 7] = [
    ("net/ipv4/tcp_tso_rtt_log", "0"),
    ("net/ipv4/tcp_wmem", "4096 65536 8388608"),
    ("net/ipv4/tcp_rmem", "4096 131072 8388608"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv4/fib_multipath_hash_policy", "3"),
    ("net/ipv4/fib_multipath_hash_fields", "55"),
    ("net/ipv4/conf/all/rp_filter", "0"),
];

/// Cables, addresses, routes, neighbours, shaping, sysctls, management network.
pub fn wire(fabric: &Fabric) -> Result<(), FabricError> {
    let layout = &fabric.layout;
    let spec = &fabric.spec;
    let mut make = String::new();
    for pair in layout.links.chunks(2) {
        let (cable, ends) = (pair[0].cable, [&pair[0].from, &pair[0].to]);
        if delays::is_relayed(spec, cable) {
            continue; // Its devices are there.
        }
        let end = |port: &PortRef| {
            format!("name {} address {} netns {}", port.device, port.mac, fabric.node(port.node).ns.tid())
        };
        match fabric.gate.as_ref().filter(|_| groups::is_shared(spec, cable)) {
            None => _ = writeln!(make, "link add {} type veth peer {}", end(ends[0]), end(ends[1])),
            Some(gate) => {
                for (side, port) in ends.into_iter().enumerate() {
                    let inside = groups::side(cable, side);
                    _ = writeln!(make, "link add {} type veth peer name {inside} netns {}", end(port), gate.tid());
                }
            }
        }
    }
    for (i, node) in fabric.hosts.iter().chain(&fabric.switches).enumerate() {
        _ = writeln!(
            make,
            "link add name mgmt0 netns {} type veth peer name m{i} netns {}",
            node.ns.tid(),
            fabric.management.tid()
        );
    }
    ip(&fabric.management, &make)?;
    manage(fabric)?;
    if let Some(gate) = &fabric.gate {
        ip(gate, &groups::links(spec))?;
        tool(gate, "tc", &["-batch", "-"], &groups::shape(spec, layout))?;
    }
    for (n, node) in fabric.hosts.iter().chain(&fabric.switches).enumerate() {
        let is_host = n < layout.hosts;
        let passes_on = is_host && spec.forwards(n);
        let forwards = spec.containers.contains(&n) || passes_on;
        let seed = spec.ecmp_seed;
        node.ns
            .run(move || sysctls(is_host && !forwards, seed))?
            .map_err(FabricError::io(format!("setting the sysctls of {}", node.name)))?;
        let mut links = format!(
            "link set dev lo up\naddr add {}/16 dev mgmt0\nlink set dev mgmt0 up\naddr add {}/32 dev {}\n",
            node.management,
            node.address,
            // A host's address is its card's, as daemons expect; a switch only routes.
            if is_host { "eth0" } else { "lo" }
        );
        for rail in (1..layout.rails).filter(|_| is_host) {
            _ = writeln!(links, "addr add {}/32 dev eth{rail}", layout.rail_address(n, rail));
        }
        let mut shape = String::new();
        for (at, link) in layout.links.iter().enumerate().filter(|(_, l)| l.from.node == n) {
            let device = &link.from.device;
            let gso = spec.gso().0;
            // Loss hits packets, not bursts: no segmentation offload on a lossy cable.
            let segments = if spec.cables[link.cable].loss > 0.0 { " gso_max_segs 1" } else { "" };
            if delays::is_relayed(spec, link.cable) {
                _ = writeln!(links, "link set dev {device} address {}", link.from.mac);
            }
            _ = writeln!(links, "link set dev {device} mtu {} gso_max_size {gso}{segments}", spec.mtu);
            _ = writeln!(links, "link set dev {device} up");
            let peer = layout.port_address(&link.to);
            _ = writeln!(links, "neigh replace {peer} lladdr {} dev {device} nud permanent", link.to.mac);
            // What forwards must not hold packets for long.
            let limit = if is_host && !passes_on { spec.host_queue } else { spec.cables[link.cable].queue };
            _ = writeln!(shape, "{}", tbf(spec, device, spec.rate(at), limit));
        }
        for (host, hops) in layout.next[n].iter().enumerate().filter(|_| layout.rails > 1) {
            for link in hops.iter().map(|hop| &layout.links[*hop]) {
                // From card to card: what leaves a host's card goes to the same card of another.
                let (rail, source) = if is_host {
                    (link.from.port, format!(" src {}", layout.port_address(&link.from)))
                } else {
                    (link.to.port, String::new())
                };
                let (target, via) = (layout.rail_address(host, rail), layout.port_address(&link.to));
                _ = writeln!(links, "route add {target}/32{source} via {via} dev {} onlink", link.from.device);
            }
        }
        let plain = layout.next[n].iter().filter(|_| layout.rails == 1);
        for (host, hops) in plain.enumerate().filter(|(_, hops)| !hops.is_empty()) {
            let target = layout.host_address(host);
            let source = if is_host { format!(" src {}", node.address) } else { String::new() };
            let via = |e: &usize| {
                let l = &layout.links[*e];
                format!("via {} dev {} onlink", layout.address(l.to.node), l.from.device)
            };
            let behind = spec.containers.contains(&host).then(|| format!("{}/24", container_address(host, 0)));
            for target in std::iter::once(format!("{target}/32")).chain(behind) {
                if let [one] = hops.as_slice() {
                    _ = writeln!(links, "route add {target}{source} {}", via(one));
                } else {
                    let all: Vec<String> = hops.iter().map(|e| format!("nexthop {}", via(e))).collect();
                    _ = writeln!(links, "route add {target}{source} {}", all.join(" "));
                }
            }
        }
        ip(&node.ns, &links)?;
        tool(&node.ns, "tc", &["-batch", "-"], &shape)?;
    }
    Ok(())
}

/// A token bucket for one device.
fn tbf(spec: &FabricSpec, device: &str, rate: Rate, limit: Bytes) -> String {
    let burst = spec.bucket(rate);
    format!("qdisc add dev {device} root tbf rate {}bit burst {burst} limit {}", rate.0, limit.0.max(burst + 1514))
}

fn manage(fabric: &Fabric) -> Result<(), FabricError> {
    let mut text = format!(
        "link set dev lo up\nlink add name br0 type bridge\naddr add {}/16 dev br0\nlink set dev br0 up\n",
        fabric.management_address
    );
    for i in 0..fabric.hosts.len() + fabric.switches.len() {
        _ = writeln!(text, "link set dev m{i} master br0 up");
    }
    ip(&fabric.management, &text)
}

fn sysctls(is_host: bool, ecmp_seed: u32) -> std::io::Result<()> {
    let seed = ecmp_seed.to_string();
    for (key, value) in SYSCTLS.into_iter().chain([("net/ipv4/fib_multipath_hash_seed", seed.as_str())]) {
        match std::fs::write(format!("/proc/sys/{key}"), value) {
            // An older kernel knows not all of them.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => tracing::debug!("no sysctl {key}"),
            other => other?,
        }
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", if is_host { "0" } else { "1" })
}

/// Runs lines of `ip` commands in a namespace.
pub(super) fn ip(ns: &NetNs, lines: &str) -> Result<(), FabricError> {
    tool(ns, "ip", &["-batch", "-"], lines).map(|_| ())
}

fn tool(ns: &NetNs, tool: &'static str, args: &'static [&'static str], input: &str) -> Result<String, FabricError> {
    let input = input.to_owned();
    let ran = ns.run(move || {
        let mut child = Command::new(tool)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok::<_, std::io::Error>((output, input))
    })?;
    let (output, input) = ran
        .map_err(|e| FabricError::Missing { what: format!("the program `{tool}` of iproute2"), why: e.to_string() })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.rsplit(':').next().and_then(|n| n.trim().parse::<usize>().ok());
    let line = line.and_then(|n| input.lines().nth(n.saturating_sub(1))).unwrap_or("");
    Err(FabricError::Tool { tool, node: ns.name().into(), output: format!("{} {line:?}", said.trim()) })
}

impl NetNs {
    /// Runs lines of `ip` commands inside.
    ///
    /// # Errors
    /// When `ip` is missing or refuses one.
    pub fn ip(&self, lines: &str) -> Result<(), FabricError> {
        ip(self, lines)
    }

    /// What `ip` answers inside.
    ///
    /// # Errors
    /// As [`NetNs::ip`].
    pub fn ask_ip(&self, question: &'static [&'static str]) -> Result<String, FabricError> {
        tool(self, "ip", question, "")
    }
}

impl Node {
    /// Makes `tcp` the congestion control of every connection from this host, whoever opened it: by its routes, since a
    /// namespace's own default may only be one that the machine allows to everybody.
    ///
    /// # Errors
    /// When the machine does not know it.
    pub fn prefer(&self, tcp: &str) -> Result<(), FabricError> {
        let routes = tool(&self.ns, "ip", &["route", "show"], "")?;
        // A state, not an argument: a cable whose carrier has not come up yet.
        let routes = routes.replace(" linkdown", "");
        ip(
            &self.ns,
            &routes.lines().map(|route| format!("route replace {} congctl {tcp}\n", route.trim())).collect::<String>(),
        )
    }
}

impl Fabric {
    /// A directed link carries this much from now on, whatever anybody believes of it.
    ///
    /// # Errors
    /// When there is no such link, or `tc` refuses.
    pub fn set_rate(&self, link: usize, rate: Rate) -> Result<(), FabricError> {
        let from = self.layout.links.get(link).map(|link| &link.from);
        let from = from.ok_or_else(|| FabricError::Spec(format!("no link {link}")))?;
        let is_host = from.node < self.layout.hosts;
        let cable = &self.spec.cables[self.layout.links[link].cable];
        let limit = if is_host { self.spec.host_queue } else { cable.queue };
        let text = tbf(&self.spec, &from.device, rate, limit).replacen("qdisc add", "qdisc change", 1);
        tool(&self.node(from.node).ns, "tc", &["-batch", "-"], &text).map(|_| ())
    }

    /// Packets dropped by each directed link's queues, also that in its group, since the fabric was built, in the layout's
    /// link order.
    ///
    /// # Errors
    /// When `tc` fails or prints what this version does not understand.
    pub fn drops(&self) -> Result<Vec<u64>, FabricError> {
        let mut result = vec![0; self.layout.links.len()];
        for n in 0..self.layout.nodes.len() {
            let ns = &self.node(n).ns;
            let text = tool(ns, "tc", &["-s", "-j", "qdisc", "show"], "")?;
            let bad = |why: String| FabricError::Tool { tool: "tc", node: ns.name().into(), output: why };
            let list: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
            for (at, link) in self.layout.links.iter().enumerate().filter(|(_, l)| l.from.node == n) {
                let mine = |q: &&serde_json::Value| q["dev"] == link.from.device.as_str() && q["kind"] == "tbf";
                result[at] = list.iter().find(mine).and_then(|q| q["drops"].as_u64()).unwrap_or(0);
            }
        }
        if let Some(gate) = &self.gate {
            let text = tool(gate, "tc", &["-s", "-j", "qdisc", "show"], "")?;
            groups::add_drops(&self.spec, &text, &mut result).map_err(|why| FabricError::Tool {
                tool: "tc",
                node: gate.name().into(),
                output: why.to_string(),
            })?;
        }
        Ok(result)
    }
}
