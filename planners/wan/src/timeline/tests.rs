use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use crate::method::{Method, Options, propose};
use sluice_planners::Run;

fn instance() -> Instance {
    let graph = Graph::ring(5).expect("a ring");
    Workload { participants: 3, ..Workload::new(&graph, 2, 1) }.generate().expect("an instance")
}

#[test]
fn what_is_recorded_moves_all_bytes_in_time_and_changes_nothing() {
    let instance = instance();
    for method in Method::ALL.iter().filter(|method| !method.needs_solver()) {
        let plan = propose(*method, &instance, &Options::default(), None, &Run::quiet(1)).expect("a plan").plan;
        let recorded = record(&instance, &plan, &mut || false).expect("recorded");
        let played = plan.execute(&instance).expect("played");
        assert!((recorded.outcome.mean - played.mean).abs() <= 1e-9 * played.mean, "{}", method.word());
        for (flow, stretches) in recorded.stretches.iter().enumerate() {
            let moved: f64 = stretches.iter().map(|stretch| stretch.rate * (stretch.to - stretch.from)).sum();
            let size = instance.flows()[flow].size;
            assert!((moved - size).abs() <= 1e-6 * size, "{}, flow {flow}: {moved} of {size}", method.word());
            assert!(stretches.windows(2).all(|pair| pair[0].to <= pair[1].from), "{}", method.word());
        }
    }
}

#[test]
fn a_picture_has_a_row_per_chain_and_a_bar_per_stretch() {
    let instance = instance();
    let recorded = record(&instance, &Plan::Fair, &mut || false).expect("recorded");
    let picture = svg(&instance, &recorded, "a < b", &|node| format!("n{node}")).expect("drawn");
    let bars: usize = recorded.stretches.iter().map(Vec::len).sum();
    assert_eq!(picture.matches("<rect class=\"a\"").count() + picture.matches("<rect class=\"b\"").count(), bars);
    assert_eq!(picture.matches("<path class=\"end\"").count(), 2);
    assert!(
        picture.contains("a &lt; b") && !picture.contains("NaN") && picture.contains("flow 0, n2 → n3: "),
        "{picture}"
    );
    let page = html(&instance, &recorded, "t", &|_| String::new()).expect("drawn");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && !page.contains("src="));
}

#[test]
fn recording_ends_when_it_is_to() {
    assert_eq!(record(&instance(), &Plan::Fair, &mut || true), Err(Refusal::Stopped));
}
