//! Text from outside that may stand in a metric label, a terminal or a file name of a timeline.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// At most 64 characters of `[A-Za-z0-9._:/@+-]`; every other character becomes `_`, an empty text is `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Label(String);

impl Label {
    /// Bytes of a label at most.
    pub const MAX_BYTES: usize = 64;

    /// Makes a label of any text. Two different texts may become one label: it names, it does not identify.
    pub fn new(text: &str) -> Label {
        let clean = |c: char| if c.is_ascii_alphanumeric() || "._:/@+-".contains(c) { c } else { '_' };
        let text: String = text.chars().take(Label::MAX_BYTES).map(clean).collect();
        if text.is_empty() { Label::default() } else { Label(text) }
    }

    /// The text of the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Label {
    fn default() -> Self {
        Label("_".into())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_becomes_a_short_clean_label_and_stays_it(text in ".{0,200}") {
            let label = Label::new(&text);
            prop_assert!(!label.as_str().is_empty() && label.as_str().len() <= Label::MAX_BYTES);
            prop_assert!(label.as_str().chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\'));
            prop_assert_eq!(Label::new(label.as_str()), label);
        }
    }

    #[test]
    fn usual_job_ids_stay_as_they_are() {
        for id in ["4711", "vgg-exp", "team/bert.1@a+b:3"] {
            assert_eq!(Label::new(id).as_str(), id);
        }
        assert_eq!(Label::new("a\"\n b").as_str(), "a___b");
    }
}
