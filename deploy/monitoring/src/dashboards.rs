//! The four dashboards, and the pieces of expressions that they share.

mod cluster;
mod host;
mod job;
mod switch;

use crate::dashboard::Dashboard;

/// A dashboard as others link to it.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// Of its file.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
}

/// All of them, in the order in which links show them.
pub const NAMES: [Name; 4] = [
    Name { name: "cluster", title: "Sluice: cluster" },
    Name { name: "host", title: "Sluice: host" },
    Name { name: "job", title: "Sluice: job" },
    Name { name: "switch", title: "Sluice: switches" },
];

/// All of them.
pub fn all() -> Vec<Dashboard> {
    vec![cluster::dashboard(), host::dashboard(), job::dashboard(), switch::dashboard()]
}

/// Only what comes from hosts of the chosen clusters: the cluster is a label of one metric, and no other.
fn here(expr: &str) -> String {
    format!("({expr} and on (instance) sluice_cluster_info{{cluster=~\"$cluster\"}})")
}

/// Growth per second of a counter on those hosts.
fn rate(selector: &str) -> String {
    here(&format!("rate({selector}[$__rate_interval])"))
}

/// A quantile of a histogram's growth on those hosts.
fn quantile(part: f64, histogram: &str) -> String {
    format!("histogram_quantile({part}, sum by (le) {})", rate(&format!("{histogram}_bucket")))
}

/// The mode of hosts that had another one a step before.
fn mode_changes(host: &str) -> String {
    let before = format!("sluice_mode{host} offset $__interval");
    here(&format!("(sluice_mode{host} == 1) unless on (instance, mode) ({before} == 1) and on (instance) ({before})"))
}
