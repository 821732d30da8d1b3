//! The plans in docs/planning.md: one of every kind, each good.

use std::collections::BTreeSet;
use std::path::Path;

use sluice_formats::topology::Topology;
use sluice_plan::check::check;
use sluice_plan::plan::Plan;

/// What stands between ```` ```json ```` and the next fence.
fn examples(guide: &str) -> impl Iterator<Item = &str> {
    guide.split("\n```json\n").skip(1).map(|rest| rest.split("\n```").next().expect("an end"))
}

#[test]
fn every_kind_of_plan_has_an_example_that_the_checker_accepts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/planning.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let (fabrics, plans): (Vec<&str>, Vec<&str>) = examples(&guide).partition(|text| text.contains("sluice_topology"));
    let [fabric] = fabrics.as_slice() else { panic!("{} fabrics", fabrics.len()) };
    let topology = Topology::read(fabric.as_bytes(), "three.json").unwrap_or_else(|errors| panic!("{errors}"));
    let mut kinds = BTreeSet::new();
    for text in plans {
        let plan = Plan::read(text.as_bytes(), "plan.json").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let report = check(&plan, Some(&topology));
        assert!(report.ok() && report.not_rechecked.is_empty(), "{report:?}\n{text}");
        kinds.insert(plan.body.content.kind().word());
    }
    let all = ["order", "paths", "rates", "sends", "steps", "trees", "weights"];
    assert!(kinds.into_iter().eq(all), "one of each of {all:?}");
}
