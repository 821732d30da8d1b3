//! What planning large fabrics takes: `cargo test --release -p sluice-planners-lp --test all -- --ignored --nocapture fluid::large`. Times are printed;
//! what is asserted are the figures.

use crate::fluid::samples::{Draws, file, read};
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{Variant, dgx_a100_rail};
use sluice_plan::plan::Collective;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::to_plan::{Mixing, make};
use sluice_planners::{Request, Run};
use sluice_planners_lp::fluid::solve::{Method, Options, Solved, Strength, solve};
use std::time::Instant;

/// R and cost, and a plan through the checker where there is one; says how long that took.
fn timed(what: &str, topology: &Topology, collective: Collective, strength: Strength, method: Method) -> Solved {
    let begin = Instant::now();
    let instance = Instance::new(topology, &Request::of_all(collective), None, "t").expect("can be served");
    let options = Options { strength: Some(strength), method, ..Options::default() };
    let solved = solve(&instance, &options, &Run::quiet(2)).expect("solved");
    if !solved.mixed.is_empty() {
        let mixing = Mixing {
            folding: &solved.folding,
            mixed: solved.mixed.clone(),
            prices: solved.prices.clone(),
            cost_prices: solved.cost_prices.clone(),
            is_late: false,
        };
        make(&instance, &mixing).expect("passes the checker");
    }
    let cost = solved.cost.as_ref().expect("a cost");
    println!(
        "{what}: {:.2} s, R {:e} (none below {:e}), cost {:e} ({:e}), {} rounds, {} columns",
        begin.elapsed().as_secs_f64(),
        solved.latency.value,
        solved.latency.lower,
        cost.value,
        cost.lower,
        solved.iterations.len(),
        solved.variables
    );
    for bounded in [&solved.latency, cost] {
        assert!(bounded.value - bounded.lower <= 1e-3 * bounded.value, "{what}: {bounded:?}");
    }
    solved
}

#[test]
#[ignore = "minutes"]
fn large_clusters() {
    let variants = [("nvlink", Variant::Nvlink), ("pcie", Variant::Pcie), ("all", Variant::All)];
    for (name, variant) in variants {
        let topology = dgx_a100_rail(32, variant).expect("a cluster");
        let what = |collective: &str| format!("{collective}, 256 GPUs, {name}");
        timed(&what("all-gather, RELAX"), &topology, Collective::AllGather, Strength::Relax, Method::Auto);
        timed(&what("all-to-all"), &topology, Collective::AllToAll, Strength::Tree, Method::Auto);
    }
    for machines in [1, 2, 4] {
        let topology = dgx_a100_rail(machines, Variant::All).expect("a cluster");
        let what = format!("all-gather, TREE by dw, {} GPUs, all", 8 * machines);
        timed(&what, &topology, Collective::AllGather, Strength::Tree, Method::Dw);
    }
    for machines in [1, 2, 4, 8, 16, 32, 64] {
        let topology = dgx_a100_rail(machines, Variant::All).expect("a cluster");
        let what = format!("all-gather, TREE by mirrored, {} GPUs, all", 8 * machines);
        let solved = timed(&what, &topology, Collective::AllGather, Strength::Tree, Method::Mirrored);
        let n = f64::from(machines);
        let latency = ((8.0 * n - 1.0) / 332.0).max((n - 1.0) / 25.0);
        assert!((solved.latency.value - latency).abs() <= 1e-7 * latency, "{what}: {:?}", solved.latency);
    }
}

/// Eight machines of eight GPUs behind a switch, one rail for each GPU of a machine, and for every link and direction a rate
/// of its own: nothing is symmetric.
fn uneven() -> Value {
    let mut draws = Draws::of(64);
    let mut links = Vec::new();
    let mut nodes = Vec::new();
    for machine in 0..8 {
        for gpu in 0..8 {
            let name = format!("g{machine}.{gpu}");
            for (hop, least, more) in [(format!("sx{machine}"), 2000, 1000), (format!("sr{gpu}"), 150, 150)] {
                for (from, to) in [(&name, &hop), (&hop, &name)] {
                    let capacity = format!("{} GB/s", (least + draws.below(more)) as f64 / 10.0);
                    links.push(json!({"from": from, "to": to, "capacity": capacity}));
                }
            }
            nodes.push(name);
        }
    }
    nodes.extend((0..8).flat_map(|place| [format!("sx{place}"), format!("sr{place}")]));
    file(&nodes, links, Vec::new())
}

#[test]
#[ignore = "minutes"]
fn large_without_symmetry() {
    let topology = read(&uneven());
    let solved = timed("64 GPUs, random rates", &topology, Collective::AllGather, Strength::Tree, Method::Auto);
    assert_eq!(solved.method, Method::Dw);
}
