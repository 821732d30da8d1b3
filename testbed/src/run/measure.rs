//! What is measured beside the jobs: bytes per link over time, and how late this machine's timers are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_report::Lateness;

use super::RunError;
use crate::fabric::{Counters, Fabric};
use crate::job;

/// Bytes of all links at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSample {
    /// CLOCK_MONOTONIC, ns.
    pub t_ns: u64,
    /// Bytes sent by each directed link since the fabric was built.
    pub bytes: Vec<u64>,
}

/// A sampler under way; dropping it stops it.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    links: Option<JoinHandle<Vec<LinkSample>>>,
    canary: Option<JoinHandle<Vec<u32>>>,
}

/// Between two wake-ups of the lateness canary.
const CANARY: Duration = Duration::from_millis(4);

impl Sampler {
    /// Samples all links every `every`.
    ///
    /// # Errors
    /// When the counters cannot be opened or a thread cannot be started.
    pub fn start(fabric: &Fabric, every: Duration) -> Result<Sampler, RunError> {
        let mut counters = Counters::open(fabric)?;
        let stop = Arc::new(AtomicBool::new(false));
        let halt = Arc::clone(&stop);
        let links = move || {
            let mut samples = Vec::new();
            let mut due = Instant::now();
            while !halt.load(Ordering::Relaxed) {
                if let Ok(bytes) = counters.read() {
                    samples.push(LinkSample { t_ns: job::now(), bytes });
                }
                due = (due + every).max(Instant::now());
                std::thread::sleep(due - Instant::now());
            }
            samples
        };
        let halt = Arc::clone(&stop);
        let canary = move || {
            let mut late = Vec::new();
            while !halt.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(CANARY);
                let over = before.elapsed().saturating_sub(CANARY).as_micros();
                late.push(u32::try_from(over).unwrap_or(u32::MAX));
            }
            late
        };
        let spawn = |name: &str| std::thread::Builder::new().name(name.into());
        let links = spawn("link-sampler").spawn(links).map_err(RunError::io("starting a thread"))?;
        let canary = spawn("canary").spawn(canary).map_err(RunError::io("starting a thread"))?;
        Ok(Sampler { stop, links: Some(links), canary: Some(canary) })
    }

    /// Stops; all samples, and the lateness of the machine.
    pub fn stop(mut self) -> (Vec<LinkSample>, Lateness) {
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.links.take().and_then(|t| t.join().ok()).unwrap_or_default();
        let mut late = self.canary.take().and_then(|t| t.join().ok()).unwrap_or_default();
        late.sort_unstable();
        let at = |q: f64| late.get(((late.len() as f64 * q) as usize).min(late.len().saturating_sub(1)));
        let value = |q: f64| u64::from(at(q).copied().unwrap_or(0));
        (samples, Lateness { p50_us: value(0.5), p99_us: value(0.99), max_us: value(1.0) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
