//! What is asked of the planner, checked and turned into lanes and chunks.

use super::bound::{self, Bound};
use super::demand::{Demand, MAX_TRIPLES};
use super::lane::{self, EpochLength, Lanes, Straggler, Terms};
use super::route::{Hops, MAX_HOPS};
use crate::front::{Asked, Request, Support};
use sluice_formats::problem::{E_LIMIT, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Can, Kind, Topology};
use sluice_plan::plan::Collective;

/// What sends serve, and which keys of a topology this planner knows.
pub const SUPPORT: Support = Support {
    makes: "schedules of sends",
    collectives: &[
        Collective::AllGather,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::Scatter,
        Collective::Gather,
    ],
    ignorable: &["groups"],
    relays: true,
    weights: false,
    self_loop: Some("BadLink"),
    unlimited: Some("BadLink"),
    needs: |_| Can { store: true, copy: true, reduce: false },
    own_fault: "Numerical",
};

/// How much data there is.
#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// Bytes of the collective: what each participant ends with (all-gather), owns (all-to-all), or the root's data.
    Size(Rational),
    /// Bytes of each chunk.
    Chunk(Rational),
}

/// What is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Any schedule of so many epochs.
    Feasible(u64),
    /// A schedule of as few epochs as can be.
    MinEpochs,
}

/// What the caller may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much data.
    pub volume: Volume,
    /// Chunks per source; of an all-to-all per pair.
    pub chunks: u64,
    /// How long an epoch is.
    pub epoch: EpochLength,
    /// Times that.
    pub multiplier: Rational,
    /// Share of an epoch below which a latency counts as none.
    pub theta: Rational,
    /// Does a link from a switch to a GPU cost its latency alone?
    pub free_second_hop: bool,
    /// Are ways through switches lanes, instead of switches nodes?
    pub hyper_edges: bool,
    /// Who is slower than the topology says.
    pub stragglers: Vec<Straggler>,
    /// What is sought.
    pub mode: Mode,
    /// Where random numbers begin.
    pub seed: u64,
}

/// A collective on a fabric, in epochs.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) options: Options,
    /// Bytes of a chunk, seconds of an epoch, and how they count.
    pub terms: Terms,
    /// Bytes of the collective.
    pub size: Rational,
    /// The links, counted in epochs.
    pub lanes: Lanes,
    /// Who wants what.
    pub demand: Demand,
    /// The ways between nodes that store.
    pub hops: Hops,
    /// No schedule has fewer epochs.
    pub bound: Bound,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// Those of [`Asked::new`] with the codes of [`SUPPORT`], and of [`Lanes::new`]; `UNSUPPORTED_FIELD` without units,
    /// `BadChunk` and `BadEpoch` for parameters, `EmptyDemand`, `E_LIMIT`, `Unreachable` with the two ends.
    pub fn new(
        topology: &'a Topology,
        request: &Request<'_>,
        options: &Options,
        file: &str,
    ) -> Result<Instance<'a>, Problems> {
        let asked = Asked::new(topology, request, file, &SUPPORT)?;
        if topology.unit() == Unit::Abstract {
            let error = Problem::new(UNSUPPORTED_FIELD, "/links", "chunks have bytes and epochs seconds");
            return Err(asked.in_file(error.found("capacities without units").allowed("capacities as in 25GB/s")));
        }
        if let Some(problems) = Problems::of(parameters(options)) {
            return Err(problems);
        }
        let n = asked.participants.len() as u64;
        if n < 2 {
            let error = Problem::new("EmptyDemand", "/nodes", "a collective has at least two participants");
            return Err(asked.in_file(error.found(format!("{n} participant(s)")).allowed("2 or more")));
        }
        let parts = match asked.collective {
            Collective::Broadcast => options.chunks,
            _ => options.chunks.saturating_mul(n),
        };
        let pairs = if asked.collective.is_rooted() { n - 1 } else { n * (n - 1) };
        if options.chunks.saturating_mul(pairs) > MAX_TRIPLES {
            let error = Problem::new(E_LIMIT, "chunks", "more demands than can be planned");
            let found = format!("{} chunks for each of {pairs} pairs", options.chunks);
            return Err(error.found(found).allowed(format!("at most {MAX_TRIPLES} in all")).into());
        }
        let parts = Rational::from(parts);
        let (chunk, size) = match &options.volume {
            Volume::Chunk(chunk) => (chunk.clone(), chunk * &parts),
            Volume::Size(size) => (size.checked_div(&parts).unwrap_or(Rational::ZERO), size.clone()),
        };
        let in_file = |problems: Problems| problems.in_file(&asked.file);
        let tau =
            lane::tau(topology, &chunk, &options.epoch, &options.multiplier, &options.stragglers).map_err(in_file)?;
        let terms = Terms {
            chunk,
            tau,
            theta: options.theta.clone(),
            free_second_hop: options.free_second_hop,
            hyper_edges: options.hyper_edges,
            stragglers: options.stragglers.clone(),
        };
        let lanes = Lanes::new(topology, &terms, false).map_err(in_file)?;
        let root = asked.root;
        let demand = Demand::of(asked.collective, &asked.participants, root, options.chunks).unwrap_or_default();
        reachable(&asked, &lanes, &demand)?;
        let hops = Hops::new(&lanes).ok_or_else(|| {
            let error = Problem::new(E_LIMIT, "/links", "more ways through switches than can be tried");
            asked.in_file(error.allowed(format!("at most {MAX_HOPS} between nodes that store")))
        })?;
        let bound = bound::best(&lanes, &demand);
        Ok(Instance { asked, options: options.clone(), terms, size, lanes, demand, hops, bound })
    }

    /// What is sought.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }
    /// Keys that are there and are ignored.
    pub fn ignored(&self) -> &[&'static str] {
        &self.asked.ignored
    }
    /// What the caller should know: code and sentence.
    pub fn warnings(&self) -> &[(&'static str, String)] {
        &self.lanes.warnings
    }
}

/// Everything that is wrong with the parameters.
fn parameters(options: &Options) -> Vec<Problem> {
    let mut errors = Vec::new();
    let mut refuse = |wrong: bool, code, key: &str, found: String, allowed: &str| {
        if wrong {
            errors.push(Problem::new(code, key, format!("`{key}` is out of range")).found(found).allowed(allowed));
        }
    };
    let (key, bytes) = match &options.volume {
        Volume::Size(size) => ("size", size),
        Volume::Chunk(chunk) => ("chunk", chunk),
    };
    refuse(!bytes.is_positive(), "BadChunk", key, format!("{bytes} bytes"), "more than nothing");
    refuse(options.chunks == 0, "BadChunk", "chunks", "0".into(), "1 or more");
    if let EpochLength::Fixed(seconds) = &options.epoch {
        refuse(!seconds.is_positive(), "BadEpoch", "epoch", format!("{seconds} s"), "fast, slow, or a time above zero");
    }
    let short = options.multiplier < Rational::ONE;
    refuse(short, "BadEpoch", "epoch-multiplier", options.multiplier.to_string(), "1 or more");
    refuse(options.theta.is_negative(), "BadEpoch", "theta", options.theta.to_string(), "0 or more");
    if let Mode::Feasible(epochs) = options.mode {
        refuse(epochs == 0, "BadEpoch", "epochs", "0".into(), "1 or more");
    }
    for slow in &options.stragglers {
        let found = format!("+{} s, ×{}", slow.alpha_add, slow.beta_mul);
        let wrong = slow.alpha_add.is_negative() || !slow.beta_mul.is_positive();
        refuse(wrong, "BadLink", "straggler", found, "a latency of 0 or more to add, and a factor above zero");
    }
    errors
}

/// Every chunk can get to whoever wants it.
fn reachable(asked: &Asked<'_>, lanes: &Lanes, demand: &Demand) -> Result<(), Problems> {
    let mut from: std::collections::HashMap<usize, Vec<u64>> = std::collections::HashMap::new();
    let nodes = asked.topology.nodes();
    for chunk in &demand.chunks {
        let distances = from.entry(chunk.source).or_insert_with(|| lanes.distances(chunk.source));
        if let Some(node) = chunk.wanted_by.iter().find(|node| distances[**node] == u64::MAX) {
            let (from, to) = (&nodes[chunk.source].id, &nodes[*node].id);
            let message = format!("no way leads from {from} to {to}");
            let error = Problem::new("Unreachable", format!("/nodes/{node}"), message);
            let error = error.detail("from", &**from).detail("to", &**to).detail("chunk", chunk.number);
            let error = error.allowed("a way from every source to all who want its chunks");
            return Err(asked.in_file(error.help("give links that should go both ways \"duplex\": true")));
        }
    }
    debug_assert!(demand.chunks.iter().all(|chunk| nodes[chunk.source].kind != Kind::Switch));
    Ok(())
}
