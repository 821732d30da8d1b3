//! Whether etcd is heard, and for how long it was not. Silence changes nothing; past a while it is told.

use std::time::Duration;

/// Silence that is told: an etcd that is restarted or elects a leader is back before.
pub const SILENCE: Duration = Duration::from_secs(60);

/// When etcd was last heard, by a clock that only goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// When it was last heard, or else when somebody began to listen.
    since: Duration,
    connected: bool,
    ever: bool,
    why: String,
}

impl Contact {
    /// Nobody has been heard yet.
    pub fn new(now: Duration) -> Contact {
        Contact { since: now, connected: false, ever: false, why: String::new() }
    }
    /// etcd was heard.
    pub fn heard(&mut self, now: Duration) {
        *self = Contact { since: now, connected: true, ever: true, why: String::new() };
    }
    /// The connection is gone, or there was none.
    pub fn lost(&mut self, why: String) {
        (self.connected, self.why) = (false, why);
    }
    /// Is it heard now?
    pub fn connected(&self) -> bool {
        self.connected
    }
    /// For how long it was silent.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
    /// What is to be told of a silence that lasts.
    pub fn told(&self, now: Duration) -> Option<String> {
        let silence = self.silence(now);
        if silence < SILENCE {
            return None;
        }
        let what = if self.ever { "etcd is silent for" } else { "etcd was not heard since the start, for" };
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        Some(format!("{what} {} s{why}", silence.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_when_it_lasts_and_ends_with_a_word() {
        let s = Duration::from_secs;
        let mut contact = Contact::new(s(10));
        assert_eq!(contact.told(s(69)), None);
        assert!(contact.told(s(70)).expect("told").contains("not heard since the start, for 60 s"));
        contact.heard(s(80));
        assert_eq!((contact.told(s(90)), contact.connected()), (None, true));
        contact.lost("connection refused".into());
        assert_eq!(contact.told(s(139)), None);
        assert!(contact.told(s(86_480)).expect("told").contains("silent for 86400 s: connection refused"));
    }
}
