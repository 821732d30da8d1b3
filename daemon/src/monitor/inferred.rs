//! What a process without a page would have written into one: its connections and how its job talks, as far as the flow
//! graph tells.
//!
//! Bytes go one way round a ring: a rank sends to one host and receives from another one, on whichever connections,
//! opened by whichever side. Parameter servers are told by the environment; their set is the hosts that a worker sends to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_progress::{PageView, Pattern as PagePattern, Peer, PeerKind, Role as PageRole};

use super::tuple::Tuple;

/// Connections of one process at most, beside those on its page.
const MAX_CLAIMS: usize = 4096;

/// A connection of a process that moves much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub tuple: Tuple,
    /// Much is sent on it.
    pub sends: bool,
    /// Much is received on it.
    pub receives: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<Tuple, Claim>);

impl Claims {
    /// Takes a connection in, or how it is used by now.
    pub fn take(&mut self, claim: Claim) {
        let room = self.0.len() < MAX_CLAIMS;
        match self.0.get_mut(&claim.tuple) {
            Some(known) => *known = claim,
            None if room => {
                self.0.insert(claim.tuple, claim);
            }
            None => {}
        }
    }
    /// Leaves one out; true if it was there.
    pub fn drop(&mut self, tuple: &Tuple) -> bool {
        self.0.remove(tuple).is_some()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.values()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Does the process send on this one?
    pub fn sends(&self, tuple: &Tuple) -> bool {
        self.0.get(tuple).is_some_and(|claim| claim.sends)
    }

    /// How the ranks of the job talk, by who sends to whom. `ranks`: of the job; 0 unknown.
    fn pattern(&self, role: PageRole, ranks: u32, local: impl Fn(IpAddr) -> bool) -> PagePattern {
        if role != PageRole::Peer {
            return PagePattern::ParameterServer;
        }
        let hosts = |way: fn(&Claim) -> bool| -> BTreeSet<IpAddr> {
            let abroad = self.0.values().filter(|claim| way(claim) && !local(claim.tuple.remote_ip()));
            abroad.map(|claim| claim.tuple.remote_ip()).collect()
        };
        let (to, from) = (hosts(|claim| claim.sends), hosts(|claim| claim.receives));
        let ring = to.len() == 1 && from.len() == 1 && (to != from || ranks == 2);
        if ring { PagePattern::Ring } else { PagePattern::Unknown }
    }

    /// The page that says the same. `local`: is this an address of the own host?
    pub fn view(&self, role: PageRole, ranks: u32, local: impl Fn(IpAddr) -> bool) -> PageView {
        let peer = |claim: &Claim| Peer {
            rank: None,
            // Which way tensors go, whoever connected.
            kind: match (claim.sends, claim.receives) {
                (true, false) => PeerKind::Connected,
                (false, true) => PeerKind::Accepted,
                _ => PeerKind::Unknown,
            },
            local: std::net::SocketAddr::new(claim.tuple.local_ip(), claim.tuple.local.1),
            remote: claim.tuple.remote_address(),
            cookie: 0,
            tx_bytes: 0,
        };
        PageView {
            pattern: self.pattern(role, ranks, local),
            role,
            nranks: ranks,
            peers: self.0.values().map(peer).collect(),
            ..PageView::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn claims(list: &[(usize, bool, bool)]) -> Claims {
        let mut claims = Claims::default();
        for (i, (to, sends, receives)) in list.iter().enumerate() {
            let tuple = Tuple::of(at(0, 4000 + i as u16), at(*to, 5000));
            claims.take(Claim { tuple, sends: *sends, receives: *receives });
        }
        claims
    }

    fn pattern(list: &[(usize, bool, bool)], ranks: u32) -> PagePattern {
        claims(list).pattern(PageRole::Peer, ranks, |ip| ip == at(0, 1).ip())
    }

    #[test]
    fn one_way_round_is_a_ring() {
        let ring = [(1, true, false), (2, false, true)];
        assert_eq!(pattern(&ring, 3), PagePattern::Ring);
        assert_eq!(
            pattern(&[(1, true, false), (1, true, false), (2, false, true), (0, true, true)], 0),
            PagePattern::Ring
        );
        assert_eq!(pattern(&[(1, true, true)], 2), PagePattern::Ring, "two ranks");
        assert_eq!(pattern(&[(1, true, true)], 3), PagePattern::Unknown, "a tree, or half of something");
        assert_eq!(pattern(&[(1, true, true), (2, true, true)], 3), PagePattern::Unknown);
        assert_eq!(pattern(&[(1, true, false)], 3), PagePattern::Unknown, "the model is spread");
        assert_eq!(claims(&ring).pattern(PageRole::Worker, 0, |_| false), PagePattern::ParameterServer);
    }

    #[test]
    fn claims_are_bounded_and_the_newest_word_counts() {
        let mut many = Claims::default();
        for i in 0..MAX_CLAIMS as u16 + 100 {
            let tuple = Tuple::of(at(0, i), at(1, 5000));
            many.take(Claim { tuple, sends: false, receives: true });
            many.take(Claim { tuple, sends: true, receives: false });
        }
        assert_eq!(many.iter().filter(|claim| claim.sends).count(), MAX_CLAIMS);
        assert!(many.drop(&Tuple::of(at(0, 0), at(1, 5000))) && !many.drop(&Tuple::of(at(0, 0), at(1, 5000))));
        assert_eq!(many.iter().count(), MAX_CLAIMS - 1);
    }
}
