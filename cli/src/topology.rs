//! `sluice topology`: fabrics made by rule, read from other forms, and looked at. The library does the work.

mod alltoall;
pub mod args;
mod check;
mod show;

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sluice_formats::problem::{E_KEY, E_RANGE, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{self, LeafSpine, Rails};
use sluice_planners::direct::{self, Expr, Hardware, Refusal};

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;
use crate::plan::form::{self, Form};
use crate::plan::{files, finish};
use args::{Family, GenArgs, ImportArgs, TopologyCmd};

pub fn run(global: &Global, command: &TopologyCmd) -> Result<ExitCode, Failure> {
    finish(global, act(global, command).map(|()| ExitCode::SUCCESS))
}

fn act(global: &Global, command: &TopologyCmd) -> Result<(), Failure> {
    match command {
        TopologyCmd::Gen(args) => give(global, &make(args)?, args.out.as_deref()),
        TopologyCmd::Import(args) => import(global, args),
        TopologyCmd::Check(args) => check::run(global, args),
        TopologyCmd::Show(args) => show::run(global, args),
    }
}

/// Another form as a topology, and its flows where it has any.
fn import(global: &Global, args: &ImportArgs) -> Result<(), Failure> {
    let refuse =
        |message: &str, allowed: &str| Err(Problem::new(E_KEY, "--flows-out", message).allowed(allowed).into());
    if args.flows_out.is_some() && args.form != Form::Wan {
        return refuse("this form has no flows", "with the form wan");
    }
    let read = form::read_all(&args.file, Some(args.form), &args.forms)?;
    match (&args.flows_out, &read.flows) {
        (Some(path), Some(wanted)) => {
            if files::is_standard(path) {
                return refuse("the standard output is for the topology", "the name of a file");
            }
            files::write(path, &wanted.flows.to_text(&wanted.names))?;
        }
        (None, Some(_)) if !global.quiet => eprintln!("warning: the flows are left out; --flows-out FILE writes them"),
        _ => {}
    }
    give(global, &read.topology, args.out.as_deref())
}

/// The topology on stdout, or in a file with a word about it.
fn give(global: &Global, topology: &Topology, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out.filter(|path| !files::is_standard(path)) else {
        return output::print(&topology.to_text());
    };
    files::write(path, &topology.to_text())?;
    let (nodes, links, out) = (topology.nodes().len(), topology.links().len(), path.display());
    match global.format() {
        _ if global.quiet => {}
        Format::Json | Format::Jsonl => {
            let value = json!({
                "schema": 1, "name": topology.name(), "nodes": nodes, "links": links,
                "sha256": topology.digest(), "out": out.to_string(),
            });
            output::print(&format!("{value}\n"))?;
        }
        _ => output::print(&format!("wrote {out}: {nodes} nodes, {links} directed links\n"))?,
    }
    Ok(())
}

/// A family, or the graph of an expression.
fn make(args: &GenArgs) -> Result<Topology, Problems> {
    match (&args.family, &args.expr) {
        (Some(family), None) => generate(family),
        (None, Some(text)) => {
            let expr = Expr::parse(text).map_err(|misread| Problem { key: "--expr".into(), ..misread.into() })?;
            let refused = |refusal: Refusal| Problem::new(refusal.code(), "--expr", refusal.to_string()).found(text);
            let hardware = Hardware { capacity: &args.link, latency: None, kind: args.kind };
            direct::topology(&expr.graph().map_err(refused)?, &expr.to_string(), &hardware)
        }
        _ => {
            let error = Problem::new(E_KEY, "--expr", "a family and an expression are two graphs");
            Err(error.allowed("one of both").into())
        }
    }
}

fn generate(family: &Family) -> Result<Topology, Problems> {
    match family {
        Family::DgxA100 { boxes, wiring } => r#gen::dgx_a100(*boxes, *wiring),
        Family::DgxA100Rail { nodes, variant } => r#gen::dgx_a100_rail(*nodes, *variant),
        Family::DgxH100 { boxes } => r#gen::dgx_h100(*boxes),
        Family::Mi250 { boxes, gpus } => r#gen::mi250(*boxes, *gpus),
        Family::LeafSpine { leaves, spines, hosts, cable, oversubscription } => r#gen::leaf_spine(&LeafSpine {
            leaves: *leaves,
            spines: *spines,
            hosts: *hosts,
            cable: cable.clone(),
            oversubscription: fraction(oversubscription)?,
        }),
        Family::FatTree { k, cable } => r#gen::fat_tree(*k, cable),
        Family::RailOptimised { boxes, gpus, inside, rail, spines, oversubscription } => {
            r#gen::rail_optimised(&Rails {
                boxes: *boxes,
                gpus: *gpus,
                inside: inside.clone(),
                rail: rail.clone(),
                spines: *spines,
                oversubscription: fraction(oversubscription)?,
            })
        }
        Family::Ring { nodes, link, one_way } => r#gen::ring(*nodes, link, !one_way),
        Family::Torus { sizes, link } => {
            let parsed: Option<Vec<u32>> = sizes.split('x').map(|size| size.parse().ok()).collect();
            let parsed = parsed.ok_or_else(|| {
                Problem::new(E_RANGE, "SIZES", "not the sizes of a torus").found(sizes).allowed("4x4, 2x3x5 …")
            })?;
            r#gen::torus(&parsed, link)
        }
        Family::Hypercube { dimensions, link } => r#gen::hypercube(*dimensions, link),
        Family::Complete { nodes, link } => r#gen::complete(*nodes, link),
        Family::Star { links } => r#gen::star(&links.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

fn fraction(text: &str) -> Result<Rational, Problems> {
    Rational::parse(text).map_err(|_| {
        let error = Problem::new(E_RANGE, "--oversubscription", "not a number").found(text);
        error.allowed("a decimal or a fraction p/q; 1 is non-blocking").into()
    })
}
