//! What is asked of fluid programs, checked and turned into a network and blocks.

use super::demand::{Block, Demand};
use super::network::Network;
use super::refusal::Refusal;
use crate::front::{Asked, Request, Support};
use crate::teccl::demand::{Demand as Chunks, Wanted};
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Can, Topology};
use sluice_plan::plan::Collective;

/// What fluid programs serve, and which keys of a topology they know.
pub const SUPPORT: Support = Support {
    makes: "fluid schedules",
    collectives: Collective::ALL,
    ignorable: &["buffer", "capacity_per_epoch"],
    relays: true,
    weights: false,
    self_loop: Some("SelfLoop"),
    unlimited: None,
    // Who must be able to do what depends on the collective; the demand says so, in the words of the method's page.
    needs: |_| Can { store: false, copy: false, reduce: false },
    own_fault: "Solver",
};

/// Bytes in the unit of results where capacities have units: 1 GB.
const UNIT_BYTES: u64 = 1_000_000_000;

/// A fabric and what is to be moved over it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// Who takes part in what, and what is ignored.
    pub asked: Asked<'a>,
    /// The fabric in numbers.
    pub network: Network,
    /// What is moved: blocks of data with their roots and ends.
    pub demand: Demand,
    /// What is wanted, where the collective is custom.
    pub wanted: Option<Wanted>,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `wanted` with the collective `custom` only.
    ///
    /// # Errors
    /// What the front refuses; what is wrong with the demands; the refusals of [`Demand::of`] with a pointer to the node.
    pub fn new(
        topology: &'a Topology,
        request: &Request<'_>,
        wanted: Option<Wanted>,
        file: &str,
    ) -> Result<Instance<'a>, Problems> {
        let asked = Asked::new(topology, request, file, &SUPPORT)?;
        let network = Network::of(topology);
        let demand = match &wanted {
            Some(wanted) => {
                let chunks = Chunks::of_tenants(topology, &asked.participants, wanted)?;
                Demand::of_chunks(&network, &chunks)
            }
            None if request.collective == Collective::Custom => {
                let error = Problem::new(E_RANGE, "collective", "`custom` is what demands say").found("custom");
                return Err(error.allowed("--demands FILE, or a plain collective").into());
            }
            None => Demand::of(&network, request.collective, &asked.participants, asked.root),
        };
        let demand = demand.map_err(|refusal| refused(topology, &asked.file, &refusal))?;
        Ok(Instance { asked, network, demand, wanted })
    }

    /// A refusal with the names of nodes.
    pub fn refused(&self, refusal: &Refusal) -> Problems {
        refused(self.asked.topology, &self.asked.file, refusal)
    }

    /// By node the part that it plays: what a permutation must keep.
    pub fn marks(&self) -> Vec<u32> {
        let mut marks = vec![0; self.network.nodes()];
        let mut parts: Vec<Vec<(u8, String)>> = vec![Vec::new(); self.network.nodes()];
        let blocks = self.demand.blocks();
        // Blocks that are alike but for their root, with everybody else as ends, are carried onto each other by whatever
        // keeps roots and ends; where ends differ a permutation must keep every single block.
        let members = |block: &Block| {
            let mut all = block.ends.clone();
            all.push(block.root);
            all.sort_unstable();
            all
        };
        let alike = blocks.windows(2).all(|pair| {
            members(&pair[0]) == members(&pair[1]) && pair[0].units == pair[1].units && pair[0].shape == pair[1].shape
        });
        for (number, block) in blocks.iter().enumerate() {
            let name = if alike { String::new() } else { number.to_string() };
            let part = |code: u8| (code, name.clone());
            parts[block.root as usize].push(part(1 + u8::from(block.direction == super::demand::Direction::In)));
            block.ends.iter().for_each(|end| parts[*end as usize].push(part(3)));
        }
        let mut known: Vec<Vec<(u8, String)>> = vec![Vec::new()];
        for (mark, mut part) in marks.iter_mut().zip(parts) {
            part.sort_unstable();
            part.dedup();
            let place = known.iter().position(|known| *known == part).unwrap_or_else(|| {
                known.push(part);
                known.len() - 1
            });
            *mark = place as u32;
        }
        marks
    }

    /// Roots of blocks, ascending, each once.
    pub fn roots(&self) -> Vec<u32> {
        let mut roots: Vec<u32> = self.demand.blocks().iter().map(|block| block.root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Bytes, or abstract units, of what results are per.
    pub fn unit(&self) -> Rational {
        match self.asked.topology.unit() {
            Unit::Abstract => Rational::ONE,
            _ => Rational::from(UNIT_BYTES),
        }
    }

    /// Units of the method in all of the data M.
    pub fn units(&self) -> Rational {
        match self.asked.collective {
            Collective::AllGather | Collective::AllToAll => Rational::from(self.asked.participants.len() as u64),
            Collective::Custom => self.demand.blocks().iter().fold(Rational::ZERO, |sum, block| &sum + &block.units),
            _ => Rational::ONE,
        }
    }
}

fn refused(topology: &Topology, file: &str, refusal: &Refusal) -> Problems {
    let id = |node: u32| topology.nodes().get(node as usize).map_or("", |node| &*node.id);
    let problem = |key: String, message: String| Problem::new(refusal.code(), key, message);
    let in_file = |problem: Problem| Problems::from(problem).in_file(file);
    match refusal {
        Refusal::EndpointCannotCopy { node } | Refusal::EndpointCannotReduce { node } => {
            let word = if matches!(refusal, Refusal::EndpointCannotCopy { .. }) { "copy" } else { "reduce" };
            let message = format!("{} takes part and cannot {word}", id(*node));
            let error = problem(format!("/nodes/{node}/can"), message).found(format!("{word}: false"));
            in_file(error.allowed(format!("{word}: true, or no part in it")))
        }
        Refusal::Unreachable { origin, destination } => {
            let message = format!("no way leads from {} to {}", id(*origin), id(*destination));
            in_file(problem("/links".into(), message).allowed("a way between all that exchange something"))
        }
        Refusal::EmptyCollective { .. } | Refusal::NoRoot => in_file(problem("/nodes".into(), refusal.to_string())),
        Refusal::HorizonTooShort { horizon, need } => {
            let message = "some data has more links to go than there are steps";
            let error = problem("horizon".into(), message.into()).found(horizon.to_string());
            error.allowed(format!("{need} or more")).into()
        }
        Refusal::Infeasible { needed } => {
            let error = problem("step_length".into(), "so many steps of this length are not enough".into());
            error.allowed(format!("{needed} or more")).into()
        }
        Refusal::TooManyChunks { found, allowed } => {
            let message = "so many chunks of every part make a plan that is too large";
            problem("steps".into(), message.into()).found(found.to_string()).allowed(format!("1 to {allowed}")).into()
        }
        Refusal::BadParameter { name, found, allowed } => {
            problem((*name).into(), "a parameter out of its range".into()).found(found).allowed(*allowed).into()
        }
        other => problem(String::new(), other.to_string()).into(),
    }
}
