//! From the signature of a path to its links.
//!
//! Each link has left a mark of its own in the signature ([`sluice_wire::udp::mark`]), by exclusive or. So of all ways between
//! two hosts it is the one whose marks together are that; where there are several such, nobody can say.

use sluice_schedule::{HolderId, LinkId};
use sluice_wire::udp::{MARK, mark};

use crate::topology::path::Ladder;

/// Ways between two hosts that are looked at, at most.
const MAX_WAYS: usize = 65_536;

/// A way as far as it was followed.
#[derive(Clone, Debug)]
struct Walk {
    at: HolderId,
    mark: u32,
    links: Vec<LinkId>,
}

/// The links between switches of the way that has this signature. Empty: none has it, several have, or there are too many
/// ways.
pub fn way(ladder: &Ladder, signature: u32) -> Vec<LinkId> {
    let Some(first) = ladder.rungs.first() else { return Vec::new() };
    let mut walks: Vec<Walk> = first.switches.iter().map(|at| Walk { at: *at, mark: 0, links: Vec::new() }).collect();
    for steps in &ladder.steps {
        let onward = |walk: &Walk| {
            let walk = walk.clone();
            steps.iter().filter(move |step| step.from == walk.at).map(move |step| {
                let links = walk.links.iter().copied().chain([step.link]).collect();
                Walk { at: step.to, mark: walk.mark ^ mark(step.link), links }
            })
        };
        walks = walks.iter().flat_map(onward).take(MAX_WAYS + 1).collect();
        if walks.len() > MAX_WAYS {
            return Vec::new();
        }
    }
    let mut fitting = walks.into_iter().filter(|walk| walk.mark == signature & MARK);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => only.links,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::leaf_spine;

    #[test]
    fn each_way_has_its_signature_whatever_switches_have_drawn() {
        let topology = leaf_spine();
        let node = |name: &str| topology.node(name).expect("there");
        let ladder = topology.ladder(node("h0"), node("h1"));
        let between = |from: &str, to: &str| {
            let link = topology.between(node(from), node(to))[0];
            topology.link_id(link).expect("an id")
        };
        for spine in ["s0", "s1"] {
            let links = vec![between("l0", spine), between(spine, "l1")];
            let signature = links.iter().fold(0xabc0_0000, |sum, link| sum ^ mark(*link));
            assert_eq!(way(&ladder, signature), links);
            assert_eq!(way(&ladder, signature ^ 1), []);
        }
        let mixed = mark(between("l0", "s0")) ^ mark(between("s1", "l1"));
        assert_eq!(way(&ladder, mixed), [], "no way is by both spines");
    }

    #[test]
    fn what_two_ways_have_says_nothing() {
        let topology = leaf_spine();
        let node = |name: &str| topology.node(name).expect("there");
        let mut ladder = topology.ladder(node("h0"), node("h1"));
        let signature = ladder.steps.iter().fold(0, |sum, steps| sum ^ mark(steps[0].link));
        assert_eq!(way(&ladder, signature).len(), 2);
        for steps in &mut ladder.steps {
            let again = steps[0];
            steps.push(again);
        }
        assert_eq!(way(&ladder, signature), []);
        assert_eq!(way(&Ladder::default(), 0), []);
    }
}
