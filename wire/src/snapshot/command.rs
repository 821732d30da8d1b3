//! What an operator may ask of a running daemon over its Unix socket, and what it answers.

use serde::{Deserialize, Serialize};

use super::{Mode, State};

/// `POST /api/v1/mode`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeRequest {
    /// The mode wanted.
    pub mode: Mode,
    /// It returns by itself after this time.
    #[serde(default)]
    pub for_ns: Option<u64>,
    /// Only this job; only `bypass` may be asked of one job.
    #[serde(default)]
    pub job: Option<String>,
    /// Survives a restart.
    #[serde(default)]
    pub persist: bool,
    /// For the log.
    #[serde(default)]
    pub reason: String,
}

/// `POST /api/v1/drain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Only this job.
    #[serde(default)]
    pub job: Option<String>,
}

/// `POST /api/v1/log`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// New filter; `null` asks for the present one.
    #[serde(default)]
    pub filter: Option<String>,
    /// It returns by itself after this time.
    #[serde(default)]
    pub for_ns: Option<u64>,
}

/// A command, whichever way it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Set the mode.
    Mode(ModeRequest),
    /// Read the configuration again.
    Reload,
    /// Give every socket back and stay in bypass.
    Drain(DrainRequest),
    /// Show or set the log filter.
    Log(LogRequest),
}

/// The answer to a command that was taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The mode that holds now.
    pub mode: Mode,
    /// The state that holds now.
    pub state: State,
    /// What was done, in one sentence.
    pub message: String,
    /// Keys that changed (reload).
    pub changed: Vec<String>,
    /// Keys whose change waits for a restart (reload).
    pub waiting: Vec<String>,
}

/// The answer to a request that was not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(default)]
#[error("{message}")]
pub struct Refused {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// `E_…`, or `not-found`, `not-permitted`, `invalid`, `unavailable`.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
    /// Every problem of a configuration that was refused.
    pub problems: Vec<FileProblem>,
}

/// One problem of a file, in the form of every file's errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileProblem {
    /// `E_RANGE`, …
    pub code: String,
    /// The file.
    pub file: Option<String>,
    /// From 1; 0: none to blame.
    pub line: usize,
    /// From 1; 0: none to blame.
    pub column: usize,
    /// The key.
    pub key: String,
    /// Seen.
    pub found: String,
    /// Allowed.
    pub allowed: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Refused {
    /// A refusal with code, message and next step.
    pub fn new(code: &str, message: impl Into<String>, help: impl Into<String>) -> Refused {
        Refused {
            schema: super::SCHEMA,
            code: code.into(),
            message: message.into(),
            help: help.into(),
            problems: vec![],
        }
    }
}
