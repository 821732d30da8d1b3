//! From a schedule to a plan of kind `sends`, with what it claims and what proves it.

use super::instance::Instance;
use super::lane::Place;
use super::schedule::Schedule;
use super::search::Found;
use crate::front::Draft;
use sluice_formats::json::{Decimal, Duration, Names, Size};
use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_plan::plan::{
    Certificate, CertificateKind, Claim, Content, Model, PerByte, Plan, Send, SendEntry, Sends, Status, Straggler,
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
    /// Microseconds until then.
    pub finish_us: Rational,
    /// No schedule has fewer epochs.
    pub lower_bound: u64,
    /// How that is known.
    pub certificate: CertificateKind,
    /// How planning ended.
    pub status: Status,
    /// Bytes of the collective per second.
    pub bandwidth: Rational,
    /// Sends.
    pub sends: usize,
}

/// A plan that passed the checker, with the planner's own figures.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// What it is worth.
    pub figures: Figures,
}

/// A schedule as a plan.
///
/// # Errors
/// `Numerical` where the checker refuses it.
pub fn plan(instance: &Instance<'_>, schedule: &Schedule, found: &Found, late: bool) -> Result<Made, Problems> {
    let (asked, terms) = (&instance.asked, &instance.terms);
    let certificate = if found.proved { instance.bound.kind } else { CertificateKind::Solver };
    let mut names = Names::default();
    let nodes: Vec<_> = asked.topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
    let send = |send: &super::schedule::Send| {
        let (lane, chunk) = (&instance.lanes.lanes[send.lane], &instance.demand.chunks[send.chunk]);
        let via = lane.links.get(1).map(|link| nodes[asked.topology.links()[*link].from]);
        let entry = SendEntry {
            bytes: None,
            chunk: chunk.number,
            epoch: send.epoch,
            from: nodes[lane.from],
            offset: None,
            op: None,
            src: nodes[chunk.source],
            tenant: None,
            to: nodes[lane.to],
            via,
        };
        Send { entry: Box::new(entry) }
    };
    let order = |send: &super::schedule::Send| {
        let (lane, chunk) = (&instance.lanes.lanes[send.lane], &instance.demand.chunks[send.chunk]);
        (send.epoch, chunk.source, chunk.number, lane.from, lane.to)
    };
    let mut sorted = schedule.sends.clone();
    sorted.sort_by_key(order);
    let million = Rational::from(MICROSECONDS);
    let epoch_us = &terms.tau * &million;
    let finish_us = &epoch_us * &Rational::from(schedule.finish);
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
    let model = Model {
        chunk: Size::parse(&format!("{}B", terms.chunk)).map_err(|_| odd())?,
        chunks: instance.options.chunks,
        divisible: None,
        free_second_hop: terms.free_second_hop.then_some(true),
        hyper_edges: terms.hyper_edges.then_some(true),
        stragglers: (!stragglers.is_empty()).then_some(stragglers),
        tau: Duration::parse(&format!("{epoch_us}us")).map_err(|_| odd())?,
        theta: (!terms.theta.is_zero()).then(|| terms.theta.clone()),
    };
    let content = Content::Sends(Sends {
        epoch_us: Some(Decimal::from(&epoch_us)),
        finish_epochs: Some(schedule.finish),
        finish_us: Some(Decimal::from(&finish_us)),
        model,
        sends: sorted.iter().map(send).collect(),
    });
    let optimal = schedule.finish == found.bound;
    let status = match (optimal, late) {
        (true, _) => Status::Optimal,
        (false, true) => Status::TimeLimit,
        (false, false) => Status::Feasible,
    };
    let claim = Claim {
        finish_epochs: Some(schedule.finish),
        finish_us: Some(Decimal::from(&finish_us)),
        lower_bound: Some(PerByte { value: Rational::from(found.bound), seconds: false }),
        certificate: Some(Certificate { kind: certificate, nodes: None, prices: None }),
        optimal: Some(optimal),
        status: Some(status),
        ..Claim::default()
    };
    let seconds = finish_us.checked_div(&million).unwrap_or(Rational::ZERO);
    let figures = Figures {
        claim: claim.clone(),
        epochs: schedule.finish,
        epoch_us,
        finish_us,
        lower_bound: found.bound,
        certificate,
        status,
        bandwidth: instance.size.checked_div(&seconds).unwrap_or(Rational::ZERO),
        sends: schedule.sends.len(),
    };
    Ok(Made { plan: asked.plan(Draft { names, content, claim })?, figures })
}
