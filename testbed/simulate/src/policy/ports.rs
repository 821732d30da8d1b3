//! The cluster as one big switch: every host has a port up and a port down, and a transfer takes one of each.

use sluice_scenario::{NodeIx, Scenario};

use crate::world::Flow;

/// A host's NIC in one direction. Ports order by host, up before down, which is how ties go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIx(pub usize);

impl PortIx {
    /// What the host sends.
    pub fn up(host: NodeIx) -> PortIx {
        PortIx(host.0 * 2)
    }
    /// What the host receives.
    pub fn down(host: NodeIx) -> PortIx {
        PortIx(host.0 * 2 + 1)
    }
}

/// One transfer on the big switch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Port of the sender.
    pub up: PortIx,
    /// Port of the receiver.
    pub down: PortIx,
    /// Bytes that are still to be sent.
    pub bytes: f64,
}

impl Transfer {
    /// What remains of a flow.
    pub fn of(flow: &Flow) -> Transfer {
        Transfer { up: PortIx::up(flow.src), down: PortIx::down(flow.dst), bytes: flow.remaining() }
    }
}

/// Seconds of work on each port that has any, by port: D(m) of `simulation.md` section 7.
pub type Load = Vec<(PortIx, f64)>;

/// Rates of all ports, bytes per second, and what the present computation has left of them.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    rate: Vec<f64>,
    left: Vec<f64>,
    taken: Vec<PortIx>,
}

impl Ports {
    /// The NICs of a scenario's hosts.
    pub fn of(scenario: &Scenario) -> Ports {
        let network = &scenario.network;
        let mut rate = vec![0.0; network.hosts.len() * 2];
        for link in &network.links {
            for port in [PortIx::up(link.from), PortIx::down(link.to)] {
                // Ports of switches lie behind those of hosts and are not there.
                if let Some(r) = rate.get_mut(port.0) {
                    *r += link.rate.0 as f64 / 8.0;
                }
            }
        }
        Ports::new(rate)
    }

    /// Ports with these rates, in bytes per second.
    pub fn new(rate: Vec<f64>) -> Ports {
        Ports { left: rate.clone(), rate, taken: Vec::new() }
    }

    /// Bytes per second of a port.
    pub fn rate(&self, port: PortIx) -> f64 {
        self.rate.get(port.0).copied().unwrap_or(0.0)
    }

    /// Bytes per second of a port that nobody has taken yet.
    pub fn left(&self, port: PortIx) -> f64 {
        self.left.get(port.0).copied().unwrap_or(0.0)
    }

    /// Takes from a transfer's two ports. What is left below a billionth of the port is rounding, and nothing.
    pub fn take(&mut self, transfer: &Transfer, rate: f64) {
        for port in [transfer.up, transfer.down] {
            let left = self.left[port.0] - rate;
            self.left[port.0] = if left < self.rate[port.0] * 1e-9 { 0.0 } else { left };
            self.taken.push(port);
        }
    }

    /// Everything is left again.
    pub fn refill(&mut self) {
        while let Some(port) = self.taken.pop() {
            self.left[port.0] = self.rate[port.0];
        }
    }

    /// Bytes of these transfers on each port, by port.
    pub fn bytes(transfers: &[Transfer]) -> Load {
        let mut load: Load = Vec::with_capacity(transfers.len() * 2);
        for t in transfers {
            load.extend([(t.up, t.bytes), (t.down, t.bytes)]);
        }
        // Stable, so that bytes add up in the order of the transfers.
        load.sort_by_key(|&(port, _)| port);
        load.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        load
    }

    /// Seconds that each port needs for these transfers when it has nothing else to do.
    pub fn load(&self, transfers: &[Transfer]) -> Load {
        let mut load = Ports::bytes(transfers);
        load.retain(|&(_, bytes)| bytes > 0.0);
        for (port, bytes) in &mut load {
            *bytes /= self.rate(*port);
        }
        load
    }

    /// The largest of these loads: Γ, the time the transfers need at least.
    pub fn gamma(&self, transfers: &[Transfer]) -> f64 {
        self.load(transfers).iter().fold(0.0, |most, &(_, seconds)| seconds.max(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_is_the_busiest_port() {
        let ports = Ports::new(vec![10.0, 10.0, 10.0, 5.0]);
        let t = |src, dst, bytes| Transfer { up: PortIx::up(NodeIx(src)), down: PortIx::down(NodeIx(dst)), bytes };
        let transfers = [t(0, 1, 20.0), t(1, 0, 30.0), t(0, 1, 10.0)];
        let want = [(PortIx(0), 3.0), (PortIx(1), 3.0), (PortIx(2), 3.0), (PortIx(3), 6.0)];
        assert_eq!(ports.load(&transfers), want);
        assert_eq!(ports.gamma(&transfers), 6.0);
        assert_eq!(ports.gamma(&[t(0, 1, 0.0)]), 0.0);
    }

    #[test]
    fn taken_is_given_back() {
        let mut ports = Ports::new(vec![10.0; 4]);
        let t = Transfer { up: PortIx(0), down: PortIx(3), bytes: 1.0 };
        ports.take(&t, 4.0);
        ports.take(&t, 6.0 - 1e-12);
        assert_eq!([ports.left(PortIx(0)), ports.left(PortIx(3)), ports.left(PortIx(1))], [0.0, 0.0, 10.0]);
        ports.refill();
        assert_eq!([ports.left(PortIx(0)), ports.left(PortIx(3))], [10.0, 10.0]);
    }
}
