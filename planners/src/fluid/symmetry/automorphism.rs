//! A permutation of a fabric's nodes that keeps everything, with what it does to links and limits.

use crate::fluid::network::{Group, Network};
use crate::fluid::refusal::Refusal;
use std::collections::{BTreeMap, HashMap};

/// A permutation of nodes and links that was checked to leave the fabric as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Automorphism {
    /// By node where it goes.
    pub nodes: Vec<u32>,
    /// By link where it goes.
    pub edges: Vec<u32>,
    /// By limit where it goes.
    pub groups: Vec<u32>,
}

/// A number as it compares: equal numbers have equal bits.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

/// The ends of a link and its cost.
type Ends = (u32, u32, u64);

impl Automorphism {
    /// Every node, link and limit stays.
    pub fn identity(network: &Network) -> Automorphism {
        let stay = |count: usize| (0..count as u32).collect();
        Automorphism {
            nodes: stay(network.nodes()),
            edges: stay(network.edges.len()),
            groups: stay(network.groups.len()),
        }
    }

    /// First this one, then the other.
    #[must_use]
    pub fn then(&self, other: &Automorphism) -> Automorphism {
        let through = |first: &[u32], second: &[u32]| first.iter().map(|image| second[*image as usize]).collect();
        Automorphism {
            nodes: through(&self.nodes, &other.nodes),
            edges: through(&self.edges, &other.edges),
            groups: through(&self.groups, &other.groups),
        }
    }

    /// The automorphism that has these images of nodes and keeps the marks. Of parallel links that nothing tells apart the
    /// first goes to the first.
    ///
    /// # Errors
    /// `NotAnAutomorphism`, with the first thing that is not kept.
    pub fn verify(network: &Network, marks: &[u32], nodes: &[u32]) -> Result<Automorphism, Refusal> {
        let refuse = |what: String| Err(Refusal::NotAnAutomorphism { what });
        let count = network.nodes();
        if nodes.len() != count || marks.len() != count {
            return refuse(format!("{} images and {} marks for {count} nodes", nodes.len(), marks.len()));
        }
        let mut taken = vec![false; count];
        for (node, image) in nodes.iter().enumerate() {
            match taken.get_mut(*image as usize) {
                None => return refuse(format!("node {node} goes to {image}; there are {count} nodes")),
                Some(true) => return refuse(format!("two nodes go to node {image}")),
                Some(free) => *free = true,
            }
            if network.can[node] != network.can[*image as usize] {
                return refuse(format!("node {node} goes to node {image}, which has other abilities"));
            }
            if marks[node] != marks[*image as usize] {
                return refuse(format!("node {node} goes to node {image}, which plays another part"));
            }
        }
        let edges = edges(network, nodes)?;
        let groups = groups(network, &edges)?;
        Ok(Automorphism { nodes: nodes.to_vec(), edges, groups })
    }
}

/// By link the rates of limits of its own and the kinds of limits that it shares, both ascending. Shared limits are of a
/// kind where they have the same rate and links between the same nodes.
struct Bounds {
    own: Vec<Vec<u64>>,
    shared: Vec<Vec<u32>>,
}

impl Bounds {
    /// With the nodes renamed; kinds that are new are numbered on.
    fn of(network: &Network, ends: impl Fn(u32) -> Ends, kinds: &mut BTreeMap<(u64, Vec<Ends>), u32>) -> Bounds {
        let count = network.edges.len();
        let mut bounds = Bounds { own: vec![Vec::new(); count], shared: vec![Vec::new(); count] };
        for group in &network.groups {
            if let [edge] = group.edges[..] {
                bounds.own[edge as usize].push(bits(group.rate));
                continue;
            }
            let mut members: Vec<Ends> = group.edges.iter().map(|edge| ends(*edge)).collect();
            members.sort_unstable();
            let next = kinds.len() as u32;
            let kind = *kinds.entry((bits(group.rate), members)).or_insert(next);
            group.edges.iter().for_each(|edge| bounds.shared[*edge as usize].push(kind));
        }
        bounds.own.iter_mut().for_each(|own| own.sort_unstable());
        bounds.shared.iter_mut().for_each(|shared| shared.sort_unstable());
        bounds
    }
}

/// Where links go when nodes go to these images.
fn edges(network: &Network, nodes: &[u32]) -> Result<Vec<u32>, Refusal> {
    let refuse = |what: String| Err(Refusal::NotAnAutomorphism { what });
    let there = |edge: u32| {
        let edge = &network.edges[edge as usize];
        (edge.from, edge.to, bits(edge.cost))
    };
    let moved = |edge: u32| {
        let (from, to, cost) = there(edge);
        (nodes[from as usize], nodes[to as usize], cost)
    };
    let mut kinds = BTreeMap::new();
    let standing = Bounds::of(network, there, &mut kinds);
    let images = Bounds::of(network, moved, &mut kinds);
    let mut sources: Vec<u32> = (0..network.edges.len() as u32).collect();
    let mut targets = sources.clone();
    let key = |bounds: &Bounds, ends: Ends, edge: u32| {
        (ends, bounds.own[edge as usize].clone(), bounds.shared[edge as usize].clone())
    };
    sources.sort_by_cached_key(|edge| key(&images, moved(*edge), *edge));
    targets.sort_by_cached_key(|edge| key(&standing, there(*edge), *edge));
    let pairs = || sources.iter().copied().zip(targets.iter().copied());
    let between = |ends: Ends| (ends.0, ends.1);
    if let Some((source, _)) = pairs().find(|(source, target)| between(moved(*source)) != between(there(*target))) {
        let (from, to, _) = moved(source);
        return refuse(format!("the links from node {from} to node {to} are not as many as those that go there"));
    }
    if let Some((source, _)) = pairs().find(|(source, target)| moved(*source).2 != there(*target).2) {
        let (from, to, _) = moved(source);
        return refuse(format!("link {source} goes to a link from node {from} to node {to}; none has its cost"));
    }
    let own = |(source, target): &(u32, u32)| images.own[*source as usize] != standing.own[*target as usize];
    if let Some((source, target)) = pairs().find(own) {
        return refuse(format!("link {source} goes to link {target}, which has another limit"));
    }
    let shared = |(source, target): &(u32, u32)| images.shared[*source as usize] != standing.shared[*target as usize];
    if let Some((source, target)) = pairs().find(shared) {
        return refuse(format!("link {source} goes to link {target}, which shares its limits with others"));
    }
    let mut edges = vec![0; network.edges.len()];
    pairs().for_each(|(source, target)| edges[source as usize] = target);
    Ok(edges)
}

/// Where limits go when links go to these images: each to one with the same rate and the images of its links.
fn groups(network: &Network, edges: &[u32]) -> Result<Vec<u32>, Refusal> {
    let mut sets: HashMap<&[u32], u32> = HashMap::with_capacity(network.groups.len());
    let mut places: HashMap<(u32, u64), Vec<u32>> = HashMap::with_capacity(network.groups.len());
    // Equal limits are taken from the end, the first of them first, so that nothing moves without need.
    for (index, group) in network.groups.iter().enumerate().rev() {
        let next = sets.len() as u32;
        let set = *sets.entry(&group.edges).or_insert(next);
        places.entry((set, bits(group.rate))).or_default().push(index as u32);
    }
    let image = |(index, group): (usize, &Group)| {
        let mut images: Vec<u32> = group.edges.iter().map(|edge| edges[*edge as usize]).collect();
        images.sort_unstable();
        let place = sets.get(&images[..]).and_then(|set| places.get_mut(&(*set, bits(group.rate)))).and_then(Vec::pop);
        place.ok_or_else(|| {
            let what = format!("limit {index} goes to links that have no limit of its rate together");
            Refusal::NotAnAutomorphism { what }
        })
    };
    network.groups.iter().enumerate().map(image).collect()
}
