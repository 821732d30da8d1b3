//! Prints what a scenario asks of its cluster: jobs, offered GPU load, and a rough forecast of how long it takes under
//! ideal equal sharing (max-min between events, every flow of a round at once, no cross traffic).
//!
//! `cargo run -p sluice-scenario --example offered -- FILE…`. For tuning scenarios; it is no scheduler and no simulator.

use std::path::Path;

use anyhow::{Context, Result};
use sluice_scenario::arrivals::isolated_s;
use sluice_scenario::workload::{Queue, Started, arrival_order, channels, round_flows};
use sluice_scenario::{LinkIx, NodeIx, Scenario};

struct Flow {
    path: Vec<LinkIx>,
    bits: f64,
    left: f64,
}

struct Running {
    job: usize,
    flows: Vec<Flow>,
    iterations_left: u32,
    /// When the compute phase ends; `None` while the round sends.
    compute_until: Option<f64>,
}

fn main() -> Result<()> {
    for file in std::env::args().skip(1) {
        report(Path::new(&file)).with_context(|| file.clone())?;
    }
    Ok(())
}

fn report(file: &Path) -> Result<()> {
    let s = Scenario::load(file)?.for_testbed(&[])?;
    let gpus: u32 = s.network.hosts.iter().map(|h| h.gpus).sum();
    let mut asked = 0.0;
    for j in &s.jobs {
        let alone =
            j.compute.as_secs_f64() + isolated_s(j.arch, j.bytes, j.workers, j.servers, s.network.nic(NodeIx(0)));
        let held = j.workers + if s.placement.server_gpu { j.servers } else { 0 };
        asked += alone * f64::from(j.iterations) * f64::from(held);
    }
    let last = s.jobs.iter().map(|j| j.arrival.as_secs_f64()).fold(0.0, f64::max);
    let (end, jct, busy) = forecast(&s);
    println!(
        "{}: {} jobs over {last:.1} s, offered load {:.2} of {gpus} GPUs, forecast {end:.1} s, mean JCT {jct:.2} s, network busy {:.0} %",
        s.name,
        s.jobs.len(),
        asked / (last.max(1.0) * f64::from(gpus)),
        busy * 100.0
    );
    Ok(())
}

/// End, mean JCT, and the share of the time in which some job sends.
fn forecast(s: &Scenario) -> (f64, f64, f64) {
    let order = arrival_order(s);
    let (mut next, mut now, mut sum, mut busy) = (0, 0.0, 0.0, 0.0);
    let mut queue = Queue::new(s);
    let mut running: Vec<Running> = Vec::new();
    let arrival = |n: usize| order.get(n).and_then(|&j| s.jobs.get(j)).map(|j| j.arrival.as_secs_f64());
    while next < order.len() || !running.is_empty() {
        let rates = share(s, &running);
        let mut until = arrival(next).unwrap_or(f64::INFINITY);
        for (r, rates) in running.iter().zip(&rates) {
            until = r.compute_until.map_or(until, |t| until.min(t));
            for (f, rate) in r.flows.iter().zip(rates) {
                if f.left > 0.0 && r.compute_until.is_none() {
                    until = until.min(now + f.left / rate.max(1.0));
                }
            }
        }
        let step = (until - now).max(0.0);
        busy += if running.iter().any(|r| r.compute_until.is_none()) { step } else { 0.0 };
        now = until;
        let mut ended = Vec::new();
        for (r, rates) in running.iter_mut().zip(&rates) {
            let Some(job) = s.jobs.get(r.job) else { continue };
            if let Some(t) = r.compute_until {
                if t <= now + 1e-9 {
                    r.compute_until = None;
                    r.flows.iter_mut().for_each(|f| f.left = f.bits);
                }
                continue;
            }
            for (f, rate) in r.flows.iter_mut().zip(rates) {
                f.left = if f.left <= rate * step + 1.0 { 0.0 } else { f.left - rate * step };
            }
            if r.flows.iter().all(|f| f.left == 0.0) {
                r.iterations_left -= 1;
                r.compute_until = Some(now + job.compute.as_secs_f64());
                if r.iterations_left == 0 {
                    sum += now - job.arrival.as_secs_f64();
                    ended.push(r.job);
                }
            }
        }
        ended.iter().for_each(|&j| queue.release(j));
        running.retain(|r| r.iterations_left > 0);
        while arrival(next).is_some_and(|a| a <= now + 1e-9) {
            order.get(next).iter().for_each(|&&j| queue.enter(j));
            next += 1;
        }
        running.extend(queue.serve().into_iter().filter_map(|start| begin(s, &start, now)));
    }
    (now, sum / s.jobs.len().max(1) as f64, busy / now.max(1e-9))
}

fn begin(s: &Scenario, start: &Started, now: f64) -> Option<Running> {
    let job = s.jobs.get(start.job)?;
    let flows = channels(round_flows(job, &start.placement), s.network.rails);
    let flow = |f: &sluice_scenario::workload::RoundFlow| {
        let bits = f.bytes as f64 * 8.0;
        s.path_of(&job.id, f).map(|path| Flow { path, bits, left: 0.0 })
    };
    let flows = flows.iter().filter(|f| !f.local()).filter_map(flow).collect();
    Some(Running {
        job: start.job,
        flows,
        iterations_left: job.iterations,
        compute_until: Some(now + job.compute.as_secs_f64()),
    })
}

/// Max-min rates by filling the tightest link first.
fn share(s: &Scenario, running: &[Running]) -> Vec<Vec<f64>> {
    let mut rates: Vec<Vec<f64>> = running.iter().map(|r| vec![0.0; r.flows.len()]).collect();
    let mut left: Vec<f64> = s.network.links.iter().map(|l| l.rate.0 as f64).collect();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (i, r) in running.iter().enumerate().filter(|(_, r)| r.compute_until.is_none()) {
        open.extend(r.flows.iter().enumerate().filter(|(_, f)| f.left > 0.0).map(|(k, _)| (i, k)));
    }
    while !open.is_empty() {
        let path = |&(i, k): &(usize, usize)| &running[i].flows[k].path;
        let mut users = vec![0.0; left.len()];
        open.iter().flat_map(path).for_each(|l| users[l.0] += 1.0);
        let tight = (0..left.len())
            .filter(|&l| users[l] > 0.0)
            .min_by(|&a, &b| (left[a] / users[a]).total_cmp(&(left[b] / users[b])));
        let Some(tight) = tight else { break };
        let rate = left[tight] / users[tight];
        let (fixed, rest): (Vec<_>, Vec<_>) = open.iter().copied().partition(|f| path(f).contains(&LinkIx(tight)));
        for f in &fixed {
            rates[f.0][f.1] = rate;
            path(f).iter().for_each(|l| left[l.0] = (left[l.0] - rate).max(0.0));
        }
        open = rest;
    }
    rates
}
