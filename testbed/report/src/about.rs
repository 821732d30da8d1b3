//! What was run, on what, when: the facts that every figure needs beside it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_scenario::arrivals::isolated_s;
use sluice_scenario::{NodeIx, Scenario};

use crate::job::JobFigures;

/// The facts about the runs of one invocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the scenario's draws.
    pub seed: u64,
    /// Factor on compute times.
    pub compute_scale: f64,
    /// Divisor of rates and bytes.
    pub scale: f64,
    /// Rate of a host's NIC as it ran, bit/s.
    pub nic: f64,
    /// Number of jobs in the scenario.
    pub jobs: usize,
    /// The command line that made the figures.
    pub command: String,
    /// Version of this program.
    pub version: String,
    /// The machine: CPUs, memory, kernel.
    pub machine: String,
    /// When it was gathered: UTC, `2026-01-31 12:00`.
    pub date: String,
    /// Isolated run time of each job by id, seconds, worked out for an empty network.
    pub isolated: BTreeMap<String, f64>,
}

impl About {
    /// The facts about a scenario as it is run (after [`Scenario::for_testbed`]), on this machine, now.
    pub fn gather(scenario: &Scenario, command: &str) -> About {
        let nic = scenario.network.nic(NodeIx(0));
        let alone = |j: &sluice_scenario::Job| {
            let round = isolated_s(j.arch, j.bytes, j.workers, j.servers, nic);
            (j.id.clone(), f64::from(j.iterations) * (j.compute.as_secs_f64() + round))
        };
        About {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            compute_scale: scenario.defaults.compute_scale.to_f64(),
            scale: scenario.testbed.scale.to_f64(),
            nic: nic.0 as f64,
            jobs: scenario.jobs.len(),
            command: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine(),
            date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())),
            isolated: scenario.jobs.iter().map(alone).collect(),
        }
    }

    /// Run time over isolated run time.
    pub fn slowdown(&self, job: &JobFigures) -> Option<f64> {
        self.isolated.get(&job.id).filter(|s| **s > 0.0).map(|s| job.run_time_s / s)
    }
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|l| l.starts_with(key))?;
        line.split_once(':').map(|(_, v)| v.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|v| v.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kb| kb / f64::from(1 << 20));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cpus} × {model}, {memory:.0} GiB, Linux {}", kernel.trim())
}

/// Seconds since 1970 as `YYYY-MM-DD hh:mm`, UTC.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years of 365.2425 days that begin in March, so that the leap day is the last one.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_826_500), "2000-02-29 12:15 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
    }
}
