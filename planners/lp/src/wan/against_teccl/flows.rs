//! Every flow a demand of its own: TE-CCL chooses its way freely and knows nothing of what it waits for.
//!
//! What is executed has the dependencies: a part of a flow goes the way of its chunk, after all parts of the flow before
//! it. A part has its share of the flow's real size, at the rate that chunks have on the slowest link of the way.

use sluice_planners::Run;
use sluice_planners_wan::{Flow, Instance};

use super::asked::{Want, chunk, put, topology};
use super::decided::{by_chunk, rate, search};
use super::{Decision, Draft, Options, Refusal};

pub fn decide(instance: &Instance, options: Options, run: &Run<'_>) -> Result<Decision, Refusal> {
    let (sites, chunk) = (topology(instance, false)?, chunk(instance, options));
    let mut wants: Vec<Vec<(usize, u64, usize)>> = vec![Vec::new(); instance.collectives()];
    for (index, flow) in instance.flows().iter().enumerate() {
        let first = index as u64 * options.chunks;
        wants[flow.collective].extend((first..first + options.chunks).map(|number| (flow.from, number, flow.to)));
    }
    let asked = put(&sites, wants.into_iter().map(Want::Triples).collect(), chunk, options)?;
    let decided = search(&asked, options, run)?;
    let epoch = asked.terms.tau.to_f64();
    let mut draft = Draft::default();
    // By flow its parts.
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); instance.flows().len()];
    for (of, sends) in asked.demand.chunks.iter().zip(by_chunk(&asked, &decided.schedule)) {
        let index = (of.number / options.chunks) as usize;
        let flow = &instance.flows()[index];
        let lanes = || sends.iter().map(|send| &asked.lanes.lanes[send.lane]);
        let rate = lanes().map(|lane| rate(lane, chunk, epoch)).fold(f64::INFINITY, f64::min);
        let path = lanes().flat_map(|lane| lane.links.iter().copied()).collect();
        let start = sends.first().map_or(0, |send| send.epoch);
        let part = Flow { size: flow.size / options.chunks as f64, path, ..flow.clone() };
        parts[index].push(draft.flow(part, rate, start));
    }
    for (before, after) in instance.dependencies() {
        let pairs = parts[before].iter().flat_map(|a| parts[after].iter().map(|b| (*a, *b)));
        draft.waits.extend(pairs);
    }
    draft.finish(instance, decided.schedule.finish, epoch, decided.standing)
}
