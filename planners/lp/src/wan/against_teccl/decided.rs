//! TE-CCL's own search for a schedule of the fewest epochs, within some seconds: greedy orders, and the integer program where
//! these do not meet the bound and it may get somewhere in that time.

use std::time::Instant;

use sluice_planners::Run;
use sluice_planners::teccl::lane::Lane;
use sluice_planners::teccl::schedule::{Schedule, Send};
use sluice_planners::teccl::{Found, Goal, Instance, Search as _, greedy};

use super::{Options, Refusal, Standing};
use crate::teccl::milp::Milp;

/// Chunks, lanes and epochs of a program, multiplied, beyond which it gets nowhere in seconds.
const MAX_PROGRAM: u64 = 100_000;

/// A schedule, and how good it is.
#[derive(Debug)]
pub struct Decided {
    pub schedule: Schedule,
    pub standing: Standing,
}

/// Looks for a schedule.
pub fn search(instance: &Instance<'_>, options: Options, run: &Run<'_>) -> Result<Decided, Refusal> {
    let limit = Instant::now() + options.limit;
    let run = Run { deadline: Some(run.deadline.map_or(limit, |deadline| deadline.min(limit))), ..*run };
    let Instance { lanes, hops, demand, bound, .. } = instance;
    let schedule = greedy::best(lanes, hops, demand, bound.epochs, 0, &run)?;
    let mut found = Found { schedule, bound: bound.epochs, proved: true };
    let finish = found.schedule.as_ref().map_or(u64::MAX, |schedule| schedule.finish);
    let columns = finish.saturating_mul((demand.chunks.len() * lanes.lanes.len()) as u64);
    let mut standing = Standing::Greedy;
    if finish > found.bound && columns <= MAX_PROGRAM {
        found = Milp::default().search(instance, Goal::MinEpochs, found, &run)?;
        standing = Standing::Limited;
    }
    let schedule = found.schedule.ok_or(sluice_planners::Stopped::TimeLimit)?;
    if schedule.finish <= found.bound {
        standing = Standing::Best;
    }
    Ok(Decided { schedule, standing })
}

/// By chunk its sends, in the order of the epochs.
pub fn by_chunk(instance: &Instance<'_>, schedule: &Schedule) -> Vec<Vec<Send>> {
    let mut sends = vec![Vec::new(); instance.demand.chunks.len()];
    schedule.sends.iter().for_each(|send| sends[send.chunk].push(*send));
    sends
}

/// The rate that a chunk has on a lane: it takes whole epochs.
pub fn rate(lane: &Lane, chunk: f64, epoch: f64) -> f64 {
    chunk / (lane.kappa as f64 * epoch)
}
