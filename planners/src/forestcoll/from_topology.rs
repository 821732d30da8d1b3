//! From a topology and what is asked of it to what the planner sees: participants first, by rank, then the nodes that
//! only forward; links in the input's unit.
//!
//! A GPU, host or site that takes no part is left out with its links: it neither forwards nor copies. Keys of a
//! topology that this planner knows nothing of are refused, or left out where the caller says so.

mod refused;
#[cfg(test)]
mod tests;

use super::{Collective, Fabric, Rational};
pub use crate::ignorable::IGNORABLE;
use crate::ignorable::unsupported;
use num_traits::ToPrimitive;
pub use sluice_formats::problem::UNSUPPORTED_FIELD;
use sluice_formats::problem::{
    Code, DUPLICATE_NODE, E_KEY, E_MISSING, E_RANGE, MAX_PROBLEMS, NON_POSITIVE_BANDWIDTH, Problem, Problems,
    SELF_LOOP, UNKNOWN_NODE, nearest,
};
use sluice_formats::quantity;
use sluice_formats::topology::{Text, Topology};
use sluice_plan::plan::Collective as Word;
use std::collections::{BTreeMap, HashSet};

/// A number beyond exact arithmetic in machine integers.
pub const OVERFLOW: Code = "OVERFLOW";

/// What is asked of a topology.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What is to be done with the data; trees serve all-gather, reduce-scatter, all-reduce, broadcast and reduce.
    pub collective: Word,
    /// Ids of who takes part, by rank; `None`: all gpu, host and site nodes in file order.
    pub participants: Option<&'a [String]>,
    /// Id of the root of a broadcast or reduce.
    pub root: Option<&'a str>,
    /// Which of [`IGNORABLE`] to plan without.
    pub ignore: &'a [String],
}

/// A topology as the planner sees it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub(super) topology: &'a Topology,
    /// The file's name in messages.
    pub(super) file: String,
    /// What was asked for, in the word of the files.
    pub(super) word: Word,
    pub(super) collective: Collective,
    pub(super) fabric: Fabric,
    /// For each node of the fabric its index in the topology.
    pub(super) nodes: Vec<usize>,
    /// Keys that are there and were ignored.
    pub(super) ignored: Vec<&'static str>,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// What is wrong with the request, under the parameter's name; then `UNSUPPORTED_FIELD`, `SELF_LOOP`,
    /// `NON_POSITIVE_BANDWIDTH` (which `"unlimited"` is, too) and `OVERFLOW` with pointers into the topology.
    pub fn new(topology: &'a Topology, request: &Request<'_>, file: &str) -> Result<Instance<'a>, Problems> {
        let ranks = participants(topology, request)?;
        let collective = collective(topology, request, &ranks)?;
        let refuse = |errors: Vec<Problem>| Problems::collect(errors, file).map_or(Ok(()), Err);
        let (unsupported, ignored) = unsupported(topology, request.ignore);
        refuse(unsupported)?;
        refuse(disabled(topology, collective, &ranks))?;
        refuse(self_loops(topology))?;
        refuse(unlimited(topology))?;

        let mut nodes = ranks;
        let part: HashSet<usize> = nodes.iter().copied().collect();
        let forwards = |node: &usize| {
            let of = &topology.nodes()[*node];
            // A node that can neither copy nor add up only passes data on, whatever it is called.
            !part.contains(node) && (!of.is_compute() || !(of.can.copy || of.can.reduce))
        };
        let compute = nodes.len();
        nodes.extend((0..topology.nodes().len()).filter(forwards));
        let fabric = fabric(topology, &nodes, compute).map_err(|errors| errors.in_file(file))?;
        Ok(Instance { topology, file: file.into(), word: request.collective, collective, fabric, nodes, ignored })
    }
    /// The planner's input.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }
    /// What the planner is to do.
    pub fn collective(&self) -> Collective {
        self.collective
    }
    /// What is wrong with a fabric, in the words of its file.
    pub fn refused(&self, refusal: &super::Refusal) -> Problems {
        refused::errors(self, refusal)
    }
    /// The id of a node of the fabric.
    pub(super) fn id(&self, node: u32) -> &Text {
        &self.topology.nodes()[self.nodes[node as usize]].id
    }
}

/// Topology indices of the participants, by rank.
fn participants(topology: &Topology, request: &Request<'_>) -> Result<Vec<usize>, Problems> {
    let Some(list) = request.participants else { return Ok(topology.compute()) };
    let (mut ranks, mut errors, mut seen) = (Vec::with_capacity(list.len()), Vec::new(), HashSet::new());
    for id in list {
        match topology.node(id) {
            Some(node) if seen.insert(node) => ranks.push(node),
            Some(_) => {
                errors.push(Problem::new(DUPLICATE_NODE, "participants", "a participant stands twice").found(id))
            }
            None => errors.push(unknown(topology, "participants", id)),
        }
    }
    errors.truncate(MAX_PROBLEMS);
    Problems::collect(errors, "").map_or(Ok(ranks), Err)
}

fn unknown(topology: &Topology, key: &str, id: &str) -> Problem {
    let error = Problem::new(UNKNOWN_NODE, key, "no node has this id").found(id).allowed("an id of /nodes");
    // In a large topology looking for the nearest id takes longer than it is worth.
    let ids = topology.nodes().iter().take(512).map(|node| &*node.id);
    match nearest(id, ids) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn collective(topology: &Topology, request: &Request<'_>, ranks: &[usize]) -> Result<Collective, Problems> {
    let root = match (request.collective.is_rooted(), request.root) {
        (false, None) => None,
        (true, Some(id)) => {
            let node = topology.node(id).ok_or_else(|| unknown(topology, "root", id))?;
            let rank = ranks.iter().position(|other| *other == node).ok_or_else(|| {
                Problem::new(E_RANGE, "root", "the root takes no part").found(id).allowed("one of the participants")
            })?;
            Some(rank)
        }
        (true, None) => {
            let message = format!("`{}` has a root", request.collective.word());
            return Err(Problem::new(E_MISSING, "root", message).allowed("the id of a participant").into());
        }
        (false, Some(id)) => {
            let message = format!("`{}` has no root", request.collective.word());
            return Err(Problem::new(E_KEY, "root", message).found(id).allowed("nothing").into());
        }
    };
    match (request.collective, root) {
        (Word::AllGather, _) => Ok(Collective::AllGather),
        (Word::ReduceScatter, _) => Ok(Collective::ReduceScatter),
        (Word::AllReduce, _) => Ok(Collective::AllReduce),
        (Word::Broadcast, Some(root)) => Ok(Collective::Broadcast { root }),
        (Word::Reduce, Some(root)) => Ok(Collective::Reduce { root }),
        (other, _) => {
            let error = Problem::new(E_RANGE, "collective", "trees do not serve this collective").found(other.word());
            Err(error.allowed("allgather, reduce_scatter, allreduce, broadcast, reduce").into())
        }
    }
}

/// Participants that cannot do what every node of a tree does.
fn disabled(topology: &Topology, collective: Collective, ranks: &[usize]) -> Vec<Problem> {
    let copies = !matches!(collective, Collective::ReduceScatter | Collective::Reduce { .. });
    let reduces = !matches!(collective, Collective::AllGather | Collective::Broadcast { .. });
    let mut errors = Vec::new();
    for &node in ranks {
        let of = &topology.nodes()[node];
        for (needed, able, word) in [(copies, of.can.copy, "copy"), (reduces, of.can.reduce, "reduce")] {
            if needed && !able && errors.len() < MAX_PROBLEMS {
                let message = format!("{} takes part and cannot {word}", of.id);
                let error = Problem::new(UNSUPPORTED_FIELD, format!("/nodes/{node}/can"), message);
                errors.push(error.found(format!("{word}: false")).allowed(format!("{word}: true, or no part in it")));
            }
        }
    }
    errors
}

fn self_loops(topology: &Topology) -> Vec<Problem> {
    let loops = topology.links().iter().filter(|link| link.from == link.to);
    let error = |entry: usize, node: usize| {
        let id = &topology.nodes()[node].id;
        let error = Problem::new(SELF_LOOP, format!("/links/{entry}"), "a link leads from a node to itself").found(id);
        error.allowed("links between two nodes")
    };
    let by_entry: BTreeMap<usize, usize> = loops.map(|link| (link.entry, link.from)).collect();
    by_entry.into_iter().take(MAX_PROBLEMS).map(|(entry, node)| error(entry, node)).collect()
}

fn unlimited(topology: &Topology) -> Vec<Problem> {
    let free = topology.links().iter().filter(|link| link.capacity.finite().is_none());
    let mut entries: Vec<usize> = free.map(|link| link.entry).collect();
    entries.dedup();
    let error = |entry: usize| {
        let key = format!("/links/{entry}/capacity");
        let error = Problem::new(NON_POSITIVE_BANDWIDTH, key, "the link has no limit of its own");
        error.found("unlimited").allowed("a capacity above zero")
    };
    entries.into_iter().take(MAX_PROBLEMS).map(error).collect()
}

fn fabric(topology: &Topology, nodes: &[usize], compute: usize) -> Result<Fabric, Problems> {
    let mut place = vec![None; topology.nodes().len()];
    (0_u32..).zip(nodes).for_each(|(new, &old)| place[old] = Some(new));
    let mut links = Vec::with_capacity(topology.links().len());
    for link in topology.links() {
        let (Some(from), Some(to), Some(capacity)) = (place[link.from], place[link.to], link.capacity.finite()) else {
            continue;
        };
        let capacity = topology.unit().express(capacity);
        let Some(capacity) = ratio(&capacity) else {
            let error = Problem::new(OVERFLOW, format!("/links/{}/capacity", link.entry), "beyond 64-bit integers");
            return Err(error.found(capacity.to_string()).allowed("a fraction of machine integers").into());
        };
        links.push((from, to, capacity));
    }
    let mut machines: BTreeMap<&Text, u32> = BTreeMap::new();
    let boxes = nodes.iter().map(|node| {
        let machine = topology.nodes()[*node].machine.as_ref()?;
        let next = machines.len() as u32;
        Some(*machines.entry(machine).or_insert(next))
    });
    let of = |node: &usize| &topology.nodes()[*node];
    Ok(Fabric {
        names: nodes.iter().map(|node| of(node).id.to_string()).collect(),
        compute,
        weights: nodes[..compute].iter().map(|node| of(node).weight).collect(),
        multicast: nodes.iter().map(|node| of(node).can.copy).collect(),
        aggregate: nodes.iter().map(|node| of(node).can.reduce).collect(),
        links,
        boxes: boxes.collect(),
    })
}

fn ratio(number: &quantity::Rational) -> Option<Rational> {
    Some(Rational::new(number.numerator().to_i128()?, number.denominator().to_i128()?))
}
