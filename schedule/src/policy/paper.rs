//! Stub until the allocator is in.
use super::{Fair, Planned, Policy, Scene};
use crate::host::HostConfig;
/// Adaptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrimalDual;
impl PrimalDual {
    /// New.
    pub fn new(_: &HostConfig) -> Self {
        PrimalDual
    }
}
impl Policy for PrimalDual {
    fn plan(&self, scene: &Scene, out: &mut Vec<Planned>) {
        Fair.plan(scene, out)
    }
}
