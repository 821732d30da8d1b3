//! What a wide-area allocation is asked for: links with capacities, and flows on fixed routes in chains.
//!
//! Sizes are in MB (10⁶ bytes), capacities and rates in MB/s, times in seconds, all `f64`. Links, nodes, collectives and
//! flows are numbered from 0 without a gap. A group is one chain of flows of a collective, each of which starts when the one
//! before has delivered its last byte; the flows of an instance that is no set of chains (`deps`) are legal for the
//! simulator and for what orders flows, not for what allocates rates by groups.

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::refusal::Refusal;

/// Flows at most.
pub const MAX_FLOWS: usize = 1_000_000;
/// Nodes at most.
pub const MAX_NODES: usize = 1_000_000;
/// Links at most.
pub const MAX_LINKS: usize = 1_000_000;
/// Dependencies that a file names at most.
pub const MAX_DEPENDENCIES: usize = 10_000_000;

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The node it leaves.
    pub from: usize,
    /// The node it enters.
    pub to: usize,
    /// In MB/s.
    pub capacity: f64,
}

/// A transfer over a fixed route.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The collective it belongs to.
    pub collective: usize,
    /// Its chain within the collective, as the file numbers it.
    pub group: usize,
    /// Its place in the chain, from 0.
    pub order: usize,
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// In MB.
    pub size: f64,
    /// Links in order, head to tail.
    pub path: Vec<usize>,
    /// Seconds after the start of all collectives before which it does not begin.
    pub release: f64,
}

/// A chain of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The collective it belongs to.
    pub collective: usize,
    /// Its number within the collective.
    pub local: usize,
    /// Indices of its flows, by their order.
    pub flows: Vec<usize>,
    /// The sum of their sizes, in MB.
    pub volume: f64,
}

/// Flows of one group over the same links, as one: no static allocation gains from telling them apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The group's index.
    pub group: usize,
    /// The sum of the flows' sizes, in MB.
    pub size: f64,
    /// Links in order, head to tail.
    pub path: Vec<usize>,
    /// Indices of the flows, by their order.
    pub flows: Vec<usize>,
}

/// Why an instance is no set of chains.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Broken {
    collective: usize,
    group: usize,
    what: &'static str,
}

/// A checked instance, with what every method asks of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    name: String,
    nodes: usize,
    links: Vec<Link>,
    flows: Vec<Flow>,
    groups: Vec<Group>,
    /// For each flow its group's index.
    group_of: Vec<usize>,
    /// For each collective where its groups begin, and their number at the end.
    first_group: Vec<usize>,
    predecessors: Vec<Vec<usize>>,
    successors: Vec<Vec<usize>>,
    /// For each link the groups with at least one flow over it, ascending.
    groups_on: Vec<Vec<usize>>,
    /// For each link the flows over it, ascending.
    flows_on: Vec<Vec<usize>>,
    /// For each flow the smallest capacity on its route, in MB/s.
    alone: Vec<f64>,
    /// The dependencies were named, not implied by the chains.
    named_deps: bool,
    broken: Option<Broken>,
}

impl Instance {
    /// Checks what a file or a generator says. Groups are numbered by collective and number within it. Without `deps`
    /// each flow depends on the one before it in its chain; with them on exactly what they name: (a, b) says that b does
    /// not begin before a has ended.
    ///
    /// # Errors
    /// `TooLarge`, `Empty`, `BadSize`, `BadCapacity`, `SelfFlow`, `BadRoute`, `GapInIds` of groups or in `deps`, `NotAChain` when the
    /// orders of a group are not 0, 1, 2 … and there are no `deps`, `Cycle`, `Range`; the first that holds, in this order.
    pub fn new(
        name: impl Into<String>,
        nodes: usize,
        links: Vec<Link>,
        flows: Vec<Flow>,
        deps: Option<Vec<(usize, usize)>>,
    ) -> Result<Instance, Refusal> {
        check::sizes(nodes, &links, &flows, deps.as_deref())?;
        check::collectives(&flows)?;
        check::numbers(&links, &flows)?;
        check::routes(nodes, &links, &flows)?;
        let (groups, collectives) = check::groups(&flows)?;
        let mut group_of = vec![0; flows.len()];
        for (index, group) in groups.iter().enumerate() {
            for &flow in &group.flows {
                group_of[flow] = index;
            }
        }
        let named_deps = deps.is_some();
        let (edges, broken) = match deps {
            None => (check::implied(&flows, &groups)?, None),
            Some(named) => check::named(&flows, &groups, &group_of, named)?,
        };
        let (mut predecessors, mut successors) = (vec![Vec::new(); flows.len()], vec![Vec::new(); flows.len()]);
        for &(before, after) in &edges {
            successors[before].push(after);
            predecessors[after].push(before);
        }
        check::acyclic(&predecessors, &successors)?;
        check::ranges(&links, &flows)?;
        let mut flows_on = vec![Vec::new(); links.len()];
        for (index, flow) in flows.iter().enumerate() {
            for &link in &flow.path {
                flows_on[link].push(index);
            }
        }
        let over = |on: &Vec<usize>| {
            let mut groups: Vec<usize> = on.iter().map(|&flow| group_of[flow]).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        };
        let groups_on = flows_on.iter().map(over).collect();
        let alone =
            flows.iter().map(|flow| flow.path.iter().map(|&link| links[link].capacity).fold(f64::MAX, f64::min));
        let alone = alone.collect();
        let mut first_group = vec![0; collectives + 1];
        for group in &groups {
            first_group[group.collective + 1] += 1;
        }
        for collective in 0..collectives {
            first_group[collective + 1] += first_group[collective];
        }
        let name = name.into();
        Ok(Instance {
            name,
            nodes,
            links,
            flows,
            groups,
            group_of,
            first_group,
            predecessors,
            successors,
            groups_on,
            flows_on,
            alone,
            named_deps,
            broken,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
    /// The links, by index.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// The flows, by index.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }
    /// The groups of all collectives, by index: by collective, then by number within it.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// The index of a flow's group.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn group_of(&self, flow: usize) -> usize {
        self.group_of[flow]
    }
    /// How many collectives there are.
    pub fn collectives(&self) -> usize {
        self.first_group.len() - 1
    }
    /// The indices of a collective's groups; nothing for a collective that is not there.
    pub fn groups_of(&self, collective: usize) -> Range<usize> {
        match self.first_group.get(collective..collective.saturating_add(2)) {
            Some(&[first, end]) => first..end,
            _ => 0..0,
        }
    }
    /// The sum of the sizes of a collective's flows, in MB.
    pub fn volume_of(&self, collective: usize) -> f64 {
        self.groups_of(collective).map(|group| self.groups[group].volume).sum()
    }
    /// The flows that must end before this one begins, ascending.
    pub fn predecessors(&self, flow: usize) -> &[usize] {
        self.predecessors.get(flow).map_or(&[], Vec::as_slice)
    }
    /// The flows that do not begin before this one has ended, ascending.
    pub fn successors(&self, flow: usize) -> &[usize] {
        self.successors.get(flow).map_or(&[], Vec::as_slice)
    }
    /// The groups with at least one flow over a link, ascending.
    pub fn groups_on(&self, link: usize) -> &[usize] {
        self.groups_on.get(link).map_or(&[], Vec::as_slice)
    }
    /// The flows over a link, ascending.
    pub fn flows_on(&self, link: usize) -> &[usize] {
        self.flows_on.get(link).map_or(&[], Vec::as_slice)
    }
    /// The rate of a flow that is alone on its route: the smallest capacity there, in MB/s.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn alone(&self, flow: usize) -> f64 {
        self.alone[flow]
    }
    /// The time of a flow that is alone on its route, in s.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn duration(&self, flow: usize) -> f64 {
        self.flows[flow].size / self.alone[flow]
    }
    /// The dependencies were named when the instance was made, not implied by the chains.
    pub fn has_named_dependencies(&self) -> bool {
        self.named_deps
    }

    /// Every pair (a, b) in which b waits for a, by b and then by a.
    pub fn dependencies(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let befores = self.predecessors.iter().enumerate();
        befores.flat_map(|(after, befores)| befores.iter().map(move |&before| (before, after)))
    }

    /// Refuses what is no set of chains: orders that are not 0, 1, 2 …, or dependencies beyond those of the chains.
    ///
    /// # Errors
    /// `NotAChain`.
    pub fn chains(&self) -> Result<(), Refusal> {
        match self.broken {
            Some(Broken { collective, group, what }) => Err(Refusal::NotAChain { collective, group, what }),
            None => Ok(()),
        }
    }

    /// The flows of each group with the same links merged into one: by group, then by the order of the first of them.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for (group, chain) in self.groups.iter().enumerate() {
            let mut known: BTreeMap<&[usize], usize> = BTreeMap::new();
            for &index in &chain.flows {
                let flow = &self.flows[index];
                let at = *known.entry(&flow.path).or_insert(segments.len());
                match segments.get_mut(at) {
                    Some(segment) => {
                        segment.size += flow.size;
                        segment.flows.push(index);
                    }
                    None => {
                        segments.push(Segment { group, size: flow.size, path: flow.path.clone(), flows: vec![index] });
                    }
                }
            }
        }
        segments
    }
}
