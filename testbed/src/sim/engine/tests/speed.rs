//! Speed, measured when asked for: `cargo nextest run -p sluice-testbed --run-ignored all --no-capture speed`.
//!
//! The same as the example `sim_speed`, at several sizes in one go.

use std::time::Instant;

use super::{fair, scenario};
use crate::scenario::random::Stream;
use crate::sim::share::Share;

fn run(hosts: u64, gpus: u64, placement: &str, mode: &str, iterations: u32) {
    let (racks, edges) = (hosts.div_ceil(10), hosts.div_ceil(100));
    let jobs = hosts * gpus / 4;
    let text = format!(
        "version = 1\nname = \"s\"\nseed = 7\n[time]\nmode = \"{mode}\"\n[network]\nkind = \"three-tier\"\nservers_per_rack = 10\nracks_per_edge = {}\nedges = {edges}\ngpus = {gpus}\ngbps = [10, 20, 40]\n[placement]\npolicy = \"{placement}\"\n[defaults]\ncompute_scale = 0.25\n[arrivals]\nkind = \"synthetic\"\nlength_s = 60\ninitial_jobs = {jobs}\ninitial_spread_s = 10\nmax_jobs = {jobs}\niterations = {iterations}\nmix = [{{model = \"vgg19\", arch = \"ring\", workers = 3}}, {{model = \"vgg16\", arch = \"ps\", workers = 2, servers = 2}}, {{model = \"resnet50\", arch = \"ps\", workers = 2, servers = 2}}, {{model = \"gpt2\", arch = \"ring\", workers = 3}}]\n",
        racks.div_ceil(edges)
    );
    let begin = Instant::now();
    let s = scenario(&text);
    let load = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let o = fair(&s);
    let wall = begin.elapsed().as_secs_f64();
    println!(
        "{hosts} hosts of {gpus}, {placement}, {mode}: load {load:.3} s, run {wall:.3} s; {} events, {:.0}/s, {:.2} µs each; {} ends of flows, {:.0}/s; {} flows at once",
        o.events,
        o.events as f64 / wall,
        wall * 1e6 / o.events as f64,
        o.flow_ends,
        o.flow_ends as f64 / wall,
        o.active.most
    );
}

/// Mean time of one sharing of `flows` flows of four hops over the tree.
fn share(flows: u32, hosts: u32) {
    let mut share = Share::default();
    let mut lot = Stream::new(1, "speed");
    let ends: Vec<[u64; 2]> = (0..flows).map(|_| [lot.below(hosts.into()), lot.below(hosts.into())]).collect();
    let rounds = 2_000_000 / flows;
    let begin = Instant::now();
    let mut sum = 0.0;
    for _ in 0..rounds {
        share.clear();
        let (racks, edges) = (u64::from(hosts.div_ceil(10)), u64::from(hosts.div_ceil(100)));
        (0..2 * hosts).for_each(|_| _ = share.link(1.25e9));
        (0..2 * racks).for_each(|_| _ = share.link(2.5e9));
        (0..2 * edges).for_each(|_| _ = share.link(5e9));
        for &[a, b] in &ends {
            let (rack, edge) = (2 * u64::from(hosts), 2 * u64::from(hosts) + 2 * racks);
            share.hop((2 * a) as u32);
            if a / 10 != b / 10 {
                share.hop((rack + a / 10 * 2) as u32);
                share.hop((rack + b / 10 * 2 + 1) as u32);
            }
            if a / 100 != b / 100 {
                share.hop((edge + a / 100 * 2) as u32);
                share.hop((edge + b / 100 * 2 + 1) as u32);
            }
            share.hop((2 * b + 1) as u32);
            share.flow(0, 1.0, f64::INFINITY);
        }
        sum += share.solve().iter().sum::<f64>();
    }
    let each = begin.elapsed().as_secs_f64() / f64::from(rounds);
    println!(
        "{flows} flows of {hosts} hosts: {:.1} µs a sharing ({:.1} Gbit/s in all)",
        each * 1e6,
        sum * 8e-9 / f64::from(rounds)
    );
}

#[test]
#[ignore = "a measurement"]
fn speed_of_sharing() {
    share(50, 10);
    share(1000, 1000);
    share(4000, 1000);
}

#[test]
#[ignore = "a measurement"]
fn speed_by_size() {
    for hosts in [100, 1000, 4000] {
        run(hosts, 2, "packed", "event", 100);
    }
    run(1000, 8, "packed", "event", 20);
    run(1000, 8, "random", "slot", 4);
    run(1000, 8, "random", "event", 1);
}
