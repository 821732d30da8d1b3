//! How late timers are while a suite runs: bars of time mean something only where they are on time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// It sleeps for so long, again and again.
const TICK: Duration = Duration::from_millis(1);
/// Lateness is counted in steps of this size ...
const STEP: Duration = Duration::from_micros(100);
/// ... so many; what is later counts as the last.
const STEPS: usize = 10_000;

/// A thread that sleeps and looks how late it wakes.
pub(super) struct Canary {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<u32>>>,
}

impl Canary {
    pub(super) fn start() -> Canary {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("canary".into()).spawn(move || {
            let mut late = vec![0_u32; STEPS];
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(TICK);
                let lateness = began.elapsed().saturating_sub(TICK);
                let step = (lateness.as_micros() / STEP.as_micros()) as usize;
                if let Some(count) = late.get_mut(step.min(STEPS - 1)) {
                    *count += 1;
                }
            }
            late
        });
        Canary { stop, thread: thread.ok() }
    }

    /// Ends it; milliseconds that 99 of 100 wake-ups were late at most. `None`: it could not run.
    pub(super) fn p99_ms(mut self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let late = self.thread.take()?.join().ok()?;
        p99(&late)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn p99(late: &[u32]) -> Option<f64> {
    let all: u64 = late.iter().map(|count| u64::from(*count)).sum();
    let wanted = (all * 99).div_ceil(100);
    let mut seen = 0;
    let step = late.iter().position(|count| {
        seen += u64::from(*count);
        seen >= wanted && all > 0
    })?;
    Some((step + 1) as f64 * STEP.as_secs_f64() * 1000.0)
}

/// Programs that wanted a processor in the last minute.
pub(super) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_end_of_99_of_100_is_told() {
        let mut late = vec![0; STEPS];
        assert_eq!(p99(&late), None);
        late[1] = 98;
        late[7] = 1;
        late[90] = 1;
        assert!((p99(&late).expect("a figure") - 0.8).abs() < 1e-9);
        let canary = Canary::start();
        std::thread::sleep(Duration::from_millis(30));
        assert!(canary.p99_ms().is_some_and(|ms| ms > 0.0));
    }
}
