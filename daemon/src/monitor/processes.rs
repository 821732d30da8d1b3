//! A process of a job: what its page or its environment says, its connections and its rounds.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use sluice_progress::{Liveness, PageView, Pattern as PagePattern, Peer, PeerKind, Reader, Role as PageRole, Source};
use sluice_schedule::{Bytes, JobId, Nanos, Pattern};

use super::crowd::Sight;
use super::environ::{Environ, PlanName, label};
use super::inferred::{Claim, Claims};
use super::plans::{JobPlan, Work};
use super::roles::{self, Connection};
use super::round::{Rounds, Sent, Step};
use super::shares::Tenant;
use super::sockets::Known;
use super::tuple::{NetNs, Tuple};
use crate::config::JobSource;
use crate::fabric::Fabric;
use crate::privilege::eyes::Eyes;

/// Leads are worked out anew when the round changed by more than this part.
const LEAD_CHANGE: u64 = 8;

/// A process that takes part in a job.
#[derive(Clone, Debug)]
pub struct Process {
    pub job: JobId,
    pub job_name: String,
    /// How it was recognised: the producer of its page, or a word of the environment.
    pub source: String,
    pub pattern: Pattern,
    pub rank: Option<u32>,
    /// Ranks of the job; 0: not known.
    pub ranks: u32,
    /// Its user; only sockets of this uid are its own.
    pub uid: Option<u32>,
    pub pid: Option<u32>,
    /// The last reading of its page.
    pub view: Option<PageView>,
    pub rounds: Rounds,
    pub plan: Option<PlanName>,
    /// Where its job follows a plan: the shares of all flows that leave it, in parts. 0: it follows none.
    pub plan_parts: u64,
    /// A flow joined in mid-round.
    pub resplit: bool,
    /// It has begun to send after a pause: its page is read at the next look.
    pub woke: bool,
    /// The round that the present leads were worked out from.
    lead_round: Bytes,
    /// Its part in a parameter-server job, by its environment.
    pub role: PageRole,
    /// The network namespace it lives in.
    pub netns: NetNs,
    /// Connections that no page names.
    pub claims: Claims,
    /// Whose places it takes.
    pub tenant: Tenant,
    /// Do its connections exist?
    pub sight: Sight,
}

impl Process {
    /// The process behind a page; `None` if the configuration leaves its kind out or it cannot be read.
    pub fn of_page(reader: &mut Reader, allowed: &[JobSource], environ: bool, eyes: &dyn Eyes) -> Option<Process> {
        let view = reader.read().ok()?;
        let source = match view.source {
            Source::NcclProfiler => JobSource::Nccl,
            Source::PslitePreload => JobSource::PsLite,
            Source::GenericPreload => JobSource::Torch,
            Source::Application | Source::Unknown => JobSource::Env,
        };
        if !allowed.contains(&source) {
            return None;
        }
        let pid = match reader.owner() {
            Liveness::Alive { pid } => pid,
            Liveness::Dead | Liveness::Foreign { .. } => return None,
        };
        let unnamed = view.job_id.is_empty();
        let environ = pid.filter(|_| environ).and_then(|pid| eyes.environ(pid)).unwrap_or_default();
        let mut process = Process::of_view(view, source, Some(reader.uid()));
        process.pid = pid;
        process.netns = eyes.netns(pid.unwrap_or_else(std::process::id)).unwrap_or_default();
        process.plan = environ.plan;
        if unnamed && !environ.job_id.is_empty() {
            (process.job, process.job_name) = (job_of(process.uid, &environ.job_id), environ.job_id);
        }
        Some(process)
    }

    /// The process that a page describes; `source`: what kind of page it is.
    pub(super) fn of_view(view: PageView, source: JobSource, uid: Option<u32>) -> Process {
        let mut job_name = label(view.job_id.as_bytes());
        if job_name.is_empty() {
            job_name = match view.comm_id {
                0 => format!("pid-{}", view.pid),
                comm => format!("comm-{comm:016x}"),
            };
        }
        let source = if view.producer.is_empty() { source.word().to_owned() } else { words(&view.producer) };
        Process {
            job: job_of(uid, &job_name),
            job_name,
            source,
            pattern: roles::pattern(&view),
            rank: view.rank,
            ranks: view.nranks,
            uid,
            pid: None,
            rounds: Rounds::default(),
            plan: None,
            plan_parts: 0,
            resplit: false,
            woke: false,
            lead_round: Bytes::ZERO,
            role: PageRole::Peer,
            netns: NetNs::default(),
            claims: Claims::default(),
            tenant: Tenant::default(),
            sight: Sight::default(),
            view: Some(view),
        }
    }

    /// A process without a page; `None` if its environment names no job that is looked for.
    pub fn of_pid(known: &Known, environ: &Environ, allowed: &[JobSource]) -> Option<Process> {
        if environ.job_id.is_empty() || !allowed.contains(&environ.source) {
            return None;
        }
        Some(Process {
            job: job_of(Some(known.uid), &environ.job_id),
            job_name: environ.job_id.clone(),
            source: format!("inferred ({})", environ.source.word()),
            pattern: environ.pattern(),
            rank: environ.rank,
            ranks: environ.ranks,
            uid: Some(known.uid),
            pid: Some(known.pid),
            view: None,
            rounds: Rounds::default(),
            plan: environ.plan.clone(),
            plan_parts: 0,
            resplit: false,
            woke: false,
            lead_round: Bytes::ZERO,
            role: environ.role(),
            netns: known.place.netns,
            claims: Claims::default(),
            tenant: Tenant::default(),
            sight: Sight::default(),
        })
    }

    /// Takes a new reading of the page; true if its connections changed.
    pub fn update(&mut self, view: PageView) -> bool {
        let changed = match &self.view {
            None => true,
            Some(old) => {
                let facts = |v: &PageView| (v.pattern, v.ring_prev, v.ring_next, v.peers.len());
                let same = |(a, b): (&sluice_progress::Peer, &sluice_progress::Peer)| {
                    (a.rank, a.kind, a.local, a.remote) == (b.rank, b.kind, b.local, b.remote)
                };
                facts(old) != facts(&view) || !old.peers.iter().zip(&view.peers).all(same)
            }
        };
        if self.pattern == Pattern::Unknown {
            self.pattern = roles::pattern(&view);
        }
        self.view = Some(view);
        if changed {
            self.sight.changed();
        }
        changed
    }

    /// Its connections to other hosts, each with its part: the plan's, if its job follows one.
    pub fn connections(&mut self, fabric: &Fabric, plan: Option<&JobPlan>) -> Vec<Connection> {
        self.plan_parts = plan.zip(self.rank).map_or(0, |(plan, rank)| plan.work.parts_of(rank));
        match &self.view {
            Some(view) => {
                let lead = self.lead_base();
                self.lead_round = lead;
                let view = with_claims(view, &self.claims);
                let planned = plan.and_then(|plan| match &plan.work {
                    Work::Trees(flows) => roles::planned(&view, fabric, lead, flows),
                    Work::Lanes(lanes) => lanes.connections(&view, fabric, lead),
                });
                planned.unwrap_or_else(|| roles::connections(&view, fabric, lead))
            }
            None => {
                let local = |ip| fabric.link_of(ip).is_some();
                let view = self.claims.view(self.role, self.ranks, local);
                if self.pattern == Pattern::Unknown {
                    self.pattern = roles::pattern(&view);
                }
                self.lead_round = self.lead_base();
                let mut found = roles::connections(&view, fabric, self.lead_round);
                // A direction that carries no tensors is nobody's flow.
                found.iter_mut().for_each(|found| found.sends &= self.claims.sends(&found.tuple));
                found
            }
        }
    }

    /// Goes on with the rounds.
    ///
    /// `moved`: acknowledged on all its flows since the last call.
    pub fn step(&mut self, now: Nanos, sent: Sent, moved: Bytes) -> Step {
        match &self.view {
            Some(view) if !self.rounds.ignored(now) => self.rounds.page(now, view, sent, moved),
            _ => self.rounds.burst(now, sent, moved),
        }
    }

    /// Is the size of the round under way a guess: said by no page and no plan, and not known from counts?
    pub fn guesses(&self) -> bool {
        self.view.is_none() && self.plan_parts == 0 && self.rounds.active && !self.rounds.exact
    }

    /// Has it received something since it said this?
    pub fn receives_since(&mut self, before: Option<Bytes>) {
        if self.received() != before {
            self.sight.stir();
        }
    }

    /// Tells it from others where not all are looked at in one slot.
    pub fn turn(&self) -> u32 {
        self.pid.unwrap_or(0)
    }

    /// Bytes the process says it took from its sockets; `None` without a page.
    pub fn received(&self) -> Option<Bytes> {
        self.view.as_ref().map(|view| Bytes(view.rx_bytes))
    }

    /// Do the leads of its flows, of a ring or a plan, still fit its rounds?
    pub fn lead_moved(&self) -> bool {
        let ring = match &self.view {
            Some(view) => view.pattern == PagePattern::Ring,
            None => self.pattern == Pattern::Ring,
        };
        let (was, is) = (self.lead_round.0, self.lead_base().0);
        (ring || self.plan_parts > 0) && was.abs_diff(is) > was.max(is) / LEAD_CHANGE
    }

    /// Bytes of the round that leads are worked out from.
    fn lead_base(&self) -> Bytes {
        if self.plan_parts > 0 {
            return self.rounds.demand;
        }
        let hinted = self.view.as_ref().map_or(0, |view| {
            let ranks = u64::from(view.nranks.max(2));
            // A ring sends 2(n−1)/n of the tensor.
            (view.hint_iter_bytes / ranks).saturating_mul(2 * (ranks - 1))
        });
        self.rounds.demand.max(Bytes(hinted))
    }
}

/// A job is its user and its name: what one user says is never about another's job. The same on all hosts, as the uids of a
/// cluster are; where they are not, the operator may have it be its name alone.
pub fn job_of(uid: Option<u32>, name: &str) -> JobId {
    match uid {
        Some(uid) => JobId::of(&format!("{uid}/{name}")),
        None => JobId::of(name),
    }
}

/// The page's view with connections that it had no room for. They send much, so they are taken for ones that send.
fn with_claims<'a>(view: &'a PageView, claims: &Claims) -> Cow<'a, PageView> {
    let on_page: BTreeSet<Tuple> = view.peers.iter().map(|peer| Tuple::of(peer.local, peer.remote)).collect();
    let missing: Vec<&Claim> = claims.iter().filter(|claim| claim.sends && !on_page.contains(&claim.tuple)).collect();
    if missing.is_empty() {
        return Cow::Borrowed(view);
    }
    let mut all = view.clone();
    let ranks: HashMap<IpAddr, Option<u32>> =
        view.peers.iter().rev().map(|peer| (peer.remote.ip(), peer.rank)).collect();
    for claim in missing {
        let claim = claim.tuple;
        let remote = claim.remote_address();
        let rank = ranks.get(&remote.ip()).copied().flatten();
        let local = std::net::SocketAddr::new(claim.local_ip(), claim.local.1);
        all.peers.push(Peer { rank, kind: PeerKind::Connected, local, remote, cookie: 0, tx_bytes: 0 });
    }
    Cow::Owned(all)
}

/// A producer's name and version: labels with spaces between them.
fn words(text: &str) -> String {
    text.split(' ').map(|word| label(word.as_bytes())).collect::<Vec<_>>().join(" ")
}
