//! A replay of flows from event to event: whenever one ends or is released, all that are ready get new rates by a rule.
//!
//! A flow is ready when it is released and all it waits for have ended. Those that end within 10⁻¹² of the time to the next end
//! do so together with it, so every event ends a flow or releases one. A flow that no link limits ends at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fixed::{Fixed, OutOfRange};
use super::instance::Instance;
use super::waits::Waits;

/// What a replay may cost at most, in visits of a link: by a flow when rates are made or bytes moved, or by a round that
/// looks for the fullest one.
pub const MOST_VISITS: u64 = 100_000_000;
/// Ends that are apart by one part of so many, or less, are one.
const TOGETHER: u64 = 1 << 40;

/// How ready flows share links.
pub trait Rule {
    /// The rates of the `ready` flows, each at the place of its flow; gives the visits that it took.
    fn share(&mut self, ready: &[usize], rates: &mut [Fixed]) -> Result<u64, OutOfRange>;
    /// A flow has moved so much, and has this left.
    fn moved(&mut self, _flow: usize, _moved: Fixed, _left: Fixed) -> Result<(), OutOfRange> {
        Ok(())
    }
}

/// When each flow ends; `None` where finding out would take more than so many visits.
pub fn replay(
    instance: &Instance,
    waits: &Waits,
    rule: &mut dyn Rule,
    most: u64,
) -> Result<Option<Vec<Fixed>>, OutOfRange> {
    let flows = &instance.transfers;
    let mut replay = Replay {
        instance,
        waits,
        before: waits.before().to_vec(),
        ends: vec![Fixed::ZERO; flows.len()],
        now: Fixed::ZERO,
        ready: Vec::new(),
        held: BinaryHeap::new(),
    };
    replay.unlock((0..flows.len()).filter(|flow| waits.before()[*flow] == 0).collect());
    let mut left: Vec<Fixed> = flows.iter().map(|flow| flow.size).collect();
    let (mut rates, mut needs) = (Vec::new(), Vec::new());
    let mut visits = 0;
    loop {
        replay.release();
        if replay.ready.is_empty() {
            match replay.held.peek() {
                None => return Ok(Some(replay.ends)),
                Some(Reverse((release, _))) => replay.now = *release,
            }
            continue;
        }
        rates.clear();
        rates.resize(replay.ready.len(), Fixed::ZERO);
        visits += rule.share(&replay.ready, &mut rates)?;
        visits += replay.ready.iter().map(|flow| 1 + flows[*flow].route.len() as u64).sum::<u64>();
        if visits > most {
            return Ok(None);
        }
        // A flow that stands still, or nearly, is never the next to end.
        let need = |(flow, rate): (&usize, &Fixed)| left[*flow].over(*rate).unwrap_or(Fixed::MOST);
        needs.clear();
        needs.extend(replay.ready.iter().zip(&rates).map(need));
        let next = needs.iter().copied().min().filter(|next| *next < Fixed::MOST).ok_or(OutOfRange)?;
        let release = replay.held.peek().map_or(Fixed::MOST, |Reverse((release, _))| release.less(replay.now));
        let step = next.min(release);
        replay.now = replay.now.plus(step)?;
        let together = step.about(TOGETHER);
        let ready = std::mem::take(&mut replay.ready);
        let mut ended = Vec::new();
        for ((flow, rate), need) in ready.into_iter().zip(&rates).zip(&needs) {
            let moved = if *need <= together { left[flow] } else { rate.times(step)?.min(left[flow]) };
            left[flow] = left[flow].less(moved);
            rule.moved(flow, moved, left[flow])?;
            if *need <= together { ended.push(flow) } else { replay.ready.push(flow) }
        }
        replay.end(ended);
    }
}

/// Where a replay stands.
struct Replay<'a> {
    instance: &'a Instance,
    waits: &'a Waits,
    /// By flow, how many it still waits for.
    before: Vec<u32>,
    ends: Vec<Fixed>,
    now: Fixed,
    ready: Vec<usize>,
    /// Flows that wait for their release only.
    held: BinaryHeap<Reverse<(Fixed, usize)>>,
}

impl Replay<'_> {
    /// Flows that wait for no other any more.
    fn unlock(&mut self, flows: Vec<usize>) {
        for flow in flows {
            let of = &self.instance.transfers[flow];
            if of.release <= self.now && of.alone.is_some() {
                self.ready.push(flow);
            } else {
                self.held.push(Reverse((of.release, flow)));
            }
        }
    }
    /// Those whose time has come.
    fn release(&mut self) {
        while let Some(Reverse((release, flow))) = self.held.peek().copied()
            && release <= self.now
        {
            self.held.pop();
            if self.instance.transfers[flow].alone.is_some() {
                self.ready.push(flow);
            } else {
                self.end(vec![flow]);
            }
        }
    }
    /// Flows that end now.
    fn end(&mut self, flows: Vec<usize>) {
        for flow in flows {
            self.ends[flow] = self.now;
            let mut free = Vec::new();
            for next in self.waits.after(flow) {
                self.before[next] -= 1;
                if self.before[next] == 0 {
                    free.push(next);
                }
            }
            self.unlock(free);
        }
    }
}
