//! What a process that keeps load tables shows of itself: behind the page and the JSON of `sluice-switch`.
//!
//! As with a host's [`super::Snapshot`], JSON has `"schema": 1` and only grows, units are in the keys, and what is not known is
//! `null`.

use serde::{Deserialize, Serialize};

use super::{Condition, Cost, Histogram, Label, SCHEMA, State};

/// Everything that such a process knows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderSnapshot {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// When it was taken, ns since 1970.
    pub taken_unix_ns: u64,
    /// The process.
    pub process: HolderProcess,
    /// What is wrong, worst first.
    pub conditions: Vec<Condition>,
    /// The clock that slots are counted on.
    pub clock: HolderClock,
    /// The switches whose tables are kept here.
    pub switches: Vec<HeldSwitch>,
    /// The hosts that were heard, by switch: as many as the form has room for.
    pub hosts: Vec<HeardHost>,
    /// How many there are in all.
    pub hosts_in_all: u64,
    /// The links with their promised load: as many as the form has room for, those with load before those without.
    pub links: Vec<HeldLink>,
    /// How many there are in all.
    pub links_in_all: u64,
    /// From a host's message read to its answer queued, in seconds.
    pub exchange_s: Histogram,
    /// What the process takes.
    pub cost: Cost,
}

/// The process that keeps the tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderProcess {
    /// Version of `sluice-switch` as `--version` prints it.
    pub version: String,
    /// Boot id, 16 hex digits: tables began anew with it.
    pub boot: String,
    /// Name of the cluster from the configuration.
    pub cluster: String,
    /// Worst of the conditions.
    pub state: State,
    /// Nanoseconds since the process began.
    pub uptime_ns: u64,
    /// The thread that serves is a real-time one.
    pub realtime: bool,
    /// Form of the tables: `exact` or `double-buffer`.
    pub table: String,
    /// Packets are forwarded between interfaces of this machine.
    pub data_plane: bool,
    /// Hosts connected by a session.
    pub sessions: u64,
    /// Feedback sent unasked.
    pub pushes: u64,
    /// Hosts whose grid did not fit.
    pub refused_hellos: u64,
}

/// The clock of the slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderClock {
    /// The clock behind the slots: `realtime` or `tai`.
    pub source: String,
    /// The kernel says that a time service disciplines the clock.
    pub synchronised: bool,
    /// Bound of the error, as the kernel knows it.
    pub max_error_ns: Option<u64>,
    /// The largest error that is still good, in nanoseconds.
    pub allowed_error_ns: u64,
    /// Number of the present slot.
    pub slot: u32,
    /// Length of a slot, in nanoseconds.
    pub slot_length_ns: u64,
    /// How many slots ahead promises reach (K).
    pub horizon: u32,
    /// Since the last slot edge was handled, in nanoseconds.
    pub edge_ago_ns: u64,
}

/// One switch whose tables are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldSwitch {
    /// Its name.
    pub name: String,
    /// Zero load means zero: not in the first two slots.
    pub warm: bool,
    /// Hosts with a lease.
    pub hosts: u64,
    /// Promises (flow, link) in force.
    pub promises: u64,
    /// Links that it has.
    pub links: u64,
    /// The largest load of a link within the horizon, of its capacity less unmanaged traffic; `null`: it has no link.
    pub peak_ratio: Option<f64>,
    /// Announcements that were applied.
    pub applied: u64,
    /// Announcements that were refused.
    pub refused: u64,
    /// Refused for a slot too far off.
    pub refused_slot: u64,
    /// Refused for asking for too much.
    pub refused_quota: u64,
    /// Hosts whose lease ended.
    pub expired: u64,
}

/// A host that holds a lease at a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeardHost {
    /// Name of the switch.
    pub switch: String,
    /// Name of the host; its id where nobody has told its name.
    pub host: Label,
    /// Boot id of the process that announced last, 16 hex digits.
    pub boot: String,
    /// It is connected by a session.
    pub session: bool,
    /// Slots since the one that it announced for.
    pub age_slots: i32,
    /// Slots until its promises end unless it repeats them.
    pub lease_slots: i32,
    /// Promises (flow, link) in force.
    pub promises: u64,
}

/// A link whose load is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldLink {
    /// Name of the switch.
    pub switch: String,
    /// Number of its port.
    pub port: u32,
    /// The node at the other end.
    pub to: String,
    /// Payload rate, in bit/s.
    pub capacity_bps: u64,
    /// Unmanaged traffic, in bit/s.
    pub other_bps: u64,
    /// Promised by hosts, from the present slot on, in bit/s.
    pub next_bps: Vec<u64>,
    /// The largest of it, of the capacity less unmanaged traffic.
    pub peak_ratio: f64,
    /// Flows that promise there; 0 where the table keeps only sums.
    pub flows: u64,
    /// Hosts that watch it.
    pub watchers: u64,
}

impl HolderSnapshot {
    /// Puts the conditions in order (worst first), derives the state from them and stamps the schema. Call it last.
    pub fn settle(mut self) -> HolderSnapshot {
        self.schema = SCHEMA;
        self.conditions.sort_by_key(|condition| (std::cmp::Reverse(condition.severity), condition.code));
        self.process.state =
            self.conditions.iter().map(|condition| condition.severity.state()).max().unwrap_or_default();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ConditionCode;

    #[test]
    fn the_state_is_the_worst_condition_and_json_round_trips() {
        let conditions = vec![
            Condition::new(ConditionCode::PeersOpen, "", "everybody may speak"),
            Condition::new(ConditionCode::ClockUnsafe, "", "no time service"),
        ];
        let snapshot = HolderSnapshot { conditions, links: vec![HeldLink::default()], ..Default::default() }.settle();
        assert_eq!(
            (snapshot.process.state, snapshot.conditions[0].code),
            (State::Degraded, ConditionCode::ClockUnsafe)
        );
        let json = serde_json::to_string(&snapshot).expect("serialises");
        assert!(json.starts_with("{\"schema\":1,"), "{json}");
        assert_eq!(serde_json::from_str::<HolderSnapshot>(&json).expect("parses"), snapshot);
        assert_eq!(
            serde_json::from_str::<HolderSnapshot>(r#"{"later":1}"#).expect("parses"),
            HolderSnapshot::default()
        );
    }
}
