//! A plan as those see it who carry it out: ranks instead of nodes, and for every tree the part of the data it carries;
//! of a schedule also who sends what when (`steps`, `sends`); of rates, weights and orders the flows of one collective.
//!
//! Reading checks everything a follower relies on: form, size, digest, the checker's verdict, and that only ranks and
//! memories copy and add up, since a follower cannot make switches do it. A memory where trees branch is a relay: it takes
//! part without data of its own, and is numbered after the ranks. Who sends what when is left to whoever follows.

mod sends;
mod steps;
#[cfg(test)]
mod tests;
mod transfers;

pub use steps::{Sent, Stepped, Waits};
pub use transfers::{Arrival, Lane, Transfer, Transfers};

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use num_bigint::BigInt;
use num_traits::{ToPrimitive as _, Zero as _};

use crate::check;
use crate::plan::{Collective, Content, Direction, Forest, MAX_DAEMON_BYTES, NodeId, Plan, Trees};
pub use sluice_formats::problem::UNSUPPORTED_FIELD;
use sluice_formats::problem::{DUPLICATE_NODE, E_RANGE, Problem, Problems, UNKNOWN_NODE, hint};
use sluice_formats::quantity::{Rational, common_denominator};
use sluice_formats::topology::{Kind, Topology, sha256_hex};

/// The whole of a collective's data, in which parts are counted.
pub const WHOLE: u64 = 1 << 48;

/// A plan that was checked, in ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// What is to be done with the data.
    pub collective: Collective,
    /// Ids of the nodes, by rank.
    pub participants: Vec<String>,
    /// Ids of the memories that copy or add up on the way, in the order of their fabric. In edges they have the numbers
    /// after the ranks.
    pub relays: Vec<String>,
    /// The trees, those that add up before those that copy; within each by root, so that parts ascend.
    pub trees: Vec<Tree>,
    /// Of a schedule: who sends which part in which step or epoch. Its trees are the ways of these parts.
    pub steps: Stepped,
    /// Of rates, weights or an order: the flows of the collective, whose data has no parts.
    pub transfers: Transfers,
    /// SHA-256 of the file's bytes, in hexadecimal: the same on every host that follows the same plan.
    pub sha256: String,
}

/// A tree over all ranks, and over relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Towards the root, adding up, or away from it, copying.
    pub direction: Direction,
    /// Where its data ends or comes from.
    pub root: u32,
    /// Which part of the data it carries, in parts of [`WHOLE`]; the parts of each direction fill the whole.
    pub part: Range<u64>,
    /// Its edges (from, to), in flow direction, as the file has them.
    pub edges: Vec<(u32, u32)>,
}

/// What a job says of the plan it follows, besides where it lies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Job<'a> {
    /// The ids of its participants by rank, where that is not the plan's own order.
    pub ranks: Option<&'a [String]>,
    /// Which collective it is, of a plan of rates, weights or an order for several.
    pub collective: Option<u64>,
}

impl Followed {
    /// Reads and checks a plan. `file` is the name used in messages; `ranks` are the ids of its participants by rank,
    /// where that is not the plan's own order; `topology` is the fabric, for a plan that does not carry it.
    ///
    /// # Errors
    /// Everything the reader refuses, the checker's first violation under its code, `UNSUPPORTED_FIELD` for kinds,
    /// collectives and switches that cannot be followed, and ranks that are not the participants.
    pub fn read(
        bytes: &[u8],
        file: &str,
        ranks: Option<&[String]>,
        topology: Option<&Topology>,
    ) -> Result<Followed, Problems> {
        Followed::by(bytes, file, Job { ranks, collective: None }, topology)
    }

    /// The same for a job that may be one collective of several.
    ///
    /// # Errors
    /// As [`Followed::read`], and collectives that the plan does not have.
    pub fn by(bytes: &[u8], file: &str, job: Job<'_>, topology: Option<&Topology>) -> Result<Followed, Problems> {
        let plan = Plan::read_at_most(bytes, file, MAX_DAEMON_BYTES)?;
        let given = topology.filter(|_| plan.body.topology.inline.is_none());
        let followed = of_plan(&plan, job, given).map_err(|errors| errors.in_file(file))?;
        Ok(Followed { sha256: sha256_hex(bytes), ..followed })
    }
}

fn of_plan(plan: &Plan, job: Job<'_>, topology: Option<&Topology>) -> Result<Followed, Problems> {
    let refuse = |key: &str, found: &str, message: &str, allowed: &str| -> Result<Followed, Problems> {
        Err(Problems::from(Problem::new(UNSUPPORTED_FIELD, key, message).found(found).allowed(allowed)))
    };
    let of_other_kind = || {
        let (kind, allowed) = (plan.body.content.kind().word(), "trees, steps, sends, rates, weights, order");
        refuse("/content/kind", kind, "plans of this kind cannot be followed yet", allowed)
    };
    if matches!(plan.body.content, Content::Paths(_)) {
        return of_other_kind();
    }
    let number = transfers::collective(plan, job.collective)?;
    let collective = plan.body.collective;
    if number.is_none()
        && !matches!(collective, Collective::AllGather | Collective::ReduceScatter | Collective::AllReduce)
    {
        let allowed = "allgather, reduce_scatter, allreduce";
        return refuse("/collective", collective.word(), "plans for this collective cannot be followed yet", allowed);
    }
    if let Some(violation) = check::check(plan, topology).violation {
        let error = Problem::new(violation.code.word(), violation.at, violation.message);
        return Err(error.help("plan again; `sluice plan check` says the same").into());
    }
    let own = match number {
        Some(number) => transfers::participants(plan, number).iter().map(|node| plan.id(*node).to_owned()).collect(),
        None => participants(plan, topology)?,
    };
    let participants = match job.ranks {
        Some(ranks) => permuted(&own, ranks)?,
        None => own.clone(),
    };
    let of_nodes = |topology: &Topology| -> HashMap<usize, u32> {
        participants.iter().zip(0..).filter_map(|(id, rank)| Some((topology.node(id)?, rank))).collect()
    };
    let (mut relays, mut transfers) = (Vec::new(), Transfers::default());
    let (trees, steps) = match &plan.body.content {
        Content::Trees(content) => {
            relays = with_topology(plan, topology, |topology| Ok(branching(plan, content, topology)))?;
            let numbered = participants.iter().chain(&relays).zip(0..);
            let ranks = numbered.filter_map(|(id, rank)| Some((plan.names.find(id)?, rank)));
            let (ranks, mut trees) = (ranks.collect(), Vec::new());
            for (f, forest) in content.forests.iter().enumerate() {
                trees.extend(follow(plan, forest, &ranks, &format!("/content/forests/{f}"))?);
            }
            (trees, Stepped::default())
        }
        Content::Steps(steps) => with_topology(plan, topology, |topology| {
            let ranks = of_nodes(topology);
            let owner = |id: &String| ranks.get(&topology.node(id)?).copied();
            let owners: Vec<u32> = own.iter().filter_map(owner).collect();
            steps::follow(plan, topology, steps, &owners, &ranks)
        })?,
        Content::Sends(sends) => {
            with_topology(plan, topology, |topology| sends::follow(plan, topology, sends, &of_nodes(topology)))?
        }
        Content::Rates(_) | Content::Weights(_) | Content::Order(_) => {
            let ranks = participants.iter().zip(0..).filter_map(|(id, rank)| Some((plan.names.find(id)?, rank)));
            let (ranks, number) = (ranks.collect(), number.unwrap_or_default());
            transfers = with_topology(plan, topology, |topology| transfers::follow(plan, topology, number, &ranks))?;
            (Vec::new(), Stepped::default())
        }
        Content::Paths(_) => return of_other_kind(),
    };
    Ok(Followed { collective, participants, relays, trees, steps, transfers, sha256: String::new() })
}

/// The memories at which edges of trees begin or end. The checker has seen that they can do what they are to do.
fn branching(plan: &Plan, content: &Trees, topology: &Topology) -> Vec<String> {
    let trees = content.forests.iter().flat_map(|forest| &forest.trees);
    let ends: HashSet<&str> =
        trees.flat_map(|tree| &tree.edges).flat_map(|edge| [plan.id(edge.src), plan.id(edge.dst)]).collect();
    let memories = topology.nodes().iter().filter(|node| node.kind == Kind::Memory);
    memories.map(|node| node.id.to_string()).filter(|id| ends.contains(id.as_str())).collect()
}

/// With the fabric given, or else the plan's own.
fn with_topology<T>(
    plan: &Plan,
    topology: Option<&Topology>,
    work: impl FnOnce(&Topology) -> Result<T, Problems>,
) -> Result<T, Problems> {
    match (topology, &plan.body.topology.inline) {
        (Some(topology), _) => work(topology),
        (None, Some(file)) => {
            let built = Topology::build((**file).clone(), "");
            work(&built.map_err(|_| Problem::new(E_RANGE, "/topology/inline", "not a topology"))?)
        }
        (None, None) => Err(Problem::new(E_RANGE, "/topology/inline", "no topology names the participants").into()),
    }
}

/// Ids by rank, as the plan or else its topology has them. The checker has seen that they exist.
fn participants(plan: &Plan, topology: Option<&Topology>) -> Result<Vec<String>, Problems> {
    if let Some(list) = &plan.body.participants {
        return Ok(list.iter().map(|node| plan.id(*node).to_owned()).collect());
    }
    let of = |topology: &Topology| topology.compute().iter().map(|n| topology.nodes()[*n].id.to_string()).collect();
    with_topology(plan, topology, |topology| Ok(of(topology)))
}

/// The order asked for, if it has every participant once.
fn permuted(own: &[String], ranks: &[String]) -> Result<Vec<String>, Problems> {
    let allowed = || format!("each of the plan's {} participants once", own.len());
    let mut seen = HashSet::new();
    for id in ranks {
        if !own.contains(id) {
            let error = Problem::new(UNKNOWN_NODE, "ranks", "a rank is none of the plan's participants").found(id);
            let help = hint(id, own.iter().map(String::as_str)).unwrap_or_default();
            return Err(error.allowed(allowed()).help(help).into());
        }
        if !seen.insert(id) {
            let error = Problem::new(DUPLICATE_NODE, "ranks", "two ranks are one participant").found(id);
            return Err(error.allowed(allowed()).into());
        }
    }
    if ranks.len() != own.len() {
        let found = format!("{} ranks", ranks.len());
        let error = Problem::new(E_RANGE, "ranks", "not as many ranks as participants").found(found);
        return Err(error.allowed(allowed()).into());
    }
    Ok(ranks.to_vec())
}

/// The trees of a forest by the rank of their root, each with its part of the data.
fn follow(plan: &Plan, forest: &Forest, ranks: &HashMap<NodeId, u32>, at: &str) -> Result<Vec<Tree>, Problems> {
    let rank = |node: NodeId, key: String| {
        ranks.get(&node).copied().ok_or_else(|| {
            let error = Problem::new(UNSUPPORTED_FIELD, key, "a switch that copies or adds up cannot be followed");
            Problems::from(
                error.found(plan.id(node)).allowed("participants, memories").help("plan without --in-network"),
            )
        })
    };
    let mut trees: Vec<(Tree, &Rational)> = Vec::with_capacity(forest.trees.len());
    for (t, tree) in forest.trees.iter().enumerate() {
        let at = format!("{at}/trees/{t}");
        if tree.hops.is_some() {
            let error = Problem::new(UNSUPPORTED_FIELD, format!("{at}/hops"), "switches would have to copy or add up");
            return Err(error.found("hops").allowed("trees without hops").help("plan without --in-network").into());
        }
        let end = |node, e: usize, end: &str| rank(node, format!("{at}/edges/{e}/{end}"));
        let edges = tree.edges.iter().enumerate();
        let edges = edges.map(|(e, edge)| Ok((end(edge.src, e, "src")?, end(edge.dst, e, "dst")?)));
        let (root, edges) = (rank(tree.root, format!("{at}/root"))?, edges.collect::<Result<_, Problems>>()?);
        trees.push((Tree { direction: forest.direction, root, part: 0..0, edges }, &tree.weight));
    }
    trees.sort_by_key(|(tree, _)| tree.root);
    let too_fine = || {
        Problems::from(Problem::new(E_RANGE, format!("{at}/trees"), "weights without a reasonable common denominator"))
    };
    let common = common_denominator(trees.iter().map(|(_, weight)| *weight)).ok_or_else(too_fine)?;
    let whole = |weight: &Rational| weight.numerator() * (&common / weight.denominator());
    let sum: BigInt = trees.iter().map(|(_, weight)| whole(weight)).sum();
    let mut before = BigInt::zero();
    // Ends are rounded from the exact sum, so that both forests of an all-reduce end a root's part at the same place.
    let mut end = 0;
    for (tree, weight) in &mut trees {
        before += whole(weight);
        let start = end;
        end = (&before * BigInt::from(WHOLE) / &sum).to_u64().ok_or_else(too_fine)?;
        tree.part = start..end;
    }
    Ok(trees.into_iter().map(|(tree, _)| tree).collect())
}
