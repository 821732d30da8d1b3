//! Whose question is answered next: hosts take turns, one question each, so that none uses up what others are owed.

use std::collections::{HashMap, VecDeque};

use sluice_schedule::{HostId, Nanos, RouteQuestion};

/// Questions of one host that wait at most: four announcements full.
pub(super) const WAITING: usize = 256;
/// The kernel is asked this often in the long run, 10,000 times a second, ...
const PAUSE: Nanos = Nanos(100_000);
/// ... and for so many at once after a while without questions.
const AT_ONCE: u64 = 100;

/// A host's question to the switch that the kernel forwards for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub host: HostId,
    pub question: RouteQuestion,
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: HashMap<HostId, VecDeque<RouteQuestion>>,
    /// Hosts with a question, the next one first.
    order: VecDeque<HostId>,
}

impl Turns {
    /// Takes a question in. False: so many of this host wait that it has to ask again.
    pub fn add(&mut self, Asked { host, question }: Asked) -> bool {
        let waiting = self.waiting.entry(host).or_default();
        if waiting.len() >= WAITING {
            return false;
        }
        if waiting.is_empty() {
            self.order.push_back(host);
        }
        waiting.push_back(question);
        true
    }

    /// The oldest question of the host whose turn it is.
    pub fn take(&mut self) -> Option<Asked> {
        let host = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&host)?;
        let question = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&host);
        } else {
            self.order.push_back(host);
        }
        Some(Asked { host, question })
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// How often the kernel may be asked.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// When all that was asked so far would have been asked at an even pace.
    used_up: Nanos,
}

impl Allowance {
    /// May it be asked at this time (of any clock that does not go back)? Else how long from now.
    ///
    /// # Errors
    /// The time to wait.
    pub fn take(&mut self, now: Nanos) -> Result<(), Nanos> {
        let even = self.used_up.max(now.minus(PAUSE.times(AT_ONCE)));
        if even > now {
            return Err(even.minus(now));
        }
        self.used_up = even.plus(PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_schedule::{Connection, FlowId};

    use super::*;

    fn asked(host: u32, n: u32) -> Asked {
        let end = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let connection = Connection { source: end(n as u16), destination: end(80), protocol: 6 };
        let flow = FlowId(u64::from(host) << 32 | u64::from(n));
        Asked { host: HostId(host), question: RouteQuestion { flow, connection } }
    }

    #[test]
    fn a_host_that_asks_without_end_does_not_keep_others_waiting() {
        let mut turns = Turns::default();
        let taken = (0..100_000).filter(|n| turns.add(asked(1, *n))).count();
        assert_eq!(taken, WAITING, "the rest it asks again");
        (0..10).for_each(|n| assert!(turns.add(asked(2, n))));
        let first: Vec<HostId> = (0..20).filter_map(|_| Some(turns.take()?.host)).collect();
        assert_eq!(first.iter().filter(|host| **host == HostId(2)).count(), 10, "{first:?}");
        assert_eq!(std::iter::from_fn(|| turns.take()).count(), WAITING - 10);
        assert!(turns.is_empty() && turns.waiting.is_empty());
    }

    /// With the kernel as slow as it may be asked, one host that floods and one with a question now and then.
    #[test]
    fn the_budget_is_shared_by_those_who_ask() {
        let (mut turns, mut allowance, mut now) = (Turns::default(), Allowance::default(), Nanos::from_millis(1_000));
        let (mut flood, mut rare, mut longest, mut since) = (0, 0, Nanos::ZERO, None);
        for n in 0..20_000 {
            (0..4).for_each(|more| _ = turns.add(asked(1, 4 * n + more)));
            if n % 50 == 0 && since.is_none() {
                turns.add(asked(2, n));
                since = Some(now);
            }
            now = now.plus(Nanos(50_000));
            while allowance.take(now).is_ok() {
                match turns.take() {
                    Some(Asked { host: HostId(2), .. }) => {
                        rare += 1;
                        longest = longest.max(now.minus(since.take().unwrap_or(now)));
                    }
                    Some(_) => flood += 1,
                    None => break,
                }
            }
        }
        // One second: 10,000 and what was saved up before.
        assert!((9_900..=10_200).contains(&(flood + rare)), "{flood} {rare}");
        assert_eq!(rare, 400, "each was answered before the next");
        assert!(longest <= Nanos::from_millis(1), "{longest}");
    }

    proptest! {
        /// Whoever asks what in which order: between two answers to a host that has questions all the time, every other
        /// host is answered at most once.
        #[test]
        fn nobody_is_answered_twice_before_another_that_waits(asks in prop::collection::vec((0_u32..6, 0_u32..1000), 1..400)) {
            let mut turns = Turns::default();
            let mut waits: HashMap<HostId, usize> = HashMap::new();
            for (host, n) in asks {
                if turns.add(asked(host, n)) {
                    *waits.entry(HostId(host)).or_default() += 1;
                }
            }
            let mut last: Vec<HostId> = Vec::new();
            while let Some(Asked { host, .. }) = turns.take() {
                *waits.get_mut(&host).expect("it asked") -= 1;
                if let Some(before) = last.iter().rposition(|known| *known == host) {
                    let between = &last[before + 1..];
                    for other in waits.iter().filter(|(_, left)| **left > 0).map(|(other, _)| *other) {
                        prop_assert!(other == host || between.iter().filter(|known| **known == other).count() == 1);
                    }
                }
                last.push(host);
            }
            prop_assert!(waits.values().all(|left| *left == 0));
        }
    }
}
