//! The linear program of chunks that may be cut and are not copied: how much of whose data starts on which lane when.
//!
//! S(o, lane, k) is what of origin o starts on a lane in epoch k, H(o, n, k) what stays at node n during it, R(o, n, k)
//! what node n has got for itself at its start, all in chunks. What was there and what has come is what is read, stays or
//! leaves; switches keep nothing. Where a node has a limited buffer, what stays there for others fits in.
//!
//! Source: section 3 of the paper (its program without copies), with exact balances in the first and last epoch.

use std::collections::BTreeMap;

use sluice_formats::problem::Problems;
use sluice_planners::Run;
use sluice_planners::teccl::divided::{Amounts, Answer, Delivered, Divide, Origin, Sent};
use sluice_planners::teccl::{Instance, Objective};
use sluice_solver::{Bounds, Failed};

use super::builder::{Builder, Built, Drafted};
use super::milp::{failed, unusable};
use super::model::Reach;

/// What a chunk on a lane costs, so that nothing moves without need; too little to outweigh any gain.
const COST: f64 = 1e-6;
/// Chunks that are nothing.
const NOTHING: f64 = 1e-9;

/// Chunks that may be cut, by the simplex method.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Where the solver's random numbers begin.
    pub seed: u32,
}

/// What a column stands for.
#[derive(Clone, Copy, Debug)]
enum Stands {
    Sent(Origin, usize, u64),
    Kept,
    Delivered(Origin, usize, u64),
}

impl Divide for Flow {
    fn amounts(
        &self,
        instance: &Instance<'_>,
        epochs: u64,
        objective: Option<Objective>,
        run: &Run<'_>,
    ) -> Result<Answer, Problems> {
        let Some(Built { mut program, stands }) = program(instance, epochs, objective).map_err(failed)? else {
            return Ok(Answer::Unknown);
        };
        let (seed, deadline, cancel) = (self.seed, run.deadline, run.cancel);
        let options = sluice_solver::Options { seed, deadline, cancel, ..sluice_solver::Options::default() };
        let solution = match program.solve(&options, None).map_err(failed)? {
            sluice_solver::Answer::Optimal(solution) => solution,
            sluice_solver::Answer::Infeasible => return Ok(Answer::Infeasible),
            sluice_solver::Answer::TimeLimit(_) => return Ok(Answer::Unknown),
            other => return Err(unusable(other)),
        };
        let mut amounts = Amounts::default();
        for (stands, amount) in stands.into_iter().zip(solution.values).filter(|(_, amount)| *amount > NOTHING) {
            match stands {
                Stands::Sent(origin, lane, epoch) => amounts.sent.push(Sent { origin, lane, epoch, amount }),
                Stands::Delivered(origin, node, epoch) => {
                    amounts.delivered.push(Delivered { origin, node, epoch, amount });
                }
                Stands::Kept => {}
            }
        }
        Ok(Answer::Found(amounts))
    }
}

/// The program of a horizon; `None` where it would be too large.
fn program(
    instance: &Instance<'_>,
    epochs: u64,
    objective: Option<Objective>,
) -> Result<Option<Built<Stands>>, Failed> {
    let (lanes, demand) = (&instance.lanes, &instance.demand);
    let reach = Reach::new(lanes, demand);
    let mut builder: Builder<Stands> = Builder::new();
    let any = Bounds { lower: 0.0, upper: f64::INFINITY };
    let mut on_lane: BTreeMap<(usize, u64), Vec<Drafted>> = BTreeMap::new();
    let mut in_buffer: BTreeMap<(usize, u64), Vec<Drafted>> = BTreeMap::new();
    // By origin: by reader how many chunks.
    let mut wanted: BTreeMap<Origin, BTreeMap<usize, u64>> = BTreeMap::new();
    for chunk in &demand.chunks {
        let of = wanted.entry(Origin { tenant: chunk.tenant, source: chunk.source }).or_default();
        chunk.wanted_by.iter().for_each(|node| *of.entry(*node).or_default() += 1);
    }
    for (origin, readers) in &wanted {
        let weight = demand.tenants.get(origin.tenant).map_or(1.0, |tenant| tenant.weight.to_f64());
        let from = reach.from(origin.source);
        let left = reach.left(lanes, readers.keys().copied());
        let mut starts: BTreeMap<(usize, u64), Drafted> = BTreeMap::new();
        for (place, lane) in lanes.lanes.iter().enumerate() {
            let Some(last) = epochs.checked_sub(lane.after.saturating_add(left[lane.to])) else { continue };
            if lane.to == origin.source || from[lane.from] > last {
                continue;
            }
            for epoch in from[lane.from]..=last {
                let column = builder.column(-COST, any, Stands::Sent(*origin, place, epoch));
                starts.insert((place, epoch), column);
                on_lane.entry((place, epoch)).or_default().push(column);
            }
        }
        if builder.is_full() {
            return Ok(None);
        }
        let mut read: BTreeMap<usize, Vec<Drafted>> = BTreeMap::new();
        for (node, of) in lanes.nodes.iter().enumerate() {
            if from[node] > epochs || left[node] > epochs - from[node] {
                continue;
            }
            let mut kept: Option<Drafted> = None;
            for epoch in from[node]..=epochs {
                let mut terms: Vec<(Drafted, f64)> = kept.take().into_iter().map(|kept| (kept, 1.0)).collect();
                if node != origin.source {
                    let came = lanes.into[node]
                        .iter()
                        .filter_map(|lane| starts.get(&(*lane, epoch.checked_sub(lanes.lanes[*lane].after)?)).copied());
                    terms.extend(came.map(|column| (column, 1.0)));
                }
                let leaves = lanes.out[node].iter().filter_map(|lane| starts.get(&(*lane, epoch)).copied());
                terms.extend(leaves.map(|column| (column, -1.0)));
                if readers.contains_key(&node) && epoch > 0 {
                    let gain = objective.map_or(0.0, |objective| weight * objective.gains_from(epoch, epochs));
                    let column = builder.column(gain, any, Stands::Delivered(*origin, node, epoch));
                    read.entry(node).or_default().push(column);
                    terms.push((column, -1.0));
                }
                if !of.is_switch && epoch < epochs {
                    let column = builder.column(0.0, any, Stands::Kept);
                    terms.push((column, -1.0));
                    kept = Some(column);
                    if node != origin.source && of.buffer.is_some() {
                        in_buffer.entry((node, epoch)).or_default().push(column);
                    }
                }
                let begins = node == origin.source && epoch == 0;
                let all: u64 = if begins { readers.values().sum() } else { 0 };
                if begins || !terms.is_empty() {
                    builder.sum(Bounds::exactly(-(all as f64)), terms)?;
                }
            }
        }
        for (node, chunks) in readers {
            let columns = read.remove(node).unwrap_or_default();
            builder.sum(Bounds::exactly(*chunks as f64), columns.into_iter().map(|column| (column, 1.0)))?;
        }
    }
    for ((lane, epoch), columns) in on_lane {
        let most = lanes.lanes[lane].rate(epoch).to_f64();
        builder.sum(Bounds::at_most(most), columns.into_iter().map(|column| (column, 1.0)))?;
    }
    let chunk = instance.terms.chunk.to_f64();
    for ((node, _), columns) in in_buffer {
        let most = lanes.nodes[node].bytes.unwrap_or(f64::INFINITY) / chunk;
        builder.sum(Bounds::at_most(most), columns.into_iter().map(|column| (column, 1.0)))?;
    }
    builder.finish().map(Some)
}
