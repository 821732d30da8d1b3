//! One max–min computation: `cargo bench -p sluice-share --bench share`.

use criterion::{Criterion, criterion_group, criterion_main};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sluice_share::Share;

/// Servers of a rack, racks under an edge switch; 10, 20 and 40 Gbit/s from tier to tier.
const WIDE: u64 = 10;

/// Puts flows between random hosts of the three tiers to the problem.
fn build(share: &mut Share, ends: &[[u64; 2]], hosts: u64) {
    let (racks, edges) = (hosts.div_ceil(WIDE), hosts.div_ceil(WIDE * WIDE));
    share.clear();
    (0..2 * hosts).for_each(|_| _ = share.link(1.25e9));
    (0..2 * racks).for_each(|_| _ = share.link(2.5e9));
    (0..2 * edges).for_each(|_| _ = share.link(5e9));
    for &[from, to] in ends {
        let (rack, edge) = (2 * hosts, 2 * (hosts + racks));
        let mut hop = |link: u64| share.hop(link as u32);
        hop(2 * from);
        if from / WIDE != to / WIDE {
            hop(rack + 2 * (from / WIDE));
            hop(rack + 2 * (to / WIDE) + 1);
        }
        if from / WIDE / WIDE != to / WIDE / WIDE {
            hop(edge + 2 * (from / WIDE / WIDE));
            hop(edge + 2 * (to / WIDE / WIDE) + 1);
        }
        hop(2 * to + 1);
        share.flow(0, 1.0, f64::INFINITY);
    }
}

fn sharing(c: &mut Criterion) {
    let mut group = c.benchmark_group("one-max-min");
    for (name, flows, hosts) in
        [("50-in-a-rack", 50, 10), ("1000-over-three-tiers", 1000, 1000), ("4000-over-three-tiers", 4000, 1000)]
    {
        let mut draws = SplitMix64::seed_from_u64(1);
        let mut host = || draws.next_u64() % hosts;
        let ends: Vec<[u64; 2]> = (0..flows).map(|_| [host(), host()]).collect();
        let mut share = Share::default();
        group.bench_function(name, |b| {
            b.iter(|| {
                build(&mut share, &ends, hosts);
                share.solve().len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, sharing);
criterion_main!(benches);
