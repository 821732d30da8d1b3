//! Whose bytes had a link while a flow wanted to send: of the time in which the network limited a job, the part that its own
//! bytes take at the link's rate is the link's, the rest is others', as far as their bytes explain it.

use sluice_schedule::{Bytes, Nanos, Rate};

use crate::seen::{FlowSeen, Held, LinkSeen, Seen};
use crate::share::Cause;

/// A link that carries this part of what it can is full: headers, reserves and edges of slots are the rest.
const FULL: f64 = 0.82;
/// Where this part of what was sent was sent again, and no queue stands, loss is what takes the time.
const LOSSY: f64 = 0.003;
/// A queue that adds this to a round trip ...
const QUEUE: Nanos = Nanos::from_millis(1);
/// ... or so many times the least round trip, the larger of the two, stands.
const QUEUE_RTTS: u64 = 3;
/// Links that are used to this part of the most used one are used alike.
const ALIKE: f64 = 0.9;
/// So many times what is on its way, and this, a flow has written where it has more to send.
const FLIES: f64 = 1.5;
const SLACK: Bytes = Bytes(32 << 10);
/// A flow within this part of its order is held by it.
const AT_ORDER: f64 = 0.8;

/// What a flow lost over a round, beside what it lost in the slot that is looked at: recovery takes longer than a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Loss {
    /// Segments sent again in the round.
    pub resent: f64,
    /// Segments delivered in it.
    pub delivered: f64,
    /// Mean of what the queue added to a round trip, ns.
    pub queueing: f64,
    /// Least round trip, ns.
    pub rtt_min: f64,
}

impl Loss {
    /// Does a queue stand on the way?
    fn stands(&self) -> bool {
        self.queueing > (QUEUE.0 as f64).max(self.rtt_min * QUEUE_RTTS as f64)
    }

    fn takes_time(&self) -> bool {
        self.resent > LOSSY * (self.resent + self.delivered) && !self.stands()
    }
}

/// Has a flow more to send than what is on its way? A queue on the way back, of acknowledgements, makes its round trips longer
/// too, and does not hold it up.
pub(crate) fn has_more(flow: &FlowSeen, length: Nanos) -> bool {
    let rate = Rate::needed(flow.delivered, length);
    let flies = rate.over(flow.queueing.plus(flow.rtt_min));
    flow.queued.0 as f64 > FLIES * flies.0 as f64 + SLACK.0 as f64
}

/// One link, as the host that saw it says, with the job's place there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On<'a> {
    pub seen: &'a Seen,
    pub link: &'a LinkSeen,
    pub job: u32,
}

impl On<'_> {
    /// Time that so many bytes take of the link, ns.
    fn takes(&self, bytes: f64) -> f64 {
        bytes * 8e9 / self.link.capacity.0.max(1) as f64
    }

    fn own(&self) -> f64 {
        let mine = self.link.jobs.iter().filter(|of| of.job == self.job);
        self.takes(mine.map(|of| of.bytes.0 as f64).sum())
    }

    /// Time of the link by other causes than this job in the slot, ns.
    fn others(&self) -> Vec<(Cause, f64)> {
        let length = self.seen.length().0 as f64;
        let link = || self.link.name.clone();
        let rate = |rate: Rate| rate.ratio_of(self.link.capacity).min(1.0) * length;
        let jobs = self.link.jobs.iter().filter(|of| of.job != self.job);
        let mut others: Vec<(Cause, f64)> = jobs
            .map(|of| {
                let job = self.seen.job_name(of.job).to_owned();
                (Cause::Job { link: link(), job }, self.takes(of.bytes.0 as f64))
            })
            .collect();
        others.push((Cause::Job { link: link(), job: String::new() }, rate(self.link.promised)));
        others.push((Cause::Unmanaged { link: link() }, rate(self.link.other)));
        others.retain(|(_, time)| *time > 0.0);
        others
    }

    /// Part of what it can carry that it carried.
    pub fn used(&self) -> f64 {
        let all = self.own() + self.others().iter().map(|(_, time)| time).sum::<f64>();
        all / (self.seen.length().0 as f64).max(1.0)
    }

    pub fn is_full(&self) -> bool {
        self.link.capacity.0 > 0 && self.used() >= FULL
    }
}

/// The part of a slot that is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// For so long the network limited the job, ns.
    pub time: f64,
    /// The part of the slot in which the round was.
    pub in_round: f64,
    /// The part of that which is asked about.
    pub share: f64,
}

/// What that time went for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Taken {
    /// The job's own bytes at the link's rate: the link, the time, and how full of all bytes it was.
    pub own: Option<(String, f64, f64)>,
    /// What held it back beside.
    pub others: Vec<(Cause, f64)>,
    /// Nothing is lost, no queue stands and no link is full: it had no more to send than it sent, ns.
    pub idle: f64,
}

impl Taken {
    /// Takes out the time that nothing explains, ns: a way that let less through, or a flow that seemed to have no more.
    pub fn unexplained(&mut self) -> f64 {
        let is_path = |cause: &Cause| matches!(cause, Cause::Path { .. });
        let path: f64 = self.others.iter().filter(|(cause, _)| is_path(cause)).map(|(_, time)| time).sum();
        self.others.retain(|(cause, _)| !is_path(cause));
        path + std::mem::take(&mut self.idle)
    }
}

/// What that time went for. `links`: those of the flow's path, its sender's own first; `flow`: the one that was looked at, `None`
/// for what arrives.
pub(crate) fn causes(links: &[On<'_>], flow: Option<(&FlowSeen, Loss)>, to: &str, asked: Asked) -> Taken {
    let path = || Cause::Path { to: to.to_owned() };
    let Asked { time, in_round, share } = asked;
    let known = || links.iter().filter(|on| on.link.capacity.0 > 0);
    let most = known().map(On::used).fold(0.0, f64::max);
    // Of links that carry the same bytes the first: rounds are compared, and each should name the same one.
    let Some(tightest) = known().find(|on| on.used() >= ALIKE * most) else {
        return Taken { own: None, others: vec![(path(), time)], idle: 0.0 };
    };
    let link = || Cause::Link { link: tightest.link.name.clone() };
    let base = (tightest.own() * share).min(time);
    let lost = time - base;
    let others = tightest.others();
    let taken: f64 = others.iter().map(|(_, time)| time * in_round * share).sum();
    let explained = taken.min(lost);
    let mut found: Vec<(Cause, f64)> = Vec::new();
    for (cause, time) in &others {
        if taken > 0.0 {
            found.push((cause.clone(), time * in_round * share / taken * explained));
        }
    }
    let most = others.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(cause, _)| cause);
    let at_order = |flow: &FlowSeen| {
        let rate = Rate::needed(flow.delivered, tightest.seen.length().scaled(in_round));
        flow.ordered.0 > 0 && rate.ratio_of(flow.ordered) >= AT_ORDER
    };
    let (cause, idle) = match flow {
        Some((_, loss)) if loss.takes_time() => (Some(Cause::Loss { to: to.to_owned() }), 0.0),
        Some((flow, _)) if flow.held == Held::Others && at_order(flow) => (Some(most.unwrap_or_else(link)), 0.0),
        _ if tightest.is_full() => (Some(link()), 0.0),
        Some((flow, loss)) if loss.stands() && has_more(flow, tightest.seen.length()) => (Some(path()), 0.0),
        Some(_) => (None, lost - explained),
        None => (Some(path()), 0.0),
    };
    found.extend(cause.map(|cause| (cause, lost - explained)));
    found.retain(|(_, time)| *time > 0.0);
    Taken { own: Some((tightest.link.name.clone(), base, tightest.used().min(1.0))), others: found, idle }
}
