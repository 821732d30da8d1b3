//! What a daemon costs while its host sends many flows, thread by thread, and what pages add that look at it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use sluice_schedule::{Nanos, Rate};

use super::fail_open::plan;
use super::live::Live;
use super::{Bench, mbps};
use crate::run::{Policy, RunError};

/// Options of `sluice-experiment cost`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// Flows its host sends.
    #[arg(long, default_value_t = 64)]
    pub flows: usize,
    /// How long it is watched.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Pages that look at it, four times a second each, for as long again, half of it before and half after the time without.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub pages: u8,
}

/// Cost of the daemon of the host that sends.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Flows it manages as sender.
    pub flows: usize,
    /// Part of one core.
    pub cpu: f64,
    /// The same of each of its threads, by name: `loop` decides, `flight` records for `sluice why`.
    pub threads: BTreeMap<String, f64>,
    /// Resident memory, MiB.
    pub rss_mib: f64,
    /// The same of the switch process.
    pub switch_cpu: f64,
    /// Of all flows, how many were managed at the end.
    pub managed: usize,
    /// With pages that look; none if none was asked for.
    pub pages: Option<Pages>,
}

/// What pages cost the daemon that they look at.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pages {
    /// How many looked.
    pub pages: u8,
    /// Part of one core, of the daemon with them.
    pub cpu: f64,
    /// Part of one core that this is more than without.
    pub more: f64,
    /// Events that each was told in a second.
    pub hz: f64,
    /// Bytes of an event, on average.
    pub event_bytes: f64,
}

/// Runs flows from one host for some time.
///
/// # Errors
/// As a run.
pub fn cost(bench: &Bench<'_>, settings: &Settings) -> Result<Cost, RunError> {
    let &Settings { rate, flows, seconds, .. } = settings;
    let (mut plan, place) = plan(rate, flows);
    // Rounds of a training job's length: beginning and ending them is part of the cost.
    plan.jobs[0].bytes = plan.fabric.payload(rate).over(Nanos::from_millis(400));
    plan.jobs[0].compute = vec![Nanos::from_millis(200)];
    plan.jobs[0].iterations = 100_000;
    let policy = Policy::Sluice { policy: None, nic: false };
    // With a state directory it records for `sluice why`, as an installed one does.
    let state = bench.dir.join("live/run-h0/state");
    std::fs::create_dir_all(&state).map_err(RunError::io(format!("creating {}", state.display())))?;
    let mut live = Live::start(bench, &plan, &place, &policy, 100)?;
    live.run_for(Duration::from_secs(3))?;
    let cpu = |live: &Live| {
        (live.fabric.cgroups.daemon(0).cpu_us() as f64 / 1e6, live.fabric.cgroups.switches().cpu_us() as f64 / 1e6)
    };
    let socket = live.daemons.socket(0);
    let mut looked = Vec::new();
    let mut look = |live: &mut Live| -> Result<(), RunError> {
        if settings.pages > 0 {
            let readers = Readers::start(&socket, settings.pages);
            // The daemon has noticed that somebody looks.
            live.run_for(Duration::from_secs(1))?;
            let (events, bytes) = readers.counts();
            let spent = measure(live, Duration::from_secs(seconds.div_ceil(2)), &cpu)?;
            let (later, more) = readers.counts();
            looked.push((spent, later - events, more - bytes));
            readers.stop();
            // And that nobody does any more.
            live.run_for(Duration::from_secs(6))?;
        }
        Ok(())
    };
    look(&mut live)?;
    let pid = live.daemons.pid(0);
    let before = threads(pid);
    let without = measure(&mut live, Duration::from_secs(seconds), &cpu)?;
    let part = |(name, spent): (String, f64)| {
        let since = spent - before.get(&name).copied().unwrap_or_default();
        (name, since.max(0.0) / without.wall_s)
    };
    let threads = threads(pid).into_iter().map(part).collect();
    look(&mut live)?;
    let senders = 0..place.workers.len();
    let last = |rank| live.samples.iter().rev().find(|sample| sample.rank == rank);
    let managed = senders.filter_map(last).map(|s| s.flows.iter().filter(|f| f.1).count()).sum();
    Ok(Cost {
        flows,
        cpu: without.daemon / without.wall_s,
        threads,
        rss_mib: rss(live.daemons.pid(0)) as f64 / 1024.0,
        switch_cpu: without.switches / without.wall_s,
        managed,
        pages: pages(settings.pages, &looked, without),
    })
}

/// Processor time, and how long it was watched, in seconds.
#[derive(Clone, Copy, Debug)]
struct Spent {
    daemon: f64,
    switches: f64,
    wall_s: f64,
}

fn measure(live: &mut Live, time: Duration, cpu: &impl Fn(&Live) -> (f64, f64)) -> Result<Spent, RunError> {
    let (before, started) = (cpu(&*live), std::time::Instant::now());
    live.run_for(time)?;
    let after = cpu(&*live);
    let wall_s = started.elapsed().as_secs_f64();
    Ok(Spent { daemon: after.0 - before.0, switches: after.1 - before.1, wall_s })
}

/// What pages cost, of times with them and the one without.
fn pages(pages: u8, looked: &[(Spent, u64, u64)], without: Spent) -> Option<Pages> {
    if looked.is_empty() {
        return None;
    }
    let sum = |of: fn(&(Spent, u64, u64)) -> f64| looked.iter().map(of).sum::<f64>();
    let (wall_s, events) = (sum(|l| l.0.wall_s), sum(|l| l.1 as f64));
    let cpu = sum(|l| l.0.daemon) / wall_s;
    Some(Pages {
        pages,
        cpu,
        more: cpu - without.daemon / without.wall_s,
        hz: events / wall_s / f64::from(pages),
        event_bytes: sum(|l| l.2 as f64) / events.max(1.0),
    })
}

/// Pages, as far as the daemon can tell: they read its stream, and connect again when it ends.
struct Readers {
    stop: Arc<AtomicBool>,
    /// Events and bytes of all of them.
    counts: Arc<(AtomicU64, AtomicU64)>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Readers {
    fn start(socket: &Path, pages: u8) -> Readers {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<(AtomicU64, AtomicU64)>::default());
        let reader = |_| {
            let (stop, counts, socket) = (Arc::clone(&stop), Arc::clone(&counts), PathBuf::from(socket));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A stream that was cut is taken up again.
                    let _ = read_stream(&socket, &stop, &counts);
                    std::thread::sleep(Duration::from_millis(250));
                }
            })
        };
        let threads = (0..pages).map(reader).collect();
        Readers { stop, counts, threads }
    }

    fn counts(&self) -> (u64, u64) {
        (self.counts.0.load(Ordering::Relaxed), self.counts.1.load(Ordering::Relaxed))
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn read_stream(socket: &Path, stop: &AtomicBool, counts: &(AtomicU64, AtomicU64)) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.write_all(b"GET /api/v1/stream?hz=4 HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut buffer = vec![0; 1 << 16];
    // The end of what was read last: an event may begin in one reading and end in another.
    let mut kept = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let read = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        kept.extend_from_slice(&buffer[..read]);
        const EVENT: &[u8] = b"event: snapshot\n";
        let events = kept.windows(EVENT.len()).filter(|window| *window == EVENT).count();
        kept.drain(..kept.len().saturating_sub(EVENT.len() - 1));
        counts.0.fetch_add(events as u64, Ordering::Relaxed);
        counts.1.fetch_add(read as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Processor time of a process's threads so far, by name, in seconds; threads of one name together.
fn threads(pid: u32) -> BTreeMap<String, f64> {
    let mut spent = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        // The first number is the time on a processor, ns.
        let ns = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default();
        *spent.entry(read("comm").trim().to_owned()).or_default() += ns / 1e9;
    }
    spent
}

/// Resident memory of a process, KiB; 0 when it is gone.
fn rss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
