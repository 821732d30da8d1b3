//! One run of one policy, from an empty machine to figures.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use sluice_report::{CpuSeconds, FlowTimes, JobFigures, JobResult, LinkResult, PolicyRun, RatePoint};
use sluice_schedule::Nanos;

use super::breaking::Breaking;
use super::daemons::Daemons;
use super::launch::{FromMember, Output, RunningJob, Sockets};
use super::log::{AckSample, JobLog};
use super::measure::{LinkSample, Sampler};
use super::mltcp::Mltcp;
use super::{JobPlan, Placement, Policy, Queue, RunError, RunPlan, Session};
use crate::cross::Cross;
use crate::fabric::Fabric;
use crate::job;
use crate::job::report::Line;

/// Between two samples of all links.
const SAMPLE: Duration = Duration::from_millis(100);
/// Between telling all members to start and the start itself.
const LEAD: Nanos = Nanos(5_000_000);
/// The same where all jobs begin together: until then daemons have found them, read their plans and met each other, as
/// they have in every iteration but a job's first.
const FOUND: Nanos = Nanos::from_millis(1_500);

/// Delays of cables up to this are not worth a word where they are not applied.
const NOTED_DELAY: Nanos = Nanos(50_000);

/// Hears how a run goes on.
pub trait Observer: Send {
    /// Run number `run` (from 0) of `runs` begins.
    fn begins(&mut self, policy: &str, run: usize, runs: usize);
    /// Part of all iterations that is done, 0 to 1, and jobs that have ended.
    fn progress(&mut self, part: f64, ended: usize, jobs: usize);
}

/// An observer that passes nothing on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn begins(&mut self, _policy: &str, _run: usize, _runs: usize) {}
    fn progress(&mut self, _part: f64, _ended: usize, _jobs: usize) {}
}

struct Job {
    place: Placement,
    running: Option<RunningJob>,
    log: JobLog,
    start: Option<Nanos>,
    over: bool,
}

/// What cross traffic had got at some time.
#[derive(Clone, Copy)]
struct Moment {
    at: Nanos,
    received: u64,
}

impl Moment {
    fn now(cross: &Cross) -> Moment {
        Moment { at: Nanos(job::now()), received: cross.received() }
    }
}

struct Runner<'a> {
    plan: &'a RunPlan,
    fabric: &'a Fabric,
    session: &'a Session<'a>,
    sockets: Sockets,
    queue: &'a mut dyn Queue,
    cross: &'a Cross,
    /// When the first job arrived, and what cross traffic had got until then.
    arrived: Option<Moment>,
    jobs: Vec<Job>,
    to: Sender<FromMember>,
    from: Receiver<FromMember>,
    begin: Nanos,
    ended: usize,
    iterations_done: u64,
}

/// Runs `plan` once under `policy`.
///
/// # Errors
/// Whatever goes wrong with the fabric, a program or a job; a wrong sum in a job is an error, never a figure.
pub fn run_once(
    plan: &RunPlan,
    queue: &mut dyn Queue,
    policy: &Policy,
    session: &Session<'_>,
    observer: &mut dyn Observer,
) -> Result<PolicyRun, RunError> {
    let fabric = Fabric::build(plan.fabric.clone())?;
    let mut sockets = Sockets { sample_ms: 100, ..Sockets::default() };
    let asked = if let Policy::Fair(tcp) = policy { tcp.as_deref() } else { None };
    let _mltcp = Mltcp::for_sockets(asked)?;
    let mut breaking = Breaking::new(plan, &fabric, policy)?;
    // Only held: ends with the run.
    let _forwarding: Option<Daemons>;
    let mut daemons = match policy {
        Policy::Fair(tcp) => {
            sockets.tcp = Some(tcp.clone().unwrap_or_else(|| plan.tcp.clone()));
            _forwarding = if plan.forwards() { Some(Daemons::forwarding(&fabric, plan, session)?) } else { None };
            None
        }
        Policy::Sluice { .. } => {
            let daemons = Daemons::start(&fabric, plan, policy, session)?;
            _forwarding = None;
            // What a socket gets back when it is released; a daemon captures it once it is established.
            sockets.tcp = Some(plan.tcp.clone());
            sockets.progress = plan.pages.dirs(daemons.progress_dirs());
            Some(daemons)
        }
    };
    let sampler = Sampler::start(&fabric, SAMPLE)?;
    let cpu_before = cpu(&fabric);
    let begin_instant = Instant::now();
    let cross = Cross::start(&fabric, &plan.cross, &plan.tcp, begin_instant)?;
    let (to, from) = mpsc::channel();
    let empty = || Job { place: Placement::default(), running: None, log: JobLog::default(), start: None, over: false };
    let mut runner = Runner {
        plan,
        fabric: &fabric,
        session,
        sockets,
        queue,
        cross: &cross,
        arrived: None,
        jobs: plan.jobs.iter().map(|_| empty()).collect(),
        to,
        from,
        begin: Nanos(job::now()),
        ended: 0,
        iterations_done: 0,
    };
    let result = runner.until_all_ended(observer, daemons.as_mut(), &mut breaking);
    let (first, last) = (runner.arrived, Moment::now(&cross));
    cross.halt();
    result?;
    let cpu_after = cpu(&fabric);
    let (samples, lateness) = sampler.stop();
    let mut run = PolicyRun { policy: policy.to_string(), lateness, ..PolicyRun::default() };
    if let Some(first) = first {
        run.cross_bytes = last.received.saturating_sub(first.received);
        run.cross_interval_s = last.at.minus(first.at).as_secs_f64();
    }
    run.cpu = CpuSeconds {
        jobs: cpu_after.jobs - cpu_before.jobs,
        daemons: cpu_after.daemons - cpu_before.daemons,
        switches: cpu_after.switches - cpu_before.switches,
    };
    runner.results(&mut run);
    let begin = runner.begin;
    run.summarise(fabric.hosts.len());
    links(&fabric, &samples, begin, &mut run)?;
    if lateness.p99_us > 20_000 {
        run.notes.push(format!("timers were late by {} ms (p99): the machine was too busy", lateness.p99_us / 1000));
    }
    drop(runner);
    let (passed, lost) = fabric.losses.counts();
    if lost > 0 {
        run.notes.push(format!("{lost} of {} packets were dropped at random", passed + lost));
    }
    let (passed, lost) = fabric.losses.control_counts();
    if lost > 0 {
        run.notes
            .push(format!("{lost} of {} packets between daemons and switches were dropped at random", passed + lost));
    }
    run.notes.extend(breaking.end(daemons.as_ref()));
    delays(&fabric, &mut run.notes);
    if let Some(daemons) = &daemons {
        daemons.keep_documents();
    }
    if let Some(daemons) = daemons {
        run.notes.extend(daemons.stop());
    }
    Ok(run)
}

impl Runner<'_> {
    fn until_all_ended(
        &mut self,
        observer: &mut dyn Observer,
        mut daemons: Option<&mut Daemons>,
        breaking: &mut Breaking<'_>,
    ) -> Result<(), RunError> {
        let total: u64 = self.plan.jobs.iter().map(|j| j.iterations).sum();
        let mut order: Vec<usize> = (0..self.plan.jobs.len()).collect();
        order.sort_by_key(|j| self.plan.jobs[*j].arrival);
        let mut coming = order.into_iter().peekable();
        let mut next_look = Nanos::ZERO;
        while self.ended < self.jobs.len() {
            let at = Nanos(job::now()).minus(self.begin);
            while let Some(job) = coming.next_if(|j| self.plan.jobs[*j].arrival <= at) {
                self.arrived.get_or_insert_with(|| Moment::now(self.cross));
                self.queue.arrived(job);
            }
            self.launch_what_fits()?;
            if let Some(daemons) = &mut daemons
                && (at >= next_look || breaking.next().is_some_and(|due| due <= at))
            {
                breaking.look(at, daemons)?;
                daemons.check()?;
            }
            if at >= next_look {
                next_look = at.plus(Nanos::from_millis(200));
                observer.progress(self.iterations_done as f64 / total.max(1) as f64, self.ended, self.jobs.len());
                if self.session.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                self.in_time(at)?;
            }
            let next = coming.peek().map_or(next_look, |j| self.plan.jobs[*j].arrival.min(next_look));
            let next = breaking.next().map_or(next, |due| due.min(next));
            let wait = next.minus(Nanos(job::now()).minus(self.begin));
            match self.from.recv_timeout(Duration::from_nanos(wait.0.max(50_000))) {
                Ok(message) => self.hear(message)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Plan("no sender is left".into())),
            }
        }
        Ok(())
    }

    fn in_time(&self, at: Nanos) -> Result<(), RunError> {
        if at <= self.plan.limit {
            return Ok(());
        }
        let first = self.jobs.iter().position(|j| !j.over).unwrap_or(0);
        Err(RunError::TooLong {
            seconds: at.as_secs_f64(),
            left: self.jobs.len() - self.ended,
            jobs: self.jobs.len(),
            first: self.plan.jobs[first].id.clone(),
        })
    }

    fn launch_what_fits(&mut self) -> Result<(), RunError> {
        while let Some((job, place)) = self.queue.next() {
            let plan = &self.plan.jobs[job];
            let running = RunningJob::launch(self.fabric, self.session, (job, plan), &place, &self.sockets, &self.to)?;
            self.jobs[job].running = Some(running);
            self.jobs[job].place = place;
        }
        Ok(())
    }

    fn hear(&mut self, message: FromMember) -> Result<(), RunError> {
        let FromMember { job, rank, output } = message;
        let plan = &self.plan.jobs[job];
        let state = &mut self.jobs[job];
        let members = plan.workers + plan.servers;
        match output {
            Output::Line(Line::Connected { .. }) => {
                state.log.connected += 1;
                if state.log.connected == members {
                    self.start(job);
                }
            }
            Output::Line(Line::Iteration { i, compute_start_ns, round_start_ns, round_end_ns, .. }) => {
                state.log.iteration(rank < plan.workers, i, compute_start_ns, round_start_ns, round_end_ns);
                self.iterations_done += u64::from(rank == 0);
            }
            Output::Line(Line::FlowBegan { i, lane, flow, t_ns, .. }) => {
                state.log.passages.entry((i, lane, flow)).or_default().began = Some(t_ns);
            }
            Output::Line(Line::FlowEnded { i, lane, flow, t_ns, .. }) => {
                state.log.passages.entry((i, lane, flow)).or_default().ended = Some(t_ns);
            }
            Output::Line(Line::Sample { t_ns, acked, .. }) => state.log.samples.push(AckSample { t_ns, rank, acked }),
            Output::Line(Line::Done { flows }) => {
                state.log.flows.extend(flows);
                state.log.done += 1;
                if state.log.done == members {
                    state.over = true;
                    self.ended += 1;
                    let failed = state.running.take().and_then(RunningJob::reap);
                    if let Some((rank, what)) = failed {
                        return Err(self.failure(job, rank, what));
                    }
                    self.queue.ended(job);
                }
            }
            Output::Line(Line::Failed { what }) => return Err(self.failure(job, rank, what)),
            Output::Ended(last) if !state.over && state.log.done < members => {
                // A member that said "done" has ended as it should; others may still run.
                let finished = state.log.done > 0 && last.trim().is_empty();
                if !finished {
                    return Err(self.failure(job, rank, format!("ended early: {}", last.trim())));
                }
            }
            Output::Ended(_) => {}
        }
        Ok(())
    }

    /// All members of a job are connected: it starts, or the last one has all start.
    fn start(&mut self, job: usize) {
        let connected = |(plan, job): (&JobPlan, &Job)| job.log.connected == plan.workers + plan.servers;
        let starting = match self.plan.together {
            false => job..job + 1,
            true if self.plan.jobs.iter().zip(&self.jobs).all(connected) => 0..self.jobs.len(),
            true => return,
        };
        let at = Nanos(job::now()).plus(if self.plan.together { FOUND } else { LEAD });
        for job in &mut self.jobs[starting] {
            job.start = Some(at);
            if let Some(running) = &mut job.running {
                running.start(at);
            }
        }
    }

    fn failure(&self, job: usize, rank: usize, what: String) -> RunError {
        let place = &self.jobs[job].place;
        let host = place.workers.iter().chain(&place.servers).nth(rank);
        let host = host.map_or_else(String::new, |h| self.fabric.hosts[*h].name.clone());
        RunError::Job { job: self.plan.jobs[job].id.clone(), rank, host, what }
    }

    fn results(&self, run: &mut PolicyRun) {
        let since = |ns: u64| Nanos(ns).minus(self.begin).as_secs_f64();
        for (plan, job) in self.plan.jobs.iter().zip(&self.jobs) {
            let (arrival_s, start_s) = (plan.arrival.as_secs_f64(), since(job.start.unwrap_or_default().0));
            let end_s = since(job.log.end());
            let (round_s, iteration_s) = job.log.means(self.plan.warmup);
            let figures = JobFigures::new(&plan.id, &plan.model, arrival_s, start_s, end_s);
            let mut result = JobResult {
                figures: JobFigures { round_s, iteration_s, ..figures },
                rounds: job.log.iterations.iter().map(|i| (since(i.round_start), since(i.round_end))).collect(),
                hosts: job.place.workers.iter().chain(&job.place.servers).copied().collect(),
                ..JobResult::default()
            };
            let passages = job.log.passages.iter().map(|(&(iteration, lane, flow), passage)| {
                let (began_s, ended_s) = (passage.began.map(since), passage.ended.map(since));
                FlowTimes { iteration, lane, flow, began_s, ended_s }
            });
            result.flows = passages.collect();
            for flow in &job.log.flows {
                result.acked += flow.acked;
                result.retransmits += u64::from(flow.retransmits);
                *result.tcp.entry(flow.tcp.clone()).or_default() += 1;
            }
            run.jobs.push(result);
            run.rates.push(job.log.rates(self.begin.0, SAMPLE.as_nanos() as u64, plan.workers + plan.servers));
        }
    }
}

/// What is to be known of the cables that delay, and of those that should and do not.
fn delays(fabric: &Fabric, notes: &mut Vec<String>) {
    let (cables, cpu) = (fabric.delays.cables(), fabric.delays.cpu().as_secs_f64());
    if cables > 0 {
        notes.push(format!("{cables} cables delayed, in user space, which took {cpu:.1} s of processor time"));
    }
    let overflowed = fabric.delays.overflowed();
    if overflowed > 0 {
        notes.push(format!("{overflowed} frames were dropped: more were under way than a cable that delays holds"));
    }
    let plain = fabric.undelayed();
    if plain > NOTED_DELAY {
        let why = match fabric.spec.relays {
            Some(least) => format!("below {least} what delays them, in user space, adds too much by itself"),
            None => "nobody asked for that".to_owned(),
        };
        notes.push(format!("delays of up to {plain} per cable are not applied: {why}"));
    }
}

fn cpu(fabric: &Fabric) -> CpuSeconds {
    let seconds = |us: u64| us as f64 / 1e6;
    let hosts = 0..fabric.hosts.len();
    CpuSeconds {
        jobs: hosts.clone().map(|h| seconds(fabric.cgroups.jobs(h).cpu_us())).sum(),
        daemons: hosts.map(|h| seconds(fabric.cgroups.daemon(h).cpu_us())).sum(),
        switches: seconds(fabric.cgroups.switches().cpu_us()),
    }
}

fn links(fabric: &Fabric, samples: &[LinkSample], begin: Nanos, run: &mut PolicyRun) -> Result<(), RunError> {
    let drops = fabric.drops()?;
    let after: Vec<&LinkSample> = samples.iter().filter(|s| s.t_ns >= begin.0).collect();
    for (at, &drops) in drops.iter().enumerate() {
        let payload = fabric.spec.payload(fabric.spec.rate(at));
        let bytes = match (after.first(), after.last()) {
            (Some(a), Some(b)) => b.bytes[at].saturating_sub(a.bytes[at]),
            _ => 0,
        };
        let full = payload.0 as f64 / 8.0 * run.makespan_s;
        run.links.push(LinkResult {
            link: fabric.layout.link_name(at),
            utilisation: if full > 0.0 { bytes as f64 / full } else { 0.0 },
            drops,
        });
        let rate = |w: &[&LinkSample]| RatePoint {
            t_s: Nanos(w[1].t_ns).minus(begin).as_secs_f64(),
            rate: w[1].bytes[at].saturating_sub(w[0].bytes[at]) as f64 * 8e9
                / w[1].t_ns.saturating_sub(w[0].t_ns).max(1) as f64,
        };
        run.link_rates.push(after.windows(2).map(rate).collect());
    }
    Ok(())
}
