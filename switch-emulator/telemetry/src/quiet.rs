//! Keeps a log short: one line in ten seconds for one cause, with how often there was reason for it since the last.

use std::time::{Duration, Instant};

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(10);

/// One cause: when it was last spoken of, and how often it was not since.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    told: Option<Instant>,
    since: u64,
}

impl Quiet {
    /// Runs `line` with how often the cause arose, this time included, unless there was a line within the last ten
    /// seconds.
    pub(crate) fn say(&mut self, line: impl FnOnce(u64)) {
        self.since = self.since.saturating_add(1);
        if self.told.is_none_or(|told| told.elapsed() >= PAUSE) {
            line(self.since);
            *self = Quiet { told: Some(Instant::now()), since: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let mut quiet = Quiet::default();
        let mut told = Vec::new();
        for _ in 0..5 {
            quiet.say(|count| told.push(count));
        }
        assert_eq!(told, [1]);
    }
}
