//! `/metrics` of a host on which every list is full: 33 jobs, 16 links, 31 switches and 97 flows, about 1,200 series; and of one with
//! two jobs. The bar for a page of 1,024 series is 20 ms.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluice_wire::snapshot::{Flow, Job, Label, Link, Snapshot, SwitchStatus};
use sluiced::{MAX_LINKS, MAX_SWITCHES, scrape};

fn host(jobs: usize, links: usize, switches: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.daemon.metrics_job_ids = true;
    snapshot.daemon.metrics_max_jobs = 32;
    snapshot.daemon.metrics_flows = true;
    snapshot.daemon.metrics_max_flows = 64;
    for job in 0..jobs {
        let id = Label::new(&format!("train-{job}"));
        snapshot.jobs.push(Job { id: id.clone(), ..Job::default() });
        let flow = |number| Flow { job: id.clone(), number: Some(number), ordered_bps: Some(800), ..Flow::default() };
        snapshot.flows.extend((0..3).map(flow));
    }
    snapshot.links.extend((0..links).map(|n| Link { name: format!("eth{n}"), ..Link::default() }));
    let switch = |n| SwitchStatus { name: format!("leaf{n}"), ..SwitchStatus::default() };
    snapshot.switches.extend((0..switches).map(switch));
    snapshot.settle()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("scrape");
    for (name, snapshot) in [("two jobs", host(2, 2, 3)), ("full", host(300, MAX_LINKS, MAX_SWITCHES))] {
        let page = scrape(&snapshot).expect("renders");
        let series = page.lines().filter(|line| !line.starts_with('#')).count();
        group.throughput(Throughput::Elements(series as u64));
        group.bench_function(format!("{name}, {series} series"), |b| b.iter(|| scrape(&snapshot)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
