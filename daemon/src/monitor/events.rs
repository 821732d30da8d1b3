//! What the data path tells of sockets, and how soon that wants a look.

use std::net::{Ipv6Addr, SocketAddrV6};

use sluice_ebpf::{Datapath, SocketEvent, SocketEventKind};
use sluice_schedule::{Event, Now};

use super::Monitor;
use super::sockets::Noted;

/// How soon there has to be a look at what has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// The next one will do.
    #[default]
    None,
    /// With what else happens within a few milliseconds: the flows of a round end one by one.
    Some,
    /// At once: a round begins, or a connection came or went.
    Much,
}

impl Monitor {
    /// Reads what the kernel measured; rows that have another owner by now are their sockets' no more.
    pub(super) fn read_measurements(&mut self, now: Now, datapath: &dyn Datapath, out: &mut Vec<Event>) {
        let nowhere = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
        for row in self.sockets.measure(datapath) {
            let kind = SocketEventKind::Expired;
            let gone = SocketEvent { kind, row, cookie: 0, local: nowhere, remote: nowhere, uid: 0, netns: 0 };
            self.socket_event(now, &gone, out);
        }
    }

    /// Takes an event of the data path in; says how soon it wants a look.
    pub fn socket_event(&mut self, now: Now, event: &SocketEvent, out: &mut Vec<Event>) -> Haste {
        match self.sockets.event(now.mono, self.fabric.host, event) {
            Noted::Appeared(_) => {
                self.crowd.socket_came();
                self.matching.stirred = true;
            }
            Noted::Woke(process) => match process.and_then(|key| self.processes.get_mut(&key)) {
                Some(process) => {
                    process.woke = true;
                    // Flows of a round that is known have their orders, however often they run dry.
                    if process.rounds.active {
                        return Haste::None;
                    }
                }
                None => self.eager = true,
            },
            Noted::Finished => return Haste::Some,
            Noted::Vanished { told, process, tuple } => {
                out.extend(told.map(Event::FlowClosed));
                if let Some(key) = process {
                    self.lost(key, &tuple, out);
                }
                self.matching.stirred = true;
            }
            Noted::Guarded(told) => {
                out.extend(told.map(Event::FlowClosed));
                self.matching.stirred = true;
            }
            Noted::Released => self.matching.stirred = true,
            Noted::Nothing => return Haste::None,
        }
        Haste::Much
    }
}
