//! Pictures of a plan: which links its trees use, coloured by tree or by how busy they are.
//!
//! What is drawn is decided here, once for both forms; [`mod@dot`] and [`mod@svg`] only draw it. Pictures are for people: a
//! plan that the checker refuses can be looked at too, as long as it names nodes and links that are there.

mod dot;
mod strokes;
mod svg;

use crate::plan::{Plan, Trees};
use sluice_formats::problem::Problems;
use sluice_formats::topology::Topology;

use super::Options;

/// A graph for Graphviz.
pub fn dot(plan: &Plan, topology: &Topology, trees: &Trees, options: &Options) -> Result<String, Problems> {
    Ok(dot::draw(plan, topology, &strokes::strokes(plan, topology, trees, options)?))
}

/// A self-contained SVG.
pub fn svg(plan: &Plan, topology: &Topology, trees: &Trees, options: &Options) -> Result<String, Problems> {
    Ok(svg::draw(plan, topology, &strokes::strokes(plan, topology, trees, options)?))
}
