//! Unmanaged load per link, from what somebody else counts: a file that is kept up to date ([`file`]), or the counters of the
//! switches themselves ([`counted`]).

pub mod counted;
pub mod file;

use sluice_schedule::Rate;

/// The unmanaged load of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortLoad {
    pub switch: String,
    pub port: u32,
    /// On the wire.
    pub rate: Rate,
}
