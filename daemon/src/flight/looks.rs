//! What a slot costs the recorder's thread: the same connections again and again, for a benchmark.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use sluice_attribution::seen::{FlowSeen, JobSeen, LinkSeen, Seen};
use sluice_schedule::{Bytes, HostId, JobId, Nanos, Rate};

use super::asking::Asking;
use super::{Connection, Kept, Told, file, look};
use crate::monitor::namespaces;
use crate::monitor::tuple::Tuple;

const SLOT: Nanos = Nanos::from_millis(60);
/// Other hosts that the connections go to.
const PEERS: u32 = 8;

/// A recorder of a host whose one job sends by all of these connections in every slot.
pub struct Looks {
    asking: Asking,
    ring: file::Ring,
    connections: Vec<Connection>,
    now: Nanos,
}

impl Looks {
    /// Of this process's connections, each by its own end and the other one, into this file.
    ///
    /// # Errors
    /// When there can be no such file.
    pub fn new(path: &Path, ends: &[(SocketAddr, SocketAddr)]) -> io::Result<Looks> {
        let kept = Kept { path: path.to_owned(), time: Nanos::from_millis(600_000), max_bytes: 64 << 20 };
        let ring = file::Ring::open(&kept, "h0")?.ok_or_else(|| io::Error::other("the file is another's"))?;
        let pid = std::process::id();
        let netns = namespaces::of(pid).unwrap_or_default();
        let connection = |(number, (local, remote)): (u32, &(SocketAddr, SocketAddr))| {
            let tuple = Tuple::of(*local, *remote);
            let flow = tuple.outgoing(HostId::of("h0"));
            Connection { pid, netns, tuple, flow, job: 0, peer: number % PEERS, link: Some(1), out: Some(0) }
        };
        let connections = (0..).zip(ends).map(connection).collect();
        Ok(Looks { asking: Asking::new(SLOT, crate::privilege::eyes::own()), ring, connections, now: SLOT })
    }

    /// What the loop knows of the next slot.
    pub fn told(&mut self) -> Told {
        let from = self.now;
        self.now = from.plus(SLOT);
        let flow = |of: &Connection| FlowSeen {
            flow: of.flow,
            job: of.job,
            peer: of.peer,
            path: vec![0, 2 + of.peer],
            ordered: Rate::mbps(400),
            delivered: Bytes(2_000_000),
            remaining: Bytes(30_000_000),
            queued: Bytes(120_000),
            segment: Bytes(1_448),
            queueing: Nanos(40_000),
            rtt_min: Nanos(60_000),
            ..FlowSeen::default()
        };
        let link =
            |name: String, inwards| LinkSeen { name, capacity: Rate::mbps(25_000), inwards, ..LinkSeen::default() };
        let own = [link("h0:eth0".into(), false), link("h0:in".into(), true)];
        let seen = Seen {
            from,
            to: self.now,
            enforces: true,
            jobs: vec![JobSeen { id: JobId::of("job"), name: "job".into(), ..JobSeen::default() }],
            peers: (1..=PEERS).map(|n| format!("h{n}")).collect(),
            links: own.into_iter().chain((1..=PEERS).map(|n| link(format!("s0:{n}"), false))).collect(),
            flows: self.connections.iter().map(flow).collect(),
            ..Seen::default()
        };
        let (flows, connections) = (self.connections.clone(), self.connections.clone());
        Told { seen, flows, connections, received: vec![(1, Bytes(1_000_000))] }
    }

    /// All that the thread does with it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn look(&mut self, told: Told) -> io::Result<()> {
        look(&mut self.asking, &mut self.ring, told)
    }
}
