//! How a command fails: a message for people and an exit status for scripts.

use std::fmt;

use sluice_formats::problem::{Problem, Problems};
use sluice_wire::snapshot::Refused;

#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    message: String,
    /// All that is wrong with a file or the parameters; there is no other message then.
    pub problems: Option<Problems>,
}

impl Failure {
    /// 1: failed for another reason.
    pub fn failed(message: impl fmt::Display) -> Failure {
        Failure::with(1, message)
    }
    /// 2: invalid input.
    pub fn input(message: impl fmt::Display) -> Failure {
        Failure::with(2, message)
    }
    /// 3: the answer is no.
    pub fn no(message: impl fmt::Display) -> Failure {
        Failure { code: 3, message: message.to_string(), problems: None }
    }
    /// 4: the daemon is not reachable, or permission was refused.
    pub fn daemon(message: impl fmt::Display) -> Failure {
        Failure::with(4, message)
    }
    /// With the exit status that a library says.
    pub fn with(code: u8, message: impl fmt::Display) -> Failure {
        Failure { code, message: format!("error: {message}"), problems: None }
    }
    /// The same with one more thing to do.
    pub fn with_help(self, help: &str) -> Failure {
        Failure { message: format!("{}\n  help: {help}", self.message), ..self }
    }
    /// From a refusal of the daemon.
    pub fn refused(status: u16, refused: &Refused) -> Failure {
        let code = match (status, refused.code.as_str()) {
            (401 | 403, _) | (_, "not-permitted" | "unavailable") => 4,
            (_, "not-found") => 3,
            (400 | 422, _) => 2,
            _ => 1,
        };
        let mut message = format!("error: {}", refused.message);
        for problem in &refused.problems {
            message += &format!("\nerror[{}]: {}", problem.code, problem.message);
            if let Some(file) = &problem.file {
                message += &format!("\n  --> {file}:{}:{}", problem.line, problem.column);
            }
            if !problem.found.is_empty() || !problem.allowed.is_empty() {
                message += &format!("\n   = {}: found {}, allowed {}", problem.key, problem.found, problem.allowed);
            }
            if !problem.help.is_empty() {
                message += &format!("\n   = help: {}", problem.help);
            }
        }
        if !refused.help.is_empty() {
            message += &format!("\n  help: {}", refused.help);
        }
        Failure { code, message, problems: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problems {
            Some(problems) => problems.fmt(f),
            None => f.write_str(&self.message),
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Failure { code: 2, message: String::new(), problems: Some(problems) }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Problems::from(problem).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::failed(error)
    }
}
