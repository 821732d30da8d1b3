//! Ends without an answer: called off, late, refused.

use super::{generated, quiet};
use sluice_planners::{Run, Stopped};
use sluice_planners_lp::wan::{Limits, Refusal, lower_bound, multiring, nonconcurrent, rate_alloc, weight_gp};
use sluice_planners_wan::Instance;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What each of the solvers says.
fn refusals(instance: &Instance, run: &Run<'_>) -> Vec<Option<Refusal>> {
    vec![
        rate_alloc(instance, run).err(),
        weight_gp(instance, run).err(),
        lower_bound(instance, run).err(),
        nonconcurrent(instance, Limits::default(), run).err(),
        multiring(instance, Default::default(), run).err(),
    ]
}

#[test]
fn work_that_is_called_off_ends() {
    let cancel = AtomicBool::new(true);
    let run = Run { cancel: &cancel, ..Run::quiet(1) };
    for refusal in refusals(&generated("Abilene", 3, 4, 1), &run) {
        let refusal = refusal.expect("called off");
        assert_eq!(refusal, Refusal::Stopped(Stopped::Cancelled));
        assert_eq!(refusal.code(), "CANCELLED");
    }
}

#[test]
fn late_work_ends_with_what_there_is() {
    let run = Run { deadline: Some(Instant::now()), ..Run::quiet(2) };
    let refusals = refusals(&generated("Abilene", 3, 4, 1), &run);
    for refusal in &refusals[..3] {
        assert_eq!(refusal.as_ref().map(Refusal::code), Some("TimeLimit"));
    }
    assert_eq!(refusals[3..], [None, None], "orders are found by greedy rules first");
}

#[test]
fn allocators_take_chains_only() {
    let chains = generated("Arpanet196912", 1, 3, 1);
    let (links, flows) = (chains.links().to_vec(), chains.flows().to_vec());
    let deps: Vec<(usize, usize)> = chains.dependencies().chain([(0, flows.len() - 1)]).collect();
    let named = Instance::new("named", chains.nodes(), links, flows, Some(deps)).expect("an instance");
    let codes: Vec<Option<&str>> = refusals(&named, &quiet()).iter().map(|it| it.as_ref().map(Refusal::code)).collect();
    assert_eq!(codes, [Some("NotAChain"), Some("NotAChain"), None, None, None]);
}
