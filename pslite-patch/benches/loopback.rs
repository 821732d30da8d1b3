//! What the library costs a job: rounds of pushes and pulls on loopback, with it before both nodes and without, in pairs
//! that take turns. Prints the median of the pairs' ratios, and of as many pairs without it on either side.
//!
//! `cargo bench -p sluice-pslite --bench loopback -- [PAIRS]`

#[path = "../tests/support/mod.rs"]
mod support;

use std::os::unix::process::CommandExt;

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
        // SAFETY: only system calls.
        unsafe { command.pre_exec(alone) };
        Running::start(command)
    });
    both.iter_mut().for_each(Running::finish);
    assert_eq!(support::pages(pages.path()).len(), if preload { 2 } else { 0 }, "it publishes, or is not there");
    both[0].nanos
}

/// This process on the last core, and before others if it may.
fn alone() -> std::io::Result<()> {
    // SAFETY: all zero bits are a set without cores; the calls read what is given, and may fail.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        let last = libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(1) as usize - 1;
        libc::CPU_SET(last, &mut cores);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cores);
        libc::sched_setscheduler(0, libc::SCHED_RR, &libc::sched_param { sched_priority: 1 });
    }
    Ok(())
}

/// Times of runs that took turns, in pairs.
#[derive(Default)]
struct Pairs([Vec<f64>; 2]);

impl Pairs {
    fn add(&mut self, pair: [u64; 2]) {
        self.0.iter_mut().zip(pair).for_each(|(side, nanos)| side.push(nanos as f64));
    }

    /// Per cent that the first side takes more: by the quickest runs, and by the median of the pairs.
    fn more(&self) -> [f64; 2] {
        let [a, b] = &self.0;
        let least = |side: &[f64]| side.iter().copied().fold(f64::INFINITY, f64::min);
        let mut ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
        [least(a) / least(b), median].map(|ratio| (ratio - 1.0) * 100.0)
    }
}

fn main() {
    if let Some(worker) = node::wanted() {
        let _sockets = node::run(worker);
        return node::wait();
    }
    let pairs = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(25_u32);
    let large = ("20 MB in 40 tensors of 512 KB", vec![512 << 10; 40], Style::Zmq, 8);
    let small = ("4 MB in 1000 tensors of 4 KB", vec![4 << 10; 1000], Style::Zmq, 5);
    // What no PS-Lite does: 47 calls for each tensor's push and pull.
    let frames = ("the same, a call for each part of a frame", vec![4 << 10; 1000], Style::Plain(8 << 10), 3);
    for (what, sizes, style, rounds) in [large, small, frames] {
        let job = Job { rounds, sizes, style, one_connection: false, fork: false };
        let (mut with, mut noise) = (Pairs::default(), Pairs::default());
        for pair in 0..pairs {
            let with_first = pair % 2 == 0;
            let (first, second) = (once(&job, with_first), once(&job, !with_first));
            with.add(if with_first { [first, second] } else { [second, first] });
            noise.add([once(&job, false), once(&job, false)]);
        }
        let least = with.0[1].iter().chain(noise.0.iter().flatten()).copied().fold(f64::INFINITY, f64::min);
        let [[quickest, median], [quickest_noise, median_noise]] = [with.more(), noise.more()];
        println!(
            "{what}, {} rounds: {:.0} ms; with the library {quickest:+.2} % by the quickest runs, {median:+.2} % by the median of {pairs} \
             pairs; without it on either side {quickest_noise:+.2} %, {median_noise:+.2} %",
            job.rounds,
            least / 1e6,
        );
    }
}
