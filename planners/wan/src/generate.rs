//! The workload generator: capacities, rings and sizes drawn from a seed, the same to the bit for everybody.
//!
//! Order of the draws: the capacity of each edge; then for each collective its participants and its sizes by chunk and
//! hop. The stream is one, so the instance of K collectives is the beginning of that of K + 1.

use crate::graph::Graph;
use crate::instance::{Instance, MAX_FLOWS};
use crate::random::Random;
use crate::refusal::Refusal;
use crate::ring;
use crate::routes::Router;

/// A normal distribution of which what lies below `least` is drawn again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean before the cut.
    pub mean: f64,
    /// The standard deviation before the cut.
    pub deviation: f64,
    /// The least value.
    pub least: f64,
}

/// Draws in a row below the least value after which nothing will come.
const MAX_DRAWS: usize = 10_000;

impl Normal {
    fn draw(self, random: &mut Random) -> Option<f64> {
        let usable = self.mean.is_finite() && self.deviation.is_finite() && self.deviation >= 0.0 && self.least > 0.0;
        let mut drawn = (0..MAX_DRAWS).map(|_| random.normal(self.mean, self.deviation));
        if usable { drawn.find(|&x| x >= self.least && x.is_finite()) } else { None }
    }
    fn refused(self) -> String {
        let Normal { mean, deviation, least } = self;
        format!("nothing of at least {least} can be drawn from N({mean}, {deviation}); a least value above 0 is needed")
    }
}

/// What has a size of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// Every hop of every chunk.
    #[default]
    IidFlow,
    /// Every chunk, which keeps its size along its chain.
    PerGroup,
    /// Every collective.
    PerCollective,
}

impl Sizes {
    /// The word that stands for it.
    pub fn word(self) -> &'static str {
        match self {
            Sizes::IidFlow => "iid_flow",
            Sizes::PerGroup => "per_group",
            Sizes::PerCollective => "per_collective",
        }
    }
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// What the collectives run on.
    pub graph: &'a Graph,
    /// How many collectives.
    pub collectives: usize,
    /// Participants of each.
    pub participants: usize,
    /// Sizes in MB.
    pub size: Normal,
    /// Capacities in MB/s.
    pub capacity: Normal,
    /// What has a size of its own.
    pub sizes: Sizes,
    /// What sizes are multiplied by.
    pub scale: f64,
    /// Does every participant send hop by hop?
    pub strict_steps: bool,
    /// The seed.
    pub seed: u64,
}

impl<'a> Workload<'a> {
    /// The parameters of the method's page: four participants, sizes N(5, 2.5) MB from 0.05 on, capacities N(22.5, 2.5) MB/s
    /// from 0.225 on.
    pub fn new(graph: &'a Graph, collectives: usize, seed: u64) -> Workload<'a> {
        Workload {
            graph,
            collectives,
            participants: 4,
            size: Normal { mean: 5.0, deviation: 2.5, least: 0.05 },
            capacity: Normal { mean: 22.5, deviation: 2.5, least: 0.225 },
            sizes: Sizes::IidFlow,
            scale: 1.0,
            strict_steps: false,
            seed,
        }
    }

    /// Draws the instance.
    ///
    /// # Errors
    /// `TooLarge`, `BadParticipants`, `BadSize`, `BadCapacity`, and what [`Instance::new`] refuses.
    pub fn generate(&self) -> Result<Instance, Refusal> {
        let (n, nodes) = (self.participants, self.graph.nodes());
        if n < 2 || n > nodes {
            let what = format!("{n} of {nodes} nodes; at least 2 and at most all of them are needed");
            return Err(Refusal::BadParticipants { what });
        }
        let flows = n.checked_mul(ring::hops(n)).and_then(|each| each.checked_mul(self.collectives));
        match flows {
            Some(found) if found <= MAX_FLOWS => {}
            _ => {
                return Err(Refusal::TooLarge {
                    what: "flows",
                    found: flows.unwrap_or(usize::MAX),
                    allowed: MAX_FLOWS,
                });
            }
        }
        if !(self.scale.is_finite() && self.scale > 0.0) {
            let what = format!("a scale of {}; finite and more than 0 is needed", self.scale);
            return Err(Refusal::BadSizes { what });
        }
        let mut random = Random::new(self.seed);
        let mut capacities = Vec::with_capacity(self.graph.edges().len());
        for _ in self.graph.edges() {
            let drawn = self.capacity.draw(&mut random);
            capacities.push(drawn.ok_or_else(|| Refusal::BadCapacities { what: self.capacity.refused() })?);
        }
        let links = self.graph.links(|edge| capacities.get(edge).copied().unwrap_or_default());
        let mut router = Router::new(nodes, &links);
        let (mut flows, mut deps) = (Vec::new(), Vec::new());
        for collective in 0..self.collectives {
            let ring = self.participants(&mut random);
            let first = flows.len();
            let mut last = 0.0;
            let size = |chunk: usize, hop: usize| {
                let fresh = match self.sizes {
                    Sizes::IidFlow => true,
                    Sizes::PerGroup => hop == 0,
                    Sizes::PerCollective => chunk == 0 && hop == 0,
                };
                if fresh {
                    let drawn = self.size.draw(&mut random);
                    last = drawn.ok_or_else(|| Refusal::BadSizes { what: self.size.refused() })?;
                }
                Ok(last * self.scale)
            };
            flows.extend(ring::expand(collective, &ring, nodes, &mut router, size)?);
            if self.strict_steps {
                deps.extend(ring::dependencies(n, first, true));
            }
        }
        let name = format!("{}-K{}-n{n}-s{}", self.graph.name(), self.collectives, self.seed);
        Instance::new(name, nodes, links, flows, self.strict_steps.then_some(deps))
    }

    /// A ring, by a partial shuffle of all nodes.
    fn participants(&self, random: &mut Random) -> Vec<usize> {
        let nodes = self.graph.nodes();
        let mut all: Vec<usize> = (0..nodes).collect();
        for place in 0..self.participants {
            let other = place + random.below(nodes - place);
            all.swap(place, other);
        }
        all.truncate(self.participants);
        all
    }
}
