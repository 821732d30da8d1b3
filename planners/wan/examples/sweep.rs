//! The experiments of the method's page with all methods that need no solver: `cargo run --release --example sweep`.
//!
//! Mean times in s over the seeds, beside the page's own where it has one, and the time that planning takes.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_planners::Run;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method::{self, Options};
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::portfolio;
use sluice_planners_wan::sca::{self, Reading};
use sluice_planners_wan::{Instance, chain_order, perm};

/// The page's means on Abilene for K = 2 … 8.
#[allow(clippy::approx_constant, reason = "a mean that looks like 2π")]
const PAGE: [(&str, [f64; 7]); 17] = [
    ("barrier_aware", [18.02, 24.73, 31.70, 35.89, 41.66, 48.47, 53.30]),
    ("barrier_stage", [10.32, 13.98, 18.11, 20.59, 23.91, 27.68, 30.45]),
    ("barrier_step", [4.90, 6.59, 8.46, 9.46, 10.90, 12.83, 14.08]),
    ("out_of_order", [17.84, 22.62, 28.14, 33.11, 38.57, 44.07, 49.00]),
    ("equal_alloc", [10.72, 14.12, 17.45, 20.68, 23.94, 27.48, 30.55]),
    ("data_aware", [9.10, 12.56, 15.58, 18.53, 21.34, 24.56, 27.51]),
    ("weight_sca", [8.53, 11.34, 14.17, 17.00, 19.58, 22.38, 25.11]),
    ("multiring_spt", [4.43, 5.87, 7.22, 8.55, 9.95, 11.57, 12.97]),
    ("multiring_ldv", [4.30, 5.63, 6.99, 8.31, 9.63, 11.22, 12.53]),
    ("multiring", [4.24, 5.57, 6.93, 8.22, 9.53, 11.10, 12.41]),
    ("nonconcurrent_spt", [3.57, 4.63, 5.36, 6.28, 6.71, 7.87, 8.63]),
    ("nonconcurrent_ldv", [3.29, 4.38, 5.36, 6.45, 7.20, 8.48, 9.40]),
    ("equal_wc", [3.72, 4.52, 5.57, 6.31, 7.21, 8.15, 9.00]),
    ("prio", [2.92, 3.61, 4.27, 4.71, 5.17, 5.73, 6.25]),
    ("perm", [2.91, 3.48, 4.00, 4.49, 4.91, 5.40, 5.85]),
    ("portfolio", [2.86, 3.47, 4.00, 4.49, 4.91, 5.40, 5.85]),
    ("lower bound", [2.37, 2.75, 3.23, 3.52, 3.91, 4.37, 4.72]),
];

/// The page's means on other topologies: out_of_order, barrier_aware, equal_alloc, data_aware, weight_sca, the better
/// multiring, prio, portfolio.
const OTHERS: [(&str, [f64; 8]); 5] = [
    ("Arpanet196912", [37.85, 39.27, 25.23, 22.38, 21.07, 8.85, 4.79, 4.65]),
    ("Napnet", [31.68, 34.11, 21.12, 18.62, 17.05, 7.46, 4.66, 4.41]),
    ("HiberniaIreland", [32.12, 34.36, 19.76, 16.77, 15.77, 8.24, 4.26, 4.17]),
    ("Gblnet", [38.39, 40.93, 24.73, 22.49, 20.12, 8.84, 5.01, 4.85]),
    ("Cesnet1993", [30.44, 31.35, 19.82, 17.17, 15.94, 6.90, 4.28, 4.10]),
];
const OTHER_NAMES: [&str; 8] =
    ["out_of_order", "barrier_aware", "equal_alloc", "data_aware", "weight_sca", "multiring_ldv", "prio", "portfolio"];

fn graph(name: &str) -> Graph {
    let path = format!("{}/data/{name}.graphml", env!("CARGO_MANIFEST_DIR"));
    Graph::graphml(&std::fs::read(&path).expect("the graph is there"), &path).expect("a graph")
}

/// Every method with its mean time; and the seconds that the searches took.
fn all(instance: &Instance) -> (BTreeMap<String, f64>, [f64; 3]) {
    let simplex = sca::Options { reading: Reading::Simplex, ..sca::Options::default() };
    let simplex = sca::run(instance, simplex, &mut || false).expect("solved");
    let simplex = Plan::Weights { weights: simplex.weights, execution: Execution::Static };
    let begun = Instant::now();
    let choice = method::best(instance, &Options::default(), None, &Run::quiet(1)).expect("played");
    let portfolio = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let perm = perm::search(instance, &mut || false).expect("searched");
    let perm_took = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let options = chain_order::Options::default();
    chain_order::search_from(instance, &perm, options, &mut || false).expect("searched");
    let order_took = begun.elapsed().as_secs_f64();
    let named = |judged: portfolio::Judged| (judged.name, judged.mean.expect("a plan"));
    let mut means: BTreeMap<String, f64> = choice.table.into_iter().map(named).collect();
    means.insert("weight_sca_simplex".to_owned(), simplex.execute(instance).expect("played").mean);
    means.insert("portfolio".to_owned(), choice.outcome.mean);
    (means, [perm_took, order_took, portfolio])
}

/// The means over seeds.
fn over(graph: &Graph, collectives: usize, seeds: u64) -> (BTreeMap<String, f64>, [f64; 3]) {
    let (mut sums, mut longest): (BTreeMap<String, f64>, _) = (BTreeMap::new(), [0.0_f64; 3]);
    for seed in 1..=seeds {
        let instance = Workload::new(graph, collectives, seed).generate().expect("generated");
        let (means, took) = all(&instance);
        for (name, mean) in means {
            *sums.entry(name).or_default() += mean / seeds as f64;
        }
        longest.iter_mut().zip(took).for_each(|(longest, took)| *longest = longest.max(took));
    }
    (sums, longest)
}

fn main() {
    let abilene = graph("Abilene");
    let columns: Vec<_> = (2..=8).map(|collectives| over(&abilene, collectives, 10)).collect();
    println!("Abilene, n = 4, seeds 1 to 10, K = 2 to 8: mean time in s (in brackets: away from the page's, in %)");
    let names: Vec<&String> = columns.first().map(|(means, _)| means.keys().collect()).unwrap_or_default();
    for name in names {
        let page = PAGE.iter().find(|(known, _)| known == name).map(|(_, page)| page);
        print!("{name:>24}");
        for (column, (means, _)) in columns.iter().enumerate() {
            let mean = means.get(name).copied().unwrap_or(f64::NAN);
            match page.and_then(|page| page.get(column)) {
                Some(page) => print!(" {mean:>7.3} ({:+.1})", 100.0 * (mean / page - 1.0)),
                None => print!(" {mean:>7.3}       "),
            }
        }
        println!();
    }
    for (index, name) in ["perm", "chain_order", "portfolio"].into_iter().enumerate() {
        let took: Vec<String> = columns.iter().map(|(_, took)| format!("{:.3}", took[index])).collect();
        println!("{name} takes at most, in s: {}", took.join(" "));
    }
    println!("\nOther topologies, K = 4, n = 4, seeds 1 to 5");
    for (name, page) in OTHERS {
        let (means, took) = over(&graph(name), 4, 5);
        print!("{name:>24}");
        for (method, page) in OTHER_NAMES.into_iter().zip(page) {
            let mean = means.get(method).copied().unwrap_or(f64::NAN);
            print!(" {method} {mean:.3} ({:+.1})", 100.0 * (mean / page - 1.0));
        }
        println!("; chain_order takes at most {:.3} s", took[1]);
    }
}
