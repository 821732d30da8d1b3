//! Flows over hosts with several cards: every flow goes by as many channels as there are rails, one on each, with equal
//! parts of its bytes, as NCCL spreads its channels. A channel depends on the same channels that its flow depends on.

use super::round::{Pred, RoundFlow};

/// The channels of these flows, flow by flow; a host with one card has one channel for each flow, which is the flow itself.
pub fn channels(flows: Vec<RoundFlow>, rails: u32) -> Vec<RoundFlow> {
    if rails < 2 {
        return flows;
    }
    let (each, count) = (u64::from(rails), rails as usize);
    let mut channels = Vec::with_capacity(flows.len() * count);
    for flow in flows {
        for rail in 0..rails {
            let behind = |pred: &Pred| Pred {
                flow: pred.flow * count + rail as usize,
                lead: if pred.lead == 0 { 0 } else { (pred.lead / each).max(1) },
                ..*pred
            };
            channels.push(RoundFlow {
                name: format!("{}/{rail}", flow.name),
                bytes: part(flow.bytes, each, u64::from(rail)),
                preds: flow.preds.iter().map(behind).collect(),
                rail: Some(rail),
                ..flow.clone()
            });
        }
    }
    channels
}

/// The part of one channel: equal ones, and a byte more for the first where it does not come out even. At least one byte.
fn part(bytes: u64, rails: u64, rail: u64) -> u64 {
    (bytes / rails + u64::from(rail < bytes % rails)).max(u64::from(bytes > 0))
}

#[cfg(test)]
mod tests {
    use super::super::Member;
    use super::*;
    use crate::network::NodeIx;
    use proptest::prelude::*;

    fn flow(name: &str, bytes: u64, preds: Vec<Pred>) -> RoundFlow {
        let (from, to) = (Member::Worker(0), Member::Worker(1));
        RoundFlow { name: name.into(), from, to, src: NodeIx(0), dst: NodeIx(1), bytes, preds, stage: 0, rail: None }
    }

    proptest! {
        #[test]
        fn channels_carry_all_and_wait_for_their_like(bytes in prop::collection::vec(1_u64..1000, 1..6), rails in 1_u32..17, lead in 0_u64..50) {
            let count = bytes.len();
            let ring = |i: usize| vec![Pred { flow: (i + count - 1) % count, after: false, lead }];
            let flows: Vec<RoundFlow> = bytes.iter().enumerate().map(|(i, bytes)| flow(&format!("ring{i}"), *bytes, ring(i))).collect();
            let channels = channels(flows.clone(), rails);
            prop_assert_eq!(channels.len(), count * rails as usize);
            for (flow, own) in flows.iter().zip(channels.chunks(rails as usize)) {
                let sum: u64 = own.iter().map(|channel| channel.bytes).sum();
                prop_assert_eq!(sum, flow.bytes.max(u64::from(rails)));
                for channel in own {
                    let pred = &channels[channel.preds[0].flow];
                    prop_assert_eq!(pred.rail, channel.rail);
                    prop_assert_eq!(channel.preds[0].lead > 0, lead > 0);
                }
            }
        }
    }
}
