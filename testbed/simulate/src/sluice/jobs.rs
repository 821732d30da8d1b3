//! Changes of the world as the events that daemons would see.
//!
//! At its start a job is its architecture, its members and their connections; then rounds begin, with the bytes each
//! flow has queued. How long compute takes, when the next job comes and how many rounds are left is never looked at.

use std::collections::BTreeMap;

use sluice_scenario::Arch;
use sluice_scenario::workload::Member;
use sluice_schedule::{
    Bytes, Event, FlowId, FlowSpec, JobId, JobSpec, LinkId, Nanos, Pattern, PredKind, Predecessor, Role,
};

use super::fabric::{Way, connection, flow_id, flow_ix, host_id};
use super::{FlowRecord, SluiceScheduler};
use crate::scheduler::{Change, Orders};
use crate::world::{Flow, FlowIx, FlowPhase, JobIx, JobPhase, World};

impl SluiceScheduler {
    /// Takes one change in; daemons that have something to decide are noted in `turns`.
    pub(super) fn take(&mut self, change: &Change, world: &World<'_>, orders: &mut Orders) {
        match change {
            Change::JobStarted(job) => self.job_started(*job, world),
            Change::JobEnded(job) => self.job_ended(*job, world),
            Change::RoundBegan(job) => self.round_began(*job, world),
            Change::FlowActive(flow) => self.flow_active(*flow, world),
            Change::FlowEnded(flow) => {
                if let Some(known) = self.flows.get(flow.0).filter(|known| known.open) {
                    self.turns.insert(known.sender);
                }
            }
            Change::CrossBegan(flow) => self.cross(*flow, world, true),
            Change::CrossEnded(flow) => self.cross(*flow, world, false),
            Change::Fault { fault, over } => self.fault(fault, *over, world, orders),
            Change::RoundEnded(_) | Change::Passed(_) | Change::JobPassed(_) | Change::SlotEdge | Change::Woken => {}
        }
    }

    fn job_started(&mut self, job: JobIx, world: &World<'_>) {
        let mut hosts: Vec<usize> = world.flows_of(job).flat_map(|(_, flow)| [flow.src.0, flow.dst.0]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for &host in &hosts {
            self.daemons[host].jobs.push(job);
            if self.daemons[host].runs {
                self.awake.insert(host);
            }
        }
        for (ix, flow) in world.flows_of(job) {
            if self.flows.len() <= ix.0 {
                self.flows.resize(ix.0 + 1, FlowRecord::default());
            }
            self.flows[ix.0] = FlowRecord { open: true, sender: flow.src.0, ..FlowRecord::default() };
            for host in [flow.src.0, flow.dst.0] {
                if let Some(traffic) = &mut self.daemons[host].traffic {
                    traffic.opened(world, ix);
                }
            }
            self.daemons[flow.src.0].own.push(ix);
        }
        for &host in &hosts {
            self.introduce(host, job, world);
        }
        self.members.insert(job.0, hosts);
    }

    /// Tells a daemon of a job that runs on its host: at the job's start, or at the daemon's own.
    pub(super) fn introduce(&mut self, host: usize, job: JobIx, world: &World<'_>) {
        let Some(facts) = world.scenario.jobs.get(job.0) else { return };
        let id = JobId::of(&facts.id);
        let mut events = vec![Event::JobSeen(JobSpec { job: id, pattern: pattern(facts.arch) })];
        for (ix, flow) in world.flows_of(job).filter(|(_, flow)| flow.src.0 == host) {
            let preds = flow.preds.iter().filter_map(|pred| {
                let feeding = world.flows.get(pred.flow.0)?;
                Some(Predecessor {
                    flow: flow_id(feeding.src.0, pred.flow),
                    kind: if pred.after { PredKind::FinishToStart } else { PredKind::Pipelined },
                    lead: Bytes(pred.lead as u64),
                })
            });
            let role = role(facts.arch, flow);
            let back = flow.ends.filter(|_| role == Role::Aggregate).map(|(worker, server)| (server, worker));
            let watches = world.flows_of(job).filter(|(_, other)| back.is_some() && other.ends == back);
            let Way { path, forks } = self.fabric.way(world.scenario, ix, flow);
            events.push(Event::FlowOpened(FlowSpec {
                flow: flow_id(host, ix),
                job: id,
                to: host_id(flow.dst.0),
                role,
                path,
                preds: preds.collect(),
                watches: watches.map(|(ix, other)| flow_id(other.src.0, ix)).collect(),
                connection: Some(connection(ix, flow)),
                forks,
                ..FlowSpec::default()
            }));
        }
        events.into_iter().for_each(|event| self.daemons[host].note(event));
        self.turns.insert(host);
    }

    /// A brain has learned by which link of a switch one of its flows goes: its path is worked out again.
    pub(super) fn routed(
        &mut self,
        at: Nanos,
        host: usize,
        flow: FlowId,
        route: (usize, Option<LinkId>),
        world: &World<'_>,
    ) {
        let (ix, (switch, link)) = (flow_ix(flow), route);
        let Some(state) = world.flows.get(ix.0).filter(|_| self.sent_by(ix, host)) else { return };
        self.fabric.learn(world.scenario, ix, switch, link);
        let Way { path, forks } = self.fabric.way(world.scenario, ix, state);
        let Some(daemon) = self.daemons.get_mut(host) else { return };
        let known = daemon.brain().and_then(|brain| brain.flows().find(|known| known.spec.flow == flow));
        let Some(spec) = known.map(|known| FlowSpec { path, forks, ..known.spec.clone() }) else { return };
        daemon.note(Event::FlowOpened(spec));
        self.wake_soon(at, host);
    }

    fn job_ended(&mut self, job: JobIx, world: &World<'_>) {
        let Some(facts) = world.scenario.jobs.get(job.0) else { return };
        let id = JobId::of(&facts.id);
        let range = world.jobs.get(job.0).map_or(0..0, |state| state.flows.clone());
        self.tally.ended(id);
        for host in self.members.remove(&job.0).unwrap_or_default() {
            let daemon = &mut self.daemons[host];
            let gone = |flow: &FlowIx| range.contains(&flow.0);
            if let Some(traffic) = &mut daemon.traffic {
                range.clone().for_each(|flow| traffic.closed(world, FlowIx(flow)));
            }
            let own: Vec<FlowIx> = daemon.own.iter().copied().filter(gone).collect();
            own.into_iter().for_each(|flow| daemon.note(Event::FlowClosed(flow_id(host, flow))));
            daemon.note(Event::JobGone(id));
            daemon.forget(job, gone);
            if !daemon.awake() {
                self.awake.remove(&host);
            }
            self.turns.insert(host);
        }
        range.clone().for_each(|flow| self.fabric.forget(FlowIx(flow)));
        for known in self.flows.get_mut(range).unwrap_or_default() {
            *known = FlowRecord::default();
        }
    }

    fn round_began(&mut self, job: JobIx, world: &World<'_>) {
        for (ix, _) in world.flows_of(job) {
            self.flows[ix.0].told = false;
        }
        let hosts = self.members.get(&job.0).cloned().unwrap_or_default();
        self.tell_round(job, &hosts, world);
    }

    /// Tells daemons what their flows of the round that is under way have queued. A flow that may not start before
    /// others have ended has nothing queued yet.
    pub(super) fn tell_round(&mut self, job: JobIx, hosts: &[usize], world: &World<'_>) {
        let Some(facts) = world.scenario.jobs.get(job.0) else { return };
        let under_way = world.jobs.get(job.0).is_some_and(|state| state.phase == JobPhase::Communicating);
        let mut rounds: BTreeMap<usize, Vec<(FlowId, Bytes)>> = BTreeMap::new();
        for (ix, flow) in world.flows_of(job).filter(|(_, flow)| under_way && hosts.contains(&flow.src.0)) {
            let queued = matches!(flow.phase, FlowPhase::Active | FlowPhase::Done);
            let demand = if queued { Bytes(flow.bytes as u64) } else { Bytes::ZERO };
            rounds.entry(flow.src.0).or_default().push((flow_id(flow.src.0, ix), demand));
            self.flows[ix.0].told = queued;
            if queued {
                self.daemons[flow.src.0].demands(ix);
            }
        }
        for (host, flows) in rounds {
            self.daemons[host].note(Event::RoundBegan { job: JobId::of(&facts.id), flows });
            self.turns.insert(host);
        }
    }

    /// A flow that waited for others has something to send.
    fn flow_active(&mut self, flow: FlowIx, world: &World<'_>) {
        let Some(known) = self.flows.get_mut(flow.0).filter(|known| known.open && !known.told) else { return };
        known.told = true;
        let host = known.sender;
        let demand = Bytes(world.flows.get(flow.0).map_or(0, |state| state.bytes as u64));
        let daemon = &mut self.daemons[host];
        daemon.note(Event::DemandChanged { flow: flow_id(host, flow), demand });
        daemon.demands(flow);
        self.turns.insert(host);
    }

    /// Unmanaged traffic is not announced to anybody; the counters of both ends show it.
    fn cross(&mut self, flow: FlowIx, world: &World<'_>, began: bool) {
        let Some(state) = world.flows.get(flow.0) else { return };
        for host in [state.src.0, state.dst.0] {
            if let Some(traffic) = &mut self.daemons[host].traffic {
                if began { traffic.opened(world, flow) } else { traffic.closed(world, flow) }
            }
        }
    }
}

fn pattern(arch: Arch) -> Pattern {
    match arch {
        Arch::Ring => Pattern::Ring,
        Arch::Ps => Pattern::ParameterServer,
        Arch::Tree => Pattern::Tree,
        Arch::Flows => Pattern::Plan,
        Arch::None => Pattern::Unknown,
    }
}

fn role(arch: Arch, flow: &Flow) -> Role {
    match (arch, flow.ends) {
        (Arch::Ring, _) => Role::RingNext,
        (Arch::Ps, Some((Member::Worker(_), Member::Server(_)))) => Role::Aggregate,
        (Arch::Ps, Some((Member::Server(_), Member::Worker(_)))) => Role::Broadcast,
        // Trees are numbered from the root: who sends to a lower rank reduces.
        (Arch::Tree, Some((Member::Worker(from), Member::Worker(to)))) if from > to => Role::Reduce,
        (Arch::Tree, _) => Role::Spread,
        _ => Role::Plain,
    }
}
