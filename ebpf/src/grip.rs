//! What a data path cannot do by its memory alone: capturing sockets, taking rows back, saying something to all programs. It
//! needs privileges; so it is one thing, which may lie with another process than the one that decides.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{HashMap, Map, MapData, Queue};
use aya::programs::links::FdLink;
use sluice_schedule::Nanos;

use crate::abi::{CFG_CALLBACKS_EARLY, Cfg, Stat, WantedRow};
use crate::datapath::{Tier, Wanted};
use crate::loader::{Loaded, Pass};
use crate::mapping::{Mapping, Owner};
use crate::options::{Error, Options};
use crate::silence::{Look, Silence};

/// Sockets captured in one pass: the kernel's table of them has room for so many.
pub const MAX_WANTED: usize = 4096;

/// The privileged part of a data path.
pub trait Hands: Send {
    /// Names these sockets, at most [`MAX_WANTED`], to the kernel and walks once over all of a network namespace: the caller's, or
    /// where [`Hands::enters`] that of the first one's process. Gives what the kernel answered, by cookie.
    ///
    /// # Errors
    /// Why it was not done. Nothing is captured then, or some of them are, which their events tell.
    fn capture(&mut self, wanted: &[Wanted]) -> Result<BTreeMap<u64, i32>, Error>;
    /// Takes the rows of flows that have been silent for long back; says how many.
    ///
    /// # Errors
    /// Why none was taken.
    fn reclaim(&mut self) -> Result<u32, Error>;
    /// From now on sockets ask for their callbacks when they connect, since live ones cannot be made to.
    ///
    /// # Errors
    /// Why they do not.
    fn ask_early(&mut self) -> Result<(), Error>;
    /// Does it enter the network namespace of a socket's process by itself?
    fn enters(&self) -> bool {
        false
    }
}

/// The maps that the rest of a data path has in its memory.
#[derive(Debug)]
pub struct Descriptors {
    /// Orders, for writing.
    pub ctl: OwnedFd,
    /// Measurements.
    pub stat: OwnedFd,
    /// What the programs counted.
    pub counters: OwnedFd,
    /// The ring buffer.
    pub events: OwnedFd,
    /// Rows of orders and of measurements.
    pub rows: u32,
    /// Bytes of the ring buffer.
    pub ring_bytes: u32,
}

/// Everything that must stay open while the datapath lives; pins keep the same beyond that.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) registration: Vec<OwnedFd>,
    pub(crate) cgroups: Vec<FdLink>,
    /// One socket under each congestion control of the hand-over chain, so that no module of it can be unloaded.
    pub(crate) chain: Vec<OwnedFd>,
}

/// The programs, loaded or adopted, in this process.
pub struct Grip {
    loaded: Loaded,
    cfg: Mapping<Cfg>,
    stat: Mapping<Stat>,
    free: Queue<MapData, u32>,
    reclaim_after: Nanos,
    silence: Silence,
    _held: Held,
}

/// A grip, and what else there is to know of it.
pub struct Gripped {
    /// It.
    pub grip: Grip,
    /// What it can enforce.
    pub tier: Tier,
    /// Name of the congestion control; empty: there is none.
    pub name: String,
    /// Live sockets that were taken over from an earlier program.
    pub adopted: usize,
}

impl Grip {
    pub(crate) fn new(mut loaded: Loaded, cfg: Mapping<Cfg>, options: &Options, held: Held) -> Result<Grip, Error> {
        let rows = rows(&loaded, "sluice_stat")?;
        let stat = Mapping::new(loaded.map("sluice_stat")?.fd(), rows)
            .map_err(|e| Error::bpf("map a table into memory", &e))?;
        let Map::Queue(free) = loaded.take_map("sluice_free")? else {
            return Err(Error::Btf("sluice_free is no queue".into()));
        };
        let free = Queue::try_from(Map::Queue(free)).map_err(|e| Error::bpf("open the free rows", &e))?;
        Ok(Grip {
            loaded,
            cfg,
            stat,
            free,
            reclaim_after: options.reclaim_after,
            silence: Silence::default(),
            _held: held,
        })
    }

    /// The maps for a data path, of this process or of another. The kernel maps no descriptor for reading only into memory that is
    /// shared with it, so each is for both, and who has it maps what it only reads for reading only.
    ///
    /// # Errors
    /// The system's.
    pub fn descriptors(&self) -> Result<Descriptors, Error> {
        let fd = |name| -> Result<OwnedFd, Error> {
            let map = self.loaded.map(name)?.fd().as_fd();
            map.try_clone_to_owned().map_err(|e| Error::bpf("have one more descriptor of a map", &e))
        };
        Ok(Descriptors {
            ctl: fd("sluice_ctl")?,
            stat: fd("sluice_stat")?,
            counters: fd("sluice_counters")?,
            events: fd("sluice_events")?,
            rows: rows(&self.loaded, "sluice_ctl")?.min(self.stat.rows()),
            ring_bytes: rows(&self.loaded, "sluice_events")?,
        })
    }
}

fn rows(loaded: &Loaded, name: &'static str) -> Result<u32, Error> {
    Ok(loaded.map(name)?.info().map_err(|e| Error::bpf("ask for a map's size", &e))?.max_entries())
}

impl Hands for Grip {
    fn capture(&mut self, wanted: &[Wanted]) -> Result<BTreeMap<u64, i32>, Error> {
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

    fn reclaim(&mut self) -> Result<u32, Error> {
        let (now, mut taken) = (sluice_clock::monotonic(), 0);
        for index in 0..self.stat.rows() {
            let Some(stat) = self.stat.read(index) else { continue };
            let look = Look { generation: stat.generation, acked: stat.acked, touched: Nanos(stat.last_ns) };
            if self.silence.lasts(now, index, look, self.reclaim_after)
                && self.stat.owner(index) == Some(Owner { generation: stat.generation, live: true })
                && self.stat.reclaim(index, stat.generation)
            {
                taken += 1;
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
        Ok(taken)
    }

    fn ask_early(&mut self) -> Result<(), Error> {
        let cfg = self.cfg.get();
        self.cfg.set(Cfg { flags: cfg.flags | CFG_CALLBACKS_EARLY, ..cfg });
        Ok(())
    }
}
