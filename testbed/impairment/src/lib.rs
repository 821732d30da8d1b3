//! Loss and delay for tests, on machines that may have no netem.
//!
//! [`Dropper`] drops packets at random where they leave an interface; [`Relay`] carries packets between two TUN or TAP
//! devices and delays or loses them on the way.

mod drop;
mod relay;

pub use drop::{DropError, Dropper};
pub use relay::{Relay, tap, tun};
