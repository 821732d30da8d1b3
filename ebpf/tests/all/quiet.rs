//! How tests that measure deal with a machine that is not theirs alone, here and in the testbed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tries of one measurement, at most.
const MAX_TRIES: usize = 5;
/// How long a try waits for a quiet machine, at most.
const MAX_WAIT: Duration = Duration::from_secs(12);
/// On a quiet machine the hypervisor gives at most this part of the processors to others ...
const MAX_STOLEN: f64 = 0.03;
/// ... and timers wake at most this late (p99).
const MAX_LATE: Duration = Duration::from_millis(20);

/// Measures at most five times, each time with something new and once the machine is quiet or was waited for long enough,
/// until the machine was quiet while it ran; what it measured then. On a machine that is quiet in no try it is what the
/// quietest one measured: nothing is waived, and noise only makes it harder to pass. `None`: something is not to be had,
/// and the test is skipped.
pub fn measured<N, T>(mut prepare: impl FnMut() -> Option<N>, mut measure: impl FnMut(&N) -> Option<T>) -> Option<T> {
    let mut quietest: Option<(f64, T)> = None;
    for number in 1..=MAX_TRIES {
        let prepared = prepare()?;
        wait();
        let watch = Watch::start();
        let measured = measure(&prepared)?;
        let noise = watch.noise();
        if noise <= 1.0 {
            return Some(measured);
        }
        eprintln!("try {number}: {noise:.1} times the noise of a quiet machine");
        if quietest.as_ref().is_none_or(|(least, _)| noise < *least) {
            quietest = Some((noise, measured));
        }
    }
    quietest.map(|(_, measured)| measured)
}

/// Returns after a quiet second, or after [`MAX_WAIT`].
fn wait() {
    let deadline = Instant::now() + MAX_WAIT;
    while Instant::now() < deadline {
        let watch = Watch::start();
        std::thread::sleep(Duration::from_secs(1));
        if watch.noise() <= 1.0 {
            return;
        }
    }
}

/// What disturbs this process from its start on.
struct Watch {
    canary: Canary,
    stolen: u64,
    all: u64,
}

impl Watch {
    fn start() -> Watch {
        let (stolen, all) = ticks();
        Watch { canary: Canary::start(), stolen, all }
    }

    /// By the worse of both measures, 1 on a machine that is just quiet.
    fn noise(self) -> f64 {
        let (late, _) = self.canary.finish();
        let (stolen, all) = ticks();
        let part = (stolen - self.stolen) as f64 / (all - self.all).max(1) as f64;
        (part / MAX_STOLEN).max(late.as_secs_f64() / MAX_LATE.as_secs_f64())
    }
}

/// Stolen and all ticks of `/proc/stat`.
fn ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").expect("readable");
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    (ticks.get(7).copied().unwrap_or(0), ticks.iter().take(8).sum())
}

/// Measures how late a 1 ms timer of this process wakes: what a busy machine does to every figure.
pub struct Canary {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(Instant, Duration)>>>,
}

impl Canary {
    pub fn start() -> Canary {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut late = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                let at = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                late.push((at, at.elapsed().saturating_sub(Duration::from_millis(1))));
            }
            late
        });
        Canary { stop, thread: Some(thread) }
    }

    /// 99th percentile and worst lateness.
    pub fn finish(self) -> (Duration, Duration) {
        let mut late: Vec<Duration> = self.samples().into_iter().map(|(_, late)| late).collect();
        late.sort();
        let at = |part: usize| late.get((late.len() * part / 100).min(late.len().saturating_sub(1))).copied();
        (at(99).unwrap_or_default(), at(100).unwrap_or_default())
    }

    /// Every sample: when the timer was set and how late it woke.
    pub fn samples(mut self) -> Vec<(Instant, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}
