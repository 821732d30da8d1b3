//! Too little of everything: descriptors, memory, threads, processor time, and a directory of pages that somebody floods. What
//! runs short is shed, and no order is renewed late for it.
//!
//! Promises: P-34

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, Running, daemons, dir, privileged};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::fail_open::plan;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::run::Policy;

/// What the daemon's unit is promised to do with, and a quarter less.
const MEMORY: u64 = 48 << 20;
const THREADS: usize = 16;
const DESCRIPTORS: usize = 64;
/// How a group's name begins; the process id follows.
const PREFIX: &str = "sluice-exhaustion-";
/// How long it has too little.
const WHILE: Duration = Duration::from_secs(3);
/// A machine that others share may be late for a moment; it is not late three times.
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(20);

/// A process's bounds of memory and threads, by cgroups of version 1 or 2; gone with this value, once it has ended.
struct Bounds {
    dirs: Vec<PathBuf>,
}

impl Bounds {
    /// Groups without a process in them, or why there are none.
    fn make(memory: u64, threads: usize) -> Result<Bounds, String> {
        let base = Path::new("/sys/fs/cgroup");
        let name = format!("{PREFIX}{}", std::process::id());
        let (memory, threads) = (memory.to_string(), threads.to_string());
        let beside = ["memory", "pids"].map(|controller| base.join(controller));
        let version_1 = beside.iter().all(|dir| dir.join("cgroup.procs").exists());
        let root = sluice_testbed::fabric::cgroup::mount_point().map_err(|e| e.to_string())?;
        let wanted: Vec<(PathBuf, Vec<(&str, &str)>)> = if version_1 {
            let [of_memory, of_threads] = beside.map(|dir| dir.join(&name));
            vec![
                (of_memory, vec![("memory.limit_in_bytes", memory.as_str())]),
                (of_threads, vec![("pids.max", threads.as_str())]),
            ]
        } else {
            let control = root.join("cgroup.subtree_control");
            std::fs::write(&control, "+memory +pids").map_err(|e| format!("{}: {e}", control.display()))?;
            vec![(root.join(&name), vec![("memory.max", memory.as_str()), ("pids.max", threads.as_str())])]
        };
        let mut bounds = Bounds { dirs: Vec::new() };
        for (dir, files) in wanted {
            remove_leftovers(dir.parent().unwrap_or(base));
            std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
            bounds.dirs.push(dir.clone());
            for (file, value) in files {
                std::fs::write(dir.join(file), value).map_err(|e| format!("{}/{file}: {e}", dir.display()))?;
            }
        }
        Ok(bounds)
    }

    fn take(&self, pid: u32) {
        for dir in &self.dirs {
            std::fs::write(dir.join("cgroup.procs"), pid.to_string()).expect("it takes a process");
        }
    }

    /// A program that starts another one within the bounds.
    fn wrapper(&self, at: &Path, program: &Path) -> PathBuf {
        let files = self.dirs.iter().map(|dir| format!("echo $$ > {}/cgroup.procs\n", dir.display()));
        let text = format!(
            "#!/bin/sh\nset -e\n{}ulimit -n {DESCRIPTORS}\nexec {} \"$@\"\n",
            files.collect::<String>(),
            program.display()
        );
        let path = at.join("sluiced-in-bounds");
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(3);
        for dir in &self.dirs {
            // What is left in it goes back to the group above.
            let parent = dir.parent().unwrap_or(dir).join("cgroup.procs");
            for pid in std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = std::fs::write(&parent, pid); // It may have ended.
            }
            while std::fs::remove_dir(dir).is_err() && dir.exists() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Removes groups of tests that were killed.
fn remove_leftovers(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir(entry.path()); // The next test tries again.
        }
    }
}

/// Ends a thread of a scope also where the scope's own work panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn entries(dir: &str) -> usize {
    std::fs::read_dir(dir).map(Iterator::count).unwrap_or(0)
}

fn descriptors(pid: u32, most: usize) {
    // The soft limit alone: not every root may raise the other one again.
    let limit = format!("--nofile={most}:");
    let done = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().expect("util-linux");
    assert!(done.success(), "{done}");
}

/// Flows that were given back since no order came in time; waits for a daemon that answers.
fn late(live: &Live) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = live.daemons.get(0, "/metrics").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("sluice_released_flows_total{reason=\"deadline\"}"));
        if let Some(count) = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()) {
            return count as u64;
        }
        assert!(Instant::now() < end, "the daemon does not answer: {text:.200}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Lets the daemon have too little for a while, and says what became of the flows: given back for want of an order, and
/// samples in which one was plain.
fn meanwhile(live: &mut Live) -> (usize, usize) {
    let before = live.samples.len();
    live.run_for(WHILE).expect("the job runs on");
    let seen: Vec<_> = live.samples[before..].iter().filter(|sample| sample.rank == 0).collect();
    assert!(seen.len() > 20, "{} samples say nothing", seen.len());
    let acked = |at: usize| seen[at].flows.iter().map(|flow| flow.0).sum::<u64>();
    assert!(
        acked(seen.len() - 1) > acked(0) + 1_000_000,
        "the flows stand still: {} {}",
        acked(0),
        acked(seen.len() - 1)
    );
    let plain = seen.iter().filter(|sample| sample.flows.iter().any(|flow| !flow.1)).count();
    (plain, seen.len())
}

/// Tries until no order was late.
fn no_order_is_late(live: &mut Live, what: &str, mut attempt: impl FnMut(&mut Live) -> (usize, usize)) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        live.until(0, true, PATIENCE).expect("its flows are managed");
        let before = late(live);
        let (plain, all) = attempt(live);
        let late = late(live) - before;
        if (late, plain) == (0, 0) {
            return;
        }
        seen.push(format!("{late} given back, {plain} of {all} samples plain"));
    }
    panic!("{what}: {seen:?}");
}

#[test]
fn too_little_of_everything_makes_no_order_late() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let (plan, place) = plan(Rate::mbps(200), 4);
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 10).unwrap();
    if let Err(error) = live.until(0, true, PATIENCE) {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        assert!(conditions.contains("backend"), "not managed, and no condition says why: {error} {conditions}");
        return skip!(Kernel, "nothing is enforced here: {conditions}");
    }
    let pid = live.daemons.pid(0);

    // No descriptor more than it has, no thread more, and memory for what it has; and people who ask all the time.
    no_order_is_late(&mut live, "descriptors, memory and threads", |live| {
        let bounds = Bounds::make(MEMORY, entries(&format!("/proc/{pid}/task"))).unwrap_or_else(|e| panic!("{e}"));
        bounds.take(pid);
        descriptors(pid, entries(&format!("/proc/{pid}/fd")));
        let socket = live.daemons.socket(0);
        let asking: Vec<_> = (0..4).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
        assert!(!asking.is_empty(), "nobody could ask");
        let seen = meanwhile(live);
        drop(asking);
        descriptors(pid, 1024);
        seen
    });

    // More programs that never sleep than there are processors, and somebody who reads the metrics as fast as he gets them.
    no_order_is_late(&mut live, "processor time", |live| {
        // They die with this process.
        let spin = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            Running(live.fabric.hosts[0].ns.spawn(shell, None).expect("a shell"))
        };
        let spinning: Vec<Running> = (0..8).map(|_| spin()).collect();
        let (socket, stop, answers) = (live.daemons.socket(0), AtomicBool::new(false), AtomicU64::new(0));
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    answers.fetch_add(u64::from(ask(&socket)), Ordering::Relaxed);
                }
            });
            let _stop = Stop(&stop);
            let seen = meanwhile(live);
            drop(spinning);
            seen
        });
        let answers = answers.into_inner();
        assert!(answers > 10, "{answers} answers: hardly anybody read the metrics");
        seen
    });

    // A directory of pages with thousands of things that are none, renamed all the time.
    let pages = live.daemons.progress_dirs()[0].clone();
    for n in 0..8192 {
        std::fs::write(pages.join(format!("junk-{n}.sp1")), b"SLUICEP1").expect("written");
    }
    no_order_is_late(&mut live, "pages", |live| {
        let (stop, renames) = (AtomicBool::new(false), AtomicU64::new(0));
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in (0..8192).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let (from, to) = (pages.join(format!("junk-{n}.sp1")), pages.join(format!("junk-{n}.other.sp1")));
                    let renamed = std::fs::rename(&from, &to).or_else(|_| std::fs::rename(&to, &from));
                    renames.fetch_add(u64::from(renamed.is_ok()), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _stop = Stop(&stop);
            meanwhile(live)
        });
        let renames = renames.into_inner();
        assert!(renames > 500, "{renames} renames are not all the time");
        seen
    });

    // The same bounds from its first moment on.
    let bounds = Bounds::make(MEMORY, THREADS).unwrap_or_else(|e| panic!("{e}"));
    let wrapper = bounds.wrapper(&dir, &programs.daemon().expect("built"));
    live.daemons.kill(0);
    live.daemons.replace(0, wrapper);
    live.daemons.restart(&live.fabric, 0).expect("it starts with little");
    live.until(0, true, PATIENCE).expect("and schedules");
    let threads = entries(&format!("/proc/{}/task", live.daemons.pid(0)));
    assert!((2..=THREADS).contains(&threads), "{threads} threads");
    drop(live);
    drop(bounds);
}

/// One look at the metrics; false: turned away, which is as good.
fn ask(socket: &Path) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let set = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let asked =
        set.and_then(|()| stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    let mut text = String::new();
    asked.and_then(|()| stream.read_to_string(&mut text)).is_ok_and(|_| text.contains("sluice_slots_total"))
}
