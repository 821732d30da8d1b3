//! Messages of [`crate::pb`] to and from announcements and feedback, checked on the way in.
//!
//! Encoding loses nothing: what [`announcement`] and [`feedback`] read is exactly what [`from_announcement`] and
//! [`from_feedback`] wrote. How the messages stay small is said at the head of the `.proto`.

use std::collections::HashMap;

use sluice_schedule::{
    Announcement, BootId, Bytes, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId, LinkView,
    Nanos, Rate, Refusal, Slot,
};

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
        tonic::Status::invalid_argument(malformed.to_string())
    }
}

const ALLOWED_FLOWS: &str = "0 to 8192 promises";
const ALLOWED_LINKS: &str = "0 to 16 links";
const ALLOWED_JOBS: &str = "0 to 256 jobs";
const ALLOWED_WATCH: &str = "0 to 4096 links";
const ALLOWED_SLOTS: &str = "0 to 32 slots, and at least one rate if there is a slot";

fn within(field: &'static str, found: usize, most: usize, allowed: &'static str) -> Result<(), Malformed> {
    if found > most { Err(Malformed { field, found: found as u64, allowed }) } else { Ok(()) }
}

/// Writes an announcement for `holder`.
pub fn from_announcement(holder: HolderId, a: &Announcement) -> pb::Announcement {
    let mut rounds: Vec<pb::Round> = Vec::new();
    for promise in &a.flows {
        let round = round_of(a.host, promise);
        if rounds.last().is_none_or(|last| !same_round(last, &round)) {
            rounds.push(round);
        }
        if let Some(last) = rounds.last_mut() {
            last.promises.push(from_promise(holder, promise));
        }
    }
    let measured = a.measured.iter();
    pb::Announcement {
        holder: holder.0,
        host: a.host.0,
        boot: a.boot.0,
        seq: a.seq,
        slot: a.slot.0,
        rounds,
        jobs: a.jobs.iter().map(|s| from_status(a.host, a.boot, s)).collect(),
        watch: a.watch.iter().map(|l| fold_link(holder, *l)).collect(),
        measured: measured.map(|(l, r)| pb::Measured { link: fold_link(holder, *l), rate: r.0 }).collect(),
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
    };
    Ok((holder, announcement))
}

/// Writes `holder`'s feedback; a promise that several views list is written once.
pub fn from_feedback(holder: HolderId, f: &Feedback) -> pb::Feedback {
    let mut listed = Listed::default();
    let mut numbers: Vec<Vec<(usize, usize)>> = Vec::with_capacity(f.links.len());
    for view in &f.links {
        numbers.push(view.flows.iter().map(|p| listed.place(holder, p)).collect());
    }
    let starts = listed.starts();
    let view = |(view, places): (&LinkView, Vec<(usize, usize)>)| pb::LinkView {
        link: fold_link(holder, view.link),
        capacity: view.capacity.0,
        cross: view.cross.0,
        load: cut_repeats(&view.load),
        slots: view.load.len() as u32,
        promises: places.into_iter().map(|(round, at)| starts[round] + at as u32).collect(),
    };
    pb::Feedback {
        holder: holder.0,
        boot: f.boot.0,
        seq: f.seq,
        slot: f.slot.0,
        warm: f.warm,
        refused: from_refusal(f.refused).into(),
        links: f.links.iter().zip(numbers).map(view).collect(),
        rounds: listed.rounds,
        jobs: f.jobs.iter().map(|s| from_status(HostId(0), BootId(0), s)).collect(),
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
        within("feedback.links.promises", view.promises.len(), LinkView::MOST_FLOWS, allowed)?;
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
            load: full_length("feedback.links.slots", &view.load, view.slots)?,
            flows,
        });
    }
    let feedback = Feedback {
        boot: BootId(wire.boot),
        seq: wire.seq,
        slot: Slot(wire.slot),
        warm: wire.warm,
        refused: refusal(wire.refused)?,
        links,
        jobs: statuses(HostId(0), BootId(0), &wire.jobs)?,
    };
    Ok((holder, feedback))
}

/// Promises collected over several views, each once.
#[derive(Default)]
struct Listed {
    rounds: Vec<pb::Round>,
    headers: HashMap<(HostId, JobId, bool, Nanos, Nanos, usize), usize>,
    places: HashMap<FlowId, (usize, usize)>,
}

impl Listed {
    /// Round and place in it of this promise.
    fn place(&mut self, holder: HolderId, promise: &FlowPromise) -> (usize, usize) {
        let header =
            (promise.flow.sender(), promise.job, promise.promoted, promise.key, promise.t0, promise.rates.len());
        let round = *self.headers.entry(header).or_insert_with(|| {
            self.rounds.push(round_of(HostId(0), promise));
            self.rounds.len() - 1
        });
        let promises = &mut self.rounds[round].promises;
        let known = self.places.get(&promise.flow).filter(|place| place.0 == round);
        if let Some(&place) = known
            && same_promise(holder, &promises[place.1], promise)
        {
            return place;
        }
        promises.push(from_promise(holder, promise));
        let place = (round, promises.len() - 1);
        self.places.insert(promise.flow, place);
        place
    }

    /// The number of each round's first promise.
    fn starts(&self) -> Vec<u32> {
        let ends = self.rounds.iter().scan(0, |sum, round| {
            let start = *sum;
            *sum += round.promises.len() as u32;
            Some(start)
        });
        ends.collect()
    }
}

fn round_of(host: HostId, promise: &FlowPromise) -> pb::Round {
    pb::Round {
        job: promise.job.0,
        promoted: promise.promoted,
        key: promise.key.0,
        t0: promise.t0.0,
        slots: promise.rates.len() as u32,
        promises: Vec::new(),
        sender: promise.flow.sender().0 ^ host.0,
    }
}

fn same_round(a: &pb::Round, b: &pb::Round) -> bool {
    (a.sender, a.job, a.promoted, a.key, a.t0, a.slots) == (b.sender, b.job, b.promoted, b.key, b.t0, b.slots)
}

fn from_promise(holder: HolderId, promise: &FlowPromise) -> pb::Promise {
    pb::Promise {
        flow: promise.flow.0 as u32,
        offer: promise.offer.0,
        rates: cut_repeats(&promise.rates),
        demand: promise.demand.0,
        delivered: promise.delivered.0,
        links: promise.links.iter().map(|l| fold_link(holder, *l)).collect(),
    }
}

/// Is `wire`, written in feedback for the same round, this promise?
fn same_promise(holder: HolderId, wire: &pb::Promise, promise: &FlowPromise) -> bool {
    let links = promise.links.iter().map(|l| fold_link(holder, *l));
    (wire.flow, wire.offer, wire.demand, wire.delivered)
        == (promise.flow.0 as u32, promise.offer.0, promise.demand.0, promise.delivered.0)
        && wire.rates == cut_repeats(&promise.rates)
        && wire.links.iter().copied().eq(links)
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
        for promise in round.promises {
            within("rounds.promises.links", promise.links.len(), limits::LINKS_PER_FLOW, ALLOWED_LINKS)?;
            out.push(FlowPromise {
                flow: FlowId(u64::from(round.sender ^ host.0) << 32 | u64::from(promise.flow)),
                job: JobId(round.job),
                promoted: round.promoted,
                key: Nanos(round.key),
                t0: Nanos(round.t0),
                offer: Rate(promise.offer),
                rates: full_length("rounds.slots", &promise.rates, round.slots)?,
                demand: Bytes(promise.demand),
                delivered: Bytes(promise.delivered),
                links: promise.links.iter().map(|l| unfold_link(holder, *l)).collect(),
            });
        }
    }
    Ok(out)
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
    }
}

fn statuses(host: HostId, boot: BootId, wire: &[pb::JobStatus]) -> Result<Vec<JobStatus>, Malformed> {
    within("jobs", wire.len(), limits::JOBS, ALLOWED_JOBS)?;
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
        Err(_) => Err(Malformed { field: "feedback.refused", found: wire as u32 as u64, allowed: "0 to 5" }),
    }
}

fn fold_link(holder: HolderId, link: LinkId) -> u64 {
    link.0 ^ u64::from(holder.0) << 32
}

fn unfold_link(holder: HolderId, link: u64) -> LinkId {
    LinkId(link ^ u64::from(holder.0) << 32)
}

/// The rates up to the first of the trailing repeats.
fn cut_repeats(rates: &[Rate]) -> Vec<u64> {
    let Some(last) = rates.last() else { return Vec::new() };
    let repeats = rates.iter().rev().take_while(|rate| *rate == last).count();
    rates[..rates.len() - repeats + 1].iter().map(|rate| rate.0).collect()
}

/// `rates` with the last repeated up to `slots`; both bounded.
fn full_length(field: &'static str, rates: &[u64], slots: u32) -> Result<Vec<Rate>, Malformed> {
    let slots = slots as usize;
    if slots > limits::HORIZON || rates.len() > slots || (rates.is_empty() && slots > 0) {
        return Err(Malformed { field, found: slots as u64, allowed: ALLOWED_SLOTS });
    }
    let mut full = Vec::with_capacity(slots);
    full.extend(rates.iter().map(|rate| Rate(*rate)));
    if let Some(&last) = full.last() {
        full.resize(slots, last);
    }
    Ok(full)
}

#[cfg(test)]
mod tests;
