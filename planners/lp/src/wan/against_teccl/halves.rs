//! Reduce-scatter and then all-gather, over trees that TE-CCL chooses: everybody on the way may add up and copy.
//!
//! A reduce-scatter is an all-gather in time that runs backwards, on links that lead the other way; all collectives at once
//! are tenants in each. Whose chunk is whose is as in the ring: the receiver of the last hop that adds up. What is executed
//! has a flow for each send: one that adds up waits for all that it adds, the first that spreads for the whole sum, and each
//! further one for what brought the chunk. A half of a chunk is as large as the hops of that half are on average.

use sluice_planners::Run;
use sluice_planners::teccl;
use sluice_planners_wan::{Flow, Instance, Refusal as Unusable};

use super::asked::{Want, chunk, put, topology};
use super::decided::{Decided, by_chunk, rate, search};
use super::{Decision, Draft, Options, Refusal};

pub fn decide(instance: &Instance, options: Options, run: &Run<'_>) -> Result<Decision, Refusal> {
    let rings: Vec<Vec<Owned>> =
        (0..instance.collectives()).map(|collective| ring(instance, collective)).collect::<Result<_, _>>()?;
    let chunk = chunk(instance, options);
    let (sites, back) = (topology(instance, false)?, topology(instance, true)?);
    let wants = || rings.iter().map(|ring| Want::AllGather(ring.iter().map(|owned| owned.owner).collect())).collect();
    let adding = put(&back, wants(), chunk, options)?;
    let spreading = put(&sites, wants(), chunk, options)?;
    let sums = search(&adding, options, run)?;
    let copies = search(&spreading, options, run)?;
    let mut whole = Whole { instance, rings: &rings, options, chunk, draft: Draft::default() };
    let summed = whole.add_up(&adding, &sums)?;
    whole.spread(&spreading, &copies, sums.schedule.finish, &summed)?;
    let epochs = sums.schedule.finish + copies.schedule.finish;
    whole.draft.finish(instance, epochs, adding.terms.tau.to_f64(), sums.standing.max(copies.standing))
}

/// What a participant has the sum of.
struct Owned {
    owner: usize,
    /// MB of a hop that adds up, on average.
    adds: f64,
    /// MB of a hop that hands on, on average.
    hands_on: f64,
}

/// By chunk who owns it, in a ring.
fn ring(instance: &Instance, collective: usize) -> Result<Vec<Owned>, Unusable> {
    let groups = instance.groups_of(collective);
    let n = groups.len();
    let bad = || Unusable::BadParticipants { what: format!("the flows of collective {collective} are no ring") };
    let mut rings = Vec::with_capacity(n);
    for group in &instance.groups()[groups] {
        let hops: Vec<&Flow> = group.flows.iter().map(|flow| &instance.flows()[*flow]).collect();
        if n < 2 || hops.len() != 2 * (n - 1) {
            return Err(bad());
        }
        let (first, second) = hops.split_at(n - 1);
        let mean = |hops: &[&Flow]| hops.iter().map(|flow| flow.size).sum::<f64>() / hops.len() as f64;
        let owner = first.last().map(|flow| flow.to).ok_or_else(bad)?;
        rings.push(Owned { owner, adds: mean(first), hands_on: mean(second) });
    }
    let mut owners: Vec<usize> = rings.iter().map(|owned| owned.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    if owners.len() == n { Ok(rings) } else { Err(bad()) }
}

/// Both halves, as they come together.
struct Whole<'a> {
    instance: &'a Instance,
    rings: &'a [Vec<Owned>],
    options: Options,
    chunk: f64,
    draft: Draft,
}

impl Whole<'_> {
    /// Adds a send of a chunk of its own kind; its index.
    fn send(
        &mut self,
        asked: &teccl::Instance<'_>,
        chunk: usize,
        lane: usize,
        start: u64,
        size: impl Fn(&Owned) -> f64,
    ) -> Result<usize, Refusal> {
        let (of, lane) = (&asked.demand.chunks[chunk], &asked.lanes.lanes[lane]);
        let torn = Refusal::Torn { chunk, node: of.source };
        let owned = self.rings[of.tenant].iter().find(|owned| owned.owner == of.source).ok_or(torn)?;
        let path = lane.links.clone();
        let ends = (path.first(), path.last());
        let (Some(first), Some(last)) = ends else { return Err(Refusal::Torn { chunk, node: lane.from }) };
        let (from, to) = (self.instance.links()[*first].from, self.instance.links()[*last].to);
        let size = size(owned) / self.options.chunks as f64;
        let rate = rate(lane, self.chunk, asked.terms.tau.to_f64());
        let flow = Flow { collective: of.tenant, group: 0, order: 0, from, to, size, path, release: 0.0 };
        Ok(self.draft.flow(flow, rate, start))
    }

    /// The half that adds up, which by its clock is the other way round; by chunk what brings its owner the last parts.
    fn add_up(&mut self, asked: &teccl::Instance<'_>, decided: &Decided) -> Result<Vec<Vec<usize>>, Refusal> {
        let mut summed = Vec::with_capacity(asked.demand.chunks.len());
        for (chunk, mut sends) in by_chunk(asked, &decided.schedule).into_iter().enumerate() {
            let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.instance.nodes()];
            // What spreads last is what adds up first.
            sends.reverse();
            for send in sends {
                let lane = &asked.lanes.lanes[send.lane];
                let start = decided.schedule.finish - send.epoch - lane.after;
                let index = self.send(asked, chunk, send.lane, start, |owned| owned.adds)?;
                self.draft.waits.extend(into[lane.to].iter().map(|before| (*before, index)));
                into[lane.from].push(index);
            }
            summed.push(std::mem::take(&mut into[asked.demand.chunks[chunk].source]));
        }
        Ok(summed)
    }

    /// The half that spreads, after so many epochs.
    fn spread(
        &mut self,
        asked: &teccl::Instance<'_>,
        decided: &Decided,
        after: u64,
        summed: &[Vec<usize>],
    ) -> Result<(), Refusal> {
        for ((chunk, sends), summed) in by_chunk(asked, &decided.schedule).into_iter().enumerate().zip(summed) {
            // What brings the chunk to each node, once it has been brought there.
            let mut brought: Vec<Option<usize>> = vec![None; self.instance.nodes()];
            for send in sends {
                let lane = &asked.lanes.lanes[send.lane];
                let index = self.send(asked, chunk, send.lane, after + send.epoch, |owned| owned.hands_on)?;
                match brought[lane.from] {
                    Some(before) => self.draft.waits.push((before, index)),
                    None if lane.from == asked.demand.chunks[chunk].source => {
                        self.draft.waits.extend(summed.iter().map(|before| (*before, index)));
                    }
                    None => return Err(Refusal::Torn { chunk, node: lane.from }),
                }
                brought[lane.to] = Some(index);
            }
        }
        Ok(())
    }
}
