//! Connections that were refused: how many, why, and a line about it now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_identity::Reason;
use tokio::time::Instant;

/// Refused connections are told of once in this time, for each reason.
const EVERY: Duration = Duration::from_secs(10);

/// Counts by reason; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<[One; Reason::ALL.len()]>);

#[derive(Debug, Default)]
struct One {
    count: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    since: u64,
}

impl Refusals {
    /// How many connections were refused for each reason, in the order of [`Reason::ALL`].
    pub fn counts(&self) -> [(Reason, u64); Reason::ALL.len()] {
        Reason::ALL.map(|reason| (reason, self.one(reason).map_or(0, |one| one.count.load(Ordering::Relaxed))))
    }

    /// One more, of which nothing is told.
    pub fn count(&self, reason: Reason) {
        if let Some(one) = self.one(reason) {
            one.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One more; `from` stands in a line of its own, which only who asks for details sees.
    pub fn add(&self, reason: Reason, from: &dyn std::fmt::Display, why: &str) {
        let Some(one) = self.one(reason) else { return };
        one.count.fetch_add(1, Ordering::Relaxed);
        let count = {
            let mut told = one.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.since += 1;
            if told.at.is_some_and(|at| at.elapsed() < EVERY) {
                return;
            }
            let count = told.since;
            *told = Told { at: Some(Instant::now()), since: 0 };
            count
        };
        tell(reason, count, why);
        tracing::debug!(event = "connection-refused", reason = reason.word(), %from, "it came from there");
    }

    fn one(&self, reason: Reason) -> Option<&One> {
        Reason::ALL.iter().position(|known| *known == reason).and_then(|at| self.0.get(at))
    }
}

fn tell(reason: Reason, count: u64, why: &str) {
    if reason == Reason::Network {
        tracing::warn!(
            event = "peer-refused",
            count,
            cost = "whoever it is does without what is told here",
            next = "if it is a host of the cluster: add its network to `peers`; log.level = \"debug\" says from where it came",
            "a connection from outside `peers` was closed unread"
        );
        return;
    }
    let next = match reason {
        Reason::Network | Reason::Silent | Reason::Protocol => {
            "if it is a host of the cluster: give it [tls] as here; log.level = \"debug\" says from where it came"
        }
        Reason::Places => "raise max_hosts, or find out who opens so many",
        Reason::NoCertificate => "name its certificate and key under [tls] there",
        Reason::UnknownAuthority => "make both sides believe the other's authority: tls.ca",
        Reason::Expired | Reason::NotYetValid => {
            "issue its certificate anew (sluice tls rotate), and see that both clocks are right"
        }
        Reason::Unnamed | Reason::Other => "issue a certificate with its own name: sluice tls issue --help",
        Reason::Disbelieved => "make both sides believe the other's authority: tls.ca there",
        Reason::Unready => "mend the files that [tls] names here: sluice tls show",
    };
    tracing::warn!(
        event = "connection-refused",
        reason = reason.word(),
        count,
        cost = "whoever it is does without what is told here",
        next,
        "{why}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        let refusals = Refusals::default();
        refusals.add(Reason::Expired, &"10.0.0.1", "over");
        refusals.clone().add(Reason::Expired, &"10.0.0.1", "over");
        refusals.add(Reason::Other, &"10.0.0.1", "another");
        let counted: Vec<(Reason, u64)> = refusals.counts().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Reason::Expired, 2), (Reason::Other, 1)]);
    }
}
