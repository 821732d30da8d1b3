//! Defects planted on purpose, and which invariants each of them breaks.

use sluice_schedule::mutant::Mutant as InBrain;

/// Defects planted on purpose, each of which the invariants must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// One in a brain.
    InBrain(InBrain),
    /// The kernel takes an order for whoever has the row now.
    GenerationNotChecked,
    /// The last orders of a process that ends in order live for ever.
    GraceWithoutEnd,
    /// The kernel keeps to orders that have expired.
    OrdersForEver,
    /// A host's slots follow a clock that was set back.
    SlotsGoBack,
    /// A host keeps to the first path that it learned.
    PathsForEver,
    /// The kernel does not wake a flow whose order was lowered until it is as high as it was.
    NotWoken,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 26] = [
        Mutant::InBrain(InBrain::LeaseNeverEnds),
        Mutant::InBrain(InBrain::SequenceWithoutBoot),
        Mutant::InBrain(InBrain::Added),
        Mutant::InBrain(InBrain::WideGuard),
        Mutant::InBrain(InBrain::LaneOffByOne),
        Mutant::InBrain(InBrain::WrapLaneLikeOthers),
        Mutant::GenerationNotChecked,
        Mutant::InBrain(InBrain::RaisedFirst),
        Mutant::InBrain(InBrain::FloorSkippedWhenDecaying),
        Mutant::InBrain(InBrain::SilenceIsZero),
        Mutant::InBrain(InBrain::GapUnnoticed),
        Mutant::InBrain(InBrain::BackoffWithoutJitter),
        Mutant::InBrain(InBrain::GivesUp),
        Mutant::InBrain(InBrain::OthersIgnored),
        Mutant::InBrain(InBrain::HeldToFloor),
        Mutant::InBrain(InBrain::Stingy),
        Mutant::InBrain(InBrain::RoundedUp),
        Mutant::InBrain(InBrain::DeafToPeers),
        Mutant::InBrain(InBrain::NeverBack),
        Mutant::InBrain(InBrain::SilentInDoubt),
        Mutant::InBrain(InBrain::QuotaForgotten),
        Mutant::GraceWithoutEnd,
        Mutant::OrdersForEver,
        Mutant::SlotsGoBack,
        Mutant::PathsForEver,
        Mutant::NotWoken,
    ];

    /// The invariants that it breaks. A run that ends by another one says nothing of whether the defect would be noticed.
    pub const fn breaks(self) -> &'static [u8] {
        match self {
            // What is kept is older than a lease, and a table is not what those who live imply.
            Mutant::InBrain(InBrain::LeaseNeverEnds) => &[3, 12],
            // The first words of a new process are refused as old.
            Mutant::InBrain(InBrain::SequenceWithoutBoot) => &[12],
            // Sums are not those of the last words.
            Mutant::InBrain(InBrain::Added | InBrain::LaneOffByOne | InBrain::WrapLaneLikeOthers) => &[12],
            // A word of two slots away is taken, and kept for a slot that it may not be kept for.
            Mutant::InBrain(InBrain::WideGuard) => &[3, 12],
            Mutant::GenerationNotChecked => &[8],
            // For a moment the own link is ordered more than it carries.
            Mutant::InBrain(InBrain::RaisedFirst) => &[1],
            Mutant::InBrain(InBrain::FloorSkippedWhenDecaying) => &[4],
            // Orders jump where nothing was heard.
            Mutant::InBrain(InBrain::SilenceIsZero | InBrain::GapUnnoticed) => &[10],
            Mutant::InBrain(InBrain::BackoffWithoutJitter) => &[11],
            // Long after all faults somebody is not reached yet.
            Mutant::InBrain(InBrain::GivesUp) => &[17],
            // Links inside are promised more than they carry.
            Mutant::InBrain(InBrain::OthersIgnored) => &[2],
            // What has room is held.
            Mutant::InBrain(InBrain::HeldToFloor) => &[7],
            // Jobs get less than half of their share.
            Mutant::InBrain(InBrain::Stingy) => &[5, 18],
            Mutant::InBrain(InBrain::RoundedUp) => &[14],
            Mutant::InBrain(InBrain::DeafToPeers) => &[15],
            // Who has lost a holder, or once was in another slot, hears nothing any more.
            Mutant::InBrain(InBrain::NeverBack | InBrain::SilentInDoubt) => &[7, 17, 18],
            Mutant::InBrain(InBrain::QuotaForgotten) => &[9],
            // Who is dead still holds a flow.
            Mutant::GraceWithoutEnd | Mutant::OrdersForEver => &[4],
            Mutant::SlotsGoBack => &[6],
            Mutant::PathsForEver => &[16],
            // A flow with bytes to send and an order moves none.
            Mutant::NotWoken => &[13],
        }
    }

    pub(crate) fn in_brain(self) -> Option<InBrain> {
        match self {
            Mutant::InBrain(mutant) => Some(mutant),
            _ => None,
        }
    }
}
