//! Who speaks in whose name, and who has asked for too much.
//!
//! A host that proves who it is speaks for itself, from wherever it comes. Of others nobody can tell; but an address that the
//! topology gives to a host speaks for no other, and while a name is in use from one address it is nobody else's. What is
//! held against somebody is held against whoever really sent it, never against a name alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_formats::label::Label;
use sluice_schedule::offenders::Offenders;
use sluice_schedule::{HostId, Nanos};
use tonic::{Code, Status};

use crate::accept::Peer;
use crate::attach::Places;
use crate::refusal::RefusalId;

/// A name is in use for so long after it was last heard from.
const IN_USE: Nanos = Nanos::from_millis(5_000);
/// So many hosts are kept account of; an attacker may claim any name.
const MAX_KEPT: usize = 16_384;

/// Where something really came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Whoever has the key of the host's certificate.
    Proven,
    /// An address, over a connection that proves nothing.
    Address(IpAddr),
}

impl Source {
    /// Of a connection.
    pub fn of(peer: &Peer) -> Source {
        if peer.proven.is_some() { Source::Proven } else { Source::Address(peer.ip()) }
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        Source::Address(address.to_canonical())
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Proven => f.write_str("its certificate"),
            Source::Address(address) => address.fmt(f),
        }
    }
}

/// Whom a ban hits: what comes from there in this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speaker {
    /// Where it really is.
    pub source: Source,
    /// The name that it speaks in.
    pub host: HostId,
}

/// A name that is in use.
#[derive(Clone, Copy, Debug)]
struct InUse {
    by: Source,
    until: Nanos,
}

/// The account of all speakers.
#[derive(Debug)]
pub struct Speakers {
    places: Option<Arc<Places>>,
    offenders: Offenders<Speaker>,
    names: HashMap<HostId, InUse>,
    /// Times that somebody spoke in another's name.
    pub impostors: u64,
    /// Times that a speaker was shut out for a while.
    pub bans: u64,
}

/// Why somebody may not speak in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impostor {
    /// The topology gives the address to this other host.
    AddressOf(HostId),
    /// The name is in use from elsewhere.
    InUse,
}

impl Speakers {
    /// Of hosts whose addresses stand there; `None`: no address is anybody's.
    pub fn new(places: Option<Arc<Places>>) -> Speakers {
        let offenders = Offenders::new(MAX_KEPT);
        Speakers { places, offenders, names: HashMap::new(), impostors: 0, bans: 0 }
    }

    /// The addresses of hosts stand there from now on.
    pub fn place(&mut self, places: Option<Arc<Places>>) {
        self.places = places;
    }

    /// May this speaker speak in this name at `now`? If it may, the name is its own for a while.
    pub fn hear(&mut self, now: Nanos, Speaker { source, host }: Speaker) -> Result<(), Impostor> {
        let refused = match source {
            Source::Proven => None,
            Source::Address(address) => {
                let known = self.places.as_ref().and_then(|places| places.at(address));
                match known {
                    Some(other) if other != host => Some(Impostor::AddressOf(other)),
                    Some(_) => None,
                    None => {
                        let in_use = self.names.get(&host).filter(|used| used.until > now && used.by != source);
                        in_use.map(|_| Impostor::InUse)
                    }
                }
            }
        };
        if let Some(impostor) = refused {
            self.impostors += 1;
            return Err(impostor);
        }
        if self.names.len() < MAX_KEPT || self.names.contains_key(&host) {
            self.names.insert(host, InUse { by: source, until: now.plus(IN_USE) });
        }
        Ok(())
    }

    /// The refusal of an impostor, for people.
    pub fn denied(&self, name: &str, source: Source, why: Impostor) -> Status {
        let name = Label::new(name);
        let text = match why {
            Impostor::AddressOf(other) => {
                let other = self.places.as_ref().and_then(|places| places.name(other)).unwrap_or("another");
                format!(
                    "identity-not-host: {source} is an address of host {other} in the topology and speaks as {name}; each host speaks for itself. Set node.name, or mend the topology"
                )
            }
            Impostor::InUse => format!(
                "identity-not-host: {name} is in use from another address than {source}; two hosts have one node.name, or one of them lies. [tls] tells which"
            ),
        };
        RefusalId::IdentityNotHost.status(Code::PermissionDenied, text)
    }

    /// Is it shut out at `now`?
    pub fn is_banned(&self, now: Nanos, speaker: Speaker) -> bool {
        self.offenders.is_shut_out(now, &speaker)
    }

    /// It asked for more than it may. True: it is shut out from now on.
    pub fn offended(&mut self, now: Nanos, speaker: Speaker) -> bool {
        let shut_out = self.offenders.offended(now, speaker);
        self.bans += u64::from(shut_out);
        shut_out
    }

    /// What it asked for was in order.
    pub fn behaved(&mut self, now: Nanos, speaker: Speaker) {
        self.offenders.behaved(now, &speaker);
    }

    /// Forgets what is over; call it at every slot edge.
    pub fn tick(&mut self, now: Nanos) {
        self.offenders.forget_old(now);
        self.names.retain(|_, used| used.until > now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sluice_formats::topology::Topology;
    use sluice_schedule::offenders::PENALTY;

    use super::*;

    fn at(last: u8) -> Source {
        Source::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    fn speaker(source: Source, host: &str) -> Speaker {
        Speaker { source, host: HostId::of(host) }
    }

    fn places() -> Option<Arc<Places>> {
        let text = r#"{ "sluice_topology": 1, "name": "t", "nodes": [
            {"id": "h0", "kind": "host", "addresses": ["10.0.0.1"]}, {"id": "h1", "kind": "host", "addresses": ["10.0.0.2"]},
            {"id": "s0", "kind": "switch"}],
            "links": [ {"from": "h0", "to": "s0", "capacity": "10Gbit/s", "duplex": true},
            {"from": "h1", "to": "s0", "capacity": "10Gbit/s", "duplex": true} ] }"#;
        Some(Arc::new(Places::of(&Topology::read(text.as_bytes(), "t.json").expect("valid"))))
    }

    #[test]
    fn an_address_of_the_topology_speaks_for_its_own_host_only() {
        let mut speakers = Speakers::new(places());
        let now = Nanos::from_millis(1);
        assert_eq!(speakers.hear(now, speaker(at(1), "h0")), Ok(()));
        let impostor = Impostor::AddressOf(HostId::of("h1"));
        assert_eq!(speakers.hear(now, speaker(at(2), "h0")), Err(impostor));
        let text = speakers.denied("h0", at(2), impostor).message().to_owned();
        assert!(text.starts_with("identity-not-host: ") && text.contains("host h1") && text.contains("h0"), "{text}");
        // From where the topology knows nobody, and from a certificate, the name decides.
        assert_eq!(speakers.hear(now, speaker(at(9), "h1")), Ok(()));
        assert_eq!(speakers.hear(now, speaker(Source::Proven, "h0")), Ok(()));
        assert_eq!(speakers.impostors, 1);
    }

    #[test]
    fn a_name_in_use_is_nobody_elses_until_it_is_silent() {
        let mut speakers = Speakers::new(None);
        let ms = Nanos::from_millis;
        assert_eq!(speakers.hear(ms(0), speaker(at(1), "h0")), Ok(()));
        assert_eq!(speakers.hear(ms(1_000), speaker(at(2), "h0")), Err(Impostor::InUse));
        assert_eq!(speakers.hear(ms(4_000), speaker(at(1), "h0")), Ok(()), "and its own stays its own");
        assert_eq!(speakers.hear(ms(8_999), speaker(at(2), "h0")), Err(Impostor::InUse));
        assert_eq!(speakers.hear(ms(9_001), speaker(at(2), "h0")), Ok(()));
        speakers.tick(ms(20_000));
        assert!(speakers.names.is_empty());
    }

    #[test]
    fn a_ban_hits_who_sent_it_and_not_the_name() {
        let mut speakers = Speakers::new(None);
        let (rogue, own, now) = (speaker(at(9), "h0"), speaker(at(1), "h0"), Nanos::from_millis(5));
        let shut_out: Vec<bool> = (0..10).map(|_| speakers.offended(now, rogue)).collect();
        assert_eq!(shut_out.iter().position(|out| *out), Some(9));
        assert!(speakers.is_banned(now, rogue) && !speakers.is_banned(now, own));
        assert!(!speakers.is_banned(now.plus(PENALTY), rogue));
        for _ in 0..9 {
            assert!(!speakers.offended(now, own));
        }
        speakers.behaved(now, own);
        assert!(!speakers.offended(now, own), "in a row");
    }

    #[test]
    fn names_that_are_made_up_keep_bans_from_others_until_the_next_slot_only() {
        let (mut speakers, now) = (Speakers::new(None), Nanos::from_millis(5));
        for host in (0..).take(MAX_KEPT).map(HostId) {
            speakers.offended(now, Speaker { source: at(9), host });
        }
        let rogue = speaker(at(9), "h0");
        assert!((0..10).all(|_| !speakers.offended(now, rogue)), "there is no room for it");
        speakers.tick(now);
        assert_eq!((0..10).filter(|_| speakers.offended(now, rogue)).count(), 1);
    }
}
