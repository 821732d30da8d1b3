//! The UDP format answered from the same tables: what a P4 switch does to a packet in passing, done here to a packet
//! sent here.
//!
//! A packet says one flow's rates. It is taken along the flow's path through the switches of this process
//! ([`crate::path`]), counted at every hop at most once per slot, and goes back to its sender as an echo. A host that has
//! a gRPC session speaks for its flows there; its packets only read.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use nix::sys::socket::{setsockopt, sockopt};
use sluice_schedule::units::mixed;
use sluice_schedule::{Announcement, BootId, FlowId, FlowPromise, HostId, JobId, LinkId, Nanos, Rate, Refusal, Slot};
use sluice_wire::accept::allowed;
use sluice_wire::speakers::Speaker;
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, LANES, LENGTH, Packet};
use tokio::net::UdpSocket;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::path::{Hop, Paths};
use crate::tables::{State, Tables, Transport};

/// Packets of one address in a second.
const PACKETS: u32 = 20_000;
/// How many slots a packet may be behind the last of its flow to count as late.
const LATE: u32 = 3;

pub struct Socket(UdpSocket);

impl Socket {
    /// Binds, with a receive buffer of this many bytes where the kernel allows it.
    pub fn bind(address: SocketAddr, rcvbuf: usize) -> std::io::Result<Socket> {
        let socket = std::net::UdpSocket::bind(address)?;
        // More than the kernel's ceiling takes CAP_NET_ADMIN.
        if setsockopt(&socket, sockopt::RcvBufForce, &rcvbuf).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &rcvbuf)?;
        }
        socket.set_nonblocking(true)?;
        Ok(Socket(UdpSocket::from_std(socket)?))
    }

    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

pub async fn serve(Socket(socket): Socket, config: Arc<Config>, tables: Arc<Tables>, metrics: Arc<Metrics>) {
    let mut pipeline = Pipeline::new(&config, tables.boot());
    // One byte more than a packet has, so that a longer one is seen to be longer.
    let mut bytes = [0; LENGTH + 1];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut bytes).await else {
            // An ICMP error of an earlier answer; nothing is wrong with the socket.
            tokio::task::yield_now().await;
            continue;
        };
        let began = std::time::Instant::now();
        match pipeline.answer(&tables, from.ip(), &bytes[..length]) {
            Ok(answer) => {
                let _ = socket.send_to(&answer, from).await;
                metrics.exchanged(began.elapsed());
            }
            Err(unanswered) => metrics.unanswered(unanswered),
        }
    }
}

/// Why a datagram has no answer: whoever sent it is told nothing, and it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It comes from outside `peers`.
    Network,
    /// It is no packet, or one that nobody asks with.
    Malformed,
    /// Too many came from there in this second.
    Flood,
    /// It speaks in the name of another.
    Impostor,
}

impl Unanswered {
    pub const ALL: [Unanswered; 4] =
        [Unanswered::Network, Unanswered::Malformed, Unanswered::Flood, Unanswered::Impostor];

    /// As in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Unanswered::Network => "network",
            Unanswered::Malformed => "malformed",
            Unanswered::Flood => "flood",
            Unanswered::Impostor => "identity-not-host",
        }
    }
}

/// What the UDP side remembers beside the tables.
pub struct Pipeline {
    paths: Paths,
    peers: Vec<IpNet>,
    boot: BootId,
    most_hosts: usize,
    hosts: HashMap<(usize, HostId), Host>,
    /// The slot in which hosts that are silent were looked for last.
    swept: Option<Slot>,
    meters: Meters,
}

/// Packets of each source in the present second. Senders are as many as somebody cares to make up, so those beyond the
/// first so many share one meter, and nothing is done per packet that grows with their number.
#[derive(Debug, Default)]
struct Meters {
    began: Nanos,
    most: usize,
    sources: HashMap<IpAddr, u32>,
    others: u32,
}

impl Meters {
    /// May this source have one more packet answered?
    fn take(&mut self, now: Nanos, from: IpAddr) -> bool {
        if now.minus(self.began) > Nanos::from_millis(1_000) {
            self.began = now;
            self.others = 0;
            self.sources.clear();
        }
        let seen = if self.sources.len() < self.most || self.sources.contains_key(&from) {
            self.sources.entry(from).or_default()
        } else {
            &mut self.others
        };
        *seen = seen.saturating_add(1);
        *seen <= PACKETS
    }
}

#[derive(Default)]
struct Host {
    seq: u64,
    flows: BTreeMap<FlowId, Flow>,
}

/// A flow's last announcement at one switch.
struct Flow {
    slot: Slot,
    link: LinkId,
    rates: [Rate; LANES],
}

impl Pipeline {
    pub fn new(config: &Config, boot: BootId) -> Pipeline {
        Pipeline {
            paths: Paths::new(&config.switches),
            peers: config.peers.clone(),
            boot,
            most_hosts: config.max_hosts,
            hosts: HashMap::new(),
            swept: None,
            meters: Meters { most: config.max_hosts.max(64), ..Meters::default() },
        }
    }

    /// The answer to one packet, or why there is none.
    pub fn answer(&mut self, tables: &Tables, from: IpAddr, bytes: &[u8]) -> Result<[u8; LENGTH], Unanswered> {
        let slot = tables.now(&mut tables.lock()).slot;
        self.answer_at(tables, slot, from, bytes)
    }

    fn answer_at(
        &mut self,
        tables: &Tables,
        slot: Slot,
        from: IpAddr,
        bytes: &[u8],
    ) -> Result<[u8; LENGTH], Unanswered> {
        if !allowed(&self.peers, from) {
            return Err(Unanswered::Network);
        }
        let question = Packet::decode(bytes).ok().filter(|packet| packet.kind != Kind::Echo);
        let mut packet = question.ok_or(Unanswered::Malformed)?;
        if !self.meters.take(sluice_clock::monotonic(), from) {
            return Err(Unanswered::Flood);
        }
        let mut guard = tables.lock();
        // Whoever speaks in another's name is not answered; that costs a look at two maps.
        let speaker = Speaker { source: from.into(), host: packet.flow.sender() };
        if packet.kind == Kind::Announce && guard.speakers.hear(sluice_clock::monotonic(), speaker).is_err() {
            return Err(Unanswered::Impostor);
        }
        for hop in self.paths.of(&packet.tuple) {
            self.pass(tables, &mut guard, slot, (hop, from), &mut packet);
        }
        drop(guard);
        packet.kind = Kind::Echo;
        Ok(packet.encode())
    }

    /// What one switch does to the packet.
    fn pass(
        &mut self,
        tables: &Tables,
        state: &mut State,
        slot: Slot,
        (hop, from): (Hop, IpAddr),
        packet: &mut Packet,
    ) {
        packet.hops = packet.hops.saturating_add(1);
        packet.path_sig ^= signature(self.boot, hop.link);
        if packet.slot.since(slot).unsigned_abs() > 1 {
            packet.flags |= GUARD;
            return;
        }
        let host = packet.flow.sender();
        if packet.kind == Kind::Announce && !state.sessions.has(host) {
            self.count(tables, state, slot, (hop, from), packet);
        }
        let Some(held) = state.switches.get_mut(hop.switch) else { return };
        held.brain.expire(slot);
        let Some(link) = held.brain.link(hop.link) else { return };
        let usable = link.capacity.minus(link.cross);
        // The table's view begins at the switch's slot, the packet's lanes at its own; they differ by one at most.
        let shift = slot.since(packet.slot);
        for (ahead, load) in link.load.iter().enumerate() {
            let ahead = ahead as i32 + shift;
            if (0..LANES as i32).contains(&ahead) {
                packet.add_hop(packet.lane_of(ahead as usize), *load, usable.minus(*load));
            }
        }
    }

    fn count(
        &mut self,
        tables: &Tables,
        state: &mut State,
        slot: Slot,
        (hop, from): (Hop, IpAddr),
        packet: &mut Packet,
    ) {
        let (flow, host) = (packet.flow, packet.flow.sender());
        if self.hosts.len() >= self.most_hosts && !self.hosts.contains_key(&(hop.switch, host)) {
            if self.swept.replace(slot) != Some(slot) {
                self.hosts.retain(|_, host| host.flows.values().any(|flow| slot.since(flow.slot) <= 2));
            }
            if self.hosts.len() >= self.most_hosts {
                return;
            }
        }
        let known = self.hosts.entry((hop.switch, host)).or_default();
        known.flows.retain(|_, flow| packet.slot.since(flow.slot) <= 2);
        let before = known.flows.get(&flow).filter(|before| before.link == hop.link);
        let ahead = before.map(|before| before.slot.0.wrapping_sub(packet.slot.0));
        if ahead.is_some_and(|ahead| ahead <= LATE) {
            packet.flags |= DUPLICATE;
            packet.counted = packet.counted.saturating_add(1);
            return;
        }
        let mut rates = [Rate::ZERO; LANES];
        for (ahead, rate) in rates.iter_mut().enumerate() {
            *rate = packet.rate(packet.lanes[packet.lane_of(ahead)].new);
        }
        let replaced = known.flows.insert(flow, Flow { slot: packet.slot, link: hop.link, rates });
        known.seq += 1;
        let announcement = Announcement {
            host,
            boot: self.boot,
            seq: known.seq,
            slot: packet.slot,
            flows: known.flows.iter().filter_map(|(flow, known)| promise(*flow, known, packet.slot)).collect(),
            ..Announcement::default()
        };
        let taken = state.announce(tables, slot, hop.holder, &announcement, (from.into(), Transport::Udp));
        match taken.refused {
            None => {
                packet.counted = packet.counted.saturating_add(1);
                if ahead == Some(u32::MAX) {
                    packet.had_previous = packet.had_previous.saturating_add(1);
                }
            }
            Some(refusal) => {
                // A packet that was not counted must not be taken for one when it comes again.
                match replaced {
                    Some(flow_before) => known.flows.insert(flow, flow_before),
                    None => known.flows.remove(&flow),
                };
                if refusal == Refusal::SlotGuard {
                    packet.flags |= GUARD;
                }
            }
        }
    }
}

/// What a flow still promises from `slot` on; nothing if its last announcement is older than the lease.
fn promise(flow: FlowId, known: &Flow, slot: Slot) -> Option<FlowPromise> {
    let age = usize::try_from(slot.since(known.slot)).ok().filter(|age| *age < 2)?;
    let mut rates = known.rates[age..].to_vec();
    // Nothing was said of the slots beyond.
    rates.resize(LANES, Rate::ZERO);
    Some(FlowPromise {
        flow,
        job: JobId(0),
        // A packet carries no rank: behind all that have one.
        key: Nanos::MAX,
        takes: rates[0],
        rates,
        links: vec![known.link],
        ..FlowPromise::default()
    })
}

/// A number for (switch boot, egress port) that nobody chooses.
fn signature(boot: BootId, link: LinkId) -> u32 {
    mixed(boot.0 ^ link.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u32
}

#[cfg(test)]
mod tests;
