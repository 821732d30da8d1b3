//! How long the parts take on one core: `cargo run --release --example timing`.

use std::time::Instant;

use sluice_planners::Run;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::instance::Instance;
use sluice_planners_wan::rules::{Fill, Priority, Recomputed, Static};
use sluice_planners_wan::sca::{self, Reading};
use sluice_planners_wan::simulate::{RateRule, simulate};
use sluice_planners_wan::{baseline, chain_order, method, multiring, perm};

/// The least time of several runs, in s.
fn least<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    let once = |_| {
        let begun = Instant::now();
        std::hint::black_box(work());
        begun.elapsed().as_secs_f64()
    };
    (0..runs).map(once).fold(f64::INFINITY, f64::min)
}

fn drawn(graph: &Graph, collectives: usize, participants: usize) -> Instance {
    Workload { participants, ..Workload::new(graph, collectives, 1) }.generate().expect("generated")
}

fn simulated(name: &str, instance: &Instance, make: impl Fn() -> Box<dyn RateRule>) {
    let events = simulate(instance, &mut *make()).expect("played").events;
    let took = least(50, || simulate(instance, &mut *make()));
    let each = took / events as f64;
    println!("{name:>28} {events:>6} events, {:>8.3} µs each, {:>10.0} a second", each * 1e6, 1.0 / each);
}

fn main() {
    let read = |name: &str| {
        let path = format!("{}/data/{name}.graphml", env!("CARGO_MANIFEST_DIR"));
        Graph::graphml(&std::fs::read(&path).expect("the graph is there"), &path).expect("a graph")
    };
    let (abilene, kdl) = (read("Abilene"), read("Kdl"));
    let cases = [
        ("Abilene K = 8, n = 4", drawn(&abilene, 8, 4)),
        ("Abilene K = 50, n = 2", drawn(&abilene, 50, 2)),
        ("Kdl K = 16, n = 8", drawn(&kdl, 16, 8)),
    ];
    for (name, instance) in &cases {
        println!("{name}: {} flows", instance.flows().len());
        let rates = baseline::equal(instance).expect("chains");
        simulated("static", instance, || Box::new(Static::new(rates.clone())));
        simulated("reserve and fill", instance, || Box::new(Fill::reserved(instance, rates.clone()).expect("rates")));
        simulated("max-min", instance, || Box::new(Fill::equal(instance)));
        simulated("priority", instance, || {
            Box::new(Priority::new(instance, (0..instance.flows().len()).collect()).expect("ranks"))
        });
        simulated("priority, recomputed", instance, || Box::new(Recomputed::new(instance)));
        for key in Key::ALL {
            let took = least(50, || greedy::nonconcurrent(instance, key));
            println!("{:>28} {:>8.3} ms", format!("greedy {}", key.word()), took * 1e3);
        }
        for (name, reading) in [("capacity", Reading::Capacity), ("simplex", Reading::Simplex)] {
            let options = sca::Options { reading, ..sca::Options::default() };
            let made = sca::run(instance, options, &mut || false).expect("solved").iterations();
            let took = least(10, || sca::run(instance, options, &mut || false));
            println!("{:>28} {:>8.3} ms, {made} iterations", format!("weight_sca {name}"), took * 1e3);
        }
        println!("{:>28} {:>8.3} ms", "multiring", least(10, || multiring::plan(instance, Default::default())) * 1e3);
        println!("{:>28} {:>8.3} ms", "perm", least(1, || perm::search(instance, &mut || false)) * 1e3);
        let took = least(1, || chain_order::search(instance, Default::default(), &mut || false));
        println!("{:>28} {:>8.3} ms", "perm and chain_order", took * 1e3);
        let took = least(1, || method::best(instance, &method::Options::default(), None, &Run::quiet(1)));
        println!("{:>28} {:>8.3} ms", "portfolio", took * 1e3);
    }
    for collectives in [8, 64, 256] {
        let instance = drawn(&abilene, collectives, 4);
        let solved = multiring::budgets(&instance).expect("solved");
        let took = least(20, || multiring::budgets(&instance));
        println!(
            "budgets of {collectives} collectives: {:.3} ms, {} steps, residual {:.1e}",
            took * 1e3,
            solved.iterations,
            solved.residual
        );
    }
}
