//! An address with a prefix length.

use std::net::IpAddr;

/// All addresses that begin with the first `bits` bits of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// IPv4 addresses are never mapped.
    pub address: IpAddr,
    /// 32 or 128 for a single address.
    pub bits: u8,
}

impl Network {
    /// Reads `address` or `address/bits`.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse::<IpAddr>().ok()?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network { address, bits })
    }
    /// Is it one address?
    pub fn is_single(&self) -> bool {
        self.bits == if self.address.is_ipv4() { 32 } else { 128 }
    }
    /// Does it hold this address?
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                self.bits == 0 || (own.to_bits() ^ other.to_bits()) >> (32 - u32::from(self.bits)) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                self.bits == 0 || (own.to_bits() ^ other.to_bits()) >> (128 - u32::from(self.bits)) == 0
            }
            _ => false,
        }
    }
}
