//! `fair`: every flow with demand gets an equal share of each link it crosses, and the least of them.
//!
//! What a flow cannot use on its own egress, because another link holds it back, goes to the others there.

use super::{Planned, Policy, Scene, Why, forecast, resize};
use crate::units::Rate;

/// The policy; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Policy for Fair {
    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>) {
        resize(out, scene.flows.len());
        for (flow, planned) in scene.flows.iter().zip(out.iter_mut()) {
            let elsewhere = flow.links.iter().map(|&l| &scene.links[l]).filter(|link| !link.own);
            planned.offer = elsewhere.map(|link| link.usable.share(link.active)).min().unwrap_or(Rate::MAX);
            planned.why = Why::LinkCap;
        }
        // Water-filling on each own link: the most restricted flow first, what it leaves is shared by the rest.
        for l in (0..scene.links.len()).filter(|&l| scene.links[l].own) {
            let mut here: Vec<usize> = (0..scene.flows.len()).filter(|&i| scene.flows[i].links.contains(&l)).collect();
            here.sort_by_key(|&i| (out[i].offer, i));
            let mut rest = scene.links[l].usable;
            for (done, &i) in here.iter().enumerate() {
                let share = rest.share((here.len() - done) as u64);
                out[i].offer = out[i].offer.min(share);
                rest = rest.minus(out[i].offer);
            }
        }
        for (flow, planned) in scene.flows.iter().zip(out.iter_mut()) {
            planned.rate = planned.offer.max(flow.floor);
            forecast(scene, planned.rate, flow.remaining(), &mut planned.rates);
        }
    }
}
