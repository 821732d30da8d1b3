//! Searches for better graphs for some seconds: `search N D SECONDS [SEED]`.
//!
//! `cargo run --release -p sluice-planners --example search -- 64 4 20`

use sluice_planners::direct::search::{Request, search};
use sluice_planners::{Progress, Run};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [n, d, seconds, rest @ ..] = numbers.as_slice() else {
        eprintln!("search N D SECONDS [SEED]");
        std::process::exit(2);
    };
    let (n, d) = (u32::try_from(*n).unwrap_or(u32::MAX), u32::try_from(*d).unwrap_or(u32::MAX));
    let seed = rest.first().copied().unwrap_or(1);
    let (begin, evaluations) = (Instant::now(), AtomicU64::new(0));
    let request = Request { n, d, bidirectional: false, seed, rounds: u64::MAX };
    let watch = |progress: Progress<'_>| evaluations.store(progress.done, Ordering::Relaxed);
    let run = Run { watch: &watch, deadline: Some(begin + Duration::from_secs(*seconds)), ..Run::quiet(2) };
    match search(&request, &run) {
        Ok(found) => {
            let evaluations = evaluations.into_inner();
            println!(
                "N = {n}, d = {d}, seed {seed}: {evaluations} candidates in {:.1} s",
                begin.elapsed().as_secs_f64()
            );
            for graph in found {
                println!("T_L {}, tau {}, reduce {}: {}", graph.t_l, graph.t_b, graph.t_b_reduce, graph.expression);
            }
        }
        Err(refusal) => {
            eprintln!("{refusal}");
            std::process::exit(2);
        }
    }
}
