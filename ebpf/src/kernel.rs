//! The datapath over the kernel's memory: orders are stores, measurements are loads, news comes by the ring buffer.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{HashMap, Map, MapData, Queue, RingBuf};
use aya::programs::links::FdLink;
use sluice_schedule::event::Allowance;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::abi::{CFG_CALLBACKS_EARLY, Counters, Ctl, Event, NOT_OURS, STAT_LOSS_GUARD, Stat, WantedRow, read_record};
use crate::datapath::{Datapath, FlowStats, NotTaken, Row, Sequence, SocketEvent, Taking, Tier, Wanted};
use crate::loader::{Loaded, Pass};
use crate::mapping::{Command, Mapping, Owner};
use crate::options::{Error, Options};
use crate::probe;
use crate::table::Table;

/// How often rows of silent flows are looked for when rows run short.
const RECLAIM_EVERY: Nanos = Nanos::from_millis(1_000);
/// Records handled in one call, so that a flood of events cannot hold the deciding loop.
const MAX_EVENTS: usize = 8192;
/// Sockets captured in one pass: the kernel's table of them has room for so many.
const MAX_WANTED: usize = 4096;

/// Everything that must stay open while the datapath lives; pins keep the same beyond that.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) registration: Vec<OwnedFd>,
    pub(crate) cgroups: Vec<FdLink>,
    /// One socket under each congestion control of the hand-over chain, so that no module of it can be unloaded.
    pub(crate) chain: Vec<OwnedFd>,
}

/// The programs are loaded or adopted, and the maps are mapped.
pub struct Kernel {
    tier: Tier,
    ctl: Mapping<Ctl>,
    stat: Mapping<Stat>,
    cfg: Mapping<crate::abi::Cfg>,
    counters: Mapping<Counters>,
    ring: RingBuf<MapData>,
    free: Queue<MapData, u32>,
    loaded: Loaded,
    table: Table,
    reclaim_after: Nanos,
    events_lost: u64,
    rescan: bool,
    looked: Nanos,
    _held: Held,
}

impl Kernel {
    pub(crate) fn new(
        tier: Tier,
        mut loaded: Loaded,
        cfg: Mapping<crate::abi::Cfg>,
        options: &Options,
        held: Held,
    ) -> Result<Kernel, Error> {
        let rows = |name| -> Result<u32, Error> {
            let info = loaded.map(name)?.info().map_err(|e| Error::bpf("ask for a map's size", &e))?;
            Ok(info.max_entries())
        };
        let (ctl_rows, stat_rows) = (rows("sluice_ctl")?, rows("sluice_stat")?);
        let mapped = |e| Error::bpf("map a table into memory", &e);
        let ctl = Mapping::new(loaded.map("sluice_ctl")?.fd(), ctl_rows).map_err(mapped)?;
        let stat = Mapping::new(loaded.map("sluice_stat")?.fd(), stat_rows).map_err(mapped)?;
        let counters: Mapping<Counters> = Mapping::new(loaded.map("sluice_counters")?.fd(), 1).map_err(mapped)?;
        let Map::RingBuf(ring) = loaded.take_map("sluice_events")? else {
            return Err(Error::Btf("sluice_events is no ring buffer".into()));
        };
        let Map::Queue(free) = loaded.take_map("sluice_free")? else {
            return Err(Error::Btf("sluice_free is no queue".into()));
        };
        let ring = RingBuf::try_from(Map::RingBuf(ring)).map_err(|e| Error::bpf("map the ring buffer", &e))?;
        let free = Queue::try_from(Map::Queue(free)).map_err(|e| Error::bpf("open the free rows", &e))?;
        let events_lost = counters.get().events_lost;
        Ok(Kernel {
            tier,
            table: Table::new(stat_rows),
            ctl,
            stat,
            cfg,
            counters,
            ring,
            free,
            loaded,
            reclaim_after: options.reclaim_after,
            events_lost,
            rescan: true,
            looked: Nanos::ZERO,
            _held: held,
        })
    }

    /// Tries whether a socket can be given back, and forgets what the probe left in the ring buffer: the first call of
    /// `events` reports from the tables anyway.
    pub(crate) fn prove_hand_over(&mut self, name: &str) -> Result<String, probe::Failure> {
        let result = probe::hand_over(self, name);
        while self.ring.next().is_some() {}
        result
    }

    /// Tries whether live sockets can be paced; where the kernel cannot ask for their callbacks, new ones ask for them.
    pub(crate) fn learn_to_pace_live(&mut self, reasons: &mut Vec<String>) {
        match probe::pace(self) {
            Ok(()) => {}
            Err(probe::Failure::NotTried(why)) => reasons.push(format!("pacing live sockets was not proven: {why}")),
            Err(probe::Failure::Refused(why)) => {
                let cfg = self.cfg.get();
                self.cfg.set(crate::abi::Cfg { flags: cfg.flags | CFG_CALLBACKS_EARLY, ..cfg });
                reasons.push(format!("only connections that are made from now on can be paced: {why}"));
            }
        }
        while self.ring.next().is_some() {}
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
        let seen = self.capture_pass(wanted);
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
        let seen = seen.unwrap_or_default();
        let taking = |wanted: &Wanted| Taking {
            cookie: wanted.cookie,
            result: seen.get(&wanted.cookie).copied().map_or(missing, outcome),
        };
        wanted.iter().map(taking).collect()
    }

    /// Names the sockets to the kernel, walks over all, and forgets the names. Returns what it answered, by cookie.
    fn capture_pass(&mut self, wanted: &[Wanted]) -> Result<BTreeMap<u64, i32>, Error> {
        let wrong = |e: aya::maps::MapError| Error::bpf("name the sockets to capture", &e);
        let mut names: HashMap<_, u64, WantedRow> = self.loaded.map_mut("sluice_wanted")?.try_into().map_err(wrong)?;
        // What a process that was killed has left there.
        let stale: Vec<u64> = names.keys().flatten().collect();
        for cookie in stale {
            names.remove(&cookie).map_err(wrong)?;
        }
        for wanted in wanted {
            let row = WantedRow { rate: wanted.rate.bytes_per_second(), expiry: wanted.expires.0 };
            names.insert(wanted.cookie, row, 0).map_err(wrong)?;
        }
        let seen = self.loaded.pass(Pass::Capture);
        let mut names: HashMap<_, u64, WantedRow> = self.loaded.map_mut("sluice_wanted")?.try_into().map_err(wrong)?;
        for wanted in wanted {
            // One that is left there is overwritten or removed by the next pass.
            let _ = names.remove(&wanted.cookie);
        }
        Ok(seen?.iter().map(|seen| (seen.cookie, seen.result)).collect())
    }

    fn rescan(&mut self, out: &mut Vec<SocketEvent>) {
        for index in 0..self.stat.rows() {
            let owner = self.stat.owner(index);
            let stat = owner.and_then(|_| self.stat.read(index));
            let live = owner.is_some_and(|owner| owner.live);
            self.table.rescan(index, stat.as_ref().map(|s| (s, live)), out);
        }
    }

    /// When fewer than a tenth of the rows are free: takes back those of flows that have been silent for long.
    fn reclaim(&mut self, out: &mut Vec<SocketEvent>) {
        let now = sluice_clock::monotonic();
        if now.minus(self.looked) < RECLAIM_EVERY {
            return;
        }
        self.looked = now;
        let rows = self.stat.rows();
        if u64::from(self.table.live()) * 10 < u64::from(rows) * 9 {
            return;
        }
        for index in 0..rows {
            let Some(stat) = self.stat.read(index) else { continue };
            let silent = now.minus(Nanos(stat.last_ns)) > self.reclaim_after;
            if silent
                && self.stat.owner(index) == Some(Owner { generation: stat.generation, live: true })
                && self.stat.reclaim(index, stat.generation)
            {
                self.table.rescan(index, None, out);
                if let Err(error) = self.free.push(index, 0) {
                    tracing::warn!(
                        event = "row-lost",
                        index,
                        %error,
                        cost = "one flow less finds a row until the daemon starts again",
                        next = "nothing if it is one; else start the daemon again",
                        "a reclaimed row could not be freed"
                    );
                }
            }
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
        if self.rescan || lost != self.events_lost {
            (self.rescan, self.events_lost) = (false, lost);
            self.rescan(out);
        }
        for _ in 0..MAX_EVENTS {
            let Some(item) = self.ring.next() else { break };
            let event: Event = read_record(&item);
            drop(item);
            let owner = self.stat.owner(event.index).map(|owner| owner.generation);
            out.extend(self.table.event(&event, owner));
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

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}
