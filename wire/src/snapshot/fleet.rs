//! What a host says of itself in few words, for whoever asks many hosts; and how it stands in its fleet.

use serde::{Deserialize, Serialize};

use super::{Benefit, Condition, Label, Mode, SCHEMA, Snapshot, State};

/// How a host stands in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetStatus {
    /// The group of this host.
    pub group: String,
    /// The mode that the fleet has for it; `null`: none was ever heard.
    pub mode: Option<Mode>,
    /// A mode holds that was set by hand on this host, and not the fleet's.
    pub by_hand: bool,
    /// Up to where in etcd's history this host has heard.
    pub revision: u64,
    /// etcd is heard now.
    pub connected: bool,
    /// When it was last heard, ns since 1970; `null`: not since the start.
    pub heard_unix_ns: Option<u64>,
}

/// A host in few words (`GET /api/v1/host`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brief {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// Node name of the host.
    pub host: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Version of `sluiced`.
    pub version: String,
    /// Low 48 bits of the hash of the effective configuration.
    pub config_hash: u64,
    /// The mode that holds.
    pub mode: Mode,
    /// Worst of the conditions.
    pub state: State,
    /// Nanoseconds since the process began.
    pub uptime_ns: u64,
    /// What is wrong, worst first.
    pub conditions: Vec<Condition>,
    /// Jobs that have not ended.
    pub jobs: Vec<BriefJob>,
    /// How it stands in its fleet; `null`: it is in none.
    pub fleet: Option<FleetStatus>,
}

/// A job in few words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BriefJob {
    /// Its id.
    pub id: Label,
    /// Whether Sluice helps it.
    pub benefit: Benefit,
}

impl Snapshot {
    /// The host in few words.
    pub fn brief(&self) -> Brief {
        let daemon = &self.daemon;
        let running = self.jobs.iter().filter(|job| job.ended_unix_ns.is_none());
        Brief {
            schema: SCHEMA,
            host: daemon.host.clone(),
            cluster: daemon.cluster.clone(),
            version: daemon.version.clone(),
            config_hash: daemon.config_hash,
            mode: daemon.mode,
            state: daemon.state,
            uptime_ns: daemon.uptime_ns,
            conditions: self.conditions.clone(),
            jobs: running.map(|job| BriefJob { id: job.id.clone(), benefit: job.benefit }).collect(),
            fleet: self.fleet.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ConditionCode, Job};

    #[test]
    fn few_words_are_those_of_the_snapshot() {
        let snapshot = Snapshot {
            conditions: vec![Condition::new(ConditionCode::SlotsLate, "", "late")],
            jobs: vec![
                Job { id: Label::new("4711"), ..Job::default() },
                Job { id: Label::new("old"), ended_unix_ns: Some(1), ..Job::default() },
            ],
            fleet: Some(FleetStatus { group: "rack1".into(), ..FleetStatus::default() }),
            ..Snapshot::default()
        }
        .settle();
        let brief = snapshot.brief();
        assert_eq!((brief.state, brief.jobs.len(), brief.schema), (State::Degraded, 1, SCHEMA));
        let json = serde_json::to_string(&brief).expect("serialises");
        assert_eq!(serde_json::from_str::<Brief>(&json).expect("parses"), brief);
        // A host of an earlier version says nothing of a fleet.
        assert_eq!(serde_json::from_str::<Brief>(r#"{"schema":1}"#).expect("parses").fleet, None);
    }
}
