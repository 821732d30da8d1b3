//! What a node can do, holds and is called on the network.

use std::net::IpAddr;

use super::{Builder, MAX_ADDRESSES};
use crate::problem::{BAD_WEIGHTS, E_KEY, E_LIMIT, E_RANGE, Problem};
use crate::quantity::{self, Rational};
use crate::topology::{Can, CanEntry, Kind, Node, NodeEntry};

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

    /// Somebody must hold something.
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

    /// Refuses addresses nobody could reach.
    pub(super) fn addresses(&mut self, at: &str, entry: &NodeEntry) {
        let Some(list) = &entry.addresses else { return };
        let forwards = matches!(entry.kind, Kind::Switch | Kind::Nic);
        let most = if forwards { 1 } else { MAX_ADDRESSES };
        if list.len() > most {
            let error = Problem::new(E_LIMIT, format!("{at}/addresses"), "too many addresses");
            self.refuse(error.found(list.len().to_string()).allowed(format!("at most {most}")));
        }
        for (i, address) in list.iter().enumerate().take(most) {
            let good = if forwards { is_endpoint(address) } else { is_network(address) };
            if !good {
                let allowed = if forwards { "host:port" } else { "IPv4, IPv6 or address/bits" };
                let error = Problem::new(E_RANGE, format!("{at}/addresses/{i}"), "not an address").found(&**address);
                self.refuse(error.allowed(allowed));
            }
        }
    }
}

/// `address` or `address/bits`?
fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.len() <= 3 && bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

/// `host:port`?
fn is_endpoint(text: &str) -> bool {
    text.len() <= 260
        && text
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}
