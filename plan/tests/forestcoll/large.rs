//! The sizes people have: how long they take is printed, and the results go through the checker.
//!
//! `cargo test --release -p sluice-plan --test forestcoll -- --ignored --nocapture large`

use crate::checker::check_optimal;
use crate::fabrics::{a100, h100, heterogeneous, meshed, mi250, tangled};
use sluice_plan::forestcoll::{
    Collective, Fabric, Options, Planned, Progress, Rational, Run, Stage, all_reduce, optimum, plan,
};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// When each stage was last heard of.
struct Watch(Mutex<Vec<(Stage, Instant, Instant)>>);

impl Progress for Watch {
    fn progress(&self, stage: Stage, _: u64, _: u64) {
        let (mut stages, now) = (self.0.lock().expect("no panic"), Instant::now());
        match stages.iter_mut().find(|seen| seen.0 == stage) {
            Some(seen) => seen.2 = now,
            None => stages.push((stage, now, now)),
        }
    }
}

fn timed(name: &str, fabric: &Fabric, options: &Options) -> (Planned, Duration) {
    let (watch, cancel) = (Watch(Mutex::default()), AtomicBool::new(false));
    let start = Instant::now();
    let run = Run { threads: 2, progress: &watch, cancel: &cancel };
    let planned = plan(fabric, Collective::AllGather, options, &run).expect("a plan");
    let took = start.elapsed();
    let stages: Vec<String> = watch
        .0
        .into_inner()
        .expect("no panic")
        .iter()
        .map(|(stage, from, to)| format!("{stage:?} {:.2?}", *to - *from))
        .collect();
    println!(
        "{name}: {} nodes, {} links, k = {}, {} batches, {took:.2?} ({})",
        fabric.names.len(),
        fabric.links.len(),
        planned.optimum.k,
        planned.forests[0].batches(),
        stages.join(", ")
    );
    check_optimal(fabric, &planned.optimum, &planned.forests[0]).expect("the checker agrees");
    (planned, took)
}

#[test]
#[ignore = "about a minute; release build"]
fn large_heterogeneous() {
    let exact = Options { symmetry: false, ..Options::default() };
    let mut times: Vec<Duration> = (0..60)
        .map(|case| {
            let compute = 4 + case * 124 / 59;
            let seed = case as u64;
            let (name, fabric) = match case % 3 {
                0 => ("boxes", heterogeneous(compute, seed)),
                1 => ("meshed", meshed(compute, compute / 8, 4 + case % 9, 1000, seed)),
                _ => ("tangled", tangled(compute, compute / 6, 100, seed)),
            };
            timed(&format!("{name} {compute} #{case}"), &fabric, &exact).1
        })
        .collect();
    times.sort();
    println!("median {:.2?}, worst {:.2?}", times[30], times[59]);
    assert!(times[30] < Duration::from_secs(1) && times[59] < Duration::from_secs(60));
}

#[test]
#[ignore = "seconds; release build"]
fn large_128_gpus() {
    for options in [Options::default(), Options { symmetry: false, ..Options::default() }] {
        for (name, fabric) in [("A100 x 16", a100(16)), ("H100 x 16", h100(16)), ("MI250 x 8", mi250(8))] {
            timed(name, &fabric, &options);
        }
    }
}

#[test]
#[ignore = "seconds; release build"]
fn large_optimum() {
    let fabric = a100(128);
    let start = Instant::now();
    let best = optimum(&fabric, false, &Run::quiet(2)).expect("an optimum");
    println!("A100 x 128: optimum in {:.2?}", start.elapsed());
    assert_eq!(best.inverse_x, Rational::new(127, 25));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
#[ignore = "a minute or so; release build"]
fn large_1024_gpus() {
    timed("A100 x 128", &a100(128), &Options::default());
    timed("MI250 x 64", &mi250(64), &Options::default());
}

#[test]
#[ignore = "a minute; release build"]
fn large_general_1024_a100() {
    timed("A100 x 128", &a100(128), &Options { symmetry: false, ..Options::default() });
}

#[test]
#[ignore = "minutes; release build"]
fn large_general_1024_mi250() {
    timed("MI250 x 64", &mi250(64), &Options { symmetry: false, ..Options::default() });
}

#[test]
#[ignore = "a minute or so; release build"]
fn large_all_reduce_programs() {
    for (name, fabric) in [("MI250 x 1", mi250(1)), ("A100 x 1", a100(1)), ("A100 x 2", a100(2))] {
        let start = Instant::now();
        let planned = all_reduce(&fabric, false, &Run::quiet(2));
        let value = planned.map(|planned| planned.sum_x.to_string()).unwrap_or_else(|refusal| refusal.to_string());
        println!("{name}: {value} in {:.2?}", start.elapsed());
    }
}

#[test]
fn threads_do_not_matter_to_the_general_way() {
    let exact = Options { symmetry: false, ..Options::default() };
    for fabric in [mi250(2), heterogeneous(40, 11), meshed(30, 4, 6, 500, 2)] {
        let of = |threads| plan(&fabric, Collective::AllGather, &exact, &Run::quiet(threads)).expect("a plan");
        assert_eq!(of(1), of(3));
    }
}
