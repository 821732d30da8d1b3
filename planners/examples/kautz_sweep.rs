//! τ over its bound (N−1)/N for generalized Kautz graphs Π(d, N) of all sizes: `cargo run --release -p sluice-planners --example
//! kautz_sweep -- 4 2000`. Says the worst ratio, where, and how long the sweep took; fails where a ratio is above 2.

use std::time::Instant;

use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::direct::bfb::{cost, least_bandwidth};
use sluice_planners::direct::{Edge, Graph};

fn main() {
    let arguments: Result<Vec<u32>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let (d, most) = match arguments.as_deref() {
        Ok([]) => (4, 2000),
        Ok(&[d, most]) if d > 0 => (d, most),
        _ => {
            eprintln!("usage: kautz_sweep [DEGREE MAX_NODES], two whole numbers, as in: kautz_sweep 4 2000");
            std::process::exit(2);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let mut worst = (Rational::ZERO, 0);
    for n in d + 1..=most {
        let head = |x: u32, a: u32| (-(i64::from(d) * i64::from(x)) - i64::from(a)).rem_euclid(n.into()) as u32;
        let edges = (0..n).flat_map(|x| (1..=d).map(move |a| Edge { tail: x, head: head(x, a) })).collect();
        let graph = Graph::new(n, edges).expect("a graph");
        let cost = cost(&graph, &Run::quiet(threads)).expect("strongly connected");
        let ratio = cost.t_b.and_then(|t_b| t_b.checked_div(&least_bandwidth(n))).expect("regular");
        assert!(ratio <= Rational::from(2), "Pi({d},{n}): {ratio}");
        worst = worst.max((ratio, n));
    }
    let (ratio, n) = &worst;
    println!(
        "Pi({d}, {}..={most}): worst ratio {ratio} = {:.6} at N = {n}, {:.1} s",
        d + 1,
        ratio.to_f64(),
        begun.elapsed().as_secs_f64()
    );
}
