//! Random loss on cables, by a tc program of its own, since the machine may have no netem.

use sluice_impairment::Dropper;

use super::{Fabric, FabricError, NetNs};

/// The droppers of a fabric; they go with it.
#[derive(Default)]
pub struct Losses {
    data: Vec<Dropper>,
    control: Vec<Dropper>,
}

impl std::fmt::Debug for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Losses({}, {})", self.data.len(), self.control.len())
    }
}

impl Losses {
    /// Attaches one to each end of every cable that has loss, and one to each place where messages of the management network
    /// set out, if that has.
    pub(super) fn attach(fabric: &Fabric) -> Result<Losses, FabricError> {
        let mut losses = Losses::default();
        for link in &fabric.layout.links {
            let probability = fabric.spec.cables[link.cable].loss;
            if probability > 0.0 {
                losses.data.push(dropper(&fabric.node(link.from.node).ns, link.from.device.clone(), probability)?);
            }
        }
        let probability = fabric.spec.control_loss;
        if probability > 0.0 {
            let nodes = fabric.hosts.iter().chain(&fabric.switches).map(|node| (&node.ns, "mgmt0"));
            // What the bridge only passes on has been tossed for where it set out.
            for (ns, device) in nodes.chain([(&fabric.management, "br0")]) {
                losses.control.push(dropper(ns, device.into(), probability)?);
            }
        }
        Ok(losses)
    }

    /// Packets of the data network that passed and that were dropped since the fabric was built, where cables have loss.
    pub fn counts(&self) -> (u64, u64) {
        sum(&self.data)
    }

    /// The same of the management network.
    pub fn control_counts(&self) -> (u64, u64) {
        sum(&self.control)
    }
}

impl Fabric {
    /// A directed link loses packets at random until what this gives is dropped. Bursts are cut into segments meanwhile.
    ///
    /// # Errors
    /// When there is no such link, or the kernel refuses.
    pub fn lose(&self, link: usize, probability: f64) -> Result<Dropper, FabricError> {
        let from = self.layout.links.get(link).map(|link| &link.from);
        let from = from.ok_or_else(|| FabricError::Spec(format!("no link {link}")))?;
        let ns = &self.node(from.node).ns;
        super::setup::ip(ns, &format!("link set dev {} gso_max_segs 1\n", from.device))?;
        dropper(ns, from.device.clone(), probability)
    }
}

fn sum(droppers: &[Dropper]) -> (u64, u64) {
    droppers.iter().map(Dropper::counts).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

fn dropper(ns: &NetNs, device: String, probability: f64) -> Result<Dropper, FabricError> {
    ns.run(move || Dropper::attach(&device, probability))?
        .map_err(|e| FabricError::Missing { what: "random loss".into(), why: format!("attaching the dropper: {e}") })
}
