//! What hosts and alerts say of a rollout, and when that is reason enough to return.
//!
//! A host is asked again and again. What is wrong with it counts once it was seen in [`LOOKS`] looks in a row, since a
//! change of mode disturbs for a moment: connections to switches begin, a view is not fresh yet. What was wrong with a
//! host before its group was touched counts for nothing. That a job is slower with Sluice than without is the host's own
//! finding (`enforce.benefit`), made over windows of its own, and counts at once.
//!
//! A host whose mode was set by hand stays out of it: it is told, and it stops nothing. Nor does what no mode can cause, on hosts
//! and among alerts ([`NO_MODES_DOING`], [`wrong_with`]): a certificate whose time is over in the night of a rollout is no reason
//! to take it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sluice_wire::snapshot::{BenefitState, Brief, ConditionCode, Mode, Severity};

use crate::UnixTime;
use crate::key::Name;
use crate::rollout::Rollout;

/// Looks in a row in which something has to be wrong.
pub const LOOKS: u32 = 3;

/// Alerts that tell of clocks, of certificates and of what files say. A rollout changes the mode of hosts and nothing else.
pub const NO_MODES_DOING: [&str; 5] = [
    "SluiceCertificateEnds",
    "SluiceClockUnsafe",
    "SluiceConfigDrift",
    "SluiceConfigRejected",
    "SluiceSwitchCertificateEnds",
];

/// What was seen of a host in one look; `None`: it did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The host.
    pub host: Name,
    /// Where it was asked.
    pub http: String,
    /// What it said, or why it said nothing.
    pub answer: Result<Box<Brief>, String>,
}

/// An alert that fires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// The instance it is about, as `host:port`; empty: none.
    pub instance: String,
}

/// A reason to return.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A host found a job slower with Sluice than without, and has let go of it.
    Slower {
        /// The host.
        host: Name,
        /// The job.
        job: String,
    },
    /// A condition holds that did not before.
    Condition {
        /// The host.
        host: Name,
        /// Code and subject.
        what: String,
        /// In one sentence.
        sentence: String,
    },
    /// An alert fires that did not before.
    Alert(Alert),
    /// A host does not take the mode.
    NotFollowing {
        /// The host.
        host: Name,
        /// The mode it is in.
        mode: Mode,
    },
    /// Too many hosts of a group do not answer.
    Unanswered {
        /// The group.
        group: Name,
        /// How many.
        hosts: usize,
        /// One of them, and why.
        example: String,
    },
    /// Alerts were asked for and cannot be read.
    AlertsUnread(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slower { host, job } => write!(f, "{host}: job {job} is slower with Sluice than without"),
            Fault::Condition { host, what, sentence } => write!(f, "{host}: {what}: {sentence}"),
            Fault::Alert(alert) if alert.instance.is_empty() => write!(f, "alert {} fires", alert.name),
            Fault::Alert(alert) => write!(f, "alert {} fires for {}", alert.name, alert.instance),
            Fault::NotFollowing { host, mode } => write!(f, "{host} stays in {}", mode.as_str()),
            Fault::Unanswered { group, hosts, example } => {
                write!(f, "{hosts} hosts of {group} do not answer: {example}")
            }
            Fault::AlertsUnread(why) => write!(f, "alerts cannot be read: {why}"),
        }
    }
}

/// What one look comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Reasons to return.
    pub faults: Vec<Fault>,
    /// What has to be waited for before the next group.
    pub waiting: Vec<String>,
    /// Hosts that stay out of it, as their mode was set by hand.
    pub by_hand: Vec<Name>,
    /// Seen to be wrong, not often enough yet.
    pub suspected: Vec<Fault>,
}

/// Remembers how often something was seen in a row. One for each terminal that drives a rollout.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    seen: BTreeMap<Fault, u32>,
    /// Alerts that fired when this began to look.
    alerts: Option<BTreeSet<Alert>>,
}

impl Judge {
    /// Judges one look at all hosts of the groups that were touched, by group. `alerts` is `None` where nobody asked
    /// for them.
    pub fn look(
        &mut self,
        rollout: &Rollout,
        now: UnixTime,
        groups: &BTreeMap<Name, Vec<Seen>>,
        alerts: Option<&Result<BTreeSet<Alert>, String>>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let mut found: BTreeSet<Fault> = BTreeSet::new();
        let patient = now.since(rollout.touched_at) < rollout.order.patience;
        for stage in rollout.touched() {
            let hosts = groups.get(&stage.group).map(Vec::as_slice).unwrap_or_default();
            let silent: Vec<&Seen> = hosts.iter().filter(|seen| seen.answer.is_err()).collect();
            if silent.len() > rollout.order.unanswered
                && let Some(Seen { host, http, answer: Err(why) }) = silent.first()
            {
                let (group, hosts) = (stage.group.clone(), silent.len());
                let fault = Fault::Unanswered { group, hosts, example: format!("{host} ({http}): {why}") };
                verdict.waiting.push(fault.to_string());
                if !patient {
                    found.insert(fault);
                }
            }
            for seen in hosts {
                let Ok(brief) = &seen.answer else { continue };
                if brief.fleet.as_ref().is_some_and(|fleet| fleet.by_hand) {
                    verdict.by_hand.push(seen.host.clone());
                    continue;
                }
                if brief.mode != rollout.order.to {
                    let fault = Fault::NotFollowing { host: seen.host.clone(), mode: brief.mode };
                    verdict.waiting.push(fault.to_string());
                    if !patient {
                        found.insert(fault);
                    }
                    continue;
                }
                let slower = brief.jobs.iter().filter(|job| job.benefit.state == BenefitState::Released);
                verdict
                    .faults
                    .extend(slower.map(|job| Fault::Slower { host: seen.host.clone(), job: job.id.to_string() }));
                if let Some(before) = stage.before.get(&seen.host) {
                    let new = wrong_with(brief).into_iter().filter(|(what, _)| !before.contains(what));
                    found.extend(new.map(|(what, sentence)| Fault::Condition {
                        host: seen.host.clone(),
                        what,
                        sentence,
                    }));
                }
            }
        }
        match alerts {
            None => {}
            Some(Err(why)) => drop(found.insert(Fault::AlertsUnread(why.clone()))),
            Some(Ok(fire)) => {
                let before = self.alerts.get_or_insert_with(|| fire.clone());
                let new = fire.difference(before).filter(|alert| !NO_MODES_DOING.contains(&alert.name.as_str()));
                found.extend(new.cloned().map(Fault::Alert));
            }
        }
        self.count(found, &mut verdict);
        verdict
    }

    fn count(&mut self, found: BTreeSet<Fault>, verdict: &mut Verdict) {
        let same = |a: &Fault, b: &Fault| match (a, b) {
            // How it is told may change from look to look.
            (Fault::Condition { host, what, .. }, Fault::Condition { host: h, what: w, .. }) => (host, what) == (h, w),
            (Fault::Unanswered { group, .. }, Fault::Unanswered { group: g, .. }) => group == g,
            (Fault::AlertsUnread(_), Fault::AlertsUnread(_)) => true,
            _ => a == b,
        };
        let before = std::mem::take(&mut self.seen);
        for fault in found {
            let looks = before.iter().find(|(known, _)| same(known, &fault)).map_or(0, |(_, looks)| *looks) + 1;
            if looks >= LOOKS {
                verdict.faults.push(fault.clone())
            } else {
                verdict.suspected.push(fault.clone())
            }
            self.seen.insert(fault, looks);
        }
    }
}

/// What counts as wrong with a host, each with its sentence. That it does not hear etcd stops nothing by itself, and neither does
/// what is wrong with its clock, its certificate or its files: no mode can cause that.
pub fn wrong_with(brief: &Brief) -> BTreeMap<String, String> {
    use ConditionCode::{
        CertExpired, CertificatesUnusable, ClockTaiUnset, ClockUnsafe, ConfigRejected, FleetRejected, FleetUnreachable,
    };
    let counts = |code| {
        !matches!(code, FleetUnreachable | FleetRejected | ClockUnsafe | ClockTaiUnset)
            && !matches!(code, CertExpired | CertificatesUnusable | ConfigRejected)
    };
    let conditions = brief.conditions.iter().filter(|c| c.severity != Severity::Info && counts(c.code));
    conditions
        .map(|c| (format!("{} {}", c.code.as_str(), c.subject).trim_end().to_owned(), c.sentence.clone()))
        .collect()
}

/// What keeps a group from being touched: hosts that do not answer, that follow no fleet, or that are of another group.
pub fn unready(group: &Name, hosts: &[Seen], unanswered: usize) -> Vec<String> {
    let mut why = Vec::new();
    if hosts.is_empty() {
        why.push(format!("{group} has no hosts"));
    }
    let silent = hosts.iter().filter_map(|seen| Some((seen, seen.answer.as_ref().err()?)));
    let silent: Vec<String> = silent.map(|(seen, error)| format!("{} ({}): {error}", seen.host, seen.http)).collect();
    if silent.len() > unanswered {
        why.push(format!("{} hosts of {group} do not answer: {}", silent.len(), silent.join("; ")));
    }
    for seen in hosts {
        match seen.answer.as_ref().ok().map(|brief| brief.fleet.as_ref()) {
            Some(None) => why.push(format!("{} is in no fleet: fleet.etcd is not set there", seen.host)),
            Some(Some(fleet)) if fleet.group != group.as_str() => {
                why.push(format!("{} says that it is of group {}, not {group}", seen.host, fleet.group));
            }
            _ => {}
        }
    }
    why
}

/// What is wrong with hosts that answer, before they are touched.
pub fn before(hosts: &[Seen]) -> BTreeMap<Name, BTreeSet<String>> {
    let answered = hosts.iter().filter_map(|seen| Some((seen.host.clone(), seen.answer.as_ref().ok()?)));
    answered.map(|(host, brief)| (host, wrong_with(brief).into_keys().collect())).collect()
}

#[cfg(test)]
mod tests;
