//! Defects that tests plant in the brains, so that a simulator which does not notice them is noticed itself.
//!
//! Without the feature `mutants` nothing can be planted, and `Planted` is a type without a value.

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A holder keeps the promises of hosts that say nothing any more.
    LeaseNeverEnds,
    /// A holder orders messages by their sequence alone, whatever process sent them.
    SequenceWithoutBoot,
    /// A holder adds an announcement to the earlier one instead of replacing it.
    Added,
    /// A holder takes slots that are two away from its own.
    WideGuard,
    /// A double buffer files every rate one lane too far.
    LaneOffByOne,
    /// A double buffer reads the farthest slot's lane as it reads the others.
    WrapLaneLikeOthers,
    /// A host raises orders before it lowers others.
    RaisedFirst,
    /// A host knows no floor while a view decays.
    FloorSkippedWhenDecaying,
    /// A host takes a holder's silence for an empty link.
    SilenceIsZero,
    /// A host goes on from orders that ran out while it did nothing.
    GapUnnoticed,
    /// A host waits for the whole bound before it dials again, as all others do.
    BackoffWithoutJitter,
    /// A host that has dialed in vain does not dial again.
    GivesUp,
    /// A host plans as if nobody else had been promised anything.
    OthersIgnored,
    /// A host orders no flow more than its floor.
    HeldToFloor,
    /// A host orders two fifths of a fair share.
    Stingy,
    /// A host says that flows have delivered what they have yet to.
    RoundedUp,
    /// A host hears nothing of who else sends for a job.
    DeafToPeers,
    /// A host does not speak to a holder again that it had lost.
    NeverBack,
    /// A host that distrusts its clock does not ask in which slot others are.
    SilentInDoubt,
    /// A holder takes whatever a host says at once.
    QuotaForgotten,
}

/// The defect that a brain has, if it has any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Planted {
    /// This defect and no other.
    #[cfg(feature = "mutants")]
    pub(crate) const fn with(mutant: Mutant) -> Planted {
        Planted { mutant: Some(mutant) }
    }

    /// Is it this one?
    #[cfg(feature = "mutants")]
    pub(crate) fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Never.
    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn is(self, _mutant: Mutant) -> bool {
        false
    }
}
