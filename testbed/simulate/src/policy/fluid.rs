//! A second, slow network for tests: hosts on one switch, sharing by classes, no dependencies. Small enough to be read.

use sluice_scenario::NodeIx;

use crate::policy::ports::{PortIx, Transfer};

/// Transfers (sender, receiver, bytes) of one coflow.
pub type Job = Vec<(usize, usize, f64)>;

pub fn transfers(job: &Job) -> Vec<Transfer> {
    let one = |&(s, d, bytes): &(usize, usize, f64)| Transfer {
        up: PortIx::up(NodeIx(s)),
        down: PortIx::down(NodeIx(d)),
        bytes,
    };
    job.iter().map(one).collect()
}

/// When each coflow ends with strict priorities in this order and equal shares inside, every port `rate` bytes per second.
pub fn coflow_ends(jobs: &[Job], order: &[usize], rate: f64) -> Vec<f64> {
    let mut class = vec![0; jobs.len()];
    order.iter().enumerate().for_each(|(place, &j)| class[j] = place);
    ends(jobs, &class, rate)
}

/// When each coflow ends when all transfers share equally.
pub fn max_min_ends(jobs: &[Job], rate: f64) -> Vec<f64> {
    ends(jobs, &vec![0; jobs.len()], rate)
}

fn ends(jobs: &[Job], class: &[usize], rate: f64) -> Vec<f64> {
    let mut left: Vec<(usize, Transfer)> =
        jobs.iter().enumerate().flat_map(|(j, job)| transfers(job).into_iter().map(move |t| (j, t))).collect();
    let mut ends = vec![0.0; jobs.len()];
    let mut now = 0.0;
    while !left.is_empty() {
        let rates = shares(&left, class, rate);
        let step = left.iter().zip(&rates).map(|((_, t), r)| t.bytes / r).fold(f64::INFINITY, f64::min);
        now += step;
        for ((_, t), r) in left.iter_mut().zip(&rates) {
            t.bytes -= r * step;
        }
        left.retain(|(j, t)| {
            let over = t.bytes <= 1e-9;
            if over {
                ends[*j] = now;
            }
            !over
        });
    }
    ends
}

/// Progressive filling, class after class.
fn shares(flows: &[(usize, Transfer)], class: &[usize], rate: f64) -> Vec<f64> {
    let ports = flows.iter().flat_map(|(_, t)| [t.up.0, t.down.0]).max().unwrap_or(0) + 1;
    let mut room = vec![rate; ports];
    let mut rates = vec![0.0; flows.len()];
    let mut classes: Vec<usize> = flows.iter().map(|(j, _)| class[*j]).collect();
    classes.sort_unstable();
    classes.dedup();
    for now in classes {
        let mut open: Vec<usize> = (0..flows.len()).filter(|&f| class[flows[f].0] == now).collect();
        open.retain(|&f| room[flows[f].1.up.0] > 1e-9 && room[flows[f].1.down.0] > 1e-9);
        while !open.is_empty() {
            let mut users = vec![0.0; ports];
            open.iter().for_each(|&f| {
                users[flows[f].1.up.0] += 1.0;
                users[flows[f].1.down.0] += 1.0;
            });
            let grow = (0..ports).filter(|&p| users[p] > 0.0).map(|p| room[p] / users[p]).fold(f64::INFINITY, f64::min);
            for &f in &open {
                rates[f] += grow;
                room[flows[f].1.up.0] -= grow;
                room[flows[f].1.down.0] -= grow;
            }
            open.retain(|&f| room[flows[f].1.up.0] > 1e-9 && room[flows[f].1.down.0] > 1e-9);
        }
    }
    rates
}
