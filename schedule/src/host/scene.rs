//! Ranks the jobs and draws the scene that the policy plans on.

use super::flows::Turn;
use super::jobs::{Job, Work};
use super::links::Trust;
use super::{Flow, Host, PolicyName};
use crate::event::{Arrival, FlowSpec, Now, Pattern, Term};
use crate::graph::{self, PredecessorProgress, Progress};
use crate::message::Rank;
use crate::mutant::Mutant;
use crate::path;
use crate::policy::{FlowScene, Grant, JobScene, LinkScene, Other, Scene};
use crate::units::{Bytes, FlowId, JobId, Nanos, Rate};

/// Another host's flow that ends within this time counts as over: the flows of one round end together, and one decision
/// is enough for all of them.
const ENDS_TOGETHER: Nanos = Nanos(500_000);

/// A round is brief while it has no more than so many slots left: what others are told of its begin and its end takes effect
/// late against that.
const BRIEF_SLOTS: u64 = 2;

/// What was seen of all flows when the links of their jobs were laid out.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// A flow came, went or has other facts since: jobs may use other links.
    pub stale: bool,
    /// Others feed some flow.
    pub fed: bool,
    /// A plan has terms for some flow.
    planned: bool,
}

/// A flow with demand and its place in the order of rounds.
struct Ranked<'a> {
    rank: Rank,
    id: FlowId,
    /// Its number among the flows with demand, by id.
    nth: usize,
    job: &'a Job,
    flow: &'a Flow,
}

/// What a look at all flows has shown.
pub(super) struct Looked {
    /// A job has another place in the order of rounds.
    pub ranked: bool,
    /// A flow takes another part of what it may, so that others may have more or less of it.
    pub taken: bool,
}

impl Host {
    /// Looks at what every flow takes of what it may, and recomputes every job's key and promotion from demands, progress and
    /// views. In one go, since thousands of flows are nowhere near a processor.
    pub(super) fn look_at_flows(&mut self, now: Now) -> Looked {
        let (mut ranked, mut taken) = (false, false);
        if self.layout.stale {
            self.lay_out_work();
        }
        let cleared = |work: &mut Work| (work.left, work.whole) = (Bytes::ZERO, Bytes::ZERO);
        self.jobs.values_mut().for_each(|job| job.work.iter_mut().for_each(cleared));
        for flow in self.flows.values_mut() {
            if flow.sends() && !flow.waits() {
                taken |= flow.uptake.look(now.mono, flow.delivered);
            } else {
                flow.uptake.interrupt();
            }
            if flow.released {
                continue;
            }
            let Some(job) = self.jobs.get_mut(&flow.spec.job) else { continue };
            let (left, whole) = (flow.remaining(), flow.demand);
            for &place in &flow.work {
                let Some(work) = job.work.get_mut(place as usize) else { continue };
                (work.left, work.whole) = (work.left.plus(left), work.whole.plus(whole));
            }
        }
        for job in self.jobs.values_mut() {
            let (mut remaining, mut round) = (Nanos::ZERO, Nanos::ZERO);
            for work in &mut job.work {
                let link = self.links.get(work.link);
                if work.left > Bytes::ZERO {
                    // Flows of the job's other hosts that end on the same link lengthen its round too.
                    if let Some(foreign) = link.foreign(job.id) {
                        work.left = work.left.plus(foreign.left);
                        work.whole = work.whole.plus(foreign.whole);
                    }
                }
                remaining = remaining.max(work.left.at(link.capacity()));
                round = round.max(work.whole.at(link.capacity()));
            }
            job.measure(now, remaining, round);
            job.promote(now, self.config.promote_kappa, self.config.max_wait);
            ranked |= job.take_rank();
        }
        Looked { ranked, taken }
    }

    /// Finds the links of each job, and for each flow their places among them.
    fn lay_out_work(&mut self) {
        let mut links: Vec<(JobId, usize)> = Vec::new();
        self.layout = Layout::default();
        for flow in self.flows.values() {
            links.extend(flow.path.iter().map(|link| (flow.spec.job, *link)));
            self.layout.fed |= !flow.spec.preds.is_empty();
            self.layout.planned |= !flow.spec.terms.terms.is_empty();
        }
        links.sort_unstable();
        links.dedup();
        for job in self.jobs.values_mut() {
            let first = links.partition_point(|(other, _)| *other < job.id);
            let of_job = links[first..].iter().take_while(|(other, _)| *other == job.id);
            let none = |link| Work { link, left: Bytes::ZERO, whole: Bytes::ZERO };
            job.work = of_job.map(|(_, link)| none(*link)).collect();
        }
        for flow in self.flows.values_mut() {
            let Some(job) = self.jobs.get(&flow.spec.job) else { continue };
            let place = |link: &usize| job.work.binary_search_by_key(link, |work| work.link).ok();
            flow.work = flow.path.iter().filter_map(place).map(|place| place as u32).collect();
        }
    }

    /// Once per slot: how full the links are of rounds (D), which sets how long each job's patience lasts.
    pub(super) fn measure_density(&mut self, now: Now) {
        for job in self.jobs.values() {
            for work in job.work.iter().filter(|work| work.whole > Bytes::ZERO) {
                let time = work.whole.at(self.links.get(work.link).capacity());
                self.links.note_own_round(now, work.link, job.id, time, job.period_alone());
            }
        }
        for job in self.jobs.values_mut() {
            job.density = job.work.iter().map(|work| self.links.density(work.link)).fold(0.0, f64::max);
        }
        self.links.forget_jobs(now);
    }

    /// Draws the scene: flows with demand by rank, their jobs and their links.
    pub(super) fn draw_scene(&mut self, now: Now) {
        let mut scene = std::mem::take(&mut self.scene);
        let mut link_in_scene = std::mem::take(&mut self.link_in_scene);
        let mut used = std::mem::take(&mut self.used_links);
        let follows = self.policy.follows_predecessors();
        scene.now = now;
        scene.slot = self.config.slot;
        scene.horizon = self.config.horizon;
        scene.work_conserving = self.config.work_conserving;
        scene.jobs.clear();
        link_in_scene.resize(self.links.len(), None);
        let sends = self.flows.values().filter(|f| f.sends()).enumerate();
        let known = sends.filter_map(|(n, flow)| Some((self.jobs.get(&flow.spec.job)?, flow, n)));
        let ranked =
            known.map(|(job, flow, nth)| Ranked { rank: self.rank_of(flow, job), id: flow.spec.flow, nth, job, flow });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable_by_key(|ranked| (ranked.rank, ranked.id));
        let mut bests = None;
        scene.flows.resize_with(ranked.len(), FlowScene::default);
        scene.links.iter_mut().for_each(|link| (link.active, link.first) = (0, None));
        for (drawn, Ranked { rank, id, job, flow, .. }) in scene.flows.iter_mut().zip(&ranked) {
            // Flows of a plan are ranked one by one.
            if rank.is_of_plan() || scene.jobs.last().is_none_or(|last| last.rank != *rank) {
                let peer_offer = job.peer_offer();
                scene.jobs.push(JobScene { job: job.id, rank: *rank, peer_offer, full: Bytes::ZERO });
            }
            if let Some(last) = scene.jobs.last_mut().filter(|_| job.pattern == Pattern::Plan) {
                last.full = last.full.max(flow.demand.per_share(flow.spec.share));
            }
            drawn.links.clear();
            for &link in flow.path.iter() {
                let place = *link_in_scene[link].get_or_insert_with(|| {
                    used.push(link);
                    used.len() - 1
                });
                drawn.links.push(place);
                if scene.links.len() == place {
                    scene.links.push(LinkScene::default());
                }
                scene.links[place].first.get_or_insert(*rank);
            }
            drawn.grant = if rank.is_of_plan() { self.grant(flow) } else { None };
            if drawn.grant.is_none_or(Grant::counts) {
                drawn.links.iter().for_each(|&place| scene.links[place].active += 1);
            }
            (drawn.flow, drawn.job) = (*id, scene.jobs.len() - 1);
            (drawn.demand, drawn.delivered) = (flow.demand, flow.delivered);
            drawn.untold = flow.remaining().minus(drawn.remaining());
            if follows {
                self.follow_predecessors(now, flow, drawn);
                drawn.ceiling = self.ceiling_of(flow, &mut bests);
            }
            (drawn.worth, drawn.stands) = (flow.uptake.worth(self.config.probe_gain), flow.uptake.stands());
            drawn.fed = self.fed(now, flow);
            drawn.arrival = flow.arrival;
            drawn.share = flow.spec.share;
        }
        scene.links.truncate(used.len());
        let due = self.draw_links(&mut scene, &used);
        for flow in &mut scene.flows {
            flow.floor = flow.links.iter().map(|&l| scene.links[l].floor).min().unwrap_or(Rate::ZERO);
        }
        self.due = due;
        self.flow_in_scene.clear();
        self.flow_in_scene.resize(self.flows.len(), usize::MAX);
        for (index, ranked) in ranked.iter().enumerate() {
            self.flow_in_scene[ranked.nth] = index;
        }
        used.drain(..).for_each(|link| link_in_scene[link] = None);
        (self.scene, self.link_in_scene, self.used_links) = (scene, link_in_scene, used);
    }

    /// Fills in what is known of each link; how many own flows cross it is known already. Returns when the first of the
    /// promises that count ends.
    fn draw_links(&self, scene: &mut Scene, used: &[usize]) -> Option<Nanos> {
        let horizon = scene.horizon;
        let by_slot = self.policy.follows_predecessors();
        let (mut due, soon) = (None, scene.now.wall.plus(ENDS_TOGETHER));
        for (drawn, &index) in scene.links.iter_mut().zip(used) {
            let link = self.links.get(index);
            let Trust { weight: trust, fresh } = self.links.trust(index);
            drawn.others.clear();
            drawn.load.clear();
            if trust > 0.0 && !self.planted.is(Mutant::OthersIgnored) {
                drawn.others.extend(link.others().iter().filter(|other| !other.over(soon)));
                let ends = drawn.others.iter().map(|other| other.until).filter(|until| *until > Nanos::ZERO);
                due = due.into_iter().chain(ends).min();
                drawn.load.extend_from_slice(link.load_from(scene.now.slot));
            }
            drawn.load.resize(horizon, Rate::ZERO);
            if trust > 0.0 && by_slot {
                link.jobs_from(scene.now.slot, &mut drawn.jobs);
            } else {
                drawn.jobs.clear();
            }
            drawn.active += drawn.others.iter().map(Other::flows).sum::<u64>();
            drawn.usable = link.usable(trust);
            drawn.configured = link.configured();
            drawn.own = link.holder.is_none();
            drawn.trust = trust;
            drawn.fresh = fresh;
            let floor = path::floor(link.capacity(), self.config.floor, self.config.floor_ratio, drawn.active);
            let fair = drawn.usable.share(drawn.active.max(1));
            let phi = match self.config.policy {
                // Only an order of rounds leaves something idle that it wants kept.
                PolicyName::SrptP if !link.unmanaged_lately(scene.now) => {
                    let brief =
                        if drawn.is_brief(scene.slot.times(BRIEF_SLOTS)) { self.config.fair_floor_brief } else { 0.0 };
                    self.config.fair_floor_alone.max(brief)
                }
                PolicyName::SrptP | PolicyName::Fair => self.config.fair_floor,
                // The paper knows no share of a link that a flow has for itself, whatever was reserved before.
                PolicyName::PrimalDual | PolicyName::PrimalDualLiteral => 0.0,
            };
            drawn.floor = floor.max(fair.times(phi)).min(fair);
            if trust < 1.0 && self.planted.is(Mutant::FloorSkippedWhenDecaying) {
                drawn.floor = Rate::ZERO;
            }
        }
        due
    }

    /// A flow's place in the order of rounds: that of its job's, unless a plan has one for it and the policy heeds it.
    pub(super) fn rank_of(&self, flow: &Flow, job: &Job) -> Rank {
        let heeds = self.config.policy == PolicyName::SrptP;
        flow.planned_rank(job).filter(|_| heeds).unwrap_or(job.rank())
    }

    /// What a flow of this host, or one that comes to it and is promised, has delivered of its round.
    fn delivered_of(&self, id: FlowId) -> Option<Progress> {
        self.progress_of(id, Nanos::ZERO, 0)
    }

    /// The same, with what its schedule gives it in what is left of the current slot (F). `passed`: how many slots lie
    /// between the last plan of this host's flows and now.
    fn progress_of(&self, id: FlowId, rest: Nanos, passed: usize) -> Option<Progress> {
        if let Some(own) = self.flows.get(&id) {
            let planned = own.rates.get(passed).copied().unwrap_or(Rate::ZERO);
            return Some(Progress::with_plan(own.delivered, own.demand, planned, rest));
        }
        let mut heard = self.links.ingress().flat_map(|link| &link.view().flows);
        let heard = heard.find(|promise| promise.flow == id)?;
        Some(Progress::with_plan(heard.delivered, heard.demand, heard.rate(0), rest))
    }

    /// What a flow's plan gives it now.
    fn grant(&self, flow: &Flow) -> Option<Grant> {
        let term = flow.term()?;
        let (ordered, ready, ending) = (term.place.is_some(), flow.ready, flow.is_ending());
        Some(Grant { rate: term.rate, ordered, fills: flow.spec.terms.fills, ready, ending })
    }

    /// Has a flow's turn come? What waits in its send buffer says so: the application has what it waited for. The word of
    /// those it waits for holds for a slot, so that it can begin at once; after that a flow that sends nothing would keep
    /// others waiting for nothing.
    fn is_ready(&self, now: Now, flow: &Flow, term: &Term) -> bool {
        match flow.turn.filter(|turn| turn.end == term.end) {
            _ if flow.has_begun() => true,
            Some(turn) => flow.queued > Bytes::ZERO || now.mono.minus(turn.since) <= self.config.slot,
            None => term.after.iter().all(|arrival| self.has_come(arrival)),
        }
    }

    /// Looks whose turn has come; true if that is another than before.
    pub(super) fn look_at_turns(&mut self, now: Now) -> bool {
        if !self.layout.planned {
            return false;
        }
        let turn = |flow: &Flow| {
            let term = flow.term().filter(|_| flow.sends())?;
            let ready = self.is_ready(now, flow, term);
            let begins = ready && flow.turn.is_none_or(|turn| turn.end != term.end);
            let turn = if begins { Some(Turn { end: term.end, since: now.mono }) } else { flow.turn };
            (begins || ready != flow.ready).then_some((flow.spec.flow, turn, ready))
        };
        let turned: Vec<_> = self.flows.values().filter_map(|flow| turn(flow)).collect();
        for (id, turn, ready) in &turned {
            if let Some(flow) = self.flows.get_mut(id) {
                // What another flow of the lane took, or this one while it had nothing, is no limit of it.
                flow.uptake.forget();
                (flow.turn, flow.ready) = (*turn, *ready);
            }
        }
        !turned.is_empty()
    }

    /// Is it known that so much of a flow has been delivered? Of one that nobody promises nothing is: it may be over, or
    /// wait itself.
    fn has_come(&self, arrival: &Arrival) -> bool {
        self.delivered_of(arrival.flow).is_some_and(|progress| progress.ended || progress.bytes >= arrival.bytes)
    }

    /// Sets the bytes that a flow may have sent by the end of the slot as far as its predecessors go, and how far what it has
    /// delivered lags behind them and behind the flows it watches (Δ, of which the policy takes off what it plans).
    fn follow_predecessors(&self, now: Now, flow: &Flow, drawn: &mut FlowScene) {
        let FlowSpec { preds, watches, role, .. } = &flow.spec;
        if preds.is_empty() && watches.is_empty() {
            (drawn.allowed, drawn.behind) = (graph::bound(flow.demand, []), Bytes::ZERO);
            return;
        }
        let rest = self.config.slot.minus(now.into_slot);
        let passed = self.renewed.map_or(0, |planned| usize::try_from(now.slot.since(planned.slot)).unwrap_or(0));
        // A predecessor nobody promises has nothing left to send: over, or not begun, which its bytes will show.
        let over = Progress { ended: true, ..Progress::default() };
        let progress = |id: FlowId| self.progress_of(id, rest, passed).unwrap_or(over);
        let bounds = preds.iter().map(|by| PredecessorProgress { by: *by, progress: progress(by.flow) });
        let own = Progress::with_plan(flow.delivered, flow.demand, Rate::ZERO, Nanos::ZERO);
        // A flow that is not heard of bounds nothing, and there is nothing to catch up with.
        let levels = preds.iter().map(|by| by.flow).chain(watches.iter().copied()).map(progress);
        drawn.allowed = graph::bound(flow.demand, bounds);
        drawn.behind = graph::catch_up(*role, own, levels.filter(|level| level.demand > Bytes::ZERO));
    }
}
