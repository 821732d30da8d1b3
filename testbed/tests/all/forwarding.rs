//! Switches that are programs, under ordinary TCP: with `testbed.data_plane` each `sluice-switch` forwards in its kernel's
//! place, whatever the policy.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, metrics, privileged};
use crate::inband::leaf_spine;
use nix::sched::{CloneFlags, setns};
use sluice_scenario::{Scenario, Set, Transport};
use sluice_schedule::Nanos;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Observer, Placement, Policy, Queue, RunPlan, Session, run_once};

/// Counts of switches are there this long after a job at the latest: what they serve is up to a second old.
const SHOWN: Duration = Duration::from_secs(10);

/// What is known of the switches of a run.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes that each has forwarded, by its name.
    forwarded: BTreeMap<String, f64>,
    /// Since when the first job is over.
    since: Option<Instant>,
    /// All that is waited for is there, or does not come.
    enough: bool,
}

type Shared = Arc<Mutex<Seen>>;

fn locked(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks what switches have forwarded once the first job is over, until it is so much.
struct Watch {
    bytes: f64,
    seen: Shared,
}

impl Observer for Watch {
    fn begins(&mut self, _policy: &str, _run: usize, _runs: usize) {}

    fn progress(&mut self, _part: f64, ended: usize, _jobs: usize) {
        let mut seen = locked(&self.seen);
        if ended == 0 || seen.enough {
            return;
        }
        let since = *seen.since.get_or_insert_with(Instant::now);
        seen.forwarded = forwarded();
        let all = passed(&seen.forwarded).into_iter().all(|passed| passed >= self.bytes);
        seen.enough = all || since.elapsed() > SHOWN;
    }
}

/// Starts the first job at once, and the second, for which the switches stay, when enough is known of them.
struct InTurn {
    places: Vec<Placement>,
    waiting: Vec<usize>,
    seen: Shared,
}

impl Queue for InTurn {
    fn arrived(&mut self, job: usize) {
        self.waiting.insert(0, job);
    }

    fn ended(&mut self, _job: usize) {}

    fn next(&mut self) -> Option<(usize, Placement)> {
        let job = self.waiting.pop_if(|job| *job == 0 || locked(&self.seen).enough)?;
        Some((job, self.places[job].clone()))
    }
}

/// Bytes that passed each leaf, and the spines together. Where every flow leads from one leaf to the other each of them is
/// all that was sent.
fn passed(forwarded: &BTreeMap<String, f64>) -> [f64; 3] {
    let by = |name: &str| forwarded.get(name).copied().unwrap_or(0.0);
    [by("l0"), by("l1"), by("s0") + by("s1")]
}

/// What the switches of this process's run have forwarded: each is a `sluice-switch` whose file bears its name.
fn forwarded() -> BTreeMap<String, f64> {
    let own = std::process::id().to_string();
    let of = |process: &Path| {
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        let command = std::fs::read_to_string(process.join("cmdline")).ok().filter(|_| parent.trim() == own)?;
        let mut words = command.split('\0').map(Path::new);
        let name = words.find_map(|word| word.file_stem()?.to_str()?.strip_prefix("sluice-switch-"))?;
        let text = served(process)?;
        let lines = text.lines().filter(|line| line.starts_with("sluice_switchd_forwarded_bytes_total"));
        let bytes = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
        Some((name.to_owned(), bytes))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| of(&entry.path())).collect()
}

/// What a switch's process serves of its metrics, in its own network namespace.
fn served(process: &Path) -> Option<String> {
    let ns = File::open(process.join("ns/net")).ok()?;
    // This thread stays where it is.
    let there = std::thread::spawn(move || {
        setns(&ns, CloneFlags::CLONE_NEWNET).ok()?;
        metrics("127.0.0.1:9606")
    });
    there.join().ok()?
}

#[test]
fn under_tcp_every_byte_of_a_job_is_forwarded_by_the_programs_and_the_job_ends() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let programs = daemons();
    let plan = RunPlan {
        name: "programs".into(),
        fabric: leaf_spine(),
        jobs: vec![job("ring", Arch::Ring, 4, 0, 1_600_000, 4), job("after", Arch::None, 1, 0, 4, 1)],
        data_plane: true,
        limit: Nanos::from_millis(60_000),
        ..RunPlan::default()
    };
    // Every hop of the ring crosses the spines.
    let ring = Placement { workers: vec![0, 2, 1, 3], servers: vec![] };
    let after = Placement { workers: vec![0], servers: vec![] };
    let seen = Shared::default();
    let mut queue = InTurn { places: vec![ring, after], waiting: Vec::new(), seen: seen.clone() };
    // Six chunks of 400 kB from each member in each iteration, and as `jobs.rs` has it a hello, SYN and FIN of each flow.
    let bytes: u64 = 4 * (4 * 6 * 400_000 + 24 + 2);
    let mut watch = Watch { bytes: bytes as f64, seen: seen.clone() };
    let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let policy = "fair:cubic".parse::<Policy>().unwrap();
    let run = run_once(&plan, &mut queue, &policy, &session, &mut watch).unwrap();

    let [ring, after] = run.jobs.as_slice() else { panic!("{:?}", run.jobs) };
    assert_eq!((ring.rounds.len(), after.rounds.len()), (4, 1));
    assert_eq!(ring.acked, bytes);
    assert!(!ring.tcp.is_empty() && ring.tcp.keys().all(|tcp| tcp == "cubic"), "{:?}", ring.tcp);
    let seen = locked(&seen);
    assert_eq!(seen.forwarded.keys().collect::<Vec<_>>(), ["l0", "l1", "s0", "s1"]);
    // Beside them are headers, acknowledgements, and what was sent again.
    let parts = passed(&seen.forwarded).map(|passed| passed / bytes as f64);
    assert!(parts.into_iter().all(|part| (1.0..1.5).contains(&part)), "{parts:?} of {bytes}: {:?}", seen.forwarded);
    assert!(run.cpu.switches > 0.0 && run.cpu.daemons == 0.0, "{:?}", run.cpu);
    assert!(dir.join("sluice-switch-l0.tables").is_file() && !dir.join("sluiced-h0.toml").exists());
}

#[test]
fn the_key_lets_programs_forward_under_any_transport_and_without_it_kernels_do() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/pair.toml");
    let plan = |sets: &[Set]| {
        let scenario = Scenario::load_with(&file, sets).unwrap_or_else(|e| panic!("{e}"));
        RunPlan::of(&scenario.for_testbed(&[]).unwrap_or_else(|e| panic!("{e}"))).unwrap()
    };
    let with = plan(&["testbed.data_plane=true".parse().unwrap()]);
    assert_eq!((with.transport, with.forwards(), with.own_switches()), (Transport::Session, true, true));
    let inband = plan(&["scheduler.sluice.transport=inband".parse().unwrap()]);
    assert_eq!((inband.data_plane, inband.forwards()), (false, true));
    let without = plan(&[]);
    assert_eq!((without.forwards(), without.own_switches()), (false, false));
}
