//! How many lines are too many: one of a cause in ten seconds, fifty a second in all. Pure: time comes in as an argument, and
//! what was left out is counted, never forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Between two lines of one cause.
const PAUSE: Duration = Duration::from_secs(10);
/// Lines of all causes within [`SECOND`]. journald's own limit is about 300 a second, and would drop ours without a word.
const MOST: usize = 50;
const SECOND: Duration = Duration::from_secs(1);
/// Events that are counted by name; of further ones there is a common count.
const MAX_NAMES: usize = 128;
/// What further events are called.
const OTHERS: &str = "others";

/// Decides which lines are told. What it remembers is bounded by what it let through: less than `MOST` a second for the
/// length of a pause.
#[derive(Debug, Default)]
pub struct Limiter {
    /// When each cause was last told of.
    told: BTreeMap<u64, Duration>,
    /// When the last lines of all were told.
    last: VecDeque<Duration>,
    /// How many of each event were left out since they were last spoken of.
    left: BTreeMap<String, u64>,
    /// When the first of those was left out.
    since: Option<Duration>,
}

/// What was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// How many lines.
    pub count: u64,
    /// How many of each event, by name.
    pub of: BTreeMap<String, u64>,
}

impl Limiter {
    /// May a line of this event be told now? `cause` says what it is about and why; without one only the limit of all
    /// lines holds. Time is that since any fixed moment and does not run backwards.
    pub fn admit(&mut self, now: Duration, event: &str, cause: Option<u64>) -> bool {
        let within = |then: Duration, span| now.saturating_sub(then) < span;
        let known = cause.and_then(|cause| self.told.get(&cause));
        while self.last.front().is_some_and(|then| !within(*then, SECOND)) {
            self.last.pop_front();
        }
        if known.is_some_and(|then| within(*then, PAUSE)) || self.last.len() >= MOST {
            self.leave_out(now, event);
            return false;
        }
        self.last.push_back(now);
        if let Some(cause) = cause {
            self.told.retain(|_, then| within(*then, PAUSE));
            self.told.insert(cause, now);
        }
        true
    }

    fn leave_out(&mut self, now: Duration, event: &str) {
        self.since.get_or_insert(now);
        let name = if self.left.len() < MAX_NAMES || self.left.contains_key(event) { event } else { OTHERS };
        let count = self.left.entry(name.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    /// When what was left out is to be told, if anything was.
    pub fn due(&self) -> Option<Duration> {
        self.since.map(|since| since.saturating_add(PAUSE))
    }

    /// What was left out since this was last asked.
    pub fn take(&mut self) -> Option<Left> {
        self.since.take()?;
        let of = std::mem::take(&mut self.left);
        Some(Left { count: of.values().fold(0, |sum, count| sum.saturating_add(*count)), of })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cause_is_told_once_in_ten_seconds_and_the_rest_is_counted() {
        let mut limiter = Limiter::default();
        let at = Duration::from_secs;
        assert!(limiter.admit(at(0), "a", Some(1)));
        assert!(!limiter.admit(at(9), "a", Some(1)));
        assert!(limiter.admit(at(9), "a", Some(2)), "another cause");
        assert_eq!(limiter.due(), Some(at(19)));
        assert!(limiter.admit(at(10), "a", Some(1)));
        let left = limiter.take().expect("one was left out");
        assert_eq!((left.count, left.of.get("a")), (1, Some(&1)));
        assert_eq!((limiter.take(), limiter.due()), (None, None));
    }

    proptest! {
        /// Whatever comes: no cause twice within a pause, no more than the limit within any second, nothing forgotten, and
        /// memory bounded; and nothing is left out without need.
        #[test]
        fn limits_hold_and_nothing_is_forgotten(
            lines in proptest::collection::vec((0u64..400, 0u8..200, proptest::option::of(0u64..90)), 1..600),
        ) {
            let mut limiter = Limiter::default();
            let mut now = Duration::ZERO;
            let mut told: Vec<(Duration, Option<u64>)> = Vec::new();
            let (mut left, mut seen) = (0, 0);
            for (pause, name, cause) in lines {
                // Bursts, with gaps between them.
                now += Duration::from_millis(if pause < 390 { pause / 40 } else { pause * 10 });
                let event = format!("e{name}");
                seen += 1;
                let lately = told.iter().filter(|(then, _)| now - *then < SECOND).count();
                let again = cause.is_some() && told.iter().any(|(then, of)| *of == cause && now - *then < PAUSE);
                let admitted = limiter.admit(now, &event, cause);
                prop_assert_eq!(admitted, lately < MOST && !again);
                if admitted {
                    told.push((now, cause));
                }
                if limiter.due().is_some_and(|due| now >= due) {
                    left += limiter.take().map_or(0, |left| left.count);
                }
                prop_assert!(limiter.left.len() <= MAX_NAMES + 1);
                prop_assert!(limiter.told.len() <= MOST * 10 + MOST && limiter.last.len() <= MOST);
            }
            left += limiter.take().map_or(0, |left| left.count);
            prop_assert_eq!(told.len() as u64 + left, seen);
        }
    }
}
