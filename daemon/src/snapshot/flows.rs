//! Jobs and flows of a snapshot.

use std::borrow::Cow;

use sluice_ebpf::Tier;
use sluice_progress::Role as PageRole;
use sluice_schedule::host::{FlowStatus, JobReport, Stall};
use sluice_schedule::policy::Why;
use sluice_schedule::{Bytes, FlowId, JobId, Rate};
use sluice_wire::snapshot::{Flow, FlowState, Job, Label, PathSource, Stalls, SurplusReason};

use super::ratio;
use crate::config::Mode;
use crate::core::Core;
use crate::monitor::processes::Process;
use crate::numbers::Numbers;

/// Every job with a process here.
pub fn jobs(core: &Core) -> Vec<Job> {
    let reports: Vec<JobReport> = core.host().jobs().collect();
    core.monitor()
        .jobs
        .iter()
        .map(|(id, job)| {
            let report = reports.iter().find(|report| report.job == *id);
            let processes: Vec<&Process> =
                job.processes.iter().filter_map(|key| core.monitor().processes.get(key)).collect();
            let first = processes.first();
            let flows: Vec<FlowStatus<'_>> = core.host().flows().filter(|flow| flow.spec.job == *id).collect();
            let sum = |value: fn(&FlowStatus<'_>) -> u64| flows.iter().map(value).fold(0_u64, u64::saturating_add);
            let demand = Bytes(sum(|flow| flow.demand.0));
            let delivered = Bytes(sum(|flow| flow.delivered.min(flow.demand).0));
            let enforced = core.enforces() && !core.is_spared(*id);
            Job {
                id: Label::new(&job.name),
                pattern: job.pattern.into(),
                plan: job.following.plan().map(|plan| plan.name.clone()).unwrap_or_default(),
                role: first.map_or("".into(), |process| role(process)),
                rank: first.and_then(|process| process.rank),
                nranks: first.map(|process| process.ranks).filter(|ranks| *ranks > 0),
                flows: flows.len() as u64,
                round: job.rounds,
                progress_ratio: ratio(delivered, demand),
                remaining_bytes: (demand > Bytes::ZERO).then(|| demand.minus(delivered).0),
                demand_bytes: (demand > Bytes::ZERO).then_some(demand.0),
                // What a flow has in hand until its turn comes, nobody counts on.
                ordered_bps: enforced.then(|| {
                    let counts = |flow: &FlowStatus<'_>| flow.rates.first().is_none_or(|rate| *rate > Rate::ZERO);
                    flows.iter().filter(|flow| counts(flow)).fold(0, |sum: u64, flow| sum.saturating_add(flow.order.0))
                }),
                delivered_bps: Some(delivered_rate(core, *id).0),
                round_p50_ns: job.median_round().map(|round| round.0),
                period_ns: report.map(|report| report.period.0).filter(|period| *period > 0),
                promoted: report.is_some_and(|report| report.promoted),
                stalled_on: stalled_on(&flows),
                source: first.map(|process| process.source.clone()).unwrap_or_default(),
                ended_unix_ns: None,
                acked_bytes: job.acked.0,
                rounds_finished: job.finished,
                rounds_ns: job.rounds_time.0,
                stalls: report.map(stalls).unwrap_or_default(),
                benefit: core.benefit(*id),
            }
        })
        .collect()
}

pub fn flows(core: &Core, numbers: &Numbers) -> Vec<Flow> {
    core.host().flows().filter_map(|status| flow(core, numbers, &status)).collect()
}

fn flow(core: &Core, numbers: &Numbers, status: &FlowStatus<'_>) -> Option<Flow> {
    let socket = core.monitor().sockets.of_flow(status.spec.flow)?;
    let managed = core.enforces() && socket.row.is_some() && !core.is_spared(status.spec.job);
    let delivered = socket.rate(core.now().mono);
    let active = status.demand > status.delivered;
    let surplus = surplus(core, status).filter(|_| managed);
    // Beyond the order is no error where the order allows it.
    let kept = if surplus.is_some() { delivered.min(status.order) } else { delivered };
    let error = (kept.ratio_of(status.order) - 1.0).abs();
    let limited = managed && active && socket.stats.queued > Bytes::ZERO && error.is_finite();
    Some(Flow {
        id: status.spec.flow.to_string(),
        job: Label::new(core.monitor().job_name(status.spec.job).unwrap_or("")),
        number: numbers.of(status.spec.flow),
        local: std::net::SocketAddr::new(socket.tuple.local_ip(), socket.tuple.local.1).to_string(),
        to: socket.tuple.remote_address().to_string(),
        state: match managed {
            true => FlowState::Managed,
            false if core.enforces() => FlowState::Released,
            false => FlowState::Observed,
        },
        path: path_source(core, status.spec.flow),
        cc: if managed { format!("sluice{}", core.config().node.instance) } else { String::new() },
        ordered_bps: managed.then_some(status.order.0),
        surplus_bps: surplus.map(|surplus| surplus.extra_bps),
        delivered_bps: Some(delivered.0),
        error_ratio: limited.then_some(error),
        demand_bytes: (status.demand > Bytes::ZERO).then_some(status.demand.0),
        delivered_bytes: status.delivered.min(status.demand).0,
        srtt_ns: Some(socket.stats.srtt.0).filter(|srtt| *srtt > 0),
        rtt_min_ns: Some(socket.stats.rtt_min.0).filter(|rtt| *rtt > 0),
        retransmitted: socket.stats.retransmitted,
        loss_guard: socket.stats.loss_guard,
        next_bps: status.rates.iter().map(|rate| rate.0).collect(),
        why: if socket.stats.loss_guard { Why::LossGuard.as_str().into() } else { why(core, status.why) },
        age_ns: core.now().mono.minus(socket.since).0,
        uid: socket.uid,
    })
}

/// What a flow takes beyond its order; `None`: the order is all that it may. Only the congestion control can do that.
pub fn surplus(core: &Core, status: &FlowStatus<'_>) -> Option<SurplusReason> {
    let can = matches!(core.datapath().tier(), Tier::StructOps | Tier::StructOpsNoLink) && core.enforces();
    let socket = core.monitor().sockets.of_flow(status.spec.flow).filter(|socket| socket.row.is_some())?;
    let allowed = status.surplus.filter(|allowance| !allowance.yields || core.monitor().counts(socket));
    let allowance = allowed.filter(|_| can)?;
    let (ordered_bps, extra_bps) = (status.order.0, socket.stats.surplus.0);
    Some(SurplusReason { ordered_bps, extra_bps, up_to_bps: allowance.up_to.0, yields: allowance.yields })
}

/// Who says by which of several equal paths a flow goes.
pub fn path_source(core: &Core, flow: FlowId) -> PathSource {
    let socket = core.monitor().sockets.of_flow(flow);
    let way = socket.and_then(|socket| core.monitor().fabric.way(flow, &socket.tuple));
    way.map_or(PathSource::Only, |way| way.source)
}

/// The word for why a flow has its rate; in `observe` no rate is anybody's doing.
pub fn why(core: &Core, why: Why) -> Cow<'static, str> {
    if core.mode() == Mode::Observe { "observe".into() } else { why.as_str().into() }
}

fn delivered_rate(core: &Core, job: JobId) -> Rate {
    let mine = core.monitor().sockets.iter().filter(|socket| socket.told.as_ref().is_some_and(|spec| spec.job == job));
    mine.fold(Rate::ZERO, |sum, socket| sum.plus(socket.rate(core.now().mono)))
}

fn role(process: &Process) -> Cow<'static, str> {
    match process.view.as_ref().map_or(process.role, |view| view.role) {
        PageRole::Scheduler => "scheduler".into(),
        PageRole::Server => "server".into(),
        PageRole::Worker => "worker".into(),
        PageRole::Peer if process.rank.is_some() => "rank".into(),
        _ => "".into(),
    }
}

/// What holds the flows with demand back, if one reason holds most of them.
fn stalled_on(flows: &[FlowStatus<'_>]) -> Cow<'static, str> {
    let slow = |flow: &&FlowStatus<'_>| flow.demand > flow.delivered && flow.order < flow.offer;
    let mut whys: Vec<Why> = flows.iter().filter(slow).map(|flow| flow.why).collect();
    whys.sort_unstable();
    let count = |why: Why| whys.iter().filter(|other| **other == why).count();
    whys.iter().copied().max_by_key(|why| count(*why)).map_or("".into(), |why| why.as_str().into())
}

fn stalls(report: &JobReport) -> Stalls {
    let mut stalls = Stalls::default();
    for Stall { why, time } in report.stalls {
        match why {
            Why::Predecessor => stalls.predecessor_ns += time.0,
            Why::Job => stalls.sender_ns += time.0,
            _ => stalls.headroom_ns += time.0,
        }
    }
    stalls
}
