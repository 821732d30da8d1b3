//! Pictures of a plan: which links its trees use, coloured by tree or by how busy they are; of a schedule in steps what
//! goes over the links in each step, and what everybody has after it.
//!
//! What is drawn is decided here, once for both forms; [`mod@dot`] and [`mod@svg`] only draw it. Pictures are for people: a
//! plan that the checker refuses can be looked at too, as long as it names nodes and links that are there.

mod dot;
mod dot_steps;
mod steps;
mod strokes;
mod svg;
mod svg_steps;

use crate::plan::{Plan, Steps, Trees};
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

/// A schedule in steps as a graph for Graphviz: time goes down, one row of nodes per step.
pub fn dot_of_steps(plan: &Plan, topology: &Topology, steps: &Steps) -> Result<String, Problems> {
    Ok(dot_steps::draw(plan, topology, &steps::panels(plan, topology, steps)?))
}

/// A schedule in steps as a self-contained SVG: one small picture of the fabric per step.
pub fn svg_of_steps(plan: &Plan, topology: &Topology, steps: &Steps) -> Result<String, Problems> {
    Ok(svg_steps::draw(plan, topology, &steps::panels(plan, topology, steps)?))
}
