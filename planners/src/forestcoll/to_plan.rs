//! From what the planner found to a plan: names for indices, a claim with exact figures, and what proves it.
//!
//! What is claimed is what the trees' loads say, not what the theory says: with a fixed number of trees rounding may
//! leave a link some room, and the two phases of an all-reduce may load different links most. Every plan goes through
//! the checker, which shares no code with the planner, before anybody sees it.

mod bounds;
mod loads;
#[cfg(test)]
mod tests;

use super::from_topology::{Instance, OVERFLOW};
use super::{AllReduce, Collective, Forest, Optimum, Options, Planned, Refusal, all_reduce};
use crate::front::Draft;
use crate::run::{Run, Stopped};
use bounds::Bound;
use sluice_formats::problem::{E_KEY, E_LIMIT, Problem, Problems};
use sluice_formats::quantity::{Rational, Unit};
use sluice_plan::plan::{
    self, Certificate, CertificateKind, Claim, Content, Exact, Hop, MAX_EDGES, Names, NodeId, Nullable, PerByte, Plan,
    Status, Trees,
};

/// Variables up to which the all-reduce program is tried without being asked for: some seconds.
const MAX_VARIABLES_UNASKED: usize = 300;

/// How an all-reduce is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The phases; where no bound proves them best and the fabric is small, the program, if it is better.
    #[default]
    Auto,
    /// A reduce-scatter and an all-gather.
    Phases,
    /// One linear program over where to root how much.
    Program,
}

/// A plan that passed the checker, with the planner's own figures.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// 1/x*: no all-gather takes less than M / (sum of weights) · 1/x*, in one over the input's unit.
    pub inverse_x: Rational,
    /// Trees per root and unit of weight; `None` of a program.
    pub k: Option<u64>,
    /// Trees per unit of capacity, in one over the input's unit; of a program that of its first forest.
    pub u: Rational,
    /// Ids of the bottleneck's nodes.
    pub cut: Vec<String>,
    /// Trees of all forests, identical ones counted.
    pub trees: u64,
    /// Different trees of all forests.
    pub batches: usize,
    /// Σ x_v of an all-reduce by the program, in the input's unit.
    pub sum_x: Option<Rational>,
}

/// Plans, claims and checks.
///
/// # Errors
/// The conditions on fabrics with pointers into the topology; limits of `options`; `E_LIMIT` for more tree edges than
/// a plan may have; `INTERNAL_INVARIANT` where the checker disagrees; `CANCELLED`.
pub fn make(instance: &Instance<'_>, options: &Options, way: Way, run: &Run) -> Result<Made, Problems> {
    let all_reduces = instance.collective == Collective::AllReduce;
    if all_reduces && way == Way::Program {
        return by_program(instance, options, run);
    }
    let refused = |refusal: Refusal| instance.refused(&refusal);
    let planned = super::plan(&instance.fabric, instance.collective, options, run).map_err(refused)?;
    let mut phases = Claimed::new(instance, planned, options, run)?;
    let tries_program = all_reduces && way == Way::Auto && options.fixed_k.is_none() && is_small(instance);
    if !tries_program || phases.is_optimal() {
        return phases.finish(instance);
    }
    match all_reduce(&instance.fabric, options.relaxed, run) {
        Ok(program) => {
            let whole = Claimed::of_program(instance, program, phases.optimum.clone(), options, run)?;
            if whole.time < phases.time {
                return whole.finish(instance);
            }
            if whole.time == phases.time {
                phases.bound = whole.bound;
            }
        }
        Err(Refusal::Stopped(Stopped::Cancelled)) => return Err(refused(Stopped::Cancelled.into())),
        // The phases are a plan, too; that they are not proved best is said in the claim.
        Err(_) => {}
    }
    phases.finish(instance)
}

fn by_program(instance: &Instance<'_>, options: &Options, run: &Run) -> Result<Made, Problems> {
    let choices = [("fixed_k", options.fixed_k.is_some()), ("in_network", options.in_network)];
    if let Some((key, _)) = choices.into_iter().find(|(_, given)| *given) {
        let error = Problem::new(E_KEY, key, "the all-reduce program has no such choice");
        return Err(error.allowed("nothing, or all-reduce by phases").into());
    }
    let refused = |refusal: Refusal| instance.refused(&refusal);
    let program = all_reduce(&instance.fabric, options.relaxed, run).map_err(refused)?;
    let optimum = super::optimum(&instance.fabric, options.relaxed, run).map_err(refused)?;
    Claimed::of_program(instance, program, optimum, options, run)?.finish(instance)
}

/// Is the all-reduce program a matter of seconds? It has two flows per link that a sender's data can take.
fn is_small(instance: &Instance<'_>) -> bool {
    let compute = instance.fabric.compute;
    let own = instance.fabric.links.iter().filter(|link| (link.0 as usize) < compute).count();
    let others = instance.fabric.links.len() - own;
    compute + 2 * (own + compute * others) <= MAX_VARIABLES_UNASKED
}

/// Forests with their figures, not yet in the words of the file.
pub(super) struct Claimed {
    forests: Vec<Forest>,
    optimum: Optimum,
    /// T/M as the loads say.
    pub(super) time: Rational,
    /// Largest load per capacity of each forest, in trees per input unit.
    own: Vec<Rational>,
    bound: Bound,
    sum_x: Option<Rational>,
}

impl Claimed {
    pub(super) fn new(
        instance: &Instance<'_>,
        planned: Planned,
        options: &Options,
        run: &Run,
    ) -> Result<Claimed, Problems> {
        let Planned { optimum, forests } = planned;
        let edges: u64 = forests.iter().flat_map(|forest| &forest.trees).map(|tree| tree.edges.len() as u64).sum();
        if edges > MAX_EDGES {
            let error = Problem::new(E_LIMIT, "", "the plan would be too large").found(format!("{edges} tree edges"));
            let help = "--fixed-k 1 needs the fewest trees";
            return Err(error.allowed(format!("at most {MAX_EDGES}")).help(help).into());
        }
        let overflow = || Problem::new(OVERFLOW, "", "the trees of a link exceed 64-bit integers");
        let (time, own) = loads::times(instance, &forests).ok_or_else(overflow)?;
        let bound = bounds::best(instance, &optimum, &time, options.relaxed, run);
        let bound = bound.map_err(|refusal| instance.refused(&refusal))?;
        Ok(Claimed { forests, optimum, time, own, bound, sum_x: None })
    }

    fn of_program(
        instance: &Instance<'_>,
        program: AllReduce,
        optimum: Optimum,
        options: &Options,
        run: &Run,
    ) -> Result<Claimed, Problems> {
        let AllReduce { sum_x, forests, prices } = program;
        let mut draft = Claimed::new(instance, Planned { optimum, forests }, options, run)?;
        draft.sum_x = Some(sum_x);
        if !draft.is_optimal() && bounds::is_unaided(instance) {
            // No cut says so, but the program's dual does.
            draft.bound = bounds::dual(instance, &draft.time, &prices);
        }
        Ok(draft)
    }

    fn is_optimal(&self) -> bool {
        self.bound.time == self.time
    }

    pub(super) fn finish(self, instance: &Instance<'_>) -> Result<Made, Problems> {
        let topology = instance.asked.topology;
        let unit = topology.unit();
        let mut names = Names::default();
        let ids: Vec<NodeId> = instance.nodes.iter().map(|node| names.intern(&topology.nodes()[*node].id)).collect();
        let (mut trees, mut batches, mut forests) = (0, 0, Vec::with_capacity(self.forests.len()));
        let mut first_u = None;
        for (forest, own) in self.forests.iter().zip(&self.own) {
            trees += forest.trees();
            batches += forest.batches();
            // A fixed number of trees is rounded to whole trees per link, which need not fill any.
            let u = if forest.fixed_k { &forest.u } else { own }.clone();
            first_u.get_or_insert_with(|| u.clone());
            forests.push(written(forest, u, &ids));
        }
        let inside: Vec<NodeId> =
            self.bound.inside.iter().map(|node| names.intern(&topology.nodes()[*node].id)).collect();
        let optimal = self.is_optimal();
        let seconds = unit != Unit::Abstract;
        let kind = self.bound.certificate;
        let nodes = (kind == CertificateKind::Cut).then_some(inside);
        let prices = (kind == CertificateKind::Dual).then_some(self.bound.prices);
        let claim = Claim {
            algorithm_bandwidth: self.time.recip().map(|rate| Exact(unit.express(&rate))),
            time_per_byte: Some(PerByte { value: self.time.clone(), seconds }),
            lower_bound: Some(PerByte { value: self.bound.time.clone(), seconds }),
            optimal: Some(optimal),
            status: Some(if optimal { Status::Optimal } else { Status::Feasible }),
            sum_x: self.sum_x.clone().map(Exact),
            certificate: Some(Certificate { nodes, prices, ..Certificate::new(kind) }),
            ..Claim::default()
        };
        let plan =
            instance.asked.plan(Draft { names, content: Content::Trees(Trees { forests }), claim, demands: None })?;
        let cut = self.optimum.cut.iter().map(|node| instance.id(*node).to_string()).collect();
        Ok(Made {
            plan,
            inverse_x: self.optimum.inverse_x,
            k: self.forests.first().and_then(|forest| forest.k),
            u: first_u.unwrap_or(Rational::ZERO),
            cut,
            trees,
            batches,
            sum_x: self.sum_x,
        })
    }
}

/// A forest in the words of the file.
fn written(forest: &Forest, u: Rational, ids: &[NodeId]) -> plan::Forest {
    let id = |node: u32| ids[node as usize];
    let edge = |edge: &super::Edge| {
        let via = edge.path.get(1..edge.path.len().saturating_sub(1)).unwrap_or_default();
        plan::Edge { src: id(edge.src), dst: id(edge.dst), via: via.iter().map(|node| id(*node)).collect() }
    };
    let tree = |tree: &super::Tree| plan::Tree {
        edges: tree.edges.iter().map(edge).collect(),
        ends: None,
        hops: tree.hops.as_ref().map(|hops| hops.iter().map(|hop| Hop(id(hop.0), id(hop.1))).collect()),
        root: id(tree.root),
        weight: Rational::from(tree.weight),
    };
    plan::Forest {
        u: Some(Nullable(Some(u))),
        direction: match forest.direction {
            super::Direction::In => plan::Direction::In,
            super::Direction::Out => plan::Direction::Out,
        },
        fixed_k: forest.fixed_k.then_some(true),
        k: Nullable(forest.k),
        trees: forest.trees.iter().map(tree).collect(),
    }
}
