//! From a topology to a graph: every node a vertex, every link an edge, in file order.
//!
//! Whoever forwards without storing has no place in a direct-connect graph and is refused, as are keys that change what
//! a link or a node can do and that step schedules know nothing of.

use super::bfb::LinkTime;
use super::graph::{Edge, Graph};
use super::refusal::Refusal;
pub use crate::ignorable::IGNORABLE;
use crate::ignorable::unsupported;
pub use sluice_formats::problem::UNSUPPORTED_FIELD;
use sluice_formats::problem::{E_MISSING, E_RANGE, MAX_PROBLEMS, Problem, Problems};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::plan::Collective;

/// What the plan's lower bound is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Time per byte of long transfers: what a node's own links carry.
    #[default]
    Bandwidth,
    /// The number of steps: the diameter. Such a plan claims no time per byte.
    Diameter,
}

/// What is asked of a topology.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// All-gather, reduce-scatter or all-reduce.
    pub collective: Collective,
    /// Bytes M; needed where latencies differ.
    pub size: Option<&'a Rational>,
    /// Units per shard.
    pub units: Option<u32>,
    /// What is to be proved.
    pub proof: Proof,
    /// Which of [`IGNORABLE`] to plan without.
    pub ignore: &'a [String],
}

/// A topology as the planner sees it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub(super) topology: &'a Topology,
    /// The file's name in messages.
    file: String,
    pub(super) collective: Collective,
    pub(super) graph: Graph,
    pub(super) units: Option<u32>,
    pub(super) proof: Proof,
    /// Are all links equally fast, whatever their latencies?
    pub(super) even: bool,
    /// Where links differ: how long each takes.
    pub(super) times: Option<Vec<LinkTime>>,
    /// How long the first link takes, where a size is known or latency does not matter.
    pub(super) link: Option<LinkTime>,
    /// Are `times` of the size asked for, so that they are a time and not only a comparison?
    pub(super) sized: bool,
    /// Keys that are there and were ignored.
    pub(super) ignored: Vec<&'static str>,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// `E_RANGE` for other collectives; then, with pointers into the topology, `EmptyTopology`, `UNSUPPORTED_FIELD`,
    /// `InvalidLinkParameter` (which `"unlimited"` is, too), and `E_MISSING` without a size where latencies differ.
    pub fn new(topology: &'a Topology, request: &Request<'_>, file: &str) -> Result<Instance<'a>, Problems> {
        let collective = request.collective;
        if !matches!(collective, Collective::AllGather | Collective::ReduceScatter | Collective::AllReduce) {
            let error = Problem::new(E_RANGE, "collective", "breadth-first schedules do not serve this collective");
            return Err(error.found(collective.word()).allowed("allgather, reduce_scatter, allreduce").into());
        }
        let n = topology.nodes().len();
        if n < 2 {
            let code = Refusal::EmptyTopology.code();
            let error = Problem::new(code, "/nodes", "a collective has at least two participants");
            return Err(Problems::from(error.found(format!("{n} node(s)")).allowed("2 or more")).in_file(file));
        }
        let refuse = |errors: Vec<Problem>| Problems::collect(errors, file).map_or(Ok(()), Err);
        refuse(bystanders(topology))?;
        let (unsupported, ignored) = unsupported(topology, request.ignore);
        refuse(unsupported)?;
        refuse(unlimited(topology))?;
        let edges = topology.links().iter().map(|link| Edge { tail: link.from as u32, head: link.to as u32 }).collect();
        let graph = Graph::new(n as u32, edges).map_err(|refusal| refused(topology, file, &refusal))?;
        let links = topology.links();
        let even = links.windows(2).all(|pair| pair[0].capacity == pair[1].capacity);
        let same_latency = links.windows(2).all(|pair| pair[0].latency == pair[1].latency);
        if !same_latency && request.size.is_none() {
            let error =
                Problem::new(E_MISSING, "size", "links have different latencies: what is best depends on the size");
            return Err(error.allowed("a size, as in 1MB").into());
        }
        // Without a size one that makes comparisons: a shard of one byte.
        let shard = match request.size {
            Some(size) => size.checked_div(&Rational::from(n as u64)).unwrap_or(Rational::ZERO),
            None => Rational::ONE,
        };
        let times: Vec<LinkTime> = links
            .iter()
            .map(|link| {
                let slowness = link.capacity.finite().and_then(Rational::recip).unwrap_or(Rational::ONE);
                LinkTime { latency: link.latency.clone(), shard: &shard * &slowness }
            })
            .collect();
        Ok(Instance {
            topology,
            file: file.into(),
            collective,
            graph,
            units: request.units,
            proof: request.proof,
            even,
            link: times.first().cloned().filter(|_| request.size.is_some()),
            times: (!even || !same_latency).then_some(times),
            sized: request.size.is_some(),
            ignored,
        })
    }
    /// The planner's input.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// Do links differ in capacity or latency?
    pub fn is_unequal(&self) -> bool {
        self.times.is_some()
    }
    /// What is wrong with a graph, in the words of its file.
    pub fn refused(&self, refusal: &Refusal) -> Problems {
        refused(self.topology, &self.file, refusal)
    }
}

fn refused(topology: &Topology, file: &str, refusal: &Refusal) -> Problems {
    let error = |key: String| Problem::new(refusal.code(), key, refusal.to_string());
    let id = |vertex: u32| topology.nodes().get(vertex as usize).map_or(String::new(), |node| node.id.to_string());
    let entry = |edge: u32| topology.links().get(edge as usize).map_or(0, |link| link.entry);
    let in_file = |error: Problem| Problems::from(error).in_file(file);
    match refusal {
        Refusal::NotStronglyConnected { from, to } => {
            let (from_id, to_id) = (id(*from), id(*to));
            let message = format!("no way leads from {from_id} to {to_id}");
            let error = Problem::new(refusal.code(), format!("/nodes/{from}"), message);
            let error = error.detail("from", from_id).detail("to", to_id);
            let error = error.allowed("a way from every node to every other one");
            in_file(error.help("give links that should go both ways \"duplex\": true"))
        }
        Refusal::InvalidLinkParameter { edge, .. } => in_file(error(format!("/links/{}", entry(*edge)))),
        Refusal::InvalidChunking { .. } => {
            error("chunks".into()).help("--chunks says into how many units a shard is cut").into()
        }
        Refusal::TopologyTooLarge { .. } | Refusal::ScheduleTooLarge { .. } | Refusal::TooManyNeighbours { .. } => {
            in_file(error("/nodes".into()))
        }
        _ => in_file(error(String::new())),
    }
}

/// Nodes that could not be the vertex of a direct-connect graph.
fn bystanders(topology: &Topology) -> Vec<Problem> {
    let mut errors = Vec::new();
    for (node, of) in topology.nodes().iter().enumerate() {
        let key = |key: &str| format!("/nodes/{node}/{key}");
        if !of.is_compute() {
            let error = Problem::new(UNSUPPORTED_FIELD, key("kind"), format!("{} is no participant", of.id));
            let help = match of.kind {
                Kind::Memory => "leave it out with its links",
                _ => {
                    "join the nodes behind it by direct links, or plan with `sluice plan forestcoll`, which goes through it"
                }
            };
            errors.push(error.found(of.kind.word()).allowed("gpu, host, site").help(help));
            continue;
        }
        for (able, word) in [(of.can.store, "store"), (of.can.copy, "copy"), (of.can.reduce, "reduce")] {
            if !able {
                let error = Problem::new(UNSUPPORTED_FIELD, key("can"), format!("{} cannot {word}", of.id));
                errors.push(error.found(format!("{word}: false")).allowed(format!("{word}: true")));
            }
        }
        if of.weight != 1 {
            let error =
                Problem::new(UNSUPPORTED_FIELD, key("weight"), "all shards of a step schedule are equally large");
            errors.push(error.found(of.weight.to_string()).allowed("1"));
        }
        if errors.len() >= MAX_PROBLEMS {
            break;
        }
    }
    errors.truncate(MAX_PROBLEMS);
    errors
}

fn unlimited(topology: &Topology) -> Vec<Problem> {
    let code = Refusal::InvalidLinkParameter { edge: 0, reason: String::new() }.code();
    let free = topology.links().iter().filter(|link| link.capacity.finite().is_none());
    let mut entries: Vec<usize> = free.map(|link| link.entry).collect();
    entries.dedup();
    let error = |entry: usize| {
        let error = Problem::new(code, format!("/links/{entry}/capacity"), "the link has no limit of its own");
        error.found("unlimited").allowed("a capacity above zero")
    };
    entries.into_iter().take(MAX_PROBLEMS).map(error).collect()
}

/// Does the topology count in bytes and seconds?
pub(super) fn has_units(topology: &Topology) -> bool {
    topology.unit() != Unit::Abstract
}
