//! How much of what the other end of a connection says is read in a while. Whoever says more waits, by TCP's own means, and
//! costs no more time than that: what is said of links that nobody asked for has to be read before it can be refused.

use std::time::Duration;

use sluice_schedule::{Feedback, Nanos};

/// Links of which one connection is heard in a [`WINDOW`]: a host that watches a hundred links hears an answer to each of forty
/// announcements.
pub(super) const LINKS: usize = 4_096;
const WINDOW: Nanos = Nanos::from_millis(60);

/// What was read since when.
#[derive(Debug, Default)]
pub(super) struct Quota {
    since: Nanos,
    links: usize,
}

impl Quota {
    /// Counts what was read now. Returns how long nothing further is to be read, if that was enough.
    pub fn read<'a>(&mut self, now: Nanos, heard: impl Iterator<Item = &'a Feedback>) -> Option<Duration> {
        if now.minus(self.since) >= WINDOW {
            *self = Quota { since: now, links: 0 };
        }
        let links: usize = heard.map(|feedback| feedback.links.len()).sum();
        self.links = self.links.saturating_add(links);
        let rest = WINDOW.minus(now.minus(self.since));
        (self.links >= LINKS).then_some(Duration::from_nanos(rest.0))
    }
}

#[cfg(test)]
mod tests {
    use sluice_schedule::LinkView;

    use super::*;

    fn of(links: usize) -> Feedback {
        Feedback { links: vec![LinkView::default(); links], ..Feedback::default() }
    }

    #[test]
    fn whoever_says_more_than_anybody_asks_for_waits_for_the_windows_end() {
        let mut quota = Quota::default();
        let at = |ms: u64| Nanos::from_millis(1_000 + ms);
        assert_eq!(quota.read(at(0), [of(100), of(100)].iter()), None);
        assert_eq!(quota.read(at(20), [of(LINKS - 201)].iter()), None);
        assert_eq!(quota.read(at(25), [of(1)].iter()), Some(Duration::from_millis(35)));
        // The next window counts anew, and one message alone may be too much.
        assert_eq!(quota.read(at(60), [of(LINKS)].iter()), Some(Duration::from_millis(60)));
        assert_eq!(quota.read(at(120), [of(1)].iter()), None);
    }

    #[test]
    fn forty_answers_on_a_hundred_links_each_wait_for_nothing() {
        let mut quota = Quota::default();
        for n in 0..400 {
            assert_eq!(quota.read(Nanos::from_millis(1_000 + n * 3 / 2), [of(100)].iter()), None, "{n}");
        }
    }
}
