//! Names from outside as they may stand in a terminal, a line of the log, a label of a metric or a file name: one type for
//! all of them, made in one place.
//!
//! A name comes from somebody who is not trusted: a job's environment or page, another host's hello, a file. Control
//! characters in it could drive a terminal, line ends forge a line of the log, and characters that turn text around show
//! another name than the one that is there. None of them gets through here.

use std::fmt::{self, Write as _};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

/// At most 64 bytes of `[A-Za-z0-9._:/@+-]`, where `\xNN` stands for any other byte. Of a longer name the beginning is
/// kept, then `~` and eight digits of its hash: two names are two labels. An empty name is `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Label(String);

/// Marks a name that was cut; no label has it elsewhere.
const CUT: char = '~';
/// Digits of the hash behind it.
const DIGITS: usize = 8;

impl Label {
    /// Bytes of a label at most.
    pub const MAX_BYTES: usize = 64;

    /// The label of a name, byte for byte: what looks like an escape in it is escaped too.
    pub fn of(name: &[u8]) -> Label {
        if name.is_empty() {
            return Label::default();
        }
        let (mut out, mut kept) = (String::new(), 0);
        for byte in name {
            let plain = is_plain(*byte);
            if out.len() + if plain { 1 } else { 4 } > Label::MAX_BYTES {
                out.truncate(kept);
                out.push(CUT);
                let digest = Sha256::digest(name);
                for byte in digest.iter().take(DIGITS / 2) {
                    let _ = write!(out, "{byte:02x}"); // Text takes everything.
                }
                break;
            }
            if plain {
                out.push(char::from(*byte));
            } else {
                let _ = write!(out, "\\x{byte:02x}");
            }
            if out.len() + 1 + DIGITS <= Label::MAX_BYTES {
                kept = out.len();
            }
        }
        Label(out)
    }

    /// What is a label already, as it is: one that was shown, and is typed or sent back. The label of anything else.
    pub fn new(text: &str) -> Label {
        if is_label(text) { Label(text.to_owned()) } else { Label::of(text.as_bytes()) }
    }

    /// The text of the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A byte that stands for itself.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'@' | b'+' | b'-')
}

fn is_label(text: &str) -> bool {
    if text.is_empty() || text.len() > Label::MAX_BYTES {
        return false;
    }
    let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let mut rest = text.as_bytes();
    if let Some((name, hash)) = text.rsplit_once(CUT) {
        if hash.len() != DIGITS || !hash.bytes().all(|byte| digit(&byte)) {
            return false;
        }
        rest = name.as_bytes();
    }
    while let Some((first, after)) = rest.split_first() {
        rest = match after {
            _ if is_plain(*first) => after,
            [b'x', high, low, after @ ..] if *first == b'\\' && digit(high) && digit(low) => after,
            _ => return false,
        };
    }
    true
}

impl Default for Label {
    fn default() -> Self {
        Label("_".into())
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Label> for String {
    fn from(label: Label) -> String {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Label {
    /// A document from another host is outside, too.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Label::new(&String::deserialize(deserializer)?))
    }
}

/// Does this character drive a terminal, turn text around, or not show at all? Sentences from outside, such as the reason
/// of a command or a line of somebody's file, keep all others.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a label of a whole name was made of.
    fn name_of(label: &str) -> Vec<u8> {
        let (mut name, mut rest) = (Vec::new(), label.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            if *first == b'\\' {
                let text = std::str::from_utf8(&after[1..3]).expect("ASCII");
                name.push(u8::from_str_radix(text, 16).expect("digits"));
                rest = &after[3..];
            } else {
                name.push(*first);
                rest = after;
            }
        }
        name
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_short_label_of_few_characters(name in prop::collection::vec(any::<u8>(), 0..200)) {
            let label = Label::of(&name);
            prop_assert!(!label.is_empty() && label.len() <= Label::MAX_BYTES);
            let alphabet = |c: char| c.is_ascii_alphanumeric() || "._:/@+-\\~".contains(c);
            prop_assert!(label.chars().all(alphabet));
            prop_assert_eq!(Label::new(&label), label.clone(), "what was shown means the same when it is typed");
            if !label.contains(CUT) && !name.is_empty() {
                prop_assert_eq!(name_of(&label), name);
            }
        }

        #[test]
        fn two_names_are_two_labels(
            one in prop::collection::vec(any::<u8>(), 1..90),
            more in prop::collection::vec(any::<u8>(), 1..90),
        ) {
            let other = [one.as_slice(), more.as_slice()].concat();
            prop_assert_ne!(Label::of(&one), Label::of(&other));
        }
    }

    #[test]
    fn usual_job_ids_stay_as_they_are() {
        let longest = "x".repeat(Label::MAX_BYTES);
        for id in ["4711", "vgg-exp", "team/bert.1@a+b:3", longest.as_str()] {
            assert_eq!((Label::new(id).as_str(), Label::of(id.as_bytes()).as_str()), (id, id));
        }
    }

    #[test]
    fn everything_else_is_escaped_and_a_long_name_keeps_its_beginning() {
        assert_eq!(Label::new("a\"\n b").as_str(), "a\\x22\\x0a\\x20b");
        assert_eq!(Label::of(b"\x1b[2J\xff").as_str(), "\\x1b\\x5b2J\\xff");
        assert_eq!(Label::of("\u{202e}".as_bytes()).as_str(), "\\xe2\\x80\\xae");
        assert_eq!(Label::of(b"a\\x0a").as_str(), "a\\x5cx0a", "an escape of somebody else's is none");
        assert_eq!((Label::of(b"").as_str(), Label::new("").as_str()), ("_", "_"));
        let long = Label::of(&[b'x'; 200]);
        assert_eq!(
            (long.len(), long.split_once(CUT).map(|(name, hash)| (name.len(), hash.len()))),
            (64, Some((55, 8)))
        );
        assert_ne!(long, Label::of(&[b'x'; 201]));
        for odd in ["~", "a~b", "a~0123456g", "\\x0", "\\xZZ", "\\x0A", "a b"] {
            assert_ne!(Label::new(odd).as_str(), odd);
        }
    }

    #[test]
    fn what_hides_or_turns_text_around_is_known() {
        for c in ['\u{7}', '\u{1b}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200d}', '\u{feff}', '\u{e0041}'] {
            assert!(is_hidden(c), "{c:?}");
        }
        assert!(!"Größe 東京 ½ – …".chars().any(is_hidden));
    }
}
