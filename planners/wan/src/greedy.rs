//! Greedy list scheduling: at each completion every ready flow whose links are all free starts, the smallest key first.
//!
//! Nothing is preempted and nothing waits on purpose. The flows run one at a time on every link.

#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::schedule::Schedule;

/// What makes a flow go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `spt`: the shortest flow.
    Shortest,
    /// `ldv`: the most volume behind it in its chain.
    LargestBehind,
    /// `cp`: the longest time from it on to the end of its chain.
    CriticalPath,
}

impl Key {
    /// All of them, the critical path last: in a tie of results the first is kept.
    pub const ALL: [Key; 3] = [Key::Shortest, Key::LargestBehind, Key::CriticalPath];
    /// The word that stands for it.
    pub fn word(self) -> &'static str {
        match self {
            Key::Shortest => "spt",
            Key::LargestBehind => "ldv",
            Key::CriticalPath => "cp",
        }
    }
}

/// Flows within this part of the time, or of a second, of the earliest end complete with it.
const TOGETHER: f64 = 1e-12;

/// Schedules all flows of all collectives, each at the rate it has alone on its route: `nonconcurrent_spt` and the like.
pub fn nonconcurrent(instance: &Instance, key: Key) -> Schedule {
    let flows: Vec<usize> = (0..instance.flows().len()).collect();
    let rates: Vec<f64> = flows.iter().map(|&flow| instance.alone(flow)).collect();
    let starts = starts(instance, &flows, &rates, key);
    Schedule::of_starts(instance, starts, rates, |_| 0)
}

/// The starts of some flows, by index of the instance, as if the others did not exist: in s; 0 for the others. `rates` has
/// the rate of every flow of the instance, in MB/s.
///
/// # Errors
/// `BadLength`, `BadRate` for a rate of one of the flows that is not finite and more than 0, `GapInIds`.
pub fn list(instance: &Instance, flows: &[usize], rates: &[f64], key: Key) -> Result<Vec<f64>, Refusal> {
    let count = instance.flows().len();
    if rates.len() != count {
        return Err(Refusal::BadLength { what: "rates", found: rates.len(), expected: count });
    }
    for &flow in flows {
        match rates.get(flow) {
            None => return Err(Refusal::GapInIds { what: "flow", id: flow, count }),
            Some(&rate) if !(rate.is_finite() && rate > 0.0) => return Err(Refusal::BadRate { flow, t: 0.0, rate }),
            Some(_) => {}
        }
    }
    Ok(starts(instance, flows, rates, key))
}

/// What flows are sorted by; the index of the group sorts as its collective and its number do.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sorted {
    first: f64,
    second: f64,
    group: usize,
    flow: usize,
}

impl Sorted {
    fn order(&self, other: &Sorted) -> Ordering {
        let floats = self.first.total_cmp(&other.first).then(self.second.total_cmp(&other.second));
        floats.then((self.group, self.flow).cmp(&(other.group, other.flow)))
    }
}

/// The keys of the flows, by flow.
fn keys(instance: &Instance, rates: &[f64], key: Key) -> Vec<Sorted> {
    let mut keys = Vec::with_capacity(instance.flows().len());
    let duration = |flow: usize| instance.flows()[flow].size / rates[flow];
    let (mut volume, mut time) = (vec![0.0; instance.flows().len()], vec![0.0; instance.flows().len()]);
    for group in instance.groups() {
        let (mut volume_behind, mut time_behind) = (0.0, 0.0);
        for &flow in group.flows.iter().rev() {
            volume[flow] = volume_behind;
            volume_behind += instance.flows()[flow].size;
            time_behind += duration(flow);
            time[flow] = time_behind;
        }
    }
    for flow in 0..instance.flows().len() {
        let (first, second) = match key {
            Key::Shortest => (duration(flow), 0.0),
            Key::LargestBehind => (-volume[flow], duration(flow)),
            Key::CriticalPath => (-time[flow], 0.0),
        };
        keys.push(Sorted { first, second, group: instance.group_of(flow), flow });
    }
    keys
}

/// The places of the flows in the order of the key.
fn places(instance: &Instance, rates: &[f64], key: Key) -> Vec<usize> {
    let keys = keys(instance, rates, key);
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by(|&a, &b| keys[a].order(&keys[b]));
    let mut places = vec![0; keys.len()];
    for (place, flow) in order.into_iter().enumerate() {
        places[flow] = place;
    }
    places
}

/// Flows by place in the order, the first on top.
type Queue = BinaryHeap<Reverse<(usize, usize)>>;

/// What is ready: it waits at one busy link of its route, so that only what a free link releases is looked at.
struct Waiting<'a> {
    instance: &'a Instance,
    busy: Vec<bool>,
    at: Vec<Queue>,
    /// Ready since the last time, and the links that became free since.
    fresh: Queue,
    freed: Vec<usize>,
}

impl Waiting<'_> {
    /// The next flow that starts, whose links are then busy.
    fn start(&mut self) -> Option<usize> {
        loop {
            let (busy, at) = (&self.busy, &self.at);
            let heads =
                self.freed.iter().filter(|&&link| !busy[link]).filter_map(|&link| Some((at[link].peek()?, link)));
            let head = heads.max_by_key(|&(head, _)| head).map(|(&head, link)| (head, link));
            let from = match (self.fresh.peek(), head) {
                (Some(&fresh), Some((head, link))) if head > fresh => self.at.get_mut(link),
                (Some(_), _) => Some(&mut self.fresh),
                (None, Some((_, link))) => self.at.get_mut(link),
                (None, None) => None,
            };
            let Some(Reverse((place, flow))) = from.and_then(BinaryHeap::pop) else {
                self.freed.clear();
                return None;
            };
            let path = &self.instance.flows()[flow].path;
            match path.iter().find(|&&link| self.busy[link]) {
                Some(&link) => self.at[link].push(Reverse((place, flow))),
                None => {
                    path.iter().for_each(|&link| self.busy[link] = true);
                    return Some(flow);
                }
            }
        }
    }
    fn free(&mut self, flow: usize) {
        for &link in &self.instance.flows()[flow].path {
            self.busy[link] = false;
            self.freed.push(link);
        }
    }
}

fn starts(instance: &Instance, flows: &[usize], rates: &[f64], key: Key) -> Vec<f64> {
    let places = places(instance, rates, key);
    let mut starts = vec![0.0; instance.flows().len()];
    let mut ours = vec![false; instance.flows().len()];
    flows.iter().for_each(|&flow| ours[flow] = true);
    let mut before = vec![0_usize; instance.flows().len()];
    // Flows that wait for nothing any more but their release.
    let mut coming: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let at = |t: f64, flow: usize| Reverse((t.max(instance.flows()[flow].release).abs().to_bits(), flow));
    for flow in (0..ours.len()).filter(|&flow| ours[flow]) {
        before[flow] = instance.predecessors(flow).iter().filter(|&&before| ours[before]).count();
        if before[flow] == 0 {
            coming.push(at(0.0, flow));
        }
    }
    let links = instance.links().len();
    let (busy, queues) = (vec![false; links], vec![Queue::new(); links]);
    let mut waiting = Waiting { instance, busy, at: queues, fresh: Queue::new(), freed: Vec::new() };
    let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut t: f64 = 0.0;
    loop {
        while let Some(&Reverse((begin, flow))) = coming.peek() {
            if f64::from_bits(begin) > t {
                break;
            }
            coming.pop();
            waiting.fresh.push(Reverse((places[flow], flow)));
        }
        while let Some(flow) = waiting.start() {
            starts[flow] = t;
            running.push(Reverse(((t + instance.flows()[flow].size / rates[flow]).to_bits(), flow)));
        }
        let end = running.peek().map(|&Reverse((end, _))| f64::from_bits(end));
        let begin = coming.peek().map(|&Reverse((begin, _))| f64::from_bits(begin));
        t = match (end, begin) {
            // Nothing runs and nothing will: all have run.
            (None, None) => return starts,
            (None, Some(begin)) => begin,
            (Some(end), Some(begin)) if begin < end => begin,
            (Some(end), _) => {
                while let Some(&Reverse((other, flow))) = running.peek() {
                    if f64::from_bits(other) > end + TOGETHER * end.max(1.0) {
                        break;
                    }
                    running.pop();
                    waiting.free(flow);
                    for &next in instance.successors(flow).iter().filter(|&&next| ours[next]) {
                        before[next] -= 1;
                        if before[next] == 0 {
                            coming.push(at(end, next));
                        }
                    }
                }
                end
            }
        };
    }
}
