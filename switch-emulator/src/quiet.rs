//! Keeps logs short: one line per cause in ten seconds, then how many were left out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(10);

/// When each cause was last spoken of, and how often it was not since.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<&'static str, (Instant, u64)>>);

impl Quiet {
    /// Runs `line` unless this cause had one within the last ten seconds.
    pub fn say(&self, cause: &'static str, line: impl FnOnce()) {
        let now = Instant::now();
        let left_out = {
            let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match causes.get_mut(cause) {
                Some((last, left_out)) if now.duration_since(*last) < PAUSE => {
                    *left_out += 1;
                    return;
                }
                _ => causes.insert(cause, (now, 0)).map_or(0, |(_, left_out)| left_out),
            }
        };
        if left_out > 0 {
            tracing::info!(event = "suppressed", of = cause, count = left_out, "{left_out} more suppressed");
        }
        line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let quiet = Quiet::default();
        let mut told = 0;
        for _ in 0..5 {
            quiet.say("a", || told += 1);
        }
        quiet.say("b", || told += 1);
        assert_eq!(told, 2);
    }
}
