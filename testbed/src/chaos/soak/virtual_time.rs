//! The parts in virtual time: the brains of hosts and switches over days of work, with faults, in minutes.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use sluice_scenario::{Notation, Policy, Scenario};
use sluice_simulate::runs::{self, Observer, Ran, Running, RunsError, Task};

use super::{Part, Shown};
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::Unrun;
use crate::chaos::inventory::rss_mib;
use crate::chaos::rows::Draws;
use crate::run::RunError;

/// Virtual times at full scale, s.
const TEN_MINUTES: f64 = 600.0;
const DAY: f64 = 86_400.0;

/// A thousand hosts in three tiers, a job of three on most of them.
fn thousand_hosts(seconds: f64) -> String {
    format!(
        "version = 1\nname = \"soak-thousand\"\nseed = 1000\n[time]\nmode = \"slot\"\n\
         [network]\nkind = \"three-tier\"\nservers_per_rack = 10\nracks_per_edge = 10\nedges = 10\ngpus = 1\ngbps = [10, 20, 40]\n\
         [placement]\npolicy = \"packed\"\nserver_gpus = 1\n[defaults]\ncompute_scale = 0.25\n\
         [arrivals]\nkind = \"per-minute\"\nfile = \"google2011_jobs_per_minute.csv\"\nlength_s = 1\ninitial_jobs = 300\n\
         initial_spread_s = 10\nmax_jobs = 300\niterations = {}\n\
         mix = [{{ model = \"vgg19\", arch = \"ring\", workers = 3, share = 1 }}, {{ model = \"vgg16\", arch = \"ps\", workers = 2, servers = 1, share = 1 }}]\n\
         [scheduler]\nname = \"sluice\"\n",
        // Some 0.9 s each, alone.
        (seconds / 0.9).ceil().max(2.0)
    )
}

/// Eight hosts on one switch, three jobs, and something that breaks every few minutes, at times that a seed draws.
fn eight_hosts(seconds: f64, seed: u64) -> String {
    let mut draws = Draws::new(seed);
    let mut fault = |kind: &str, target: &str, every: u64, more: &str| {
        let at = 1 + draws.below(every);
        let times = (seconds as u64 / every).clamp(1, 100_000);
        let repeats = if times > 1 { format!(", every_s = {every}, times = {times}") } else { String::new() };
        format!("  {{ at_s = {at}, kind = \"{kind}\", target = \"{target}\"{more}{repeats} }},\n")
    };
    let faults = [
        fault("daemon-kill", "h0", 600, ", for_s = 3"),
        fault("daemon-kill", "h5", 900, ", for_s = 30"),
        fault("switch-restart", "s0", 1200, ", for_s = 1"),
        fault("partition", "h1", 1800, ", for_s = 5"),
        fault("partition", "h6", 2700, ", for_s = 60"),
        fault("clock-skew", "h2", 3600, ", for_s = 10, slots = 0.5"),
        fault("clock-skew", "h7", 5400, ", for_s = 10, slots = 3"),
        fault("daemon-stop", "h3", 300, ", for_s = 0.3"),
    ]
    .concat();
    let iterations = (seconds / 0.8).ceil().max(2.0);
    let job = |id: &str, bytes: u64, arch: &str, place: &str| {
        format!(
            "[[jobs]]\nid = \"{id}\"\nbytes = {bytes}\ncompute_s = 0.5\narch = \"{arch}\"\niterations = {iterations}\nplacement = {{ {place} }}\n"
        )
    };
    format!(
        "version = 1\nname = \"soak-day\"\nseed = {seed}\nfaults = [\n{faults}]\n\
         [network]\nkind = \"star\"\nhosts = 8\ngpus = 2\ngbps = 10\n[placement]\npolicy = \"explicit\"\nserver_gpus = 0\n\
         [control]\ndelay_us = 500\njitter_us = 200\nloss = 0.01\n{}{}{}[scheduler]\nname = \"sluice\"\n",
        job("ring", 100_000_000, "ring", "workers = [\"h0\", \"h1\", \"h2\", \"h3\"]"),
        job("ps", 80_000_000, "ps", "workers = [\"h3\", \"h4\"], servers = [\"h5\"]"),
        job("other", 120_000_000, "ring", "workers = [\"h5\", \"h6\", \"h7\", \"h0\"]"),
    )
}

/// Keeps what one task gave, and how much memory was held.
#[derive(Default)]
struct Look {
    ran: Option<Result<Ran, RunsError>>,
    most_mib: f64,
}

impl Observer for Look {
    fn look(&mut self, _running: &[Running]) {
        self.most_mib = self.most_mib.max(rss_mib(std::process::id()).unwrap_or(0.0));
    }
    fn over(&mut self, _task: usize, ran: Result<Ran, RunsError>) -> bool {
        self.ran = Some(ran);
        true
    }
}

fn run(part: Part, text: &str, stop: &AtomicBool) -> Result<Shown, Unrun> {
    let broken = |why: String| Unrun::Broken(RunError::Plan(why));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let scenario = Scenario::parse(text, Notation::Toml, "soak.toml", &data).map_err(|why| broken(why.to_string()))?;
    let policy: Policy = "sluice".parse().map_err(broken)?;
    let task = Task { scenario: &scenario, policy, profile: false };
    let (began, mut look) = (Instant::now(), Look::default());
    runs::all(std::slice::from_ref(&task), NonZeroUsize::MIN, stop, &mut look);
    let wall = began.elapsed().as_secs_f64();
    let ran = look.ran.ok_or(Unrun::Broken(RunError::Interrupted))?.map_err(|why| broken(why.to_string()))?;
    let figures = &ran.result.result.figures;
    let ends = figures.jobs.iter().map(|job| job.figures.end_s);
    let virtual_s = ends.fold(0.0, f64::max);
    let done = figures.jobs.iter().filter(|job| job.figures.end_s > 0.0).count();
    let shown = vec![
        Figure::exactly("jobs that ended with all their rounds", done, scenario.jobs.len()),
        Figure::shown("virtual time", virtual_s, Unit::Seconds),
        Figure::shown("virtual time over real time", virtual_s / wall.max(1e-9), Unit::Ratio),
        Figure::at_most("memory of all brains and what was noted of them", look.most_mib, Unit::Mib, 4096.0),
    ];
    Ok(Shown { part, figures: shown, series: Vec::new(), why: String::new() })
}

/// A thousand hosts.
pub(super) fn thousand(scale: f64, stop: &AtomicBool) -> Result<Shown, Unrun> {
    run(Part::Thousand, &thousand_hosts(TEN_MINUTES * scale), stop)
}

/// A day of eight hosts.
pub(super) fn day(scale: f64, seed: u64, stop: &AtomicBool) -> Result<Shown, Unrun> {
    run(Part::Day, &eight_hosts(DAY * scale, seed), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_the_day_ends_with_all_its_rounds() {
        let shown = day(1.0 / 1440.0, 3, &AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
        assert!(shown.passes(), "{shown:?}");
    }

    #[test]
    fn a_thousand_hosts_and_a_day_are_scenarios_at_full_length() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        for (text, jobs) in [(thousand_hosts(TEN_MINUTES), 300), (eight_hosts(DAY, 1), 3)] {
            let read = Scenario::parse(&text, Notation::Toml, "soak.toml", &data);
            assert_eq!(read.unwrap_or_else(|why| panic!("{why}")).jobs.len(), jobs);
        }
    }
}
