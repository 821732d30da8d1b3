//! What the program counts: by port what Sluice packets did there, and why frames were dropped.

use crate::{PORTS, Reason};

/// Counters of one egress port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that left.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Announcements that were counted.
    pub announcements: u64,
    /// Announcements that had been counted before.
    pub duplicates: u64,
    /// Probes that were answered.
    pub probes: u64,
    /// Packets of a slot that the guard does not let in.
    pub rejected: u64,
    /// Packets whose rates are in another unit than the link's.
    pub other_unit: u64,
}

impl PortCounters {
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// All counters of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    ports: Vec<PortCounters>,
    /// What went to a port beyond the last one is counted here.
    beyond: PortCounters,
    drops: [u64; Reason::ALL.len()],
}

impl Default for Counters {
    fn default() -> Counters {
        let ports = vec![PortCounters::default(); usize::from(PORTS)];
        Counters { ports, beyond: PortCounters::default(), drops: [0; Reason::ALL.len()] }
    }
}

impl Counters {
    /// What left by a port.
    pub fn of_port(&self, port: u16) -> PortCounters {
        self.ports.get(usize::from(port)).copied().unwrap_or(self.beyond)
    }

    /// How many frames went nowhere for this reason.
    pub fn drops(&self, reason: Reason) -> u64 {
        self.drops[reason as usize]
    }

    pub(crate) fn port(&mut self, port: u16) -> &mut PortCounters {
        self.ports.get_mut(usize::from(port)).unwrap_or(&mut self.beyond)
    }

    pub(crate) fn dropped(&mut self, reason: Reason) {
        self.drops[reason as usize] += 1;
    }
}
