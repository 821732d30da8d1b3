//! What of a host's snapshot the page shows: the same names as in the snapshot, and only what is drawn. Flows are the many; of
//! them a page can ask for one job's.

use serde::Serialize;
use sluice_schedule::Nanos;
use sluice_schedule::Rate;
use sluice_wire::snapshot::{
    BenefitState, Clock, Condition, Cost, Daemon, Enforcement, Flow, FlowState, Job, JobPattern, Label, Link, Snapshot,
    SwitchState, SwitchStatus, Transport, View,
};
use sluice_wire::timeline::{Lanes, Timeline};

use crate::events::event;

/// Flows of one event at most.
pub const MAX_FLOWS: usize = 1000;
/// Links of one event at most.
pub const MAX_LINKS: usize = 256;
/// Lanes reach back so far when a stream begins.
pub const HISTORY: Nanos = Nanos::from_millis(60_000);
/// And so far in every event: what is lost on the way, or came while a browser connected again, is in the next.
pub const RECENT: Nanos = Nanos::from_millis(3_000);

/// A struct with some fields of another, under the same names.
macro_rules! part {
    ($($(#[$doc:meta])* $name:ident of $whole:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Serialize)]
        struct $name<'a> { $($field: &'a $type,)* }
        impl<'a> From<&'a $whole> for $name<'a> {
            fn from(whole: &'a $whole) -> Self {
                $name { $($field: &whole.$field,)* }
            }
        }
    )*};
}

part! {
    ShownFlow of Flow {
        id: String,
        job: Label,
        to: String,
        state: FlowState,
        ordered_bps: Option<u64>,
        surplus_bps: Option<u64>,
        delivered_bps: Option<u64>,
        error_ratio: Option<f64>,
        srtt_ns: Option<u64>,
        retransmitted: u64,
        loss_guard: bool,
        why: std::borrow::Cow<'static, str>,
    }
    ShownJob of Job {
        id: Label,
        pattern: JobPattern,
        plan: String,
        role: std::borrow::Cow<'static, str>,
        rank: Option<u32>,
        nranks: Option<u32>,
        flows: u64,
        round: u64,
        progress_ratio: Option<f64>,
        demand_bytes: Option<u64>,
        ordered_bps: Option<u64>,
        delivered_bps: Option<u64>,
        round_p50_ns: Option<u64>,
        promoted: bool,
        stalled_on: std::borrow::Cow<'static, str>,
        source: String,
        ended_unix_ns: Option<u64>,
    }
    ShownLink of Link {
        name: String,
        holder: String,
        own: bool,
        capacity_bps: u64,
        managed_bps: Option<u64>,
        other_bps: Option<u64>,
        next_bps: Vec<u64>,
    }
    ShownSwitch of SwitchStatus {
        name: String,
        address: String,
        transport: Transport,
        peer: bool,
        state: SwitchState,
        view: View,
        links: u64,
        exchange_p50_ns: Option<u64>,
        exchange_p99_ns: Option<u64>,
        age_ns: Option<u64>,
        offset_ns: Option<i64>,
        rejects: u64,
        last_error: String,
    }
}

/// A job, and what is done with it after asking whether that helps it.
#[derive(Serialize)]
struct JobEntry<'a> {
    #[serde(flatten)]
    job: ShownJob<'a>,
    benefit: BenefitState,
    slower_ratio: Option<f64>,
}

impl<'a> From<&'a Job> for JobEntry<'a> {
    fn from(job: &'a Job) -> Self {
        JobEntry { job: ShownJob::from(job), benefit: job.benefit.state, slower_ratio: job.benefit.slower_ratio }
    }
}

/// Sums over the whole snapshot, whatever part of its flows is listed.
#[derive(Serialize)]
struct Totals {
    jobs: usize,
    flows: usize,
    /// Flows of the job asked for; of all if none is.
    flows_asked: usize,
    links: usize,
    ordered_bps: u64,
    delivered_bps: u64,
    on_time_ratio: Option<f64>,
}

/// What one event of the stream says.
#[derive(Serialize)]
struct Shown<'a> {
    schema: u32,
    taken_unix_ns: u64,
    daemon: &'a Daemon,
    conditions: &'a [Condition],
    enforcement: &'a Enforcement,
    clock: &'a Clock,
    switches: Vec<ShownSwitch<'a>>,
    jobs: Vec<JobEntry<'a>>,
    flows: Vec<ShownFlow<'a>>,
    links: Vec<ShownLink<'a>>,
    totals: Totals,
    cost: &'a Cost,
    lanes: &'a Lanes,
}

/// What jobs did in the last part of the timeline, against the host's own links.
pub fn lanes(timeline: &Timeline, snapshot: &Snapshot, last: Nanos) -> Lanes {
    let own = snapshot.links.iter().filter(|link| link.own).map(|link| link.capacity_bps);
    timeline.lanes(last, Rate(own.fold(0, u64::saturating_add)))
}

/// The event with which a stream begins: who sent when, before anybody looked.
///
/// # Errors
/// A value has no form in JSON.
pub fn history(lanes: &Lanes) -> Result<Vec<u8>, serde_json::Error> {
    event("history", lanes)
}

/// The event for one snapshot, with the flows of one job, or of all.
///
/// # Errors
/// A value has no form in JSON.
pub fn frame(snapshot: &Snapshot, lanes: &Lanes, job: Option<&Label>) -> Result<Vec<u8>, serde_json::Error> {
    let asked = || snapshot.flows.iter().filter(|flow| job.is_none_or(|job| flow.job == *job));
    let (ordered_bps, delivered_bps) = snapshot.rates_bps();
    let shown = Shown {
        schema: snapshot.schema,
        taken_unix_ns: snapshot.taken_unix_ns,
        daemon: &snapshot.daemon,
        conditions: &snapshot.conditions,
        enforcement: &snapshot.enforcement,
        clock: &snapshot.clock,
        switches: snapshot.switches.iter().map(ShownSwitch::from).collect(),
        jobs: snapshot.jobs.iter().map(JobEntry::from).collect(),
        flows: asked().take(MAX_FLOWS).map(ShownFlow::from).collect(),
        links: snapshot.links.iter().take(MAX_LINKS).map(ShownLink::from).collect(),
        totals: Totals {
            jobs: snapshot.jobs_running(),
            flows: snapshot.flows.len(),
            flows_asked: asked().count(),
            links: snapshot.links.len(),
            ordered_bps,
            delivered_bps,
            on_time_ratio: snapshot.on_time_ratio(),
        },
        cost: &snapshot.cost,
        lanes,
    };
    event("snapshot", &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(flows: usize) -> Snapshot {
        let flow = |n: usize| Flow {
            id: format!("{n:016x}"),
            job: Label::new(if n.is_multiple_of(2) { "even" } else { "odd" }),
            to: "10.0.0.9:40000".into(),
            ordered_bps: Some(1_250_000_000),
            delivered_bps: Some(1_240_000_000),
            why: "headroom".into(),
            next_bps: vec![7_777_777; 10],
            ..Flow::default()
        };
        Snapshot { flows: (0..flows).map(flow).collect(), ..Snapshot::default() }.settle()
    }

    fn read(frame: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(frame).expect("UTF-8");
        let line = text.strip_prefix("event: snapshot\ndata: ").expect("its name");
        serde_json::from_str(line.strip_suffix("\n\n").expect("its end")).expect("JSON")
    }

    #[test]
    fn what_is_shown_has_the_names_and_values_of_the_snapshot() {
        let snapshot = snapshot(3);
        let shown = read(&frame(&snapshot, &Lanes::default(), None).expect("JSON"));
        let whole = serde_json::to_value(&snapshot).expect("JSON");
        for list in ["jobs", "flows", "links", "switches"] {
            for (of_shown, of_whole) in
                shown[list].as_array().into_iter().flatten().zip(whole[list].as_array().expect(list))
            {
                for (key, value) in of_shown.as_object().expect("an object") {
                    assert_eq!(value, &of_whole[key], "{list} {key}");
                }
            }
        }
        assert_eq!(shown["daemon"], whole["daemon"]);
        assert_eq!(shown["flows"].as_array().map(Vec::len), Some(3));
        assert!(shown["flows"][0].get("next_bps").is_none(), "what is not drawn does not travel");
    }

    #[test]
    fn one_jobs_flows_are_a_part_and_no_event_grows_beyond_its_bound() {
        let many = snapshot(20_000);
        let of = |job: &str| read(&frame(&many, &Lanes::default(), Some(&Label::new(job))).expect("JSON"));
        let all = frame(&many, &Lanes::default(), None).expect("JSON");
        assert!(all.len() < 512 << 10, "{}", all.len());
        let (all, odd, none) = (read(&all), of("odd"), of("none"));
        assert_eq!((all["flows"].as_array().map(Vec::len), &all["totals"]["flows"]), (Some(MAX_FLOWS), &20_000.into()));
        assert!(odd["flows"].as_array().expect("a list").iter().all(|flow| flow["job"] == "odd"));
        assert_eq!(odd["totals"]["flows_asked"], 10_000);
        assert_eq!((none["flows"].as_array().map(Vec::len), &none["totals"]["flows"]), (Some(0), &20_000.into()));
    }
}
