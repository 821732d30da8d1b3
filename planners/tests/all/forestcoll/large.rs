//! The sizes people have: how long they take is printed, and the results go through the checker.
//!
//! `cargo test --release -p sluice-planners --test all -- --ignored --nocapture forestcoll::large`

use crate::forestcoll::checker::check_optimal;
use crate::forestcoll::fabrics::{a100, h100, heterogeneous, meshed, mi250, tangled};
use sluice_formats::quantity::Rational;
use sluice_planners::forestcoll::{Collective, Fabric, Options, Planned, all_reduce, optimum, plan};
use sluice_planners::{Progress, Run, Stage};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn timed(name: &str, fabric: &Fabric, options: &Options) -> (Planned, Duration) {
    // When each stage was first and last heard of.
    let stages: Mutex<Vec<(Stage, Instant, Instant)>> = Mutex::default();
    let start = Instant::now();
    let watch = |progress: Progress<'_>| {
        let (mut stages, now) = (stages.lock().expect("no panic"), Instant::now());
        match stages.iter_mut().find(|seen| seen.0 == progress.stage) {
            Some(seen) => seen.2 = now,
            None => stages.push((progress.stage, now, now)),
        }
    };
    let run = Run { watch: &watch, ..Run::quiet(2) };
    let planned = plan(fabric, Collective::AllGather, options, &run).expect("a plan");
    let took = start.elapsed();
    let stages: Vec<String> = stages
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

/// A fabric of `compute` GPUs at random, of one of three sorts and without symmetry.
fn random(compute: usize, case: usize) -> (String, Fabric) {
    let seed = case as u64;
    let (sort, fabric) = match case % 3 {
        0 => ("boxes", heterogeneous(compute, seed)),
        1 => ("meshed", meshed(compute, compute / 8, 4 + case % 9, 1000, seed)),
        _ => ("tangled", tangled(compute, compute / 6, 100, seed)),
    };
    (format!("{sort} {compute} #{case}"), fabric)
}

/// The general way alone.
const EXACT: Options = Options { fixed_k: None, most_k: None, in_network: true, symmetry: false, relaxed: false };

#[test]
#[ignore = "about a minute; release build"]
fn large_heterogeneous() {
    let mut times: Vec<Duration> = (0..60)
        .map(|case| {
            let (name, fabric) = random(4 + case * 124 / 59, case);
            timed(&name, &fabric, &EXACT).1
        })
        .collect();
    times.sort();
    println!("median {:.2?}, worst {:.2?}", times[30], times[59]);
}

/// Time over GPUs, both logarithmic: three rows to a decade of time, six columns to a doubling.
fn plot(points: &[(usize, Duration)]) -> String {
    let row = |time: Duration| (time.as_secs_f64().log10() * 3.0).floor() as i64;
    let column = |gpus: usize| ((gpus as f64 / 4.0).log2() * 6.0).round() as usize;
    let rows = points.iter().map(|p| row(p.1)).min().unwrap_or(0)..=points.iter().map(|p| row(p.1)).max().unwrap_or(0);
    let width = points.iter().map(|p| column(p.0)).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for at in rows.rev() {
        let mut counts = vec![0_usize; width];
        points.iter().filter(|p| row(p.1) == at).for_each(|p| counts[column(p.0)] += 1);
        let marks: String = counts.iter().map(|n| [' ', '·', 'o', 'O'].get(*n).copied().unwrap_or('@')).collect();
        let label = if at.rem_euclid(3) == 0 {
            format!("{:?}", Duration::from_secs_f64(10_f64.powi((at / 3) as i32)))
        } else {
            String::new()
        };
        text.push_str(&format!("{label:>8} |{}\n", marks.trim_end()));
    }
    text.push_str(&format!("{:>9}+{}\n{:>9}", "", "-".repeat(width), ""));
    (0..)
        .map(|n| 4_usize << n)
        .take_while(|gpus| column(*gpus) < width)
        .for_each(|gpus| text.push_str(&format!(" {gpus:<5}")));
    text
}

#[test]
#[ignore = "minutes; release build"]
fn large_growth() {
    let sizes = [4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256];
    let mut points = Vec::new();
    for gpus in sizes {
        let mut times: Vec<Duration> = (0..9)
            .map(|case| {
                let (name, fabric) = random(gpus, case);
                timed(&name, &fabric, &EXACT).1
            })
            .collect();
        points.extend(times.iter().map(|time| (gpus, *time)));
        times.sort();
        println!("{gpus} GPUs: median {:.2?}, worst {:.2?}", times[4], times[8]);
    }
    println!("{}", plot(&points));
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
    assert_eq!(Some(best.inverse_x), Rational::new(127, 25));
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
    for fabric in [mi250(2), heterogeneous(40, 11), meshed(30, 4, 6, 500, 2)] {
        let of = |threads| plan(&fabric, Collective::AllGather, &EXACT, &Run::quiet(threads)).expect("a plan");
        assert_eq!(of(1), of(3));
    }
}
