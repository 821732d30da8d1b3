//! The kernel side of Sluice: BPF programs in C (`bpf/`), their one ABI header, the loader, and the datapath that the
//! daemon drives. No policy lives here: the daemon says a rate, the kernel program holds it, guards it, and lets go of
//! the socket by itself when the order has expired.

pub mod datapath;

pub use datapath::{Datapath, FlowStats, Row, SocketEvent, SocketEventKind, Tier};
