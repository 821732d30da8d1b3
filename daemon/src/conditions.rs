//! What is wrong at the moment: one list of conditions with stable codes, each with its cost and a next step.
//!
//! A condition that begins is logged once as a warning, one that ends once as information; in between it stands in
//! every status.

use std::collections::BTreeMap;

use sluice_schedule::Nanos;

use crate::config::value::words;

words!(
    /// The stable codes.
    ConditionCode {
        /// Slots cannot be trusted.
        #[default]
        ClockUnsafe = "clock-unsafe",
        /// `tai` was asked for and the kernel's offset is not set.
        ClockTaiUnset = "clock-tai-unset",
        /// A switch or peer does not answer.
        SwitchUnreachable = "switch-unreachable",
        /// A view is old.
        FeedbackStale = "feedback-stale",
        /// Only the own links are known.
        FeedbackLocalOnly = "feedback-local-only",
        /// Not the best way of enforcing.
        EnforcementFallback = "enforcement-fallback",
        /// Nothing is enforced.
        EnforcementNone = "enforcement-none",
        /// Jobs in network namespaces that this daemon may not enter.
        NetnsUncovered = "netns-uncovered",
        /// No free row in the kernel's tables.
        FlowTableFull = "flow-table-full",
        /// Flows are capped at what they deliver.
        LossGuard = "loss-guard",
        /// Slots without a decision in time.
        SlotsLate = "slots-late",
        /// The kernel's ring overflowed.
        EventsLost = "events-lost",
        /// A reload was refused, or changed keys wait for a restart.
        ConfigRejected = "config-rejected",
        /// Somebody altered what this daemon set.
        ForeignChange = "foreign-change",
        /// Another cluster, slot length or horizon at the other end.
        ClusterMismatch = "cluster-mismatch",
        /// The daemon was started again and again.
        RestartLoop = "restart-loop",
    }
);

/// How bad it is; the worst one is the state shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Works as configured.
    Info,
    /// Works less well.
    Degraded,
    /// Nothing is scheduled.
    Inactive,
}

impl Severity {
    /// The word of the state of which this is the worst.
    pub const fn state(self) -> &'static str {
        match self {
            Severity::Info => "ok",
            Severity::Degraded => "degraded",
            Severity::Inactive => "inactive",
        }
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// How bad.
    pub severity: Severity,
    /// What happened, one sentence.
    pub text: String,
    /// What it costs.
    pub cost: &'static str,
    /// What to do.
    pub next: String,
    /// CLOCK_MONOTONIC when it began.
    pub since: Nanos,
}

/// All that hold.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    live: BTreeMap<&'static str, (ConditionCode, Condition)>,
}

impl Conditions {
    /// The condition holds, with this text; its start stays that of the first call.
    pub fn set(
        &mut self,
        now: Nanos,
        code: ConditionCode,
        severity: Severity,
        text: &str,
        cost: &'static str,
        next: &str,
    ) {
        if let Some((_, known)) = self.live.get_mut(code.word()) {
            if known.text != text {
                known.text = text.to_owned();
                next.clone_into(&mut known.next);
            }
            known.severity = severity;
            return;
        }
        if severity == Severity::Info {
            tracing::info!(event = code.word(), cost, next, "{text}");
        } else {
            tracing::warn!(event = code.word(), cost, next, "{text}");
        }
        let condition = Condition { severity, text: text.to_owned(), cost, next: next.to_owned(), since: now };
        self.live.insert(code.word(), (code, condition));
    }
    /// The condition holds no longer.
    pub fn clear(&mut self, now: Nanos, code: ConditionCode) {
        if let Some((_, condition)) = self.live.remove(code.word()) {
            tracing::info!(
                event = code.word(),
                lasted_s = now.minus(condition.since).as_secs_f64(),
                "over: {}",
                condition.text
            );
        }
    }
    /// Every condition that holds, by code.
    pub fn iter(&self) -> impl Iterator<Item = (ConditionCode, &Condition)> {
        self.live.values().map(|(code, condition)| (*code, condition))
    }
    /// Does it hold?
    pub fn holds(&self, code: ConditionCode) -> bool {
        self.live.contains_key(code.word())
    }
    /// The worst of them.
    pub fn worst(&self) -> Severity {
        self.live.values().map(|(_, condition)| condition.severity).max().unwrap_or(Severity::Info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_condition_is_the_state_and_the_start_is_kept() {
        let mut conditions = Conditions::default();
        assert_eq!(conditions.worst().state(), "ok");
        conditions.set(Nanos(5), ConditionCode::ClockUnsafe, Severity::Inactive, "a", "c", "n");
        conditions.set(Nanos(9), ConditionCode::ClockUnsafe, Severity::Degraded, "b", "c", "n");
        let (_, condition) = conditions.iter().next().expect("one");
        assert_eq!((condition.since, condition.text.as_str()), (Nanos(5), "b"));
        assert_eq!(conditions.worst().state(), "degraded");
        conditions.clear(Nanos(10), ConditionCode::ClockUnsafe);
        assert!(!conditions.holds(ConditionCode::ClockUnsafe));
    }

    #[test]
    fn there_are_the_sixteen_codes_of_the_interface() {
        assert_eq!(ConditionCode::WORDS.len(), 16);
    }
}
