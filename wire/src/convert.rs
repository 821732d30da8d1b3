//! Messages of [`crate::pb`] to and from announcements and feedback, checked on the way in.
//!
//! Encoding loses nothing: what [`announcement`] and [`feedback`] read is exactly what [`from_announcement`] and
//! [`from_feedback`] wrote. How the messages stay small is said at the head of the `.proto`.

mod routes;

use std::collections::HashMap;

use sluice_schedule::{
    Announcement, BootId, Bytes, Crowd, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId,
    LinkView, Nanos, PromiseSum, Rate, Refusal, Slot,
};

use crate::refusal::RefusalId;
use crate::{limits, pb};

/// A message that breaks a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message-malformed: {field} is {found}; allowed {allowed}.")]
pub struct Malformed {
    /// Path of the field in the message.
    pub field: &'static str,
    /// What it holds, or how many of them.
    pub found: u64,
    /// What it may hold.
    pub allowed: &'static str,
}

impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> Self {
        RefusalId::MessageMalformed.status(tonic::Code::InvalidArgument, malformed.to_string())
    }
}

const ALLOWED_FLOWS: &str = "0 to 8192 promises";
const ALLOWED_LINKS: &str = "0 to 16 links";
const ALLOWED_JOBS: &str = "0 to 256 jobs";
const ALLOWED_STATUSES: &str = "0 to 4352 statuses";
const ALLOWED_WATCH: &str = "0 to 4096 links";
const ALLOWED_SLOTS: &str = "0 to 32 slots, and at least one rate if there is a slot";

fn within(field: &'static str, found: usize, most: usize, allowed: &'static str) -> Result<(), Malformed> {
    if found > most { Err(Malformed { field, found: found as u64, allowed }) } else { Ok(()) }
}

/// Writes an announcement for `holder`.
pub fn from_announcement(holder: HolderId, a: &Announcement) -> pb::Announcement {
    let rounds = a.flows.chunk_by(|one, next| Header::of(one) == Header::of(next));
    let measured = a.measured.iter();
    pb::Announcement {
        holder: holder.0,
        host: a.host.0,
        boot: a.boot.0,
        seq: a.seq,
        slot: a.slot.0,
        rounds: rounds.map(|promises| from_round(holder, a.host, promises.iter())).collect(),
        jobs: a.jobs.iter().map(|s| from_status(a.host, a.boot, s)).collect(),
        watch: a.watch.iter().map(|l| fold_link(holder, *l)).collect(),
        measured: measured.map(|(l, r)| pb::Measured { link: fold_link(holder, *l), rate: r.0 }).collect(),
        routes: a.routes.iter().map(routes::from_question).collect(),
    }
}

/// Reads an announcement and the holder it is for.
pub fn announcement(wire: pb::Announcement) -> Result<(HolderId, Announcement), Malformed> {
    let (holder, host, boot) = (HolderId(wire.holder), HostId(wire.host), BootId(wire.boot));
    within("announcement.watch", wire.watch.len(), limits::WATCH, ALLOWED_WATCH)?;
    within("announcement.measured", wire.measured.len(), limits::WATCH, ALLOWED_WATCH)?;
    let measured = wire.measured.iter().map(|m| (unfold_link(holder, m.link), Rate(m.rate)));
    let announcement = Announcement {
        host,
        boot,
        seq: wire.seq,
        slot: Slot(wire.slot),
        flows: promises(holder, host, wire.rounds, limits::FLOWS)?,
        jobs: statuses(host, boot, &wire.jobs)?,
        watch: wire.watch.iter().map(|l| unfold_link(holder, *l)).collect(),
        measured: measured.collect(),
        routes: routes::questions(host, &wire.routes)?,
    };
    Ok((holder, announcement))
}

/// Writes `holder`'s feedback; a promise that several views list is written once.
pub fn from_feedback(holder: HolderId, f: &Feedback) -> pb::Feedback {
    let mut listed = Listed::default();
    let mut numbers: Vec<Vec<(usize, usize)>> = Vec::with_capacity(f.links.len());
    for view in &f.links {
        numbers.push(view.flows.iter().map(|p| listed.place(p)).collect());
    }
    let starts = listed.starts();
    let view = |(view, places): (&LinkView, Vec<(usize, usize)>)| pb::LinkView {
        link: fold_link(holder, view.link),
        capacity: view.capacity.0,
        cross: view.cross.0,
        load: from_rates(0, &view.load),
        slots: view.load.len() as u32,
        promises: places.into_iter().map(|(round, at)| starts[round] + at as u32).collect(),
        rest: view.rest.iter().map(from_sum).collect(),
    };
    pb::Feedback {
        holder: holder.0,
        boot: f.boot.0,
        seq: f.seq,
        slot: f.slot.0,
        warm: f.warm,
        refused: from_refusal(f.refused).into(),
        links: f.links.iter().zip(numbers).map(view).collect(),
        rounds: listed.rounds.iter().map(|r| from_round(holder, HostId(0), r.iter().copied())).collect(),
        jobs: f.jobs.iter().map(|s| from_status(HostId(0), BootId(0), s)).collect(),
        crowds: f.crowds.iter().map(|crowd| pb::Crowd { job: crowd.job.0, hosts: crowd.hosts }).collect(),
        routes: f.routes.iter().map(|route| routes::from_route(holder, route)).collect(),
    }
}

/// Reads feedback and the holder that sends it.
pub fn feedback(wire: pb::Feedback) -> Result<(HolderId, Feedback), Malformed> {
    let holder = HolderId(wire.holder);
    let listed = promises(holder, HostId(0), wire.rounds, limits::LISTED)?;
    within("feedback.links", wire.links.len(), limits::WATCH, ALLOWED_WATCH)?;
    let mut links = Vec::with_capacity(wire.links.len());
    for view in wire.links {
        let allowed = "0 to 64 promises";
        within("feedback.links.promises", view.promises.len(), LinkView::MAX_FLOWS, allowed)?;
        within("feedback.links.rest", view.rest.len(), LinkView::MAX_SUMS, "0 to 64 sums")?;
        let mut flows = Vec::with_capacity(view.promises.len());
        for number in view.promises {
            let allowed = "the number of a listed promise";
            let field = "feedback.links.promises";
            let promise = listed.get(number as usize);
            flows.push(promise.ok_or(Malformed { field, found: number.into(), allowed })?.clone());
        }
        links.push(LinkView {
            link: unfold_link(holder, view.link),
            capacity: Rate(view.capacity),
            cross: Rate(view.cross),
            load: rates("feedback.links.slots", 0, &view.load, view.slots)?,
            flows,
            rest: view.rest.into_iter().map(sum).collect::<Result<_, _>>()?,
        });
    }
    within("feedback.crowds", wire.crowds.len(), limits::JOBS, ALLOWED_JOBS)?;
    let crowds = wire.crowds.iter().map(|crowd| Crowd { job: JobId(crowd.job), hosts: crowd.hosts });
    let feedback = Feedback {
        boot: BootId(wire.boot),
        seq: wire.seq,
        slot: Slot(wire.slot),
        warm: wire.warm,
        refused: refusal(wire.refused)?,
        links,
        jobs: statuses(HostId(0), BootId(0), &wire.jobs)?,
        crowds: crowds.collect(),
        routes: routes::routes(holder, &wire.routes)?,
    };
    Ok((holder, feedback))
}

/// What the promises of one round have in common.
#[derive(PartialEq, Eq, Hash)]
struct Header {
    sender: HostId,
    job: JobId,
    promoted: bool,
    key: Nanos,
    t0: Nanos,
    slots: usize,
}

impl Header {
    fn of(promise: &FlowPromise) -> Header {
        let &FlowPromise { job, promoted, key, t0, .. } = promise;
        Header { sender: promise.flow.sender(), job, promoted, key, t0, slots: promise.rates.len() }
    }
}

/// Promises collected over several views, each once.
#[derive(Default)]
struct Listed<'a> {
    rounds: Vec<Vec<&'a FlowPromise>>,
    headers: HashMap<Header, usize>,
    places: HashMap<FlowId, (usize, usize)>,
}

impl<'a> Listed<'a> {
    /// Round and place in it of this promise.
    fn place(&mut self, promise: &'a FlowPromise) -> (usize, usize) {
        if let Some(&(round, at)) = self.places.get(&promise.flow)
            && self.rounds[round][at] == promise
        {
            return (round, at);
        }
        let round = *self.headers.entry(Header::of(promise)).or_insert_with(|| {
            self.rounds.push(Vec::new());
            self.rounds.len() - 1
        });
        self.rounds[round].push(promise);
        let place = (round, self.rounds[round].len() - 1);
        self.places.insert(promise.flow, place);
        place
    }

    /// The number of each round's first promise.
    fn starts(&self) -> Vec<u32> {
        let starts = self.rounds.iter().scan(0, |sum, round| {
            let start = *sum;
            *sum += round.len() as u32;
            Some(start)
        });
        starts.collect()
    }
}

/// Writes promises with one header; none at all is a round of nothing.
fn from_round<'a>(holder: HolderId, host: HostId, promises: impl Iterator<Item = &'a FlowPromise>) -> pb::Round {
    let mut round = pb::Round::default();
    let mut before = (0, 0, 0, 0);
    for promise in promises {
        if round.promises.is_empty() {
            round.sender = promise.flow.sender().0 ^ host.0;
            (round.job, round.promoted) = (promise.job.0, promise.promoted);
            (round.key, round.t0, round.slots) = (promise.key.0, promise.t0.0, promise.rates.len() as u32);
        }
        let lasts = promise.until.minus(promise.t0).0;
        let now = (promise.takes.0, promise.demand.0, promise.delivered.0, lasts);
        round.promises.push(pb::Promise {
            flow: promise.flow.0 as u32,
            takes: less(now.0, before.0),
            rates: from_rates(promise.takes.0, &promise.rates),
            demand: less(now.1, before.1),
            delivered: less(now.2, before.2),
            lasts: less(now.3, before.3),
            links: promise.links.iter().map(|l| fold_link(holder, *l)).collect(),
        });
        before = now;
    }
    round
}

fn promises(
    holder: HolderId,
    host: HostId,
    rounds: Vec<pb::Round>,
    most: usize,
) -> Result<Vec<FlowPromise>, Malformed> {
    let total = rounds.iter().map(|round| round.promises.len()).sum();
    let allowed = if most == limits::FLOWS { ALLOWED_FLOWS } else { "0 to 16384 promises" };
    within("rounds.promises", total, most, allowed)?;
    let mut out = Vec::with_capacity(total);
    for round in rounds {
        let mut now = (0, 0, 0, 0);
        let t0 = Nanos(round.t0);
        for promise in round.promises {
            within("rounds.promises.links", promise.links.len(), limits::LINKS_PER_FLOW, ALLOWED_LINKS)?;
            let lasts = plus(now.3, promise.lasts);
            now = (plus(now.0, promise.takes), plus(now.1, promise.demand), plus(now.2, promise.delivered), lasts);
            out.push(FlowPromise {
                flow: FlowId(u64::from(round.sender ^ host.0) << 32 | u64::from(promise.flow)),
                job: JobId(round.job),
                promoted: round.promoted,
                key: Nanos(round.key),
                t0,
                takes: Rate(now.0),
                // At the end of time nothing is after its beginning; that is as good as not known.
                until: Some(t0.plus(Nanos(lasts))).filter(|until| *until > t0).unwrap_or(Nanos::ZERO),
                rates: rates("rounds.slots", now.0, &promise.rates, round.slots)?,
                demand: Bytes(now.1),
                delivered: Bytes(now.2),
                links: promise.links.iter().map(|l| unfold_link(holder, *l)).collect(),
            });
        }
    }
    Ok(out)
}

fn from_sum(rest: &PromiseSum) -> pb::PromiseSum {
    let FlowPromise { job, promoted, key, t0, takes, demand, delivered, .. } = rest.sum;
    pb::PromiseSum {
        flows: rest.flows,
        of_job: rest.of_job,
        job: job.0,
        promoted,
        key: key.0,
        t0: t0.0,
        takes: takes.0,
        demand: demand.0,
        delivered: delivered.0,
        rates: from_rates(takes.0, &rest.sum.rates),
        slots: rest.sum.rates.len() as u32,
    }
}

fn sum(wire: pb::PromiseSum) -> Result<PromiseSum, Malformed> {
    let sum = FlowPromise {
        job: JobId(wire.job),
        promoted: wire.promoted,
        key: Nanos(wire.key),
        t0: Nanos(wire.t0),
        takes: Rate(wire.takes),
        demand: Bytes(wire.demand),
        delivered: Bytes(wire.delivered),
        rates: rates("feedback.links.rest.slots", wire.takes, &wire.rates, wire.slots)?,
        ..FlowPromise::default()
    };
    Ok(PromiseSum { flows: wire.flows, of_job: wire.of_job, sum })
}

fn from_status(host: HostId, boot: BootId, status: &JobStatus) -> pb::JobStatus {
    pb::JobStatus {
        job: status.job.0,
        origin: status.origin.0 ^ host.0,
        boot: status.boot.0 ^ boot.0,
        seq: status.seq,
        round: status.round,
        t0: status.t0.0,
        key: status.key.0,
        round_time: status.round_time.0,
        period: status.period.0,
        offer_plus_one: status.offer.0.wrapping_add(1),
        promoted: status.promoted,
    }
}

fn statuses(host: HostId, boot: BootId, wire: &[pb::JobStatus]) -> Result<Vec<JobStatus>, Malformed> {
    within("jobs", wire.len(), limits::STATUSES, ALLOWED_STATUSES)?;
    let status = |s: &pb::JobStatus| JobStatus {
        job: JobId(s.job),
        origin: HostId(s.origin ^ host.0),
        boot: BootId(s.boot ^ boot.0),
        seq: s.seq,
        round: s.round,
        t0: Nanos(s.t0),
        key: Nanos(s.key),
        round_time: Nanos(s.round_time),
        period: Nanos(s.period),
        offer: Rate(s.offer_plus_one.wrapping_sub(1)),
        promoted: s.promoted,
    };
    Ok(wire.iter().map(status).collect())
}

fn from_refusal(refusal: Option<Refusal>) -> pb::Refusal {
    match refusal {
        None => pb::Refusal::None,
        Some(Refusal::SlotGuard) => pb::Refusal::SlotGuard,
        Some(Refusal::Old) => pb::Refusal::Old,
        Some(Refusal::Quota) => pb::Refusal::Quota,
        Some(Refusal::UnknownLink) => pb::Refusal::UnknownLink,
        Some(Refusal::ForeignFlow) => pb::Refusal::ForeignFlow,
        Some(Refusal::LinkNotYours) => pb::Refusal::LinkNotYours,
        Some(Refusal::UnknownHost) => pb::Refusal::UnknownHost,
    }
}

fn refusal(wire: i32) -> Result<Option<Refusal>, Malformed> {
    match pb::Refusal::try_from(wire) {
        Ok(pb::Refusal::None) => Ok(None),
        Ok(pb::Refusal::SlotGuard) => Ok(Some(Refusal::SlotGuard)),
        Ok(pb::Refusal::Old) => Ok(Some(Refusal::Old)),
        Ok(pb::Refusal::Quota) => Ok(Some(Refusal::Quota)),
        Ok(pb::Refusal::UnknownLink) => Ok(Some(Refusal::UnknownLink)),
        Ok(pb::Refusal::ForeignFlow) => Ok(Some(Refusal::ForeignFlow)),
        Ok(pb::Refusal::LinkNotYours) => Ok(Some(Refusal::LinkNotYours)),
        Ok(pb::Refusal::UnknownHost) => Ok(Some(Refusal::UnknownHost)),
        Err(_) => Err(Malformed { field: "feedback.refused", found: wire as u32 as u64, allowed: "0 to 7" }),
    }
}

fn fold_link(holder: HolderId, link: LinkId) -> u64 {
    link.0 ^ u64::from(holder.0) << 32
}

fn unfold_link(holder: HolderId, link: u64) -> LinkId {
    LinkId(link ^ u64::from(holder.0) << 32)
}

/// The difference modulo 2^64, short if the two are near.
fn less(value: u64, before: u64) -> i64 {
    value.wrapping_sub(before) as i64
}

/// The inverse of [`less`].
fn plus(before: u64, difference: i64) -> u64 {
    before.wrapping_add(difference as u64)
}

/// The rates up to the first of the trailing repeats, each less the one before, the first less `before`.
fn from_rates(mut before: u64, rates: &[Rate]) -> Vec<i64> {
    let Some(last) = rates.last() else { return Vec::new() };
    let repeats = rates.iter().rev().take_while(|rate| *rate == last).count();
    let told = rates[..rates.len() - repeats + 1].iter();
    told.map(|rate| less(rate.0, std::mem::replace(&mut before, rate.0))).collect()
}

/// The inverse of [`from_rates`], with the last rate repeated up to `slots`; both lengths bounded.
fn rates(field: &'static str, before: u64, told: &[i64], slots: u32) -> Result<Vec<Rate>, Malformed> {
    let slots = slots as usize;
    if slots > limits::HORIZON || told.len() > slots || (told.is_empty() && slots > 0) {
        return Err(Malformed { field, found: slots as u64, allowed: ALLOWED_SLOTS });
    }
    let mut full = Vec::with_capacity(slots);
    let mut last = before;
    for difference in told {
        last = plus(last, *difference);
        full.push(Rate(last));
    }
    full.resize(slots, Rate(last));
    Ok(full)
}

#[cfg(test)]
mod tests;
