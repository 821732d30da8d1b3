//! Why one end of a connection refuses the other: an id of the error catalogue, by which programs decide. The text beside it
//! is for people.
//!
//! The id travels as the first line of a status's details. Earlier versions said it in the details of some refusals only, and
//! at the head of the text of all; so where a status has no details, the head of its text is looked at, for the ids that
//! those versions knew.

use std::fmt;

use tonic::{Code, Status};

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident = $word:literal,)*) => {
        /// An id of the error catalogue.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RefusalId {
            $($(#[$doc])* $id,)*
            /// One that this version does not know.
            Unknown,
        }

        impl RefusalId {
            /// Every id that this version knows.
            pub const ALL: &'static [RefusalId] = &[$(RefusalId::$id),*];

            /// The id as it is written.
            pub const fn word(self) -> &'static str {
                match self {
                    $(RefusalId::$id => $word,)*
                    RefusalId::Unknown => "unknown",
                }
            }
        }
    };
}

ids! {
    /// Another cluster's name.
    ClusterMismatch = "cluster-mismatch",
    /// Slots of another length.
    SlotLengthMismatch = "slot-length-mismatch",
    /// Schedules of another length.
    HorizonMismatch = "horizon-mismatch",
    /// Slots are counted on another clock, or from another moment.
    EpochMismatch = "epoch-mismatch",
    /// The clocks are more than a slot apart.
    SlotOffsetTooLarge = "slot-offset-too-large",
    /// Another major version of the messages.
    MajorMismatch = "abi-major-mismatch",
    /// It speaks in the name of another.
    IdentityNotHost = "identity-not-host",
    /// It has, or asks for, more than it may.
    HostOverQuota = "host-over-quota",
    /// What it says is not what a correct process says.
    MessageMalformed = "message-malformed",
    /// This end is about to end.
    ShuttingDown = "shutting-down",
}

impl RefusalId {
    /// A status that says this; `text` is for people, and begins with the id.
    pub fn status(self, code: Code, text: impl Into<String>) -> Status {
        Status::with_details(code, text, self.word().as_bytes().into())
    }

    /// What a status says; `None`: it is no refusal of ours.
    pub fn of(status: &Status) -> Option<RefusalId> {
        let known = |word: &str| RefusalId::ALL.iter().copied().find(|id| id.word() == word);
        let first = status.details().split(|byte| *byte == b'\n').next().unwrap_or_default();
        match std::str::from_utf8(first) {
            Ok("") | Err(_) => known(status.message().split_once(": ")?.0),
            Ok(word) => known(word).or_else(|| is_plain(word).then_some(RefusalId::Unknown)),
        }
    }

    /// Does it say that the other end lives on another grid of slots, or in another cluster?
    pub const fn is_of_grid(self) -> bool {
        matches!(
            self,
            RefusalId::ClusterMismatch
                | RefusalId::SlotLengthMismatch
                | RefusalId::HorizonMismatch
                | RefusalId::EpochMismatch
                | RefusalId::SlotOffsetTooLarge
        )
    }
}

impl fmt::Display for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

fn is_plain(word: &str) -> bool {
    word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_row_for_every_refusal_and_for_no_other() {
        let guide = include_str!("../../docs/operating.md");
        let section = guide.split("\n## ").find(|section| section.starts_with("Ids")).expect("the section is there");
        let told: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let known: Vec<&str> = RefusalId::ALL.iter().map(|id| id.word()).collect();
        assert_eq!(told, known);
    }

    #[test]
    fn what_is_decided_does_not_depend_on_the_text() {
        for &id in RefusalId::ALL {
            for text in ["", "in other words", "cluster-mismatch: no, that is not it"] {
                assert_eq!(RefusalId::of(&id.status(Code::Aborted, text)), Some(id), "{text}");
            }
        }
        let two_lines = Status::with_details(Code::Aborted, "", b"horizon-mismatch\n12\n10".as_slice().into());
        assert_eq!(RefusalId::of(&two_lines), Some(RefusalId::HorizonMismatch));
    }

    /// Promises: P-23
    #[test]
    fn earlier_versions_say_it_at_the_head_of_the_text_and_later_ones_may_say_more() {
        for &id in RefusalId::ALL {
            assert_eq!(RefusalId::of(&Status::aborted(format!("{id}: as it was said before."))), Some(id));
        }
        for text in ["transport error", "error: that is none", "the cluster-mismatch: is not at its head", ""] {
            assert_eq!(RefusalId::of(&Status::unavailable(text)), None, "{text}");
        }
        let later = |details: &'static [u8]| Status::with_details(Code::Aborted, "text", details.into());
        assert_eq!(RefusalId::of(&later(b"moon-too-full\n12")), Some(RefusalId::Unknown));
        assert!(!RefusalId::Unknown.is_of_grid());
        // Somebody else's details.
        for details in [b"\x08\x03\x12".as_slice(), b"\xff\xff", b"{\"a\":1}"] {
            assert_eq!(RefusalId::of(&later(details)), None);
        }
    }
}
