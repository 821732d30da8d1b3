//! The 4-tuple of a connection, the two flows on it, and the network namespace that it is in.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use sluice_schedule::{Connection, FlowId, HostId};

/// The number of TCP over IP.
const TCP: u8 = 6;

/// Own and other address of a connection, IPv4 as mapped IPv6, flow label and scope dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    pub local: ([u8; 16], u16),
    pub remote: ([u8; 16], u16),
}

/// A network namespace, by its inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetNs(pub u32);

/// Where a connection is: several namespaces may have the same addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub netns: NetNs,
    pub tuple: Tuple,
}

impl Tuple {
    pub fn of(local: SocketAddr, remote: SocketAddr) -> Tuple {
        Tuple { local: end(local), remote: end(remote) }
    }
    /// As the data path reports it.
    pub fn of_v6(local: SocketAddrV6, remote: SocketAddrV6) -> Tuple {
        Tuple::of(local.into(), remote.into())
    }
    /// The flow this host sends on it.
    pub fn outgoing(&self, own: HostId) -> FlowId {
        FlowId::of(own, self.local, self.remote)
    }
    /// The flow the other host sends on it.
    pub fn incoming(&self, peer: HostId) -> FlowId {
        FlowId::of(peer, self.remote, self.local)
    }
    pub fn local_ip(&self) -> IpAddr {
        IpAddr::from(self.local.0).to_canonical()
    }
    pub fn remote_ip(&self) -> IpAddr {
        IpAddr::from(self.remote.0).to_canonical()
    }
    /// As its packets show it to switches.
    pub fn connection(&self) -> Connection {
        let source = SocketAddr::new(self.local_ip(), self.local.1);
        Connection { source, destination: self.remote_address(), protocol: TCP }
    }
    pub fn remote_address(&self) -> SocketAddr {
        SocketAddr::new(self.remote_ip(), self.remote.1)
    }
}

fn end(address: SocketAddr) -> ([u8; 16], u16) {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    (ip.octets(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_name_a_flow_alike() {
        let (a, b) = ("10.0.0.1:1000".parse().unwrap(), "[::ffff:10.0.0.2]:2000".parse().unwrap());
        let (here, there) = (Tuple::of(a, b), Tuple::of(b, a));
        let (own, peer) = (HostId::of("h0"), HostId::of("h1"));
        assert_eq!(here.outgoing(own), there.incoming(own));
        assert_eq!(here.incoming(peer), there.outgoing(peer));
        assert_ne!(here.outgoing(own), here.incoming(own));
    }
}
