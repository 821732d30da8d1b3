//! Where everything stands: machines beside each other, compute nodes below, each layer of switches above the last.
//!
//! A node's layer is its distance from the compute nodes. Compute nodes of a machine that are linked to each other
//! directly stand on a circle, where every link is visible; the others in two staggered rows.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::f64::consts::TAU;

use crate::topology::{Text, Topology};

const NODE: (f64, f64) = (46.0, 20.0);
const STEP: (f64, f64) = (56.0, 40.0);
/// From layer to layer of switches.
const LAYER: f64 = 90.0;
/// Inside a frame and around the picture.
const MARGIN: f64 = 22.0;

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Its middle, from the left.
    pub x: f64,
    /// Its middle, from the top.
    pub y: f64,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
}

/// The frame of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Name of the machine.
    pub label: Text,
    /// Its left edge, from the left of the picture.
    pub x: f64,
    /// Its upper edge, from the top of the picture.
    pub y: f64,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
}

/// Places of all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// One per node, by index.
    pub places: Vec<Place>,
    /// One per machine that has nodes.
    pub frames: Vec<Frame>,
    /// Width of the whole picture.
    pub width: f64,
    /// Height of the whole picture.
    pub height: f64,
}

/// A machine, or everything that belongs to none, before it has a place: positions from its own lower left corner,
/// upwards.
#[derive(Default)]
struct Group {
    at: Vec<(usize, f64, f64)>,
    width: f64,
    height: f64,
}

/// Places the nodes of a topology.
pub fn layout(topology: &Topology) -> Layout {
    let nodes = topology.nodes();
    let near = near(topology);
    let layers = layers(topology, &near);
    let mut members: BTreeMap<Option<Text>, Vec<usize>> = BTreeMap::new();
    let mut order: Vec<Option<Text>> = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        // Switches of no machine stand above all machines; everything else of no machine forms a group of its own.
        if node.machine.is_none() && layers[i] > 0 {
            continue;
        }
        let list = members.entry(node.machine.clone()).or_default();
        if list.is_empty() {
            order.push(node.machine.clone());
        }
        list.push(i);
    }
    let direct = direct(topology);
    let groups: Vec<(Option<Text>, Group)> = order
        .into_iter()
        .map(|machine| (machine.clone(), group(&members[&machine], &layers, &direct, &near)))
        .collect();
    let tallest = groups.iter().map(|(_, group)| group.height).fold(0.0, f64::max);
    let widths: f64 = groups.iter().map(|(_, group)| group.width + 2.0 * MARGIN).sum();
    let mut above: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for i in (0..nodes.len()).filter(|i| nodes[*i].machine.is_none() && layers[*i] > 0) {
        above.entry(layers[i]).or_default().push(i);
    }
    let widest = above.values().map(|row| row.len() as f64 * STEP.0).fold(0.0, f64::max);
    let width = widths.max(widest) + 2.0 * MARGIN;
    let top = MARGIN + LAYER * above.len() as f64;
    let bottom = top + tallest + 2.0 * MARGIN;
    let place = |x: f64, y: f64| Place { x, y, width: NODE.0, height: NODE.1 };
    let mut layout =
        Layout { places: vec![Place::default(); nodes.len()], frames: Vec::new(), width, height: bottom + MARGIN };
    let mut left = (width - widths) / 2.0;
    for (machine, group) in groups {
        let (x, base) = (left + MARGIN, bottom - MARGIN);
        for (node, dx, up) in &group.at {
            layout.places[*node] = place(x + dx, base - up);
        }
        if let Some(label) = machine {
            let frame =
                Frame { label, x: left + 5.0, y: top, width: group.width + 2.0 * MARGIN - 10.0, height: bottom - top };
            layout.frames.push(frame);
        }
        left += group.width + 2.0 * MARGIN;
    }
    for (row, list) in above.values().enumerate() {
        let y = top - LAYER * (row as f64 + 1.0) + LAYER / 2.0;
        let step = (width - 2.0 * MARGIN) / list.len() as f64;
        for (i, node) in list.iter().enumerate() {
            layout.places[*node] = place(MARGIN + step * (i as f64 + 0.5), y);
        }
    }
    layout
}

/// The nodes at the other end of every node's links.
fn near(topology: &Topology) -> Vec<Vec<usize>> {
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); topology.nodes().len()];
    for link in topology.links() {
        near[link.from].push(link.to);
        near[link.to].push(link.from);
    }
    near
}

/// Distance of every node from the compute nodes; nodes that reach none stand in layer 1, an empty fabric's in 0.
fn layers(topology: &Topology, near: &[Vec<usize>]) -> Vec<usize> {
    let mut layers = vec![usize::MAX; topology.nodes().len()];
    let mut queue = VecDeque::new();
    for node in topology.compute() {
        layers[node] = 0;
        queue.push_back(node);
    }
    while let Some(node) = queue.pop_front() {
        for next in &near[node] {
            if layers[*next] == usize::MAX {
                layers[*next] = layers[node] + 1;
                queue.push_back(*next);
            }
        }
    }
    layers.into_iter().map(|layer| if layer == usize::MAX { 1 } else { layer }).collect()
}

/// Is a compute node linked straight to another one of its machine?
fn direct(topology: &Topology) -> Vec<bool> {
    let nodes = topology.nodes();
    let mut direct = vec![false; nodes.len()];
    for link in topology.links().iter().filter(|link| link.from != link.to) {
        let (a, b) = (&nodes[link.from], &nodes[link.to]);
        if a.is_compute() && b.is_compute() && a.machine == b.machine {
            direct[link.from] = true;
        }
    }
    direct
}

fn group(members: &[usize], layers: &[usize], direct: &[bool], near: &[Vec<usize>]) -> Group {
    let mut group = Group::default();
    let below: Vec<usize> = members.iter().copied().filter(|node| layers[*node] == 0).collect();
    let n = below.len();
    let mut up;
    if n > 2 && below.iter().any(|node| direct[*node]) {
        // Neighbours on the circle are a chord apart, and a chord must be longer than a node is wide.
        let radius = (1.15 * NODE.0 / 2.0 / (TAU / 2.0 / n as f64).sin()).max(STEP.0);
        for (i, node) in below.iter().enumerate() {
            let angle = TAU * (i as f64 + 0.5) / n as f64;
            let (x, y) = (radius + NODE.0 / 2.0 + radius * angle.sin(), radius + NODE.1 + radius * angle.cos());
            group.at.push((*node, x, y));
        }
        group.width = 2.0 * radius + NODE.0;
        up = 2.0 * radius + 2.0 * NODE.1;
    } else {
        let columns = if n > 4 { n.div_ceil(2) } else { n };
        for (i, node) in below.iter().enumerate() {
            let (row, column) = if n > 4 { (i % 2, i / 2) } else { (0, i) };
            let x = (column as f64 + 0.5 + 0.5 * row as f64) * STEP.0;
            group.at.push((*node, x, NODE.1 + STEP.1 * row as f64));
        }
        group.width = (columns as f64 + if n > 4 { 0.5 } else { 0.0 }) * STEP.0;
        up = if n > 4 { 2.0 * STEP.1 } else { STEP.1 };
    }
    let mut above: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    members
        .iter()
        .filter(|node| layers[**node] > 0)
        .for_each(|node| above.entry(layers[*node]).or_default().push(*node));
    let width = above.values().map(|row| row.len() as f64 * STEP.0).fold(group.width.max(STEP.0), f64::max);
    let aside = (width - group.width) / 2.0;
    group.at.iter_mut().for_each(|(_, x, _)| *x += aside);
    group.width = width;
    for row in above.values() {
        up += LAYER * 0.6;
        let step = group.width / row.len() as f64;
        // Each as near as can be to what is below it, so that few links cross.
        let places: HashMap<usize, f64> = group.at.iter().map(|(node, x, _)| (*node, *x)).collect();
        let middle = |node: &usize| {
            let below: Vec<f64> = near[*node].iter().filter_map(|other| places.get(other).copied()).collect();
            if below.is_empty() { group.width / 2.0 } else { below.iter().sum::<f64>() / below.len() as f64 }
        };
        let mut ordered: Vec<(f64, usize)> = row.iter().map(|node| (middle(node), *node)).collect();
        ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (i, (_, node)) in ordered.iter().enumerate() {
            group.at.push((*node, step * (i as f64 + 0.5), up));
        }
    }
    group.height = up + NODE.1;
    group
}
