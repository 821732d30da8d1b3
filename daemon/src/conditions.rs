//! What is wrong at the moment, in one list. Codes, severities and their texts are those of the status model.
//!
//! A condition that begins is logged once as a warning, one that ends once as information; in between it stands in
//! every status.

use std::collections::BTreeMap;

use sluice_logs::without_addresses;
pub use sluice_wire::snapshot::{Condition, ConditionCode, Severity};

/// All conditions that hold, by code and subject.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    live: BTreeMap<(ConditionCode, String), Condition>,
}

impl Conditions {
    /// The condition holds for this subject, with this sentence; its start stays that of the first call.
    pub fn set(&mut self, unix_ns: u64, code: ConditionCode, subject: &str, sentence: impl Into<String>) {
        self.put(unix_ns, Condition::new(code, subject, sentence));
    }
    /// The same with a severity or next step other than the code's usual ones.
    pub fn put(&mut self, unix_ns: u64, mut condition: Condition) {
        let key = (condition.code, condition.subject.clone());
        if let Some(known) = self.live.get_mut(&key) {
            condition.since_unix_ns = known.since_unix_ns;
            *known = condition;
            return;
        }
        condition.since_unix_ns = unix_ns;
        let (event, subject) = (condition.code.as_str(), condition.subject.as_str());
        let (cost, next) = (condition.cost.as_str(), condition.next.as_str());
        let sentence = without_addresses(&condition.sentence);
        if condition.severity == Severity::Info {
            tracing::info!(event, subject, cost, next, "{sentence}");
        } else {
            tracing::warn!(event, subject, cost, next, "{sentence}");
        }
        self.live.insert(key, condition);
    }
    /// The condition holds no longer for this subject.
    pub fn clear(&mut self, code: ConditionCode, subject: &str) {
        // Built only when something may have to go: this is called in every slot.
        if self.live.keys().any(|(c, s)| *c == code && s == subject)
            && let Some(condition) = self.live.remove(&(code, subject.to_owned()))
        {
            tracing::info!(event = code.as_str(), subject, "over: {}", without_addresses(&condition.sentence));
        }
    }
    /// Sets or clears, as `sentence` says.
    pub fn hold(&mut self, unix_ns: u64, code: ConditionCode, subject: &str, sentence: Option<String>) {
        match sentence {
            Some(sentence) => self.set(unix_ns, code, subject, sentence),
            None => self.clear(code, subject),
        }
    }
    /// Every condition that holds, by code and subject.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.live.values()
    }
    #[cfg(test)]
    /// Does it hold for any subject?
    pub fn holds(&self, code: ConditionCode) -> bool {
        self.live.keys().any(|(known, _)| *known == code)
    }
    #[cfg(test)]
    pub fn worst(&self) -> Severity {
        self.live.values().map(|condition| condition.severity).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_start_and_ends_per_subject() {
        let mut conditions = Conditions::default();
        conditions.set(5, ConditionCode::SwitchUnreachable, "leaf-1", "a");
        conditions.set(9, ConditionCode::SwitchUnreachable, "leaf-1", "b");
        conditions.set(9, ConditionCode::SwitchUnreachable, "leaf-2", "c");
        let first = conditions.iter().next().expect("two hold");
        assert_eq!((first.since_unix_ns, first.sentence.as_str()), (5, "b"));
        assert_eq!(conditions.worst(), Severity::Degraded);
        conditions.hold(9, ConditionCode::SwitchUnreachable, "leaf-1", None);
        assert!(conditions.holds(ConditionCode::SwitchUnreachable));
        conditions.clear(ConditionCode::SwitchUnreachable, "leaf-2");
        assert_eq!(conditions.iter().count(), 0);
    }
}
