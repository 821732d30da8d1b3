//! Looking without touching: the sockets of this network namespace and their byte counts, asked of the kernel by
//! `sock_diag`. It stands in for the data path where nothing is enforced, so that `observe` still finds jobs and rounds.
//!
//! One dump per call of [`Datapath::events`] and at most one in 20 ms; nothing needs a privilege.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use sluice_ebpf::{Datapath, FlowStats, Row, SocketEvent, SocketEventKind, Tier};
use sluice_schedule::{Nanos, Rate};

use crate::clock::monotonic;
use crate::sock_diag::{self, DiagSocket};

/// The least time between two dumps.
const EVERY: Nanos = Nanos::from_millis(20);
/// Sockets kept at most.
const MAX_ROWS: usize = 4096;

/// The sockets of this namespace, looked at from outside.
pub struct Watch {
    netlink: Option<OwnedFd>,
    dumped: RefCell<Nanos>,
    rows: RefCell<HashMap<u32, (Row, DiagSocket)>>,
    by_cookie: HashMap<u64, u32>,
    next: u32,
}

impl Watch {
    /// Opens the netlink socket; without one nothing is seen.
    pub fn open() -> Watch {
        let warn = |error: &nix::Error| tracing::warn!(event = "sock-diag", %error, "sockets are not seen");
        let netlink = sock_diag::open().inspect_err(warn).ok();
        Watch { netlink, dumped: RefCell::default(), rows: RefCell::default(), by_cookie: HashMap::new(), next: 0 }
    }
}

impl Datapath for Watch {
    fn tier(&self) -> Tier {
        Tier::None
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn events(&mut self, out: &mut Vec<SocketEvent>) {
        let now = monotonic();
        if now.minus(*self.dumped.borrow()) < EVERY {
            return;
        }
        *self.dumped.borrow_mut() = now;
        let mut rows = self.rows.borrow_mut();
        let mut gone = rows.keys().copied().collect::<std::collections::HashSet<u32>>();
        for seen in self.netlink.as_ref().map(sock_diag::dump).unwrap_or_default() {
            if let Some(index) = self.by_cookie.get(&seen.cookie) {
                gone.remove(index);
                if let Some((_, known)) = rows.get_mut(index) {
                    let quiet = known.stats.acked == seen.stats.acked && known.stats.queued == seen.stats.queued;
                    let updated = if quiet { known.stats.updated } else { now };
                    *known = DiagSocket { stats: FlowStats { updated, ..seen.stats }, ..seen };
                }
            } else if rows.len() < MAX_ROWS {
                self.next = self.next.wrapping_add(1);
                let row = Row { index: self.next, generation: 1 };
                out.push(event(SocketEventKind::Opened, row, &seen));
                self.by_cookie.insert(seen.cookie, row.index);
                rows.insert(row.index, (row, DiagSocket { stats: FlowStats { updated: now, ..seen.stats }, ..seen }));
            }
        }
        for index in gone {
            if let Some((row, seen)) = rows.remove(&index) {
                self.by_cookie.remove(&seen.cookie);
                out.push(event(SocketEventKind::Closed, row, &seen));
            }
        }
    }
    fn stats(&self, row: Row) -> Option<FlowStats> {
        self.rows.borrow().get(&row.index).map(|(_, seen)| seen.stats)
    }
    fn order(&mut self, _row: Row, _rate: Rate, _expires: Nanos) {}
    fn release(&mut self, _row: Row) {}
}

fn event(kind: SocketEventKind, row: Row, seen: &DiagSocket) -> SocketEvent {
    SocketEvent { kind, row, cookie: seen.cookie, local: seen.local, remote: seen.remote, uid: seen.uid }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use sluice_schedule::Bytes;

    use super::*;

    #[test]
    fn a_connection_is_seen_with_its_bytes_and_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        client.write_all(&[7; 5000]).expect("written");
        let mut buffer = [0; 5000];
        server.read_exact(&mut buffer).expect("read");
        let port = client.local_addr().expect("bound").port();
        let mut watch = Watch::open();
        let mut events = Vec::new();
        watch.events(&mut events);
        let Some(event) = events.iter().find(|event| event.local.port() == port).copied() else {
            return sluice_skip::skip!(Kernel, "sock_diag shows no sockets here");
        };
        assert_eq!(
            (event.kind, event.remote.port()),
            (SocketEventKind::Opened, listener.local_addr().expect("bound").port())
        );
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
