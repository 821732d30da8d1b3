//! Why something failed at a switch, and what to do next.

use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

use crate::ids::BadInfo;
use crate::pb::google::rpc;
use crate::pb::p4::v1 as p4;

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Open a new session, after a pause.
    Reconnect,
    /// Wait until nobody is primary, or stand with a higher election id if it is this controller's turn.
    StandBy,
    /// Load the program again if its cookie is gone, and fill the tables.
    Refill,
    /// Nothing that a program can do: somebody has to look at the settings.
    Correct,
}

/// Why one update of a write was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("update {update}: {text} ({code:?})")]
pub struct Failure {
    /// Which one, from 0.
    pub update: usize,
    /// Why, as a code of gRPC.
    pub code: Code,
    /// Why, as a sentence.
    pub text: String,
}

/// Why something failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address of a switch.
    #[error("`{uri}` is no address of a switch; allowed is one such as http://10.0.0.1:9559")]
    Address {
        /// What was given.
        uri: String,
        /// What the transport says.
        source: tonic::transport::Error,
    },
    /// No connection.
    #[error("{uri} cannot be reached: {source}")]
    Transport {
        /// The switch.
        uri: String,
        /// What the transport says.
        source: tonic::transport::Error,
    },
    /// No answer.
    #[error("{uri} has not answered to {call} within {} ms", limit.as_millis())]
    Silent {
        /// The switch.
        uri: String,
        /// What was asked.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// A call as a whole was refused.
    #[error("{uri} refuses {call}: {} ({:?})", status.message(), status.code())]
    Refused {
        /// The switch.
        uri: String,
        /// What was asked.
        call: &'static str,
        /// What the switch says.
        status: Status,
    },
    /// Updates of a write were refused; the others were done.
    #[error("{uri} refuses {} of {updates} updates; the first is {}", failures.len(), first(failures))]
    Updates {
        /// The switch.
        uri: String,
        /// The refused ones.
        failures: Vec<Failure>,
        /// How many there were.
        updates: usize,
    },
    /// The session is over.
    #[error("{uri} has ended the stream: {text} ({code:?})")]
    StreamEnded {
        /// The switch.
        uri: String,
        /// How it ended it.
        code: Code,
        /// What it said.
        text: String,
    },
    /// Another controller is primary, or nobody is.
    #[error("this controller is not primary at {uri}; the highest election id there is {}", known(highest))]
    NotPrimary {
        /// The switch.
        uri: String,
        /// The highest election id that it has seen.
        highest: Option<u128>,
    },
    /// The program or the tables are gone: the switch has restarted behind its P4Runtime server.
    #[error("{uri} has lost {what}; it has to be filled again")]
    Forgotten {
        /// The switch.
        uri: String,
        /// What is gone.
        what: &'static str,
    },
    /// The P4Info is not that of the program.
    #[error(transparent)]
    Info(#[from] BadInfo),
    /// An answer with more than any switch of this program has.
    #[error("{uri} answers to a read with more than {most} entities")]
    TooMuch {
        /// The switch.
        uri: String,
        /// How many there may be.
        most: usize,
    },
}

fn first(failures: &[Failure]) -> String {
    failures.first().map_or_else(|| "unknown".into(), ToString::to_string)
}

fn known(highest: &Option<u128>) -> String {
    highest.map_or_else(|| "unknown".into(), |id| id.to_string())
}

impl ClientError {
    /// What helps.
    pub fn next_step(&self) -> NextStep {
        match self {
            ClientError::Address { .. } | ClientError::Info(_) => NextStep::Correct,
            ClientError::Updates { failures, .. } => {
                let wrong = failures.iter().any(|failure| failure.code == Code::InvalidArgument);
                if wrong { NextStep::Correct } else { NextStep::Refill }
            }
            ClientError::Transport { .. }
            | ClientError::Silent { .. }
            | ClientError::StreamEnded { .. }
            | ClientError::TooMuch { .. } => NextStep::Reconnect,
            ClientError::NotPrimary { .. } => NextStep::StandBy,
            ClientError::Forgotten { .. } => NextStep::Refill,
            ClientError::Refused { status, .. } => match status.code() {
                Code::PermissionDenied => NextStep::StandBy,
                Code::FailedPrecondition => NextStep::Refill,
                Code::InvalidArgument | Code::Unimplemented | Code::NotFound => NextStep::Correct,
                _ => NextStep::Reconnect,
            },
        }
    }
}

/// Which updates of a write were refused, out of its status. None: the status tells of the write as a whole.
///
/// A server answers to a write whose updates failed with one error for each update, those that went well among them.
pub fn failures(status: &Status, updates: usize) -> Option<Vec<Failure>> {
    let whole = rpc::Status::decode(status.details()).ok()?;
    if whole.details.is_empty() && updates == 1 && status.code() == Code::AlreadyExists {
        // Some servers say it the short way.
        return Some(vec![Failure { update: 0, code: status.code(), text: status.message().into() }]);
    }
    if whole.details.is_empty() || whole.details.len() != updates {
        return None;
    }
    let failures = whole.details.iter().enumerate().filter_map(|(update, detail)| {
        let Ok(error) = p4::Error::decode(detail.value.as_slice()) else {
            return Some(Failure { update, code: Code::Unknown, text: "the error cannot be read".into() });
        };
        let code = Code::from_i32(error.canonical_code);
        (code != Code::Ok).then_some(Failure { update, code, text: error.message })
    });
    let failures: Vec<Failure> = failures.collect();
    (!failures.is_empty()).then_some(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code) -> ClientError {
        ClientError::Refused { uri: "x".into(), call: "a write", status: Status::new(code, "no") }
    }

    #[test]
    fn every_error_says_what_helps() {
        for (code, step) in [
            (Code::PermissionDenied, NextStep::StandBy),
            (Code::FailedPrecondition, NextStep::Refill),
            (Code::InvalidArgument, NextStep::Correct),
            (Code::Unavailable, NextStep::Reconnect),
            (Code::Unknown, NextStep::Reconnect),
        ] {
            assert_eq!(refused(code).next_step(), step, "{code:?}");
        }
        let updates = |code| ClientError::Updates {
            uri: "x".into(),
            failures: vec![Failure { update: 0, code, text: "no".into() }],
            updates: 1,
        };
        assert_eq!(updates(Code::InvalidArgument).next_step(), NextStep::Correct);
        assert_eq!(updates(Code::ResourceExhausted).next_step(), NextStep::Refill);
        let text = updates(Code::NotFound).to_string();
        assert_eq!(text, "x refuses 1 of 1 updates; the first is update 0: no (NotFound)");
    }

    #[test]
    fn the_failed_updates_of_a_write_are_known() {
        let detail = |code: Code, message: &str| {
            let error = p4::Error { canonical_code: code as i32, message: message.into(), ..p4::Error::default() };
            rpc::Detail { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
        };
        let details = vec![detail(Code::Ok, ""), detail(Code::AlreadyExists, "there"), detail(Code::NotFound, "gone")];
        let whole = rpc::Status { code: Code::Unknown as i32, message: "some".into(), details };
        let status = Status::with_details(Code::Unknown, "some", whole.encode_to_vec().into());
        let found = failures(&status, 3).unwrap();
        assert_eq!(
            found.iter().map(|f| (f.update, f.code)).collect::<Vec<_>>(),
            [(1, Code::AlreadyExists), (2, Code::NotFound)]
        );
        assert_eq!(failures(&status, 2), None, "another write's answer");
        assert_eq!(failures(&Status::permission_denied("no"), 1), None);
        assert_eq!(failures(&Status::already_exists("there"), 1).unwrap().len(), 1);
    }
}
