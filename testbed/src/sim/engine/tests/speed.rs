//! Speed, measured when asked for: `cargo nextest run -p sluice-testbed --run-ignored all --no-capture speed`.
//!
//! The same as the example `sim_speed`, at several sizes in one go.

use std::time::Instant;

use super::{fair, scenario};

fn run(hosts: u64, placement: &str, mode: &str, iterations: u32) {
    let (racks, edges) = (hosts.div_ceil(10), hosts.div_ceil(100));
    let jobs = hosts * 6 / 5;
    let text = format!(
        "version = 1\nname = \"s\"\nseed = 7\n[time]\nmode = \"{mode}\"\n[network]\nkind = \"three-tier\"\nservers_per_rack = 10\nracks_per_edge = {}\nedges = {edges}\ngpus = 8\ngbps = [10, 20, 40]\n[placement]\npolicy = \"{placement}\"\n[defaults]\ncompute_scale = 0.25\n[arrivals]\nkind = \"synthetic\"\nlength_s = 60\ninitial_jobs = {jobs}\ninitial_spread_s = 10\nmax_jobs = {jobs}\niterations = {iterations}\nmix = [{{model = \"vgg19\", arch = \"ring\", workers = 3}}, {{model = \"vgg16\", arch = \"ps\", workers = 2, servers = 2}}, {{model = \"resnet50\", arch = \"ps\", workers = 2, servers = 2}}, {{model = \"gpt2\", arch = \"ring\", workers = 3}}]\n",
        racks.div_ceil(edges)
    );
    let begin = Instant::now();
    let s = scenario(&text);
    let load = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let o = fair(&s);
    let wall = begin.elapsed().as_secs_f64();
    println!(
        "{hosts} hosts, {placement}, {mode}: load {load:.3} s, run {wall:.3} s; {} events, {:.0}/s, {:.2} µs each; {} ends of flows, {:.0}/s; {} flows at once",
        o.events,
        o.events as f64 / wall,
        wall * 1e6 / o.events as f64,
        o.flow_ends,
        o.flow_ends as f64 / wall,
        o.active.most
    );
}

#[test]
#[ignore = "a measurement"]
fn speed_by_size() {
    for hosts in [100, 1000, 4000] {
        run(hosts, "packed", "event", 20);
    }
    run(1000, "packed", "slot", 20);
    run(100, "random", "event", 20);
    run(1000, "random", "slot", 4);
    run(1000, "random", "event", 2);
}
