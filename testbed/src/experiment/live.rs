//! A fabric with daemons and one running job, for experiments that do things to the daemons while bytes move.
//!
//! A flow is silent while it has something to send and nothing of it is acknowledged: bytes that its member may send
//! and the kernel does not take, or that the kernel holds, sent or not. One whose part of a round is done, and that
//! waits for others, is not silent, however long that takes. What flows do is known at looks, every so many milliseconds
//! also while nothing moves; a flow counts between two looks at both of which it has something to send.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use sluice_schedule::Nanos;

use super::Bench;
use crate::fabric::{Fabric, FabricSpec};
use crate::job;
use crate::job::report::Line;
use crate::run::daemons::Daemons;
use crate::run::launch::{FromMember, Output, RunningJob, Sockets};
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan, Session};

/// What the outgoing flows of one member were like at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSample {
    /// CLOCK_MONOTONIC, ns.
    pub t_ns: u64,
    /// The member's place in the job, workers first.
    pub rank: usize,
    /// Acknowledged bytes of each outgoing flow, and whether `sluice` drives it.
    pub flows: Vec<(u64, bool)>,
    /// Whether each of them has something to send: bytes that are not acknowledged, in the kernel or with the member.
    pub unsent: Vec<bool>,
}

impl FlowSample {
    /// Has this flow something to send?
    pub fn is_unsent(&self, flow: usize) -> bool {
        self.unsent.get(flow).copied().unwrap_or_default()
    }

    /// Bytes of this flow that were acknowledged; a flow that is not there has none.
    pub fn acked(&self, flow: usize) -> u64 {
        self.flows.get(flow).map_or(0, |f| f.0)
    }
}

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
        let (end, mut seen) = (Instant::now() + time, self.samples.len());
        loop {
            let new = &self.samples[seen..];
            let all = |s: &&FlowSample| s.rank == rank && s.flows.iter().all(|f| f.1 == managed);
            if let Some(sample) = new.iter().find(all) {
                return Ok(sample.t_ns);
            }
            seen = self.samples.len();
            if Instant::now() > end {
                let what = if managed { "captured" } else { "released" };
                return Err(RunError::Plan(format!("not all flows of member {rank} were {what} within {time:?}")));
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

/// What a member's flows were like at a time.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    /// CLOCK_MONOTONIC, ns.
    t_ns: u64,
    sample: &'a FlowSample,
}

/// The looks at member `rank` within `from..to` (ns). What was last seen before that counts as seen at its begin, so
/// that a silence which began earlier counts from there.
fn looks(samples: &[FlowSample], rank: usize, from: u64, to: u64) -> Vec<Look<'_>> {
    let mine = || samples.iter().filter(move |s| s.rank == rank && s.t_ns <= to);
    let before = mine().rfind(|s| s.t_ns < from).map(|sample| Look { t_ns: from, sample });
    let within = mine().filter(|s| s.t_ns >= from).map(|sample| Look { t_ns: sample.t_ns, sample });
    before.into_iter().chain(within).collect()
}

fn flows(looks: &[Look<'_>]) -> usize {
    looks.first().map_or(0, |look| look.sample.flows.len())
}

/// The longest silence of a flow, ms; NaN: none ever had something to send.
fn longest_silence(looks: &[Look<'_>]) -> f64 {
    let mut longest: Option<u64> = None;
    for flow in 0..flows(looks) {
        // The look at which it was last seen to move, or to have something to send at all.
        let mut since: Option<&Look<'_>> = None;
        for look in looks {
            if !look.sample.is_unsent(flow) {
                since = None;
                continue;
            }
            longest = longest.max(since.map(|since| look.t_ns.saturating_sub(since.t_ns)));
            since = since.filter(|since| since.sample.acked(flow) == look.sample.acked(flow)).or(Some(look));
        }
    }
    longest.map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

/// What each flow got acknowledged on average while any had something to send, bytes a nanosecond. Empty: none had.
fn means(looks: &[Look<'_>]) -> Vec<f64> {
    let mut bytes = vec![0; flows(looks)];
    let mut time = 0;
    for pair in looks.windows(2) {
        let is_unsent = |flow: usize| pair.iter().all(|look| look.sample.is_unsent(flow));
        if !(0..bytes.len()).any(is_unsent) {
            continue;
        }
        time += pair[1].t_ns.saturating_sub(pair[0].t_ns);
        for (flow, bytes) in bytes.iter_mut().enumerate() {
            *bytes += pair[1].sample.acked(flow).saturating_sub(pair[0].sample.acked(flow));
        }
    }
    if time == 0 { Vec::new() } else { bytes.into_iter().map(|bytes| bytes as f64 / time as f64).collect() }
}

/// The least that came in 10 ms, as a part of what the flows that had something to send all through them get on average
/// (`means`, bytes a nanosecond). A flow that has nothing to send owes nothing; NaN: none owed anything.
fn least_bin(looks: &[Look<'_>], means: &[f64]) -> f64 {
    const BIN: u64 = 10_000_000;
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return f64::NAN };
    // What was acknowledged by a time, between two looks in a straight line: looks are not taken at the bins' edges.
    let acked = |flow: usize, t: u64| {
        let after = looks.partition_point(|look| look.t_ns < t).min(looks.len() - 1);
        let [before, after] = [looks[after.saturating_sub(1)], looks[after]];
        let [b0, b1] = [before, after].map(|look| look.sample.acked(flow) as f64);
        let part = t.saturating_sub(before.t_ns) as f64 / after.t_ns.saturating_sub(before.t_ns).max(1) as f64;
        b0 + (b1 - b0) * part.min(1.0)
    };
    let part = |bin: u64| {
        let (begin, end) = (first.t_ns + bin * BIN, first.t_ns + (bin + 1) * BIN);
        // The looks between which the bin lies, and those in it.
        let from = looks.partition_point(|look| look.t_ns <= begin).saturating_sub(1);
        let to = looks.partition_point(|look| look.t_ns < end).min(looks.len() - 1);
        let owes = |flow: &usize| looks[from..=to].iter().all(|look| look.sample.is_unsent(*flow));
        let owed: f64 = (0..means.len()).filter(owes).map(|flow| means[flow] * BIN as f64).sum();
        let came: f64 = (0..flows(looks)).map(|flow| acked(flow, end) - acked(flow, begin)).sum();
        (owed > 0.0).then(|| came / owed)
    };
    (0..(last.t_ns - first.t_ns) / BIN).filter_map(part).fold(f64::NAN, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one flow had acknowledged at a look, bytes, and whether it had something to send.
    struct Flow(u64, bool);

    fn sample(t_ms: u64, flows: &[Flow]) -> FlowSample {
        FlowSample {
            t_ns: t_ms * 1_000_000,
            rank: 0,
            flows: flows.iter().map(|flow| (flow.0, true)).collect(),
            unsent: flows.iter().map(|flow| flow.1).collect(),
        }
    }

    fn every_4_ms(until_ms: u64, at: impl Fn(u64) -> [Flow; 2]) -> Vec<FlowSample> {
        (0..=until_ms / 4).map(|n| sample(n * 4, &at(n * 4))).collect()
    }

    fn silence(samples: &[FlowSample], from_ms: u64, to_ms: u64) -> f64 {
        longest_silence(&looks(samples, 0, from_ms * 1_000_000, to_ms.saturating_mul(1_000_000)))
    }

    /// The least bin of everything, over all of it up to `base_ms`.
    fn bin(samples: &[FlowSample], base_ms: u64) -> f64 {
        let base = means(&looks(samples, 0, 0, base_ms * 1_000_000));
        least_bin(&looks(samples, 0, 0, u64::MAX), &base)
    }

    #[test]
    fn a_flow_that_waits_is_not_silent() {
        // The second flow's part of the round is done at 40 ms; the next round begins at 400 ms.
        let waits = |t: u64| [Flow(t, true), Flow(if t < 400 { t.min(40) } else { t }, !(40..400).contains(&t))];
        assert!((silence(&every_4_ms(600, waits), 0, 600) - 4.0).abs() < 1e-9);
        let nobody = |t: u64| [Flow(t, false), Flow(t, false)];
        assert!(silence(&every_4_ms(600, nobody), 0, 600).is_nan(), "nothing was measured");
        assert!(silence(&[], 0, 600).is_nan());
    }

    #[test]
    fn a_flow_that_has_bytes_and_does_not_move_is_silent() {
        // From 40 to 340 ms, with a full buffer or with everything in flight.
        let stuck = |t: u64| [Flow(t, true), Flow(if t < 340 { t.min(40) } else { t }, true)];
        let samples = every_4_ms(600, stuck);
        // What began before counts from the begin on, and what does not end, up to the last look.
        for (from, to, ms) in [(0, 600, 300.0), (102, 600, 238.0), (0, 302, 260.0), (102, 302, 198.0)] {
            assert!((silence(&samples, from, to) - ms).abs() < 1e-9, "{from} to {to} ms");
        }
        // Nor does it help that it then has nothing more to send.
        let ends = |t: u64| [Flow(t, true), Flow(if t < 340 { t.min(40) } else { 41 }, t < 340)];
        assert!((silence(&every_4_ms(600, ends), 0, 600) - 296.0).abs() < 1e-9);
    }

    #[test]
    fn the_least_bin_is_where_nothing_came() {
        // 1 MB every 10 ms, but for one bin with nothing.
        let step = |n: u64| sample(n * 10, &[Flow(1_000_000 * if n > 5 { n - 1 } else { n }, true)]);
        let samples: Vec<FlowSample> = (0..11).map(step).collect();
        assert!(bin(&samples, 50).abs() < 1e-9 && bin(&[], 40).is_nan());
        assert!((bin(&samples[..5], 40) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_flow_that_waits_owes_no_bin() {
        // Both get 1 MB a millisecond; the second has done its part at 100 ms, and the first gets no more for that.
        let done = |t: u64| [Flow(t * 1_000_000, true), Flow(t.min(100) * 1_000_000, t < 100)];
        assert!((bin(&every_4_ms(400, done), 80) - 1.0).abs() < 1e-9);
        // With bytes to send it owes its half.
        let stuck = |t: u64| [Flow(t * 1_000_000, true), Flow(t.min(100) * 1_000_000, true)];
        assert!((bin(&every_4_ms(400, stuck), 80) - 0.5).abs() < 1e-9);
        // And where the first waits as well, nobody owes anything, or all of it.
        let none = |t: u64| [Flow(t.min(100) * 1_000_000, t < 100), Flow(t.min(100) * 1_000_000, t < 100)];
        let samples = every_4_ms(400, none);
        assert!((bin(&samples, 80) - 1.0).abs() < 1e-9);
        assert!((bin(&samples, 400) - 1.0).abs() < 1e-9, "nor does a pause of all make their mean smaller");
        let all = |t: u64| [Flow(t.min(100) * 1_000_000, true), Flow(t.min(100) * 1_000_000, true)];
        assert!(bin(&every_4_ms(400, all), 80).abs() < 1e-9);
    }
}
