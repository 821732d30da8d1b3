//! What an operator may ask of a running daemon over its Unix socket, and what it answers.

use serde::{Deserialize, Serialize};

use super::{Mode, State};

/// The body of `POST /api/v1/mode`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeRequest {
    /// The mode that is wanted.
    pub mode: Mode,
    /// It returns by itself after this time.
    #[serde(default)]
    pub for_ns: Option<u64>,
    /// Only this job; only `bypass` may be asked of one job.
    #[serde(default)]
    pub job: Option<String>,
    /// Whether the mode stays after a restart.
    #[serde(default)]
    pub persist: bool,
    /// Give the host back to its fleet instead, whatever `mode` says.
    #[serde(default)]
    pub fleet: bool,
    /// Why, in the operator's words; goes to the log and the audit log.
    #[serde(default)]
    pub reason: String,
}

/// The body of `POST /api/v1/drain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The job to release; without it all jobs are.
    #[serde(default)]
    pub job: Option<String>,
    /// Why, in the operator's words; goes to the audit log.
    #[serde(default)]
    pub reason: String,
}

/// The body of `POST /api/v1/reload`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Why, in the operator's words; goes to the audit log.
    #[serde(default)]
    pub reason: String,
}

/// The body of `POST /api/v1/log`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// New filter; `null` asks for the present one.
    #[serde(default)]
    pub filter: Option<String>,
    /// It returns by itself after this time.
    #[serde(default)]
    pub for_ns: Option<u64>,
    /// Why, in the operator's words; goes to the audit log.
    #[serde(default)]
    pub reason: String,
}

/// A command, whichever way it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Change the mode of the daemon.
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
    /// Version of this form, [`super::SCHEMA`].
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
    /// Version of this form, [`super::SCHEMA`].
    pub schema: u32,
    /// `E_…`, or `not-found`, `not-permitted`, `invalid`, `unavailable`.
    pub code: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about it, in one sentence.
    pub help: String,
    /// Every problem of a configuration that was refused.
    pub problems: Vec<FileProblem>,
}

/// One problem of a file, in the form of every file's errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileProblem {
    /// Code of the problem, such as `E_RANGE`.
    pub code: String,
    /// Path of the file, if the problem lies in one.
    pub file: Option<String>,
    /// From 1; 0: none to blame.
    pub line: usize,
    /// From 1; 0: none to blame.
    pub column: usize,
    /// The key that is wrong, with its table.
    pub key: String,
    /// The value that was found.
    pub found: String,
    /// The values that are allowed.
    pub allowed: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about it, in one sentence.
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
