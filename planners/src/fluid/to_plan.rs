//! From a mixture of routes to a plan: names for indices, a claim with exact figures, and what proves it.
//!
//! What is claimed is what the checker finds the trees to take, and the bound is what it finds the prices to prove: the
//! floats that led here decide nothing.

use super::demand::{Direction, Shape};
use super::folding::Folding;
use super::instance::Instance;
use super::network::Network;
use super::tree::{Arc, Path, Route, Tree};
use crate::front::Draft;
use sluice_formats::problem::Problems;
use sluice_formats::quantity::{Rational, Unit};
use sluice_plan::check::{self, Figures};
use sluice_plan::plan::{
    self, Certificate, CertificateKind, Claim, Content, Edge, Exact, Forest, Names, NodeId, Nullable, Pair, Paths,
    PerByte, Plan, Status, Trees,
};
use std::collections::BTreeMap;

/// Sets of nodes that are tried as cuts, at most.
const MAX_CUTS: usize = 64;

/// A part of a job's data and how it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// The class of jobs.
    pub class: usize,
    /// Of what a job moves; of an all-reduce of the whole unit, for each root of the class.
    pub part: Rational,
    /// By block of the job.
    pub routes: Vec<Route>,
}

/// Routes for everything, and prices that are to prove how good they are.
#[derive(Clone, Debug)]
pub struct Mixing<'a> {
    /// The classes of jobs.
    pub folding: &'a Folding,
    /// Routes for every class of jobs, each with its part.
    pub mixed: Vec<Mixed>,
    /// Prices of the limits that may prove the least time; the best is taken.
    pub prices: Vec<Vec<Rational>>,
    /// The same for the least cost at that time.
    pub cost_prices: Vec<Vec<Rational>>,
    /// Did time run out before the best was found?
    pub is_late: bool,
}

/// A plan that passed the checker, with what it comes to.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// T/M as the checker found it.
    pub time: Rational,
    /// What is proved of it.
    pub bound: Rational,
    /// Is no plan faster?
    pub optimal: bool,
    /// How many trees or paths the plan has.
    pub routes: usize,
}

/// What may prove a plan.
#[derive(Clone, Copy, Debug)]
pub struct Proofs<'a> {
    /// Prices of the limits that may prove the least time; the best is taken.
    pub prices: &'a [Vec<Rational>],
    /// The same for the least cost at that time.
    pub cost_prices: &'a [Vec<Rational>],
    /// Did time run out before the best was found?
    pub is_late: bool,
}

/// Routes as a plan.
///
/// # Errors
/// `Solver` where the checker refuses it.
pub fn make(instance: &Instance<'_>, mixing: &Mixing<'_>) -> Result<Made, Problems> {
    let mut writer = Writer::new(instance, mixing);
    let (content, routes) = writer.content();
    let proofs = Proofs { prices: &mixing.prices, cost_prices: &mixing.cost_prices, is_late: mixing.is_late };
    proven(instance, writer.names, content, routes, proofs)
}

/// A content as a plan that claims what the checker finds of it, with the best proof there is.
///
/// # Errors
/// `Solver` where the checker refuses it.
pub fn proven(
    instance: &Instance<'_>,
    mut names: Names,
    content: Content,
    routes: usize,
    proofs: Proofs<'_>,
) -> Result<Made, Problems> {
    let asked = &instance.asked;
    let wanted = instance.wanted.as_ref();
    let demands = wanted.map(|wanted| wanted.demands.renamed(&wanted.names, &mut names));
    let mut plan = asked.put_together(Draft { names, content, claim: Claim::default(), demands });
    let figures = asked.checked(&plan)?.figures;
    let Some(figures) = figures else { return Ok(nothing_known(plan, routes)) };
    let claimed = claim(instance, proofs, &mut plan, &figures);
    let (bound, optimal) = (claimed.bound, claimed.optimal);
    plan.body.claim = claimed.claim;
    asked.checked(&plan)?;
    Ok(Made { plan, time: figures.time_per_byte, bound, optimal, routes })
}

/// A plan whose kind has no figures.
fn nothing_known(plan: Plan, routes: usize) -> Made {
    Made { plan, time: Rational::ZERO, bound: Rational::ZERO, optimal: false, routes }
}

/// A claim and what it rests on.
struct Claimed {
    claim: Claim,
    bound: Rational,
    optimal: bool,
}

/// The claim with the best proof that the checker accepts.
fn claim(instance: &Instance<'_>, proofs: Proofs<'_>, plan: &mut Plan, figures: &Figures) -> Claimed {
    let topology = instance.asked.topology;
    let dual = |prices: &Vec<Rational>| Certificate {
        prices: Some(prices.clone()),
        ..Certificate::new(CertificateKind::Dual)
    };
    let mut certificates: Vec<Certificate> = cuts(instance, plan);
    certificates.extend(proofs.prices.iter().map(dual));
    let mut best = (Rational::ZERO, Certificate::new(CertificateKind::None));
    for certificate in certificates {
        // The first that proves most: cuts are understood more easily than prices.
        if let Ok(Some(bound)) = check::proves(plan, topology, &certificate)
            && bound > best.0
        {
            best = (bound, certificate);
            if same(plan, &best.0, &figures.time_per_byte) {
                break;
            }
        }
    }
    let (bound, mut certificate) = best;
    let time = figures.time_per_byte.clone();
    let optimal = same(plan, &bound, &time);
    let mut cost_bound: Option<Rational> = None;
    for prices in proofs.cost_prices {
        let proof = Certificate { cost_prices: Some(prices.clone()), ..certificate.clone() };
        if let Ok(Some(proved)) = check::proves_cost(plan, topology, &proof)
            && proved.is_positive()
            && cost_bound.as_ref().is_none_or(|bound| proved > *bound)
        {
            cost_bound = Some(proved);
            certificate.cost_prices = Some(prices.clone());
        }
    }
    let seconds = topology.unit() != Unit::Abstract;
    let per_byte = |value: &Rational| PerByte { value: value.clone(), seconds };
    let status = match (optimal, proofs.is_late) {
        (true, _) => Status::Optimal,
        (false, true) => Status::TimeLimit,
        (false, false) => Status::Feasible,
    };
    let claim = Claim {
        algorithm_bandwidth: figures.algorithm_bandwidth.clone().map(Exact),
        certificate: Some(certificate),
        cost: figures.cost.clone().map(Exact),
        cost_lower_bound: cost_bound.map(Exact),
        lower_bound: Some(per_byte(&bound)),
        optimal: Some(optimal),
        status: Some(status),
        time_per_byte: Some(per_byte(&time)),
        ..Claim::default()
    };
    Claimed { claim, bound, optimal }
}

/// Does a bound meet a time, as the checker compares them: exactly, or where parts are fractions nearly?
fn same(plan: &Plan, bound: &Rational, time: &Rational) -> bool {
    let whole = match &plan.body.content {
        Content::Trees(trees) => {
            let forests = || trees.forests.iter();
            forests().flat_map(|forest| &forest.trees).all(|tree| tree.weight.is_integer())
                && forests().all(|forest| forest.k.0.is_some())
        }
        Content::Paths(paths) => paths.pairs.iter().all(|pair| pair.amount.is_integer()),
        Content::Steps(steps) => steps.step_length.is_none(),
        _ => true,
    };
    if whole {
        return bound == time;
    }
    let apart = (bound - time).to_f64().abs();
    apart <= 0.9e-7 * bound.to_f64().max(time.to_f64())
}

/// Cuts that often bind: around single participants and around machines, from inside and from outside.
fn cuts(instance: &Instance<'_>, plan: &mut Plan) -> Vec<Certificate> {
    let asked = &instance.asked;
    let nodes = asked.topology.nodes();
    let mut sets: Vec<Vec<usize>> = asked.participants.iter().take(MAX_CUTS / 4).map(|node| vec![*node]).collect();
    let mut machines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if let Some(machine) = node.machine.as_deref() {
            machines.entry(machine).or_default().push(place);
        }
    }
    sets.extend(machines.into_values().take(MAX_CUTS / 4));
    let mut certificates = Vec::with_capacity(sets.len() * 2);
    for set in sets {
        let mut inside = vec![false; nodes.len()];
        set.iter().for_each(|node| inside[*node] = true);
        for side in [true, false] {
            let chosen = (0..nodes.len()).filter(|node| inside[*node] == side);
            let nodes = chosen.map(|node| plan.names.intern(&nodes[node].id)).collect();
            certificates.push(Certificate { nodes: Some(nodes), ..Certificate::new(CertificateKind::Cut) });
        }
    }
    certificates
}

/// Routes in the words of the file.
struct Writer<'a> {
    instance: &'a Instance<'a>,
    mixing: &'a Mixing<'a>,
    names: Names,
    ids: Vec<NodeId>,
}

impl<'a> Writer<'a> {
    fn new(instance: &'a Instance<'a>, mixing: &'a Mixing<'a>) -> Writer<'a> {
        let mut names = Names::default();
        let ids = instance.asked.topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
        Writer { instance, mixing, names, ids }
    }

    /// The content, and how many trees or paths it has.
    fn content(&mut self) -> (Content, usize) {
        let folding = self.mixing.folding;
        let shape = folding.classes.first().and_then(|class| class.job.blocks.first()).map(|block| block.shape);
        if shape == Some(Shape::Paths) {
            let pairs = self.pairs();
            let count = pairs.len();
            return (Content::Paths(Paths { pairs }), count);
        }
        let forests = if folding.shares_roots {
            vec![self.forest(0, Direction::In, None), self.forest(1, Direction::Out, None)]
        } else {
            let direction = folding.classes.first().and_then(|class| class.job.blocks.first());
            vec![self.forest(0, direction.map_or(Direction::Out, |block| block.direction), Some(1))]
        };
        let count = forests.iter().map(|forest| forest.trees.len()).sum();
        (Content::Trees(Trees { forests }), count)
    }

    /// Every route of every job, as its root, the block's place and the route itself.
    fn moved(&self, block: usize) -> impl Iterator<Item = (&'a Mixed, Route, Vec<u32>)> {
        let (folding, mixed) = (self.mixing.folding, &self.mixing.mixed);
        mixed.iter().flat_map(move |mixed| {
            let class = &folding.classes[mixed.class];
            class.images.iter().map(move |image| {
                let element = &folding.elements[*image];
                let mut ends: Vec<u32> =
                    class.job.blocks[block].ends.iter().map(|end| element.nodes[*end as usize]).collect();
                ends.sort_unstable();
                (mixed, mixed.routes[block].moved(&element.nodes, &element.edges), ends)
            })
        })
    }

    fn forest(&self, block: usize, direction: Direction, k: Option<u64>) -> Forest {
        let custom = self.instance.wanted.is_some();
        let folding = self.mixing.folding;
        let tree = |(mixed, route, ends): (&Mixed, Route, Vec<u32>)| {
            let Route::Tree(tree) = route else { return None };
            let units =
                if custom { folding.classes[mixed.class].job.blocks[block].units.clone() } else { Rational::ONE };
            Some(plan::Tree {
                edges: self.edges(&tree, direction),
                ends: custom.then(|| ends.iter().map(|end| self.ids[*end as usize]).collect()),
                hops: None,
                root: self.ids[tree.root as usize],
                weight: &mixed.part * &units,
            })
        };
        let mut trees: Vec<plan::Tree> = self.moved(block).filter_map(tree).collect();
        trees.sort_by_key(|tree| tree.root);
        let direction = match direction {
            Direction::Out => plan::Direction::Out,
            Direction::In => plan::Direction::In,
        };
        Forest { u: None, direction, fixed_k: None, k: Nullable(k), trees }
    }

    /// The edges of a tree in flow direction. One that moves inward stands turned round.
    fn edges(&self, tree: &Tree, direction: Direction) -> Vec<Edge> {
        let network = &self.instance.network;
        let edge = |arc: &Arc| {
            let mut nodes = self.nodes(network, &arc.path, direction);
            let dst = nodes.pop().unwrap_or(self.ids[arc.to as usize]);
            let via = nodes.split_off(1.min(nodes.len())).into();
            Edge { src: nodes.pop().unwrap_or(self.ids[arc.from as usize]), dst, via }
        };
        tree.arcs.iter().map(edge).collect()
    }

    /// The nodes along links, in flow direction.
    fn nodes(&self, network: &Network, links: &[u32], direction: Direction) -> Vec<NodeId> {
        let forward: Vec<u32> = match direction {
            Direction::Out => links.to_vec(),
            Direction::In => links.iter().rev().copied().collect(),
        };
        let ends = forward.iter().map(|link| network.edges[*link as usize]);
        let first = ends.clone().next().map(|edge| edge.from);
        first.into_iter().chain(ends.map(|edge| edge.to)).map(|node| self.ids[node as usize]).collect()
    }

    /// The paths of all pairs, equal ones together.
    fn pairs(&self) -> Vec<Pair> {
        let folding = self.mixing.folding;
        let direction = folding.classes.first().map_or(Direction::Out, |class| class.job.blocks[0].direction);
        let mut amounts: BTreeMap<(u32, u32, Vec<u32>), Rational> = BTreeMap::new();
        for (mixed, class) in self.mixing.mixed.iter().map(|mixed| (mixed, &folding.classes[mixed.class])) {
            for image in &class.images {
                let element = &folding.elements[*image];
                let root = element.nodes[class.job.blocks[0].root as usize];
                let Route::Paths(paths) = mixed.routes[0].moved(&element.nodes, &element.edges) else { continue };
                for Path { end, edges } in paths {
                    *amounts.entry((root, end, edges)).or_insert(Rational::ZERO) += &mixed.part;
                }
            }
        }
        let pair = |((root, end, links), amount): ((u32, u32, Vec<u32>), Rational)| {
            let (src, dst) = match direction {
                Direction::Out => (root, end),
                Direction::In => (end, root),
            };
            let path = self.nodes(&self.instance.network, &links, direction);
            Pair { amount, dst: self.ids[dst as usize], path, src: self.ids[src as usize] }
        };
        amounts.into_iter().map(pair).collect()
    }
}
