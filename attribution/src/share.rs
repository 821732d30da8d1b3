//! Shares of a job's time by cause, and what is more in some of its rounds than in others.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_schedule::Nanos;

/// Rounds that take so many times as long as usual are slower; less is what rounds differ by anyway.
const SLOWER: f64 = 1.1;

/// Where time went.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum Cause {
    /// The host's own processes computed: nothing was to be sent.
    Compute,
    /// A round was under way, nothing was awaited, and the own processes wrote nothing, or took nothing of what had come.
    OwnSender,
    /// Another host computed, wrote nothing, or took nothing.
    Peer {
        /// Which.
        host: String,
    },
    /// A link was full with the job's own bytes.
    Link {
        /// Which.
        link: String,
    },
    /// Something on the way to a host let less through than any link that is known explains.
    Path {
        /// The host.
        to: String,
    },
    /// Another job's bytes had the link.
    Job {
        /// The link.
        link: String,
        /// The job; empty: one of other hosts, of which only the sum is known.
        job: String,
    },
    /// Traffic that nobody manages had the link.
    Unmanaged {
        /// The link.
        link: String,
    },
    /// Segments were lost and sent again.
    Loss {
        /// On the way to this host.
        to: String,
    },
    /// Nothing was recorded of that time.
    Unknown,
}

impl Cause {
    /// The word for it, which figures are summed by.
    pub fn kind(&self) -> &'static str {
        match self {
            Cause::Compute => "compute",
            Cause::OwnSender => "own-sender",
            Cause::Peer { .. } => "peer",
            Cause::Link { .. } => "link",
            Cause::Path { .. } => "path",
            Cause::Job { .. } => "job",
            Cause::Unmanaged { .. } => "unmanaged",
            Cause::Loss { .. } => "loss",
            Cause::Unknown => "unknown",
        }
    }
}

/// Time by cause, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares(BTreeMap<Cause, f64>);

impl Shares {
    /// More time of this cause.
    pub fn add(&mut self, cause: Cause, time: f64) {
        if time > 0.0 {
            *self.0.entry(cause).or_default() += time;
        }
    }
    /// All of them, ns.
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }
    /// Time of one cause, ns.
    pub fn of(&self, cause: &Cause) -> f64 {
        self.0.get(cause).copied().unwrap_or(0.0)
    }
    /// Every cause with its time, the longest first.
    pub fn longest_first(&self) -> Vec<(&Cause, f64)> {
        let mut all: Vec<(&Cause, f64)> = self.0.iter().map(|(cause, time)| (cause, *time)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        all
    }
    /// Every cause, with its time, in the order of causes.
    pub fn iter(&self) -> impl Iterator<Item = (&Cause, f64)> {
        self.0.iter().map(|(cause, time)| (cause, *time))
    }
    /// One cause under another name.
    #[must_use]
    pub fn renamed(mut self, from: &Cause, to: Cause) -> Shares {
        if let Some(time) = self.0.remove(from) {
            self.add(to, time);
        }
        self
    }
    /// Each time by so much longer.
    #[must_use]
    pub fn times(&self, factor: f64) -> Shares {
        Shares(self.0.iter().map(|(cause, time)| (cause.clone(), time * factor)).collect())
    }
}

/// What is said of some rounds of a job on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Rounds that were looked at.
    pub rounds: usize,
    /// Of a round and the compute before it, on average, ns, by cause.
    pub shares: Shares,
    /// How long a round's bytes take at the rate of their links, ns.
    pub sending: f64,
    /// Part of that time of which the kernel's own counts are known, 0 to 1.
    pub confidence: f64,
}

impl Report {
    /// How long an iteration took on average.
    pub fn took(&self) -> Nanos {
        Nanos(self.shares.total() as u64)
    }

    /// Do these rounds take so much longer than others that a reason is worth asking for?
    pub fn is_slower_than(&self, usual: &Report) -> bool {
        usual.rounds > 0 && self.shares.total() > usual.shares.total() * SLOWER
    }

    /// What is more here than in other rounds, ns of each iteration, the most first. Causes of which there is less are left out.
    ///
    /// The time of links, full with the job's own bytes, counts as more only as far as its bytes need more time of them: the same
    /// bytes take as long whichever link is named for them, and if more of that time is waited for, something else has drawn
    /// apart what was sent at once.
    pub fn excess(&self, usual: &Report) -> Vec<(Cause, f64)> {
        let is_link = |cause: &Cause| matches!(cause, Cause::Link { .. });
        let more = self.shares.iter().map(|(cause, time)| (cause.clone(), time - usual.shares.of(cause)));
        let mut more: Vec<(Cause, f64)> = more.filter(|(_, time)| *time > 0.0).collect();
        let named: f64 = more.iter().filter(|(cause, _)| is_link(cause)).map(|(_, time)| time).sum();
        let part = if named > 0.0 { ((self.sending - usual.sending) / named).clamp(0.0, 1.0) } else { 0.0 };
        more.iter_mut().filter(|(cause, _)| is_link(cause)).for_each(|(_, time)| *time *= part);
        more.retain(|(_, time)| *time > 0.0);
        more.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(times: &[(Cause, f64)]) -> Report {
        let mut shares = Shares::default();
        times.iter().for_each(|(cause, time)| shares.add(cause.clone(), *time));
        let links = times.iter().filter(|(cause, _)| matches!(cause, Cause::Link { .. }));
        let sending = links.map(|(_, time)| time).sum();
        Report { rounds: 1, shares, sending, confidence: 1.0 }
    }

    #[test]
    fn what_is_more_comes_in_the_order_of_how_much_and_what_is_less_is_left_out() {
        let (eth0, peer) = (Cause::Link { link: "eth0".into() }, Cause::Peer { host: "h1".into() });
        let usual = report(&[(Cause::Compute, 10.0), (eth0.clone(), 5.0)]);
        let now = report(&[(Cause::Compute, 8.0), (eth0.clone(), 6.0), (peer.clone(), 4.0)]);
        assert_eq!(now.excess(&usual), [(peer.clone(), 4.0), (eth0, 1.0)]);
        assert_eq!(now.excess(&now), []);
        let other = report(&[(Cause::Link { link: "eth1".into() }, 5.5), (Cause::Compute, 10.0)]);
        assert_eq!(other.excess(&usual), [(Cause::Link { link: "eth1".into() }, 0.5)], "another name, the same bytes");
        let drawn_apart = Report { sending: 5.0, ..now.clone() };
        assert_eq!(drawn_apart.excess(&usual), [(peer, 4.0)], "the same bytes, waited for longer");
        assert_eq!((now.took(), now.shares.times(2.0).total()), (Nanos(18), 36.0));
    }

    #[test]
    fn a_cause_without_time_is_none() {
        let mut shares = Shares::default();
        shares.add(Cause::Compute, 0.0);
        shares.add(Cause::Compute, -1.0);
        assert_eq!(shares, Shares::default());
    }
}
