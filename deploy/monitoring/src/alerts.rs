//! The alerts, each with its unit test. What to do about one stands in docs/runbooks.md under its name.
//!
//! None has a severity that wakes somebody: Sluice fails open, so jobs run as without it while an alert stands.

mod cluster;
mod host;

use crate::rules::{Alert, Series};

/// All of them: those of one host, then those of links, switches and the cluster.
pub fn alerts() -> Vec<Alert> {
    [host::alerts(), cluster::alerts()].concat()
}

const fn series(series: &'static str, values: &'static str) -> Series {
    Series { series, values }
}

/// The host of unit tests.
const H1: (&str, &str) = ("instance", "h1:9605");
/// The scrape job of hosts.
const SLUICED: (&str, &str) = ("job", "sluiced");
