//! Pictures of a plan: which links its trees use, coloured by tree or by how busy they are; of a schedule in steps what
//! goes over the links in each step, and what everybody has after it.
//!
//! What is drawn is decided here, once for both forms; [`mod@dot`] and [`mod@svg`] only draw it. Pictures are for people: a
//! plan that the checker refuses can be looked at too, as long as it names nodes and links that are there.

mod dot;
mod dot_steps;
mod limits;
mod look;
mod page;
mod space_time;
mod steps;
mod strokes;
mod svg;
mod svg_steps;

use crate::plan::{Plan, Sends, Steps, Trees};
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::topology::Topology;

use super::{Format, Options};

/// A plan of trees as a graph for Graphviz, else as a self-contained SVG.
pub fn of_trees(
    plan: &Plan,
    topology: &Topology,
    trees: &Trees,
    format: Format,
    options: &Options,
) -> Result<String, Problems> {
    let draw = if format == Format::Dot { dot::draw } else { svg::draw };
    Ok(draw(plan, topology, &strokes::strokes(plan, topology, trees, options)?))
}

/// A schedule in steps as a graph for Graphviz, where time goes down, one row of nodes per step; else as a self-contained
/// SVG, one small picture of the fabric per step.
pub fn of_steps(
    plan: &Plan,
    topology: &Topology,
    steps: &Steps,
    format: Format,
    options: &Options,
) -> Result<String, Problems> {
    if options.tree.is_some() || options.colour.is_some() {
        let key = if options.tree.is_some() { "tree" } else { "colour" };
        let error = Problem::new(E_RANGE, key, "a schedule in steps has no trees to choose or to colour");
        return Err(error.found("a plan of steps").allowed("plans of trees").into());
    }
    let draw = if format == Format::Dot { dot_steps::draw } else { svg_steps::draw };
    Ok(draw(plan, topology, &steps::panels(plan, topology, steps)?))
}

/// A schedule of sends over links and epochs, as a self-contained SVG; as a page that shows one epoch after the other; else as a
/// graph for Graphviz, where time goes down, one row of nodes per epoch.
pub fn of_sends(
    plan: &Plan,
    topology: &Topology,
    sends: &Sends,
    format: Format,
    options: &Options,
) -> Result<String, Problems> {
    if options.tree.is_some() || options.colour.is_some() {
        let key = if options.tree.is_some() { "tree" } else { "colour" };
        let error = Problem::new(E_RANGE, key, "a schedule of sends has no trees to choose or to colour");
        return Err(error.found("a plan of sends").allowed("plans of trees").into());
    }
    match format {
        Format::Dot => space_time::dot(plan, topology, sends),
        Format::Html => page::html(plan, topology, sends),
        _ => space_time::svg(plan, topology, sends),
    }
}
