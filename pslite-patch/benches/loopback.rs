//! What the library costs a job: rounds of pushes and pulls on loopback, with it before both nodes and without, in pairs
//! that take turns. Prints the median of the pairs' ratios, and of as many pairs without it on either side.
//!
//! `cargo bench -p sluice-pslite --bench loopback -- [PAIRS]`

#[path = "../tests/support/mod.rs"]
mod support;

use support::calls::Style;
use support::node::{self, Job};
use support::{Running, clean};

/// Worker and server through their work; nanoseconds that the worker took.
fn once(job: &Job, preload: bool) -> u64 {
    let (meeting, program) =
        (tempfile::tempdir().expect("a directory"), std::env::current_exe().expect("this program"));
    let pages = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let mut both = [true, false].map(|worker| {
        let mut command = clean(&program, preload);
        node::tell(&mut command, worker, meeting.path(), job);
        command.env("DMLC_ROLE", if worker { "worker" } else { "server" }).env("SLUICE_SHM_DIR", pages.path());
        Running::start(command)
    });
    both.iter_mut().for_each(Running::finish);
    assert_eq!(support::pages(pages.path()).len(), if preload { 2 } else { 0 }, "it publishes, or is not there");
    both[0].nanos
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    if let Some(worker) = node::wanted() {
        let _sockets = node::run(worker);
        return node::wait();
    }
    let pairs = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(15_u32);
    // libzmq hands over a large body whole, and whatever is small in pieces of 8 KiB.
    let large = ("20 MB in 40 tensors, each handed over whole", vec![512 << 10; 40], 4 << 20);
    let small = ("4 MB in 1000 tensors of 4 KB", vec![4 << 10; 1000], 8 << 10);
    for (what, sizes, most) in [large, small] {
        let job = Job { rounds: 30, sizes, style: Style::Plain(most), one_connection: false, fork: false };
        let (mut ratios, mut noise, mut took) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            let with_first = pair % 2 == 0;
            let first = once(&job, with_first) as f64;
            let second = once(&job, !with_first) as f64;
            ratios.push(if with_first { first / second } else { second / first });
            let (a, b) = (once(&job, false) as f64, once(&job, false) as f64);
            noise.push(a / b);
            took.push(b / 1e6);
        }
        println!(
            "{what}, {} rounds: {:.0} ms; with the library {:+.2} %, without it on either side {:+.2} % (medians of {pairs} pairs)",
            job.rounds,
            median(&mut took),
            (median(&mut ratios) - 1.0) * 100.0,
            (median(&mut noise) - 1.0) * 100.0,
        );
    }
}
