//! What is asked of the planner, checked and turned into lanes and chunks.

use super::bound::{self, Bound};
use super::demand::{Demand, MAX_TRIPLES, Wanted};
use super::lane::{self, EpochLength, Lanes, Straggler, Terms};
use super::objective::Objective;
use super::route::{Hops, MAX_EPOCHS, MAX_HOPS};
use crate::front::{Asked, Request, Support, reduces};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Can, Kind, Topology};
use sluice_plan::plan::Collective;

/// What sends serve, and which keys of a topology this planner knows.
pub const SUPPORT: Support = Support {
    makes: "schedules of sends",
    collectives: &[
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllReduce,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Scatter,
        Collective::Gather,
        Collective::Custom,
    ],
    ignorable: &["groups"],
    relays: true,
    weights: false,
    self_loop: Some("BadLink"),
    unlimited: Some("BadLink"),
    needs: |collective| Can { store: true, copy: true, reduce: reduces(collective) },
    own_fault: "Numerical",
};

/// How much data there is.
#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// Bytes of the collective: what each participant ends with (all-gather), begins with (sums), owns (all-to-all), or the
    /// root's data.
    Size(Rational),
    /// Bytes of each chunk.
    Chunk(Rational),
}

/// Which schedule is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Any schedule of so many epochs.
    Feasible(u64),
    /// A schedule of as few epochs as can be.
    MinEpochs,
    /// The schedule that gains most.
    Objective {
        /// What a schedule gains by early arrivals.
        objective: Objective,
        /// Within so many epochs; `None`: the fewest there can be.
        epochs: Option<u64>,
    },
}

/// What the caller may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much data there is, in all or per chunk.
    pub volume: Volume,
    /// Chunks per source; of an all-to-all per pair.
    pub chunks: u64,
    /// How long an epoch is.
    pub epoch: EpochLength,
    /// Factor by which epochs are longer than that, 1 or more.
    pub multiplier: Rational,
    /// Share of an epoch below which a latency counts as none.
    pub theta: Rational,
    /// Does a link from a switch to a GPU cost its latency alone?
    pub free_second_hop: bool,
    /// Are ways through switches lanes, instead of switches nodes?
    pub hyper_edges: bool,
    /// Who is slower than the topology says.
    pub stragglers: Vec<Straggler>,
    /// Which schedule is the best.
    pub mode: Mode,
    /// What is wanted, where the collective is custom.
    pub wanted: Option<Wanted>,
    /// May chunks be cut? Then nothing is copied.
    pub divisible: bool,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Options {
    /// So much data in one chunk per source, in as few epochs as can be, which are as long as the fastest link takes for a
    /// chunk; a latency of a tenth of that counts as none.
    pub fn of(volume: Volume) -> Options {
        Options {
            volume,
            chunks: 1,
            epoch: EpochLength::Fast,
            multiplier: Rational::ONE,
            theta: Rational::new(1, 10).unwrap_or(Rational::ZERO),
            free_second_hop: false,
            hyper_edges: false,
            stragglers: Vec::new(),
            mode: Mode::MinEpochs,
            wanted: None,
            divisible: false,
            seed: 0,
        }
    }
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
    /// The links, counted in epochs; the other way round where `is_reversed`.
    pub lanes: Lanes,
    /// The chunks that nodes want of each other.
    pub demand: Demand,
    /// The ways between nodes that store.
    pub hops: Hops,
    /// No schedule has fewer epochs.
    pub bound: Bound,
    /// Does time run backwards? What is copied then is what is added up in the plan.
    pub is_reversed: bool,
    /// What comes after: an all-reduce spreads what it added up.
    pub(super) then: Option<Box<Then<'a>>>,
}

/// The second half of an all-reduce.
#[derive(Clone, Debug)]
pub(super) struct Then<'a> {
    pub instance: Instance<'a>,
    /// No schedule of both halves has fewer epochs.
    pub bound: Bound,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// Those of [`Asked::new`] with the codes of [`SUPPORT`], of [`Lanes::new`] and of [`Demand::of_tenants`];
    /// `UNSUPPORTED_FIELD` without units, and for what sums are not planned with; `BadChunk` and `BadEpoch` for
    /// parameters, `CopyNeeded` where chunks are cut and several want one, `EmptyDemand`, `E_LIMIT`, `Unreachable` with
    /// the two ends.
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
        if reduces(asked.collective) {
            sums(&asked, options)?;
        }
        Instance::of(asked, options)
    }

    /// The same with chunks that stay whole, or with other epochs.
    ///
    /// # Errors
    /// As [`Instance::new`].
    pub fn with(&self, options: Options) -> Result<Instance<'a>, Problems> {
        Instance::of(self.asked.clone(), &options)
    }

    fn of(asked: Asked<'a>, options: &Options) -> Result<Instance<'a>, Problems> {
        let (n, topology) = (asked.participants.len() as u64, asked.topology);
        if n < 2 {
            let error = Problem::new("EmptyDemand", "/nodes", "a collective has at least two participants");
            return Err(asked.in_file(error.found(format!("{n} participant(s)")).allowed("2 or more")));
        }
        let whole = asked.collective;
        let parts = match whole {
            Collective::Broadcast | Collective::Reduce => options.chunks,
            _ => options.chunks.saturating_mul(n),
        };
        let pairs = if whole.is_rooted() { n - 1 } else { n * (n - 1) };
        if options.chunks.saturating_mul(pairs) > MAX_TRIPLES {
            let error = Problem::new(E_LIMIT, "chunks", "more demands than can be planned");
            let found = format!("{} chunks for each of {pairs} pairs", options.chunks);
            return Err(error.found(found).allowed(format!("at most {MAX_TRIPLES} in all")).into());
        }
        // Time turned round, copies to all are sums of all.
        let is_reversed = reduces(whole);
        let forward = match whole {
            Collective::ReduceScatter | Collective::AllReduce => Collective::AllGather,
            Collective::Reduce => Collective::Broadcast,
            other => other,
        };
        let demand = match &options.wanted {
            Some(wanted) => Demand::of_tenants(topology, &asked.participants, wanted)?,
            None => Demand::of(forward, &asked.participants, asked.root, options.chunks).ok_or_else(custom)?,
        };
        if options.divisible && demand.needs_copies() {
            let error =
                Problem::new("CopyNeeded", "solver", "several want the same chunk, and what is cut is not copied");
            return Err(error.found("lp").allowed("auto, milp, astar, none").into());
        }
        let parts = Rational::from(parts);
        let (chunk, size) = match &options.volume {
            Volume::Chunk(chunk) if whole == Collective::Custom => {
                (chunk.clone(), chunk * &Rational::from(demand.triples() as u64))
            }
            Volume::Chunk(chunk) => (chunk.clone(), chunk * &parts),
            Volume::Size(size) => (size.checked_div(&parts).unwrap_or(Rational::ZERO), size.clone()),
        };
        if options.divisible && chunk.to_u64().is_none() {
            let error = Problem::new("BadChunk", "chunk", "a chunk that is cut into bytes has a whole number of them");
            return Err(error.found(format!("{chunk} bytes")).allowed("whole bytes").into());
        }
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
        let lanes = Lanes::new(topology, &terms, options.divisible).map_err(in_file)?;
        let then = match whole {
            Collective::AllReduce => {
                let bound = bound::best_of_all_reduce(&lanes, &asked.participants, options.chunks.saturating_mul(n));
                let asked = asked.but(Collective::AllGather);
                Some(Box::new(Then { instance: Instance::of(asked, options)?, bound }))
            }
            _ => None,
        };
        let lanes = if is_reversed { lanes.reversed() } else { lanes };
        reachable(&asked, &lanes, &demand)?;
        let hops = Hops::new(&lanes).ok_or_else(|| {
            let error = Problem::new(E_LIMIT, "/links", "more ways through switches than can be tried");
            asked.in_file(error.allowed(format!("at most {MAX_HOPS} between nodes that store")))
        })?;
        let bound =
            if options.divisible { bound::best_of_divisible(&lanes, &demand) } else { bound::best(&lanes, &demand) };
        if bound.epochs > MAX_EPOCHS {
            let error =
                Problem::new(E_LIMIT, "epoch", "more epochs than can be planned, or links too slow for whole chunks");
            return Err(error.allowed(format!("at most {MAX_EPOCHS} epochs")).help("take longer epochs").into());
        }
        Ok(Instance { asked, options: options.clone(), terms, size, lanes, demand, hops, bound, is_reversed, then })
    }

    /// What the caller chose.
    pub fn options(&self) -> &Options {
        &self.options
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

fn custom() -> Problems {
    let error = Problem::new(E_RANGE, "collective", "a custom collective is what a file of demands says");
    error.found("custom").allowed("another collective, or --demands").into()
}

/// What sums are not planned with.
fn sums(asked: &Asked<'_>, options: &Options) -> Result<(), Problems> {
    let topology = asked.topology;
    let buffer = topology.nodes().iter().position(|node| node.buffer.is_some());
    let varying = topology.links().iter().find(|link| link.per_epoch.is_some());
    let keys = [
        buffer.map(|node| (format!("/nodes/{node}/buffer"), "a finite buffer")),
        varying.map(|link| (format!("/links/{}/capacity_per_epoch", link.entry), "a capacity that changes with time")),
    ];
    if let Some((at, what)) = keys.into_iter().flatten().next() {
        let message = format!("sums are planned backwards in time, without {what}");
        return Err(asked.in_file(Problem::new(UNSUPPORTED_FIELD, at, message).allowed("nothing")));
    }
    let refuse = |key: &str, message: &str, allowed: &str| {
        Err(Problem::new(E_RANGE, key, message).found(asked.collective.word()).allowed(allowed).into())
    };
    if options.hyper_edges {
        return refuse("hyper-edges", "a way through a switch does not add up", "switches as nodes");
    }
    if matches!(options.mode, Mode::Objective { .. }) {
        return refuse("mode", "a sum is there when its last part is", "feasible, min-epochs");
    }
    if options.divisible {
        let error = Problem::new("CopyNeeded", "solver", "sums of chunks that are cut");
        return Err(error.found("lp").allowed("auto, milp, astar, none").into());
    }
    Ok(())
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
    if let Mode::Feasible(0) | Mode::Objective { epochs: Some(0), .. } = options.mode {
        refuse(true, "BadEpoch", "epochs", "0".into(), "1 or more");
    }
    let lp = options.divisible && options.hyper_edges;
    refuse(lp, E_RANGE, "hyper-edges", "--solver lp".into(), "switches as nodes, where chunks are cut");
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
