//! A real MXNet job, `dist_sync` with one scheduler, two servers and two workers on loopback, under the library.
//!
//! Needs MXNet 1.9.1 for Python 3.11: `cargo xtask setup --workloads`, then
//! `cargo test -p sluice-pslite mxnet -- --ignored --nocapture`

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::{clean, page};
use sluice_progress::{PageView, Role, State};
use sluice_skip::skip;

/// Floats of each key. Those of a million and more are divided among the servers.
const FLOATS: [u64; 4] = [1_000_000, 10, 2_000_000, 600_000];
const ROUNDS: u64 = 5;
const NODES: [(&str, usize); 3] = [("scheduler", 1), ("server", 2), ("worker", 2)];

/// Python with MXNet: `SLUICE_MXNET_PYTHON`, or the one below the target directory.
fn python() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SLUICE_MXNET_PYTHON") {
        return Some(path.into());
    }
    let exe = std::env::current_exe().ok()?;
    let target = exe.parent()?.parent()?.parent()?;
    Some(target.join("workloads/mxnet/bin/python")).filter(|path| path.exists())
}

struct Node(Child);
impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the job to its last pull and takes the pages: role, page.
fn run(python: &Path, preload: bool, dir: &Path) -> (Vec<String>, Vec<PageView>) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("bound").port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mxnet/node.py");
    let sizes: Vec<String> = FLOATS.iter().map(u64::to_string).collect();
    let mut nodes = Vec::new();
    for (role, count) in NODES {
        for _ in 0..count {
            let mut command = clean(python, preload);
            command.arg(&script).arg(ROUNDS.to_string()).arg(sizes.join(","));
            command.env("DMLC_ROLE", role).env("DMLC_PS_ROOT_URI", "127.0.0.1").env("DMLC_INTERFACE", "lo");
            command.env("DMLC_PS_ROOT_PORT", port.to_string()).env("DMLC_NUM_SERVER", "2").env("DMLC_NUM_WORKER", "2");
            command.env("SLUICE_SHM_DIR", dir).env("OMP_NUM_THREADS", "1");
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            nodes.push((role, Node(command.spawn().expect("it starts"))));
        }
    }
    let mut said = Vec::new();
    for (_, node) in nodes.iter_mut().filter(|(role, _)| *role == "worker") {
        let mut line = String::new();
        BufReader::new(node.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        if !line.ends_with("done\n") {
            let mut text = String::new();
            let _ = node.0.stderr.take().expect("piped").read_to_string(&mut text);
            panic!("a worker ended too early: {line:?}\n{text}");
        }
        said.push(line.split(" pid ").next().unwrap_or_default().to_owned());
    }
    said.sort();
    let views = nodes.iter().filter_map(|(_, node)| page(dir, node.0.id())).collect();
    for (_, node) in &mut nodes {
        drop(node.0.stdin.take());
    }
    for (role, node) in &mut nodes {
        assert!(node.0.wait().expect("it ends").success(), "{role}");
    }
    (said, views)
}

#[test]
#[ignore = "needs MXNet 1.9.1 below target/workloads/mxnet, see the head of this file"]
fn every_byte_and_every_round_of_a_real_job_is_in_its_pages() {
    let Some(python) = python() else {
        return skip!(Thing, "no MXNet below target/workloads/mxnet");
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (alone, none) = run(&python, false, dir.path());
    assert!(none.is_empty());
    let (said, views) = run(&python, true, dir.path());
    assert_eq!(said, alone);
    assert_eq!(views.len(), 5);
    let model = 4 * FLOATS.iter().sum::<u64>();
    let of = |role: Role| views.iter().filter(move |view| view.role == role);
    for view in &views {
        println!(
            "{:?} {:?}: {} bytes enqueued, {} on the wire in {} rounds; sent {}, received {}, errors {}, peers {}",
            view.role,
            view.rank,
            view.enq_bytes,
            view.enq_wire_bytes,
            view.iteration.count,
            view.tx_bytes,
            view.rx_bytes,
            view.errors,
            view.peers.len(),
        );
        assert_eq!((view.errors, view.drops), (0, 0));
    }
    let mut ranks: Vec<_> = of(Role::Worker).map(|view| view.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [Some(0), Some(1)]);
    for view in of(Role::Worker) {
        // Worker 0 also pushes what every key begins with.
        let rounds = if view.rank == Some(0) { ROUNDS + 1 } else { ROUNDS };
        assert_eq!((view.enq_bytes, view.iteration.count), (rounds * model, rounds));
        assert_eq!((view.iteration_bytes(), view.hint_iter_bytes, view.state), (model, model, State::Compute));
        assert!(view.tx_bytes >= view.enq_wire_bytes && view.tx_bytes < view.enq_wire_bytes + 4096);
        assert!(view.rx_bytes >= ROUNDS * model && view.rx_bytes < ROUNDS * model + 16384);
        assert_eq!(view.peers.len(), 4, "to and from each server");
    }
    // What both workers pull, over both servers.
    let replied: u64 = of(Role::Server).map(|view| view.enq_bytes).sum();
    assert_eq!(replied, 2 * ROUNDS * model);
    for view in of(Role::Server) {
        assert_eq!((view.iteration.count, view.hint_iter_bytes * ROUNDS), (ROUNDS, view.enq_bytes));
    }
    assert_eq!(of(Role::Scheduler).map(|view| view.enq_bytes).sum::<u64>(), 0);
}
