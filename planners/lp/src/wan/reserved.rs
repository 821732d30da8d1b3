//! Which segments of which groups share a link, each different sharing once.

use std::collections::BTreeMap;

use sluice_planners_wan::{Instance, Segment};

/// What shares a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserved {
    /// The least capacity of the links that are shared by just these, in MB/s: the others follow from it.
    pub capacity: f64,
    /// For each group over the link the indices of its segments there, ascending; by group.
    pub groups: Vec<Vec<usize>>,
}

impl Reserved {
    /// Every set of segments that shares some link, in order of the first such link.
    pub fn by_link(instance: &Instance, segments: &[Segment]) -> Vec<Reserved> {
        let mut over: Vec<Vec<usize>> = vec![Vec::new(); instance.links().len()];
        for (index, segment) in segments.iter().enumerate() {
            segment.path.iter().for_each(|link| over[*link].push(index));
        }
        let mut known: BTreeMap<&[usize], usize> = BTreeMap::new();
        let mut reserved: Vec<Reserved> = Vec::new();
        for (link, members) in over.iter().enumerate().filter(|(_, members)| !members.is_empty()) {
            let capacity = instance.links()[link].capacity;
            let at = *known.entry(members).or_insert(reserved.len());
            match reserved.get_mut(at) {
                Some(same) => same.capacity = same.capacity.min(capacity),
                None => {
                    // Segments stand by group, so that those of one group stand together.
                    let groups = members.chunk_by(|one, next| segments[*one].group == segments[*next].group);
                    reserved.push(Reserved { capacity, groups: groups.map(<[usize]>::to_vec).collect() });
                }
            }
        }
        reserved
    }
}
