//! What the whole-system tests share: the privilege check, programs, directories.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::{FabricSpec, NetNs};
use sluice_testbed::job::{Arch, PlanFile};
use sluice_testbed::run::daemons::Daemons;
use sluice_testbed::run::{Binaries, JobPlan, Placement, Policy, RunPlan};

#[path = "../../../ebpf/tests/all/quiet.rs"]
mod quiet;

/// Tests take turns: two fabrics at once would measure each other.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Nobody interrupts a test.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Can this process make network namespaces and cgroups? Otherwise the test is skipped.
pub fn privileged() -> bool {
    if let Err(why) = NetNs::create("probe") {
        skip!(Privilege, "{why}");
        return false;
    }
    let cgroups = sluice_testbed::fabric::cgroup::mount_point();
    if let Err(why) = &cgroups {
        skip!(Kernel, "{why}");
    }
    cgroups.is_ok()
}

/// The programs; `sluice-job` is built with the tests.
pub fn binaries() -> Binaries {
    Binaries::find().expect("cargo builds sluice-job before the tests of its package")
}

/// The same with the daemons, which `cargo xtask test` builds.
pub fn daemons() -> Binaries {
    let programs = binaries();
    programs.daemon().and(programs.switch()).expect("`cargo build --bins` builds them");
    programs
}

/// A small star.
pub fn star(hosts: usize, rate: Rate) -> FabricSpec {
    FabricSpec::star(hosts, rate, Bytes(250_000))
}

/// A job plan with the usual zeros.
pub fn job(id: &str, arch: Arch, workers: usize, servers: usize, bytes: u64, iterations: u64) -> JobPlan {
    JobPlan {
        arch,
        servers,
        compute: vec![Nanos::from_millis(5)],
        ..JobPlan::ring(id, workers, Bytes(bytes), iterations)
    }
}

/// What the quietest of at most five tries gave, as `quiet::measured` says it.
pub fn quiet<T>(mut runs: impl FnMut() -> T) -> T {
    quiet::measured(|| Some(()), |&()| Some(runs())).expect("each try gives something")
}

/// A directory that goes with the test.
pub fn dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_owned();
    (dir, path)
}

/// More settings of the daemons of these hosts: what they read after their own file, from the state directory. `dir` is the
/// session's.
pub fn also(dir: &Path, hosts: &[String], text: &str) {
    for host in hosts {
        let drop_in = dir.join(format!("run-{host}/state/sluiced.d"));
        std::fs::create_dir_all(&drop_in).expect("a directory");
        std::fs::write(drop_in.join("10-test.toml"), text).expect("written");
    }
}

/// Killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process serves of its metrics at this address of the caller's network namespace.
pub fn metrics(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// What a host's daemon says of itself.
pub fn snapshot(daemons: &Daemons, host: usize) -> serde_json::Value {
    serde_json::from_str(&daemons.get(host, "/api/v1/snapshot").unwrap_or_default()).unwrap_or_default()
}

/// A job with a member on every host that carries a plan out.
pub fn follower(id: &str, file: PathBuf, spec: &FabricSpec, bytes: u64, iterations: u64) -> JobPlan {
    let plan = Some(PlanFile { file, ranks: spec.hosts.clone(), collective: None });
    JobPlan { plan, ..job(id, Arch::Plan, spec.hosts.len(), 0, bytes, iterations) }
}

/// A member on every host.
pub fn everywhere(spec: &FabricSpec) -> Placement {
    Placement { workers: (0..spec.hosts.len()).collect(), servers: Vec::new() }
}

/// Runs a job under daemons until host 0's says of it what `wanted` wants to see.
pub fn seen(job: JobPlan, spec: FabricSpec, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let place = everywhere(&spec);
    seen_by(0, job, spec, &place, wanted)
}

/// Runs a job under daemons until this host's says of it what `wanted` wants to see.
pub fn seen_by(
    host: usize,
    job: JobPlan,
    spec: FabricSpec,
    place: &Placement,
    wanted: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let plan = RunPlan { name: "seen".into(), fabric: spec, jobs: vec![job], ..RunPlan::default() };
    let mut live = Live::start(&bench, &plan, place, &"sluice".parse::<Policy>().unwrap(), 50).unwrap();
    let began = Instant::now();
    loop {
        live.run_for(Duration::from_millis(200)).unwrap();
        let text = live.daemons.get(host, "/api/v1/snapshot").expect("a snapshot");
        let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        if wanted(&snapshot) {
            return snapshot;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "not seen: {} {}", snapshot["jobs"], snapshot["conditions"]);
    }
}
