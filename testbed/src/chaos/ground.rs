//! What rows stand on: a fabric with daemons and a job whose rounds take half a minute, and what is seen of its flows.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_wire::snapshot::{ConditionCode, FlowState, Snapshot};

use super::{given_back, halves};
use crate::experiment::Bench;
use crate::experiment::capacity::queue;
use crate::experiment::live::Live;
use crate::fabric::FabricSpec;
use crate::job::{self, Arch};
use crate::run::{Binaries, JobPlan, Placement, Policy, RunError, RunPlan, write};

/// Hosts of the usual fabric: one that sends and those that receive.
pub const HOSTS: usize = 4;
/// Connections that one process of a job opens.
const FLOWS_EACH: usize = 1024;
/// Of a round. Each member holds all of it: gigabytes take longer to fill than flows have to be captured.
const MAX_ROUND: Bytes = Bytes(512 << 20);
/// For flows to be captured, on a machine that builds at the same time.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// With more flows than this not all are managed soon.
const MANY: usize = 1024;
/// Rows of a host's table, of 4096, that one user may have: the last eighth is for others.
const OF_A_USER: usize = 4096 - 4096 / 8;
/// Why of 4096 flows not all are managed, for notes.
pub const OF_MANY: &str = "of a table of 4,096 rows one user may have 3,584";

/// How large a row is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As the table says.
    Full,
    /// Fewer cases and repeats, so that the core rows together take some seven minutes.
    Core,
    /// One small case of each kind, for the tests that always run.
    Small,
}

/// What every row is given.
#[derive(Debug)]
pub struct Ground<'a> {
    /// Programs and a directory.
    pub bench: &'a Bench<'a>,
    /// Of the choices that are drawn.
    pub seed: u64,
    /// How large.
    pub size: Size,
    /// The programs of other builds, for rolling upgrades.
    pub others: &'a [Binaries],
    /// Cells of B1 by name; none: the usual three.
    pub cells: &'a [String],
    /// How long a row that has no end of its own takes.
    pub minutes: f64,
}

/// Why a row has no figures.
#[derive(Debug, thiserror::Error)]
pub enum Unrun {
    /// This machine lacks something, or nobody gave it.
    #[error("{0}")]
    Lacks(String),
    /// Something that the row needs did not work.
    #[error(transparent)]
    Broken(#[from] RunError),
}

impl From<crate::fabric::FabricError> for Unrun {
    fn from(error: crate::fabric::FabricError) -> Unrun {
        Unrun::Broken(error.into())
    }
}

/// Flows, links and settings of a stage.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What its files are called.
    pub name: String,
    /// Flows that host 0 sends, to the others by turns.
    pub flows: usize,
    /// Link rate.
    pub rate: Rate,
    /// How often the job tells of its flows, ms.
    pub sample_ms: u64,
    /// Each switch has a process in its own namespace.
    pub own_switches: bool,
    /// The kernel's floor of the daemons, where not their default.
    pub floor: Option<Rate>,
    /// Congestion control that the job asks for.
    pub tcp: String,
    /// More settings of every daemon, TOML text.
    pub more: String,
    /// Every daemon is a brain without privileges and a helper.
    pub split: bool,
}

impl Setting {
    /// So many flows on links of this rate, looked at as often as their number bears.
    pub fn of(name: &str, flows: usize, rate: Rate) -> Setting {
        Setting {
            name: name.into(),
            flows,
            rate,
            sample_ms: if flows > 64 { 20 } else { 4 },
            own_switches: false,
            floor: None,
            tcp: "cubic".into(),
            more: String::new(),
            split: false,
        }
    }

    /// A parameter-server job without an end: workers on host 0, servers on the others.
    pub fn plan(&self) -> (RunPlan, Placement) {
        let fabric = FabricSpec::star(HOSTS, self.rate, queue(self.rate));
        // A round of half a minute, so that data is there to send nearly always; a flow that has done its part waits.
        let bytes = fabric.payload(self.rate).over(Nanos::from_millis(30_000)).min(MAX_ROUND);
        let workers = self.flows.div_ceil(FLOWS_EACH).max(1);
        let servers = self.flows.div_ceil(workers);
        let job = JobPlan { arch: Arch::Ps, servers, ..JobPlan::ring("steady", workers, bytes, 10_000) };
        let place =
            Placement { workers: vec![0; workers], servers: (0..servers).map(|i| 1 + i % (HOSTS - 1)).collect() };
        let plan = RunPlan {
            name: self.name.clone(),
            fabric,
            jobs: vec![job],
            learned_routes: self.own_switches,
            floor: self.floor,
            tcp: self.tcp.clone(),
            daemon_extra: if self.split { halves::SPLIT.into() } else { String::new() },
            ..RunPlan::default()
        };
        (plan, place)
    }
}

/// A stage: everything of a [`Setting`], running and captured.
#[derive(Debug)]
pub struct Stage {
    /// Fabric, daemons, job.
    pub live: Live,
    /// What was asked for.
    pub plan: RunPlan,
    /// Where its files are.
    pub dir: PathBuf,
}

impl Ground<'_> {
    /// One of two sizes; the core's is the full one.
    pub fn sized<T>(&self, full: T, small: T) -> T {
        if self.size == Size::Small { small } else { full }
    }

    /// One of three sizes.
    pub fn core_sized<T>(&self, full: T, core: T, small: T) -> T {
        match self.size {
            Size::Full => full,
            Size::Core => core,
            Size::Small => small,
        }
    }

    /// The same programs with a directory of its own for a stage, emptied.
    pub fn bench(&self, name: &str) -> Result<Bench<'_>, RunError> {
        let dir = self.bench.dir.join(name);
        // What an earlier try left would be read as settings.
        drop(std::fs::remove_dir_all(&dir));
        std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        Ok(Bench { binaries: self.bench.binaries, dir, stop: self.bench.stop })
    }

    /// Starts everything and waits until all flows of host 0 are captured and have settled.
    ///
    /// # Errors
    /// [`Unrun::Lacks`] where the kernel enforces nothing; otherwise as a run.
    pub fn stage(&self, setting: &Setting) -> Result<Stage, Unrun> {
        self.stage_with(setting, |_| {})
    }

    /// The same, with a plan that is changed first.
    ///
    /// # Errors
    /// As [`Ground::stage`].
    pub fn stage_with(&self, setting: &Setting, change: impl FnOnce(&mut RunPlan)) -> Result<Stage, Unrun> {
        let bench = self.bench(&setting.name)?;
        let (mut plan, place) = setting.plan();
        change(&mut plan);
        let dir = bench.dir.join("live");
        if !setting.more.is_empty() {
            for host in &plan.fabric.hosts {
                also(&dir, host, &setting.more)?;
            }
        }
        if setting.split {
            let hosts: Vec<String> = plan.fabric.hosts.clone();
            halves::give_away(&dir, &hosts)?;
        }
        let live = Live::start(&bench, &plan, &place, &sluice(), setting.sample_ms)?;
        let mut stage = Stage { live, plan, dir };
        stage.captured()?;
        stage.live.run_for(Duration::from_secs(2))?;
        Ok(stage)
    }
}

/// The policy of all rows.
pub fn sluice() -> Policy {
    Policy::Sluice { policy: None, nic: false }
}

/// More settings of a host's daemon: what it reads after its own file. `dir` is the session's.
///
/// # Errors
/// The file cannot be written.
pub fn also(dir: &Path, host: &str, text: &str) -> Result<(), RunError> {
    let drop_in = dir.join(format!("run-{host}/state/sluiced.d"));
    std::fs::create_dir_all(&drop_in).map_err(RunError::io(format!("creating {}", drop_in.display())))?;
    write(&drop_in.join("10-chaos.toml"), text)
}

/// Milliseconds between two times of CLOCK_MONOTONIC in ns.
pub fn ms(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

impl Stage {
    /// Waits until all flows of host 0 are managed, or nineteen of twenty where there are more; when that was, ns.
    ///
    /// # Errors
    /// [`Unrun::Lacks`] where the kernel enforces nothing; otherwise it did not happen in time, or the job failed.
    pub fn captured(&mut self) -> Result<u64, Unrun> {
        match self.live.until_captured(0, PATIENCE) {
            Ok(at) => Ok(at),
            Err(why) if self.holds(0, ConditionCode::EnforcementNone) => {
                Err(Unrun::Lacks(format!("nothing is enforced here: {why}")))
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Waits until so many flows of host 0 are managed, or for so long: for more of them than [`Stage::captured`] may wait for.
    ///
    /// # Errors
    /// [`Unrun::Lacks`] where the kernel enforces nothing; otherwise the job failed.
    pub fn many_captured(&mut self, flows: usize, patience: Duration) -> Result<(), Unrun> {
        let began = Instant::now();
        // A daemon with thousands of flows takes long to tell of them, so it is not asked all the time.
        while self.managed(0) < flows && began.elapsed() < patience {
            self.live.run_for(Duration::from_secs(1))?;
        }
        if self.holds(0, ConditionCode::EnforcementNone) {
            return Err(Unrun::Lacks("nothing is enforced here".into()));
        }
        Ok(())
    }

    /// Flows of the job's workers that `sluice` drives, by what each of them said last. Connections of others are none of
    /// them, though the daemon of host 0 may manage those as well.
    pub fn driven(&self) -> usize {
        let workers = self.plan.jobs.first().map_or(0, |job| job.workers);
        let last = (0..workers).filter_map(|rank| self.live.samples.iter().rfind(|sample| sample.rank == rank));
        last.map(|sample| sample.flows.iter().filter(|flow| flow.1).count()).sum()
    }

    /// What a host's daemon says of itself; `None`: it does not answer.
    pub fn snapshot(&self, host: usize) -> Option<Snapshot> {
        serde_json::from_str(&self.live.daemons.get(host, "/api/v1/snapshot")?).ok()
    }

    /// Does a host's daemon say that this holds?
    pub fn holds(&self, host: usize, code: ConditionCode) -> bool {
        self.snapshot(host).is_some_and(|seen| seen.conditions.iter().any(|condition| condition.code == code))
    }

    /// Lets the job run until something is so of what a host's daemon says; how long that took, ms. `None`: not in this time.
    ///
    /// # Errors
    /// The job failed.
    pub fn until(
        &mut self,
        host: usize,
        time: Duration,
        mut so: impl FnMut(&Snapshot) -> bool,
    ) -> Result<Option<f64>, RunError> {
        let began = Instant::now();
        loop {
            if self.snapshot(host).is_some_and(|seen| so(&seen)) {
                return Ok(Some(began.elapsed().as_secs_f64() * 1e3));
            }
            if began.elapsed() > time {
                return Ok(None);
            }
            self.live.run_for(Duration::from_millis(10))?;
        }
    }

    /// Flows of a host that its daemon says it manages.
    pub fn managed(&self, host: usize) -> usize {
        self.snapshot(host).map_or(0, |seen| seen.flows_in(FlowState::Managed))
    }

    /// How long each flow of host 0 with something to send was managed after `from`, ms: until it was under plain TCP.
    /// Flows that still are count as the time until now.
    pub fn released(&self, from: u64) -> Vec<f64> {
        self.released_within(from, u64::MAX)
    }

    /// The same of what was seen until `to`.
    pub fn released_within(&self, from: u64, to: u64) -> Vec<f64> {
        given_back::released(&given_back::mine(&self.live.samples, from, to), from)
    }

    /// Waits until no flow of host 0 that has something to send is managed.
    ///
    /// # Errors
    /// Not within twenty seconds, or the job failed.
    pub fn plain(&mut self) -> Result<u64, RunError> {
        self.live.until_plain(0, Duration::from_secs(20))
    }

    /// The longest silence of a flow of host 0, ms, as [`Live::longest_silence`].
    pub fn silence(&self, from: u64, to: u64) -> f64 {
        self.live.longest_silence(0, from, to)
    }

    /// The least that host 0's flows got acknowledged in 10 ms, as a part of their mean over `base`, as
    /// [`Live::least_bin`].
    pub fn least_bin(&self, within: (u64, u64), base: (u64, u64)) -> f64 {
        self.live.least_bin(0, within, base)
    }

    /// Starts a host's daemon again as if it had not been killed often: a loop of crashes is another row's subject.
    ///
    /// # Errors
    /// As [`crate::run::daemons::Daemons::start`].
    pub fn restart(&mut self, host: usize) -> Result<(), RunError> {
        // Absent is as good.
        let _ = std::fs::remove_file(self.live.daemons.hosts[host].run_dir.join("starts.json"));
        self.live.daemons.restart(&self.live.fabric, host)
    }

    /// Lines with this event in a host's log.
    pub fn logged(&self, host: usize, event: &str) -> Vec<String> {
        let log = self.live.daemons.config(host).with_extension("log");
        logged(&log, event)
    }

    /// Time now, as samples have it.
    pub fn now() -> u64 {
        job::now()
    }
}

/// What lines with this event in a log of JSON lines say.
pub fn logged(log: &Path, event: &str) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["event"] == event).map(|line| line.to_string()).collect()
}

/// How often a fault of a run was struck, by the run's notes: one that comes again and again is told of once, and how often
/// it came again at the end.
pub fn struck(notes: &[String], what: &str) -> usize {
    let began = notes.iter().filter(|note| note.ends_with(&format!(": {what} begins"))).count();
    let times = |note: &String| {
        let times = note.strip_prefix(what)?.strip_prefix(" came ")?.strip_suffix(" more times")?;
        times.parse::<usize>().ok()
    };
    began + notes.iter().filter_map(times).sum::<usize>()
}

/// How many of so many flows of one user must be managed in the end.
pub fn must_be_managed(flows: usize) -> usize {
    flows.min(OF_A_USER) * 19 / 20
}

/// How many of them soon. A connection of little traffic counts as a job's flow only after some of it, which with thousands on a
/// link takes a minute or more.
pub fn must_be_managed_soon(flows: usize) -> usize {
    if flows > MANY { flows * 3 / 4 } else { must_be_managed(flows) }
}

/// The bound of P-2, ms: two segments at the floor and 20 ms, or three round trips (which these links keep below that).
pub fn silence_bound(floor: Rate) -> f64 {
    20.0 + 2.0 * 1500.0 * 8e3 / floor.0.max(1) as f64
}

/// A ring whose rounds take about so long alone on links of this rate, with a pause to compute between them.
pub fn ring(name: &str, workers: usize, rate: Rate, round: Nanos, compute: Nanos) -> JobPlan {
    let bytes = Bytes(rate.over(round).0.max(4));
    JobPlan { compute: vec![compute], ..JobPlan::ring(name, workers, bytes, 1_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_segments_at_the_floor_and_twenty_milliseconds() {
        assert!((silence_bound(Rate::mbps(10)) - 22.4).abs() < 1e-9);
        assert!((silence_bound(Rate::mbps(1)) - 44.0).abs() < 1e-9);
    }

    #[test]
    fn faults_that_come_again_are_counted_by_the_last_note() {
        let notes = [
            "1.0 s: switch-restart of s0 begins",
            "1.2 s: switch-restart of s0 over",
            "1.4 s: daemon-kill of h0 begins",
            "switch-restart of s0 came 4 more times",
            "2 of 7 faults would have come after the end",
        ]
        .map(str::to_owned);
        let of = |what| struck(&notes, what);
        assert_eq!([of("switch-restart of s0"), of("daemon-kill of h0"), of("daemon-kill of h1")], [5, 1, 0]);
        assert_eq!(struck(&[], "switch-restart of s0"), 0);
    }

    #[test]
    fn of_thousands_of_flows_those_that_a_user_may_have_must_be_managed() {
        assert_eq!([4096, 512, 64].map(must_be_managed), [3404, 486, 60]);
        assert_eq!([4096, 512, 64].map(must_be_managed_soon), [3072, 486, 60]);
    }

    #[test]
    fn more_flows_than_a_process_opens_are_several_processes() {
        let (plan, place) = Setting::of("many", 4096, Rate::mbps(500)).plan();
        assert_eq!((plan.jobs[0].workers, plan.jobs[0].servers), (4, 1024));
        assert_eq!((place.workers.len(), place.servers.len()), (4, 1024));
        assert!(place.servers.iter().all(|host| (1..HOSTS).contains(host)));
    }
}
