//! Fills the one model behind every view from the deciding loop's state. Nothing is computed here that decides anything.

mod flows;

use std::collections::HashMap;

use sluice_ebpf::Tier;
use sluice_schedule::host::{FlowStatus, LinkStatus, ViewState};
use sluice_schedule::{Bytes, FlowId, LinkId, Nanos};
use sluice_wire::snapshot::{
    Backend, Clock, Cost, Daemon, Enforcement, Explanation, Label, Link, Mode as WireMode, SlotReason, Snapshot,
    SwitchState, SwitchStatus, Transport, View, explain,
};

use crate::clock;
use crate::config::{MetricFlows, MetricJobs, Mode};
use crate::core::Core;
use crate::facts::Facts;
use crate::metrics::process;

pub fn take(core: &Core, facts: &Facts) -> Snapshot {
    Snapshot {
        schema: sluice_wire::snapshot::SCHEMA,
        taken_unix_ns: core.now().wall.0,
        daemon: daemon(core, facts),
        conditions: core.conditions().iter().cloned().collect(),
        enforcement: enforcement(core),
        clock: slot_clock(core, facts),
        switches: switches(core),
        jobs: flows::jobs(core),
        flows: flows::flows(core, &facts.numbers),
        links: links(core),
        cost: cost(core, facts),
        counters: core.counters().clone(),
        fleet: core.fleet_status(),
    }
    .settle()
}

/// The mode, as the model names it.
pub fn mode(mode: Mode) -> WireMode {
    match mode {
        Mode::Observe => WireMode::Observe,
        Mode::Active => WireMode::Active,
        Mode::Bypass => WireMode::Bypass,
    }
}

/// Why a flow has its rate; `None` if no flow has this id.
pub fn explain(core: &Core, id: FlowId) -> Option<Explanation> {
    let status = core.host().flows().find(|status| status.spec.flow == id)?;
    let report = core.host().jobs().find(|report| report.job == status.spec.job);
    let on_path = |link: &sluice_schedule::LinkId| status.spec.path.iter().any(|hop| hop.link == *link);
    // The tightest link: where least is left beside what others promised now.
    let tightest = core.host().links().filter(|status| on_path(&status.link)).min_by_key(|status| {
        status.capacity.minus(status.cross).minus(status.load.first().copied().unwrap_or_default())
    });
    let (link, slots) = match tightest {
        None => (String::new(), Vec::new()),
        Some(LinkStatus { link, capacity, load, cross }) => {
            let slot = |i: usize| SlotReason {
                load_ratio: load.get(i).copied().unwrap_or_default().ratio_of(capacity),
                headroom_bps: capacity.minus(cross).minus(load.get(i).copied().unwrap_or_default()).0,
                ordered_bps: status.rates.get(i).copied().unwrap_or(status.order).0,
            };
            (link_name(core, link), (0..core.host().config().horizon).map(slot).collect())
        }
    };
    let why = flows::why(core, status.why);
    Some(Explanation {
        flow: id.to_string(),
        job: Label::new(core.monitor().job_name(status.spec.job).unwrap_or("")),
        slot: core.now().slot.0,
        decided_ago_ns: Some(clock::monotonic().minus(core.now().mono).0),
        demand_bytes: status.demand.0,
        remaining_bytes: status.demand.minus(status.delivered).0,
        cap_bps: (status.offer.0 != u64::MAX).then_some(status.offer.0),
        key_ns: report.as_ref().map(|report| report.key.0),
        promoted: report.is_some_and(|report| report.promoted),
        path: status.spec.path.iter().map(|hop| link_name(core, hop.link)).collect(),
        path_source: flows::path_source(core, id),
        link,
        slots,
        sentence: explain::sentence(&why).into(),
        why,
        surplus: flows::surplus(core, &status).filter(|_| !core.is_spared(status.spec.job)),
    })
}

fn daemon(core: &Core, facts: &Facts) -> Daemon {
    Daemon {
        host: core.config().node.name.clone(),
        cluster: core.config().node.cluster.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        revision: option_env!("SLUICE_REVISION").unwrap_or_default().into(),
        kernel: facts.kernel.clone(),
        pid: std::process::id(),
        mode: mode(core.mode()),
        mode_until_unix_ns: core.mode_ends().map(|at| core.now().wall.0.saturating_add(at.minus(core.now().mono).0)),
        uptime_ns: core.now().mono.minus(facts.started).0,
        policy: core.config().schedule.policy.word().into(),
        surplus: core.config().schedule.surplus.word().into(),
        ready: facts.ready,
        realtime: facts.realtime,
        split: facts.split,
        config_hash: facts.config_hash,
        config_files: core.loaded().files.iter().map(|file| file.display().to_string()).collect(),
        reload_ok: facts.reload_ok,
        reload_unix_ns: facts.reload_unix_ns,
        progress_pages: core.monitor().pages() as u64,
        metrics_job_ids: core.config().metrics.jobs == MetricJobs::Id,
        metrics_max_jobs: usize::try_from(core.config().metrics.max_jobs).unwrap_or(0),
        metrics_flows: core.config().metrics.flows == MetricFlows::Index,
        metrics_max_flows: usize::try_from(core.config().metrics.max_flows).unwrap_or(0),
        certificate_expires_unix_s: core.certificate_not_after,
        ..Daemon::default()
    }
}

fn enforcement(core: &Core) -> Enforcement {
    let backend = match core.datapath().tier() {
        Tier::StructOps => Backend::StructOps,
        Tier::StructOpsNoLink => Backend::StructOpsNoLink,
        Tier::SetSockOpt => Backend::SetSockOpt,
        Tier::None => Backend::None,
    };
    let named = matches!(backend, Backend::StructOps | Backend::StructOpsNoLink);
    Enforcement {
        backend,
        cc: if named { format!("sluice{}", core.config().node.instance) } else { String::new() },
        rows_used: core.monitor().sockets.rows() as u64,
        rows: if backend == Backend::None { 0 } else { core.config().enforce.max_flows },
        deadline_ns: core.config().order_life().0,
        renewed_ago_ns: core.renewed().map(|at| core.now().mono.minus(at).0),
    }
}

fn slot_clock(core: &Core, facts: &Facts) -> Clock {
    let kernel = core.clock().kernel;
    let lateness = |part| core.counters().lateness_s.quantile(part).map(|seconds| (seconds * 1e9) as u64);
    let offsets = core.holders().iter().filter_map(|(_, state)| state.offset_ns);
    Clock {
        source: core.config().clock.source.word().into(),
        synchronised: kernel.is_some_and(|kernel| kernel.synchronised),
        trusted: core.clock().trust.is_trusted(),
        max_error_ns: kernel.map(|kernel| kernel.max_error.0),
        estimated_error_ns: kernel.map(|kernel| kernel.estimated_error.0),
        allowed_error_ns: core.config().max_clock_error().0,
        tai_offset_s: kernel.map_or(0, |kernel| kernel.tai_offset),
        slot: core.now().slot.0,
        slot_length_ns: core.config().slot_length().0,
        horizon: u32::try_from(core.config().slot.horizon).unwrap_or(0),
        into_slot_ns: core.now().into_slot.0,
        lateness_p50_ns: lateness(0.5),
        lateness_p99_ns: lateness(0.99),
        offset_ns: offsets.max_by_key(|offset| offset.unsigned_abs()),
        steps: core.clock().steps.forward + core.clock().steps.back,
        last_refusal: facts.last_refusal.clone(),
    }
}

fn transport(of: crate::config::Transport) -> Transport {
    match of {
        crate::config::Transport::Session => Transport::Session,
        crate::config::Transport::Unary => Transport::Unary,
        crate::config::Transport::Udp => Transport::Udp,
        crate::config::Transport::Inband => Transport::Inband,
    }
}

fn switches(core: &Core) -> Vec<SwitchStatus> {
    let slot = core.config().slot_length();
    let own = core.host().config().host.holder();
    let views = core.host().views().filter(|(holder, _)| *holder != own);
    let mut list: Vec<SwitchStatus> = views
        .map(|(holder, view)| {
            let name = core.holder_name(holder);
            let configured = core.config().switches.iter().find(|switch| switch.name == name);
            let transport = configured.map(|switch| transport(switch.transport)).unwrap_or_default();
            let configured = configured.map(|switch| switch.address.to_string());
            let peer = configured.is_none();
            let reached = core.monitor().fabric.exchange_address(holder).map(|address| address.to_string());
            let links = core.host().flows().flat_map(|flow| &flow.spec.path).filter(|hop| hop.holder == Some(holder));
            let mut links: Vec<_> = links.map(|hop| hop.link).collect();
            links.sort_unstable();
            links.dedup();
            let mut status = SwitchStatus {
                address: configured.or(reached).unwrap_or_default(),
                name,
                transport,
                peer,
                view: match view {
                    ViewState::Fresh => View::Fresh,
                    ViewState::Holding => View::Holding,
                    ViewState::Decaying => View::Decaying,
                    ViewState::Local => View::Local,
                },
                links: links.len() as u64,
                ..SwitchStatus::default()
            };
            if let Some(state) = core.holders().get(holder) {
                let age = state.heard.map(|heard| core.now().mono.minus(heard));
                let quantile = |part| state.exchange.quantile(part).map(|seconds| (seconds * 1e9) as u64);
                status.state = match (state.connected, state.warm) {
                    (false, _) => SwitchState::Silent,
                    (true, false) if state.received > 0 => SwitchState::Warming,
                    (true, _) => SwitchState::Up,
                };
                status.boot = state.boot.map(|boot| boot.to_string()).unwrap_or_default();
                (status.exchange_p50_ns, status.exchange_p99_ns) = (quantile(0.5), quantile(0.99));
                status.age_ns = age.map(|age| age.0);
                status.age_slots = age.map(|age| age.0 / slot.0.max(1));
                status.slot_diff = Some(state.slot_diff);
                status.offset_ns = state.offset_ns;
                status.rejects = state.rejects;
                status.last_error.clone_from(&state.error);
                (status.sent_messages, status.received_messages) = (state.sent, state.received);
            }
            status
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn links(core: &Core) -> Vec<Link> {
    let horizon = core.host().config().horizon;
    let mut list = Vec::new();
    let mut crossing: HashMap<LinkId, Vec<FlowStatus<'_>>> = HashMap::new();
    for flow in core.host().flows() {
        for hop in &flow.spec.path {
            crossing.entry(hop.link).or_default().push(flow.clone());
        }
    }
    for LinkStatus { link: id, capacity, load, cross } in core.host().links() {
        let own = core.monitor().fabric.links.iter().position(|link| link.egress == id);
        let flows = crossing.remove(&id).unwrap_or_default();
        let hop = flows.first().and_then(|flow| flow.spec.path.iter().find(|hop| hop.link == id));
        let holder = hop.and_then(|hop| hop.holder);
        let active = || flows.iter().filter(|flow| flow.demand > flow.delivered);
        let planned = |i: usize| {
            let mine = active()
                .fold(0_u64, |sum, flow| sum.saturating_add(flow.rates.get(i).copied().unwrap_or(flow.order).0));
            mine.saturating_add(load.get(i).copied().unwrap_or_default().0)
        };
        let measured = own.and_then(|at| core.traffic().loads.get(at)).copied();
        let used = own.and_then(|at| core.link_use().get(at)).copied().unwrap_or_default();
        let mine = active().fold(0_u64, |sum, flow| sum.saturating_add(flow.order.0));
        list.push(Link {
            name: link_name(core, id),
            id: id.to_string(),
            holder: holder.map(|holder| core.holder_name(holder)).unwrap_or_default(),
            own: own.is_some(),
            capacity_bps: capacity.0,
            managed_bps: Some(measured.map_or(mine, |load| load.managed.0)),
            other_bps: Some(measured.map_or(cross.0, |load| load.other.0)),
            next_bps: (0..horizon).map(planned).collect(),
            managed_bytes: measured.map_or(0, |load| load.managed_bytes.0),
            other_bytes: measured.map_or(0, |load| load.other_bytes.0),
            overlap_ns: used.overlap.0,
            busy_ns: used.busy.0,
        });
    }
    list.sort_by(|a, b| (!a.own, &a.name).cmp(&(!b.own, &b.name)));
    list
}

/// The interface, or `switch:port`, or `host:in`.
pub fn link_name(core: &Core, id: sluice_schedule::LinkId) -> String {
    if let Some(link) = core.monitor().fabric.links.iter().find(|link| link.egress == id) {
        return link.name.clone();
    }
    let holder = sluice_schedule::HolderId(id.node());
    let name = core.holder_name(holder);
    let host = core.monitor().fabric.name_of(sluice_schedule::HostId(id.node())).is_some();
    match id.port() {
        1 if host => format!("{name}:in"),
        port if host && port % 2 == 1 => format!("{name}:in{}", port / 2),
        port => format!("{name}:{port}"),
    }
}

fn cost(core: &Core, facts: &Facts) -> Cost {
    let lived = core.now().mono.minus(facts.started);
    let cpu = process::cpu_seconds().filter(|_| lived > Nanos::ZERO);
    Cost { cpu_ratio: cpu.map(|cpu| cpu / lived.as_secs_f64()), rss_bytes: process::resident_bytes() }
}

/// Nothing of nothing is unknown, not zero.
fn ratio(part: Bytes, whole: Bytes) -> Option<f64> {
    (whole > Bytes::ZERO).then(|| (part.0.min(whole.0)) as f64 / whole.0 as f64)
}
