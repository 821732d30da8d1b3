//! The datapath over the kernel's memory: orders are stores, measurements are loads, news comes by the ring buffer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{Map, MapData, Queue, RingBuf};
use aya::programs::links::FdLink;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::abi::{Counters, Ctl, Event, STAT_LOSS_GUARD, Stat, read_record};
use crate::datapath::{Datapath, FlowStats, Row, SocketEvent, Tier};
use crate::loader::{Loaded, Pass};
use crate::mapping::{Mapping, Owner};
use crate::options::{Error, Options};
use crate::probe;
use crate::table::Table;

/// How often rows of silent flows are looked for when rows run short.
const RECLAIM_EVERY: Nanos = Nanos::from_millis(1_000);
/// Records handled in one call, so that a flood of events cannot hold the deciding loop.
const MAX_EVENTS: usize = 8192;

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
    capture_lease: Nanos,
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
            capture_lease: options.capture_lease,
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
        let result = probe::hand_over(name, &self.ctl, &self.stat);
        while self.ring.next().is_some() {}
        result
    }

    /// Runs an iterator over the sockets of the caller's network namespace; returns how many it changed.
    pub(crate) fn pass(&mut self, pass: Pass) -> Result<usize, Error> {
        Ok(self.loaded.pass(pass)?.iter().filter(|seen| seen.result == 0).count())
    }

    fn renew_capture(&self) {
        self.cfg.capture_until(sluice_clock::monotonic().plus(self.capture_lease).0);
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
                    tracing::warn!(index, %error, "a reclaimed row could not be freed");
                }
            }
        }
    }

    fn is_owner(&self, row: Row) -> bool {
        row.generation != 0 && self.stat.owner(row.index) == Some(Owner { generation: row.generation, live: true })
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
        self.renew_capture();
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
            srtt: micros(stat.srtt_us),
            rtt_min: micros(stat.rtt_min_us),
            retransmitted: stat.retransmitted.into(),
            updated: Nanos(stat.last_ns),
            loss_guard: stat.flags & STAT_LOSS_GUARD != 0,
        })
    }

    fn order(&mut self, row: Row, rate: Rate, expires: Nanos) {
        if self.is_owner(row) {
            self.ctl.order(row.index, row.generation, rate.bytes_per_second(), expires.0, false);
        }
    }

    fn release(&mut self, row: Row) {
        if self.is_owner(row) {
            self.ctl.order(row.index, row.generation, 0, 0, true);
        }
    }

    fn mark(&mut self, row: Row, acked: Bytes) {
        if self.is_owner(row) {
            self.ctl.mark(row.index, acked.0);
        }
    }

    fn adopt(&mut self) -> usize {
        self.renew_capture();
        self.pass(Pass::Adopt).unwrap_or_else(|error| {
            tracing::warn!(%error, "live sockets could not be captured");
            0
        })
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}
