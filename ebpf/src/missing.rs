//! What a test may have the loader take for missing, so that every tier is opened, and let go of, on every kernel.

use std::fmt;
use std::str::FromStr;

use crate::options::{Error, Options};

/// Something of a kernel that the data path uses where it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Type information of the kernel, without which no program of ours loads.
    Btf,
    /// Registering a congestion control.
    StructOps,
    /// Registering it by a link.
    Link,
    /// Maps that user space maps into its memory.
    Mmap,
    /// Ring buffers, by which the programs tell what happened.
    RingBuf,
    /// Iterators over TCP sockets, which capture live ones.
    Iter,
    /// Options of our own in TCP headers. Nothing here uses them, so their absence changes nothing.
    HdrOpt,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 7] = [
        Feature::Btf,
        Feature::StructOps,
        Feature::Link,
        Feature::Mmap,
        Feature::RingBuf,
        Feature::Iter,
        Feature::HdrOpt,
    ];

    /// The word for it in options of tests.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::Btf => "btf",
            Feature::StructOps => "struct_ops",
            Feature::Link => "link",
            Feature::Mmap => "mmap",
            Feature::RingBuf => "ringbuf",
            Feature::Iter => "iter",
            Feature::HdrOpt => "hdr_opt",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No feature has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no feature {word:?}; allowed: btf, struct_ops, link, mmap, ringbuf, iter, hdr_opt")]
pub struct NoFeature {
    /// The name that was given.
    pub word: String,
}

impl FromStr for Feature {
    type Err = NoFeature;
    fn from_str(word: &str) -> Result<Feature, NoFeature> {
        let found = Feature::ALL.into_iter().find(|feature| feature.name() == word);
        found.ok_or_else(|| NoFeature { word: word.to_owned() })
    }
}

impl Options {
    /// An error for a feature that a test has taken for missing. Asked where the kernel would refuse it.
    pub(crate) fn has(&self, feature: Feature) -> Result<(), Error> {
        if self.pretend_missing.contains(&feature) { Err(Error::Pretended { feature }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_no_other() {
        for feature in Feature::ALL {
            assert_eq!(feature.to_string().parse(), Ok(feature));
        }
        let refused = "links".parse::<Feature>().unwrap_err().to_string();
        assert!(Feature::ALL.iter().all(|feature| refused.contains(feature.name())), "{refused}");
    }

    #[test]
    fn nothing_is_missing_unless_a_test_says_so() {
        assert!(Feature::ALL.iter().all(|feature| Options::default().has(*feature).is_ok()));
        let options = Options { pretend_missing: vec![Feature::Link], ..Options::default() };
        assert!(options.has(Feature::Link).unwrap_err().to_string().contains("link"));
        assert!(options.has(Feature::Btf).is_ok());
    }
}
