//! What the tests of the checker share: fabrics, and small changes to topologies and plans.

#[path = "../common/fabrics.rs"]
mod common;

pub use common::{OF_TREES, edited};

use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{Wiring, dgx_a100};
use sluice_plan::check::check;
use sluice_plan::plan::{Content, Plan, Trees};

/// Small fabrics of every sort, one of them with switches in a row.
pub fn fabrics() -> Vec<Topology> {
    let mut fabrics = common::fabrics();
    fabrics.push(dgx_a100(2, Wiring::Pcie).expect("valid"));
    fabrics
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
