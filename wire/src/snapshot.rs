//! The one model behind `sluice status`, `sluice top`, JSON, `/metrics`, the page and the HTTP API.
//!
//! A number that appears in two views is computed once, here or before it gets here. JSON has `"schema": 1` and only
//! grows; units are in the keys: `_bps` bit/s, `_bytes`, `_ns`, `_ratio`. What is not known is `null` (an [`Option`]),
//! never a made-up zero. Texts that come from jobs are [`Label`]s: they cannot carry control characters anywhere.

/// Enums with one word per value, for people, flags, labels and JSON.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$value_doc])* #[serde(rename = $word)] $value,)* }
        impl $name {
            /// Every value there is.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$value),*];
            /// The word for people, JSON and labels.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$value => $word),* }
            }
        }
    )*};
}
pub(crate) use words;

pub mod certificate;
pub mod command;
pub mod condition;
pub mod counters;
pub mod explain;
pub mod fleet;
pub mod holder;
pub mod switch;
pub mod traffic;

use serde::{Deserialize, Serialize};

pub use command::{Command, DrainRequest, FileProblem, LogRequest, ModeRequest, Outcome, Refused, ReloadRequest};
pub use condition::{Condition, ConditionCode, Severity, State};
pub use counters::{Counters, Histogram};
pub use explain::{Explanation, SlotReason, SurplusReason};
pub use fleet::{Brief, BriefJob, FleetStatus};
pub use sluice_formats::label::Label;
pub use switch::{SwitchState, SwitchStatus, Transport, View};
pub use traffic::{Benefit, BenefitState, Flow, FlowState, Job, JobPattern, Link, PathSource, Stalls};

/// Version of the JSON form; it only grows within one.
pub const SCHEMA: u32 = 1;

words! {
    /// What the operator asked for.
    Mode {
        /// Discover, measure, plan; tell nobody, enforce nothing.
        #[default]
        Observe = "observe",
        /// Flows are scheduled and paced.
        Active = "active",
        /// Discover and measure; every managed socket gets its earlier congestion control back.
        Bypass = "bypass",
    }
    /// How rates are enforced, best first.
    Backend {
        /// The congestion control, registered through a link.
        StructOps = "struct_ops",
        /// The same without a link.
        StructOpsNoLink = "struct_ops_nolink",
        /// A pacing ceiling on the system's own congestion control.
        SetSockOpt = "setsockopt",
        /// Nothing is enforced: the daemon only looks.
        #[default]
        None = "none",
    }
}

/// Everything a host knows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// When it was taken, ns since 1970.
    pub taken_unix_ns: u64,
    /// Name, version and mode of the process.
    pub daemon: Daemon,
    /// What is wrong, worst first.
    pub conditions: Vec<Condition>,
    /// How rates are enforced.
    pub enforcement: Enforcement,
    /// State of the slot clock.
    pub clock: Clock,
    /// Every holder of load tables this host talks to.
    pub switches: Vec<SwitchStatus>,
    /// Jobs with processes on this host.
    pub jobs: Vec<Job>,
    /// Flows this host sends.
    pub flows: Vec<Flow>,
    /// Own links, and those of switches that flows cross.
    pub links: Vec<Link>,
    /// What Sluice itself takes.
    pub cost: Cost,
    /// Everything that only counts up, and the distributions.
    pub counters: Counters,
    /// How it stands in its fleet; `null`: it is in none.
    pub fleet: Option<FleetStatus>,
}

/// What the daemon's process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Daemon {
    /// Node name of the host.
    pub host: String,
    /// Name of the cluster from the configuration.
    pub cluster: String,
    /// Version of `sluiced` as `--version` prints it.
    pub version: String,
    /// Source revision; empty if not known.
    pub revision: String,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Pid in its own namespace.
    pub pid: u32,
    /// What the operator asked for.
    pub mode: Mode,
    /// When the mode returns by itself, ns since 1970.
    pub mode_until_unix_ns: Option<u64>,
    /// Worst of the conditions.
    pub state: State,
    /// Nanoseconds since the process began.
    pub uptime_ns: u64,
    /// Name of the scheduling rule.
    pub policy: String,
    /// What flows may take beyond their orders: `idle`, `greedy`, `never` or `always`.
    pub surplus: String,
    /// First slot ran, backends are decided.
    pub ready: bool,
    /// The deciding loop is a real-time thread.
    pub realtime: bool,
    /// What takes privileges is done by a helper; the daemon itself has none.
    pub split: bool,
    /// Low 48 bits of the hash of the effective configuration.
    pub config_hash: u64,
    /// The files it came from.
    pub config_files: Vec<String>,
    /// Did the last reload succeed?
    pub reload_ok: bool,
    /// When it did, ns since 1970.
    pub reload_unix_ns: u64,
    /// Progress pages that are read.
    pub progress_pages: u64,
    /// Label jobs in metrics with their ids.
    pub metrics_job_ids: bool,
    /// Job ids in metrics at most; the rest is `_other`.
    pub metrics_max_jobs: usize,
    /// Give flows series of their own in metrics.
    pub metrics_flows: bool,
    /// Flows with series of their own at most; the rest is `_other`.
    pub metrics_max_flows: usize,
    /// When this host's certificate is over, in seconds since 1970; `None`: it has none.
    pub certificate_expires_unix_s: Option<i64>,
}

/// How rates are enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Enforcement {
    /// The step of the fallback chain.
    pub backend: Backend,
    /// Name of the congestion control.
    pub cc: String,
    /// Rows of the kernel tables in use.
    pub rows_used: u64,
    /// How many rows the flow table has.
    pub rows: u64,
    /// Life of an order.
    pub deadline_ns: u64,
    /// Since the last order was written; none yet: `null`.
    pub renewed_ago_ns: Option<u64>,
}

/// The slot clock against the system's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// The clock behind the slots: `realtime` or `tai`.
    pub source: String,
    /// The kernel says that a time service disciplines the clock.
    pub synchronised: bool,
    /// Slot numbers are trusted.
    pub trusted: bool,
    /// Bound of the error, as the kernel knows it.
    pub max_error_ns: Option<u64>,
    /// Estimate of the error.
    pub estimated_error_ns: Option<u64>,
    /// The largest error with which slots are trusted, in nanoseconds.
    pub allowed_error_ns: u64,
    /// The kernel's TAI offset in seconds.
    pub tai_offset_s: i64,
    /// Number of the present slot.
    pub slot: u32,
    /// Length of a slot, in nanoseconds.
    pub slot_length_ns: u64,
    /// How many slots ahead rates are planned (K).
    pub horizon: u32,
    /// How much of the slot is over.
    pub into_slot_ns: u64,
    /// Median lateness of the wake-up after a slot's edge.
    pub lateness_p50_ns: Option<u64>,
    /// The 99th percentile of that lateness.
    pub lateness_p99_ns: Option<u64>,
    /// Largest difference to a switch's clock, signed.
    pub offset_ns: Option<i64>,
    /// Steps since the start.
    pub steps: u64,
    /// The last refusal to trust it; empty: none.
    pub last_refusal: String,
}

/// What Sluice itself takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Of one core, over the last seconds.
    pub cpu_ratio: Option<f64>,
    /// Resident memory of the process, in bytes.
    pub rss_bytes: Option<u64>,
}

impl Snapshot {
    /// Puts the conditions in order (worst first), derives the state from them and stamps the schema. Call it last.
    pub fn settle(mut self) -> Snapshot {
        self.schema = SCHEMA;
        self.conditions.sort_by_key(|condition| (std::cmp::Reverse(condition.severity), condition.code));
        self.daemon.state =
            self.conditions.iter().map(|condition| condition.severity.state()).max().unwrap_or_default();
        self
    }

    /// Sum over managed flows: (ordered, delivered) in bit/s.
    pub fn rates_bps(&self) -> (u64, u64) {
        let managed = self.flows.iter().filter(|flow| flow.state == FlowState::Managed);
        managed.fold((0_u64, 0_u64), |(ordered, delivered), flow| {
            (
                ordered.saturating_add(flow.ordered_bps.unwrap_or(0)),
                delivered.saturating_add(flow.delivered_bps.unwrap_or(0)),
            )
        })
    }

    /// Flows in a state.
    pub fn flows_in(&self, state: FlowState) -> usize {
        self.flows.iter().filter(|flow| flow.state == state).count()
    }

    /// Jobs that have not ended.
    pub fn jobs_running(&self) -> usize {
        self.jobs.iter().filter(|job| job.ended_unix_ns.is_none()).count()
    }

    /// Flows of known jobs, whoever moves their rate.
    pub fn flows_of_jobs(&self) -> usize {
        self.flows.len() - self.flows_in(FlowState::Other)
    }

    /// Part of the slots whose decision came in time; `None` before the first slot.
    pub fn on_time_ratio(&self) -> Option<f64> {
        let slots = self.counters.slots;
        let missed = self.counters.slots_late.saturating_add(self.counters.slots_stopped);
        (slots > 0).then(|| 1.0 - missed.min(slots) as f64 / slots as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_the_worst_condition() {
        let mut snapshot = Snapshot::default();
        assert_eq!(snapshot.clone().settle().daemon.state, State::Ok);
        snapshot.conditions = vec![
            Condition::new(ConditionCode::SwitchUnreachable, "leaf-2", "leaf-2 silent for 4.1 s"),
            Condition::new(ConditionCode::EnforcementNone, "", "no backend works"),
        ];
        let settled = snapshot.settle();
        assert_eq!(settled.daemon.state, State::Inactive);
        assert_eq!(settled.conditions[0].code, ConditionCode::EnforcementNone);
        assert_eq!(settled.schema, SCHEMA);
    }

    #[test]
    fn json_round_trips_and_old_or_partial_documents_load() {
        let snapshot = Snapshot {
            jobs: vec![Job { id: Label::new("4711"), progress_ratio: Some(0.5), ..Job::default() }],
            ..Snapshot::default()
        }
        .settle();
        let json = serde_json::to_string(&snapshot).expect("serialises");
        assert!(json.starts_with("{\"schema\":1,"), "{json}");
        assert_eq!(serde_json::from_str::<Snapshot>(&json).expect("parses"), snapshot);
        let partial = serde_json::from_str::<Snapshot>(r#"{"schema":1,"later_field":3}"#).expect("parses");
        assert_eq!(partial.daemon, Daemon::default());
    }

    #[test]
    fn keys_carry_units() {
        let json = serde_json::to_value(Snapshot { flows: vec![Flow::default()], ..Snapshot::default() });
        let json = json.expect("serialises").to_string();
        for key in ["ordered_bps", "srtt_ns", "demand_bytes", "uptime_ns", "rss_bytes", "cpu_ratio"] {
            assert!(json.contains(&format!("\"{key}\"")), "{key} in {json}");
        }
    }
}
