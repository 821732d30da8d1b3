//! What the tests of the checker share: fabrics, and small changes to topologies and plans.

use serde_json::{Value, json};
use sluice_plan::check::check;
use sluice_plan::plan::{Collective, Content, Plan, Trees};
use sluice_plan::quantity::Rational;
use sluice_plan::topology::Topology;
use sluice_plan::topology::r#gen::{Wiring, complete, dgx_a100, hypercube, ring, star, torus};

/// The collectives that trees serve.
pub const OF_TREES: [Collective; 5] = [
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
];

/// Small fabrics of every sort, one with node weights.
pub fn fabrics() -> Vec<Topology> {
    let made = [
        star(&["1", "2", "3", "1", "2"]),
        complete(5, "4GB/s"),
        ring(6, "5Gbit/s", true),
        ring(5, "7/2", false),
        torus(&[3, 3], "1"),
        hypercube(3, "2"),
        dgx_a100(2, Wiring::Pcie),
    ];
    let mut fabrics: Vec<Topology> = made.into_iter().map(|made| made.expect("valid")).collect();
    fabrics.push(edited(&fabrics[1], |file| {
        file["nodes"][0]["weight"] = json!(3);
        file["nodes"][2]["weight"] = json!(0);
    }));
    fabrics
}

/// The topology with its file changed.
pub fn edited(topology: &Topology, edit: impl Fn(&mut Value)) -> Topology {
    let mut file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// Puts another topology, with its digest, into a plan.
pub fn on(plan: &Plan, topology: &Topology) -> Plan {
    let mut plan = plan.clone();
    plan.body.topology.inline = Some(Box::new(topology.file().clone()));
    plan.body.topology.sha256 = topology.digest().into();
    plan
}

pub fn fraction(p: i64, q: i64) -> Rational {
    Rational::new(p, q).expect("not over zero")
}

pub fn forests(plan: &mut Plan) -> &mut Trees {
    match &mut plan.body.content {
        Content::Trees(trees) => trees,
        other => panic!("{}", other.kind().word()),
    }
}

/// Is a plan refused, by its reader or by the checker?
pub fn refused(text: &str) -> bool {
    match Plan::read(text.as_bytes(), "p") {
        Err(_) => true,
        Ok(plan) => {
            let report = check(&plan, None);
            assert_eq!(report.ok(), report.violation.is_none());
            assert!(report.violation.as_ref().is_none_or(|violation| violation.at.starts_with('/')), "{report:?}");
            !report.ok()
        }
    }
}
