//! The parts in virtual time: the brains of hosts and switches over days of work, with faults, in minutes.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use sluice_scenario::{Notation, Policy, Scenario};
use sluice_schedule::Nanos;
use sluice_simulate::runs::{self, Observer, Ran, Running, RunsError, Task};

use super::slope::{Reading, Series, WARM_UP};
use super::{Part, Shown};
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::Unrun;
use crate::chaos::inventory::{descriptors, rss_mib, threads};
use crate::chaos::rows::Draws;
use crate::run::RunError;

/// Virtual times at full scale, s.
const TEN_MINUTES: f64 = 600.0;
const DAY: f64 = 86_400.0;
/// Every job ends a round within this time, also where rounds of many wait for each other.
const LONGEST_ROUNDS: Nanos = Nanos::from_millis(30_000);

/// Something that breaks every few seconds or hours, at times that a seed draws.
struct Breaking {
    draws: Draws,
    seconds: f64,
    /// The faults so far, as a scenario writes them.
    lines: String,
}

impl Breaking {
    fn new(seconds: f64, seed: u64) -> Breaking {
        Breaking { draws: Draws::new(seed), seconds, lines: String::new() }
    }

    /// Once in `every` seconds; `more`: the fault's other fields.
    fn add(mut self, kind: &str, target: &str, every: u64, more: &str) -> Breaking {
        let at = 1 + self.draws.below(every);
        let times = (self.seconds as u64 / every).clamp(1, 100_000);
        let repeats = if times > 1 { format!(", every_s = {every}, times = {times}") } else { String::new() };
        self.lines += &format!("  {{ at_s = {at}, kind = \"{kind}\", target = \"{target}\"{more}{repeats} }},\n");
        self
    }
}

/// A thousand hosts in three tiers, a job of three on most of them. No job ends before the time is over.
fn thousand_hosts(seconds: f64, seed: u64) -> String {
    let faults = Breaking::new(seconds, seed)
        .add("daemon-kill", "h0", 30, ", for_s = 3")
        .add("daemon-kill", "h501", 60, ", for_s = 10")
        .add("daemon-stop", "h250", 20, ", for_s = 0.3")
        .add("partition", "h750", 60, ", for_s = 5")
        .add("clock-skew", "h100", 90, ", for_s = 10, slots = 3")
        .add("switch-restart", "t0", 60, ", for_s = 1")
        .add("switch-restart", "e5", 120, ", for_s = 1");
    format!(
        "version = 1\nname = \"soak-thousand\"\nseed = {seed}\nfaults = [\n{}]\n\
         [time]\nmode = \"slot\"\nend_s = {seconds}\n\
         [network]\nkind = \"three-tier\"\nservers_per_rack = 10\nracks_per_edge = 10\nedges = 10\ngpus = 1\ngbps = [10, 20, 40]\n\
         [placement]\npolicy = \"packed\"\nserver_gpus = 1\n[defaults]\ncompute_scale = 0.25\n\
         [arrivals]\nkind = \"per-minute\"\nfile = \"google2011_jobs_per_minute.csv\"\nlength_s = 1\ninitial_jobs = 300\n\
         initial_spread_s = 10\nmax_jobs = 300\niterations = {}\n\
         mix = [{{ model = \"vgg19\", arch = \"ring\", workers = 3, share = 1 }}, {{ model = \"vgg16\", arch = \"ps\", workers = 2, servers = 1, share = 1 }}]\n\
         [scheduler]\nname = \"sluice\"\n",
        faults.lines,
        iterations(seconds)
    )
}

/// More than any job comes to in this time: the shortest round takes more than a tenth of a second.
fn iterations(seconds: f64) -> u64 {
    (seconds * 10.0).ceil() as u64
}

/// Eight hosts on one switch, three jobs, and something that breaks every few minutes. No job ends before the time is over.
fn eight_hosts(seconds: f64, seed: u64) -> String {
    let faults = Breaking::new(seconds, seed)
        .add("daemon-kill", "h0", 600, ", for_s = 3")
        .add("daemon-kill", "h5", 900, ", for_s = 30")
        .add("switch-restart", "s0", 1200, ", for_s = 1")
        .add("partition", "h1", 1800, ", for_s = 5")
        .add("partition", "h6", 2700, ", for_s = 60")
        .add("clock-skew", "h2", 3600, ", for_s = 10, slots = 0.5")
        .add("clock-skew", "h7", 5400, ", for_s = 10, slots = 3")
        .add("daemon-stop", "h3", 300, ", for_s = 0.3");
    let job = |id: &str, bytes: u64, arch: &str, place: &str| {
        format!(
            "[[jobs]]\nid = \"{id}\"\nbytes = {bytes}\ncompute_s = 0.5\narch = \"{arch}\"\niterations = {}\nplacement = {{ {place} }}\n",
            iterations(seconds)
        )
    };
    format!(
        "version = 1\nname = \"soak-day\"\nseed = {seed}\nfaults = [\n{}]\n[time]\nend_s = {seconds}\n\
         [network]\nkind = \"star\"\nhosts = 8\ngpus = 2\ngbps = 10\n[placement]\npolicy = \"explicit\"\nserver_gpus = 0\n\
         [control]\ndelay_us = 500\njitter_us = 200\nloss = 0.01\n{}{}{}[scheduler]\nname = \"sluice\"\n",
        faults.lines,
        job("ring", 100_000_000, "ring", "workers = [\"h0\", \"h1\", \"h2\", \"h3\"]"),
        job("ps", 80_000_000, "ps", "workers = [\"h3\", \"h4\"], servers = [\"h5\"]"),
        job("other", 120_000_000, "ring", "workers = [\"h5\", \"h6\", \"h7\", \"h0\"]"),
    )
}

/// Keeps what one task gave, and how much memory was held over its virtual time.
#[derive(Default)]
struct Look {
    ran: Option<Result<Ran, RunsError>>,
    readings: Vec<Reading>,
}

impl Observer for Look {
    fn look(&mut self, running: &[Running]) {
        let (id, now) = (std::process::id(), running.first().map(|task| task.now));
        let read = now.and_then(|now| Some((now.as_secs_f64(), rss_mib(id)?, descriptors(id)?, threads(id)?)));
        if let Some((t_s, rss_mib, descriptors, threads)) = read {
            self.readings.push(Reading { t_s, rss_mib, descriptors, threads });
        }
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
    let virtual_s = ran.outcome.end.as_secs_f64();
    // In the last tenth of the time, and no less than the longest rounds take.
    let late = Nanos((ran.outcome.end.0 / 10 * 9).min(ran.outcome.end.minus(LONGEST_ROUNDS).0));
    let jobs = ran.outcome.jobs.iter();
    let get_on = jobs.clone().filter(|job| job.rounds.last().is_some_and(|round| round.ended >= late)).count();
    let rounds: usize = jobs.clone().map(|job| job.rounds.len()).sum();
    let noted = jobs.map(|job| size_of_val(job.rounds.as_slice())).sum::<usize>()
        + size_of_val(ran.outcome.decisions.as_slice());
    let series = Series { name: "the simulation".into(), readings: look.readings };
    let shown = vec![
        Figure::exactly("jobs that end rounds in the last tenth of the time", get_on, scenario.jobs.len()),
        Figure::shown("rounds", rounds as f64, Unit::Count),
        Figure::shown("faults", scenario.faults.len() as f64, Unit::Count),
        Figure::shown("virtual time", virtual_s, Unit::Seconds),
        Figure::shown("virtual time over real time", virtual_s / wall.max(1e-9), Unit::Ratio),
        growth(&series, noted),
    ];
    Ok(Shown { part, figures: shown, series: vec![series], why: String::new() })
}

/// By how much memory grew after the warm-up, beyond what is noted of rounds and decisions: nothing of a brain grows with time.
fn growth(series: &Series, noted: usize) -> Figure {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let last = series.readings.last().map_or(0.0, |reading| reading.t_s);
    let settled = || series.readings.iter().filter(|reading| reading.t_s >= WARM_UP * last).map(|r| r.rss_mib);
    let (first, most) = (settled().next().unwrap_or(f64::NAN), settled().fold(f64::NAN, f64::max));
    let noted = mib(noted as f64);
    // A list that grows is copied into twice its room; four more for what an allocator keeps.
    Figure::at_most("memory, most less that after a fifth of the time", most - first, Unit::Mib, 3.0 * noted + 4.0)
        .noted(format!("{most:.1} MiB at most; {noted:.1} MiB are notes of rounds and decisions"))
}

/// A thousand hosts.
pub(super) fn thousand(scale: f64, seed: u64, stop: &AtomicBool) -> Result<Shown, Unrun> {
    run(Part::Thousand, &thousand_hosts(TEN_MINUTES * scale, seed), stop)
}

/// A day of eight hosts.
pub(super) fn day(scale: f64, seed: u64, stop: &AtomicBool) -> Result<Shown, Unrun> {
    run(Part::Day, &eight_hosts(DAY * scale, seed), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_get_on_to_the_end_of_a_minute_of_the_day() {
        let shown = day(1.0 / 1440.0, 3, &AtomicBool::new(false)).unwrap_or_else(|why| panic!("{why}"));
        assert!(shown.passes(), "{shown:?}");
    }

    #[test]
    fn a_thousand_hosts_and_a_day_are_scenarios_at_full_length() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        for (text, jobs) in [(thousand_hosts(TEN_MINUTES, 1), 300), (eight_hosts(DAY, 1), 3)] {
            let read = Scenario::parse(&text, Notation::Toml, "soak.toml", &data);
            assert_eq!(read.unwrap_or_else(|why| panic!("{why}")).jobs.len(), jobs);
        }
    }
}
