//! What daemons cost connections that are none of their business: another user's, long and short, from a host that has a job,
//! over a cable that the job does not use.
//!
//! Three hosts without a switch: a job runs between the first two, and the connections go from the first to the third. A pair is a
//! run with daemons, and one without in which the job is there too, under ordinary TCP. Which of the two comes first
//! alternates, so that what changes on the machine meanwhile falls on both.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_report::stats;
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::live::launch;
use super::{Bench, mbps};
use crate::fabric::{Cable, Fabric, FabricError, FabricSpec};
use crate::run::daemons::Daemons;
use crate::run::launch::Sockets;
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan};

const PORT: u16 = 7_779;
/// The user of the connections; the job's is root.
const NOBODY: u32 = 65_534;
/// Bytes of a short connection.
const SHORT: usize = 64 << 10;
/// The job has been found, and long connections have their windows.
const SETTLING: Duration = Duration::from_secs(2);
/// A connection that does not move for so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);
const STACK: usize = 256 << 10;

/// Options of `sluice-experiment others`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "200", value_parser = mbps)]
    pub rate: Rate,
    /// The same of the cable that only the other user's connections take; none: the same rate.
    #[arg(long = "others-mbps", value_name = "MBPS", value_parser = mbps)]
    pub others_rate: Option<Rate>,
    /// Seconds of each run that count.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// How often it is run with and without daemons.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub pairs: u64,
    /// Connections that send all the time.
    #[arg(long, default_value_t = 100)]
    pub long: usize,
    /// Connections of 64 KiB, which begin evenly over the time that counts.
    #[arg(long, default_value_t = 100)]
    pub short: usize,
    /// Policy of the daemons.
    #[arg(long, default_value = "sluice")]
    pub policy: Policy,
}

/// What the connections of one run got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Got {
    /// What arrived on the long ones together, payload Mbit/s.
    pub long_mbps: f64,
    /// The mean time of a short one, from connecting until everything had arrived, ms.
    pub short_ms: f64,
}

/// Two runs that follow each other.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// A daemon on every host.
    pub with: Got,
    /// The same job under ordinary TCP, and no daemon.
    pub without: Got,
}

/// A ratio, with daemons to without, over all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Mean over the pairs.
    pub mean: f64,
    /// Standard deviation of one pair.
    pub spread: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct OthersResult {
    /// Long connections and short ones of each run.
    pub connections: (usize, usize),
    /// Of what arrived on the long ones.
    pub long: Ratio,
    /// Of the mean time of a short one.
    pub short: Ratio,
    /// All pairs, in the order in which they ran.
    pub pairs: Vec<Pair>,
}

impl Ratio {
    fn of(ratios: &[f64]) -> Ratio {
        let mean = stats::mean(ratios);
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let spread = if ratios.len() < 2 { 0.0 } else { (squares / (ratios.len() - 1) as f64).sqrt() };
        Ratio { mean, spread }
    }
}

/// Runs all pairs.
///
/// # Errors
/// As a run; a connection that breaks.
pub fn others(bench: &Bench<'_>, settings: &Settings) -> Result<OthersResult, RunError> {
    let mut pairs = Vec::new();
    for pair in 0..settings.pairs {
        let run = |policy: Option<&Policy>| {
            if bench.stop.load(Ordering::Relaxed) {
                return Err(RunError::Plan("stopped".into()));
            }
            one(bench, settings, policy)
        };
        let (with, without) = if pair % 2 == 0 {
            let with = run(Some(&settings.policy))?;
            (with, run(None)?)
        } else {
            let without = run(None)?;
            (run(Some(&settings.policy))?, without)
        };
        pairs.push(Pair { with, without });
    }
    let ratios = |of: fn(&Got) -> f64| -> Vec<f64> { pairs.iter().map(|p| of(&p.with) / of(&p.without)).collect() };
    let (long, short) = (Ratio::of(&ratios(|got| got.long_mbps)), Ratio::of(&ratios(|got| got.short_ms)));
    Ok(OthersResult { connections: (settings.long, settings.short), long, short, pairs })
}

fn one(bench: &Bench<'_>, settings: &Settings, policy: Option<&Policy>) -> Result<Got, RunError> {
    let cable = |to: &str, rate: Rate| Cable::plain("h0", to, rate, queue(rate));
    let cables = vec![cable("h1", settings.rate), cable("h2", settings.others_rate.unwrap_or(settings.rate))];
    let hosts = ["h0", "h1", "h2"].map(str::to_owned).to_vec();
    let spec = FabricSpec { hosts, cables, ..FabricSpec::default() };
    // Rounds of a training job's length, computing included.
    let bytes = spec.payload(settings.rate).over(Nanos::from_millis(200));
    let job = JobPlan { compute: vec![Nanos::from_millis(100)], ..JobPlan::ring("job", 2, bytes, 1_000_000) };
    let plan = RunPlan { fabric: spec.clone(), jobs: vec![job.clone()], ..RunPlan::default() };
    let session = bench.session(if policy.is_some() { "with" } else { "without" })?;
    let fabric = Fabric::build(spec)?;
    let daemons = policy.map(|policy| Daemons::start(&fabric, &plan, policy, &session)).transpose()?;
    let progress = daemons.as_ref().map(|daemons| plan.pages.dirs(daemons.progress_dirs())).unwrap_or_default();
    let sockets = Sockets { tcp: Some(plan.tcp.clone()), progress, ..Sockets::default() };
    let place = Placement { workers: vec![0, 1], servers: Vec::new() };
    let (_job, _from) = launch(&fabric, &session, &job, &place, &sockets)?;
    let got = connections(&fabric, settings)?;
    if let Some(daemons) = daemons {
        daemons.check()?;
        drop(daemons.stop());
    }
    Ok(got)
}

/// Opens all connections from the first host to the last and says what they got.
fn connections(fabric: &Fabric, settings: &Settings) -> Result<Got, RunError> {
    let (from, to) = (&fabric.hosts[0], &fabric.hosts[2]);
    let address = to.address;
    let listener = to.ns.run(move || TcpListener::bind((address, PORT)))?;
    let listener = listener.map_err(FabricError::io("listening for the other user"))?;
    let (stop, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let ends = Ends { stop: Arc::clone(&stop), arrived: Arc::clone(&arrived) };
    let total = settings.long + settings.short;
    let sink = to.ns.thread("others-sink", move || ends.serve(&listener, total))?;
    let (tell, told) = mpsc::channel();
    let (seconds, long, short) = (settings.seconds, settings.long, settings.short);
    let ending = Arc::clone(&stop);
    let source = from.ns.thread("others", move || {
        let got = speak(address, long, short, Duration::from_secs(seconds), &arrived, &ending);
        ending.store(true, Ordering::Relaxed);
        // Nobody waits any more only if the experiment is over.
        let _ = tell.send(got);
    })?;
    let got = told.recv().map_err(|_| RunError::Plan("the other user's thread has ended".into()))?;
    stop.store(true, Ordering::Relaxed);
    // One more connection ends the waiting for one.
    drop(from.ns.run(move || TcpStream::connect((address, PORT)))?);
    for thread in [source, sink] {
        thread.join().map_err(|_| RunError::Plan("a thread of the other user panicked".into()))?;
    }
    Ok(got.map_err(FabricError::io("a connection of the other user"))?)
}

/// The far ends of all connections.
struct Ends {
    stop: Arc<AtomicBool>,
    /// Bytes on long connections.
    arrived: Arc<AtomicU64>,
}

impl Ends {
    /// Takes so many connections, and then one that says that it is over.
    fn serve(&self, listener: &TcpListener, total: usize) {
        std::thread::scope(|scope| {
            for stream in listener.incoming().take(total + 1).flatten() {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let end = std::thread::Builder::new().stack_size(STACK);
                if let Err(error) = end.spawn_scoped(scope, move || self.drain(stream)) {
                    tracing::warn!("the other user's connections: {error}");
                }
            }
        });
    }

    /// The first byte says whether it is a long one.
    fn drain(&self, mut stream: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        let mut long = None;
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if *long.get_or_insert(buffer[0] == b'l') {
                self.arrived.fetch_add(length as u64, Ordering::Relaxed);
            }
        }
        // Dropping the stream tells the other end that all has arrived.
    }
}

/// A socket of the other user.
fn open(to: Ipv4Addr) -> std::io::Result<TcpStream> {
    nix::unistd::setfsuid(NOBODY.into());
    let stream = TcpStream::connect((to, PORT));
    nix::unistd::setfsuid(0.into());
    let stream = stream?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    Ok(stream)
}

fn speak(
    to: Ipv4Addr,
    long: usize,
    short: usize,
    time: Duration,
    arrived: &AtomicU64,
    stop: &AtomicBool,
) -> std::io::Result<Got> {
    let streams = (0..long).map(|_| open(to)).collect::<std::io::Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let senders = streams
            .into_iter()
            .map(|stream| {
                let sender = std::thread::Builder::new().stack_size(STACK);
                sender.spawn_scoped(scope, move || send(stream, stop))
            })
            .collect::<std::io::Result<Vec<_>>>();
        let got = senders.and_then(|senders| {
            std::thread::sleep(SETTLING);
            let (began, before) = (Instant::now(), arrived.load(Ordering::Relaxed));
            let mut handed = Vec::new();
            for n in 0..short {
                let due = time.mul_f64(n as f64 / short as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
                let one = std::thread::Builder::new().stack_size(STACK);
                handed.push(one.spawn_scoped(scope, move || hand_over(to))?);
            }
            std::thread::sleep(time.saturating_sub(began.elapsed()));
            let (bytes, took_all) = (arrived.load(Ordering::Relaxed) - before, began.elapsed());
            let mut took = Vec::new();
            for one in handed {
                let one = one.join().map_err(|_| std::io::Error::other("a short connection panicked"))??;
                took.push(one.as_secs_f64() * 1e3);
            }
            stop.store(true, Ordering::Relaxed);
            for sender in senders {
                sender.join().map_err(|_| std::io::Error::other("a sender panicked"))??;
            }
            Ok(Got { long_mbps: bytes as f64 * 8e-6 / took_all.as_secs_f64(), short_ms: stats::mean(&took) })
        });
        stop.store(true, Ordering::Relaxed);
        got
    })
}

/// Sends until it is told to stop.
fn send(mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    let (data, mut moved) = ([b'l'; 16 << 10], Instant::now());
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&data) {
            Ok(_) => moved = Instant::now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if moved.elapsed() > PATIENCE {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends a short one and waits until all of it has been read; how long that took.
fn hand_over(to: Ipv4Addr) -> std::io::Result<Duration> {
    let began = Instant::now();
    let mut stream = open(to)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[b's'; SHORT])?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(began.elapsed())
}

impl OthersResult {
    /// A table for people.
    pub fn table(&self) -> String {
        let (long, short) = self.connections;
        let mut text = format!("another user's {long} long and {short} short connections, with daemons to without:\n");
        for Pair { with, without } in &self.pairs {
            text.push_str(&format!(
                "  long {:7.2} to {:7.2} Mbit/s, short {:7.2} to {:7.2} ms\n",
                with.long_mbps, without.long_mbps, with.short_ms, without.short_ms
            ));
        }
        let ratio = |ratio: &Ratio| format!("{:.4} ± {:.4}", ratio.mean, ratio.spread);
        text.push_str(&format!(
            "  ratio: goodput of the long {}, time of the short {}\n",
            ratio(&self.long),
            ratio(&self.short)
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_mean_with_the_spread_of_one_pair() {
        let ratio = Ratio::of(&[0.9, 1.1]);
        assert!((ratio.mean - 1.0).abs() < 1e-12 && (ratio.spread - 0.02_f64.sqrt()).abs() < 1e-12, "{ratio:?}");
        assert_eq!(Ratio::of(&[1.5]), Ratio { mean: 1.5, spread: 0.0 });
    }
}
