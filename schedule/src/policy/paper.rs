//! The paper's allocator as a [`Policy`]: puts the scene into the words of [`primal_dual`] and its schedules back.

use super::primal_dual::{self, Config, FlowView, Hop, Link, Problem, Schedule, Scratch};
use super::{Planned, Policy, Scene, resize};
use crate::host::{HostConfig, PolicyName};
use crate::units::Rate;

/// `primal-dual`, repaired or to the letter; keeps only buffers between calls.
#[derive(Debug)]
pub struct PrimalDual {
    config: Config,
    scratch: Scratch,
    schedules: Vec<Schedule>,
}

impl PrimalDual {
    /// In the form and with the weights of the configuration.
    pub fn new(config: &HostConfig) -> PrimalDual {
        let literal = config.policy == PolicyName::PrimalDualLiteral;
        let form = if literal {
            Config::literal(config.delay_weight)
        } else {
            Config::repaired(config.delay_weight, config.price_mu, config.work_conserving)
        };
        PrimalDual { config: form, scratch: Scratch::default(), schedules: Vec::new() }
    }
}

impl Policy for PrimalDual {
    fn follows_predecessors(&self) -> bool {
        true
    }

    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>) {
        resize(out, scene.flows.len());
        let links: Vec<Link> = scene.links.iter().map(|link| Link { usable: link.usable, own: link.own }).collect();
        let loads = foreign_loads(scene);
        let sharers = sharers(scene);
        let hop = |flow: &super::FlowScene, link: usize| Hop {
            link,
            load: &loads[link][flow.job],
            sharers: sharers[link][flow.job],
        };
        let path = |flow: &super::FlowScene| flow.links.iter().map(|&link| hop(flow, link)).collect();
        let paths: Vec<Vec<Hop<'_>>> = scene.flows.iter().map(path).collect();
        let flows: Vec<FlowView<'_>> =
            scene.flows.iter().zip(&paths).map(|(flow, path)| view(scene, flow, path)).collect();
        let rest = scene.slot.minus(scene.now.into_slot);
        let problem = Problem { slot: scene.slot, rest, horizon: scene.horizon, links: &links, flows: &flows };
        primal_dual::plan(&problem, &self.config, &mut self.scratch, &mut self.schedules);
        for ((planned, schedule), flow) in out.iter_mut().zip(&self.schedules).zip(&scene.flows) {
            planned.rates.clone_from(&schedule.rates);
            planned.rate = schedule.rates.first().copied().unwrap_or(Rate::ZERO).max(flow.floor);
            if let Some(first) = planned.rates.first_mut() {
                *first = first.minus(schedule.filled); // What the fill added is promised to nobody.
            }
            planned.offer = schedule.headroom;
            planned.why = schedule.why;
        }
    }
}

/// Per (link, job on it): the load of other hosts' flows without those of that job.
type Loads = Vec<Vec<Vec<Rate>>>;

fn foreign_loads(scene: &Scene) -> Loads {
    let without = |link: &super::LinkScene, job: &super::JobScene| {
        let own =
            link.others.iter().filter(|other| other.rank.job == job.job).fold(Rate::ZERO, |sum, o| sum.plus(o.rate));
        link.load.iter().map(|load| load.minus(own)).collect()
    };
    scene.links.iter().map(|link| scene.jobs.iter().map(|job| without(link, job)).collect()).collect()
}

/// Per (link, job on it): flows with demand that the job has there, on all hosts.
fn sharers(scene: &Scene) -> Vec<Vec<u64>> {
    let elsewhere = |link: &super::LinkScene, job: &super::JobScene| {
        link.others.iter().filter(|other| other.rank.job == job.job).count() as u64
    };
    let of_link = |link| scene.jobs.iter().map(|job| elsewhere(link, job)).collect();
    let mut sharers: Vec<Vec<u64>> = scene.links.iter().map(of_link).collect();
    for flow in &scene.flows {
        flow.links.iter().for_each(|&link| sharers[link][flow.job] += 1);
    }
    sharers
}

fn view<'a>(scene: &Scene, flow: &super::FlowScene, path: &'a [Hop<'a>]) -> FlowView<'a> {
    FlowView {
        flow: flow.flow,
        job: scene.jobs[flow.job].job,
        arrival: flow.arrival,
        remaining: flow.remaining(),
        usable: flow.allowed.minus(flow.delivered).min(flow.remaining()),
        behind: flow.behind,
        ahead: flow.delivered.minus(flow.allowed),
        ceiling: flow.ceiling,
        floor: flow.floor,
        due: !scene.jobs[flow.job].rank.ordinary,
        old: &[],
        path,
    }
}
