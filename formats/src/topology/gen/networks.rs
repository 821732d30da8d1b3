//! Data-centre networks: leaf–spine with oversubscription, k-ary fat tree, rail-optimised.

use super::{Draft, Kind, Problems, Text, Topology, capacity, limit, range};
use crate::problem::{E_RANGE, Problem};
use crate::quantity::{Capacity, Rational};

/// A two-level network of hosts.
#[derive(Clone, Debug)]
pub struct LeafSpine {
    /// How many leaf switches there are.
    pub leaves: u32,
    /// How many spine switches every leaf is connected to.
    pub spines: u32,
    /// Hosts under each leaf.
    pub hosts: u32,
    /// Capacity of a host's cable.
    pub cable: String,
    /// What enters a leaf from its hosts over what leaves it to the spines: 1 is non-blocking.
    pub oversubscription: Rational,
}

/// Boxes of GPUs, GPU g of all boxes under rail switch g.
#[derive(Clone, Debug)]
pub struct Rails {
    /// How many boxes the rails connect.
    pub boxes: u32,
    /// GPUs of a box, and rails.
    pub gpus: u32,
    /// Capacity from a GPU to its box switch.
    pub inside: String,
    /// Capacity from a GPU to its rail switch.
    pub rail: String,
    /// Spine switches that connect the rails; 0: none, rails meet only inside the boxes.
    pub spines: u32,
    /// As in [`LeafSpine`], for the rail switches.
    pub oversubscription: Rational,
}

/// The capacity of one of `n` equal uplinks that together carry `total` / `oversubscription`.
fn uplink(link: &str, hosts: u32, oversubscription: &Rational, n: u32) -> Result<Text, Problems> {
    let (base, unit) = capacity("capacity", link)?;
    let share = &base * &Rational::from(u64::from(hosts));
    let parts = oversubscription * &Rational::from(u64::from(n));
    match share.checked_div(&parts).filter(Rational::is_positive) {
        Some(each) => Ok(unit.write(&Capacity::Finite(each)).into()),
        None => {
            let error = Problem::new(E_RANGE, "oversubscription", "not an oversubscription");
            Err(error.found(oversubscription.to_string()).allowed("more than 0; 1 is non-blocking").into())
        }
    }
}

/// Leaves and spines, every leaf connected to every spine.
///
/// # Errors
/// A count or the oversubscription out of range, a capacity nobody can read.
pub fn leaf_spine(parameters: &LeafSpine) -> Result<Topology, Problems> {
    let LeafSpine { leaves, spines, hosts, cable, oversubscription } = parameters;
    range("leaves", (*leaves).into(), 1, 65_536)?;
    range("spines", (*spines).into(), 1, 4_096)?;
    range("hosts", (*hosts).into(), 1, 65_536)?;
    limit(2 * u128::from(*leaves) * (u128::from(*spines) + u128::from(*hosts)))?;
    let up = uplink(cable, *hosts, oversubscription, *spines)?;
    let cable = Text::from(cable.as_str());
    let mut draft = Draft::new(format!("leaf-spine-{leaves}x{hosts}"));
    let mut below = Vec::new();
    for l in 0..*leaves {
        let machines: Vec<Text> = (0..*hosts).map(|h| draft.node(format!("h{}", l * hosts + h), Kind::Host)).collect();
        below.push(machines);
    }
    let top: Vec<Text> = (0..*spines).map(|s| draft.node(format!("spine{s}"), Kind::Switch)).collect();
    for (l, machines) in below.iter().enumerate() {
        let leaf = draft.node(format!("leaf{l}"), Kind::Switch);
        machines.iter().for_each(|host| draft.duplex(host, &leaf, &cable));
        top.iter().for_each(|spine| draft.duplex(&leaf, spine, &up));
    }
    draft.build()
}

/// The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation
/// switches, (k/2)² core switches, k³/4 hosts, every cable the same.
///
/// # Errors
/// `k` odd or not 2 to 64, a capacity nobody can read.
pub fn fat_tree(k: u32, cable: &str) -> Result<Topology, Problems> {
    range("k", k.into(), 2, 64)?;
    if k % 2 == 1 {
        let error = Problem::new(E_RANGE, "k", "a fat tree needs an even number of ports").found(k.to_string());
        return Err(error.allowed("an even number").help(format!("take {} or {}", k - 1, k + 1)).into());
    }
    capacity("capacity", cable)?;
    let (half, cable) = (k / 2, Text::from(cable));
    limit(3 * 2 * u128::from(k) * u128::from(half) * u128::from(half))?;
    let mut draft = Draft::new(format!("fat-tree-{k}"));
    let hosts: Vec<Text> = (0..k * half * half).map(|h| draft.node(format!("h{h}"), Kind::Host)).collect();
    let core: Vec<Text> = (0..half * half).map(|c| draft.node(format!("core{c}"), Kind::Switch)).collect();
    for (p, under_pod) in hosts.chunks((half * half) as usize).enumerate() {
        let aggregation: Vec<Text> = (0..half).map(|a| draft.node(format!("p{p}.agg{a}"), Kind::Switch)).collect();
        for (e, under_edge) in under_pod.chunks(half as usize).enumerate() {
            let edge = draft.node(format!("p{p}.edge{e}"), Kind::Switch);
            under_edge.iter().for_each(|host| draft.duplex(host, &edge, &cable));
            aggregation.iter().for_each(|switch| draft.duplex(&edge, switch, &cable));
        }
        for (switch, group) in aggregation.iter().zip(core.chunks(half as usize)) {
            group.iter().for_each(|core| draft.duplex(switch, core, &cable));
        }
    }
    draft.build()
}

/// Boxes with a switch inside, and one network per rail.
///
/// # Errors
/// A count or the oversubscription out of range, a capacity nobody can read.
pub fn rail_optimised(parameters: &Rails) -> Result<Topology, Problems> {
    let Rails { boxes, gpus, inside, rail, spines, oversubscription } = parameters;
    range("boxes", (*boxes).into(), 1, 65_536)?;
    range("gpus", (*gpus).into(), 1, 1_024)?;
    range("spines", (*spines).into(), 0, 4_096)?;
    limit(4 * u128::from(*boxes) * u128::from(*gpus) + 2 * u128::from(*gpus) * u128::from(*spines))?;
    capacity("inside", inside)?;
    let up = uplink(rail, *boxes, oversubscription, (*spines).max(1))?;
    let (inside, rail) = (Text::from(inside.as_str()), Text::from(rail.as_str()));
    let mut draft = Draft::new(format!("rails-{boxes}x{gpus}"));
    let mut machines = Vec::new();
    for b in 0..*boxes {
        let machine = Text::from(format!("b{b}"));
        let ids: Vec<Text> = (0..*gpus).map(|g| draft.node_in(&machine, format!("b{b}.g{g}"), Kind::Gpu)).collect();
        machines.push((machine, ids));
    }
    let rails: Vec<Text> = (0..*gpus).map(|r| draft.node(format!("rail{r}"), Kind::Switch)).collect();
    for (machine, ids) in &machines {
        let switch = draft.node_in(machine, format!("{machine}.nv"), Kind::Switch);
        for (gpu, rail_switch) in ids.iter().zip(&rails) {
            draft.duplex(gpu, &switch, &inside);
            draft.duplex(gpu, rail_switch, &rail);
        }
    }
    let top: Vec<Text> = (0..*spines).map(|s| draft.node(format!("spine{s}"), Kind::Switch)).collect();
    for switch in &rails {
        top.iter().for_each(|spine| draft.duplex(switch, spine, &up));
    }
    draft.build()
}
