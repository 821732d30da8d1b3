//! `forest-json`: what a planner of forests gives and an outside checker reads, one file per forest.

use super::{Export, Exported};
use crate::plan::{Collective, Direction, Plan, Tree, Trees};
use sluice_formats::json::{Nullable, Writer, form};
use sluice_formats::quantity::Rational;

form! {
    /// A forest with its collective.
    pub struct File {
        /// Trees per unit of bandwidth.
        pub u: Option<Nullable<Rational>> = "U",
        /// What the forest alone does.
        pub collective: Collective = "collective",
        /// Was the number of trees given?
        pub fixed_k: Option<bool> = "fixed_k",
        /// Trees per root and unit of weight.
        pub k: Nullable<u64> = "k",
        pub trees: Vec<Tree> = "trees",
    }
}

pub fn write(plan: &Plan, trees: &Trees) -> Export {
    let both = trees.forests.len() > 1;
    let files = trees.forests.iter().map(|forest| {
        // Half an all-reduce is a collective of its own.
        let (collective, part) = match (plan.body.collective, forest.direction) {
            (Collective::AllReduce, Direction::In) => (Collective::ReduceScatter, "in"),
            (Collective::AllReduce, Direction::Out) => (Collective::AllGather, "out"),
            (other, direction) => (other, direction.word()),
        };
        let (u, fixed_k, k, trees) = (forest.u.clone(), forest.fixed_k, forest.k.clone(), forest.trees.clone());
        let file = File { u, collective, fixed_k, k, trees };
        Exported { part: if both { part } else { "" }, text: Writer::lines(&file, Some(&plan.names)) }
    });
    Export { files: files.collect(), warnings: Vec::new() }
}
