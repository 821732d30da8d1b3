//! DGX A100 with what its boards have: PCIe switches, processors, memories and one rail per GPU.
//!
//! Where data can be copied in memory and links cost differently, the shape of the board decides. The parameters are
//! those with which the tables of R. Shapley's "Algorithmic techniques for optimal collective communication" (Cornell,
//! 2025, chapter 6) come out; that text has no list of links. A link costs 1 per direction, except between a PCIe
//! switch and the memory behind it, where it costs nothing.

use super::{Draft, Kind, Problems, Text, Topology, range};
use crate::topology::MAX_LINKS;

/// Directed links of a node that has all of them.
const MAX_LINKS_OF_NODE: u64 = 62;
/// Nodes at most: each has its links then.
const MAX_NODES: u64 = MAX_LINKS / MAX_LINKS_OF_NODE;
/// GPUs of a node, and rails.
const GPUS: usize = 8;

/// Which links of a node there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// NVLink, and a network card at each GPU.
    Nvlink,
    /// PCIe, with the network behind its switches.
    Pcie,
    /// NVLink and PCIe, with the network behind the PCIe switches.
    All,
}

impl Variant {
    fn word(self) -> &'static str {
        match self {
            Variant::Nvlink => "nvlink",
            Variant::Pcie => "pcie",
            Variant::All => "all",
        }
    }
}

/// Nodes of 8 GPUs, GPU g of all nodes under rail g; one node alone has no rails and no network cards.
///
/// # Errors
/// `nodes` not 1 to 16129.
pub fn dgx_a100_rail(nodes: u32, variant: Variant) -> Result<Topology, Problems> {
    range("nodes", nodes.into(), 1, MAX_NODES)?;
    let mut draft = Draft::new(format!("dgx-a100-rail-{}-{nodes}", variant.word()));
    let boards: Vec<Board> = (0..nodes).map(|k| Board::new(&mut draft, k, variant, nodes > 1)).collect();
    let rails: Vec<Text> = match nodes {
        1 => Vec::new(),
        _ => (0..GPUS).map(|r| draft.node(format!("r{r}"), Kind::Switch)).collect(),
    };
    let capacities = Capacities::new();
    for board in &boards {
        board.link(&mut draft, &rails, &capacities);
    }
    draft.build()
}

/// Per direction.
struct Capacities {
    nvlink: Text,
    pcie: Text,
    rail: Text,
    unlimited: Text,
}

impl Capacities {
    fn new() -> Capacities {
        let text = Text::from;
        let (nvlink, pcie, rail) = (text("300GB/s"), text("32GB/s"), text("25GB/s"));
        Capacities { nvlink, pcie, rail, unlimited: text("unlimited") }
    }
}

/// What is inside a node; what its variant lacks is empty.
struct Board {
    gpus: Vec<Text>,
    nvswitch: Option<Text>,
    cards: Vec<Text>,
    /// Each has two GPUs.
    pcie: Vec<Text>,
    /// Each has two PCIe switches.
    processors: Vec<Text>,
    /// One per processor.
    memories: Vec<Text>,
}

impl Board {
    fn new(draft: &mut Draft, k: u32, variant: Variant, has_rails: bool) -> Board {
        let machine = Text::from(format!("n{k}"));
        let mut several = |count: usize, name: &str, kind: Kind| -> Vec<Text> {
            (0..count).map(|i| draft.node_in(&machine, format!("n{k}.{name}{i}"), kind)).collect()
        };
        let pcie = if variant == Variant::Nvlink { 0 } else { GPUS / 2 };
        let cards = if variant == Variant::Nvlink && has_rails { GPUS } else { 0 };
        Board {
            gpus: several(GPUS, "g", Kind::Gpu),
            cards: several(cards, "nic", Kind::Nic),
            pcie: several(pcie, "p", Kind::Switch),
            processors: several(pcie / 2, "c", Kind::Switch),
            memories: several(pcie / 2, "m", Kind::Memory),
            nvswitch: (variant != Variant::Pcie).then(|| draft.node_in(&machine, format!("n{k}.x"), Kind::Switch)),
        }
    }

    /// Links are in the order of the layers, from the GPUs up.
    fn link(&self, draft: &mut Draft, rails: &[Text], capacities: &Capacities) {
        let Capacities { nvlink, pcie, rail, unlimited } = capacities;
        for gpu in &self.gpus {
            self.nvswitch.iter().for_each(|switch| draft.duplex(gpu, switch, nvlink));
        }
        for ((gpu, card), of_card) in self.gpus.iter().zip(&self.cards).zip(rails) {
            draft.duplex(gpu, card, rail);
            draft.duplex(card, of_card, rail);
        }
        for (switch, pair) in self.pcie.iter().zip(self.gpus.chunks(2)) {
            pair.iter().for_each(|gpu| draft.duplex(gpu, switch, pcie));
        }
        for (switch, pair) in self.pcie.iter().zip(rails.chunks(2)) {
            pair.iter().for_each(|of_pair| draft.duplex(switch, of_pair, rail));
        }
        for (processor, pair) in self.processors.iter().zip(self.pcie.chunks(2)) {
            pair.iter().for_each(|switch| draft.free_duplex(switch, processor, pcie));
        }
        if let [first, second] = &self.processors[..] {
            draft.free_duplex(first, second, unlimited);
        }
        for (processor, memory) in self.processors.iter().zip(&self.memories) {
            draft.free_duplex(processor, memory, unlimited);
        }
    }
}
