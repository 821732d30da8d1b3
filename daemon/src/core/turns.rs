//! What a turn of the loop costs with so many flows: a host in virtual time, a kernel of plain memory under it and a switch
//! beside it, for a benchmark and for `valgrind --tool=callgrind`, whose counts are the same each time.

use sluice_ebpf::Row;
use sluice_progress::{PageView, Pattern, Peer, PeerKind, State};
use sluice_schedule::host::Host;
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{BootId, Bytes, HolderId, LinkId, Nanos, Rate};

use super::{Core, Inbound, settings};
use crate::config::Loaded;
use crate::monitor::ProcessKey;
use crate::testing::{Announced, Fake, at, config, fabric, now};

const SLOT_MS: u64 = 60;
/// The first turn, ms of virtual time.
const BEGIN_MS: u64 = 1020;
/// A round that no benchmark sees the end of.
const ROUND: Bytes = Bytes(1 << 40);
const PID: u32 = 7;

/// A host whose one job sends by all of these flows to two others, in one long round.
pub struct Turns {
    core: Core,
    kernel: Fake,
    rows: Vec<Row>,
    switch: Switch,
    said: Announced,
    inbox: Vec<Inbound>,
    turns: u64,
}

impl Turns {
    /// With so many flows; the flight recorder writes into `dir`.
    pub fn new(flows: u16, dir: &std::path::Path) -> Turns {
        let mut config = config(0, true);
        config.flight.file = Some(dir.join("flight.ring"));
        let fabric = fabric(0, &config);
        let host = Host::new(settings::brain(&config, &fabric, BootId(1)));
        let kernel = Fake::default();
        let mut core = Core::new(Loaded { config, ..Loaded::default() }, host, fabric, Box::new(kernel.clone()));
        core.fly_as_configured();
        let ends = |number: u16| (at(0, 4000 + number), at(1 + usize::from(number % 2), 5000));
        let peer = |number: u16| {
            let (local, remote) = ends(number);
            let rank = Some(1 + u32::from(number % 2));
            Peer { rank, kind: PeerKind::Connected, local, remote, cookie: 0, tx_bytes: 0 }
        };
        let view = PageView {
            job_id: "job".into(),
            rank: Some(0),
            nranks: 3,
            pattern: Pattern::Unknown,
            peers: (0..flows).map(peer).collect(),
            state: State::Compute,
            ..PageView::default()
        };
        core.monitor.add_for_test(PID, view);
        let rows = (0..flows).map(|number| kernel.open(ends(number).0, ends(number).1)).collect();
        let link = |port| LinkConfig {
            link: LinkId::new(HolderId::of("s").0, port),
            capacity: Rate::mbps(100).payload(),
            ..LinkConfig::default()
        };
        let links: Vec<LinkConfig> = (0..4).map(link).collect();
        let switch = Switch::new(BootId(2), Limits::default(), &links);
        let mut turns = Turns { core, kernel, rows, switch, said: Announced::default(), inbox: Vec::new(), turns: 0 };
        turns.core.step(now(BEGIN_MS - SLOT_MS), &mut turns.inbox, &mut turns.said);
        turns.begin();
        turns
    }

    /// The round begins: all of it is in the send buffers.
    fn begin(&mut self) {
        let part = Bytes(ROUND.0 / self.rows.len().max(1) as u64);
        self.rows.iter().for_each(|row| self.kernel.write(*row, part));
        let process = self.core.monitor.processes.get_mut(&ProcessKey::Pid(PID));
        if let Some(view) = process.and_then(|process| process.view.as_mut()) {
            view.iteration.count = 1;
            view.enq_bytes = ROUND.0;
            view.enq_wire_bytes = ROUND.0;
            view.state = State::OnWire;
        }
    }

    /// The next slot: bytes have moved as ordered, the loop turns at the slot's edge, the switch answers.
    pub fn turn(&mut self) {
        let now = now(BEGIN_MS + SLOT_MS * self.turns);
        self.turns += 1;
        self.kernel.run(now.mono, Nanos::from_millis(SLOT_MS));
        self.core.step(now, &mut self.inbox, &mut self.said);
        let said: Vec<_> = self.said.0.borrow_mut().drain(..).collect();
        for (holder, announcement) in said {
            let feedback = self.switch.announce(now.slot, &announcement);
            self.inbox.push(Inbound::Feedback { holder, feedback, at: now.mono });
        }
    }

    /// How many flows have an order that is in force after the last turn.
    pub fn ordered(&self) -> usize {
        let last = now(BEGIN_MS + SLOT_MS * self.turns.saturating_sub(1)).mono;
        self.kernel.rows().orders.values().filter(|(rate, expires)| *rate > Rate::ZERO && *expires > last).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flows_are_ordered_and_move_turn_after_turn() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut turns = Turns::new(40, dir.path());
        let acked = |turns: &Turns| turns.kernel.rows().stats.values().map(|stats| stats.acked.0).sum::<u64>();
        let mut before = 0;
        for turn in 0..5 {
            turns.turn();
            assert_eq!(turns.ordered(), 40, "{turn}");
            let moved = acked(&turns) - std::mem::replace(&mut before, acked(&turns));
            assert!(turn == 0 || moved > 0, "{turn}");
        }
        assert_eq!(turns.core.host.planned(), 40);
    }
}
