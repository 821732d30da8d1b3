//! What a node can do, holds and is called on the network.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Builder, MAX_ADDRESSES, MAX_PORT_ADDRESSES};
use crate::network;
use crate::problem::{BAD_WEIGHTS, E_DUP, E_KEY, E_LIMIT, E_RANGE, Problem};
use crate::quantity::{self, Rational};
use crate::topology::{Can, CanEntry, Kind, Node, NodeEntry, Text};

impl Builder {
    /// What a node can do: as its kind, unless the file says otherwise.
    pub(super) fn can(&mut self, at: &str, kind: Kind, entry: Option<&CanEntry>) -> Can {
        let (store, copy, reduce) = match kind {
            Kind::Gpu | Kind::Host | Kind::Site => (true, true, true),
            Kind::Memory => (true, true, false),
            Kind::Switch | Kind::Nic => (false, false, false),
        };
        let Some(entry) = entry else { return Can { store, copy, reduce } };
        let mut one = |plain: (&str, Option<bool>), in_network: (&str, Option<bool>), default| {
            if matches!(kind, Kind::Switch | Kind::Nic) {
                if let (Some(a), Some(b)) = (plain.1, in_network.1)
                    && a != b
                {
                    let message = format!("`{}` and `{}` of a switch are one thing", plain.0, in_network.0);
                    let key = format!("{at}/can/{}", in_network.0);
                    self.refuse(Problem::new(E_KEY, key, message).found(b.to_string()).allowed(a.to_string()));
                }
                return plain.1.or(in_network.1).unwrap_or(default);
            }
            if in_network.1.is_some() {
                let message = format!("`{}` is for switches and nics", in_network.0);
                let help = format!("write `{}`", plain.0);
                self.refuse(Problem::new(E_KEY, format!("{at}/can/{}", in_network.0), message).help(help));
            }
            plain.1.unwrap_or(default)
        };
        let copy = one(("copy", entry.copy), ("multicast", entry.multicast), copy);
        let reduce = one(("reduce", entry.reduce), ("aggregate", entry.aggregate), reduce);
        Can { store: entry.store.unwrap_or(store), copy, reduce }
    }

    /// The share of the data it holds.
    pub(super) fn weight(&mut self, at: &str, entry: &NodeEntry) -> u64 {
        let weight = entry.weight.map_or(1, |weight| weight.0);
        u64::try_from(weight).unwrap_or_else(|_| {
            let error =
                Problem::new(BAD_WEIGHTS, format!("{at}/weight"), "a negative weight").found(weight.to_string());
            self.refuse(error.allowed("0 or more"));
            0
        })
    }

    pub(super) fn check_weights(&mut self, nodes: &[Node]) {
        let mut compute = nodes.iter().filter(|node| node.is_compute()).peekable();
        if compute.peek().is_some() && compute.all(|node| node.weight == 0) {
            let error = Problem::new(BAD_WEIGHTS, "/nodes", "all weights are zero: nobody holds any data");
            self.refuse(error.allowed("at least one weight above 0"));
        }
    }

    /// Bytes it may hold for others.
    pub(super) fn buffer(&mut self, at: &str, entry: &NodeEntry) -> Option<Rational> {
        let text = entry.buffer.as_ref()?.0.as_ref()?;
        let key = format!("{at}/buffer");
        match quantity::size(text) {
            Ok(size) if !size.is_negative() => Some(size),
            Ok(_) => {
                self.refuse(
                    Problem::new(E_RANGE, key, "a negative size").found(&**text).allowed("0B or more, or null"),
                );
                None
            }
            Err(misread) => {
                self.misread(key, text, misread);
                None
            }
        }
    }

    /// Where its sockets are; refuses what no socket can have and what another node has.
    pub(super) fn networks(&mut self, index: usize, entry: &NodeEntry) -> Vec<IpNet> {
        let Some(list) = &entry.addresses else { return Vec::new() };
        let at = format!("/nodes/{index}/addresses");
        if list.len() > MAX_ADDRESSES {
            let error = Problem::new(E_LIMIT, &at, "too many addresses").found(list.len().to_string());
            self.refuse(error.allowed(format!("at most {MAX_ADDRESSES}")));
        }
        let mut networks = Vec::new();
        for (i, text) in list.iter().enumerate().take(MAX_ADDRESSES) {
            let Some(network) = network::parse(text) else {
                let error = Problem::new(E_RANGE, format!("{at}/{i}"), "not an address").found(&**text);
                self.refuse(error.allowed("IPv4, IPv6 or address/bits"));
                continue;
            };
            let owner = *self.by_network.entry(network.trunc()).or_insert(index);
            if owner != index {
                let error = Problem::new(E_DUP, format!("{at}/{i}"), "another node has this address").found(&**text);
                self.refuse(error.allowed("every address once").help(format!("the other is /nodes/{owner}")));
            }
            networks.push(network);
        }
        networks
    }

    /// The addresses of a switch's ports; refuses what no port can have and what another node has.
    pub(super) fn port_addresses(&mut self, index: usize, entry: &NodeEntry, forwards: bool) -> Vec<IpAddr> {
        let Some(list) = &entry.port_addresses else { return Vec::new() };
        let at = format!("/nodes/{index}/port_addresses");
        if !forwards {
            let error = Problem::new(E_KEY, &at, "`port_addresses` is for switches and nics");
            self.refuse(error.help("write `addresses`"));
            return Vec::new();
        }
        if list.len() > MAX_PORT_ADDRESSES {
            let error = Problem::new(E_LIMIT, &at, "too many addresses").found(list.len().to_string());
            self.refuse(error.allowed(format!("at most {MAX_PORT_ADDRESSES}")));
        }
        let mut addresses = Vec::new();
        for (i, text) in list.iter().enumerate().take(MAX_PORT_ADDRESSES) {
            let Some((network, address)) = network::parse(text).and_then(|net| Some((net, network::single(&net)?)))
            else {
                let error = Problem::new(E_RANGE, format!("{at}/{i}"), "not an address").found(&**text);
                self.refuse(error.allowed("IPv4 or IPv6, without a range"));
                continue;
            };
            let owner = *self.by_network.entry(network).or_insert(index);
            if owner != index {
                let error = Problem::new(E_DUP, format!("{at}/{i}"), "another node has this address").found(&**text);
                self.refuse(error.allowed("every address once").help(format!("the other is /nodes/{owner}")));
            }
            addresses.push(address);
        }
        addresses
    }

    /// Where a switch or a NIC answers.
    pub(super) fn exchange(&mut self, at: &str, entry: &NodeEntry) -> Option<Text> {
        let list = entry.addresses.as_deref()?;
        if list.len() > 1 {
            let error = Problem::new(E_LIMIT, format!("{at}/addresses"), "too many addresses");
            self.refuse(error.found(list.len().to_string()).allowed("at most 1"));
        }
        let endpoint = list.first()?;
        if !is_endpoint(endpoint) {
            let error = Problem::new(E_RANGE, format!("{at}/addresses/0"), "not an address").found(&**endpoint);
            self.refuse(error.allowed("host:port"));
        }
        Some(endpoint.clone())
    }
}

/// `host:port`?
fn is_endpoint(text: &str) -> bool {
    text.len() <= 260
        && text
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}
