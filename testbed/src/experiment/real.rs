//! Stock jobs, PyTorch's DistributedDataParallel over Gloo or an all-reduce of Open MPI over TCP, that share every link,
//! under ordinary TCP and under Sluice.
//!
//! The scripts know nothing of Sluice and publish nothing: roles, flows and rounds are what the daemons find out by
//! themselves. Policies take turns, so that every round of the comparison sees the same machine. Results are
//! hashed in the scripts: they must be the same bit by bit under every policy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sluice_schedule::Rate;

use super::Bench;
use super::capacity::queue;
use crate::fabric::{Fabric, FabricSpec};
use crate::job;
use crate::run::daemons::Daemons;
use crate::run::result::mean;
use crate::run::{Policy, RunError, RunPlan, Session};

/// What kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// PyTorch's DistributedDataParallel over Gloo.
    Ddp,
    /// A ring all-reduce of Open MPI over TCP.
    Mpi,
}

impl Kind {
    /// The script, as a user would have it.
    fn script(self) -> &'static str {
        match self {
            Kind::Ddp => include_str!("../../real/ddp.py"),
            Kind::Mpi => include_str!("../../real/allreduce.py"),
        }
    }
}

/// Iterations left out at the start: connections open, buffers grow, Sluice learns.
const WARMUP: usize = 4;
/// Longest line of the script that is read.
const LONGEST: u64 = 1 << 16;

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What kind of jobs.
    pub kind: Kind,
    /// Link rate.
    pub rate: Rate,
    /// Jobs, each with one rank on every host.
    pub jobs: usize,
    /// Ranks of a job, and hosts.
    pub ranks: usize,
    /// Iterations of each job.
    pub iterations: usize,
    /// Gradients, MB.
    pub megabytes: f64,
    /// Waiting for a batch in each iteration, ms.
    pub load_ms: f64,
    /// Turns of all policies.
    pub repeats: usize,
    /// Policies.
    pub policies: Vec<Policy>,
}

/// One policy in one turn.
#[derive(Clone, Debug, Serialize)]
pub struct RealRun {
    /// The policy.
    pub policy: String,
    /// Turn, from 0.
    pub turn: usize,
    /// Mean iteration time of all jobs without warm-up, s.
    pub iteration_s: f64,
    /// Part of an iteration spent in the backward pass and its communication.
    pub communication: f64,
    /// Iterations of the first job that were over when a daemon managed one of its flows; `None`: never, or no daemon.
    pub unmanaged_iterations: Option<usize>,
    /// Bytes of an iteration that daemons learned, and how far from those a ring sends, as a part.
    pub learned: Vec<(u64, f64)>,
    /// Hashes of losses and weights by job and rank.
    #[serde(skip)]
    pub hashes: BTreeSet<String>,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub struct RealResult {
    /// Bytes of gradients of an iteration.
    pub gradient_bytes: u64,
    /// Are losses and weights the same in all runs, bit by bit?
    pub identical: bool,
    /// Every run.
    pub runs: Vec<RealRun>,
}

impl RealResult {
    /// Mean iteration time by policy, each against the best policy without Sluice.
    pub fn table(&self) -> String {
        let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            by.entry(&run.policy).or_default().push(run.iteration_s);
        }
        let plain = by.iter().filter(|(policy, _)| policy.starts_with("fair:")).map(|(_, times)| mean(times));
        let best = plain.fold(f64::INFINITY, f64::min);
        let mut text = String::from("policy              iteration s   against the best plain one\n");
        for (policy, times) in &by {
            let time = mean(times);
            text.push_str(&format!("{policy:<20}{time:>11.3}   {:>+6.1} %\n", (time / best - 1.0) * 100.0));
        }
        let same = if self.identical { "the same bit by bit" } else { "NOT the same" };
        text.push_str(&format!("losses and weights of all runs: {same}\n"));
        text
    }
}

/// A line of the script.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Begin { gradient_bytes: u64 },
    Iteration { rank: usize, begin_ns: u64, sync_ns: u64, end_ns: u64 },
    End { rank: usize, losses: String, weights: String },
}

/// What a rank said or did.
#[derive(Debug)]
enum Said {
    Line(Line),
    Ended(String),
}

/// Where `cargo xtask setup --workloads` unpacks: `SLUICE_WORKLOADS`, else beside the directory of this program.
///
/// # Errors
/// A sentence that says how to get them.
pub fn workloads() -> Result<PathBuf, RunError> {
    let named = std::env::var_os("SLUICE_WORKLOADS").map(PathBuf::from);
    let beside = std::env::current_exe().ok();
    let beside = beside.iter().flat_map(|exe| exe.ancestors().skip(2).take(2).map(|dir| dir.join("workloads")));
    let root = named.into_iter().chain(beside).map(|dir| dir.join("root")).find(|root| root.join(TORCH).exists());
    let missing =
        "PyTorch is not here: `cargo xtask setup --workloads` unpacks it (or name its place, SLUICE_WORKLOADS)";
    root.ok_or_else(|| RunError::Plan(missing.into()))
}

/// A file that shows that PyTorch is there.
const TORCH: &str = "usr/lib/python3/dist-packages/torch/__init__.py";
/// Where Debian's libraries lie.
const LIBRARIES: [&str; 7] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/openmpi/lib",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/blas",
    "usr/lib/x86_64-linux-gnu/lapack",
    "usr/lib/x86_64-linux-gnu/pmix2/lib",
];

/// Sets what programs unpacked below `root` need to find their parts.
fn set_places(command: &mut Command, root: &Path) {
    let all = LIBRARIES.map(|part| root.join(part).display().to_string()).join(":");
    let modules = root.join("usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3");
    command
        .env("PYTHONPATH", root.join("usr/lib/python3/dist-packages"))
        .env("PYTHONUNBUFFERED", "1")
        .env("LD_LIBRARY_PATH", all)
        .env("OPAL_PREFIX", root.join("usr"))
        .env("OPAL_LIBDIR", root.join("usr/lib/x86_64-linux-gnu"))
        .env("OMPI_MCA_mca_base_component_path", modules);
}

/// Python of the system, or the unpacked one.
fn python(root: &Path) -> PathBuf {
    let unpacked = root.join("usr/bin/python3.11");
    if unpacked.exists() { unpacked } else { PathBuf::from("/usr/bin/python3") }
}

/// Runs everything.
///
/// # Errors
/// When PyTorch is absent, a rank fails, or the fabric or a daemon does.
pub fn real(bench: &Bench<'_>, settings: &Settings) -> Result<RealResult, RunError> {
    let root = workloads()?;
    let mut result = RealResult { gradient_bytes: 0, identical: true, runs: Vec::new() };
    for turn in 0..settings.repeats {
        for policy in &settings.policies {
            let run = one(bench, settings, &root, policy, turn, &mut result.gradient_bytes)?;
            result.identical &= result.runs.first().is_none_or(|first| first.hashes == run.hashes);
            tracing::info!("{} turn {turn}: {:.3} s", run.policy, run.iteration_s);
            result.runs.push(run);
        }
    }
    Ok(result)
}

fn one(
    bench: &Bench<'_>,
    settings: &Settings,
    root: &Path,
    policy: &Policy,
    turn: usize,
    gradient_bytes: &mut u64,
) -> Result<RealRun, RunError> {
    let name = format!("real-{}-{turn}", policy.to_string().replace([':', '@'], "-"));
    let dir = bench.dir.join(name);
    std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
    let script = dir.join("job.py");
    std::fs::write(&script, settings.kind.script()).map_err(RunError::io("writing the script"))?;
    let fabric = FabricSpec::star(settings.ranks, settings.rate, queue(settings.rate));
    let plan = RunPlan { fabric, ..RunPlan::default() };
    let fabric = Fabric::build(plan.fabric.clone())?;
    let session = Session { binaries: bench.binaries, dir: dir.clone(), stop: bench.stop };
    let (tcp, daemons) = match policy {
        Policy::Fair(tcp) => (tcp.clone().unwrap_or_else(|| plan.tcp.clone()), None),
        Policy::Sluice { .. } => (plan.tcp.clone(), Some(Daemons::start(&fabric, &plan, policy, &session)?)),
    };
    let (to, from) = mpsc::channel();
    let mut ranks = Vec::new();
    for node in &fabric.hosts {
        node.prefer(&tcp)?;
    }
    let files = Files { root, script, dir: &dir };
    for job in 0..settings.jobs {
        for (host, mut command) in match settings.kind {
            Kind::Ddp => ddp(&fabric, settings, &files, job),
            Kind::Mpi => vec![(0, mpi(&fabric, settings, &files)?)],
        } {
            set_places(&mut command, root);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = fabric.hosts[host].ns.spawn(command, Some(fabric.cgroups.jobs(host).procs()?))?;
            listen(&mut child, job, to.clone())?;
            ranks.push(Rank(child));
        }
    }
    drop(to);
    let seen = watch(bench, settings, daemons.as_ref(), &from)?;
    drop(ranks);
    *gradient_bytes = seen.gradient_bytes;
    // A ring of n sends 2(n−1)/n of the gradients.
    let n = settings.ranks as f64;
    let wire = seen.gradient_bytes as f64 * 2.0 * (n - 1.0) / n;
    let mut learned = Vec::new();
    for host in &fabric.hosts {
        let log = std::fs::read_to_string(dir.join(format!("sluiced-{}.log", host.name))).unwrap_or_default();
        let bytes = log.lines().filter(|line| line.contains("iteration-learned")).filter_map(bytes_of);
        learned.extend(bytes.map(|bytes| (bytes, bytes as f64 / wire - 1.0)));
    }
    if let Some(daemons) = daemons {
        daemons.keep_documents();
        daemons.stop();
    }
    let counted: Vec<&Times> = seen.times.values().flat_map(|times| times.iter().skip(WARMUP)).collect();
    let of = |f: fn(&Times) -> f64| mean(&counted.iter().map(|times| f(times)).collect::<Vec<_>>());
    let iteration_s = of(|t| t.end.saturating_sub(t.begin) as f64 / 1e9);
    let synced = of(|t| t.end.saturating_sub(t.sync) as f64 / 1e9);
    let first = seen.times.get(&(0, 0)).map_or(&[][..], Vec::as_slice);
    Ok(RealRun {
        policy: policy.to_string(),
        turn,
        iteration_s,
        communication: synced / iteration_s,
        unmanaged_iterations: seen.managed.map(|at| first.iter().filter(|times| times.end < at).count()),
        learned,
        hashes: seen.hashes,
    })
}

/// Where things are.
struct Files<'a> {
    root: &'a Path,
    script: PathBuf,
    dir: &'a Path,
}

impl Files<'_> {
    /// The script's words on a command line.
    fn words(&self, settings: &Settings, job: usize) -> Vec<String> {
        let script = self.script.display().to_string();
        let (iterations, load) = (settings.iterations.to_string(), settings.load_ms.to_string());
        let (megabytes, seed) = (settings.megabytes.to_string(), (job + 1).to_string());
        let words = [
            script.as_str(),
            "--iterations",
            &iterations,
            "--megabytes",
            &megabytes,
            "--load-ms",
            &load,
            "--seed",
            &seed,
        ];
        words.map(str::to_owned).to_vec()
    }
}

/// One process per host, with the environment that torchrun would give it.
fn ddp(fabric: &Fabric, settings: &Settings, files: &Files<'_>, job: usize) -> Vec<(usize, Command)> {
    let rank = |host: usize| {
        let device = fabric.layout.links.iter().find(|link| link.from.node == host).map(|link| &link.from.device);
        let mut command = Command::new(python(files.root));
        command
            .args(files.words(settings, job))
            .env("RANK", host.to_string())
            .env("WORLD_SIZE", settings.ranks.to_string())
            .env("MASTER_ADDR", fabric.hosts[0].address.to_string())
            .env("MASTER_PORT", (29_500 + job).to_string())
            .env("GLOO_SOCKET_IFNAME", device.map_or("", String::as_str));
        (host, command)
    };
    (0..settings.ranks).map(rank).collect()
}

/// `mpirun` on the first host. Its remote shell is a script that enters the other host's namespace and cgroup; every host
/// has a host name of its own, so that Open MPI does not take them for one.
fn mpi(fabric: &Fabric, settings: &Settings, files: &Files<'_>) -> Result<Command, RunError> {
    let mut agent = String::from("#!/bin/sh\nhost=$1; shift\ncase $host in\n");
    for (i, host) in fabric.hosts.iter().enumerate() {
        let (procs, tid) = (fabric.cgroups.jobs(i).path().join("cgroup.procs"), host.ns.tid());
        agent.push_str(&format!("{}) net=/proc/{tid}/ns/net; procs={} ;;\n", host.name, procs.display()));
    }
    agent.push_str(
        "esac\necho $$ > $procs\n\
         exec nsenter --net=$net unshare --uts sh -c 'hostname \"$1\"; shift; exec sh -c \"$*\"' agent \"$host\" \"$@\"\n",
    );
    let path = files.dir.join("agent.sh");
    std::fs::write(&path, agent).map_err(RunError::io("writing mpirun's remote shell"))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).map_err(RunError::io("making mpirun's remote shell executable"))?;
    let hosts: Vec<String> = fabric.hosts.iter().map(|host| format!("{}:1", host.name)).collect();
    let data = format!("{}/16", fabric.hosts[0].address);
    let (agent, hosts, ranks) = (path.display().to_string(), hosts.join(","), settings.ranks.to_string());
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname \"$1\"; shift; exec \"$@\"", "mpirun", &fabric.hosts[0].name]);
    command.arg(files.root.join("usr/bin/orterun"));
    command.args(["--allow-run-as-root", "-np", &ranks, "--map-by", "node", "-H", &hosts]);
    for (key, value) in [
        ("plm_rsh_agent", agent.as_str()),
        ("btl", "tcp,self"),
        ("pml", "ob1"),
        ("oob_tcp_if_include", "10.255.0.0/16"),
        ("btl_tcp_if_include", data.as_str()),
        // A ring: the one of the algorithms that large vectors get.
        ("coll_tuned_use_dynamic_rules", "1"),
        ("coll_tuned_allreduce_algorithm", "4"),
    ] {
        command.args(["--mca", key, value]);
    }
    command.args(["-x", "LD_LIBRARY_PATH", "-x", "OPAL_PREFIX"]).arg(python(files.root));
    command.args(files.words(settings, 0));
    Ok(command)
}

/// `bytes=N` of a line of the daemon's log.
fn bytes_of(line: &str) -> Option<u64> {
    let after = line.split_once("bytes=").or_else(|| line.split_once("\"bytes\":"))?.1;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A rank's process, killed when dropped.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        // Either may fail when it has ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// One iteration of one rank, CLOCK_MONOTONIC ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    begin: u64,
    sync: u64,
    end: u64,
}

/// What all ranks said.
#[derive(Debug, Default)]
struct Seen {
    gradient_bytes: u64,
    times: BTreeMap<(usize, usize), Vec<Times>>,
    hashes: BTreeSet<String>,
    /// When a daemon first managed a flow.
    managed: Option<u64>,
}

fn watch(
    bench: &Bench<'_>,
    settings: &Settings,
    daemons: Option<&Daemons>,
    from: &Receiver<(usize, Said)>,
) -> Result<Seen, RunError> {
    let mut seen = Seen::default();
    let mut left = settings.jobs * settings.ranks;
    // Far beyond what any link needs: a rank that hangs must end the run.
    let deadline = Instant::now() + Duration::from_secs(60 + 10 * settings.iterations as u64);
    while left > 0 {
        if seen.managed.is_none()
            && let Some(daemons) = daemons
            && daemons.get(0, "/api/v1/snapshot").is_some_and(|text| text.contains("\"managed\""))
        {
            seen.managed = Some(job::now());
        }
        if bench.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let (job, said) = match from.recv_timeout(Duration::from_millis(50)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => continue,
            Err(_) => return Err(RunError::Plan("the ranks did not end in time".into())),
        };
        match said {
            Said::Line(Line::Begin { gradient_bytes }) => seen.gradient_bytes = gradient_bytes,
            Said::Line(Line::Iteration { rank, begin_ns, sync_ns, end_ns }) => {
                seen.times.entry((job, rank)).or_default().push(Times { begin: begin_ns, sync: sync_ns, end: end_ns });
            }
            Said::Line(Line::End { rank, losses, weights }) => {
                left -= 1;
                seen.hashes.insert(format!("{job} {rank} {losses} {weights}"));
            }
            Said::Ended(status) if !seen.hashes.iter().any(|hash| hash.starts_with(&format!("{job} "))) => {
                let what = status.lines().last().unwrap_or("it said nothing").to_owned();
                return Err(RunError::Job { job: format!("real-{job}"), rank: 0, host: String::new(), what });
            }
            Said::Ended(_) => {}
        }
    }
    Ok(seen)
}

fn listen(child: &mut Child, who: usize, to: Sender<(usize, Said)>) -> Result<(), RunError> {
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else { return Ok(()) };
    let body = move || {
        let mut reader = BufReader::new(out);
        let mut line = Vec::new();
        while matches!(reader.by_ref().take(LONGEST).read_until(b'\n', &mut line), Ok(n) if n > 0) {
            if let Ok(said) = serde_json::from_slice::<Line>(&line)
                && to.send((who, Said::Line(said))).is_err()
            {
                return;
            }
            line.clear();
        }
        let mut last = String::new();
        drop(err.take(LONGEST).read_to_string(&mut last));
        drop(to.send((who, Said::Ended(last)))); // Nobody may listen any more.
    };
    let spawned = std::thread::Builder::new().name("rank-output".into()).spawn(body);
    spawned.map(drop).map_err(RunError::io("starting a thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_script_and_of_the_daemon_are_read() {
        let line =
            r#"{"event": "iteration", "rank": 1, "i": 3, "begin_ns": 1, "sync_ns": 2, "end_ns": 9, "loss": 0.5}"#;
        assert!(matches!(serde_json::from_str::<Line>(line), Ok(Line::Iteration { rank: 1, begin_ns: 1, .. })));
        assert_eq!(bytes_of("INFO iteration-learned job=x bytes=13982560 known"), Some(13_982_560));
        assert_eq!(bytes_of(r#"{"event":"iteration-learned","bytes":77}"#), Some(77));
        assert_eq!(bytes_of("bytes=x"), None);
    }

    #[test]
    fn the_table_compares_with_the_best_plain_policy() {
        let run = |policy: &str, iteration_s| RealRun {
            policy: policy.into(),
            turn: 0,
            iteration_s,
            communication: 0.5,
            unmanaged_iterations: None,
            learned: Vec::new(),
            hashes: BTreeSet::new(),
        };
        let runs = vec![run("fair:cubic", 1.0), run("fair:bbr", 1.2), run("sluice", 0.8)];
        let table = RealResult { gradient_bytes: 1, identical: true, runs }.table();
        assert!(table.contains("-20.0 %") && table.contains("+20.0 %") && table.contains("bit by bit"), "{table}");
    }
}
