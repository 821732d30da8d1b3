//! What no single key can be blamed for: keys that disagree, files that are missing, and what this host cannot do.

use sluice_formats::problem::{E_CONFLICT, E_ENV, Problem};

use sluice_wire::udp::LANES;

use super::choices::{Backend, ClockSource, CrossSource, MetricFlows, MetricJobs, Require};
use super::read::{Loaded, Origin};
use super::settings::{Peer, Unproven};
use super::value::Named;

pub fn cross(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    let mut conflict = |key: &str, other: &str, message: String, help: &str| {
        let mut problem = Problem::new(E_CONFLICT, key, message).help(help);
        blame(&mut problem, loaded.origins.get(key));
        if let Some(origin) = loaded.origins.get(other) {
            problem.found = format!("{other} is set in {}:{}", origin.file.display(), origin.line);
        }
        problems.push(problem);
    };
    let life = config.order_life();
    if life.0 > 1_000_000_000 {
        let message =
            format!("an order would live {life} (enforce.deadline_slots x slot.length_ms), at most 1 s is allowed");
        conflict("enforce.deadline_slots", "slot.length_ms", message, "lower enforce.deadline_slots");
    }
    if config.switch.stale_slots > config.slot.horizon {
        let message = format!(
            "switch.stale_slots = {} is more than slot.horizon = {}",
            config.switch.stale_slots, config.slot.horizon
        );
        conflict("switch.stale_slots", "slot.horizon", message, "a view cannot be held longer than the horizon");
    }
    if let Some(switch) = config.by_datagrams().next()
        && config.slot.horizon != LANES as u64
    {
        let message = format!(
            "{}: transport {:?} carries {LANES} slots, slot.horizon is {}",
            switch.name,
            switch.transport.word(),
            config.slot.horizon
        );
        conflict("switches", "slot.horizon", message, "set slot.horizon = 10 on every host and switch");
    }
    if let Some(switch) = config.in_band().next().filter(|_| config.peer.peers.is_empty() && !config.peer.open) {
        let message =
            format!("{}: datagrams along paths come from other hosts, and nothing says from which", switch.name);
        conflict("switches", "peer.peers", message, "write peer.peers with the hosts' networks, or peer.open = true");
    }
    if config.enforce.backend == Backend::None && config.enforce.require != Require::None {
        let message = "enforce.backend = \"none\" can never satisfy enforce.require".to_owned();
        conflict("enforce.backend", "enforce.require", message, "set one of the two");
    }
    if config.cross_traffic.source == CrossSource::File && config.cross_traffic.file.is_none() {
        let message = "cross_traffic.source = \"file\" needs cross_traffic.file".to_owned();
        conflict("cross_traffic.source", "cross_traffic.file", message, "name the file");
    }
    if config.clock.source == ClockSource::Tai && config.clock.tai_offset_s == 0 {
        let message = "clock.source = \"tai\" needs a clock.tai_offset_s above 0".to_owned();
        conflict("clock.source", "clock.tai_offset_s", message, "37 since 2017");
    }
    if config.control.group.len() > 32 {
        let message = "control.group is longer than a group name can be".to_owned();
        conflict("control.group", "control.group", message, "name a group of /etc/group");
    }
    if config.peer.listen.iter().any(|address| address.port() != config.peer.listen[0].port()) {
        let message = "peer.listen names more than one port; the cluster has one".to_owned();
        conflict("peer.listen", "peer.listen", message, "use one port on every address");
    }
    if config.metrics.flows == MetricFlows::Index && config.metrics.jobs == MetricJobs::Off {
        let message =
            "metrics.flows = \"index\" numbers flows within their job, which metrics.jobs = \"off\" hides".to_owned();
        conflict("metrics.flows", "metrics.jobs", message, "set metrics.jobs = \"id\", or leave metrics.flows out");
    }
    if config.peer.open && !config.peer.peers.is_empty() {
        let message = "peer.open = true lets everybody in, peer.peers does not".to_owned();
        conflict("peer.open", "peer.peers", message, "leave one of the two out");
    }
    problems.extend(unlisted_peers(loaded));
    problems.extend(identity(loaded));
    problems.extend(fleet(loaded));
    problems
}

/// What the keys of `[fleet]` need of each other.
fn fleet(loaded: &Loaded) -> Vec<Problem> {
    let fleet = &loaded.config.fleet;
    let mut problems = Vec::new();
    let mut conflict = |key: &str, message: String, help: &str| {
        let mut problem = Problem::new(E_CONFLICT, key, message).help(help);
        blame(&mut problem, loaded.origins.get(key).or_else(|| loaded.origins.get("fleet.etcd")));
        problems.push(problem);
    };
    if let Some(endpoint) = fleet.etcd.iter().find(|endpoint| endpoint.tls()).filter(|_| fleet.tls_ca.is_none()) {
        let message = format!("{endpoint} needs fleet.tls_ca");
        conflict("fleet.etcd", message, "name the certificate of the authority that signed etcd's");
    }
    let open = fleet.etcd.iter().find(|endpoint| !endpoint.tls() && !endpoint.loopback());
    if let Some(endpoint) = open.filter(|_| !fleet.plaintext) {
        let message = format!("{endpoint} is spoken to without TLS: whoever is on the way can set this host's mode");
        conflict("fleet.etcd", message, "write https, or plaintext = true under [fleet] where the network is trusted");
    }
    if fleet.tls_cert.is_some() != fleet.tls_key.is_some() {
        let message = "fleet.tls_cert and fleet.tls_key go together, and one of them is missing".to_owned();
        conflict("fleet.tls_cert", message, "name both, or none");
    }
    if sluice_fleet::key::Name::parse(&fleet.group).is_none() {
        let message = format!("fleet.group = {:?} begins with a dot", fleet.group);
        conflict("fleet.group", message, "groups are names of keys in etcd: begin with a letter or a digit");
    }
    problems
}

/// Puts a problem where the key was set.
fn blame(problem: &mut Problem, origin: Option<&Origin>) {
    if let Some(origin) = origin {
        (problem.file, problem.line, problem.column) = (origin.file.display().to_string(), origin.line, 1);
    }
}

/// A peer service that other hosts can reach needs to be told which.
fn unlisted_peers(loaded: &Loaded) -> Option<Problem> {
    let Peer { peers, open, .. } = &loaded.config.peer;
    let address = loaded.config.peer.beyond_loopback()?;
    // Whoever proves who it is may come from anywhere.
    if !loaded.config.serves_peers() || *open || !peers.is_empty() || loaded.config.identity_files().is_some() {
        return None;
    }
    let message = "without switches other hosts connect to peer.listen, and nothing says who may";
    let mut problem = Problem::new(E_CONFLICT, "peer.listen", message)
        .found(address.to_string())
        .allowed("a loopback address, any address together with [tls], or with unauthenticated and peer.peers or peer.open")
        .help(
            "write [tls] with ca, cert and key (sluice tls --help makes them); without TLS: unauthenticated = true, and peers = [\"10.0.0.0/8\"] with the hosts' networks under [peer]",
        );
    blame(&mut problem, loaded.origins.get("peer.listen").or_else(|| loaded.origins.get("topology")));
    Some(problem)
}

/// What has to be said of who proves who it is.
fn identity(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    let mut conflict = |key: &str, other: &str, message: String, help: &str| {
        let mut problem = Problem::new(E_CONFLICT, key, message).help(help);
        blame(&mut problem, loaded.origins.get(key).or_else(|| loaded.origins.get(other)));
        problems.push(problem);
    };
    let named = [&config.tls.ca, &config.tls.cert, &config.tls.key].map(Option::is_some);
    if named.contains(&true) && named.contains(&false) {
        let missing = ["tls.ca", "tls.cert", "tls.key"].into_iter().zip(named).find(|(_, named)| !named);
        let message = format!("{} is missing: [tls] needs ca, cert and key", missing.map_or("", |(key, _)| key));
        let there = ["tls.ca", "tls.cert", "tls.key"].into_iter().zip(named).find(|(_, named)| *named);
        conflict(there.map_or("tls.ca", |(key, _)| key), "tls.ca", message, "name all three, or none");
        return problems;
    }
    // Where nothing says who may connect at all, that is told first.
    if config.unauthenticated || unlisted_peers(loaded).is_some() {
        return problems;
    }
    let help = "write [tls] with ca, cert and key (sluice tls --help makes them), or unauthenticated = true where every \
                machine of the network is trusted";
    match config.unproven() {
        None => {}
        Some(Unproven::Peers(address)) => {
            let message = format!(
                "other hosts connect to {address} and nothing proves who they are: there is no [tls], and any machine of peer.peers can speak as any host"
            );
            conflict("peer.listen", "topology", message, help);
        }
        Some(Unproven::Along(switch)) => {
            let message =
                format!("{}: datagrams along paths prove nothing of who sends them to {}", switch.name, switch.address);
            let help = "write unauthenticated = true where every machine of peer.peers is trusted";
            conflict("switches", "switches", message, help);
        }
        // Whoever only asks opens nothing; a condition tells of it.
        Some(Unproven::Switch(_)) => {}
    }
    problems
}

/// What is valid and cannot work on this host. Reads `/sys`, `/proc` and files the configuration names.
pub fn environment(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    let mut absent = |key: &str, found: &str, message: String, help: &str| {
        let mut problem = Problem::new(E_ENV, key, message).found(found).help(help);
        blame(&mut problem, loaded.origins.get(key));
        problems.push(problem);
    };
    for name in config.capture.interfaces.iter().filter_map(Named::name) {
        if !crate::interfaces::exists(name) {
            absent("capture.interfaces", name, format!("no interface {name} on this host"), "see `ip link`");
        }
    }
    for link in &config.links {
        if !crate::interfaces::exists(&link.name) {
            absent("links", &link.name, format!("no interface {} on this host", link.name), "see `ip link`");
        }
    }
    for cgroup in config.capture.cgroups.iter().filter_map(Named::name) {
        if !cgroup.is_dir() {
            let cgroup = cgroup.display().to_string();
            absent("capture.cgroups", &cgroup, format!("no cgroup {cgroup}"), "name a directory of the cgroup v2 tree");
        }
    }
    if let Err(network) = crate::fabric::load(config) {
        problems.extend(network.into_all());
    }
    problems
}
