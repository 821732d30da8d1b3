//! Training jobs over two hosts of a site: rings that always have something to send.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sluice_testbed::job::{Arch, JobFile, Member};

use super::PATIENCE;
use super::site::{Site, spawn};

/// What a member's flows were like at one time: acknowledged bytes, and whether `sluice` drives each.
#[derive(Clone, Debug)]
struct Sample {
    t_ns: u64,
    flows: Vec<(u64, bool)>,
}

/// A process of a job, and what it has told.
struct Process {
    child: Child,
    host: usize,
    samples: Arc<Mutex<Vec<Sample>>>,
}

/// Running jobs; dropping them ends them.
pub struct Jobs(Vec<Process>);

impl Jobs {
    /// Starts jobs by name, and waits until each of their processes has sent something.
    pub fn start(site: &Site, names: &[&str]) -> Jobs {
        let mut jobs = Jobs(Vec::new());
        for (serial, name) in names.iter().enumerate() {
            let member = |(at, node): (usize, &sluice_testbed::fabric::Node)| Member {
                host: node.name.clone(),
                address: node.address,
                port: u16::try_from(21_000 + serial * 10 + at).expect("a port"),
                rails: Vec::new(),
            };
            let members: Vec<Member> = site.fabric.hosts.iter().enumerate().map(member).collect();
            for rank in 0..members.len() {
                jobs.0.push(process(site, name, &members, rank));
            }
        }
        let began = Instant::now();
        while jobs.0.iter().any(|process| process.samples.lock().expect("no panic").is_empty()) {
            assert!(began.elapsed() < PATIENCE, "a job does not begin");
            jobs.still_run();
            std::thread::sleep(Duration::from_millis(20));
        }
        jobs
    }

    /// The time of the samples.
    pub fn now(&self) -> u64 {
        sluice_testbed::job::now()
    }

    fn between(&self, host: usize, from: u64, to: u64) -> Vec<Vec<Sample>> {
        let of = |process: &Process| {
            let all = process.samples.lock().expect("no panic");
            all.iter().filter(|sample| (from..=to).contains(&sample.t_ns)).cloned().collect()
        };
        self.0.iter().filter(|process| process.host == host).map(of).collect()
    }

    /// Was every flow that left a host managed at every moment of this time at which somebody looked?
    pub fn all_managed(&self, host: usize, from: u64, to: u64) -> bool {
        let all = self.between(host, from, to);
        all.iter().all(|one| !one.is_empty() && one.iter().all(|sample| sample.flows.iter().all(|flow| flow.1)))
    }

    /// Was something acknowledged of every flow that left a host in this time?
    pub fn moved(&self, host: usize, from: u64, to: u64) -> bool {
        self.between(host, from, to).iter().all(|one| match (one.first(), one.last()) {
            (Some(first), Some(last)) => first.flows.iter().zip(&last.flows).all(|(a, b)| a.0 < b.0),
            _ => false,
        })
    }

    /// None of them has ended, which it would if a connection broke or a sum were wrong.
    pub fn still_run(&mut self) {
        for process in &mut self.0 {
            let ended = process.child.try_wait().expect("a child");
            assert!(ended.is_none(), "a job's process ended: {ended:?}");
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // It may have ended by itself, or with its namespace.
            drop(process.child.kill());
            drop(process.child.wait());
        }
    }
}

fn process(site: &Site, name: &str, members: &[Member], rank: usize) -> Process {
    let file = JobFile {
        job: name.into(),
        arch: Arch::Ring,
        rank,
        members: members.to_vec(),
        workers: members.len(),
        fanout: 2,
        plan: None,
        bytes: 4_000_000,
        iterations: 1_000_000,
        compute_ns: Vec::new(),
        period_ns: 0,
        overlap: 0.0,
        tcp: None,
        write_bytes: 65_536,
        progress_dir: Some(site.hosts[rank].root.at("/run/sluice/progress")),
        sample_ms: 10,
        sample_flows: true,
        wait_for_start: false,
    };
    let path = site.dir.path().join(format!("job-{name}-{rank}.json"));
    std::fs::write(&path, serde_json::to_vec(&file).expect("JSON")).expect("written");
    let mut command = Command::new(&site.programs.job);
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::piped()).env("SLUICE_JOB_ID", name);
    let procs = site.fabric.cgroups.jobs(rank).procs().expect("a cgroup");
    let mut child = spawn(&site.fabric.hosts[rank].ns, command, Some(procs)).expect("it starts");
    let out = child.stdout.take().expect("a pipe");
    let samples = Arc::new(Mutex::new(Vec::new()));
    let to = samples.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(sample) = sample(&line) {
                to.lock().expect("no panic").push(sample);
            }
        }
    });
    Process { child, host: rank, samples }
}

fn sample(line: &str) -> Option<Sample> {
    let line: Value = serde_json::from_str(line).ok()?;
    let flow = |flow: &Value| Some((flow[0].as_u64()?, flow[1].as_bool()?));
    let flows = line["flows"].as_array()?.iter().map(flow).collect::<Option<Vec<_>>>()?;
    Some(Sample { t_ns: line["t_ns"].as_u64()?, flows })
}
