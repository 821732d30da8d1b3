//! A fabric with daemons and one running job, for experiments that do things to the daemons while bytes move.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use sluice_schedule::Nanos;

use super::Bench;
pub use super::looks::FlowSample;
use super::looks::{least_bin, longest_silence, looks, means};
use crate::fabric::{Fabric, FabricSpec};
use crate::job;
use crate::job::report::Line;
use crate::run::daemons::Daemons;
use crate::run::launch::{FromMember, Output, RunningJob, Sockets};
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan, Session};

/// An iteration of one member. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// The member's place in the job, workers first.
    pub rank: usize,
    /// When it began to compute.
    pub began_ns: u64,
    /// When its round was over.
    pub ended_ns: u64,
}

/// Fabric, daemons and the first job of a plan, running.
#[derive(Debug)]
pub struct Live {
    job: RunningJob,
    /// The daemons, one a host.
    pub daemons: Daemons,
    /// The network that all of them run on.
    pub fabric: Fabric,
    /// All samples so far.
    pub samples: Vec<FlowSample>,
    /// All iterations so far, in the order in which members told of them.
    pub iterations: Vec<Iteration>,
    /// Segments that members which have done all their rounds sent again.
    pub retransmits: u64,
    /// Members that have done all their rounds.
    done: usize,
    from: Receiver<FromMember>,
    /// Jobs beside the first, which nobody listens to.
    beside: Vec<(RunningJob, Receiver<FromMember>)>,
}

/// Starts a job, and returns once its members have connected and begun.
pub(super) fn launch(
    fabric: &Fabric,
    session: &Session<'_>,
    spec: &JobPlan,
    place: &Placement,
    sockets: &Sockets,
) -> Result<(RunningJob, Receiver<FromMember>), RunError> {
    let (to, from) = mpsc::channel();
    let mut job = RunningJob::launch(fabric, session, (0, spec), place, sockets, &to)?;
    let mut connected = 0;
    let deadline = Instant::now() + Duration::from_secs(30);
    while connected < job.hosts.len() {
        let FromMember { rank, output, .. } = from
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .map_err(|_| RunError::Plan("the job's members did not connect within 30 s".into()))?;
        match output {
            Output::Line(Line::Connected { .. }) => connected += 1,
            Output::Line(Line::Failed { what }) | Output::Ended(what) => {
                return Err(failed(fabric, job.hosts[rank], rank, what));
            }
            Output::Line(_) => {}
        }
    }
    job.start(Nanos(job::now() + 1_000_000));
    Ok((job, from))
}

fn failed(fabric: &Fabric, host: usize, rank: usize, what: String) -> RunError {
    RunError::Job { job: "live".into(), rank, host: fabric.hosts[host].name.clone(), what }
}

impl Live {
    /// Starts everything; returns once the job's members have begun. Samples come every `sample_ms`.
    ///
    /// # Errors
    /// As a run.
    pub fn start(
        bench: &Bench<'_>,
        plan: &RunPlan,
        place: &Placement,
        policy: &Policy,
        sample_ms: u64,
    ) -> Result<Live, RunError> {
        Live::start_believing(bench, plan, place, policy, sample_ms, |_| {})
    }

    /// The same with daemons and switches that believe in another fabric: `believed` makes it of the one that is there.
    ///
    /// # Errors
    /// As a run.
    pub fn start_believing(
        bench: &Bench<'_>,
        plan: &RunPlan,
        place: &Placement,
        policy: &Policy,
        sample_ms: u64,
        believed: impl FnOnce(&mut FabricSpec),
    ) -> Result<Live, RunError> {
        let mut fabric = Fabric::build(plan.fabric.clone())?;
        let session = bench.session("live")?;
        believed(&mut fabric.spec);
        let daemons = Daemons::start(&fabric, plan, policy, &session);
        fabric.spec = plan.fabric.clone();
        let daemons = daemons?;
        let progress = plan.pages.dirs(daemons.progress_dirs());
        let sockets = Sockets { tcp: Some(plan.tcp.clone()), progress, sample_ms, sample_flows: true };
        let spec = plan.jobs.first().ok_or_else(|| RunError::Plan("no job".into()))?;
        let (job, from) = launch(&fabric, &session, spec, place, &sockets)?;
        Ok(Live {
            job,
            daemons,
            fabric,
            samples: Vec::new(),
            iterations: Vec::new(),
            retransmits: 0,
            done: 0,
            from,
            beside: Vec::new(),
        })
    }

    /// Starts another job of the plan beside the first; what its members say is not kept. A member's port goes by its place in the
    /// job: no host may have members of two jobs in the same place.
    ///
    /// # Errors
    /// As a run.
    pub fn start_beside(
        &mut self,
        bench: &Bench<'_>,
        plan: &RunPlan,
        job: usize,
        place: &Placement,
    ) -> Result<(), RunError> {
        let session = bench.session("live")?;
        let progress = plan.pages.dirs(self.daemons.progress_dirs());
        let sockets = Sockets { tcp: Some(plan.tcp.clone()), progress, ..Sockets::default() };
        let spec = plan.jobs.get(job).ok_or_else(|| RunError::Plan(format!("no job {job}")))?;
        self.beside.push(launch(&self.fabric, &session, spec, place, &sockets)?);
        Ok(())
    }

    /// Ends the jobs beside the first at once.
    pub fn end_beside(&mut self) {
        self.beside.clear();
    }

    /// Process id of a member of the first job; `None`: there is no such member.
    pub fn pid(&self, rank: usize) -> Option<u32> {
        self.job.pid(rank)
    }

    /// Lets everything run for `time`, collecting samples.
    ///
    /// # Errors
    /// When the job failed.
    pub fn run_for(&mut self, time: Duration) -> Result<(), RunError> {
        let end = Instant::now() + time;
        while let Ok(message) = self.from.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.note(message)?;
        }
        Ok(())
    }

    /// Runs until every flow of member `rank` has been seen as `managed` in one sample; when that was, ns.
    ///
    /// # Errors
    /// When it does not happen within `time`, or the job failed.
    pub fn until(&mut self, rank: usize, managed: bool, time: Duration) -> Result<u64, RunError> {
        let what = if managed { "captured" } else { "released" };
        self.until_sample(rank, time, what, |sample| sample.flows.iter().all(|flow| flow.1 == managed))
    }

    /// Runs until nineteen of twenty flows of member `rank` have been seen as managed in one sample; when that was, ns. Of many
    /// flows some have been given back for what they lost, at any time.
    ///
    /// # Errors
    /// When it does not happen within `time`, or the job failed.
    pub fn until_captured(&mut self, rank: usize, time: Duration) -> Result<u64, RunError> {
        self.until_sample(rank, time, "captured", |sample| {
            sample.flows.iter().filter(|flow| flow.1).count() * 20 >= sample.flows.len() * 19
        })
    }

    /// Runs until every flow of member `rank` that has something to send has been seen under plain TCP in one sample; when
    /// that was, ns. An acknowledgement gives a flow back: one that waits for others has none to come.
    ///
    /// # Errors
    /// When it does not happen within `time`, or the job failed.
    pub fn until_plain(&mut self, rank: usize, time: Duration) -> Result<u64, RunError> {
        self.until_sample(rank, time, "released", |sample| {
            (0..sample.flows.len()).all(|flow| !sample.flows[flow].1 || !sample.is_unsent(flow))
        })
    }

    fn until_sample(
        &mut self,
        rank: usize,
        time: Duration,
        what: &str,
        so: impl Fn(&FlowSample) -> bool,
    ) -> Result<u64, RunError> {
        let (end, mut seen) = (Instant::now() + time, self.samples.len());
        loop {
            if let Some(sample) = self.samples[seen..].iter().find(|sample| sample.rank == rank && so(sample)) {
                return Ok(sample.t_ns);
            }
            seen = self.samples.len();
            if Instant::now() > end {
                let last = self.samples.iter().rev().find(|sample| sample.rank == rank);
                let (managed, all) =
                    last.map_or((0, 0), |last| (last.flows.iter().filter(|flow| flow.1).count(), last.flows.len()));
                return Err(RunError::Plan(format!(
                    "not all flows of member {rank} were {what} within {time:?}: {managed} of {all} are managed"
                )));
            }
            self.run_for(Duration::from_millis(5))?;
        }
    }

    /// Runs until every member has done all its rounds, with every byte right.
    ///
    /// # Errors
    /// When they have not within `time`, or the job failed.
    pub fn until_done(&mut self, time: Duration) -> Result<(), RunError> {
        let end = Instant::now() + time;
        while !self.is_done() {
            if Instant::now() > end {
                let (done, all) = (self.done, self.job.hosts.len());
                return Err(RunError::Plan(format!("{done} of {all} members were done within {time:?}")));
            }
            self.run_for(Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// Has every member done all its rounds?
    pub fn is_done(&self) -> bool {
        self.done == self.job.hosts.len()
    }

    fn note(&mut self, message: FromMember) -> Result<(), RunError> {
        let FromMember { rank, output, .. } = message;
        match output {
            Output::Line(Line::Sample { t_ns, flows, unsent, .. }) => {
                self.samples.push(FlowSample { t_ns, rank, flows, unsent });
            }
            Output::Line(Line::Iteration { compute_start_ns: began_ns, round_end_ns: ended_ns, .. }) => {
                self.iterations.push(Iteration { rank, began_ns, ended_ns });
            }
            Output::Line(Line::Done { flows }) => {
                self.done += 1;
                self.retransmits += flows.iter().map(|flow| u64::from(flow.retransmits)).sum::<u64>();
            }
            Output::Ended(what) if self.done > 0 && what.trim().is_empty() => {}
            Output::Line(Line::Failed { what }) | Output::Ended(what) => {
                return Err(failed(&self.fabric, self.job.hosts[rank], rank, what));
            }
            Output::Line(_) => {}
        }
        Ok(())
    }

    /// The longest time, ms, for which some flow of member `rank` had something to send and no byte of it acknowledged,
    /// within `from..to` (ns). NaN: none had anything to send at two looks in a row, so nothing was measured.
    pub fn longest_silence(&self, rank: usize, from: u64, to: u64) -> f64 {
        longest_silence(&looks(&self.samples, rank, from, to))
    }

    /// The least that member `rank` got acknowledged in 10 ms of `from..to` (ns), as a part of what those of its flows
    /// that had something to send got on average over `base`. NaN: none had in both, so nothing was measured.
    pub fn least_bin(&self, rank: usize, (from, to): (u64, u64), base: (u64, u64)) -> f64 {
        let base = means(&looks(&self.samples, rank, base.0, base.1));
        least_bin(&looks(&self.samples, rank, from, to), &base)
    }

    /// Payload rate of member `rank` over `from..to` (ns), Mbit/s.
    pub fn rate(&self, rank: usize, from: u64, to: u64) -> f64 {
        let total = |s: &FlowSample| s.flows.iter().map(|f| f.0).sum::<u64>();
        let mut mine = self.samples.iter().filter(|s| s.rank == rank && s.t_ns >= from && s.t_ns <= to);
        let (Some(first), Some(last)) = (mine.next(), mine.next_back()) else { return 0.0 };
        let ns = last.t_ns.saturating_sub(first.t_ns).max(1);
        total(last).saturating_sub(total(first)) as f64 * 8e3 / ns as f64
    }
}
