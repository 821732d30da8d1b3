//! Every refusal from a minimal bad input, cancellation, and what progress says.

use crate::forestcoll::fabrics::{a100, tangled};
use sluice_formats::quantity::Rational;
use sluice_planners::forestcoll::{Collective, Fabric, Options, Refusal, plan};
use sluice_planners::{Progress, Run, Stage, Stopped};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn fraction(over: impl Into<i128>, under: i128) -> Rational {
    Rational::new(over, under).expect("not over zero")
}

fn fabric(compute: usize, names: &[&str], links: &[(u32, u32, i128)]) -> Fabric {
    let links = links.iter().map(|&(from, to, rate)| (from, to, fraction(rate, 1))).collect();
    Fabric { names: names.iter().map(|name| name.to_string()).collect(), compute, links, ..Fabric::default() }
}

fn refused(fabric: &Fabric, options: &Options) -> Refusal {
    plan(fabric, Collective::AllGather, options, &Run::quiet(1)).expect_err("a refusal")
}

#[test]
fn each_code() {
    let pair = [(0, 1, 1), (1, 0, 1)];
    let good = fabric(2, &["a", "b"], &pair);
    let weighted = |weights: Vec<u64>| Fabric { weights, ..good.clone() };
    let rational = |over, under| Fabric {
        links: vec![(0, 1, fraction(over, under)), (1, 0, fraction(over, under))],
        ..good.clone()
    };
    let cases = [
        (fabric(2, &["a", "a"], &[(0, 0, 1)]), "DUPLICATE_NODE"),
        (fabric(2, &["a", "b"], &[(0, 0, 1), (0, 2, 1)]), "UNKNOWN_NODE"),
        (fabric(2, &["a", "b"], &[(0, 1, 0), (1, 1, 1)]), "SELF_LOOP"),
        (fabric(1, &["a", "b"], &[(0, 1, 0)]), "NON_POSITIVE_BANDWIDTH"),
        (fabric(1, &["a", "b"], &[(0, 1, -3)]), "NON_POSITIVE_BANDWIDTH"),
        (fabric(1, &["a", "s"], &pair), "TOO_FEW_COMPUTE"),
        (fabric(0, &[], &[]), "TOO_FEW_COMPUTE"),
        (weighted(vec![0, 0]), "BAD_WEIGHTS"),
        (weighted(vec![1, 1, 1]), "BAD_WEIGHTS"),
        (fabric(2, &["a", "b"], &[(0, 1, 1), (1, 0, 2)]), "NOT_EULERIAN"),
        (fabric(2, &["a", "b", "s"], &[(0, 2, 1), (2, 0, 1)]), "NOT_CONNECTED"),
        (fabric(2, &["a", "b"], &[]), "NOT_CONNECTED"),
        (Fabric { links: [rational(i128::MAX, 1).links, good.links.clone()].concat(), ..good.clone() }, "OVERFLOW"),
        (rational(i128::MAX, 1), "OPTIMAL"),
        (rational(1 << 62, 1), "OPTIMAL"),
        (weighted(vec![u64::MAX, 1]), "OVERFLOW"),
        (weighted(vec![1 << 62, 1 << 62]), "OVERFLOW"),
    ];
    for (fabric, code) in cases {
        match plan(&fabric, Collective::AllGather, &Options::default(), &Run::quiet(1)) {
            Ok(_) => assert_eq!(code, "OPTIMAL", "{fabric:?}"),
            Err(refusal) => assert_eq!(refusal.code(), code, "{refusal}"),
        }
    }
    let fixed = |k| Options { fixed_k: Some(k), ..Options::default() };
    assert_eq!(refused(&good, &fixed(0)), Refusal::BadK { k: 0 });
    assert_eq!(refused(&good, &fixed(i64::MAX)).code(), "OVERFLOW");
    let limit = Options { most_k: Some(12), ..Options::default() };
    assert_eq!(refused(&a100(2), &limit), Refusal::KTooLarge { k: 13, limit: 12 });
    let reduce = plan(&good, Collective::Reduce { root: 2 }, &Options::default(), &Run::quiet(1));
    assert_eq!(reduce.expect_err("no such root").code(), "BAD_WEIGHTS");
}

#[test]
fn two_coprime_denominators_too_many() {
    let primes = [1_000_003_i128, 1_000_033, 1_000_037, 1_000_039];
    let links = primes.iter().flat_map(|&prime| [(0, 1, fraction(1, prime)), (1, 0, fraction(1, prime))]);
    let fabric = Fabric { links: links.collect(), ..fabric(2, &["a", "b"], &[]) };
    assert!(
        plan(&fabric, Collective::AllGather, &Options::default(), &Run::quiet(1)).is_ok(),
        "parallel links add up first"
    );
    let far = |node: u32, prime| [(node, node + 1, fraction(1, prime)), (node + 1, node, fraction(1, prime))];
    let line = Fabric {
        names: (0..5).map(|node| node.to_string()).collect(),
        compute: 5,
        links: (0..).zip(primes).flat_map(|(node, prime)| far(node, prime)).collect(),
        ..Fabric::default()
    };
    assert_eq!(refused(&line, &Options::default()).code(), "OVERFLOW");
}

#[test]
fn rounding_may_unbalance_a_switch() {
    // Into the switch 3 and 4, out of it 2 and 5: balanced, and not after rounding at any U that is not a whole number.
    let nodes = ["a", "b", "c", "s"];
    let links =
        [(0, 3, 3), (1, 3, 4), (3, 0, 2), (3, 1, 5), (0, 1, 4), (1, 0, 5), (0, 2, 3), (2, 0, 3), (1, 2, 7), (2, 1, 7)];
    let fabric = fabric(3, &nodes, &links);
    let codes: Vec<&str> = (1..8)
        .filter_map(|k| {
            plan(&fabric, Collective::AllGather, &Options { fixed_k: Some(k), ..Options::default() }, &Run::quiet(1))
                .err()
        })
        .map(|refusal| refusal.code())
        .collect();
    assert!(codes.contains(&"FIXED_K_NOT_EULERIAN"), "{codes:?}");
    assert!(codes.iter().all(|&code| code == "FIXED_K_NOT_EULERIAN"), "{codes:?}");
}

#[test]
fn without_switches_balance_may_be_waived() {
    let lopsided = fabric(3, &["a", "b", "c"], &[(0, 1, 3), (1, 0, 1), (1, 2, 2), (2, 1, 2), (2, 0, 1)]);
    assert_eq!(refused(&lopsided, &Options::default()).code(), "NOT_EULERIAN");
    let relaxed = Options { relaxed: true, ..Options::default() };
    for collective in [Collective::AllGather, Collective::ReduceScatter] {
        let planned = plan(&lopsided, collective, &relaxed, &Run::quiet(1)).expect("a plan");
        crate::forestcoll::checker::check(&lopsided, &planned.forests[0]).expect("the checker agrees");
    }
    let switched = fabric(2, &["a", "b", "s"], &[(0, 2, 1), (2, 1, 2), (1, 2, 1)]);
    assert_eq!(refused(&switched, &relaxed).code(), "NOT_EULERIAN");
}

/// A stage, how much of it is done, and of how much.
type Heard = (Stage, u64, u64);

/// Plans, calling off at the first sign of a stage; with what was heard of stages until then.
fn called_off(fabric: &Fabric, options: &Options, at: Option<Stage>) -> (Result<(), Refusal>, Vec<Heard>) {
    let (cancel, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let watch = |progress: Progress<'_>| {
        seen.lock().expect("no panic").push((progress.stage, progress.done, progress.total));
        if Some(progress.stage) == at {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let run = Run { watch: &watch, cancel: &cancel, ..Run::quiet(2) };
    let planned = plan(fabric, Collective::AllGather, options, &run).map(|_| ());
    (planned, seen.into_inner().expect("no panic"))
}

#[test]
fn called_off_at_every_stage() {
    let fabric = a100(3);
    let stages = [Stage::Optimum, Stage::Symmetry, Stage::SwitchRemoval, Stage::TreeConstruction, Stage::PathRecovery];
    for stage in stages {
        let options = Options { symmetry: stage == Stage::Symmetry, ..Options::default() };
        assert_eq!(
            called_off(&fabric, &options, Some(stage)).0,
            Err(Refusal::Stopped(Stopped::Cancelled)),
            "{stage:?}"
        );
    }
    let fixed = Options { fixed_k: Some(2), ..Options::default() };
    assert_eq!(called_off(&fabric, &fixed, Some(Stage::FixedK)).0, Err(Refusal::Stopped(Stopped::Cancelled)));
}

#[test]
fn a_deadline_ends_a_plan_without_result() {
    let run = Run { deadline: Some(Instant::now()), ..Run::quiet(2) };
    let late = plan(&a100(3), Collective::AllGather, &Options::default(), &run).expect_err("late");
    assert_eq!((late.clone(), late.code()), (Refusal::Stopped(Stopped::TimeLimit), "TimeLimit"));
}

#[test]
fn progress_counts_up_to_its_total() {
    let (planned, seen) = called_off(&tangled(6, 2, 9, 5), &Options::default(), None);
    planned.expect("a plan");
    for stage in [Stage::SwitchRemoval, Stage::TreeConstruction, Stage::PathRecovery] {
        let own: Vec<_> = seen.iter().filter(|report| report.0 == stage).collect();
        assert!(own.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{stage:?} goes back");
        assert!(own.last().is_some_and(|last| last.1 == last.2 && last.2 > 0), "{stage:?} does not end");
    }
}
