//! A schedule in steps as it goes: what every link carries in each step, and how much every rank has after it.
//!
//! Decided here once for both forms. Where ranks are few every shard has its colour; where they are many, colours say how
//! much a link carries.

use std::collections::{BTreeMap, HashMap};

use super::look::{LOADS, TREES};
use super::strokes::Stroke;
use crate::plan::{Collective, Op, Plan, Shard, Step, Steps};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems, UNKNOWN_EDGE, UNKNOWN_NODE};
use sluice_formats::topology::Topology;

/// Steps that are drawn at most.
const MAX_STEPS: usize = 256;
/// Pieces of all shards at all nodes that are followed at most.
const MAX_CELLS: u64 = 1 << 26;

/// A shard's part of a node's pie: its colour, and how much of the shard the node has, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub colour: &'static str,
    /// How much of it is there.
    pub full: f64,
}

pub struct Panel {
    /// What it is, in words.
    pub title: String,
    /// What goes over the links.
    pub strokes: Vec<Stroke>,
    /// By node what it has when the step is done; empty of nodes that take no part.
    pub pies: Vec<Vec<Slice>>,
}

/// A schedule as a picture.
pub struct Panels {
    /// What there is before the first step.
    pub begin: Vec<Vec<Slice>>,
    pub list: Vec<Panel>,
    /// By node its rank, of those that take part.
    pub ranks: Vec<Option<u32>>,
    pub legend: Vec<(&'static str, String)>,
}

/// What to draw of a plan. One that is wrong can be looked at, too, as long as it names nodes, links and units that are
/// there.
pub fn panels(plan: &Plan, topology: &Topology, steps: &Steps) -> Result<Panels, Problems> {
    let participants = participants(plan, topology)?;
    if steps.steps.len() > MAX_STEPS {
        let error = Problem::new(E_LIMIT, "/content/steps", "too many steps for a picture");
        return Err(error.found(steps.steps.len().to_string()).allowed(format!("at most {MAX_STEPS}")).into());
    }
    let (n, p) = (participants.len() as u64, steps.p);
    // Only where parts begin and end does it matter what a node has.
    let mut borders: Vec<u64> = steps.steps.iter().flat_map(Step::all).flat_map(|send| [send.lo, send.hi]).collect();
    borders.extend([0, p]);
    borders.sort_unstable();
    borders.dedup();
    borders.truncate(borders.partition_point(|border| *border <= p));
    let pieces = borders.len() as u64 - 1;
    let pairs = plan.body.collective == Collective::AllToAll;
    let items = if pairs { n * n } else { n };
    let cells = items.saturating_mul(pieces).saturating_mul(topology.nodes().len() as u64);
    if cells > MAX_CELLS || p == 0 {
        let error = Problem::new(E_LIMIT, "/content/P", "too many parts for a picture, or none");
        let found = format!("{pieces} parts of each of {items} shards at {} nodes", topology.nodes().len());
        return Err(error.found(found).allowed(format!("at most {MAX_CELLS} in all")).into());
    }
    let mut ranks = vec![None; topology.nodes().len()];
    (0_u32..).zip(&participants).for_each(|(rank, node)| ranks[*node] = Some(rank));
    let root = plan.body.root.and_then(|root| topology.node(plan.id(root))).and_then(|node| ranks[node]);
    let mut film = Film {
        topology,
        collective: plan.body.collective,
        root,
        participants,
        by_shard: n as usize <= TREES.len(),
        p,
        borders,
        items,
        has: vec![false; cells as usize],
    };
    film.begin(steps.steps.first().is_some_and(|step| step.op == Op::Reduce));
    let begin = film.pies();
    let most = steps.steps.iter().map(|step| film.busiest(step)).max().unwrap_or(0);
    let mut list = Vec::with_capacity(steps.steps.len());
    let mut copying = false;
    for (number, step) in steps.steps.iter().enumerate() {
        // Where sums were copied before, all is as it was left.
        let begins = step.op == Op::Copy && !std::mem::replace(&mut copying, true) && number > 0;
        if begins && steps.steps.iter().all(|step| step.copies.is_none()) {
            // All sums are complete: from here on only their owners have them.
            film.begin(false);
        }
        list.push(film.panel(number, step, most)?);
    }
    let legend = film.legend(most);
    Ok(Panels { begin, list, ranks, legend })
}

fn participants(plan: &Plan, topology: &Topology) -> Result<Vec<usize>, Problems> {
    let Some(list) = &plan.body.participants else { return Ok(topology.compute()) };
    let node = |(i, id): (usize, &crate::plan::NodeId)| {
        let unknown = || Problem::new(UNKNOWN_NODE, format!("/participants/{i}"), "a node the topology does not have");
        topology.node(plan.id(*id)).ok_or_else(|| unknown().found(plan.id(*id)).into())
    };
    list.iter().enumerate().map(node).collect()
}

/// What is where, from step to step.
struct Film<'a> {
    topology: &'a Topology,
    collective: Collective,
    root: Option<u32>,
    participants: Vec<usize>,
    /// Is every shard drawn by itself?
    by_shard: bool,
    p: u64,
    /// Where parts begin and end, from 0 to P.
    borders: Vec<u64>,
    items: u64,
    /// By node, item and piece between two borders.
    has: Vec<bool>,
}

impl Film<'_> {
    fn cells(&mut self, node: usize, item: u64, lo: u64, hi: u64) -> &mut [bool] {
        let first = (node * self.items as usize + item as usize) * (self.borders.len() - 1);
        let at = |border: u64| first + self.borders.partition_point(|other| *other < border);
        let (lo, hi) = (at(lo), at(hi));
        &mut self.has[lo..hi]
    }

    /// Everybody has everything to add up, or owners what they have to give.
    fn begin(&mut self, adds: bool) {
        self.has.fill(false);
        let (n, p) = (self.participants.len() as u64, self.p);
        for rank in 0..n {
            let node = self.participants[rank as usize];
            for item in 0..self.items {
                let owner = match self.collective {
                    Collective::AllToAll => item / n,
                    Collective::Scatter => self.root.map_or(item, u64::from),
                    Collective::Broadcast | Collective::Reduce
                        if self.root.is_some_and(|root| u64::from(root) != item) =>
                    {
                        continue;
                    }
                    _ => item,
                };
                if adds || owner == rank {
                    self.cells(node, item, 0, p).fill(true);
                }
            }
        }
    }

    /// The item of a shard, and the rank whose colour it has.
    fn item(&self, shard: Shard) -> Option<(u64, u32)> {
        let n = self.participants.len() as u64;
        let (item, rank) = match (self.collective, shard) {
            (Collective::AllToAll, Shard::Between(from, to)) if u64::from(to) < n => {
                (u64::from(from) * n + u64::from(to), from)
            }
            (Collective::AllToAll, _) | (_, Shard::Between(..)) => return None,
            (_, Shard::Of(rank)) => (u64::from(rank), rank),
        };
        (u64::from(rank) < n).then_some((item, rank))
    }

    /// What a node that takes part has.
    fn pies(&mut self) -> Vec<Vec<Slice>> {
        let (nodes, p, n) = (self.topology.nodes().len(), self.p, self.participants.len() as u64);
        let mut pies = vec![Vec::new(); nodes];
        for rank in 0..n {
            let node = self.participants[rank as usize];
            let mut full = Vec::with_capacity(n as usize);
            for shard in 0..n {
                let item = if self.collective == Collective::AllToAll { shard * n + rank } else { shard };
                let pieces: Vec<u64> = self.borders.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let here = self.cells(node, item, 0, p).iter().zip(pieces).filter(|(has, _)| **has);
                full.push(here.map(|(_, units)| units).sum::<u64>() as f64 / p as f64);
            }
            pies[node] = match self.by_shard {
                true => TREES.iter().zip(full).map(|(colour, full)| Slice { colour, full }).collect(),
                false => vec![Slice { colour: TREES[0], full: full.iter().sum::<f64>() / n as f64 }],
            };
        }
        pies
    }

    /// Units on the busiest link of a step.
    fn busiest(&self, step: &Step) -> u64 {
        let mut loads: HashMap<u32, u64> = HashMap::new();
        for send in step.all() {
            let load = loads.entry(send.link).or_default();
            *load = load.saturating_add(send.hi.saturating_sub(send.lo));
        }
        loads.into_values().max().unwrap_or(0)
    }

    fn panel(&mut self, number: usize, step: &Step, most: u64) -> Result<Panel, Problems> {
        // By ends and colour: units.
        let mut carried: BTreeMap<(usize, usize, u32), u64> = BTreeMap::new();
        let mut arrivals = Vec::with_capacity(step.sends.len());
        for (i, send) in step.all().enumerate() {
            let (key, i) = match i.checked_sub(step.sends.len()) {
                None => ("sends", i),
                Some(i) => ("copies", i),
            };
            let at = |part: &str| format!("/content/steps/{number}/{key}/{i}{part}");
            let Some(link) = self.topology.links().get(send.link as usize) else {
                let error = Problem::new(UNKNOWN_EDGE, at("/3"), "a link the topology does not have");
                return Err(error.found(send.link.to_string()).into());
            };
            let Some((item, rank)) = self.item(send.shard).filter(|_| send.lo < send.hi && send.hi <= self.p) else {
                let error = Problem::new(E_RANGE, at(""), "no part of a shard of this collective");
                return Err(error
                    .found(format!("[{}, {})", send.lo, send.hi))
                    .allowed(format!("units of {}", self.p))
                    .into());
            };
            let load = carried.entry((link.from, link.to, if self.by_shard { rank } else { 0 })).or_default();
            *load = load.saturating_add(send.hi - send.lo);
            arrivals.push((link.from, link.to, item, send.lo, send.hi));
        }
        if step.op == Op::Reduce {
            // A partial sum that is sent on is gone.
            for (from, _, item, lo, hi) in &arrivals[..step.sends.len()] {
                self.cells(*from, *item, *lo, *hi).fill(false);
            }
        }
        for (_, to, item, lo, hi) in &arrivals {
            self.cells(*to, *item, *lo, *hi).fill(true);
        }
        let op = match (step.op, &step.copies) {
            (Op::Reduce, None) => "add up",
            (Op::Reduce, Some(_)) => "add up and copy",
            (Op::Copy, _) => "copy",
        };
        let busiest = self.busiest(step);
        let load = format!("{busiest}/{} of a shard on the busiest link", self.p);
        let title = format!("step {}: {op}, {load}", number + 1);
        Ok(Panel { title, strokes: self.strokes(&carried, most), pies: self.pies() })
    }

    fn strokes(&self, carried: &BTreeMap<(usize, usize, u32), u64>, most: u64) -> Vec<Stroke> {
        let mut list: Vec<Stroke> = Vec::with_capacity(carried.len());
        for ((from, to, rank), units) in carried {
            let beside = list.last().filter(|last| (last.from, last.to) == (*from, *to));
            let lane = beside.map_or(0, |last| last.lane + 1);
            let part = *units as f64 / most.max(1) as f64;
            let class = ((part * LOADS.len() as f64).ceil() as usize).clamp(1, LOADS.len()) - 1;
            let (colour, width, what) = match self.by_shard {
                true => (TREES[*rank as usize % TREES.len()], 1.0 + 1.5 * part, format!("shard {rank}: ")),
                false => (LOADS[class], 0.6 + 0.3 * class as f64, String::new()),
            };
            let words = format!("{what}{units}/{} of a shard", self.p);
            list.push(Stroke { from: *from, to: *to, lane, colour, width, words });
        }
        list
    }

    fn legend(&self, most: u64) -> Vec<(&'static str, String)> {
        if self.by_shard {
            let name = |node: &usize| format!("shard of {}", self.topology.nodes()[*node].id);
            return TREES.iter().copied().zip(self.participants.iter().map(name)).collect();
        }
        let step = 100 / LOADS.len();
        let of = format!("of {most}/{} of a shard, the most there is on a link", self.p);
        let load = |(class, colour): (usize, &&'static str)| {
            (*colour, format!("{} to {} % {of}", class * step, (class + 1) * step))
        };
        let mut legend: Vec<_> = LOADS.iter().enumerate().map(load).collect();
        legend.push((TREES[0], "how much of all a node has".into()));
        legend
    }
}
