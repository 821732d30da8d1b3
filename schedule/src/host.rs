//! The brain of a host: demands, progress and feedback in, orders and announcements out.
//!
//! [`Host::handle`] takes events in and decides nothing; [`Host::decide`] decides for all flows at once and is called
//! after each batch of events. One decision goes through fixed steps: age the views, rank the jobs, draw the
//! [`Scene`], let the policy plan, apply the guards, then say what changed: orders (lowered before raised) and
//! announcements (on change, and once per slot to keep the lease).
//!
//! | module | is |
//! | --- | --- |
//! | [`config`] | what the brain is told at start |
//! | `flows` | a flow's state: demand, progress, order |
//! | `jobs` | a job's state: rounds, key, promotion, what its other hosts say |
//! | `change` | what is acted on at once, and what can wait |
//! | `bottleneck` | what the host's flows got on each link |
//! | `lead` | what feeds a flow, and how far that is |
//! | `paths` | the ways that flows go, each once |
//! | `links` | a link's state: the last view and how much it still counts |
//! | `rendezvous` | where the hosts of a job hear each other |
//! | `scene` | draws the scene for the policy |
//! | `orders` | what was planned, within the guards, as orders |
//! | `announce` | when to announce what to whom |
//! | `status` | what is shown of flows, jobs and links |
//! | `routes` | by which equal link a flow goes: whom to ask, what was said |

mod announce;
mod bottleneck;
mod change;
pub mod config;
mod flows;
mod jobs;
mod lead;
mod links;
mod orders;
mod paths;
mod rendezvous;
mod routes;
mod scene;
mod status;

use std::collections::BTreeMap;

use crate::event::{Action, ClockTrust, Event, FlowProgress, FlowSpec, Now, ReleaseReason};
use crate::message::Feedback;
use crate::mutant::{Mutant, Planted};
use crate::policy::{Fair, Planned, Policy, PrimalDual, Scene, SrptP};
use crate::units::{Bytes, FlowId, HolderId, JobId, LinkId, Nanos};

use announce::Announcer;
use change::Change;
pub use config::{HostConfig, PolicyName, Reserve, SurplusRule};
use flows::Flow;
use jobs::Job;
use lead::Incoming;
use links::Links;
pub use links::ViewState;
use paths::{Path, Paths};
pub use routes::RouteCounts;
use routes::Routes;
use scene::Looked;
pub use status::{FlowStatus, JobReport, LinkStatus, Stall};

/// The brain of a host.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    policy: Box<dyn Policy>,
    jobs: BTreeMap<JobId, Job>,
    /// Each in a place of its own: the tree stays small, and one that is looked for is found without passing others.
    flows: BTreeMap<FlowId, Box<Flow>>,
    links: Links,
    paths: Paths,
    incoming: Incoming,
    announcer: Announcer,
    routes: Routes,
    trust: ClockTrust,
    /// Counts rounds begun: who came first.
    arrivals: u64,
    /// When every order was renewed last.
    renewed: Option<orders::Renewal>,
    /// What plans depend on and has happened since the last one.
    news: Change,
    /// Whether it is known which links jobs use, and what else was seen of all flows then.
    layout: scene::Layout,
    /// When the first ends of the other hosts' promises that the last plan counted, or of the own flows in an order, on the
    /// cluster's clock.
    due: Option<Nanos>,
    scene: Scene,
    /// For the n-th flow that sends, by id: its index in the scene.
    flow_in_scene: Vec<usize>,
    /// For each link: its index in the scene; set only while the scene is drawn.
    link_in_scene: Vec<Option<usize>>,
    /// The links of the scene, as indices of [`Links`]; filled only while the scene is drawn.
    used_links: Vec<usize>,
    planned: Vec<Planned>,
    planted: Planted,
}

impl Host {
    /// A brain that knows nothing yet.
    pub fn new(mut config: HostConfig) -> Host {
        if config.policy == PolicyName::PrimalDualLiteral {
            (config.events, config.work_conserving) = (false, false);
        }
        config.chunk_lead &= config.policy == PolicyName::SrptP && config.work_conserving;
        let policy: Box<dyn Policy> = match config.policy {
            PolicyName::SrptP => Box::new(SrptP),
            PolicyName::Fair => Box::new(Fair),
            PolicyName::PrimalDual | PolicyName::PrimalDualLiteral => Box::new(PrimalDual::new(&config)),
        };
        Host {
            policy,
            jobs: BTreeMap::new(),
            flows: BTreeMap::new(),
            links: Links::new(&config),
            paths: Paths::default(),
            incoming: Incoming::default(),
            announcer: Announcer::default(),
            routes: Routes::default(),
            trust: ClockTrust::Trusted,
            arrivals: 0,
            renewed: None,
            news: Change::Large,
            layout: scene::Layout::default(),
            due: None,
            scene: Scene::default(),
            flow_in_scene: Vec::new(),
            link_in_scene: Vec::new(),
            used_links: Vec::new(),
            planned: Vec::new(),
            planted: Planted::default(),
            config,
        }
    }

    /// Makes it a host with this defect, for tests that must notice it.
    #[cfg(feature = "mutants")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.planted = Planted::with(mutant);
    }

    /// What the brain was told at start.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Takes one event in. Cheap: nothing is decided before [`Host::decide`].
    pub fn handle(&mut self, now: Now, event: Event) {
        // Whether these two bring anything new is found out below.
        self.news.note(Change::large_if(!matches!(event, Event::Progress(_) | Event::Feedback { .. })));
        self.news.note(self.links.read_clocks(now, self.config.slot));
        match event {
            Event::SlotEdge => self.slot_edge(now),
            Event::JobSeen(spec) => {
                if self.jobs.len() < config::MAX_JOBS || self.jobs.contains_key(&spec.job) {
                    self.job(spec.job).pattern = spec.pattern;
                }
            }
            Event::JobGone(job) => self.job_gone(job),
            Event::FlowOpened(spec) => self.flow_opened(spec),
            Event::FlowClosed(flow) => self.flow_closed(flow),
            Event::RoundBegan { job, flows } => self.round_began(now, job, &flows),
            Event::DemandChanged { flow, demand } => {
                if let Some(state) = self.flows.get_mut(&flow) {
                    state.demand = demand;
                }
            }
            Event::Progress(all) => all.into_iter().for_each(|progress| self.progress(now, progress)),
            Event::Feedback { holder, feedback } => self.feedback(now, holder, feedback),
            Event::HolderLost(holder) => self.announcer.lost(holder),
            Event::HolderBack(_) if self.planted.is(Mutant::NeverBack) => {}
            Event::HolderBack(holder) => self.announcer.back(holder),
            Event::Measured { link, total, managed } => {
                self.links.measured(link, total, managed, self.config.newcomer_share);
            }
            Event::Clock(trust) => self.judge_clock(trust),
        }
    }

    /// Decides for all flows at once and appends what follows to `actions`. Call it after each batch of events.
    pub fn decide(&mut self, now: Now, actions: &mut Vec<Action>) {
        let aged = self.links.age(now, self.config.slot, self.trust, &self.config);
        if self.planted.is(Mutant::SilenceIsZero) {
            self.links.forget_silent();
        }
        self.notice_gap(now);
        let Looked { ranked, taken } = self.look_at_flows(now);
        let renew = orders::Renewal::is_due(self.renewed, now, self.config.slot);
        let turned = self.look_at_turns(now);
        // Bytes that were delivered as planned are no reason for another plan, unless other flows are fed by them.
        let due = self.due.is_some_and(|due| due <= now.wall);
        let large = turned || aged || ranked || taken || renew || due || self.is_fed();
        self.news.note(Change::large_if(large));
        let news = self.news > Change::None;
        if news && (renew || self.config.events) {
            self.draw_scene(now);
            let mut planned = std::mem::take(&mut self.planned);
            self.policy.plan(&self.scene, &mut planned);
            self.adopt_plan(now, &mut planned);
            self.planned = planned;
            self.order_idle_flows();
        }
        if news {
            self.order(now, renew, actions);
        }
        self.renewed = self.renewed.filter(|_| !renew).or(Some(orders::Renewal::at(now)));
        self.announcer.ready = None;
        let tell = if self.trust.is_trusted() { Host::announce } else { Host::ask_for_slots };
        tell(self, now, actions);
        actions.extend(self.routes.take_news());
        self.news = Change::None;
        self.links.planned();
    }

    /// True while some flow has demand: the shell then ticks faster than the slot.
    pub fn busy(&self) -> bool {
        self.flows.values().any(|f| f.remaining() > Bytes::ZERO)
    }

    /// How long until a new decision should follow without any event, since a flow of another host, or one in an order, ends
    /// that the last plan counted, or what was decided may be told; zero is now, `None` never.
    pub fn due_in(&self, now: Now) -> Option<Nanos> {
        let end = self.due.map(|due| due.minus(now.wall));
        let word = self.announcer.ready.map(|ready| ready.minus(now.mono));
        end.into_iter().chain(word).min().filter(|_| self.config.events)
    }

    /// Has anything come in since the last decision that cannot wait for the next look, or that the shell is to hear? What
    /// moves no more than a tenth of a link can.
    pub fn has_news(&self) -> bool {
        self.news == Change::Large || self.routes.has_news()
    }

    /// How many questions for routes were asked and answered since the last call.
    pub fn take_route_counts(&mut self) -> RouteCounts {
        self.routes.take_counts()
    }

    /// May flows on this link compete for more than they are ordered?
    pub fn competes(&self, now: Now, link: LinkId) -> bool {
        let allowances = self.links.iter().filter(|known| known.link == link);
        allowances.filter_map(|known| known.allowance(now, &self.config)).any(|allowance| !allowance.yields)
    }

    /// How many flows take part in the last plan.
    pub fn planned(&self) -> usize {
        self.scene.flows.len()
    }

    /// Every flow, by id.
    pub fn flows(&self) -> impl Iterator<Item = FlowStatus<'_>> {
        self.flows.values().map(|flow| flow.status())
    }

    /// Every job, by id.
    pub fn jobs(&self) -> impl Iterator<Item = JobReport> + '_ {
        self.jobs.values().map(Job::report)
    }

    /// How the view of each holder counts now whose links are used.
    pub fn views(&self) -> impl Iterator<Item = (HolderId, ViewState)> + '_ {
        self.links.holders()
    }

    /// Every link that is known, in the order of first use.
    pub fn links(&self) -> impl Iterator<Item = LinkStatus<'_>> {
        self.links.statuses()
    }

    fn slot_edge(&mut self, now: Now) {
        for flow in self.flows.values_mut() {
            flow.slot_edge();
        }
        self.links.slot_edge(now);
        self.measure_density(now);
        for job in self.jobs.values_mut() {
            job.forget_old(now, self.config.slot);
        }
    }

    fn rearranged(&mut self) {
        self.layout.stale = true;
        self.announcer.rearranged();
    }

    /// The job's state, from now on if there was none.
    fn job(&mut self, job: JobId) -> &mut Job {
        if !self.jobs.contains_key(&job) {
            self.rearranged();
        }
        self.jobs.entry(job).or_insert_with(|| Job::new(job, self.config.host))
    }

    fn job_gone(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.rearranged();
        self.links.forget_job(job);
        for flow in self.flows.values_mut().filter(|f| f.spec.job == job) {
            flow.demand = Bytes::ZERO;
            flow.releasing = Some(ReleaseReason::Gone);
        }
    }

    fn flow_opened(&mut self, mut spec: FlowSpec) {
        if self.flows.len() >= config::MAX_FLOWS && !self.flows.contains_key(&spec.flow) {
            return;
        }
        spec.path.truncate(config::MAX_HOPS);
        spec.preds.truncate(crate::graph::MAX_PREDECESSORS);
        spec.watches.truncate(crate::graph::MAX_PREDECESSORS);
        let links = spec.path.iter().map(|hop| self.links.take_up(hop)).collect();
        let path = self.paths.of(Path::new(links, &spec));
        self.job(spec.job);
        self.rearranged();
        self.routes.opened(self.flows.get(&spec.flow).map(|known| &known.spec), &spec);
        match self.flows.get_mut(&spec.flow) {
            Some(known) => {
                self.links.drop_path(&known.path);
                known.renew_facts(spec, path);
            }
            None => {
                self.flows.insert(spec.flow, Box::new(Flow::new(spec, path, &self.config)));
            }
        }
    }

    fn flow_closed(&mut self, flow: FlowId) {
        let Some(state) = self.flows.remove(&flow) else { return };
        self.links.drop_path(&state.path);
        self.routes.closed(&state.spec);
        self.rearranged();
        if !self.flows.values().any(|f| f.spec.job == state.spec.job)
            && let Some(job) = self.jobs.get_mut(&state.spec.job)
        {
            job.ended();
        }
    }

    fn round_began(&mut self, now: Now, job: JobId, demands: &[(FlowId, Bytes)]) {
        self.arrivals += 1;
        self.job(job).round_began(now);
        let demands: BTreeMap<FlowId, Bytes> = demands.iter().rev().copied().collect();
        for flow in self.flows.values_mut().filter(|f| f.spec.job == job) {
            let demand = demands.get(&flow.spec.flow).copied().unwrap_or(Bytes::ZERO);
            flow.round_began(demand, self.arrivals);
        }
    }

    fn progress(&mut self, now: Now, progress: FlowProgress) {
        if let Some(flow) = self.flows.get_mut(&progress.flow) {
            let (sent, back) = (flow.sends(), flow.is_back(now, progress.queued));
            if progress.queued > flows::STRAY && flow.queued <= flows::STRAY {
                self.news.note(Change::large_if(flow.uptake.resume()));
            }
            let term = |flow: &Flow| flow.spec.terms.at(flow.delivered).map(|term| term.end);
            let before = term(flow);
            (flow.delivered, flow.looked) = (progress.delivered, now.mono);
            // The next flow of a plan has a rate and a place of its own, and others wait for the one that is over.
            self.news.note(Change::large_if(term(flow) != before));
            flow.measured = progress.rate;
            flow.queued = progress.queued;
            flow.rtt = progress.rtt;
            flow.best_in_slot = flow.best_in_slot.max(progress.rate);
            self.news.note(Change::large_if(back || flow.sends() != sent));
        }
    }

    fn feedback(&mut self, now: Now, holder: HolderId, feedback: Feedback) {
        if !self.announcer.accept(holder, &feedback) {
            return;
        }
        self.routes.heard(holder, &feedback.routes, now.mono, self.config.slot);
        for crowd in &feedback.crowds {
            let told = |origin| feedback.jobs.iter().any(|s| s.job == crowd.job && s.origin == origin);
            if let Some(job) = self.jobs.get_mut(&crowd.job) {
                self.news.note(Change::large_if(job.crowded(now, holder, crowd.hosts as usize, told)));
            }
        }
        let (own, deaf) = (self.config.host, self.planted.is(Mutant::DeafToPeers));
        for status in feedback.jobs.into_iter().filter(|status| status.origin != own && !deaf) {
            if let Some(job) = self.jobs.get_mut(&status.job) {
                self.news.note(job.heard(now, holder, status));
            }
        }
        if self.counts(holder, feedback.seq, feedback.refused) {
            let news = self.links.heard(now, holder, feedback.slot, feedback.warm, feedback.links);
            self.news.note(news);
            self.hear_incoming(now);
        }
    }
}

#[cfg(test)]
mod tests;
