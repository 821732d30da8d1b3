//! A holder of load tables, as this host sees it.

use serde::{Deserialize, Serialize};

words! {
    /// How much a holder's view counts.
    View {
        /// Heard at most a slot ago.
        Fresh = "fresh",
        /// Old, used as it was.
        Holding = "holding",
        /// Counts less with every slot.
        Decaying = "decaying",
        /// Only own links are known.
        #[default]
        Local = "local",
        /// Flows there run as plain TCP.
        Plain = "plain",
    }
    /// How a holder is spoken to.
    Transport {
        /// One stream.
        #[default]
        Session = "session",
        /// Two calls a slot.
        Unary = "unary",
        /// Datagrams, which carry sums of rates only.
        Udp = "udp",
        /// Datagrams along the paths of flows, to which switches write on the way.
        Inband = "inband",
    }
    /// The connection to a holder.
    SwitchState {
        /// It is connected and answers.
        Up = "up",
        /// Answers, but its table is not complete yet.
        Warming = "warming",
        /// It is connected and does not answer.
        Silent = "silent",
        /// Not asked (mode, or no flow crosses it).
        #[default]
        Idle = "idle",
    }
}

/// The state of one holder of load tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchStatus {
    /// Its name; for a peer that keeps its own link's table: the node name.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// How it is spoken to.
    pub transport: Transport,
    /// True: another host, not a switch.
    pub peer: bool,
    /// The state of the connection.
    pub state: SwitchState,
    /// How much its view counts.
    pub view: View,
    /// Boot id, 16 hex digits; empty: not known.
    pub boot: String,
    /// Links of this host's flows it keeps.
    pub links: u64,
    /// Median time from announcement to answer.
    pub exchange_p50_ns: Option<u64>,
    /// The 99th percentile of that time.
    pub exchange_p99_ns: Option<u64>,
    /// Since the last answer.
    pub age_ns: Option<u64>,
    /// The same in slots.
    pub age_slots: Option<u64>,
    /// Its slot minus this host's.
    pub slot_diff: Option<i32>,
    /// Its clock minus this host's, half a round trip exact.
    pub offset_ns: Option<i64>,
    /// Announcements that the holder refused.
    pub rejects: u64,
    /// What was wrong last; empty: nothing.
    pub last_error: String,
    /// Messages sent to it.
    pub sent_messages: u64,
    /// Messages received from it.
    pub received_messages: u64,
}
