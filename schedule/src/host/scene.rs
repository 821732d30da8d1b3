//! Ranks the jobs and draws the scene that the policy plans on.

use super::jobs::Work;
use super::{Flow, Host};
use crate::event::Now;
use crate::graph::{self, Fed, Progress};
use crate::policy::{FlowScene, JobScene, LinkScene, Scene};
use crate::units::{Bytes, FlowId, Nanos, Rate};

impl Host {
    /// Recomputes every job's key and promotion from demands, progress and views.
    pub(super) fn rank_jobs(&mut self, now: Now) {
        for job in self.jobs.values_mut() {
            job.work.clear();
        }
        for flow in self.flows.values().filter(|f| !f.released) {
            let Some(job) = self.jobs.get_mut(&flow.spec.job) else { continue };
            let (left, whole) = (flow.remaining(), flow.demand);
            for &link in &flow.path {
                match job.work.iter_mut().find(|work| work.link == link) {
                    Some(known) => (known.left, known.whole) = (known.left.plus(left), known.whole.plus(whole)),
                    None => job.work.push(Work { link, left, whole }),
                }
            }
        }
        for job in self.jobs.values_mut() {
            let (mut remaining, mut round) = (Nanos::ZERO, Nanos::ZERO);
            for work in &mut job.work {
                let link = self.links.get(work.link);
                if work.left > Bytes::ZERO {
                    // Flows of the job's other hosts that end on the same link lengthen its round too.
                    let (left, whole) = link.foreign(job.id);
                    (work.left, work.whole) = (work.left.plus(left), work.whole.plus(whole));
                }
                remaining = remaining.max(work.left.at(link.capacity()));
                round = round.max(work.whole.at(link.capacity()));
            }
            job.measure(now, remaining, round);
            job.promote(now, self.config.promote_kappa, self.config.max_wait);
        }
    }

    /// Once per slot: how full the links are of rounds (D), which sets how long each job's patience lasts.
    pub(super) fn measure_density(&mut self, now: Now) {
        for job in self.jobs.values() {
            for work in job.work.iter().filter(|work| work.whole > Bytes::ZERO) {
                let time = work.whole.at(self.links.get(work.link).capacity());
                self.links.saw_own_round(now, work.link, job.id, job.stamp(), time, job.period());
            }
        }
        for job in self.jobs.values_mut() {
            job.density = job.work.iter().map(|work| self.links.density(work.link)).fold(0.0, f64::max);
        }
        self.links.forget_jobs(now);
    }

    /// Draws the scene: flows with demand by rank, their jobs and their links.
    pub(super) fn draw_scene(&mut self, now: Now) {
        let with_demand = self.flows.values().filter(|f| f.remaining() > Bytes::ZERO && !f.released);
        let rank = |job| self.jobs.get(&job).map(|j| j.rank());
        let mut active: Vec<_> = with_demand.map(|f| (rank(f.spec.job), f.spec.flow)).collect();
        active.sort_unstable();
        let active: Vec<FlowId> = active.into_iter().map(|(_, flow)| flow).collect();
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
                ceiling: flow.ceiling.rate(Rate::ZERO),
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
            drawn.others.clear();
            drawn.load.clear();
            if known {
                drawn.others.extend_from_slice(link.others());
                drawn.load.extend(link.load().iter().skip(link.shift).copied());
            }
            drawn.load.resize(scene.horizon, Rate::ZERO);
            drawn.active = own + drawn.others.len() as u64;
            drawn.usable = link.usable(self.config.reserve);
            drawn.own = link.holder.is_none();
            drawn.trust = trust;
            drawn.fresh = fresh;
            let floor = self.links.floor(&[index], &self.config);
            let fair = drawn.usable.share(drawn.active.max(1));
            drawn.floor = floor.max(fair.times(self.config.fair_floor)).min(fair);
        }
    }

    /// Bytes the flow may have sent by now as far as its predecessors go, and how far it lags behind them (Δ).
    fn allowed(&self, flow: &Flow) -> (Bytes, Bytes) {
        let progress = |id: FlowId| {
            if let Some(own) = self.flows.get(&id) {
                return Progress::with_plan(own.delivered, own.demand, Rate::ZERO, Nanos::ZERO);
            }
            let ingress = self.links.ingress().map_or(&[][..], |link| &link.view().flows);
            let heard = ingress.iter().find(|promise| promise.flow == id);
            // A predecessor nobody promises has nothing left to send: over, or not begun, which its bytes will show.
            heard.map_or(Progress { ended: true, ..Progress::default() }, |p| {
                Progress::with_plan(p.delivered, p.demand, Rate::ZERO, Nanos::ZERO)
            })
        };
        let fed = flow.spec.preds.iter().map(|by| Fed { by: *by, progress: progress(by.flow) });
        let own = Progress::with_plan(flow.delivered, flow.demand, Rate::ZERO, Nanos::ZERO);
        // A predecessor that is not heard of bounds nothing, and there is nothing to catch up with.
        let levels = flow.spec.preds.iter().map(|by| progress(by.flow)).filter(|level| level.demand > Bytes::ZERO);
        (graph::bound(flow.demand, fed), graph::catch_up(flow.spec.role, own, levels))
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
