//! Which collectives are a ring all-reduce, as their flows show.
//!
//! Of n participants in a ring, each of n chunks goes 2(n − 1) hops: hop o of chunk c leads from participant (c + o) mod n to the
//! next. In the first n − 1 hops everybody adds its part, in the rest the sum goes round.

use std::collections::{BTreeMap, HashMap};

use super::Chains;
use crate::check::Report;
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::plan::{Collective, Flow, NodeId, Plan};

/// Collectives that are named one by one at most.
const MAX_NAMED: usize = 16;

/// A ring all-reduce.
#[derive(Clone, Copy)]
struct Ring {
    participants: usize,
    /// Does every chunk keep its size from hop to hop?
    even: bool,
}

/// Says which collectives are a ring all-reduce. In a plan of that name all of them must be, and other names than `custom` say
/// something that flows cannot show.
pub fn check(plan: &Plan, chains: &Chains<'_>, report: &mut Report) -> Result<(), Violation> {
    let mut collectives: BTreeMap<u64, Vec<&[usize]>> = BTreeMap::new();
    for ((collective, _), places) in &chains.groups {
        collectives.entry(*collective).or_default().push(places);
    }
    let rings: Vec<(u64, Option<Ring>)> =
        collectives.iter().map(|(number, groups)| (*number, ring(chains.flows, groups))).collect();
    match plan.body.collective {
        Collective::Custom => {}
        Collective::AllReduce => {
            if let Some((number, _)) = rings.iter().find(|(_, ring)| ring.is_none()) {
                let message = format!("the flows of collective {number} are not those of a ring all-reduce");
                return Err(Violation::new(Code::NotARing, "/content/flows", message));
            }
        }
        other => return Err(Fabric::unserved(other, plan.body.content.kind().word())),
    }
    let found: Vec<(u64, Ring)> = rings.iter().filter_map(|(number, ring)| Some((*number, (*ring)?))).collect();
    if found.len() > MAX_NAMED {
        let uneven = found.iter().filter(|(_, ring)| !ring.even).count();
        let (some, all) = (found.len(), rings.len());
        let but = if uneven > 0 {
            format!("; in {uneven} of them chunks change their size on the way")
        } else {
            String::new()
        };
        report.proved.push(format!("{some} of {all} collectives are ring all-reduces{but}"));
        return Ok(());
    }
    for (number, Ring { participants, even }) in found {
        let but = if even { "" } else { ", but for chunks that change their size on the way" };
        report.proved.push(format!("collective {number} is a ring all-reduce of {participants} participants{but}"));
    }
    Ok(())
}

/// The ring that these groups of a collective are.
fn ring(flows: &[Flow], groups: &[&[usize]]) -> Option<Ring> {
    let n = groups.len();
    if n < 2 || groups.iter().any(|group| group.len() != 2 * (n - 1)) {
        return None;
    }
    let first: Vec<NodeId> = groups[0].iter().take(n).map(|place| flows[*place].src).collect();
    let places: HashMap<NodeId, usize> = first.iter().enumerate().map(|(place, node)| (*node, place)).collect();
    if first.len() != n || places.len() != n {
        return None;
    }
    let (mut started, mut even) = (vec![false; n], true);
    for group in groups {
        let start = *places.get(&flows[group[0]].src)?;
        if std::mem::replace(&mut started[start], true) {
            return None;
        }
        for (hop, place) in group.iter().enumerate() {
            let flow = &flows[*place];
            if flow.src != first[(start + hop) % n] || flow.dst != first[(start + hop + 1) % n] {
                return None;
            }
            even &= flow.size.value() == flows[group[0]].size.value();
        }
    }
    Some(Ring { participants: n, even })
}
