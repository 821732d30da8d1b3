//! Address ranges in CIDR form.

use std::net::IpAddr;

/// An address range; a plain address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: u128,
    v4: bool,
    /// Length of the fixed prefix in bits, of 32 or 128.
    pub prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `10.0.0.7`, `fd00::/8`.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let (address, v4) = bits(address.parse().ok()?);
        let most = if v4 { 32 } else { 128 };
        let prefix = prefix.unwrap_or(most);
        (prefix <= most).then_some(Network { address, v4, prefix })
    }

    /// Is the address in the range? IPv4-mapped IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (address, v4) = bits(address);
        let rest = if self.v4 { 32 } else { 128 } - u32::from(self.prefix);
        v4 == self.v4 && (address ^ self.address).checked_shr(rest).unwrap_or(0) == 0
    }
}

fn bits(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_name() {
        let inside = |range: &str, address: &str| Network::parse(range).unwrap().contains(address.parse().unwrap());
        assert!(inside("10.0.0.0/8", "10.9.8.7") && !inside("10.0.0.0/8", "11.0.0.1"));
        assert!(inside("10.0.0.7", "::ffff:10.0.0.7") && !inside("10.0.0.7", "10.0.0.8"));
        assert!(inside("0.0.0.0/0", "1.2.3.4") && !inside("0.0.0.0/0", "fd00::1"));
        assert!(inside("::/0", "fd00::1") && inside("fd00::/8", "fd12::1"));
        assert_eq!(Network::parse("10.0.0.0/33"), None);
        assert_eq!(Network::parse("leaf0"), None);
    }
}
