//! How much something that came in, or that happened here, differs from what plans were made by: what frees bandwidth or takes
//! it is acted on at once, the rest with the next look.

use crate::units::{Nanos, Rate};

/// A change that moves no more than this part of a link, over all flows, is a small one.
const SMALL: f64 = 0.1;
/// An end that moved is a large change only if it is this near: what others do about a small change may come as late.
pub(super) const SOON: Nanos = Nanos::from_millis(15);

/// How much of what plans are made by is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// Nothing that is worth a word.
    #[default]
    None,
    /// What can wait for the next look, and is told to others with the next word.
    Small,
    /// What frees bandwidth or takes it.
    Large,
}

impl Change {
    /// What is a reason for a plan if it is one at all, and then at once.
    pub fn large_if(condition: bool) -> Change {
        if condition { Change::Large } else { Change::None }
    }

    /// Something has changed, and this much bandwidth of a link of this capacity with it.
    pub fn moving(bandwidth: Rate, of: Rate) -> Change {
        if bandwidth > of.times(SMALL) { Change::Large } else { Change::Small }
    }

    /// Adds another one that came with it.
    pub fn note(&mut self, other: Change) {
        *self = (*self).max(other);
    }
}

/// Was a flow's end, on the cluster's clock, near enough before or after it moved that others count on it? Zero is not known.
pub(super) fn counted_on(now: Nanos, was: Nanos, is: Nanos) -> bool {
    let soon = |end: Nanos| end > Nanos::ZERO && end <= now.plus(SOON);
    was != is && (soon(was) || soon(is))
}
