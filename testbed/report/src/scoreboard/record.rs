//! What a scoreboard keeps of one run, or of the simulator's orders for a case, as a file has it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::measured::PolicyRun;

/// What else the machine did during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Nothing that the scoreboard started.
    #[default]
    Quiet,
    /// A loop that keeps one core busy.
    Busy,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Load::Quiet => "quiet",
            Load::Busy => "busy",
        })
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        match text {
            "quiet" => Ok(Load::Quiet),
            "busy" => Ok(Load::Busy),
            _ => Err(format!("{text:?} is no load; allowed: quiet, busy")),
        }
    }
}

/// Which scenario a case is, so that figures of another one are not taken for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Name of the file.
    pub file: String,
    /// Keys with other values than the file's, as `--set` takes them.
    pub sets: Vec<String>,
    /// FNV-1a of the file's text, in hexadecimal digits.
    pub digest: String,
}

/// One run of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the case.
    pub case: String,
    /// What else the machine did.
    pub load: Load,
    /// The policy as it was asked for.
    pub policy: String,
    /// In which turn, from 1. Runs of one turn are a pair.
    pub turn: usize,
    /// What the case was made of.
    pub scenario: Source,
    /// FNV-1a of the programs that ran, in hexadecimal digits.
    pub build: String,
    /// Processors, memory, kernel.
    pub machine: String,
    /// When it ended, UTC.
    pub date: String,
    /// How long it took with everything around it.
    pub seconds: f64,
    /// Has the case traffic that nobody manages?
    pub unmanaged: bool,
    /// What was measured.
    pub run: PolicyRun,
}

/// One order of the simulator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The scheduler, and how it orders.
    pub by: String,
    /// Mean JCT, seconds.
    pub jct_mean_s: f64,
}

/// What orders of rounds come to in the simulator, for one case: the end of the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Name of the case.
    pub case: String,
    /// What the case was made of.
    pub scenario: Source,
    /// All that were tried; not empty.
    pub tried: Vec<Tried>,
    /// The routes are the simulator's draw: the network has several equal ways, and the kernel's hash draws others.
    pub own_routes: bool,
}

impl Bound {
    /// The one with the lowest mean.
    pub fn best(&self) -> Option<&Tried> {
        self.tried.iter().min_by(|a, b| a.jct_mean_s.total_cmp(&b.jct_mean_s))
    }
}
