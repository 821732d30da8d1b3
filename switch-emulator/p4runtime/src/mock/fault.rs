//! Why something is refused, and how the standard has a write tell it: one error for each of its updates.

use prost::Message;
use tonic::{Code, Status};

use crate::encode::BadEntry;
use crate::limits;
use crate::pb::google::rpc;
use crate::pb::p4::v1 as p4;

/// The name of an update's error among the details of a status.
const ERROR: &str = "type.googleapis.com/p4.v1.Error";

/// Why something is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub code: Code,
    pub text: String,
}

impl Fault {
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    /// A field with a value that is not allowed.
    pub fn value(field: &str, value: impl ToString, allowed: &str) -> Fault {
        crate::encode::refused(field, value, allowed).into()
    }

    /// A field that must be there.
    pub fn missing(field: &str, allowed: &str) -> Fault {
        BadEntry::Missing { field: field.into(), allowed: allowed.into() }.into()
    }
}

impl From<BadEntry> for Fault {
    fn from(bad: BadEntry) -> Fault {
        Fault::new(Code::InvalidArgument, bad.to_string())
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        Status::new(fault.code, fault.text)
    }
}

/// The answer to a write, given what became of each update.
pub(super) fn outcome(updates: &[Option<Fault>]) -> Result<(), Status> {
    let Some(first) = updates.iter().flatten().next() else { return Ok(()) };
    let count = updates.iter().flatten().count();
    let message = format!("{count} of {} updates are refused; the first: {}", updates.len(), first.text);
    let details = details(&message, updates, true);
    let details = if details.len() > limits::DETAILS { self::details(&message, updates, false) } else { details };
    let details = if details.len() > limits::DETAILS { Vec::new() } else { details };
    Err(Status::with_details(Code::Unknown, message, details.into()))
}

fn details(message: &str, updates: &[Option<Fault>], texts: bool) -> Vec<u8> {
    let details = updates.iter().map(|fault| {
        let (canonical_code, message) = match fault {
            Some(fault) => (fault.code as i32, if texts { fault.text.clone() } else { String::new() }),
            None => (Code::Ok as i32, String::new()),
        };
        let error = p4::Error { canonical_code, message, ..p4::Error::default() };
        rpc::Detail { type_url: ERROR.into(), value: error.encode_to_vec() }
    });
    let code = Code::Unknown as i32;
    rpc::Status { code, message: message.into(), details: details.collect() }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::error::failures;

    #[test]
    fn what_became_of_each_update_is_read_again() {
        let refused = |text: &str| Some(Fault::new(Code::AlreadyExists, text));
        let status = outcome(&[None, refused("it is there"), None]).unwrap_err();
        let found = failures(&status, 3).unwrap();
        assert_eq!((found.len(), found[0].update, found[0].text.as_str()), (1, 1, "it is there"));
        assert_eq!(status.message(), "1 of 3 updates are refused; the first: it is there");
        assert_eq!(outcome(&[None, None]).ok(), Some(()));
    }

    #[test]
    fn a_full_batch_of_the_client_fits_whatever_is_said() {
        let faults = vec![Some(Fault::new(Code::AlreadyExists, "x".repeat(1000))); limits::BATCH];
        let status = outcome(&faults).unwrap_err();
        assert!(status.details().len() <= limits::DETAILS);
        assert_eq!(failures(&status, limits::BATCH).unwrap().len(), limits::BATCH);
        let most = vec![Some(Fault::new(Code::AlreadyExists, "x")); limits::UPDATES];
        assert!(outcome(&most).unwrap_err().details().is_empty());
    }
}
