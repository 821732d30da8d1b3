//! Orders to the kernel, and the sockets that it has to capture for them: one is left to its own congestion control until
//! its first order, and captured with it.

use std::collections::BTreeMap;

use sluice_ebpf::{NotTaken, Row, Taking, Tier, Wanted};
use sluice_schedule::event::Allowance;
use sluice_schedule::{FlowId, Nanos, Now, Rate};

use super::Core;
use crate::monitor::namespaces;
use crate::monitor::sockets::Socket;
use crate::monitor::tuple::NetNs;

/// The lives of orders differ by up to this part of an order's life, so that the flows of a daemon that is killed do not go
/// back in one instant.
const SPREAD_PART: u64 = 6;
/// In so many steps.
const SPREAD_STEPS: u32 = 16;

impl Core {
    /// The socket of a flow, if it may be ordered.
    pub(super) fn ordered_socket(&self, flow: FlowId) -> Option<&Socket> {
        self.monitor.sockets.of_flow(flow).filter(|socket| self.may_order(socket))
    }

    /// May the flow of this socket be ordered?
    pub(super) fn may_order(&self, socket: &Socket) -> bool {
        let spared = socket.told.as_ref().is_some_and(|spec| self.is_spared(spec.job));
        !spared && !self.released.contains(&socket.flow)
    }

    /// The row of a flow, if it may be ordered.
    pub(super) fn row(&self, flow: FlowId) -> Option<Row> {
        self.ordered_socket(flow)?.row
    }

    /// Says a rate to the kernel: to the socket's row, or with the wish to capture it.
    pub(super) fn order(&mut self, now: Now, flow: FlowId, rate: Rate, surplus: Option<Allowance>) {
        let life = self.config.order_life();
        let Some(socket) = self.ordered_socket(flow) else { return };
        match socket.row {
            Some(row) => {
                let expires = now.mono.plus(life).plus(spread(life, row.index));
                // The receiver must be able to tell what is beyond a promise from a stranger's traffic; a job that counts what
                // it receives lets it.
                let surplus = surplus.filter(|allowance| !allowance.yields || self.monitor.counts(socket));
                self.datapath.order_with(row, rate, surplus, expires);
                self.renewed = Some(now.mono);
            }
            None if socket.is_wanted(now.mono) => {
                let wanted = wanted(socket, rate, now.mono.plus(life));
                self.wanted.push(wanted);
            }
            None => {}
        }
    }

    /// Captures what was ordered and has no row. Where nothing is enforced the sockets of all flows are watched instead.
    pub(super) fn capture(&mut self, now: Now) {
        if self.datapath.tier() == Tier::None {
            let plain = self.monitor.sockets.iter().filter(|socket| socket.is_wanted(now.mono));
            self.wanted.extend(plain.map(|socket| wanted(socket, Rate::ZERO, now.mono)));
        }
        if self.wanted.is_empty() {
            return;
        }
        let mut by_namespace: BTreeMap<NetNs, Vec<Wanted>> = BTreeMap::new();
        for wanted in self.wanted.drain(..) {
            let netns = self.monitor.sockets.netns_of(wanted.cookie).unwrap_or_default();
            by_namespace.entry(netns).or_default().push(wanted);
        }
        let own = namespaces::of(std::process::id());
        let mut taken = Vec::new();
        for (netns, wanted) in by_namespace {
            let pid = wanted.first().map_or(0, |wanted| wanted.pid);
            if self.datapath.enters()
                || self.datapath.tier() == Tier::None
                || own == Some(netns)
                || netns == NetNs::default()
            {
                taken.extend(self.datapath.capture(&wanted));
                continue;
            }
            // The thread that looks there has said so if it may not be entered.
            let refused = Err(NotTaken::Refused(libc::EPERM));
            let refuse = |wanted: &Wanted| Taking { cookie: wanted.cookie, result: refused };
            let result = namespaces::within(pid, || self.datapath.capture(&wanted));
            taken.extend(result.unwrap_or_else(|_| wanted.iter().map(refuse).collect()));
        }
        let full = taken.iter().filter(|taking| taking.result == Err(NotTaken::TableFull)).count();
        self.counters.flow_table_full += full as u64;
        let captured = taken.iter().filter(|taking| taking.result.is_ok()).count();
        if captured > 0 && self.enforces() {
            tracing::info!(event = "sockets-captured", count = captured, "sockets of jobs were captured");
        }
        for taking in taken.iter().filter(|taking| taking.result.is_err()) {
            tracing::debug!(event = "not-captured", cookie = taking.cookie, result = ?taking.result, "a socket stays plain");
        }
        let mut events = Vec::new();
        self.monitor.taken(now.mono, &taken, &mut events);
        for event in events {
            self.tell(now, event);
        }
    }
}

fn wanted(socket: &Socket, rate: Rate, expires: Nanos) -> Wanted {
    let end = |(ip, port): ([u8; 16], u16)| std::net::SocketAddrV6::new(ip.into(), port, 0, 0);
    let (local, remote) = (end(socket.tuple.local), end(socket.tuple.remote));
    Wanted { cookie: socket.cookie, local, remote, pid: socket.pid, rate, expires }
}

/// How much longer than others an order of this row lives.
fn spread(life: Nanos, index: u32) -> Nanos {
    Nanos(life.0 / SPREAD_PART * u64::from(index % SPREAD_STEPS) / u64::from(SPREAD_STEPS))
}
