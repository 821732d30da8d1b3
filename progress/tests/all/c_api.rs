//! A C program, compiled against the header and the static library, publishes a page that the Rust reader reads.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluice_progress::{Liveness, Pattern, Reader, Role, Source, State};

const PROGRAM: &str = r#"
#include "sluice_progress.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    struct sluice_ident id = { .size = sizeof id, .source = SLUICE_APPLICATION, .job_id = "from-c",
        .producer = "c test", .rank = 1, .nranks = 2, .local_rank = SLUICE_UNKNOWN_RANK,
        .pattern = SLUICE_PS, .role = SLUICE_WORKER };
    struct sluice_peer peer = { .size = sizeof peer, .rank = 0, .kind = 1, .lport = 1000, .rport = 2000 };
    int h, p;
    if (sluice_open(0) != -1 || sluice_enqueue(-1, 1, 1) != -1 || sluice_enqueue(63, 1, 1) != -1) return 2;
    h = sluice_open(&id);
    if (h < 0) return 3;
    memset(peer.laddr, 0, 16); peer.laddr[10] = peer.laddr[11] = 0xff; peer.laddr[12] = 10; peer.laddr[15] = 1;
    memcpy(peer.raddr, peer.laddr, 16); peer.raddr[15] = 2;
    p = sluice_peer(h, &peer);
    if (p != 0 || sluice_peer_sent(h, p, 11) || sluice_peer_sent(h, 1000, 1)) return 4;
    if (sluice_iteration(h) || sluice_enqueue(h, 1000, 2000) || sluice_net_begin(h) || sluice_sent(h, 5)) return 5;
    if (sluice_received(h, 6) || sluice_version() != 1000) return 6;
    puts("ready"); fflush(stdout);
    getchar();
    if (sluice_net_end(h) || sluice_close(h) || sluice_close(h) != -1 || sluice_enqueue(h, 1, 1) != -1) return 7;
    puts("closed"); fflush(stdout);
    getchar();
    return 0;
}
"#;

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The static library beside this test's executable.
fn library() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let deps = exe.parent()?;
    [deps, deps.parent()?].iter().map(|dir| dir.join("libsluice_progress.a")).find(|path| path.exists())
}

fn compile(dir: &Path) -> PathBuf {
    let library = library().expect("the static library is built before the tests of its package");
    let source = dir.join("test.c");
    let binary = dir.join("test");
    std::fs::write(&source, PROGRAM).expect("write");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&binary)
        .arg(&source)
        .arg("-I")
        .arg(include)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .expect("cc, which links this test too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    binary
}

#[test]
fn a_c_program_publishes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let binary = compile(dir.path());
    let pages = dir.path().join("pages");
    std::fs::create_dir(&pages).expect("mkdir");
    let mut command = Command::new(binary);
    command.env("SLUICE_SHM_DIR", &pages).env_remove("SLUICE_DISABLE").env("SLUICE_ITER_BYTES", "4096");
    let mut child = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let mut stdin = child.0.stdin.take().expect("piped");
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));

    let path = std::fs::read_dir(&pages).expect("readable").next().expect("one page").expect("an entry").path();
    let mut reader = Reader::open(&path).expect("a good page");
    let view = reader.read().expect("readable");
    assert_eq!((view.job_id.as_str(), view.source, view.role), ("from-c", Source::Application, Role::Worker));
    assert_eq!((view.pattern, view.rank, view.local_rank), (Pattern::ParameterServer, Some(1), None));
    assert_eq!((view.iteration_bytes(), view.enq_wire_bytes, view.hint_iter_bytes), (1000, 2000, 4096));
    assert_eq!((view.state, view.tx_bytes, view.rx_bytes), (State::OnWire, 5, 6));
    assert_eq!(
        view.peers.first().map(|peer| (peer.remote.to_string(), peer.tx_bytes)),
        Some(("10.0.0.2:2000".into(), 11))
    );
    assert_eq!(reader.owner(), Liveness::Alive { pid: Some(child.0.id()) });

    stdin.write_all(b"\n").expect("write");
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("closed"));
    assert!(!path.exists(), "a closed page is removed");
    assert_eq!(reader.owner(), Liveness::Dead);
    assert_eq!(reader.read().expect("the open file stays").state, State::Finished);
    stdin.write_all(b"\n").expect("write");
    assert!(child.0.wait().expect("it ends").success());
}
