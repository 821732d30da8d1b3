//! Cables that delay: two TAP devices in place of a veth pair, and a relay in user space between them, since the machine
//! may have no netem.

use std::time::Duration;

use sluice_impairment::{Relay, tap};
use sluice_schedule::Nanos;

use super::{Fabric, FabricError, FabricSpec, groups};

/// Does a relay carry this cable?
pub fn is_relayed(spec: &FabricSpec, cable: usize) -> bool {
    spec.relays.is_some_and(|least| spec.cables[cable].delay >= least.max(Nanos(1)))
}

/// Refuses what a relay cannot carry.
pub fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let relayed = (0..spec.cables.len()).filter(|cable| is_relayed(spec, *cable));
    for cable in relayed {
        if groups::is_shared(spec, cable) {
            return Err(FabricError::Spec(format!("cable {cable} delays, and one of its links is in a group")));
        }
    }
    Ok(())
}

/// The relays of a fabric; they and their devices go with it.
#[derive(Default)]
pub struct Delays(Vec<Relay>);

impl std::fmt::Debug for Delays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delays({})", self.0.len())
    }
}

impl Delays {
    /// How many cables delay.
    pub fn cables(&self) -> usize {
        self.0.len()
    }

    /// Processor time that the relays have taken so far, within a moment.
    pub fn cpu(&self) -> Duration {
        self.0.iter().map(Relay::cpu).sum()
    }

    /// Frames that were lost because too many were under way.
    pub fn overflowed(&self) -> u64 {
        self.0.iter().map(Relay::overflowed).sum()
    }

    /// Makes the devices of every cable that delays, and a relay between each two.
    pub(super) fn start(fabric: &Fabric) -> Result<Delays, FabricError> {
        let mut delays = Delays::default();
        for pair in fabric.layout.links.chunks(2) {
            let cable = pair[0].cable;
            if !is_relayed(&fabric.spec, cable) {
                continue;
            }
            let made = |end: &super::PortRef| {
                let device = end.device.clone();
                let made = fabric.node(end.node).ns.run(move || tap(&device))?;
                let why = |e: std::io::Error| e.to_string();
                made.map_err(|e| FabricError::Missing { what: "a cable that delays".into(), why: why(e) })
            };
            let (a, b) = (made(&pair[0].from)?, made(&pair[0].to)?);
            let delay = Duration::from_nanos(fabric.spec.cables[cable].delay.0);
            delays.0.push(Relay::start(a, b, delay, 0.0));
        }
        Ok(delays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Group, Layout};
    use sluice_schedule::{Bytes, Rate};

    #[test]
    fn what_a_relay_cannot_carry_is_refused() {
        let mut spec = FabricSpec { relays: Some(Nanos::ZERO), ..FabricSpec::star(2, Rate::mbps(10), Bytes(100_000)) };
        spec.cables[1].delay = Nanos::from_millis(1);
        assert!(!is_relayed(&spec, 0) && is_relayed(&spec, 1));
        Layout::of(&spec).expect("a fabric");
        let group = |links| vec![Group { name: "all".into(), links, rate: Rate::mbps(10) }];
        Layout::of(&FabricSpec { groups: group(vec![0, 1]), ..spec.clone() }).expect("another cable's group");
        let shared = FabricSpec { groups: group(vec![3]), ..spec.clone() };
        assert!(Layout::of(&shared).unwrap_err().to_string().contains("cable 1 delays"));
        Layout::of(&FabricSpec { relays: None, ..shared }).expect("without relays nothing delays");
    }
}
