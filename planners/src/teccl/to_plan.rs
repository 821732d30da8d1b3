//! From a schedule to a plan of kind `sends`, with what it claims and what proves it.

use super::bound::Bound;
use super::demand::Chunk;
use super::instance::Instance;
use super::lane::{Lane, Place};
use super::objective::Objective;
use crate::front::Draft;
use sluice_formats::json::{Decimal, Duration, Names, Size};
use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_plan::plan::{
    Certificate, CertificateKind, Claim, Content, Model, NodeId, Op, PerByte, Plan, Send, SendEntry, Sends, Status,
    Straggler, Text,
};

/// Microseconds in a second.
const MICROSECONDS: u64 = 1_000_000;

/// The planner's own figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// What the plan claims.
    pub claim: Claim,
    /// Epochs until the last chunk is where it is wanted.
    pub epochs: u64,
    /// Microseconds of an epoch.
    pub epoch_us: Rational,
    /// Microseconds until the last chunk is where it is wanted.
    pub finish_us: Rational,
    /// No schedule has fewer epochs.
    pub lower_bound: u64,
    /// How that is known.
    pub certificate: CertificateKind,
    /// Whether the plan is the best, or time ran out before that was known.
    pub status: Status,
    /// Bytes of the collective per second.
    pub bandwidth: Rational,
    /// Sends in the plan; of pieces each counts.
    pub sends: usize,
    /// What was gained, where that was asked for.
    pub worth: Option<Worth>,
    /// When each tenant of a file of demands is served.
    pub tenants: Vec<Ending>,
}

/// When a tenant has all it wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// What the file of demands calls the tenant.
    pub name: Text,
    /// Epochs until it has all it wants.
    pub epochs: u64,
    /// The same in microseconds.
    pub us: Rational,
}

/// What a schedule gains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// By what the gain is counted.
    pub objective: Objective,
    /// Within so many epochs; gains in different ones cannot be compared.
    pub epochs: u64,
    /// What this schedule gains, weights of tenants counted.
    pub value: f64,
    /// What no schedule gains more than.
    pub bound: f64,
}

impl Worth {
    /// How much more there may be, as a share of what there is.
    pub fn gap(&self) -> f64 {
        (self.bound - self.value) / self.value.abs().max(f64::MIN_POSITIVE)
    }
}

/// Gains that differ by less are equal.
const SAME: f64 = 1e-6;

/// A chunk, or a piece of it, over a lane, in the time of the plan.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub epoch: u64,
    pub chunk: &'a Chunk,
    pub lane: &'a Lane,
    /// Is the lane passed the other way, and does it add up?
    pub is_reversed: bool,
    /// Offset and length in bytes; `None`: all of the chunk.
    pub piece: Option<Piece>,
}

/// A part of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// Its first byte, counted from the chunk's.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

impl Entry<'_> {
    /// Where it begins and ends.
    fn ends(&self) -> (usize, usize) {
        if self.is_reversed { (self.lane.to, self.lane.from) } else { (self.lane.from, self.lane.to) }
    }
}

/// What planning came to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Epochs until the last chunk is where it is wanted.
    pub finish: u64,
    /// No schedule has fewer.
    pub bound: Bound,
    /// What is gained, where that was asked for.
    pub worth: Option<Worth>,
    /// Did time run out?
    pub late: bool,
}

/// A plan that passed the checker, with the planner's own figures.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// What it is worth.
    pub figures: Figures,
}

/// Sends as a plan.
///
/// # Errors
/// `Numerical` where the checker refuses it.
pub(super) fn plan(instance: &Instance<'_>, mut sends: Vec<Entry<'_>>, outcome: &Outcome) -> Result<Made, Problems> {
    let (asked, terms, tenants) = (&instance.asked, &instance.terms, &instance.demand.tenants);
    let mut names = Names::default();
    let nodes: Vec<_> = asked.topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
    sends.sort_by_cached_key(|send| {
        let (chunk, piece) = (send.chunk, send.piece.map(|piece| piece.offset));
        (send.epoch, chunk.source, chunk.number, send.ends(), chunk.tenant, piece)
    });
    let send = |send: &Entry<'_>| {
        let via = send.lane.links.get(1).map(|link| nodes[asked.topology.links()[*link].from]);
        let (from, to) = send.ends();
        let entry = SendEntry {
            bytes: send.piece.map(|piece| piece.bytes),
            chunk: send.chunk.number,
            epoch: send.epoch,
            from: nodes[from],
            offset: send.piece.map(|piece| piece.offset),
            op: send.is_reversed.then_some(Op::Reduce),
            src: nodes[send.chunk.source],
            tenant: tenants.get(send.chunk.tenant).map(|tenant| tenant.name.clone()),
            to: nodes[to],
            via,
        };
        Send { entry: Box::new(entry) }
    };
    let million = Rational::from(MICROSECONDS);
    let epoch_us = &terms.tau * &million;
    let us = |epochs: u64| &epoch_us * &Rational::from(epochs);
    let finish_us = us(outcome.finish);
    let content = Content::Sends(Sends {
        epoch_us: Some(Decimal::from(&epoch_us)),
        finish_epochs: Some(outcome.finish),
        finish_us: Some(Decimal::from(&finish_us)),
        model: model(instance, &epoch_us, &nodes)?,
        sends: sends.iter().map(send).collect(),
    });
    let optimal = outcome.finish == outcome.bound.epochs;
    let status = |optimal: bool| match (optimal, outcome.late) {
        (true, _) => Status::Optimal,
        (false, true) => Status::TimeLimit,
        (false, false) => Status::Feasible,
    };
    let cut = (outcome.bound.kind == CertificateKind::Cut)
        .then(|| outcome.bound.nodes.iter().map(|node| nodes[*node]).collect());
    let claim = Claim {
        finish_epochs: Some(outcome.finish),
        finish_us: Some(Decimal::from(&finish_us)),
        lower_bound: Some(PerByte { value: Rational::from(outcome.bound.epochs), seconds: false }),
        certificate: Some(Certificate { nodes: cut, ..Certificate::new(outcome.bound.kind) }),
        optimal: Some(optimal),
        status: Some(status(optimal)),
        ..Claim::default()
    };
    let seconds = finish_us.checked_div(&million).unwrap_or(Rational::ZERO);
    let mut endings: Vec<u64> = vec![0; tenants.len()];
    for send in &sends {
        // What nobody at its end wants is on the way to somebody who gets it later.
        if let Some(ending) = endings.get_mut(send.chunk.tenant) {
            *ending = (*ending).max(send.epoch + send.lane.after);
        }
    }
    let ending =
        |(tenant, epochs): (&super::demand::Tenant, u64)| Ending { name: tenant.name.clone(), epochs, us: us(epochs) };
    let figures = Figures {
        claim: claim.clone(),
        epochs: outcome.finish,
        lower_bound: outcome.bound.epochs,
        certificate: outcome.bound.kind,
        // Where gains were asked for, the best of them is the optimum.
        status: status(outcome.worth.map_or(optimal, |worth| worth.gap() <= SAME)),
        bandwidth: instance.size.checked_div(&seconds).unwrap_or(Rational::ZERO),
        sends: sends.len(),
        worth: outcome.worth,
        tenants: tenants.iter().zip(endings).map(ending).collect(),
        epoch_us,
        finish_us,
    };
    let wanted = instance.options.wanted.as_ref();
    let demands = wanted.map(|wanted| wanted.demands.renamed(&wanted.names, &mut names));
    Ok(Made { plan: asked.plan(Draft { names, content, claim, demands })?, figures })
}

/// What a checker must know.
fn model(instance: &Instance<'_>, epoch_us: &Rational, nodes: &[NodeId]) -> Result<Model, Problems> {
    let terms = &instance.terms;
    let odd = || Problem::new(INTERNAL_INVARIANT, "", "a length that cannot be written");
    let straggler = |slow: &super::lane::Straggler| {
        let (link, node) = match slow.place {
            Place::Link(link) => (u32::try_from(link).ok(), None),
            Place::Node(node) => (None, Some(nodes[node])),
        };
        let [alpha_add, beta_mul] = [&slow.alpha_add, &slow.beta_mul].map(|number| Some(Decimal::from(number)));
        Straggler { alpha_add, beta_mul, link, node }
    };
    let stragglers: Vec<Straggler> = terms.stragglers.iter().map(straggler).collect();
    Ok(Model {
        chunk: Size::parse(&format!("{}B", terms.chunk)).map_err(|_| odd())?,
        chunks: instance.options.chunks,
        divisible: instance.options.divisible.then_some(true),
        free_second_hop: terms.free_second_hop.then_some(true),
        hyper_edges: terms.hyper_edges.then_some(true),
        stragglers: (!stragglers.is_empty()).then_some(stragglers),
        tau: Duration::parse(&format!("{epoch_us}us")).map_err(|_| odd())?,
        theta: (!terms.theta.is_zero()).then(|| terms.theta.clone()),
    })
}
