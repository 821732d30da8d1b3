//! The lateness canary: a thread that wakes every millisecond and notes how late it was, so that a figure can be told from a
//! machine that has no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::figure::quantile;

const TICK: Duration = Duration::from_millis(1);

/// Watches until it is asked.
#[derive(Debug)]
pub struct Canary {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<f64>>>,
}

impl Canary {
    /// Starts to watch.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start() -> std::io::Result<Canary> {
        let stop = Arc::new(AtomicBool::new(false));
        let halt = Arc::clone(&stop);
        let body = move || {
            let mut late = Vec::new();
            while !halt.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(TICK);
                late.push(before.elapsed().saturating_sub(TICK).as_secs_f64() * 1e3);
            }
            late
        };
        let thread = std::thread::Builder::new().name("canary".into()).spawn(body)?;
        Ok(Canary { stop, thread: Some(thread) })
    }

    /// How late it was in 99 of 100 wake-ups at most, ms.
    pub fn p99_ms(mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let mut late = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        quantile(&mut late, 0.99)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only sleeps; nothing of it is worth an error.
            drop(thread.join());
        }
    }
}

/// The machine's load over the last minute; 0 where it does not say.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_a_number_and_ends() {
        let canary = Canary::start().expect("a thread");
        std::thread::sleep(Duration::from_millis(20));
        let late = canary.p99_ms();
        assert!(late.is_finite() && late >= 0.0, "{late}");
        drop(Canary::start().expect("a thread"));
    }
}
