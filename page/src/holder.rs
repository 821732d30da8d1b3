//! What of the tables of a `sluice-switch` the page shows: its snapshot as it is, which is bounded already.

use sluice_wire::snapshot::holder::HolderSnapshot;

use crate::events::event;

/// Links of a snapshot at most.
pub const MAX_LINKS: usize = 512;
/// Hosts of a snapshot at most.
pub const MAX_HOSTS: usize = 512;

/// The event for one snapshot.
///
/// # Errors
/// A value has no form in JSON.
pub fn frame(snapshot: &HolderSnapshot) -> Result<Vec<u8>, serde_json::Error> {
    event("snapshot", snapshot)
}
