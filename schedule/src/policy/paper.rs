//! The paper's allocator as a [`Policy`]: puts the scene into the words of [`primal_dual`] and its schedules back.

use super::primal_dual::{self, Config, FlowView, Hop, Link, Problem, Schedule, Scratch};
use super::{FlowScene, JobLoad, LinkScene, Planned, Policy, Scene, resize};
use crate::host::{HostConfig, PolicyName};
use crate::units::Rate;

/// `primal-dual`, repaired or to the letter; keeps only buffers between calls.
#[derive(Debug)]
pub struct PrimalDual {
    config: Config,
    scratch: Scratch,
    schedules: Vec<Schedule>,
    links: Vec<Link>,
    on_links: OnLinks,
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
        PrimalDual {
            config: form,
            scratch: Scratch::default(),
            schedules: Vec::new(),
            links: Vec::new(),
            on_links: OnLinks::default(),
        }
    }
}

impl Policy for PrimalDual {
    fn follows_predecessors(&self) -> bool {
        true
    }

    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>) {
        resize(out, scene.flows.len());
        self.links.clear();
        let link = |link: &LinkScene| Link { usable: link.usable, own: link.own, filled: filled_by_others(link) };
        self.links.extend(scene.links.iter().map(link));
        self.on_links.survey(scene);
        let hops: Vec<Hop<'_>> = self.on_links.hops(scene).collect();
        let mut rest = &hops[..];
        let view = |flow: &FlowScene| {
            let (path, later) = rest.split_at(flow.links.len());
            rest = later;
            view(scene, flow, path)
        };
        let flows: Vec<FlowView<'_>> = scene.flows.iter().map(view).collect();
        let rest = scene.slot.minus(scene.now.into_slot);
        let problem = Problem { slot: scene.slot, rest, horizon: scene.horizon, links: &self.links, flows: &flows };
        primal_dual::plan(&problem, &self.config, &mut self.scratch, &mut self.schedules);
        for ((planned, schedule), flow) in out.iter_mut().zip(&mut self.schedules).zip(&scene.flows) {
            std::mem::swap(&mut planned.rates, &mut schedule.rates); // The other one is written over next time.
            planned.rate = planned.rates.first().copied().unwrap_or(Rate::ZERO).max(flow.floor);
            if let Some(first) = planned.rates.first_mut() {
                *first = first.minus(schedule.filled); // What the fill added is promised to nobody.
            }
            planned.offer = schedule.headroom;
            planned.why = schedule.why;
        }
    }
}

/// What there is of one job on one link.
#[derive(Clone, Copy, Debug, Default)]
struct JobOnLink {
    /// Own flows of the job there; 0: nobody asks for the rest.
    flows: u64,
    siblings: Siblings,
    /// Where the load without the job begins among [`OnLinks::loads`]; `None`: all of the link's load is that of others.
    load: Option<usize>,
}

/// What each job has on each link, by link × job.
#[derive(Debug, Default)]
struct OnLinks {
    all: Vec<JobOnLink>,
    /// Load rows, a horizon each.
    loads: Vec<Rate>,
}

impl OnLinks {
    /// Looks at every pair of a link and a job that has flows there.
    fn survey(&mut self, scene: &Scene) {
        let jobs = scene.jobs.len();
        self.all.clear();
        self.all.resize(scene.links.len() * jobs, JobOnLink::default());
        self.loads.clear();
        for flow in &scene.flows {
            for &link in &flow.links {
                let here = &mut self.all[link * jobs + flow.job];
                here.flows += 1;
                if here.flows > 1 {
                    continue;
                }
                let (link, job) = (&scene.links[link], &scene.jobs[flow.job]);
                if let Ok(at) = link.jobs.binary_search_by_key(&job.job, |known| known.job) {
                    let siblings = &link.jobs[at];
                    let rate = siblings.load.first().copied().unwrap_or(Rate::ZERO);
                    here.siblings = Siblings { flows: siblings.flows, rate };
                    here.load = Some(self.loads.len());
                    foreign_load(link, siblings, &mut self.loads);
                }
            }
        }
    }

    /// The paths of all flows, one after another.
    fn hops<'a>(&'a self, scene: &'a Scene) -> impl Iterator<Item = Hop<'a>> {
        scene.flows.iter().flat_map(move |flow| {
            flow.links.iter().map(move |&link| {
                let here = &self.all[link * scene.jobs.len() + flow.job];
                let all = &scene.links[link].load;
                let load = here.load.map_or(&all[..], |at| &self.loads[at..at + all.len()]);
                let Siblings { flows, rate } = here.siblings;
                Hop { link, load, sharers: here.flows + flows, siblings: rate }
            })
        })
    }
}

/// What other hosts' flows of one job have on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Siblings {
    flows: u64,
    /// What they promised for the current slot, in all.
    rate: Rate,
}

/// Appends the load of other hosts' flows on a link slot by slot, without those of one job.
fn foreign_load(link: &LinkScene, siblings: &JobLoad, out: &mut Vec<Rate>) {
    let own = siblings.load.iter().copied().chain(std::iter::repeat(Rate::ZERO));
    out.extend(link.load.iter().zip(own).map(|(load, own)| load.minus(own)));
}

/// What other hosts' flows take on a link beyond their promises.
fn filled_by_others(link: &LinkScene) -> Rate {
    link.others.iter().fold(Rate::ZERO, |sum, other| sum.plus(other.filled))
}

fn view<'a>(scene: &Scene, flow: &FlowScene, path: &'a [Hop<'a>]) -> FlowView<'a> {
    FlowView {
        flow: flow.flow,
        job: scene.jobs[flow.job].job,
        arrival: flow.arrival,
        // What was not told of waits in the send buffer, so that no predecessor holds it back.
        remaining: flow.remaining().plus(flow.untold),
        usable: flow.allowed.minus(flow.delivered).min(flow.remaining()).plus(flow.untold),
        behind: flow.behind,
        ceiling: flow.ceiling,
        floor: flow.floor,
        due: !scene.jobs[flow.job].rank.ordinary,
        old: &[],
        path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::JobScene;
    use crate::units::{BootId, Bytes, FlowId, HostId, JobId, Nanos};

    #[test]
    fn what_a_round_was_not_told_to_have_is_planned_like_the_rest_and_fits_the_own_link() {
        let link =
            LinkScene { own: true, usable: Rate::mbps(198), configured: Rate::mbps(200), ..LinkScene::default() };
        // Of the second job bytes wait of which its round was not told, and a predecessor of theirs is not known to be over.
        let flow = |id, job, demand, untold| FlowScene {
            flow: FlowId(id),
            job,
            links: vec![0],
            demand: Bytes(demand),
            allowed: Bytes(demand),
            untold: Bytes(untold),
            ceiling: Rate::MAX,
            floor: Rate::mbps(10),
            arrival: id,
            ..FlowScene::default()
        };
        let scene = |untold| Scene {
            slot: Nanos::from_millis(60),
            horizon: 10,
            work_conserving: true,
            links: vec![link.clone()],
            jobs: [2, 1].map(|job| JobScene { job: JobId(job), ..JobScene::default() }).into(),
            flows: vec![flow(3, 0, 1_000_000_000, 0), flow(1, 1, 0, untold), flow(2, 1, 0, untold)],
            ..Scene::default()
        };
        for policy in [PolicyName::PrimalDual, PolicyName::PrimalDualLiteral] {
            let config = HostConfig { policy, ..HostConfig::new(HostId(1), BootId(1)) };
            for untold in [100_000, 10_000_000] {
                let mut out = Vec::new();
                PrimalDual::new(&config).plan(&scene(untold), &mut out);
                let rates: Vec<Rate> = out.iter().map(|planned| planned.rate).collect();
                let sum = rates.iter().fold(Rate::ZERO, |sum, rate| sum.plus(*rate));
                assert!(sum <= Rate::mbps(198), "{policy:?}, {untold} bytes: {rates:?}");
                let least = Rate::needed(Bytes(untold), Nanos::from_millis(60)).min(Rate::mbps(80));
                assert!(rates[1] >= least && rates[2] >= Rate::mbps(10), "{policy:?}, {untold} bytes: {rates:?}");
            }
        }
    }

    #[test]
    fn a_jobs_own_promises_are_no_load_to_it_in_the_slots_in_which_they_are() {
        let load = [600, 300, 100].map(Rate::mbps).to_vec();
        let link = LinkScene { load, ..LinkScene::default() };
        let siblings = JobLoad { job: JobId(1), flows: 1, load: [600, 0].map(Rate::mbps).to_vec() };
        let mut left = Vec::new();
        foreign_load(&link, &siblings, &mut left);
        assert_eq!(left, [0, 300, 100].map(Rate::mbps));
    }
}
