//! When to announce what to whom: at once when something changed that others plan by, and once per slot for the lease.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::rendezvous::Rendezvous;
use super::{Flow, Host, Job};
use crate::event::{Action, Now};
use crate::message::{Announcement, Feedback, FlowPromise, JobStatus};
use crate::units::{BootId, FlowId, HolderId, JobId, LinkId, Nanos, Rate, Slot};

/// A rate is announced again when it moved by this part of the bottleneck.
const RATE_HYSTERESIS: f64 = 0.01;
/// A change that moves no more than this part of the bottleneck, over all flows, is a small one.
const SMALL: f64 = 0.1;
/// Small changes are announced so far apart, and what others do about them comes as late.
const SMALL_GAP: Nanos = Nanos::from_millis(15);
/// A holder whose boot id changed this often within [`BOOT_WINDOW`] is ignored for as long.
const MAX_BOOTS: u32 = 4;
const BOOT_WINDOW: Nanos = Nanos::from_millis(60_000);

/// What others plan by of one flow.
#[derive(Clone, Copy, Debug)]
struct FlowSummary {
    flow: FlowId,
    job: JobId,
    /// Rate promised for the current slot.
    promised: Rate,
    /// Rate taken, with what the fill adds.
    taken: Rate,
    /// Index of the own egress among the host's links.
    egress: Option<usize>,
    /// When the round will have been sent, on the cluster's clock.
    until: Nanos,
}

/// What others plan by of one job.
#[derive(Clone, Copy, Debug)]
struct JobSummary {
    job: JobId,
    promoted: bool,
    key: Nanos,
    /// Least offer over the job's flows here, as of a flow with a full share.
    offer: Rate,
}

/// Everything whose change is worth an announcement to one holder, each list in order of ids.
#[derive(Clone, Debug, Default)]
struct Summary {
    flows: Vec<FlowSummary>,
    jobs: Vec<JobSummary>,
}

/// A holder that is told of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Concern {
    holder: HolderId,
    job: JobId,
}

/// What one holder is to be told.
#[derive(Debug)]
struct Told {
    holder: HolderId,
    summary: Summary,
    watch: Vec<LinkId>,
}

/// What all holders are to be told, in order of their ids.
#[derive(Debug, Default)]
struct AllTold(Vec<Told>);

impl AllTold {
    fn of(&mut self, holder: HolderId) -> &mut Told {
        let nothing = || Told { holder, summary: Summary::default(), watch: Vec::new() };
        let at = match self.0.binary_search_by_key(&holder, |told| told.holder) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, nothing());
                at
            }
        };
        &mut self.0[at]
    }
}

/// How much of what others plan by differs from what they were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Nothing that is worth a word.
    #[default]
    None,
    /// What can wait for [`SMALL_GAP`].
    Small,
    /// What frees bandwidth or takes it.
    Large,
}

/// What a holder is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It keeps links that are in use here.
    Links,
    /// Jobs of this host meet there.
    Jobs,
    /// Neither of them any more.
    None,
}

/// The announcements to one holder, and what is known of its process.
#[derive(Debug, Default)]
struct HolderState {
    /// Sequence number of the last announcement; 0 before the first.
    seq: u64,
    /// The slot in which the lease was last renewed.
    renewed: Option<Slot>,
    /// When the last announcement was made.
    announced_at: Nanos,
    /// A change that waits for the least gap between announcements to pass.
    pending: Change,
    /// The holder keeps something of this host's, which has to be renewed or withdrawn.
    keeps: bool,
    announced: Summary,
    boot: Option<BootId>,
    /// How often the boot id changed since `boots_since`.
    boots: u32,
    boots_since: Nanos,
}

/// What was announced to whom.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    holders: BTreeMap<HolderId, HolderState>,
    lost: BTreeSet<HolderId>,
    /// Where each job's hosts meet.
    rendezvous: Rendezvous,
    /// For each holder of links in use, or at which a job is met, what it is to be told, as of the last news; by holder.
    told: Vec<Told>,
    /// Who hears of which job, in order; `None`: to be found again.
    concerned: Option<Vec<Concern>>,
    /// When a large change may be told that waits for the least gap between announcements, on the monotonic clock.
    pub ready: Option<Nanos>,
    /// Sequence number of this host's last job status.
    status_seq: u64,
    now: Nanos,
}

impl Announcer {
    /// Flows or jobs came or went.
    pub fn rearranged(&mut self) {
        self.concerned = None;
    }

    /// The connection to a holder broke.
    pub fn lost(&mut self, holder: HolderId) {
        if self.lost.insert(holder) {
            self.rendezvous.forget();
        }
    }

    /// A holder can be reached again. Its connection is new, so everything is announced at the next chance.
    pub fn back(&mut self, holder: HolderId) {
        if self.lost.remove(&holder) {
            self.rendezvous.forget();
        }
        self.holders.entry(holder).or_default().renewed = None;
    }

    /// Whether to believe this feedback: a holder that keeps changing its boot id is broken or hostile.
    pub fn accept(&mut self, holder: HolderId, feedback: &Feedback) -> bool {
        let now = self.now;
        let state = self.holders.entry(holder).or_default();
        if now.minus(state.boots_since) > BOOT_WINDOW {
            (state.boots, state.boots_since) = (0, now);
        }
        if state.boot.is_some_and(|boot| boot != feedback.boot) {
            state.boots += 1;
            state.renewed = None;
        }
        state.boot = Some(feedback.boot);
        state.boots < MAX_BOOTS
    }
}

impl Host {
    /// Announces to every holder that has to hear something now.
    pub(super) fn announce(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.announcer.now = now.mono;
        let Announcer { rendezvous, lost, .. } = &mut self.announcer;
        let moved = rendezvous.arrange(self.jobs.keys(), &self.config.switches, lost);
        if moved || self.announcer.concerned.is_none() {
            self.announcer.concerned = Some(self.concerned());
        }
        if self.news {
            self.announcer.told = self.collect();
        }
        let told = std::mem::take(&mut self.announcer.told);
        let nothing = Summary::default();
        for (holder, part) in self.audience() {
            let Some(state) = self.announcer.holders.get(&holder) else { continue };
            // It keeps nothing of this host's and was told so; there is nothing to say until that changes.
            if part == Part::None && !state.keeps && !self.routes.asks(holder, now.mono) {
                continue;
            }
            let told = told.binary_search_by_key(&holder, |told| told.holder).ok().map(|at| &told[at]);
            let summary = told.map_or(&nothing, |told| &told.summary);
            let urgent = self.routes.is_urgent(holder);
            let change = match () {
                () if state.seq == 0 || urgent => Change::Large,
                () if self.news => self.change(now, state, summary),
                () => Change::None,
            };
            let lost = self.announcer.lost.contains(&holder);
            let state = self.announcer.holders.entry(holder).or_default();
            let since = now.mono.minus(state.announced_at);
            let gap_over = since >= self.config.announce_gap;
            let in_phase = now.into_slot >= self.config.phase;
            if in_phase && !gap_over && since <= now.into_slot && state.renewed.is_some() {
                // An announcement made a moment ago in this slot renews the lease as well. One made long before the phase
                // does not: the next would follow so late that the view that it brings had grown old.
                state.renewed = Some(now.slot);
            }
            let due = state.renewed != Some(now.slot) && in_phase
                || state.renewed.is_some_and(|slot| now.slot.since(slot) > 1);
            state.pending = state.pending.max(change);
            let ready = match state.pending {
                Change::None => false,
                Change::Small => gap_over && since >= SMALL_GAP,
                Change::Large => gap_over,
            };
            if lost || !(due || ready && self.config.events) {
                if state.pending == Change::Large && !lost {
                    let at = state.announced_at.plus(self.config.announce_gap);
                    self.announcer.ready = self.announcer.ready.into_iter().chain([at]).min();
                }
                continue;
            }
            if due {
                state.renewed = Some(now.slot);
            }
            state.pending = Change::None;
            state.announced_at = now.mono;
            state.seq += 1;
            state.announced.clone_from(summary);
            state.keeps = part != Part::None;
            let announcement = Announcement {
                host: self.config.host,
                boot: self.config.boot,
                seq: state.seq,
                slot: now.slot,
                flows: self.promises(holder, summary),
                jobs: self.statuses(summary),
                watch: told.map_or_else(Vec::new, |told| told.watch.clone()),
                measured: self.links.measured_ingress(holder).collect(),
                routes: self.routes.ask(holder, now.mono, self.config.slot),
            };
            actions.push(Action::Announce { holder, announcement });
        }
        self.announcer.told = told;
    }

    /// Every holder that this host announces to or announced to, by id, with what it is to this host now.
    fn audience(&mut self) -> Vec<(HolderId, Part)> {
        let Announcer { holders, rendezvous, .. } = &mut self.announcer;
        let used = self.links.holders().map(|(holder, _)| holder);
        for holder in used.chain(rendezvous.all()).chain(self.routes.holders()) {
            holders.entry(holder).or_default();
        }
        let part = |holder| match () {
            () if self.links.in_use(holder) => Part::Links,
            () if rendezvous.is_at(holder) => Part::Jobs,
            () => Part::None,
        };
        holders.keys().map(|&holder| (holder, part(holder))).collect()
    }

    /// What others' plans depend on, holder by holder. One that keeps links in use hears of the flows that cross them and of
    /// their jobs; the holder of the own ingress of all jobs, because whoever sends to this host looks there; and where a
    /// job is met, of that job.
    fn collect(&self) -> Vec<Told> {
        let mut all = AllTold::default();
        for (holder, link) in self.links.in_use_by_holder() {
            all.of(holder).watch.push(link);
        }
        let job =
            |job: &Job| JobSummary { job: job.id, promoted: job.promoted(), key: job.own_key(), offer: Rate::MAX };
        let mut jobs: Vec<JobSummary> = self.jobs.values().map(job).collect();
        for flow in self.flows.values().filter(|flow| flow.sends()) {
            let Ok(at) = jobs.binary_search_by_key(&flow.spec.job, |job| job.job) else { continue };
            jobs[at].offer = jobs[at].offer.min(flow.full_offer());
            let summary = FlowSummary {
                flow: flow.spec.flow,
                job: flow.spec.job,
                promised: flow.rates.first().copied().unwrap_or(flow.order),
                taken: flow.order,
                egress: flow.path.first().copied(),
                until: flow.until,
            };
            for holder in &flow.holders {
                all.of(*holder).summary.flows.push(summary);
            }
        }
        for of_holder in
            self.announcer.concerned.iter().flatten().collect::<Vec<_>>().chunk_by(|a, b| a.holder == b.holder)
        {
            let told = all.of(of_holder[0].holder);
            let job = |concern: &&Concern| jobs.binary_search_by_key(&concern.job, |job| job.job).ok();
            told.summary.jobs.extend(of_holder.iter().filter_map(job).map(|at| jobs[at]));
        }
        all.0
    }

    /// Which holder hears of which job.
    fn concerned(&self) -> Vec<Concern> {
        let mut ingress: Vec<HolderId> = self.links.ingress().filter_map(|link| link.holder).collect();
        ingress.dedup();
        let of_flow = |flow: &Flow| {
            let job = flow.spec.job;
            flow.holders.clone().into_iter().map(move |holder| Concern { holder, job })
        };
        let of_job = |&job: &JobId| {
            let met = self.announcer.rendezvous.of(job);
            ingress.clone().into_iter().chain(met).map(move |holder| Concern { holder, job })
        };
        let flows = self.flows.values().flat_map(of_flow);
        let mut all: Vec<Concern> = flows.chain(self.jobs.keys().flat_map(of_job)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The flows of a summary as a holder of these links is told of them.
    fn promises(&self, holder: HolderId, summary: &Summary) -> Vec<FlowPromise> {
        let mut promises = Vec::with_capacity(summary.flows.len());
        for FlowSummary { flow, job, .. } in &summary.flows {
            let (Some(flow), Some(job)) = (self.flows.get(flow), self.jobs.get(job)) else { continue };
            let held = |&&l: &&usize| self.links.get(l).holder == Some(holder);
            let rank = self.rank_of(flow, job);
            let (promoted, t0) = if rank.is_of_plan() { (true, rank.key) } else { (job.promoted(), job.stamp()) };
            promises.push(FlowPromise {
                flow: flow.spec.flow,
                job: flow.spec.job,
                promoted,
                key: job.key(),
                t0,
                takes: flow.order,
                until: flow.until,
                rates: if flow.rates.is_empty() { vec![flow.order] } else { flow.rates.clone() },
                demand: flow.demand,
                delivered: flow.delivered.min(flow.demand),
                links: flow.path.iter().filter(held).map(|&l| self.links.get(l).link).collect(),
            });
        }
        promises
    }

    /// By how much what was last announced to a holder differs from now.
    fn change(&self, now: Now, state: &HolderState, is: &Summary) -> Change {
        let least = is.flows.iter().filter_map(|f| f.egress).map(|l| self.links.get(l).capacity()).min();
        let least = least.unwrap_or(Rate::ZERO);
        let (hysteresis, small) = (least.times(RATE_HYSTERESIS).max(Rate(1)), least.times(SMALL));
        let moved = |was: Rate, is: Rate| Rate(was.0.abs_diff(is.0));
        let was = &state.announced;
        let same_jobs =
            was.jobs.iter().map(|job| (job.job, job.promoted)).eq(is.jobs.iter().map(|job| (job.job, job.promoted)));
        if !same_jobs {
            return Change::Large;
        }
        let mut any = false;
        for (was, is) in was.jobs.iter().zip(&is.jobs) {
            let offer = moved(was.offer, is.offer);
            any |= was.key != is.key || offer > hysteresis;
            if offer > hysteresis && offer > was.offer.max(is.offer).times(SMALL) {
                return Change::Large;
            }
        }
        // What others would do otherwise, if they knew: of a flow that ends when it was said to, nothing.
        let soon = |until: Nanos| until > Nanos::ZERO && until <= now.wall.plus(SMALL_GAP);
        let mut bandwidth = Rate::ZERO;
        let (mut before, mut after) = (was.flows.iter().peekable(), is.flows.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(was), Some(is)) => was.flow.cmp(&is.flow),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let was = if order.is_le() { before.next() } else { None };
            let is = if order.is_ge() { after.next() } else { None };
            let rate = |flow: Option<&FlowSummary>| flow.map_or(Rate::ZERO, |f| f.promised.max(f.taken));
            let by = match (was, is) {
                (Some(was), Some(is)) => {
                    let by = moved(was.promised, is.promised).max(moved(was.taken, is.taken));
                    let end = was.until != is.until;
                    any |= end || by > hysteresis;
                    if end && (soon(was.until) || soon(is.until)) { rate(Some(was)).max(by) } else { by }
                }
                (Some(was), None) if was.until > Nanos::ZERO && was.until <= now.wall => Rate::ZERO,
                (was, is) => rate(was.or(is)),
            };
            any |= order.is_ne();
            bandwidth = bandwidth.plus(by);
        }
        match () {
            () if bandwidth > small => Change::Large,
            () if any => Change::Small,
            () => Change::None,
        }
    }

    /// This host's own status of each job of a summary, and the statuses of other hosts that it relays.
    fn statuses(&mut self, summary: &Summary) -> Vec<JobStatus> {
        let mut statuses = Vec::new();
        for JobSummary { job, offer, .. } in &summary.jobs {
            let Some(job) = self.jobs.get(job) else { continue };
            self.announcer.status_seq += 1;
            statuses.push(JobStatus {
                origin: self.config.host,
                boot: self.config.boot,
                seq: self.announcer.status_seq,
                ..job.own_status(*offer)
            });
            if self.config.relay {
                statuses.extend(job.relayed());
            }
        }
        statuses
    }
}
