//! `sluice topology check`: is a fabric one that daemons can use?

use serde_json::json;
use sluice_formats::problem::hint;
use sluice_formats::topology::Topology;
use sluice_formats::topology::check::{Names, check};
use sluice_wire::snapshot::SCHEMA;

use super::args::CheckArgs;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::plan::files;

/// No topology file is larger.
const MAX_BYTES: u64 = 64_000_000;

pub fn run(global: &Global, args: &CheckArgs) -> Result<(), Failure> {
    let name = files::name(&args.file);
    let topology = Topology::read(&files::read(&args.file, MAX_BYTES)?, &name)?;
    topology.with_rates(&name)?;
    let checked = check(&topology);
    let mut missing: Vec<(String, &str)> = Vec::new();
    let mut notes: Vec<(String, &str)> = Vec::new();
    let tell = |list: &mut Vec<(String, &str)>, names: &Names, what: &str, cost: &'static str| {
        if names.count > 0 {
            list.push((format!("{what}: {}", names.told()), cost));
        }
    };
    tell(&mut missing, &checked.apart, "no way to and fro", "flows to them have no path: nothing is promised for them");
    tell(&mut notes, &checked.unaddressed, "hosts without an address", "their flows are on no link of this fabric");
    tell(
        &mut notes,
        &checked.unanswering,
        "switches that do not say where they answer",
        "[[switches]] of each host must say it",
    );
    if let Some(wanted) = &args.node {
        node(&topology, wanted, &mut missing)?;
    }
    if !global.quiet {
        let rows = |list: &[(String, &str)]| -> Vec<_> {
            list.iter().map(|(what, cost)| json!({ "what": what, "cost": cost })).collect()
        };
        let value = json!({
            "schema": SCHEMA,
            "name": topology.name(),
            "sha256": topology.digest(),
            "nodes": topology.nodes().len(),
            "ends": checked.ends,
            "switches": checked.switches,
            "links": topology.links().len(),
            "missing": rows(&missing),
            "notes": rows(&notes),
        });
        output::one(global, &value, || {
            let (ends, switches, links) = (checked.ends, checked.switches, topology.links().len());
            let mut text = format!("{name}: {ends} hosts and GPUs, {switches} switches, {links} directed links\n");
            for (word, list) in [("MISSING", &missing), ("note", &notes)] {
                list.iter().for_each(|(what, cost)| text += &format!("  {word:<7}  {what}\n           cost: {cost}\n"));
            }
            text
        })?;
    }
    match missing.len() {
        0 => Ok(()),
        many => Err(Failure::no(format!("{many} things are missing in {name}"))),
    }
}

/// What the daemon of one host needs.
fn node(topology: &Topology, wanted: &str, missing: &mut Vec<(String, &str)>) -> Result<(), Failure> {
    let Some(at) = topology.nodes().iter().position(|node| &*node.id == wanted) else {
        let hint = hint(wanted, topology.nodes().iter().map(|node| &*node.id)).map(|hint| format!("; {hint}"));
        return Err(Failure::input(format!("--node: no node {wanted}{}", hint.unwrap_or_default())));
    };
    let node = &topology.nodes()[at];
    if !node.is_compute() {
        missing.push((format!("{wanted} is a {}, not a host", node.kind.word()), "no daemon runs there"));
    } else if node.networks.is_empty() {
        missing.push((format!("{wanted} has no address"), "its daemon does not find itself: paths-unknown"));
    }
    if !topology.links().iter().any(|link| link.from == at) {
        missing.push((format!("no link leaves {wanted}"), "its daemon has nothing to schedule"));
    }
    Ok(())
}
