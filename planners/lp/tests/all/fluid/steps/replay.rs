//! A plain replay of fluid steps: every piece of data at every node is a set of whose inputs are in it.

use std::collections::{BTreeMap, BTreeSet};

use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::{Collective, Content, Op, Plan, Shard, StepSend};

/// Node, shard and which of the pieces between all borders.
type Place = (usize, Shard, usize);
/// The ranks whose inputs are in a piece.
type Inputs = BTreeSet<usize>;

/// Follows a plan; gives the sum over its steps of what the slowest limit of each needs, or what is wrong.
pub fn replay(topology: &Topology, plan: &Plan) -> Result<Rational, String> {
    let Content::Steps(steps) = &plan.body.content else { return Err("no steps".into()) };
    let node = |id| topology.node(plan.id(id)).expect("a node");
    let ranks: Vec<usize> = plan.body.participants.iter().flatten().map(|id| node(*id)).collect();
    let root = plan.body.root.map(|root| ranks.iter().position(|rank| *rank == node(root)).expect("takes part"));
    let (n, collective) = (ranks.len(), plan.body.collective);
    let mut borders: BTreeSet<u64> = BTreeSet::from([0, steps.p]);
    borders.extend(steps.steps.iter().flat_map(|step| step.all().flat_map(|send| [send.lo, send.hi])));
    let borders: Vec<u64> = borders.into_iter().collect();
    let pieces = |send: &StepSend| {
        let at = |border: u64| borders.binary_search(&border).expect("a border");
        at(send.lo)..at(send.hi)
    };
    let sums = matches!(collective, Collective::ReduceScatter | Collective::Reduce | Collective::AllReduce);
    let everyone: Inputs = (0..n).collect();
    // Which shards there are: who owns each, how much of all it is, and who wants it.
    let even = Rational::new(1, n as i64).expect("a part");
    let mut shards: BTreeMap<Shard, (usize, Rational, Vec<usize>)> = BTreeMap::new();
    for rank in 0..n {
        let of = Shard::Of(rank as u32);
        let others = || (0..n).filter(|other| *other != rank).collect::<Vec<_>>();
        match (collective, root) {
            (Collective::AllGather, _) => drop(shards.insert(of, (rank, even.clone(), others()))),
            (Collective::ReduceScatter, _) => drop(shards.insert(of, (rank, even.clone(), vec![rank]))),
            (Collective::AllReduce, _) => {
                let all: u64 = steps.shares.as_ref().map_or(n as u64, |shares| shares.iter().sum());
                let own = steps.shares.as_ref().map_or(1, |shares| shares[rank]);
                if own > 0 {
                    let part = Rational::new(own as i128, all as i128).expect("a part");
                    shards.insert(of, (rank, part, (0..n).collect()));
                }
            }
            (Collective::AllToAll, _) => others().into_iter().for_each(|other| {
                shards.insert(Shard::Between(rank as u32, other as u32), (rank, even.clone(), vec![other]));
            }),
            (Collective::Scatter, Some(root)) if rank != root => {
                drop(shards.insert(of, (root, even.clone(), vec![rank])))
            }
            (Collective::Gather, Some(root)) if rank != root => {
                drop(shards.insert(of, (rank, even.clone(), vec![root])))
            }
            (Collective::Broadcast, Some(root)) if rank == root => {
                drop(shards.insert(of, (rank, Rational::ONE, others())))
            }
            (Collective::Reduce, Some(root)) if rank == root => {
                drop(shards.insert(of, (rank, Rational::ONE, vec![rank])))
            }
            _ => {}
        }
    }
    let mut held: BTreeMap<Place, Vec<Inputs>> = BTreeMap::new();
    for (shard, (owner, ..)) in &shards {
        for piece in 0..borders.len() - 1 {
            for rank in if sums { 0..n } else { *owner..*owner + 1 } {
                held.insert((ranks[rank], *shard, piece), vec![Inputs::from([rank])]);
            }
        }
    }
    let complete =
        |shard: &Shard, inputs: &Inputs| if sums { *inputs == everyone } else { inputs.contains(&shards[shard].0) };
    let mut busy = Rational::ZERO;
    let mut arrived: BTreeSet<Place> = BTreeSet::new();
    for (number, step) in steps.steps.iter().enumerate() {
        let mut given: Vec<(Place, Inputs, Op)> = Vec::new();
        let mut left = held.clone();
        for op in [Op::Reduce, Op::Copy] {
            for send in step.doing(op).0 {
                let link = &topology.links()[send.link as usize];
                for piece in pieces(send) {
                    let place = (link.from, send.shard, piece);
                    let there = left.entry(place).or_default();
                    let fits = |inputs: &Inputs| complete(&send.shard, inputs) == (op == Op::Copy);
                    let Some(found) = there.iter().position(fits) else {
                        return Err(format!("step {number}: node {} has no such piece of {:?}", link.from, send.shard));
                    };
                    let inputs = there[found].clone();
                    if op == Op::Reduce || !topology.nodes()[link.from].can.copy {
                        there.remove(found);
                    }
                    given.push(((link.to, send.shard, piece), inputs, op));
                }
            }
        }
        held = left;
        for place in std::mem::take(&mut arrived) {
            let there = held.remove(&place).unwrap_or_default();
            if there.iter().any(|inputs| !topology.nodes()[place.0].can.copy || !complete(&place.1, inputs)) {
                return Err(format!("step {number}: node {} cannot store", place.0));
            }
        }
        for (place, inputs, op) in given {
            let there = held.entry(place).or_default();
            let can = topology.nodes()[place.0].can;
            match (op, there.pop()) {
                (Op::Reduce, Some(mut sum)) if can.reduce => {
                    if !sum.is_disjoint(&inputs) {
                        return Err(format!("step {number}: node {} adds an input twice", place.0));
                    }
                    sum.extend(inputs);
                    there.push(sum);
                }
                (Op::Copy, Some(same)) if can.copy && same == inputs => there.push(same),
                (_, other) => {
                    there.extend(other);
                    there.push(inputs);
                }
            }
            if !can.store {
                arrived.insert(place);
            }
        }
        let load = |links: &mut dyn Iterator<Item = usize>, capacity: Option<&Rational>| {
            let links: BTreeSet<usize> = links.collect();
            let on = step.all().filter(|send| links.contains(&(send.link as usize)));
            let part = |send: &StepSend| {
                let units = Rational::new((send.hi - send.lo) as i128, steps.p as i128).expect("a part");
                &units * &shards[&send.shard].1
            };
            let sum = on.map(part).fold(Rational::ZERO, |sum, part| &sum + &part);
            capacity.map_or(Rational::ZERO, |capacity| sum.checked_div(capacity).expect("a rate"))
        };
        let singles = topology.links().iter().enumerate();
        let singles = singles.map(|(link, of)| load(&mut std::iter::once(link), of.capacity.finite()));
        let groups =
            topology.groups().iter().map(|group| load(&mut group.links.iter().copied(), group.capacity.finite()));
        let slowest = singles.chain(groups).max().expect("a link");
        if slowest > *steps.step_length.as_ref().expect("a length") {
            return Err(format!("step {number}: too much"));
        }
        busy += &slowest;
    }
    if let Some(place) = arrived.iter().next() {
        return Err(format!("node {} cannot store what came last", place.0));
    }
    for (shard, (_, _, wanted)) in &shards {
        for piece in 0..borders.len() - 1 {
            for rank in wanted {
                let there = held.get(&(ranks[*rank], *shard, piece)).map_or(&[][..], |there| there);
                if there.len() != 1 || !complete(shard, &there[0]) {
                    return Err(format!("rank {rank} ends with {there:?} of {shard:?}"));
                }
            }
        }
    }
    Ok(busy)
}
