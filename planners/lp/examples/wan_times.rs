//! How long the solvers take on instance files: `times METHOD FILE…`, METHOD one of rate, gp, bound, order,
//! multiring, or all.

use sluice_planners::Run;
use sluice_planners_lp::wan::{Limits, lower_bound, multiring, nonconcurrent, rate_alloc, weight_gp};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let method = arguments.next().ok_or("a method is needed")?;
    let seconds = std::env::var("SECONDS_LIMIT").ok().and_then(|text| text.parse().ok()).unwrap_or(30.0);
    for path in arguments {
        let instance = sluice_planners_wan::form::read(&std::fs::read(&path)?, &path)
            .map_err(|problems| format!("{problems:?}"))?;
        let run = Run::quiet(1);
        let is = |name: &str| method == name || method == "all";
        println!("{}", instance.name());
        if is("rate") {
            // The least of three: the first also loads the code.
            let mut best = Duration::MAX;
            let mut last = None;
            for _ in 0..3 {
                let begin = Instant::now();
                last = Some(rate_alloc(&instance, &run)?);
                best = best.min(begin.elapsed());
            }
            if let Some(found) = last {
                println!(
                    "  rate {:.9} {} iterations gap {:.1e}: {best:?}",
                    found.objective, found.iterations, found.gap
                );
            }
        }
        if is("gp") {
            let begin = Instant::now();
            let found = weight_gp(&instance, &run)?;
            let (mean, iterations) = (found.mean, found.iterations);
            println!(
                "  gp {:.9} {mean:.9} {iterations} iterations gap {:.1e}: {:?}",
                found.objective,
                found.gap,
                begin.elapsed()
            );
        }
        if is("bound") {
            let begin = Instant::now();
            let found = lower_bound(&instance, &run)?;
            println!(
                "  bound {:.12} {} rounds {} prices: {:?}",
                found.value,
                found.rounds,
                found.prices.len(),
                begin.elapsed()
            );
        }
        if is("order") {
            let begin = Instant::now();
            let limits = Limits { time: Some(Duration::from_secs_f64(seconds)), ..Limits::default() };
            let found = nonconcurrent(&instance, limits, &run)?;
            let (bound, proved) = (found.bound, found.proved_optimal);
            println!(
                "  order {:.12} bound {bound:.12} proved {proved} {} nodes: {:?}",
                found.mean,
                found.nodes,
                begin.elapsed()
            );
        }
        if is("multiring") {
            let begin = Instant::now();
            let found = multiring(&instance, Default::default(), &run)?;
            println!(
                "  multiring {:.12} bound {:.12} proved {}: {:?}",
                found.mean,
                found.bound(),
                found.proved_optimal(),
                begin.elapsed()
            );
        }
    }
    Ok(())
}
