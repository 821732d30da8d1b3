//! A data path made of plain memory, a host of a small star, and numbers that look random, for tests.

#![allow(clippy::expect_used, reason = "nothing that is shipped has it")]
#![cfg_attr(not(test), allow(dead_code, reason = "a benchmark needs a part of it"))]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use sluice_ebpf::{Datapath, FlowStats, NotTaken, Row, SocketEvent, SocketEventKind, Taking, Tier, Wanted};
use sluice_schedule::event::Allowance;
use sluice_schedule::{Bytes, Nanos, Now, Rate, Slot};

use crate::config::value::HostPort;
use crate::config::{Config, SwitchEntry};
use crate::fabric::Fabric;
use crate::interfaces::Interface;
use crate::monitor::sockets::Known;
use crate::monitor::tuple::{NetNs, Place, Tuple};
use crate::topology::Topology;

/// The same numbers for the same seed (xorshift64).
pub fn random(mut x: u64) -> impl FnMut() -> u64 {
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}

/// As [`random`], each below the number that is asked for.
pub fn random_below(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut next = random(seed);
    move |n| next() % n.max(1)
}

/// What a fake kernel holds.
#[derive(Debug, Default)]
pub struct Rows {
    /// Events not yet fetched.
    pub events: Vec<SocketEvent>,
    pub stats: BTreeMap<Row, FlowStats>,
    /// Orders by row: rate and expiry.
    pub orders: BTreeMap<Row, (Rate, Nanos)>,
    /// What the orders allow in all; `None`: the rate and no more.
    pub surplus: BTreeMap<Row, Option<Allowance>>,
    pub marks: BTreeMap<Row, Bytes>,
    pub counters: sluice_ebpf::Counters,
    /// Rows asked to be given back.
    pub released: Vec<Row>,
    /// Connections that may be captured, by cookie, and the answer to those that may not.
    pub plain: BTreeMap<u64, Result<(), NotTaken>>,
    /// What was asked for.
    pub wanted: Vec<Wanted>,
    /// As the kernel does, a socket that is given back loses its row at once, and gets another when it is captured again.
    pub lets_go: bool,
    connections: BTreeMap<Row, (SocketAddr, SocketAddr)>,
    parked: BTreeMap<u64, FlowStats>,
    next: u32,
}

impl Rows {
    fn open(&mut self, local: SocketAddr, remote: SocketAddr, stats: FlowStats) -> Row {
        self.next += 1;
        let row = Row { index: self.next, generation: 1 };
        self.stats.insert(row, stats);
        self.connections.insert(row, (local, remote));
        self.events.push(event(SocketEventKind::Opened, row, local, remote));
        row
    }
}

/// The data path over [`Rows`]; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Fake(pub Arc<Mutex<Rows>>);

impl Fake {
    pub fn rows(&self) -> std::sync::MutexGuard<'_, Rows> {
        self.0.lock().expect("no test panics while it holds this")
    }
    pub fn open(&self, local: SocketAddr, remote: SocketAddr) -> Row {
        self.rows().open(local, remote, FlowStats::default())
    }
    pub fn close(&self, row: Row, kind: SocketEventKind) {
        self.rows().stats.remove(&row);
        self.tell(row, kind);
    }
    /// The kernel has something to say of a row.
    pub fn tell(&self, row: Row, kind: SocketEventKind) {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        self.rows().events.push(event(kind, row, unspecified, unspecified));
    }
    /// The application wrote this much.
    pub fn write(&self, row: Row, bytes: Bytes) {
        if let Some(stats) = self.rows().stats.get_mut(&row) {
            stats.queued = stats.queued.plus(bytes);
        }
    }
    /// What is queued leaves at the ordered rate for this long.
    pub fn run(&self, now: Nanos, time: Nanos) {
        let mut rows = self.rows();
        let orders = rows.orders.clone();
        for (row, stats) in &mut rows.stats {
            let rate = orders.get(row).filter(|(_, expires)| *expires > now).map_or(Rate::ZERO, |(rate, _)| *rate);
            let moved = rate.over(time).min(stats.queued);
            stats.queued = stats.queued.minus(moved);
            stats.acked = stats.acked.plus(moved);
            stats.delivery_rate = rate;
            stats.updated = now;
        }
    }
}

fn event(kind: SocketEventKind, row: Row, local: SocketAddr, remote: SocketAddr) -> SocketEvent {
    SocketEvent { kind, row, cookie: cookie(local, remote), local: v6(local), remote: v6(remote), uid: 0, netns: 0 }
}

/// The fake kernel's name for a connection.
pub fn cookie(local: SocketAddr, remote: SocketAddr) -> u64 {
    u64::from(local.port()) << 16 | u64::from(remote.port())
}

/// What the fake kernel says of a connection of this process.
pub fn known(pid: u32, local: SocketAddr, remote: SocketAddr) -> Known {
    let place = Place { netns: NetNs::default(), tuple: Tuple::of(local, remote) };
    Known { cookie: cookie(local, remote), place, uid: 0, pid }
}

fn plain(address: SocketAddrV6) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn v6(address: SocketAddr) -> SocketAddrV6 {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
        SocketAddr::V6(v6) => v6,
    }
}

impl Datapath for Fake {
    fn tier(&self) -> Tier {
        Tier::StructOps
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn events(&mut self, out: &mut Vec<SocketEvent>) {
        out.append(&mut self.rows().events);
    }
    fn stats(&self, row: Row) -> Option<FlowStats> {
        self.rows().stats.get(&row).copied()
    }
    fn order_with(&mut self, row: Row, rate: Rate, surplus: Option<Allowance>, expires: Nanos) {
        let mut rows = self.rows();
        rows.orders.insert(row, (rate, expires));
        rows.surplus.insert(row, surplus);
    }
    fn mark(&mut self, row: Row, acked: Bytes) {
        self.rows().marks.insert(row, acked);
    }
    fn release(&mut self, row: Row) {
        let mut rows = self.rows();
        rows.released.push(row);
        if rows.lets_go
            && let Some(stats) = rows.stats.remove(&row)
            && let Some((local, remote)) = rows.connections.remove(&row)
        {
            rows.orders.remove(&row);
            let cookie = cookie(local, remote);
            rows.plain.insert(cookie, Ok(()));
            rows.parked.insert(cookie, stats);
            rows.events.push(event(SocketEventKind::Released, row, local, remote));
        }
    }
    fn capture(&mut self, wanted: &[Wanted]) -> Vec<Taking> {
        let mut rows = self.rows();
        rows.wanted.extend(wanted);
        let mut taken = Vec::new();
        for wanted in wanted {
            let result = rows.plain.get(&wanted.cookie).copied().unwrap_or(Err(NotTaken::Gone));
            taken.push(Taking { cookie: wanted.cookie, result });
            if result.is_ok() {
                let stats = rows.parked.remove(&wanted.cookie).unwrap_or_default();
                let row = rows.open(plain(wanted.local), plain(wanted.remote), stats);
                rows.orders.insert(row, (wanted.rate, wanted.expires));
            }
        }
        taken
    }
    fn counters(&self) -> sluice_ebpf::Counters {
        self.rows().counters
    }
}

/// A star of four hosts `h0` to `h3` at 100 Mbit/s around the switch `s`; host i has the address 10.0.0.(i+1).
pub fn star() -> Topology {
    let host = |i: usize| format!(r#"{{"id":"h{i}","kind":"host","addresses":["10.0.0.{}"]}}"#, i + 1);
    let link = |i: usize| format!(r#"{{"from":"h{i}","to":"s","capacity":"100Mbit/s","duplex":true}}"#);
    let list = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"sluice_topology":1,"nodes":[{},{{"id":"s","kind":"switch"}}],"links":[{}]}}"#,
        list(&host),
        list(&link)
    );
    Topology::of_text(&text)
}

/// Hosts `h0` and `h1` at the leaves `l0` and `l1`, under the spines `s0` and `s1`; these four answer by the addresses
/// 10.9.0.1 to 10.9.0.4.
pub fn leaf_spine() -> Topology {
    Topology::of_text(
        r#"{ "sluice_topology": 1, "nodes": [
  {"id":"h0","kind":"host","addresses":["10.0.0.1"]}, {"id":"h1","kind":"host","addresses":["10.0.0.2"]},
  {"id":"l0","kind":"switch","port_addresses":["10.9.0.1"]}, {"id":"l1","kind":"switch","port_addresses":["10.9.0.2"]},
  {"id":"s0","kind":"switch","port_addresses":["10.9.0.3"]}, {"id":"s1","kind":"switch","port_addresses":["10.9.0.4"]} ],
 "links": [ {"from":"h0","to":"l0","capacity":"1Gbit/s","duplex":true}, {"from":"h1","to":"l1","capacity":"1Gbit/s","duplex":true},
  {"from":"l0","to":"s0","capacity":"1Gbit/s","duplex":true}, {"from":"l0","to":"s1","capacity":"1Gbit/s","duplex":true},
  {"from":"l1","to":"s0","capacity":"1Gbit/s","duplex":true}, {"from":"l1","to":"s1","capacity":"1Gbit/s","duplex":true} ] }"#,
    )
}

/// Where host `h0` stands there, whose switches keep tables.
pub fn leaf_spine_site() -> (Config, Rc<Fabric>) {
    let mut config = config(0, false);
    let switch = |name: &str| SwitchEntry {
        name: name.into(),
        address: HostPort { host: "127.0.0.1".into(), port: 1 },
        ..SwitchEntry::default()
    };
    config.switches = ["l0", "l1", "s0", "s1"].map(switch).into();
    let address = Ipv4Addr::new(10, 0, 0, 1);
    let card =
        Interface { name: "eth0".into(), card: "eth0".into(), addresses: vec![address.into()], speed: None, up: true };
    let fabric = Rc::new(Fabric::new(&config, Some(Arc::new(leaf_spine())), &[card]));
    (config, fabric)
}

/// The configuration of host `h<i>` of the star.
pub fn config(i: usize, with_switch: bool) -> Config {
    let mut config = Config::default();
    config.node.name = format!("h{i}");
    config.node.run_dir = std::env::temp_dir().join(format!("sluiced-test-{}-none", std::process::id()));
    config.mode = crate::config::Mode::Active;
    config.clock.require_sync = false;
    // Virtual time begins in a window without; tests of those ask for them.
    config.enforce.benefit = false;
    config.cross_traffic.source = crate::config::CrossSource::None;
    if with_switch {
        config.switches.push(SwitchEntry {
            name: "s".into(),
            address: HostPort { host: "127.0.0.1".into(), port: 1 },
            ..SwitchEntry::default()
        });
    }
    config
}

/// Where host `h<i>` stands.
pub fn fabric(i: usize, config: &Config) -> Rc<Fabric> {
    let address = Ipv4Addr::new(10, 0, 0, i as u8 + 1);
    let interface =
        Interface { name: "eth0".into(), card: "eth0".into(), addresses: vec![address.into()], speed: None, up: true };
    Rc::new(Fabric::new(config, Some(Arc::new(star())), &[interface]))
}

/// Host i's address with a port.
pub fn at(i: usize, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, i as u8 + 1), port))
}

/// A moment of virtual time, both clocks alike, slots of 60 ms.
pub fn now(ms: u64) -> Now {
    let time = Nanos::from_millis(ms);
    Now { mono: time, wall: time, slot: Slot((ms / 60) as u32), into_slot: Nanos::from_millis(ms % 60) }
}

/// Keeps what was announced.
#[derive(Clone, Debug, Default)]
pub struct Announced(pub Rc<RefCell<Vec<(sluice_schedule::HolderId, sluice_schedule::Announcement)>>>);

impl crate::core::Outlet for Announced {
    fn announce(
        &mut self,
        holder: sluice_schedule::HolderId,
        announcement: sluice_schedule::Announcement,
        _: crate::core::Ends<'_>,
    ) {
        self.0.borrow_mut().push((holder, announcement));
    }
}
