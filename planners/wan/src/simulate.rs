//! The event-driven simulator: what a rate rule does to an instance, from completion to completion.
//!
//! Rates are constant between events. An event is the completion of at least one flow, the release of one, or, with
//! latencies, the arrival of what was sent; without releases and latencies there are at most as many events as flows.

mod steady;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::instance::Instance;
use crate::layout::{Layout, Loads};
use crate::refusal::Refusal;

/// Load beyond a link's capacity that rounding may make: relative, and in MB/s.
const SLACK: (f64, f64) = (1e-6, 1e-9);
/// Flows this near to the earliest completion, relative to the time until then, complete with it.
const TOGETHER: f64 = 1e-12;
/// After so many events it is asked whether to stop.
const ASK_EVERY: usize = 16;

/// An instant at which rates are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// In s.
    pub t: f64,
    /// The flows that may send, ascending.
    pub ready: &'a [usize],
    /// What is left of every flow, by index, in MB.
    pub remaining: &'a [f64],
}

/// How a method divides the links among the flows that are ready.
pub trait RateRule {
    /// Writes the rate of `ready[i]`, in MB/s, to `rates[i]`, which is 0 before.
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]);
    /// A flow has completed.
    fn ended(&mut self, _flow: usize) {}
    /// The rate of every flow, by index, if each always has the same one while it is ready: saves asking.
    fn constant(&self) -> Option<&[f64]> {
        None
    }
}

/// What a method achieved.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When each flow's last byte arrived, in s.
    pub ends: Vec<f64>,
    /// When each collective's last flow ended, in s.
    pub t: Vec<f64>,
    /// The mean of `t`.
    pub mean: f64,
    /// Instants at which rates changed.
    pub events: usize,
}

impl Outcome {
    /// The times that follow from the ends of the flows.
    pub fn of_ends(instance: &Instance, ends: Vec<f64>, events: usize) -> Outcome {
        let mut t = vec![0.0_f64; instance.collectives()];
        for (flow, &end) in instance.flows().iter().zip(&ends) {
            t[flow.collective] = t[flow.collective].max(end);
        }
        let mean = t.iter().sum::<f64>() / t.len() as f64;
        Outcome { ends, t, mean, events }
    }
    /// The times of jobs that run several collectives each: the largest of theirs, by job. `job_of` has a job for each
    /// collective; a job without any takes no time.
    pub fn by_job(&self, job_of: &[usize]) -> Vec<f64> {
        let jobs = job_of.iter().map(|&job| job.saturating_add(1)).max().unwrap_or(0).min(self.t.len());
        let mut times = vec![0.0_f64; jobs];
        for (&job, &t) in job_of.iter().zip(&self.t) {
            if let Some(time) = times.get_mut(job) {
                *time = time.max(t);
            }
        }
        times
    }
}

/// Plays an instance under a rule.
///
/// # Errors
/// `Capacity` when the rule overloads a link or gives a rate that is none, `Deadlock` when flows are ready and none
/// moves or ever will, `BadWeight` when a constant rule has not a rate for each flow.
pub fn simulate(instance: &Instance, rule: &mut dyn RateRule) -> Result<Outcome, Refusal> {
    simulate_with(instance, rule, &[], &mut || false)
}

/// Plays an instance under a rule, until `stop` says so, and with latencies: `latency` has the seconds that the last byte
/// of a flow needs for each link, by link, so that it arrives the sum of its route's later than it left. Links without one
/// have none.
///
/// # Errors
/// As [`simulate`], `BadWeight` or `BadSize` for latencies that are none, and [`Refusal::Stopped`].
pub fn simulate_with(
    instance: &Instance,
    rule: &mut dyn RateRule,
    latency: &[f64],
    stop: &mut dyn FnMut() -> bool,
) -> Result<Outcome, Refusal> {
    let latency = latencies(instance, latency)?;
    let mut progress = Progress::new(instance, latency);
    if let Some(rates) = rule.constant() {
        let rates = of_flows(instance, rates)?.to_vec();
        return steady::run(progress, &rates, rule, stop);
    }
    let layout = Layout::of(instance);
    let mut remaining: Vec<f64> = instance.flows().iter().map(|flow| flow.size).collect();
    let mut ready: Vec<usize> = Vec::new();
    let (mut rates, mut done) = (Vec::new(), Vec::new());
    let mut loads = Loads::new(layout.capacity.len());
    let mut t = 0.0;
    while progress.unfinished > 0 {
        while let Some(flow) = progress.begin(t) {
            ready.insert(ready.partition_point(|&other| other < flow), flow);
        }
        if progress.events.is_multiple_of(ASK_EVERY) && stop() {
            return Err(Refusal::Stopped);
        }
        progress.events += 1;
        rates.clear();
        rates.resize(ready.len(), 0.0);
        rule.rates(&Moment { t, ready: &ready, remaining: &remaining }, &mut rates);
        check(&layout, &mut loads, &ready, &rates, t)?;
        let next = |(&flow, &rate): (&usize, &f64)| if rate > 0.0 { remaining[flow] / rate } else { f64::INFINITY };
        let step = ready.iter().zip(&rates).map(next).fold(f64::INFINITY, f64::min);
        let (step, until) = match progress.next_begin() {
            Some(begin) if begin - t < step => (begin - t, begin),
            // Some flow completes: `step` is a time, unless all rates are 0.
            _ if step.is_finite() => (step, t + step),
            _ => return Err(progress.stuck(t, ready.first().copied())),
        };
        done.clear();
        for (&flow, &rate) in ready.iter().zip(&rates) {
            if rate > 0.0 {
                let left = &mut remaining[flow];
                let ends = *left / rate <= step * (1.0 + TOGETHER);
                *left = if ends { 0.0 } else { *left - rate * step };
                if ends {
                    done.push(flow);
                }
            }
        }
        t = until;
        ready.retain(|flow| done.binary_search(flow).is_err());
        for &flow in &done {
            progress.end(flow, t);
            rule.ended(flow);
        }
    }
    Ok(progress.outcome())
}

/// Refuses a list that has not one number for each flow.
fn of_flows<'a>(instance: &Instance, list: &'a [f64]) -> Result<&'a [f64], Refusal> {
    let expected = instance.flows().len();
    if list.len() == expected {
        Ok(list)
    } else {
        Err(Refusal::BadLength { what: "rates", found: list.len(), expected })
    }
}

/// The latency of each flow's route; nothing if there are none.
fn latencies(instance: &Instance, latency: &[f64]) -> Result<Vec<f64>, Refusal> {
    if latency.is_empty() {
        return Ok(Vec::new());
    }
    if latency.len() > instance.links().len() {
        let (found, expected) = (latency.len(), instance.links().len());
        return Err(Refusal::BadLength { what: "latencies", found, expected });
    }
    let of = |link: &usize| latency.get(*link).copied().unwrap_or(0.0);
    let mut sums = Vec::with_capacity(instance.flows().len());
    for (index, flow) in instance.flows().iter().enumerate() {
        let usable = flow.path.iter().all(|link| of(link) >= 0.0);
        let sum: f64 = flow.path.iter().map(of).sum();
        if !(usable && sum.is_finite()) {
            return Err(Refusal::BadRelease { flow: index, release: sum });
        }
        sums.push(sum);
    }
    Ok(sums)
}

/// Refuses rates that are none or that a link cannot carry.
fn check(layout: &Layout, loads: &mut Loads, ready: &[usize], rates: &[f64], t: f64) -> Result<(), Refusal> {
    loads.clear();
    for (&flow, &rate) in ready.iter().zip(rates) {
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(Refusal::BadRate { flow, t, rate });
        }
        if rate > 0.0 {
            loads.add(layout.path(flow), rate);
        }
    }
    let overloaded = loads.touched().iter().find(|&&link| {
        let link = link as usize;
        loads.load[link] > layout.capacity[link] * (1.0 + SLACK.0) + SLACK.1
    });
    match overloaded {
        Some(&link) => {
            let link = link as usize;
            Err(Refusal::Capacity { link, t, load: loads.load[link], capacity: layout.capacity[link] })
        }
        None => Ok(()),
    }
}

/// Which flows have ended, and which wait for what.
struct Progress<'a> {
    instance: &'a Instance,
    latency: Vec<f64>,
    /// For each flow the predecessors that have not ended.
    waiting: Vec<u32>,
    /// For each flow the instant from which it may begin, as far as that is known.
    unlocked: Vec<f64>,
    /// The flows whose instant is known, by instant and index. A time is never negative, so its bits sort as it does.
    coming: BinaryHeap<Reverse<(u64, usize)>>,
    ends: Vec<f64>,
    unfinished: usize,
    events: usize,
}

impl<'a> Progress<'a> {
    fn new(instance: &'a Instance, latency: Vec<f64>) -> Progress<'a> {
        let count = instance.flows().len();
        let waiting: Vec<u32> = (0..count).map(|flow| instance.predecessors(flow).len() as u32).collect();
        let unlocked: Vec<f64> = instance.flows().iter().map(|flow| flow.release).collect();
        let first = waiting.iter().enumerate().filter(|&(_, &waiting)| waiting == 0);
        let coming = first.map(|(flow, _)| Reverse((unlocked[flow].abs().to_bits(), flow))).collect();
        Progress { instance, latency, waiting, unlocked, coming, ends: vec![0.0; count], unfinished: count, events: 0 }
    }
    /// A flow that may begin by `t` and was not given before.
    fn begin(&mut self, t: f64) -> Option<usize> {
        let &Reverse((at, flow)) = self.coming.peek()?;
        (f64::from_bits(at) <= t).then(|| {
            self.coming.pop();
            flow
        })
    }
    /// When the next flow may begin, if that is known.
    fn next_begin(&self) -> Option<f64> {
        self.coming.peek().map(|&Reverse((at, _))| f64::from_bits(at))
    }
    /// The last byte of a flow leaves at `t`.
    fn end(&mut self, flow: usize, t: f64) {
        let arrival = t + self.latency.get(flow).copied().unwrap_or(0.0);
        self.ends[flow] = arrival;
        self.unfinished -= 1;
        for &next in self.instance.successors(flow) {
            self.unlocked[next] = self.unlocked[next].max(arrival);
            self.waiting[next] -= 1;
            if self.waiting[next] == 0 {
                self.coming.push(Reverse((self.unlocked[next].abs().to_bits(), next)));
            }
        }
    }
    /// Nothing moves and nothing will.
    fn stuck(&self, t: f64, ready: Option<usize>) -> Refusal {
        match ready {
            Some(flow) => Refusal::Deadlock { t, flow },
            // An instance has no cycles, so this is never reached; the flow named is one that waits.
            None => Refusal::Cycle { flow: self.waiting.iter().position(|&waiting| waiting > 0).unwrap_or(0) },
        }
    }
    fn outcome(self) -> Outcome {
        Outcome::of_ends(self.instance, self.ends, self.events)
    }
}
