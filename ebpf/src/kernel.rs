//! The datapath over the kernel's memory: orders are stores, measurements are loads, news comes by the ring buffer.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use sluice_schedule::event::Allowance;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::abi::{Counters, Ctl, NOT_OURS, STAT_LOSS_GUARD, Stat};
use crate::datapath::{
    Datapath, FlowStats, NotTaken, Row, Sequence, SocketEvent, SocketEventKind, Taking, Tier, Wanted,
};
use crate::grip::{Descriptors, Hands, MAX_WANTED};
use crate::mapping::{Command, Mapping, Owner};
use crate::options::Error;
use crate::probe;
use crate::ring::Ring;
use crate::table::Table;

/// How often rows of silent flows are looked for when rows run short.
const RECLAIM_EVERY: Nanos = Nanos::from_millis(1_000);
/// Records handled in one call, so that a flood of events cannot hold the deciding loop.
const MAX_EVENTS: usize = 8192;

/// The maps are mapped; what takes privileges is done by hands, of this process or of another.
pub struct Kernel {
    tier: Tier,
    ctl: Mapping<Ctl>,
    stat: Mapping<Stat>,
    counters: Mapping<Counters>,
    ring: Ring,
    table: Table,
    hands: Box<dyn Hands>,
    events_lost: u64,
    rescan: bool,
    looked: Nanos,
}

impl Kernel {
    /// The data path over these maps. Needs no privilege.
    ///
    /// # Errors
    /// The system's, where one cannot be mapped.
    pub fn over(tier: Tier, maps: Descriptors, hands: Box<dyn Hands>) -> Result<Kernel, Error> {
        let mapped = |e| Error::bpf("map a table into memory", &e);
        let Descriptors { ctl, stat, counters, events, rows, ring_bytes } = maps;
        let counters: Mapping<Counters> = Mapping::read_only(&counters, 1).map_err(mapped)?;
        Ok(Kernel {
            tier,
            ctl: Mapping::new(&ctl, rows).map_err(mapped)?,
            stat: Mapping::read_only(&stat, rows).map_err(mapped)?,
            ring: Ring::new(events, ring_bytes).map_err(|e| Error::bpf("map the ring buffer", &e))?,
            table: Table::new(rows),
            hands,
            events_lost: counters.get().events_lost,
            counters,
            rescan: true,
            looked: Nanos::ZERO,
        })
    }

    /// Tries on connections of this process what everything rests on, and says what does not work: whether a socket of the
    /// congestion control `name` can be given back; without one, whether live sockets can be paced. What that leaves in the ring
    /// buffer is forgotten: the first call of `events` reports from the tables anyway.
    pub fn prove(&mut self, name: &str, reasons: &mut Vec<String>) {
        if self.tier == Tier::SetSockOpt {
            self.learn_to_pace_live(reasons);
        } else {
            match probe::hand_over(self, name) {
                Ok(target) => tracing::debug!(name, target, "a released socket is given back"),
                Err(probe::Failure::NotTried(why)) => {
                    reasons.push(format!("giving sockets back was not proven: {why}"))
                }
                // The program's own loss-based mode is the second choice then.
                Err(probe::Failure::Refused(why)) => reasons.push(format!(
                    "sockets cannot be given back ({why}); expired ones stay under {name}, unpaced, with a Reno window"
                )),
            }
        }
        while self.ring.next().is_some() {}
    }

    /// Tries whether live sockets can be paced; where the kernel cannot ask for their callbacks, new ones ask for them.
    fn learn_to_pace_live(&mut self, reasons: &mut Vec<String>) {
        match probe::pace(self) {
            Ok(()) => {}
            Err(probe::Failure::NotTried(why)) => reasons.push(format!("pacing live sockets was not proven: {why}")),
            Err(probe::Failure::Refused(why)) => {
                let so = match self.hands.ask_early() {
                    Ok(()) => "only connections that are made from now on can be paced".to_owned(),
                    Err(error) => format!("no connection can be paced: {error}"),
                };
                reasons.push(format!("{so}: {why}"));
            }
        }
    }

    /// The row of a socket, found by looking at all.
    pub(crate) fn row_of(&self, cookie: u64) -> Option<Row> {
        (0..self.stat.rows()).find_map(|index| {
            let Owner { generation, live } = self.stat.owner(index)?;
            let stat = self.stat.read(index).filter(|stat| live && stat.cookie == cookie)?;
            (stat.generation == generation).then_some(Row { index, generation })
        })
    }

    fn capture_some(&mut self, wanted: &[Wanted]) -> Vec<Taking> {
        let seen = self.hands.capture(wanted);
        if let Err(error) = &seen {
            tracing::warn!(
                event = "capture-failed",
                %error,
                cost = "they run under ordinary congestion control until they are tried again",
                next = "sluice doctor",
                "live sockets could not be captured"
            );
        }
        // What the kernel did not see is not there.
        let missing = Err(if seen.is_ok() { NotTaken::Gone } else { NotTaken::Refused(libc::EIO) });
        let seen: BTreeMap<u64, i32> = seen.unwrap_or_default();
        let taking = |wanted: &Wanted| Taking {
            cookie: wanted.cookie,
            result: seen.get(&wanted.cookie).copied().map_or(missing, outcome),
        };
        wanted.iter().map(taking).collect()
    }

    /// Takes the records that the ring buffer has.
    fn take_records(&mut self, out: &mut Vec<SocketEvent>) {
        for _ in 0..MAX_EVENTS {
            let Some(event) = self.ring.next() else { break };
            let owner = self.stat.owner(event.index).map(|owner| owner.generation);
            out.extend(self.table.event(&event, owner));
        }
    }

    /// Finds what no record told. `went`: what is said of owners that are not there any more.
    fn rescan(&mut self, went: SocketEventKind, out: &mut Vec<SocketEvent>) {
        for index in 0..self.stat.rows() {
            let owner = self.stat.owner(index);
            let stat = owner.and_then(|_| self.stat.read(index));
            let live = owner.is_some_and(|owner| owner.live);
            self.table.rescan(index, stat.as_ref().map(|s| (s, live)), went, out);
        }
    }

    /// When fewer than a tenth of the rows are free: takes back those of flows that have been silent for long.
    fn reclaim(&mut self, out: &mut Vec<SocketEvent>) {
        let now = sluice_clock::monotonic();
        if now.minus(self.looked) < RECLAIM_EVERY {
            return;
        }
        self.looked = now;
        if u64::from(self.table.live()) * 10 < u64::from(self.stat.rows()) * 9 {
            return;
        }
        match self.hands.reclaim() {
            Ok(0) => {}
            Ok(_) => {
                // Who went by itself meanwhile has told how.
                self.take_records(out);
                // One that has been silent for so long is as good as closed: whoever asked for it again would give it a row. Where
                // words were lost nobody knows whether it was one of those.
                let lost = self.counters.get().events_lost != self.events_lost;
                self.rescan(if lost { SocketEventKind::Released } else { SocketEventKind::Closed }, out);
            }
            Err(error) => tracing::debug!(event = "not-reclaimed", %error, "rows of silent flows stay theirs"),
        }
    }

    fn is_owner(&self, row: Row) -> bool {
        row.generation != 0 && self.stat.owner(row.index) == Some(Owner { generation: row.generation, live: true })
    }
}

/// What an iterator's answer for one socket means.
fn outcome(result: i32) -> Result<(), NotTaken> {
    match result {
        0 => Ok(()),
        NOT_OURS => Err(NotTaken::NotOurs),
        _ if result == -libc::ENOSPC => Err(NotTaken::TableFull),
        _ if result == -libc::EALREADY => Err(NotTaken::HasRow),
        _ if result == -libc::ETIME => Err(NotTaken::Late),
        errno => Err(NotTaken::Refused(-errno)),
    }
}

impl Datapath for Kernel {
    fn tier(&self) -> Tier {
        self.tier
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn events(&mut self, out: &mut Vec<SocketEvent>) {
        let lost = self.counters.get().events_lost;
        // What the buffer still has says how a socket went; rows do not.
        self.take_records(out);
        if self.rescan || lost != self.events_lost {
            (self.rescan, self.events_lost) = (false, lost);
            // It expired, was given back or closed. As given back it is asked for again, and one that is closed is then seen to be;
            // as closed, one that goes on under plain TCP would be lost for good where nothing but its bytes say whose it is.
            self.rescan(SocketEventKind::Released, out);
        }
        self.reclaim(out);
    }

    fn stats(&self, row: Row) -> Option<FlowStats> {
        let stat = self.stat.read(row.index).filter(|s| s.generation == row.generation)?;
        let bits = |bytes: u64| Rate(bytes.saturating_mul(8));
        let micros = |us: u32| Nanos(u64::from(us) * 1000);
        Some(FlowStats {
            acked: Bytes(stat.acked),
            queued: Bytes(stat.queued),
            delivery_rate: bits(stat.delivery_rate),
            pacing_rate: bits(stat.pacing_rate),
            surplus: bits(stat.surplus.extra),
            srtt: micros(stat.srtt_us),
            rtt_min: micros(stat.rtt_min_us),
            retransmitted: stat.retransmitted.into(),
            segment: Bytes(stat.mss.into()),
            updated: Nanos(stat.last_ns),
            loss_guard: stat.flags & STAT_LOSS_GUARD != 0,
            sequence: Some(Sequence { unacknowledged: stat.snd_una, expected: stat.rcv_nxt }),
        })
    }

    fn order_with(&mut self, row: Row, rate: Rate, surplus: Option<Allowance>, expires: Nanos) {
        if self.is_owner(row) {
            let follow = Command::Follow { rate: rate.bytes_per_second(), expiry: expires.0, surplus };
            self.ctl.order(row.index, row.generation, follow);
        }
    }

    fn release(&mut self, row: Row) {
        if self.is_owner(row) {
            self.ctl.order(row.index, row.generation, Command::Release);
        }
    }

    fn mark(&mut self, row: Row, acked: Bytes) {
        if self.is_owner(row) {
            self.ctl.mark(row.index, acked.0);
        }
    }

    fn capture(&mut self, wanted: &[Wanted]) -> Vec<Taking> {
        wanted.chunks(MAX_WANTED).flat_map(|part| self.capture_some(part)).collect()
    }

    fn enters(&self) -> bool {
        self.hands.enters()
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}
