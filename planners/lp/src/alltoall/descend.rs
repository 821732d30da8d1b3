//! A first-order method for graphs that are too large for the linear program: flows that even out the links' loads.
//!
//! Every source sends one unit to every other vertex; the rate is one over the fullest link's load. Links are priced
//! steeply by their load, and source after source moves its flow to where it is cheap: at every vertex, from the dearest
//! way that its flow takes to the cheapest one, from where they part, as much as the prices' slopes say (Dial's
//! Algorithm B for traffic assignment, 2006). The flow of a source has no cycle, and it is kept as the share that each
//! link has in what its head receives. As flows settle, prices get steeper.
//!
//! Both results are proved: the rate by adding the loads up anew, the bound by exact distances under the prices
//! ([`super::lengths`]).

use super::links::Links;
use super::program::Solved;
use super::{Refusal, going_on, lengths};
use sluice_formats::quantity::Rational;
use sluice_planners::{Run, Stage};

/// How steep prices are at first: the exponent from the price of an empty link to that of the fullest.
const FIRST_STEEPNESS: f64 = 10.0;
/// How much steeper prices get from pass to pass.
const STEEPER: f64 = 1.5;
/// Passes without gain after which prices get steeper although flows have not settled: they may never.
const RESTLESS: u32 = 10;
/// Passes without gain before it is given up.
const PATIENCE: u32 = 50;
/// No price is below this part of the fullest link's, so that prices of ways grow from link to link.
const CHEAPEST: f64 = 1e-7;
/// Smaller shares, of an average one, are dropped: a trickle on a dear way would keep cheaper ways out of the order.
const MIN_SHARE: f32 = 1e-5;
/// What a proved rate gives way for rounding.
const ROUNDING: f64 = 1e-9;

/// Solves until the gap is small enough, time runs out, or nothing moves any more.
pub(super) fn solve(links: &Links, bound: &Rational, gap: f64, run: &Run) -> Result<Solved, Refusal> {
    let mut state = State::new(links);
    let mut best = Solved { rate: state.rate(), bound: Some(bound.clone()) };
    let mut upper = bound.to_f64();
    let least_gain = gap.max(1e-6) / 1000.0;
    let (mut steepness, mut stuck, mut pass) = (FIRST_STEEPNESS, 0, 0_u64);
    while best.rate < upper * (1.0 - gap) && stuck < PATIENCE {
        going_on(run)?;
        if run.is_late() {
            break;
        }
        let before = (best.rate, upper);
        state.pass(links, steepness, run)?;
        best.rate = best.rate.max(state.rate());
        let prices = state.prices(steepness);
        let mut here = upper;
        if let Some(proved) = lengths::bound(links, &lengths::whole(&prices), links.n) {
            here = proved.to_f64();
            if here < upper {
                upper = here;
                best.bound = Some(proved);
            }
        }
        let about = format_args!("rate {:.4e}, at most {upper:.4e}", best.rate);
        run.tell(Stage::AllToAll, pass, 0, about);
        let paid: f64 = prices.iter().zip(&state.loads).map(|(price, load)| price * load).sum();
        let all: f64 = prices.iter().sum();
        // What is lost because prices are not steep enough, and because flows are not where it is cheapest.
        let (soft, unsettled) = (1.0 - paid / all / state.fullest(), 1.0 - all / (here * paid));
        if soft > unsettled || (stuck + 1) % RESTLESS == 0 {
            steepness *= STEEPER;
        }
        let gained = best.rate > before.0 * (1.0 + least_gain) || upper < before.1 * (1.0 - least_gain);
        stuck = if gained { 0 } else { stuck + 1 };
        pass += 1;
    }
    Ok(best)
}

/// The flows of all sources and the loads that they make.
struct State {
    /// By source, then link: the share of the link in what its head receives.
    shares: Vec<f32>,
    loads: Vec<f64>,
    work: Work,
}

/// What a step on one source needs.
struct Work {
    /// The source's vertices so that every link with flow leads from earlier to later.
    order: Vec<u32>,
    /// Links with flow into a vertex whose tails are not in `order` yet; later, places in `order`.
    place: Vec<u32>,
    /// What a vertex receives: its own unit and what goes through.
    through: Vec<f64>,
    flow: Vec<f64>,
    /// Price of the dearest way with flow to a vertex, and its last link.
    dearest: Vec<(f64, u32)>,
    /// Price of the cheapest way that leads forward in the order, and its last link.
    cheapest: Vec<(f64, u32)>,
    /// Links of the two ways behind the vertex where they part.
    dear: Vec<u32>,
    cheap: Vec<u32>,
}

/// How dear a link is by its load.
#[derive(Clone, Copy)]
struct Pricing {
    fullest: f64,
    steepness: f64,
}

impl Pricing {
    fn price(self, load: f64) -> f64 {
        (self.steepness * (load / self.fullest - 1.0)).exp().max(CHEAPEST)
    }
    /// Load that changes a price by the factor e.
    fn scale(self) -> f64 {
        self.fullest / self.steepness
    }
}

impl State {
    /// Flow along all shortest ways by hops, in equal parts at every vertex.
    fn new(links: &Links) -> State {
        let mut shares = vec![0.0; links.n * links.len()];
        for (source, shares) in shares.chunks_exact_mut(links.len()).enumerate() {
            let hops = links.hops(source);
            for v in (0..links.n).filter(|&v| v != source) {
                let near = |link: u32| hops[links.tail[link as usize] as usize] + 1 == hops[v];
                let count = links.into(v).iter().filter(|&&link| near(link)).count() as f32;
                links.into(v).iter().filter(|&&link| near(link)).for_each(|&link| shares[link as usize] = 1.0 / count);
            }
        }
        let mut state = State { shares, loads: vec![0.0; links.len()], work: Work::new(links) };
        state.add_up(links);
        state
    }
    fn rate(&self) -> f64 {
        (1.0 - ROUNDING) / self.fullest()
    }
    fn fullest(&self) -> f64 {
        self.loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    }
    fn prices(&self, steepness: f64) -> Vec<f64> {
        let fullest = self.fullest();
        self.loads.iter().map(|&load| Pricing { fullest, steepness }.price(load)).collect()
    }
    /// All loads anew from the shares, so that no error of small changes stays.
    fn add_up(&mut self, links: &Links) {
        self.loads.fill(0.0);
        for source in 0..links.n {
            let shares = &self.shares[source * links.len()..][..links.len()];
            self.work.follow(links, shares, source);
            self.work.spread(links, shares, source);
            self.loads.iter_mut().zip(&self.work.flow).for_each(|(load, flow)| *load += flow);
        }
    }
    /// A step for every source in turn.
    fn pass(&mut self, links: &Links, steepness: f64, run: &Run) -> Result<(), Refusal> {
        let pricing = Pricing { fullest: self.fullest(), steepness };
        let mut prices = self.prices(steepness);
        for source in 0..links.n {
            if source % 64 == 0 {
                going_on(run)?;
                if run.is_late() {
                    break;
                }
            }
            let shares = &mut self.shares[source * links.len()..][..links.len()];
            self.work.follow(links, shares, source);
            self.work.spread(links, shares, source);
            self.work.label(links, &prices, source);
            self.work.shift(links, pricing, &mut self.loads, &mut prices);
            self.work.keep(links, shares, source);
        }
        self.add_up(links);
        Ok(())
    }
}

impl Work {
    fn new(links: &Links) -> Work {
        Work {
            order: Vec::with_capacity(links.n),
            place: vec![0; links.n],
            through: vec![0.0; links.n],
            flow: vec![0.0; links.len()],
            dearest: vec![(0.0, 0); links.n],
            cheapest: vec![(0.0, 0); links.n],
            dear: Vec::new(),
            cheap: Vec::new(),
        }
    }
    /// An order of the vertices in which every link with flow leads forward.
    fn follow(&mut self, links: &Links, shares: &[f32], source: usize) {
        self.place.fill(0);
        for (link, _) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            self.place[links.head[link] as usize] += 1;
        }
        self.order.clear();
        self.order.push(source as u32);
        let mut next = 0;
        while let Some(&v) = self.order.get(next) {
            next += 1;
            for &link in links.out(v as usize).iter().filter(|&&link| shares[link as usize] > 0.0) {
                let head = links.head[link as usize];
                self.place[head as usize] -= 1;
                if self.place[head as usize] == 0 {
                    self.order.push(head);
                }
            }
        }
    }
    /// Flow on every link, from the last vertex of the order to the first.
    fn spread(&mut self, links: &Links, shares: &[f32], source: usize) {
        self.through.fill(1.0);
        self.flow.fill(0.0);
        for &v in self.order.iter().rev().filter(|&&v| v as usize != source) {
            let into = links.into(v as usize);
            let sum: f64 = into.iter().map(|&link| f64::from(shares[link as usize])).sum();
            for &link in into {
                let flow = self.through[v as usize] * f64::from(shares[link as usize]) / sum;
                if flow > 0.0 {
                    self.flow[link as usize] = flow;
                    self.through[links.tail[link as usize] as usize] += flow;
                }
            }
        }
    }
    /// The dearest ways with flow, the order by their prices, and the cheapest ways forward in it.
    fn label(&mut self, links: &Links, prices: &[f64], source: usize) {
        self.dearest[source] = (0.0, u32::MAX);
        for &v in self.order.iter().filter(|&&v| v as usize != source) {
            let with_flow = links.into(v as usize).iter().filter(|&&link| self.flow[link as usize] > 0.0);
            let ways = with_flow.map(|&link| {
                let tail = links.tail[link as usize] as usize;
                (self.dearest[tail].0 + prices[link as usize], link)
            });
            self.dearest[v as usize] = ways.fold((0.0, u32::MAX), |best, way| if way.0 > best.0 { way } else { best });
        }
        // A link that leads to a dearer vertex closes no cycle with the flow, whether it has flow yet or not.
        let dearest = &self.dearest;
        self.order.sort_by(|&a, &b| dearest[a as usize].0.total_cmp(&dearest[b as usize].0).then(a.cmp(&b)));
        for (place, &v) in self.order.iter().enumerate() {
            self.place[v as usize] = place as u32;
        }
        self.cheapest[source] = (0.0, u32::MAX);
        for &v in self.order.iter().filter(|&&v| v as usize != source) {
            let forward = |link: &&u32| {
                let tail = links.tail[**link as usize] as usize;
                self.dearest[tail].0 < self.dearest[v as usize].0
            };
            let ways = links.into(v as usize).iter().filter(forward).map(|&link| {
                let tail = links.tail[link as usize] as usize;
                (self.cheapest[tail].0 + prices[link as usize], link)
            });
            let best = ways.fold((f64::INFINITY, u32::MAX), |best, way| if way.0 < best.0 { way } else { best });
            self.cheapest[v as usize] = best;
        }
    }
    /// At every vertex, farthest first, moves flow from the dearest way to the cheapest.
    fn shift(&mut self, links: &Links, pricing: Pricing, loads: &mut [f64], prices: &mut [f64]) {
        for place in (1..self.order.len()).rev() {
            let v = self.order[place] as usize;
            if self.dearest[v].1 == self.cheapest[v].1 {
                continue;
            }
            self.part(links, v);
            let sum = |way: &[u32]| way.iter().map(|&link| prices[link as usize]).sum::<f64>();
            let (dear, cheap) = (sum(&self.dear), sum(&self.cheap));
            let least = self.dear.iter().map(|&link| self.flow[link as usize]).fold(f64::INFINITY, f64::min);
            // Newton's step, and no price changes by more than e at once: beyond, its slope says nothing.
            let amount = ((dear - cheap) / (dear + cheap)).min(1.0) * pricing.scale();
            let amount = amount.min(least);
            if amount > 0.0 {
                let mut add = |link: u32, amount: f64| {
                    let link = link as usize;
                    self.flow[link] = (self.flow[link] + amount).max(0.0);
                    loads[link] += amount;
                    prices[link] = pricing.price(loads[link]);
                };
                self.dear.iter().for_each(|&link| add(link, -amount));
                self.cheap.iter().for_each(|&link| add(link, amount));
            }
        }
    }
    /// The two ways to a vertex, back to where they part.
    fn part(&mut self, links: &Links, v: usize) {
        self.dear.clear();
        self.cheap.clear();
        let (mut dear, mut cheap) = (v, v);
        loop {
            let (back, ways, list) = if self.place[dear] >= self.place[cheap] {
                (&mut dear, &self.dearest, &mut self.dear)
            } else {
                (&mut cheap, &self.cheapest, &mut self.cheap)
            };
            let link = ways[*back].1;
            list.push(link);
            *back = links.tail[link as usize] as usize;
            if dear == cheap {
                return;
            }
        }
    }
    /// Puts the flow down as shares; the parts of the flow into each vertex add up to 1.
    fn keep(&self, links: &Links, shares: &mut [f32], source: usize) {
        for v in (0..links.n).filter(|&v| v != source) {
            let sum: f64 = links.into(v).iter().map(|&link| self.flow[link as usize]).sum();
            let least = MIN_SHARE / links.into(v).len() as f32;
            for &link in links.into(v) {
                let share = (self.flow[link as usize] / sum) as f32;
                shares[link as usize] = if share > least { share } else { 0.0 };
            }
        }
    }
}
