//! What the data path tells of sockets, and how soon that wants a look.

use sluice_ebpf::SocketEvent;
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
    /// Takes an event of the data path in; says how soon it wants a look.
    pub fn socket_event(&mut self, now: Now, event: &SocketEvent, out: &mut Vec<Event>) -> Haste {
        match self.sockets.event(now.mono, self.fabric.host, event) {
            Noted::Appeared(_) => {
                self.crowd.socket_came();
                self.rematch = true;
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
                self.rematch = true;
            }
            Noted::Guarded(told) => {
                out.extend(told.map(Event::FlowClosed));
                self.rematch = true;
            }
            Noted::Released => self.rematch = true,
            Noted::Nothing => return Haste::None,
        }
        Haste::Much
    }
}
