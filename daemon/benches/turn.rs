//! A turn of the loop at a slot's edge with 64, 512 and 4096 flows of one job, over a kernel of plain memory:
//! `cargo bench -p sluiced --features testing --bench turn`.

use criterion::{Criterion, criterion_group, criterion_main};
use sluiced::Turns;

fn bench(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut group = c.benchmark_group("turn");
    for flows in [64, 512, 4096] {
        let mut turns = Turns::new(flows, dir.path());
        group.bench_function(format!("{flows} flows"), |b| b.iter(|| turns.turn()));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
