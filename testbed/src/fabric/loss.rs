//! Random loss on cables, by a tc program of its own, since the machine may have no netem.

use sluice_impairment::Dropper;

use super::{Fabric, FabricError};

/// The droppers of a fabric; they go with it.
#[derive(Default)]
pub struct Losses(Vec<Dropper>);

impl std::fmt::Debug for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Losses({})", self.0.len())
    }
}

impl Losses {
    /// Attaches one to each end of every cable that has loss.
    pub(super) fn attach(fabric: &Fabric) -> Result<Losses, FabricError> {
        let mut losses = Losses::default();
        for link in &fabric.layout.links {
            let probability = fabric.spec.cables[link.cable].loss;
            if probability <= 0.0 {
                continue;
            }
            let device = link.from.device.clone();
            let attached = fabric.node(link.from.node).ns.run(move || Dropper::attach(&device, probability))?;
            losses.0.push(attached.map_err(|e| FabricError::Missing {
                what: "random loss".into(),
                why: format!("attaching the dropper: {e}"),
            })?);
        }
        Ok(losses)
    }

    /// Packets that passed and packets that were dropped since the fabric was built.
    pub fn counts(&self) -> (u64, u64) {
        self.0.iter().map(Dropper::counts).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }
}
