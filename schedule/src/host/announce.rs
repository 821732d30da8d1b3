//! When to announce what to whom: at once when something changed that others plan by, and once per slot for the lease.

mod asking;
mod audience;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::audience::Part;
use super::change::{Change, SOON, counted_on};
use super::paths::Path;
use super::rendezvous::Rendezvous;
use super::{Flow, Host, Job};
use crate::event::{Action, ClockTrust, Now};
use crate::message::{Announcement, Feedback, FlowPromise, JobStatus};
use crate::mutant::Mutant;
use crate::units::{BootId, FlowId, HolderId, JobId, LinkId, Nanos, Rate, Slot};

/// A rate is announced again when it moved by this part of the bottleneck.
const RATE_HYSTERESIS: f64 = 0.01;
/// Small changes are announced so far apart.
const SMALL_GAP: Nanos = SOON;
/// A holder whose boot id changed this often within [`BOOT_WINDOW`] is ignored for as long.
const MAX_BOOTS: u32 = 4;
const BOOT_WINDOW: Nanos = Nanos::from_millis(60_000);

/// What others plan by of a job's flows on one path, together: which of them has how much is nobody else's concern.
#[derive(Clone, Debug)]
struct PathSummary {
    job: JobId,
    /// Indices among the host's links; the first is its own egress.
    path: Arc<Path>,
    /// Rate promised for the current slot.
    promised: Rate,
    /// Rate taken, with what the fill adds.
    taken: Rate,
    /// When all of the round will have been sent there, on the cluster's clock.
    until: Nanos,
}

impl PathSummary {
    fn cmp(&self, other: &PathSummary) -> Ordering {
        (self.job, &self.path).cmp(&(other.job, &other.path))
    }
    fn rate(&self) -> Rate {
        self.promised.max(self.taken)
    }
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
    paths: Vec<PathSummary>,
    jobs: Vec<JobSummary>,
}

impl Summary {
    fn add(&mut self, path: &PathSummary) {
        match self.paths.binary_search_by(|known| known.cmp(path)) {
            Ok(at) => {
                let known = &mut self.paths[at];
                known.promised = known.promised.plus(path.promised);
                known.taken = known.taken.plus(path.taken);
                known.until = known.until.max(path.until);
            }
            Err(at) => self.paths.insert(at, path.clone()),
        }
    }
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
    /// The flows that it is told of, by id.
    flows: Vec<FlowId>,
    watch: Vec<LinkId>,
}

/// What all holders are to be told, in order of their ids.
#[derive(Debug, Default)]
struct AllTold(Vec<Told>);

impl AllTold {
    fn of(&mut self, holder: HolderId) -> &mut Told {
        let nothing = || Told { holder, summary: Summary::default(), flows: Vec::new(), watch: Vec::new() };
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
    /// Sequence number of the last announcement that only asked for the holder's slot; 0: none did.
    asked: u64,
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
        let news = self.news > Change::None;
        if news {
            self.announcer.told = self.collect();
        }
        let told = std::mem::take(&mut self.announcer.told);
        let nothing = Summary::default();
        for (holder, part) in self.audience() {
            let lost = self.announcer.lost.contains(&holder);
            let Some(state) = self.announcer.holders.get(&holder) else { continue };
            // It keeps nothing of this host's and was told so; there is nothing to say until that changes.
            if part == Part::None && !state.keeps && !self.routes.asks(holder, now.mono) {
                if self.trust == ClockTrust::Contradicted && !lost {
                    self.ask_seldom(now, holder, actions);
                }
                continue;
            }
            let told = told.binary_search_by_key(&holder, |told| told.holder).ok().map(|at| &told[at]);
            let summary = told.map_or(&nothing, |told| &told.summary);
            let urgent = self.routes.is_urgent(holder);
            let change = match () {
                () if state.seq == 0 || urgent => Change::Large,
                () if news => self.change(now, state, summary),
                () => Change::None,
            };
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
            state.renewed = if due { Some(now.slot) } else { state.renewed };
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
                flows: self.promises(holder, told.map_or(&[], |told| &told.flows)),
                jobs: self.statuses(summary),
                watch: told.map_or_else(Vec::new, |told| told.watch.clone()),
                measured: self.links.measured_ingress(holder).collect(),
                routes: self.routes.ask(holder, now.mono, self.config.slot),
            };
            actions.push(Action::Announce { holder, announcement });
        }
        self.announcer.told = told;
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
            let summary = PathSummary {
                job: flow.spec.job,
                path: flow.path.clone(),
                promised: flow.rates.first().copied().unwrap_or(flow.order),
                taken: flow.order,
                until: flow.until,
            };
            for holder in &flow.path.holders {
                let told = all.of(*holder);
                told.flows.push(flow.spec.flow);
                told.summary.add(&summary);
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
            flow.path.holders.clone().into_iter().map(move |holder| Concern { holder, job })
        };
        let of_job = |&job: &JobId| {
            let met = self.announcer.rendezvous.of(job);
            ingress.clone().into_iter().chain(met).map(move |holder| Concern { holder, job })
        };
        let flows = self.flows.values().flat_map(|flow| of_flow(flow));
        let mut all: Vec<Concern> = flows.chain(self.jobs.keys().flat_map(of_job)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// These flows as a holder of links is told of them.
    fn promises(&self, holder: HolderId, flows: &[FlowId]) -> Vec<FlowPromise> {
        let rounds_up = self.planted.is(Mutant::RoundedUp);
        let mut promises = Vec::with_capacity(flows.len());
        for flow in flows {
            let Some(flow) = self.flows.get(flow) else { continue };
            let Some(job) = self.jobs.get(&flow.spec.job) else { continue };
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
                delivered: if rounds_up { flow.demand } else { flow.delivered.min(flow.demand) },
                links: flow.path.iter().filter(held).map(|&l| self.links.get(l).link).collect(),
            });
        }
        promises
    }

    /// By how much what was last announced to a holder differs from now.
    fn change(&self, now: Now, state: &HolderState, is: &Summary) -> Change {
        let egress = is.paths.iter().filter_map(|path| path.path.first());
        let least = egress.map(|&l| self.links.get(l).capacity()).min();
        let least = least.unwrap_or(Rate::ZERO);
        let hysteresis = least.times(RATE_HYSTERESIS).max(Rate(1));
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
            if offer > hysteresis && Change::moving(offer, was.offer.max(is.offer)) == Change::Large {
                return Change::Large;
            }
        }
        // What others would do otherwise, if they knew: of a flow that ends when it was said to, nothing.
        let mut bandwidth = Rate::ZERO;
        let (mut before, mut after) = (was.paths.iter().peekable(), is.paths.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(was), Some(is)) => was.cmp(is),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let was = if order.is_le() { before.next() } else { None };
            let is = if order.is_ge() { after.next() } else { None };
            let by = match (was, is) {
                (Some(was), Some(is)) => {
                    let by = moved(was.promised, is.promised).max(moved(was.taken, is.taken));
                    any |= by > hysteresis;
                    // An end that is far away is told again long before anybody acts on it.
                    if counted_on(now.wall, was.until, is.until) { was.rate().max(by) } else { by }
                }
                (Some(was), None) if was.until > Nanos::ZERO && was.until <= now.wall => Rate::ZERO,
                (was, is) => was.or(is).map_or(Rate::ZERO, PathSummary::rate),
            };
            any |= order.is_ne();
            bandwidth = bandwidth.plus(by);
        }
        match Change::moving(bandwidth, least) {
            Change::Large => Change::Large,
            Change::Small | Change::None => {
                if any {
                    Change::Small
                } else {
                    Change::None
                }
            }
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
