//! Looking without touching: it stands in for the data path where nothing is enforced, so that `observe` still sees the
//! rounds of jobs, those of containers too. The kernel is asked for the byte counts of each watched connection
//! (`sock_diag`), at most every 20 ms; that takes some microseconds for each and needs no privilege in the own namespace.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddrV6;
use std::os::fd::BorrowedFd;

use sluice_ebpf::{Datapath, FlowStats, NotTaken, Row, SocketEvent, SocketEventKind, Taking, Tier, Wanted};
use sluice_schedule::event::Allowance;
use sluice_schedule::{Nanos, Rate};

use crate::clock::monotonic;
use crate::monitor::namespaces;
use crate::privilege::eyes::{Eyes, SharedEyes, diag_for};
use crate::sock_diag::{self, DiagSocket};

/// The least time between two looks.
const EVERY: Nanos = Nanos::from_millis(20);
/// Connections watched at most.
const MAX_ROWS: usize = 4096;

/// One watched connection.
struct Watched {
    row: Row,
    wanted: Wanted,
    last: DiagSocket,
}

/// The connections that are looked at.
pub struct Watch {
    eyes: SharedEyes,
    looked: Nanos,
    rows: RefCell<BTreeMap<u32, Watched>>,
    events: Vec<SocketEvent>,
    next: u32,
}

impl Watch {
    /// Watches nothing yet.
    pub fn open(eyes: SharedEyes) -> Watch {
        Watch { eyes, looked: Nanos::ZERO, rows: RefCell::default(), events: Vec::new(), next: 0 }
    }
}

/// Those of these connections that are still there, by cookie. Each lies in the namespace of its process.
fn look(eyes: &dyn Eyes, wanted: &[Wanted]) -> HashMap<u64, DiagSocket> {
    let mut by_process: BTreeMap<u32, Vec<(SocketAddrV6, SocketAddrV6)>> = BTreeMap::new();
    for wanted in wanted {
        by_process.entry(wanted.pid).or_default().push((wanted.local, wanted.remote));
    }
    let own = namespaces::of(std::process::id());
    let mut seen = HashMap::new();
    for (pid, ends) in by_process {
        let netns = eyes.netns(pid);
        let opened = diag_for(eyes, pid, netns);
        if netns == own {
            let _ = opened.as_ref().inspect_err(|error| sock_diag::warn(error));
        }
        let Ok(netlink) = opened else { continue };
        let found = ends.iter().filter_map(|(local, remote)| sock_diag::find(&netlink, *local, *remote));
        seen.extend(found.map(|socket| (socket.cookie, socket)));
    }
    seen
}

impl Datapath for Watch {
    fn tier(&self) -> Tier {
        Tier::None
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn events(&mut self, out: &mut Vec<SocketEvent>) {
        out.append(&mut self.events);
        let now = monotonic();
        if now.minus(self.looked) < EVERY {
            return;
        }
        self.looked = now;
        let mut rows = self.rows.borrow_mut();
        let wanted: Vec<Wanted> = rows.values().map(|watched| watched.wanted).collect();
        let seen = look(&*self.eyes, &wanted);
        rows.retain(|_, watched| match seen.get(&watched.wanted.cookie) {
            Some(seen) => {
                let known = &watched.last.stats;
                let quiet = known.acked == seen.stats.acked && known.queued == seen.stats.queued;
                let updated = if quiet { known.updated } else { now };
                watched.last = DiagSocket { stats: FlowStats { updated, ..seen.stats }, ..*seen };
                true
            }
            None => {
                out.push(event(&*self.eyes, SocketEventKind::Closed, watched));
                false
            }
        });
    }
    fn stats(&self, row: Row) -> Option<FlowStats> {
        self.rows.borrow().get(&row.index).map(|watched| watched.last.stats)
    }
    fn order_with(&mut self, _row: Row, _rate: Rate, _surplus: Option<Allowance>, _expires: Nanos) {}
    fn release(&mut self, _row: Row) {}
    fn enters(&self) -> bool {
        true
    }
    fn capture(&mut self, wanted: &[Wanted]) -> Vec<Taking> {
        let (seen, now) = (look(&*self.eyes, wanted), monotonic());
        let mut rows = self.rows.borrow_mut();
        let mut taken = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let result = match seen.get(&wanted.cookie) {
                None => Err(NotTaken::Gone),
                Some(_) if rows.len() >= MAX_ROWS => Err(NotTaken::TableFull),
                Some(seen) => {
                    self.next = self.next.wrapping_add(1);
                    let row = Row { index: self.next, generation: 1 };
                    let last = DiagSocket { stats: FlowStats { updated: now, ..seen.stats }, ..*seen };
                    let watched = Watched { row, wanted: *wanted, last };
                    self.events.push(event(&*self.eyes, SocketEventKind::Opened, &watched));
                    rows.insert(row.index, watched);
                    Ok(())
                }
            };
            taken.push(Taking { cookie: wanted.cookie, result });
        }
        taken
    }
}

fn event(eyes: &dyn Eyes, kind: SocketEventKind, watched: &Watched) -> SocketEvent {
    let Watched { row, wanted, last } = watched;
    let netns = eyes.netns(wanted.pid).unwrap_or_default().0;
    SocketEvent { kind, row: *row, cookie: last.cookie, local: last.local, remote: last.remote, uid: last.uid, netns }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use sluice_schedule::Bytes;

    use super::*;

    fn end(address: SocketAddr) -> SocketAddrV6 {
        match address {
            SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
            SocketAddr::V6(v6) => v6,
        }
    }

    #[test]
    fn a_connection_is_seen_with_its_bytes_and_its_end() {
        if let Err(error) = sock_diag::open() {
            return sluice_skip::skip!(Kernel, "no sock_diag here: {error}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        client.write_all(&[7; 5000]).expect("written");
        let mut buffer = [0; 5000];
        server.read_exact(&mut buffer).expect("read");
        let wanted = Wanted {
            cookie: sluice_ebpf::cookie(&client).expect("SO_COOKIE"),
            local: end(client.local_addr().expect("bound")),
            remote: end(client.peer_addr().expect("connected")),
            pid: std::process::id(),
            rate: Rate::ZERO,
            expires: Nanos::ZERO,
        };
        let mut watch = Watch::open(crate::privilege::eyes::own());
        let nobody = Wanted { cookie: u64::MAX, remote: end("127.0.0.1:1".parse().expect("valid")), ..wanted };
        let results: Vec<_> = watch.capture(&[wanted, nobody]).iter().map(|taking| taking.result).collect();
        assert_eq!(results, [Ok(()), Err(NotTaken::Gone)]);
        let mut events = Vec::new();
        watch.events(&mut events);
        let event = events[0];
        assert_eq!((event.kind, event.cookie), (SocketEventKind::Opened, wanted.cookie));
        // The last acknowledgement may be under way still.
        let began = std::time::Instant::now();
        let mut stats = watch.stats(event.row).expect("measured");
        while stats.queued > Bytes::ZERO && began.elapsed().as_secs() < 20 {
            events.clear();
            watch.events(&mut events);
            stats = watch.stats(event.row).expect("measured");
        }
        assert!(stats.acked.0 >= 5000 && stats.acked.0 < 6000 && stats.queued == Bytes::ZERO, "{stats:?}");
        drop((client, server));
        let began = std::time::Instant::now();
        loop {
            events.clear();
            watch.events(&mut events);
            if events.iter().any(|e| e.kind == SocketEventKind::Closed && e.row == event.row) {
                break;
            }
            assert!(began.elapsed().as_secs() < 20, "its end is not seen");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
