//! Ranks the jobs and draws the scene that the policy plans on.

use super::Host;
use crate::event::Now;
use crate::policy::{FlowScene, JobScene, LinkScene, Scene};
use crate::units::{Bytes, FlowId, JobId, Nanos, Rate};

impl Host {
    /// Recomputes every job's key and promotion from demands, progress and views.
    pub(super) fn rank_jobs(&mut self, now: Now) {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let mut per_link: Vec<(usize, Bytes, Bytes)> = Vec::new();
            for flow in self.flows.values().filter(|f| f.spec.job == id && !f.released) {
                for &link in &flow.path {
                    match per_link.iter_mut().find(|(l, ..)| *l == link) {
                        Some((_, left, whole)) => {
                            (*left, *whole) = (left.plus(flow.remaining()), whole.plus(flow.demand));
                        }
                        None => per_link.push((link, flow.remaining(), flow.demand)),
                    }
                }
            }
            let (mut remaining, mut whole, mut density) = (Nanos::ZERO, Nanos::ZERO, 0.0_f64);
            for (link, left, all) in per_link {
                let state = self.links.get(link);
                let (capacity, mut left, mut all) = (state.capacity(), left, all);
                if left > Bytes::ZERO {
                    // Flows of the job's other hosts that end on the same link lengthen its round too.
                    for promise in state.view().flows.iter().filter(|p| p.job == id) {
                        left = left.plus(promise.demand.minus(promise.delivered));
                        all = all.plus(promise.demand);
                    }
                }
                remaining = remaining.max(left.at(capacity));
                whole = whole.max(all.at(capacity));
                if let Some(job) = self.jobs.get(&id)
                    && all > Bytes::ZERO
                {
                    let (t0, period) = (job.stamp(), job.period());
                    self.links.saw_own_round(now, link, id, t0, all.at(capacity), period);
                }
                density = density.max(self.links.density(link));
            }
            if let Some(job) = self.jobs.get_mut(&id) {
                job.measure(now, remaining, whole);
                job.promote(now, self.config.promote_kappa, density, self.config.max_wait);
            }
        }
        self.links.forget_jobs(now);
    }

    /// Draws the scene: flows with demand by rank, their jobs and their links.
    pub(super) fn draw_scene(&mut self, now: Now) {
        let mut active: Vec<FlowId> =
            self.flows.values().filter(|f| f.remaining() > Bytes::ZERO && !f.released).map(|f| f.spec.flow).collect();
        active.sort_by_key(|id| {
            let job = self.flows.get(id).map(|f| f.spec.job).unwrap_or_default();
            (self.jobs.get(&job).map(|j| j.rank()), job, *id)
        });
        let mut scene = std::mem::take(&mut self.scene);
        scene.now = now;
        scene.slot = self.config.slot;
        scene.horizon = self.config.horizon;
        scene.work_conserving = self.config.work_conserving;
        scene.jobs.clear();
        scene.flows.clear();
        let mut used: Vec<usize> = Vec::new();
        for id in &active {
            let Some(flow) = self.flows.get(id) else { continue };
            let Some(job) = self.jobs.get(&flow.spec.job) else { continue };
            if scene.jobs.last().is_none_or(|last| last.job != flow.spec.job) {
                scene.jobs.push(JobScene { job: flow.spec.job, rank: job.rank(), peer_offer: job.peer_offer() });
            }
            let links = flow.path.iter().map(|link| place(&mut used, *link)).collect();
            let (allowed, behind) = self.allowed(flow);
            scene.flows.push(FlowScene {
                flow: *id,
                job: scene.jobs.len() - 1,
                links,
                demand: flow.demand,
                delivered: flow.delivered,
                allowed,
                behind,
                ceiling: flow.best().times(self.config.probe_gain),
                arrival: flow.arrival,
                floor: Rate::ZERO,
            });
        }
        self.draw_links(&mut scene, &used);
        for flow in &mut scene.flows {
            flow.floor = flow.links.iter().map(|&l| scene.links[l].floor).min().unwrap_or(Rate::ZERO);
        }
        self.scene = scene;
        self.scene_flows = active;
    }

    fn draw_links(&self, scene: &mut Scene, used: &[usize]) {
        scene.links.resize_with(used.len(), LinkScene::default);
        for (l, &index) in used.iter().enumerate() {
            let link = self.links.get(index);
            let (trust, fresh) = self.links.trust(index);
            let known = trust > 0.0;
            let own = scene.flows.iter().filter(|f| f.links.contains(&l)).count() as u64;
            let drawn = &mut scene.links[l];
            let view = link.view();
            drawn.others.clear();
            drawn.load.clear();
            if known {
                drawn.others.extend(view.flows.iter().filter(|p| p.rate(0) > Rate::ZERO).cloned());
                drawn.load.extend(view.load.iter().skip(link.shift).copied());
            }
            drawn.load.resize(scene.horizon, Rate::ZERO);
            drawn.active = own + drawn.others.len() as u64;
            drawn.usable = link.usable(drawn.active, self.config.reserve);
            drawn.own = link.holder.is_none();
            drawn.shift = 0;
            drawn.trust = trust;
            drawn.fresh = fresh;
            let floor = self.links.floor(&[index], &self.config);
            let fair = drawn.usable.share(drawn.active.max(1));
            drawn.floor = floor.max(fair.times(self.config.fair_floor)).min(fair);
        }
    }

    /// Bytes the flow may have sent by now as far as its predecessors go, and how far it lags behind them.
    fn allowed(&self, _flow: &super::Flow) -> (Bytes, Bytes) {
        (Bytes(u64::MAX), Bytes::ZERO)
    }
}

fn place(used: &mut Vec<usize>, link: usize) -> usize {
    match used.iter().position(|&l| l == link) {
        Some(at) => at,
        None => {
            used.push(link);
            used.len() - 1
        }
    }
}
