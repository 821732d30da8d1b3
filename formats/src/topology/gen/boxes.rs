//! Machines that are sold: DGX A100, DGX H100, MI250, any number of them behind one network.
//!
//! Capacities and rules are those of the ForestColl paper (sections 4.1, 4.6.2, 4.6.3); the MI250 link matrix is the
//! one of its authors' repository. With one box there is no network: a dangling link per GPU would change the optimum.

use super::{Draft, Kind, Problems, Text, Topology, limit, range};
use crate::problem::{E_RANGE, Problem};

/// Boxes at most, well above the largest clusters.
const MAX_BOXES: u64 = 16_384;

/// How the network cards of a DGX A100 are drawn. All three have the same optimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wiring {
    /// Every GPU straight to the one network switch.
    #[default]
    Plain,
    /// Two GPUs on each PCIe switch.
    Pcie,
    /// One card per GPU and two network switches, by the GPU's parity.
    TwoRails,
}

/// DGX A100: 8 GPUs at 300 GB/s to the box switch, each at 25 GB/s to the network.
///
/// # Errors
/// `boxes` not 1 to 16384.
pub fn dgx_a100(boxes: u32, wiring: Wiring) -> Result<Topology, Problems> {
    dgx("dgx-a100", boxes, "300GB/s", 25, wiring)
}

/// DGX H100: 8 GPUs at 450 GB/s to the box switch, each at 50 GB/s to the network.
///
/// # Errors
/// `boxes` not 1 to 16384.
pub fn dgx_h100(boxes: u32) -> Result<Topology, Problems> {
    dgx("dgx-h100", boxes, "450GB/s", 50, Wiring::Plain)
}

fn dgx(name: &str, boxes: u32, inside: &str, outside: u32, wiring: Wiring) -> Result<Topology, Problems> {
    range("boxes", boxes.into(), 1, MAX_BOXES)?;
    limit(u128::from(boxes) * 8 * 6)?;
    let mut draft = Draft::new(format!("{name}-{boxes}"));
    let (inside, one, two): (Text, Text, Text) =
        (inside.into(), format!("{outside}GB/s").into(), format!("{}GB/s", 2 * outside).into());
    let mut machines = Vec::new();
    for b in 0..boxes {
        let machine = Text::from(format!("b{b}"));
        let gpus: Vec<Text> = (0..8).map(|g| draft.node_in(&machine, format!("b{b}.g{g}"), Kind::Gpu)).collect();
        machines.push((machine, gpus));
    }
    let networks: Vec<Text> = match (boxes, wiring) {
        (1, _) => Vec::new(),
        (_, Wiring::TwoRails) => (0..2).map(|i| draft.node(format!("ib{i}"), Kind::Switch)).collect(),
        _ => vec![draft.node("ib", Kind::Switch)],
    };
    for (machine, gpus) in &machines {
        let switch = draft.node_in(machine, format!("{machine}.nv"), Kind::Switch);
        for gpu in gpus {
            draft.duplex(gpu, &switch, &inside);
        }
        let (Some(first), Some(last)) = (networks.first(), networks.last()) else { continue };
        match wiring {
            Wiring::Plain => gpus.iter().for_each(|gpu| draft.duplex(gpu, first, &one)),
            Wiring::Pcie => {
                for (p, pair) in gpus.chunks(2).enumerate() {
                    let pcie = draft.node_in(machine, format!("{machine}.pcie{p}"), Kind::Switch);
                    pair.iter().for_each(|gpu| draft.duplex(gpu, &pcie, &one));
                    draft.duplex(&pcie, first, &two);
                }
            }
            Wiring::TwoRails => {
                for (g, gpu) in gpus.iter().enumerate() {
                    let nic = draft.node_in(machine, format!("{machine}.nic{g}"), Kind::Nic);
                    draft.duplex(gpu, &nic, &one);
                    draft.duplex(&nic, if g % 2 == 0 { first } else { last }, &one);
                }
            }
        }
    }
    draft.build()
}

/// Infinity Fabric links inside a box of 16 MI250 GPUs: two GPUs and how many links of 50 GB/s between them.
#[rustfmt::skip]
const MI250: [(usize, usize, u32); 28] = [
    (0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4),
    (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1),
    (5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4), (8, 12, 2), (9, 13, 1), (10, 11, 4),
    (10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1), (13, 15, 1), (14, 15, 4),
];

/// MI250: boxes of 16 GPUs, or of the first 8 of them (`gpus` = 8); each GPU at 16 GB/s to the network.
///
/// # Errors
/// `boxes` not 1 to 16384, `gpus` neither 16 nor 8.
pub fn mi250(boxes: u32, gpus: u32) -> Result<Topology, Problems> {
    range("boxes", boxes.into(), 1, MAX_BOXES)?;
    if gpus != 16 && gpus != 8 {
        let error = Problem::new(E_RANGE, "gpus", "an MI250 box has 16 GPUs, of which a job takes all or the first 8");
        return Err(error.found(gpus.to_string()).allowed("16 or 8").into());
    }
    limit(u128::from(boxes) * 96)?;
    let mut draft = Draft::new(format!("mi250-{boxes}x{gpus}"));
    let mut all = Vec::new();
    for b in 0..boxes {
        let machine = Text::from(format!("b{b}"));
        let ids: Vec<Text> = (0..gpus).map(|g| draft.node_in(&machine, format!("b{b}.g{g}"), Kind::Gpu)).collect();
        for (i, j, links) in MI250 {
            if let (Some(a), Some(b)) = (ids.get(i), ids.get(j)) {
                draft.duplex(a, b, &format!("{}GB/s", 50 * links).into());
            }
        }
        all.extend(ids);
    }
    if boxes > 1 {
        let network = draft.node("ib", Kind::Switch);
        let capacity = Text::from("16GB/s");
        all.iter().for_each(|gpu| draft.duplex(gpu, &network, &capacity));
    }
    draft.build()
}
