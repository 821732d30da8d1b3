//! Why a flow had its rate in a slot that is over, as far as a timeline says.

use serde::Serialize;
use sluice_wire::snapshot::{Label, explain::sentence};

use super::{Past, id_of};
use crate::failure::Failure;
use crate::format::{bytes, flow_id, grouped, percent, rate, time};

/// What a timeline says of one flow in one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PastReason {
    pub flow: String,
    pub job: Label,
    pub slot: u32,
    /// How long ago it was, as of the newest slot.
    pub ago_ns: u64,
    /// The round of its job that ran then.
    pub round: Option<u64>,
    pub ordered_bps: Option<u64>,
    /// Mean over the slots with this order.
    pub delivered_bps: u64,
    /// Since when it had this order, and for how many slots.
    pub since_slot: u32,
    pub slots: u64,
    /// Still to send at the end of these slots.
    pub remaining_bytes: Option<u64>,
    pub why: String,
    /// What made the decision.
    pub trigger: String,
    /// The order before and the one after it, if there were any.
    pub before_bps: Option<u64>,
    pub after_bps: Option<u64>,
    /// Own links and those of switches, as they were then.
    pub links: Vec<PastLink>,
}

/// A link in that slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PastLink {
    pub name: String,
    pub capacity_bps: u64,
    /// Promised by all hosts.
    pub scheduled_bps: u64,
    /// What this host's managed flows sent.
    pub managed_bps: u64,
    pub other_bps: u64,
}

/// The flows with this id, or of the job with this name, in a slot.
///
/// # Errors
/// The file has no such flow, or it had no order then.
pub fn reasons(past: &Past, id: &str, at: u64) -> Result<Vec<PastReason>, Failure> {
    let wanted = flow_id(id.trim_start_matches("0x"));
    let label = Label::new(id);
    let named = |job: usize| past.jobs.get(job).is_some_and(|job| id_of(&job.name) == label);
    let flows: Vec<_> = past.flows.iter().filter(|flow| flow_id(&flow.id) == wanted || named(flow.job)).collect();
    if flows.is_empty() {
        let known = past.flows.iter().take(5).map(|flow| flow_id(&flow.id)).collect::<Vec<_>>().join(", ");
        return Err(Failure::input(format!("no flow or job `{id}` in the timeline; there are {known} …")));
    }
    let found: Vec<PastReason> = flows
        .iter()
        .filter_map(|flow| {
            let run = flow.run(at)?;
            let job = past.jobs.get(flow.job);
            let begin = at.saturating_mul(past.slot_length_ns);
            let running = |job: &&super::PastJob| {
                let round = job.rounds.iter().rev().find(|round| round.began_ns <= begin + past.slot_length_ns)?;
                round.ended_ns.is_none_or(|end| end >= begin).then_some(round.number)
            };
            let links = past.links.iter().filter_map(|(name, loads)| {
                let load = loads.get(&at)?;
                Some(PastLink {
                    name: name.clone(),
                    capacity_bps: load.capacity_bps,
                    scheduled_bps: load.scheduled_bps,
                    managed_bps: load.managed_bps,
                    other_bps: load.other_bps,
                })
            });
            Some(PastReason {
                flow: flow.id.clone(),
                job: job.map(|job| id_of(&job.name)).unwrap_or_default(),
                slot: past.number(at),
                ago_ns: past.slots.saturating_sub(at + 1).saturating_mul(past.slot_length_ns),
                round: job.as_ref().and_then(running),
                ordered_bps: run.ordered_bps,
                delivered_bps: run.delivered_bps,
                since_slot: past.number(run.from),
                slots: run.slots,
                remaining_bytes: run.remaining_bytes,
                why: run.why.clone(),
                trigger: run.trigger.clone(),
                before_bps: run.from.checked_sub(1).and_then(|at| flow.run(at)?.ordered_bps),
                after_bps: flow.run(run.from + run.slots).and_then(|run| run.ordered_bps),
                links: links.collect(),
            })
        })
        .collect();
    if found.is_empty() {
        let slot = grouped(u64::from(past.number(at)));
        return Err(Failure::no(format!(
            "{id} had no order in slot {slot}: it had nothing to send, or was not managed"
        )));
    }
    Ok(found)
}

/// One of them, for people.
pub fn text(reason: &PastReason, slot_length_ns: u64) -> String {
    let round = reason.round.map_or(String::new(), |round| format!(" (round {})", grouped(round)));
    let mut out = format!(
        "flow {}, job {}{round}, slot {}, {} before the newest\n",
        flow_id(&reason.flow),
        reason.job,
        grouped(u64::from(reason.slot)),
        time(Some(reason.ago_ns))
    );
    let many = if reason.slots == 1 { "slot".to_owned() } else { format!("{} slots", reason.slots) };
    out += &format!(
        "  ordered    {} for {many} from slot {} ({})\n",
        rate(reason.ordered_bps),
        grouped(u64::from(reason.since_slot)),
        time(Some(reason.slots.saturating_mul(slot_length_ns)))
    );
    out += &format!(
        "  delivered  {}, {} left to send after that\n",
        rate(Some(reason.delivered_bps)),
        bytes(reason.remaining_bytes)
    );
    out += &format!("  before     {}\n  after      {}\n", rate(reason.before_bps), rate(reason.after_bps));
    for link in &reason.links {
        let part = |bps: u64| percent((link.capacity_bps > 0).then(|| bps as f64 / link.capacity_bps as f64));
        out += &format!(
            "  link       {} {}: promised {}, managed {}, other {}\n",
            link.name,
            rate(Some(link.capacity_bps)),
            part(link.scheduled_bps),
            part(link.managed_bps),
            part(link.other_bps)
        );
    }
    out += &format!("  decided by: {}\n", trigger(&reason.trigger));
    out + &format!("  not more because: {} ({})\n", reason.why, sentence(&reason.why))
}

fn trigger(word: &str) -> &str {
    match word {
        "slot" => "a slot began",
        "start" => "a round began",
        "end" => "a flow or round ended",
        "demand" => "a flow had more or less to send than was known",
        "feedback" => "news of what others promised",
        other => other,
    }
}
