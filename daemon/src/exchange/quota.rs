//! How much the other end of a connection may say in a while. What is said of links that nobody asked for has to be read before
//! it can be refused, so whoever goes on saying it is hung up on.

use sluice_schedule::{Feedback, Nanos};

/// Links of which one connection may speak in a [`WINDOW`]: a host that watches a hundred links hears an answer to each of forty
/// announcements.
pub(super) const LINKS: usize = 4_096;
const WINDOW: Nanos = Nanos::from_millis(60);

/// What was said since when.
#[derive(Debug, Default)]
pub(super) struct Quota {
    since: Nanos,
    links: usize,
}

/// It spoke of more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch {
    /// Of how many in this window.
    pub links: usize,
}

impl Quota {
    /// Counts what was read now.
    ///
    /// # Errors
    /// It is too much.
    pub fn read<'a>(&mut self, now: Nanos, heard: impl Iterator<Item = &'a Feedback>) -> Result<(), TooMuch> {
        if now.minus(self.since) >= WINDOW {
            *self = Quota { since: now, links: 0 };
        }
        let links: usize = heard.map(|feedback| feedback.links.len()).sum();
        self.links = self.links.saturating_add(links);
        if self.links > LINKS { Err(TooMuch { links: self.links }) } else { Ok(()) }
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
    fn whoever_says_more_than_anybody_asks_for_has_said_too_much() {
        let mut quota = Quota::default();
        let at = |ms: u64| Nanos::from_millis(1_000 + ms);
        assert_eq!(quota.read(at(0), [of(100), of(100)].iter()), Ok(()));
        assert_eq!(quota.read(at(20), [of(LINKS - 200)].iter()), Ok(()));
        assert_eq!(quota.read(at(25), [of(1)].iter()), Err(TooMuch { links: LINKS + 1 }));
        // The next window counts anew, and one message alone may be too much.
        assert_eq!(quota.read(at(60), [of(LINKS)].iter()), Ok(()));
        assert_eq!(quota.read(at(120), [of(LINKS + 1)].iter()), Err(TooMuch { links: LINKS + 1 }));
    }

    #[test]
    fn forty_answers_on_a_hundred_links_each_are_heard() {
        let mut quota = Quota::default();
        for n in 0..400 {
            assert_eq!(quota.read(Nanos::from_millis(1_000 + n * 3 / 2), [of(100)].iter()), Ok(()), "{n}");
        }
    }
}
