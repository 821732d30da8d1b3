//! The Python module: its own tests, and a page of it as the daemon reads it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluice_progress::{Liveness, Pattern, Reader, Role, Source, State};
use sluice_skip::skip;

const PROGRAM: &str = "
from sluice_progress import Progress
with Progress(job='from-python', rank=1, nranks=2, pattern='ps', role='worker', producer='test', comm_id=77) as progress:
    progress.step()
    progress.enqueue(1000, 2000)
    with progress.sending():
        progress.page().sent(5)
        progress.page().received(6)
        print('ready', flush=True)
        input()
    print('closing', flush=True)
print('closed', flush=True)
input()
";

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Python with the module and without anything of ours in its environment; `None`: there is none that is new enough.
fn python() -> Option<Command> {
    let mut probe = Command::new("python3");
    probe.args(["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]);
    if !probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        skip!(Thing, "no python3 of 3.9 or later here");
        return None;
    }
    let mut command = Command::new("python3");
    for name in ["SLUICE_DISABLE", "SLUICE_SHM_DIR", "SLUICE_JOB_ID", "SLUICE_ITER_BYTES", "SLURM_JOB_ID"] {
        command.env_remove(name);
    }
    command.arg("-B").env("PYTHONPATH", module());
    Some(command)
}

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn its_own_tests_pass() {
    let Some(mut command) = python() else { return };
    let output =
        command.args(["-m", "unittest", "discover", "-s", "tests"]).current_dir(module()).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("Ran 8 tests"), "{text}");
}

#[test]
fn a_python_program_publishes_what_the_daemon_reads() {
    let Some(mut command) = python() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    command.args(["-c", PROGRAM]).env("SLUICE_SHM_DIR", dir.path()).env("SLUICE_ITER_BYTES", "4096");
    let mut child = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let mut stdin = child.0.stdin.take().expect("piped");
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));

    let path = std::fs::read_dir(dir.path()).expect("readable").next().expect("one page").expect("an entry").path();
    let mut reader = Reader::open(&path).expect("a good page");
    let view = reader.read().expect("readable");
    assert_eq!((view.job_id.as_str(), view.producer.as_str(), view.comm_id), ("from-python", "test", 77));
    assert_eq!((view.source, view.pattern, view.role), (Source::Application, Pattern::ParameterServer, Role::Worker));
    assert_eq!((view.rank, view.nranks, view.local_rank), (Some(1), 2, None));
    assert_eq!((view.ring_prev, view.ring_next, view.hint_iter_bytes), (None, None, 4096));
    assert_eq!((view.iteration.count, view.iteration_bytes(), view.enq_wire_bytes), (1, 1000, 2000));
    assert_eq!((view.state, view.inflight, view.phase_seq), (State::OnWire, 1, 1));
    assert_eq!((view.tx_bytes, view.rx_bytes, view.drops, view.errors), (5, 6, 0, 0));
    assert!(view.iteration.start_ns >= view.created_ns && view.host_monotonic && !view.iteration_stale);
    assert_eq!((view.pid, reader.owner()), (child.0.id(), Liveness::Alive { pid: Some(child.0.id()) }));

    stdin.write_all(b"\n").expect("write");
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("closing"));
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("closed"));
    assert!(!path.exists(), "a closed page is removed");
    assert_eq!(reader.owner(), Liveness::Dead);
    assert_eq!(reader.read().expect("the open file stays").state, State::Finished);
    stdin.write_all(b"\n").expect("write");
    assert!(child.0.wait().expect("it ends").success());
}
