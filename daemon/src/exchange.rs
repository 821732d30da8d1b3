//! Talking to holders of tables: one task per connection, none of which the deciding loop ever waits for.
//!
//! | module | is |
//! | --- | --- |
//! | [`backoff`] | when to try again |
//! | [`link`] | the task of one connection: connect, hello, exchange, again; and the exchange by one stream |
//! | [`unary`] | the exchange by two calls a slot |
//! | [`datagrams`] | the exchange by datagrams, to a process or along the paths of flows: socket and clock |
//! | [`book`] | what was said by datagrams, and what their echoes say |
//! | [`service`] | the other side in `nic` mode: other hosts' connections to the table of the own ingress |
//!
//! The loop hands an announcement to a queue of one per holder, where a newer one replaces an older, and finds what came
//! back in its inbox. A task that cannot connect waits with full jitter; one that hears nothing for two seconds although
//! it spoke closes the connection and begins again; that holds for every transport. All tasks end with the runtime they run on; nothing outlives them.

pub mod backoff;
pub mod book;
mod datagrams;
pub mod link;
mod quota;
pub mod service;
mod unary;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_identity::{Credentials, Expected, Kind as Whom};
use sluice_schedule::{Announcement, BootId, HolderId, HostId, Nanos, Slot};
use sluice_wire::accept::refused::Refusals;
use sluice_wire::dial::Dial;
use sluice_wire::hello::{ClockSource as WireClock, Grid, Hello};
use tokio::sync::mpsc;

use crate::clock::Wall;
use crate::config::value::HostPort;
use crate::config::{ClockSource, Config, Transport};
use crate::core::{Ends, Inbound, Outlet};
use crate::fabric::Fabric;
use book::Ground;
use link::{Connection, Inband, Kind};

/// Messages for the deciding loop that may wait; later ones are dropped, since every holder repeats itself.
pub const INBOX: usize = 1024;

/// Who this host is, for every hello.
#[derive(Clone, Debug)]
pub struct Identity {
    pub grid: Grid,
    pub name: String,
    pub boot: BootId,
    pub wall: Wall,
    /// Where in the slot this host speaks.
    pub phase: Nanos,
    /// Datagrams of a flow in a slot at most.
    pub copies: u8,
    /// By which it proves who it is; `None`: nobody does.
    pub credentials: Option<Arc<Credentials>>,
    /// Connections of other hosts that were refused.
    pub refusals: Refusals,
}

impl Identity {
    pub fn new(config: &Config, boot: BootId, wall: Wall) -> Identity {
        let clock = match config.clock.source {
            ClockSource::Realtime => WireClock::Realtime,
            ClockSource::Tai => WireClock::Tai,
        };
        let grid = Grid {
            cluster: config.node.cluster.clone(),
            slot_length: config.slot_length(),
            horizon: u32::try_from(config.slot.horizon).unwrap_or(10),
            epoch: Nanos::ZERO,
            clock,
        };
        let (phase, copies) = (config.phase(), u8::try_from(config.switch.copies).unwrap_or(u8::MAX));
        let credentials = config.identity_files().map(Credentials::open);
        let (name, refusals) = (config.node.name.clone(), Refusals::default());
        Identity { grid, name, boot, wall, phase, copies, credentials, refusals }
    }
    /// How one of these is connected to.
    pub fn dial(&self, kind: Whom, ids: Vec<String>) -> Dial {
        match &self.credentials {
            None => Dial::Plain,
            Some(credentials) => {
                let expected = Expected { cluster: self.grid.cluster.clone(), kind, ids };
                Dial::Tls { credentials: credentials.clone(), expected }
            }
        }
    }
    pub fn hello(&self) -> Hello {
        let now = self.wall.now();
        Hello {
            grid: self.grid.clone(),
            name: self.name.clone(),
            host: HostId::of(&self.name),
            boot: self.boot,
            slot: self.slot(now),
            now,
        }
    }
    /// The slot of an instant.
    pub fn slot(&self, now: Nanos) -> Slot {
        Slot((now.0 / self.grid.slot_length.0.max(1)) as u32)
    }
    /// The present slot.
    pub fn slot_now(&self) -> Slot {
        self.slot(self.wall.now())
    }
    /// How long it is until the clock is so far into a slot the next time.
    pub fn until(&self, into_slot: Nanos) -> Duration {
        let slot = self.grid.slot_length.0.max(1);
        let into = self.wall.now().0 % slot;
        let wait = (into_slot.0 % slot + slot - into) % slot;
        Duration::from_nanos(if wait == 0 { slot } else { wait })
    }
}

/// All connections of this host, and the way to them.
pub struct Exchange {
    identity: Arc<Identity>,
    inbound: mpsc::Sender<Inbound>,
    fabric: Rc<Fabric>,
    holders: BTreeMap<HolderId, Arc<Connection>>,
}

impl Exchange {
    /// Opens a connection to every switch of the configuration; hosts are connected to when there is something to say.
    /// Must be called on the runtime that shall run the tasks.
    pub fn new(
        config: &Config,
        identity: Arc<Identity>,
        fabric: Rc<Fabric>,
        inbound: mpsc::Sender<Inbound>,
    ) -> Exchange {
        let mut exchange = Exchange { identity, inbound, fabric, holders: BTreeMap::new() };
        exchange.reconfigure(config, exchange.fabric.clone());
        exchange
    }

    /// Connections to what the configuration names now; the others are closed.
    pub fn reconfigure(&mut self, config: &Config, fabric: Rc<Fabric>) {
        self.fabric = fabric;
        // Switches of one process share its connection.
        let mut processes: BTreeMap<(&HostPort, &'static str), (Transport, Vec<&str>)> = BTreeMap::new();
        for switch in &config.switches {
            let new = || (switch.transport, Vec::new());
            let (_, names) = processes.entry((&switch.address, switch.transport.word())).or_insert_with(new);
            names.push(&switch.name);
        }
        let ground = Arc::new(self.fabric.ground());
        // What leads to this host is read by those who send to it.
        let ways_only = self.fabric.hosts_keep_all();
        let along = Ground { ingress: BTreeMap::new(), along_paths: true, ways_only, ..(*ground).clone() };
        let inband = Arc::new(Inband { ground: Arc::new(along), peers: config.peer.peers.clone() });
        let old = std::mem::take(&mut self.holders);
        for ((address, _), (transport, names)) in processes {
            let holders: Vec<HolderId> = names.iter().copied().map(HolderId::of).collect();
            // The switches of one process have one certificate, which names one of them.
            let dial = self.identity.dial(Whom::Switch, names.iter().map(|name| (*name).to_owned()).collect());
            let (uri, kind) = match transport {
                Transport::Session => (format!("http://{address}"), Kind::Switch),
                Transport::Unary => (format!("http://{address}"), Kind::Unary),
                Transport::Udp => (address.to_string(), Kind::Datagrams(ground.clone())),
                Transport::Inband => (address.to_string(), Kind::Inband(inband.clone())),
            };
            let same =
                |known: &&Arc<Connection>| known.uri() == uri && known.holders() == holders && *known.kind() == kind;
            let known = old.values().find(same).cloned();
            let connection = known.unwrap_or_else(|| self.open(&uri, kind, holders.clone(), dial));
            self.holders.extend(holders.iter().map(|holder| (*holder, connection.clone())));
        }
        if self.fabric.nic_mode() {
            let peers = old.iter().filter(|(_, connection)| *connection.kind() == Kind::Peer);
            self.holders.extend(peers.map(|(holder, connection)| (*holder, connection.clone())));
        }
        for connection in old.values() {
            if !self.holders.values().any(|kept| Arc::ptr_eq(kept, connection)) {
                connection.close();
            }
        }
    }

    fn open(&self, uri: &str, kind: Kind, holders: Vec<HolderId>, dial: Dial) -> Arc<Connection> {
        let connection = Arc::new(Connection::new(uri.to_owned(), kind, holders).by(dial));
        tokio::spawn(link::run(connection.clone(), self.identity.clone(), self.inbound.clone()));
        connection
    }

    fn peer(&mut self, holder: HolderId) -> Option<Arc<Connection>> {
        let address: SocketAddr = self.fabric.exchange_address(holder)?;
        let name = self.fabric.name_of(HostId(holder.0)).map(str::to_owned);
        let dial = self.identity.dial(Whom::Host, name.into_iter().collect());
        let connection = self.open(&format!("http://{address}"), Kind::Peer, vec![holder], dial);
        self.holders.insert(holder, connection.clone());
        Some(connection)
    }
}

impl Outlet for Exchange {
    fn announce(&mut self, holder: HolderId, announcement: Announcement, ends: Ends<'_>) {
        let connection = self.holders.get(&holder).cloned().or_else(|| self.peer(holder));
        if let Some(connection) = connection {
            connection.announce(holder, announcement, ends);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.holders.values().for_each(|connection| connection.close());
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
