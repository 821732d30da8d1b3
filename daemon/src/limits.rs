//! Every bound of the daemon that is no key of its configuration, in one list, each taken from where it holds.

use sluice_progress::Budget;
use sluice_wire::limits as wire;
use sluice_wire::snapshot::Label;

use crate::config::read;
use crate::{exchange, http, metrics, monitor};

/// A bound and what happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its name, which stays.
    pub name: &'static str,
    /// The most that is taken.
    pub allowed: u64,
    /// Of what.
    pub unit: &'static str,
    /// What becomes of more.
    pub beyond: &'static str,
}

/// The list, by what it is about.
pub fn fixed() -> Vec<Limit> {
    let limit = |name, allowed: usize, unit, beyond| Limit { name, allowed: allowed as u64, unit, beyond };
    let pages = Budget::default();
    vec![
        limit("jobs", monitor::MAX_JOBS, "jobs", "those of who has fewer go first"),
        limit("connections", monitor::tracked::MAX_TRACKED, "connections", "further ones are not looked at"),
        limit(
            "namespaces",
            monitor::namespaces::MAX_FOREIGN,
            "network namespaces",
            "those of users who have fewer go first",
        ),
        limit(
            "environment",
            monitor::environ::MAX_BYTES as usize,
            "bytes",
            "the rest of a process's environment is not read",
        ),
        limit("pages", pages.pages, "progress pages", "those of users who have fewer go first"),
        limit("pages-per-user", pages.per_uid, "progress pages", "further ones of the user are not read"),
        limit("page-scan", pages.entries, "directory entries a look", "the rest is looked at next"),
        limit("plan", sluice_plan::plan::MAX_DAEMON_BYTES, "bytes a file", "the job runs as if it had no plan"),
        limit("plans", monitor::plans::MAX_KEPT, "bytes of files", "the last job runs as if it had no plan"),
        limit("links", read::MAX_LINKS, "[[links]]", "the configuration is refused"),
        limit("switches", read::MAX_SWITCHES, "[[switches]]", "the configuration is refused"),
        limit("configuration", read::MAX_BYTES as usize, "bytes a file", "the file is refused"),
        limit("label", Label::MAX_BYTES, "bytes", "the rest of the name is cut"),
        limit("metric-links", metrics::MAX_LINKS, "links", "further ones have no series"),
        limit("metric-switches", metrics::MAX_SWITCHES, "switches", "further ones have no series"),
        limit("http-connections", http::serve::MAX_CONNECTIONS, "connections", "the next one is closed"),
        limit("http-per-user", http::places::PER_USER, "connections", "the next one of the user is closed"),
        limit("metrics-readers", http::exposition::READERS, "at a time", "the next one is refused for now"),
        limit("metrics-page", http::exposition::MAX_BYTES, "bytes", "the rest is left out, and the page says so"),
        limit("http-body", http::api::MAX_BODY_BYTES, "bytes", "the request is refused"),
        limit("timeline-readings", http::places::READINGS, "at a time", "the next one is refused for now"),
        limit("peer-connections", exchange::service::MAX_CONNECTIONS, "hosts", "the next one is refused"),
        limit("promises", wire::FLOWS, "flows an announcement", "the announcement is refused"),
        limit("links-per-flow", wire::LINKS_PER_FLOW, "links", "the announcement is refused"),
        limit("jobs-per-host", wire::JOBS, "jobs an announcement", "the announcement is refused"),
        limit("watched-links", wire::WATCH, "links a host", "the announcement is refused"),
        limit("slots-per-schedule", wire::HORIZON, "slots", "the announcement is refused"),
        limit("holders-per-message", wire::HOLDERS, "holders", "the message is refused"),
        limit("message", wire::MESSAGE, "bytes", "the connection is closed"),
        limit("header-list", wire::HEADER_LIST as usize, "bytes", "the connection is closed"),
        limit("handshake", wire::HANDSHAKE.as_millis() as usize, "ms", "the connection is closed"),
        limit("streams", wire::STREAMS as usize, "a connection", "the next one waits"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_limit_has_a_name_of_its_own_and_says_what_lies_beyond() {
        let all = fixed();
        assert_eq!(all.iter().map(|limit| limit.name).collect::<BTreeSet<_>>().len(), all.len());
        for limit in all {
            assert!(limit.allowed > 0 && !limit.unit.is_empty() && !limit.beyond.is_empty(), "{limit:?}");
        }
    }
}
