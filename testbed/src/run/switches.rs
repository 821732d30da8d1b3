//! The `sluice-switch` processes of a run: one for all switches beside them, or one in each switch, where hosts are to learn
//! routes, for which it asks its kernel, or where faults are to hit one switch alone.

use std::fmt::Write as _;
use std::path::Path;

use super::process::{Process, ask_tcp, await_ready};
use super::{RunError, RunPlan, Session, inband, write};
use crate::fabric::layout::MANAGEMENT_NETWORK;
use crate::fabric::{Fabric, Layout, NetNs, Node};

/// Writes their files, starts them and waits until each says that it is ready.
pub(super) fn start(
    fabric: &Fabric,
    plan: &RunPlan,
    session: &Session<'_>,
    topology: &Path,
) -> Result<Vec<Process>, RunError> {
    let mut processes: Vec<Process> = Vec::new();
    if plan.forwards() {
        inband::rewrite(fabric, &fabric.layout, &session.dir)?;
        for (at, switch) in fabric.switches.iter().enumerate() {
            let node = fabric.layout.hosts + at;
            let section = inband::section(&fabric.layout, node, &inband::file(&session.dir, &switch.name));
            let text = head(plan, topology, &switch.management.to_string()) + &section + &table(&switch.name);
            processes.push(one(fabric, session, switch, &text)?);
            inband::take_over(switch)?;
        }
    } else if plan.own_switches() {
        for (at, switch) in fabric.switches.iter().enumerate() {
            let own = if plan.learned_routes { own_routes(&fabric.layout, at) } else { table(&switch.name) };
            let text = head(plan, topology, &switch.management.to_string()) + &own;
            processes.push(one(fabric, session, switch, &text)?);
        }
    } else if !fabric.switches.is_empty() {
        let mut text = head(plan, topology, &fabric.management_address.to_string());
        fabric.switches.iter().for_each(|switch| text.push_str(&table(&switch.name)));
        processes.push(run(fabric, session, &fabric.management, "sluice-switch", &text)?);
    }
    Ok(processes)
}

/// Where the tables of a switch are.
pub(super) fn address(fabric: &Fabric, plan: &RunPlan, switch: &Node) -> String {
    let address = if plan.own_switches() { switch.management } else { fabric.management_address };
    format!("{address}:9604")
}

fn one(fabric: &Fabric, session: &Session<'_>, switch: &Node, text: &str) -> Result<Process, RunError> {
    run(fabric, session, &switch.ns, &format!("sluice-switch-{}", switch.name), text)
}

fn run(fabric: &Fabric, session: &Session<'_>, ns: &NetNs, name: &str, text: &str) -> Result<Process, RunError> {
    let config = session.dir.join(format!("{name}.toml"));
    write(&config, identity(&session.dir, text))?;
    let place = (ns, &fabric.cgroups.switches());
    let mut process = Process::start("sluice-switch", name, place, session.binaries.switch()?, config)?;
    await_ready(&mut process, || document(ns, "/readyz").is_some())?;
    Ok(process)
}

/// A document of the process in this namespace; `None` when it does not answer with 200.
pub(super) fn document(ns: &NetNs, route: &'static str) -> Option<String> {
    let (status, body) = ns.run(move || ask_tcp("127.0.0.1:9606", route)).ok()??;
    (status == 200).then_some(body)
}

/// The same with certificates, where the run's directory has some for switches: then hosts prove who they are, and so does it.
fn identity(dir: &Path, text: &str) -> String {
    let files = dir.join("tls/switch");
    if !files.is_dir() {
        return text.to_owned();
    }
    let [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| files.join(name));
    text.replacen('\n', &format!("\ntls = {{ ca = {ca:?}, cert = {cert:?}, key = {key:?} }}\n"), 1)
}

fn head(plan: &RunPlan, topology: &Path, address: &str) -> String {
    format!(
        "version = 1\ncluster = \"testbed\"\nunauthenticated = true\npeers = [\"{MANAGEMENT_NETWORK}\"]\ntopology = {:?}\n[slot]\nlength_ms = {}\nhorizon = {}\n\
         [clock]\nrequire_sync = false\n[listen]\ngrpc = \"{address}:9604\"\nudp = \"{address}:9604\"\nhttp = \"127.0.0.1:9606\"\n",
        topology.display().to_string(),
        plan.slot.0 / 1_000_000,
        plan.horizon,
    )
}

fn table(switch: &str) -> String {
    format!("[[switches]]\nname = \"{switch}\"\nfrom_topology = true\n")
}

/// The table of the switch with this place, whose ports are its namespace's devices, in the order of the topology.
fn own_routes(layout: &Layout, at: usize) -> String {
    let node = layout.hosts + at;
    let devices =
        layout.links.iter().filter(|link| link.from.node == node).map(|link| format!("{:?}", link.from.device));
    let mut text = table(&layout.nodes[node]);
    _ = writeln!(text, "routes = \"kernel\"\ninterfaces = [{}]", devices.collect::<Vec<_>>().join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_scenario::Scenario;

    #[test]
    fn each_switch_of_the_leaf_spine_names_an_interface_for_each_port() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/leaf-spine-12.toml");
        let scenario = Scenario::load_with(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        let plan = RunPlan::of(&scenario.for_testbed(&[]).unwrap_or_else(|e| panic!("{e}"))).expect("a plan");
        assert!(plan.learned_routes);
        let layout = Layout::of(&plan.fabric).expect("a layout");
        let devices = |at| {
            let text = own_routes(&layout, at);
            assert!(text.contains("routes = \"kernel\""), "{text}");
            text.matches("\"p").count()
        };
        // Four hosts and two spines, and three leaves.
        assert_eq!((0..5).map(devices).collect::<Vec<_>>(), [6, 6, 6, 3, 3]);
    }
}
