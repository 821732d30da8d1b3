//! Which ends of flows `--peer` means: a network, an address, or the beginning of one.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use sluice_formats::network;

/// As `sluice flows --peer` says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    /// Inside a network; a single address is one.
    Network(String),
    /// Beginning so.
    Prefix(String),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        if network::parse(text).is_some() {
            return Ok(Peer::Network(text.to_owned()));
        }
        let plain = |c: char| c.is_ascii_hexdigit() || ".:[]".contains(c);
        match text.is_empty() || !text.chars().all(plain) {
            true => Err(format!(
                "`{text}` is no network; write 10.0.9.0/24, an address, or how addresses begin, as in 10.0.9."
            )),
            false => Ok(Peer::Prefix(text.to_owned())),
        }
    }
}

impl Peer {
    /// Does this end, an address with a port, belong to it?
    pub fn holds(&self, end: &str) -> bool {
        match self {
            Peer::Prefix(begin) => end.starts_with(begin.as_str()),
            Peer::Network(text) => {
                let address: Option<IpAddr> =
                    end.parse::<SocketAddr>().map(|end| end.ip()).or_else(|_| end.parse()).ok();
                network::parse(text).zip(address).is_some_and(|(network, address)| network::contains(&network, address))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_addresses_and_beginnings_are_told_apart() {
        let holds = |peer: &str, end: &str| peer.parse::<Peer>().expect(peer).holds(end);
        assert!(holds("10.0.9.0/24", "10.0.9.7:40118") && !holds("10.0.9.0/24", "10.0.8.7:40118"));
        assert!(holds("10.0.9.7", "10.0.9.7:40118") && !holds("10.0.9.7", "10.0.9.70:40118"));
        assert!(holds("10.0.9.", "10.0.9.70:40118") && !holds("10.0.9.", "10.0.90.7:1"));
        assert!(holds("fd00::/8", "[fd00::7]:40118") && !holds("fd00::/8", "10.0.0.1:1"));
        assert!(!holds("10.0.0.0/8", "somewhere"));
        for wrong in ["10.0.0.0/33", "leaf-1", "", "10.0.0.0/"] {
            assert!(wrong.parse::<Peer>().expect_err(wrong).contains("no network"), "{wrong}");
        }
    }
}
