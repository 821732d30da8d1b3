//! The simulator for rates that never change: each flow's end is known when it begins, so nothing is asked in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{ASK_EVERY, Outcome, Progress, RateRule, SLACK, TOGETHER};
use crate::layout::Layout;
use crate::refusal::Refusal;

/// What the flows that send put on the links.
struct Links {
    layout: Layout,
    load: Vec<f64>,
    senders: Vec<u32>,
}

impl Links {
    fn add(&mut self, flow: usize, rate: f64) {
        for &link in self.layout.path(flow) {
            self.load[link as usize] += rate;
            self.senders[link as usize] += 1;
        }
    }
    fn remove(&mut self, flow: usize, rate: f64) {
        for &link in self.layout.path(flow) {
            let link = link as usize;
            self.senders[link] -= 1;
            // An idle link carries nothing at all, so that roundings do not add up over a run.
            self.load[link] = if self.senders[link] == 0 { 0.0 } else { self.load[link] - rate };
        }
    }
    fn check(&self, flow: usize, t: f64) -> Result<(), Refusal> {
        for &link in self.layout.path(flow) {
            let link = link as usize;
            let (load, capacity) = (self.load[link], self.layout.capacity[link]);
            if load > capacity * (1.0 + SLACK.0) + SLACK.1 {
                return Err(Refusal::Capacity { link, t, load, capacity });
            }
        }
        Ok(())
    }
}

/// Plays an instance with these rates, by flow.
pub(super) fn run(
    mut progress: Progress<'_>,
    rates: &[f64],
    rule: &mut dyn RateRule,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Outcome, Refusal> {
    let layout = Layout::of(progress.instance);
    let count = layout.capacity.len();
    let mut links = Links { layout, load: vec![0.0; count], senders: vec![0; count] };
    // The flows that send, by their end.
    let mut sending: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut begun, mut idle) = (Vec::new(), None);
    let mut t = 0.0;
    while progress.unfinished > 0 {
        begun.clear();
        while let Some(flow) = progress.begin(t) {
            let rate = rates[flow];
            if !(rate.is_finite() && rate >= 0.0) {
                return Err(Refusal::BadRate { flow, t, rate });
            }
            let end = t + progress.instance.flows()[flow].size / rate;
            if end.is_finite() {
                links.add(flow, rate);
                begun.push(flow);
                sending.push(Reverse((end.to_bits(), flow)));
            } else {
                idle = Some(flow);
            }
        }
        for &flow in &begun {
            links.check(flow, t)?;
        }
        if progress.events.is_multiple_of(ASK_EVERY) && stop() {
            return Err(Refusal::Stopped);
        }
        progress.events += 1;
        let end = sending.peek().map(|&Reverse((end, _))| f64::from_bits(end));
        match (progress.next_begin(), end) {
            (Some(begin), Some(end)) if begin < end => t = begin,
            (Some(begin), None) => t = begin,
            (None, None) => return Err(progress.stuck(t, idle)),
            (_, Some(end)) => {
                let until = t + (end - t) * (1.0 + TOGETHER);
                t = end;
                while let Some(&Reverse((end, flow))) = sending.peek() {
                    if f64::from_bits(end) > until {
                        break;
                    }
                    sending.pop();
                    links.remove(flow, rates[flow]);
                    progress.end(flow, t);
                    rule.ended(flow);
                }
            }
        }
    }
    Ok(progress.outcome())
}
