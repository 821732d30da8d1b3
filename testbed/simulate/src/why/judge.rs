//! Whether the answer names the cause that was injected.

use sluice_attribution::{Cause, Hosts, Report};
use sluice_scenario::{LinkIx, NodeIx};
use sluice_schedule::{JobId, Nanos};

use super::draw::{Case, Injected, Kind, OTHER};
use crate::world::JobIx;

/// A cause that costs less than this part of a round is no reason to ask.
const WORTH: f64 = 0.1;
/// Rounds at the start that are left out: nothing stands yet.
const FIRST: usize = 1;

/// What is said of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Mean of an iteration without and with the cause.
    pub took: (Nanos, Nanos),
    /// What is more, the most first, ns.
    pub more: Vec<(Cause, f64)>,
    /// More of it is what was injected than any other cause.
    pub right: bool,
    /// How much of the time the answer knows by the kernel's counts.
    pub confidence: f64,
}

/// Asks the records of both runs. `None`: the cause made no difference worth asking about.
pub fn judge(case: &Case, usual: &Hosts, disturbed: &Hosts) -> Option<Verdict> {
    let host = case.usual.network.name(case.host);
    let report = |hosts: &Hosts| -> Option<Report> {
        let all = hosts.iterations(host, JobId(0));
        let later = all.get(FIRST..).filter(|later| !later.is_empty())?;
        Some(hosts.report(host, JobId(0), later))
    };
    let (before, after) = (report(usual)?, report(disturbed)?);
    if after.shares.total() < before.shares.total() * (1.0 + WORTH) {
        return None;
    }
    let more = after.excess(&before);
    // One thing may have several names: another job on two links, a link by its name and by what goes over it.
    let named: f64 = more.iter().filter(|(cause, _)| names(case, cause)).map(|(_, time)| time).sum();
    let right = named > 0.0 && more.iter().all(|(cause, time)| names(case, cause) || *time < named);
    Some(Verdict { took: (before.took(), after.took()), more, right, confidence: after.confidence })
}

/// Is this what was injected?
fn names(case: &Case, cause: &Cause) -> bool {
    let network = &case.usual.network;
    let ends = case.link.and_then(|link| network.link(link)).map(|link| (link.from, link.to));
    let name = |node: NodeIx| network.name(node).to_owned();
    let slow = match case.injected {
        Injected::Computes { host, .. } | Injected::Sends { host, .. } | Injected::Takes { host, .. } => Some(host),
        Injected::Nothing => None,
    };
    // The receivers that the job reaches over the link.
    let reached = |to: &str| case.link.is_some_and(|link| reaches(case, link, to));
    match (case.kind, cause) {
        (Kind::Compute, Cause::Compute) => true,
        (Kind::Peer, Cause::Peer { host }) => slow.is_some_and(|slow| name(slow) == *host),
        (Kind::Link, Cause::Path { to }) | (Kind::Loss, Cause::Loss { to }) => reached(to),
        (Kind::Link, Cause::Link { link }) => ends
            .is_some_and(|(from, to)| *link == format!("{}:eth0", name(from)) || *link == format!("{}:in", name(to))),
        (Kind::Job, Cause::Job { job, .. }) => job.is_empty() || job == OTHER,
        (Kind::Unmanaged, Cause::Unmanaged { .. }) => true,
        _ => false,
    }
}

/// Does a flow of the job go over this link to that host?
fn reaches(case: &Case, link: LinkIx, to: &str) -> bool {
    let Some(job) = case.disturbed.jobs.get(JobIx(0).0) else { return false };
    let Some(placement) = &job.pinned else { return false };
    let flows = sluice_scenario::workload::flows_of(job, placement);
    flows.iter().filter(|flow| !flow.local()).any(|flow| {
        let path = case.disturbed.path_of(&job.id, flow).unwrap_or_default();
        path.contains(&link) && case.usual.network.name(flow.dst) == to
    })
}
