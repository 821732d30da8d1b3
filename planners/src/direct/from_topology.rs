//! From a topology to a graph: every node a vertex, every link an edge, in file order.
//!
//! Whoever forwards without storing has no place in a direct-connect graph and is refused, as are keys that change what
//! a link or a node can do and that step schedules know nothing of.

use super::bfb::LinkTime;
use super::graph::{Edge, Graph};
use super::refusal::Refusal;
use crate::front::{Asked, Request, Support};
use sluice_formats::problem::{E_KEY, E_MISSING, INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Can, Topology};
use sluice_plan::plan::Collective;

/// What breadth-first schedules serve, and which keys of a topology this planner knows.
pub const SUPPORT: Support = Support {
    makes: "breadth-first schedules",
    collectives: &[Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce],
    ignorable: &["buffer", "capacity_per_epoch", "groups"],
    relays: false,
    weights: false,
    self_loop: None,
    unlimited: Some("InvalidLinkParameter"),
    needs: |_| Can { store: true, copy: true, reduce: true },
    own_fault: INTERNAL_INVARIANT,
};

/// What the plan's lower bound is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Time per byte of long transfers: what a node's own links carry.
    #[default]
    Bandwidth,
    /// The number of steps: the diameter. Such a plan claims no time per byte.
    Diameter,
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Bytes M; needed where latencies differ.
    pub size: Option<&'a Rational>,
    /// Units that a shard is cut into; `None`: the fewest that lose nothing.
    pub units: Option<u32>,
    /// What is to be proved.
    pub proof: Proof,
}

/// A topology as the planner sees it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub(super) asked: Asked<'a>,
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
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages. All nodes take part, in file order.
    ///
    /// # Errors
    /// Those of [`Asked::new`], with the codes of [`SUPPORT`]; then, with pointers into the topology, `EmptyTopology`,
    /// `TopologyTooLarge`, and `E_MISSING` without a size where latencies differ.
    pub fn new(
        topology: &'a Topology,
        request: &Request<'_>,
        options: &Options<'_>,
        file: &str,
    ) -> Result<Instance<'a>, Problems> {
        if request.participants.is_some() {
            let error = Problem::new(E_KEY, "participants", "all nodes of a graph take part, in file order");
            return Err(error.allowed("nothing").into());
        }
        let asked = Asked::new(topology, request, file, &SUPPORT)?;
        let n = topology.nodes().len();
        if n < 2 {
            let code = Refusal::EmptyTopology.code();
            let error = Problem::new(code, "/nodes", "a collective has at least two participants");
            return Err(asked.in_file(error.found(format!("{n} node(s)")).allowed("2 or more")));
        }
        let edges = topology.links().iter().map(|link| Edge { tail: link.from as u32, head: link.to as u32 }).collect();
        let graph = Graph::new(n as u32, edges).map_err(|refusal| refused(&asked, &refusal))?;
        let links = topology.links();
        let even = links.windows(2).all(|pair| pair[0].capacity == pair[1].capacity);
        let same_latency = links.windows(2).all(|pair| pair[0].latency == pair[1].latency);
        if !same_latency && options.size.is_none() {
            let error =
                Problem::new(E_MISSING, "size", "links have different latencies: what is best depends on the size");
            return Err(error.allowed("a size, as in 1MB").into());
        }
        // Without a size one that makes comparisons: a shard of one byte.
        let shard = match options.size {
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
            asked,
            graph,
            units: options.units,
            proof: options.proof,
            even,
            link: times.first().cloned().filter(|_| options.size.is_some()),
            times: (!even || !same_latency).then_some(times),
            sized: options.size.is_some(),
        })
    }
    /// The topology's nodes and links as vertices and edges, both in file order.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// Keys that are there and are ignored.
    pub fn ignored(&self) -> &[&'static str] {
        &self.asked.ignored
    }
    /// Do links differ in capacity or latency?
    pub fn is_unequal(&self) -> bool {
        self.times.is_some()
    }
    /// What is wrong with a graph, in the words of its file.
    pub fn refused(&self, refusal: &Refusal) -> Problems {
        refused(&self.asked, refusal)
    }
}

fn refused(asked: &Asked<'_>, refusal: &Refusal) -> Problems {
    let topology = asked.topology;
    let error = |key: String| Problem::new(refusal.code(), key, refusal.to_string());
    let id = |vertex: u32| topology.nodes().get(vertex as usize).map_or(String::new(), |node| node.id.to_string());
    let entry = |edge: u32| topology.links().get(edge as usize).map_or(0, |link| link.entry);
    let in_file = |error: Problem| asked.in_file(error);
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

/// Does the topology count in bytes and seconds?
pub(super) fn has_units(topology: &Topology) -> bool {
    topology.unit() != Unit::Abstract
}
