//! Networks in CIDR form. An IPv4 address that IPv6 carries (`::ffff:10.0.0.7`) counts as IPv4 everywhere.

use std::net::IpAddr;

use ipnet::IpNet;

/// Reads `10.0.0.0/8`, `fd00::/8` or a single address; `None` for anything else.
pub fn parse(text: &str) -> Option<IpNet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let single = IpNet::from(address.parse::<IpAddr>().ok()?.to_canonical());
    IpNet::new(single.addr(), bits.unwrap_or(single.max_prefix_len())).ok()
}

/// Is the address in the network?
pub fn contains(network: &IpNet, address: IpAddr) -> bool {
    network.contains(&address.to_canonical())
}

/// The address of a network that is a single one.
pub fn single(network: &IpNet) -> Option<IpAddr> {
    (network.prefix_len() == network.max_prefix_len()).then(|| network.addr())
}

/// The network as [`parse`] reads it, a single address without its length.
pub fn show(network: &IpNet) -> String {
    single(network).map_or_else(|| network.to_string(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_what_they_name() {
        let inside = |network: &str, address: &str| contains(&parse(network).unwrap(), address.parse().unwrap());
        assert!(inside("10.0.0.0/8", "10.9.8.7") && !inside("10.0.0.0/8", "11.0.0.1"));
        assert!(inside("10.0.0.7", "::ffff:10.0.0.7") && !inside("10.0.0.7", "10.0.0.8"));
        assert!(inside("::ffff:10.0.0.0/24", "10.0.0.8") && inside("10.0.0.9/24", "10.0.0.8"));
        assert!(inside("0.0.0.0/0", "1.2.3.4") && !inside("0.0.0.0/0", "fd00::1"));
        assert!(inside("::/0", "fd00::1") && inside("fd00::/8", "fd12::1") && !inside("::/0", "1.2.3.4"));
        for wrong in ["10.0.0.0/33", "::ffff:10.0.0.0/104", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/", "leaf0", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_the_same() {
        for text in ["10.0.0.7", "10.0.0.0/8", "10.1.2.3/8", "fd00::1", "::/0"] {
            assert_eq!(show(&parse(text).unwrap()), text);
        }
    }
}
