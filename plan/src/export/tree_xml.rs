//! `tree-xml`: the trees one by one for any runtime, edges in breadth-first order from the root.
//!
//! Nodes are written by their index in the topology, which `<node>` elements give ids and ranks: ids may contain
//! blanks, and a path is a list. `nchunks` counts chunks of the whole export, so that trees with fractions for weights
//! have whole numbers too; `index` counts the trees of a root.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::INTERNAL_INVARIANT;
use super::grow::grow;
use super::lower::Lowered;
use crate::plan::{NodeId, Plan, Trees};
use sluice_formats::problem::{Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_formats::topology::draw::escape;

pub fn write(plan: &Plan, topology: &Topology, trees: &Trees, lowered: &Lowered) -> Result<String, Problems> {
    let defect =
        || Problems::from(Problem::new(INTERNAL_INVARIANT, "/content/forests", "the checker let pass what is no tree"));
    let index = |node: NodeId| topology.node(plan.id(node)).ok_or_else(defect);
    let participants = match &plan.body.participants {
        Some(list) => list.iter().map(|node| index(*node)).collect::<Result<Vec<_>, _>>()?,
        None => topology.compute(),
    };
    let ranks: HashMap<usize, usize> = participants.iter().enumerate().map(|(rank, node)| (*node, rank)).collect();
    let mut out = format!(
        "<trees name=\"{}\" coll=\"{}\" ngpus=\"{}\" nchunks=\"{}\">\n",
        escape(topology.name()),
        plan.body.collective.word(),
        lowered.ranks,
        lowered.total()
    );
    for (i, node) in topology.nodes().iter().enumerate() {
        let rank = ranks.get(&i).map_or("-1".into(), ToString::to_string);
        let _ = writeln!(out, "  <node index=\"{i}\" id=\"{}\" rank=\"{rank}\"/>", escape(&node.id));
    }
    for (forest, low) in trees.forests.iter().zip(&lowered.forests) {
        let _ = writeln!(out, "  <forest direction=\"{}\">", forest.direction.word());
        let mut numbers: HashMap<NodeId, u32> = HashMap::new();
        for (tree, chunks) in forest.trees.iter().zip(&low.chunks) {
            let branches = grow(forest.direction, tree).ok_or_else(defect)?;
            let height = branches.last().map_or(0, |branch| branch.depth);
            let number = numbers.entry(tree.root).or_default();
            let root = index(tree.root)?;
            let _ =
                writeln!(out, "    <tree root=\"{root}\" index=\"{number}\" nchunks=\"{chunks}\" height=\"{height}\">");
            *number += 1;
            for edge in branches.iter().filter_map(|branch| tree.edges.get(branch.edge)) {
                let (src, dst) = (index(edge.src)?, index(edge.dst)?);
                let path: Vec<String> =
                    edge.path().map(|node| Ok(index(node)?.to_string())).collect::<Result<_, Problems>>()?;
                let _ = writeln!(out, "      <send src=\"{src}\" dst=\"{dst}\" path=\"{}\"/>", path.join(" "));
            }
            out.push_str("    </tree>\n");
        }
        out.push_str("  </forest>\n");
    }
    out.push_str("</trees>\n");
    Ok(out)
}
