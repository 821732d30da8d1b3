//! A5: what a local user can do with the daemon's directories, its lock and its pins, before the daemon or beside it.

use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use nix::sys::stat::Mode;

use crate::attacker::{ATTACKER, Local, Who, allow, dir, once, turn, until};
use crate::programs::Daemon;

/// Starts a daemon, which is to refuse; what it said.
fn refused(dir: &Path) -> String {
    let (status, text) = Daemon::run(dir);
    assert_ne!(status, Some(0), "{text}");
    text
}

/// the run directory, made beforehand.
#[test]
fn a_run_directory_of_somebody_else_is_refused_and_named() {
    let Some(_turn) = turn() else { return };
    let home = dir();
    allow(home.path(), 0o777);
    once(Who::attacker(), || std::fs::create_dir(home.path().join("run")).expect("made"));
    allow(home.path(), 0o755);
    let text = refused(home.path());
    assert!(text.contains("/run") && text.contains("65534") && text.contains("node.run_dir"), "{text}");
    // A link of the attacker's, who could make it lead elsewhere afterwards.
    let home = dir();
    let good = home.path().join("good");
    std::fs::create_dir(&good).expect("made");
    allow(&good, 0o755);
    allow(home.path(), 0o777);
    once(Who::attacker(), || symlink(&good, home.path().join("run")).expect("a link"));
    allow(home.path(), 0o755);
    let text = refused(home.path());
    assert!(text.contains("a link of uid 65534"), "{text}");
    // A directory of root's that others may write to.
    let home = dir();
    let open = home.path().join("open");
    std::fs::create_dir(&open).expect("made");
    allow(&open, 0o777);
    symlink(&open, home.path().join("run")).expect("a link");
    let text = refused(home.path());
    assert!(text.contains("777"), "{text}");
}

/// the directory of pages, in which somebody else could replace pages.
#[test]
fn a_directory_of_pages_without_protection_is_refused() {
    let Some(_turn) = turn() else { return };
    for (owner, mode, word) in [(0, 0o777, "777"), (ATTACKER, 0o1777, "65534")] {
        let home = dir();
        let pages = home.path().join("run/progress");
        std::fs::create_dir_all(&pages).expect("made");
        allow(&home.path().join("run"), 0o755);
        allow(&pages, mode);
        chown(&pages, Some(owner), None).expect("root gives it away");
        let text = refused(home.path());
        assert!(text.contains(word) && text.contains("capture.progress_dir"), "{text}");
    }
}

/// the lock, as a link to a file of root's, or as a FIFO that makes who opens it wait.
#[test]
fn a_lock_that_is_no_file_neither_blocks_nor_is_written_through() {
    let Some(_turn) = turn() else { return };
    let home = dir();
    let run = home.path().join("run");
    std::fs::create_dir(&run).expect("made");
    let precious = home.path().join("precious");
    std::fs::write(&precious, "x").expect("written");
    symlink(&precious, run.join("sluiced.lock")).expect("a link");
    let text = refused(home.path());
    assert!(text.contains("sluiced.lock"), "{text}");
    assert_eq!(std::fs::read_to_string(&precious).expect("still there"), "x");
    std::fs::remove_file(run.join("sluiced.lock")).expect("removed");
    nix::unistd::mkfifo(&run.join("sluiced.lock"), Mode::from_bits_truncate(0o600)).expect("a FIFO");
    // It may start or not; it must not wait for a reader.
    let began = std::time::Instant::now();
    let file = Daemon::configured(home.path(), "");
    let mut command = std::process::Command::new(crate::programs::binaries().daemon().expect("built"));
    let mut child = command
        .arg("--config")
        .arg(file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    until("it ended or runs", || child.try_wait().expect("waited for").is_some() || run.join("sluiced.sock").exists());
    assert!(began.elapsed() < std::time::Duration::from_secs(25));
    let _ = child.kill();
    let _ = child.wait();
}

/// two daemons at once, and somebody who holds the lock's name.
#[test]
fn a_second_daemon_ends_and_names_the_first() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let home = daemon.socket().parent().and_then(Path::parent).expect("a directory").to_owned();
    let (status, text) = Daemon::run(&home);
    assert_eq!(status, Some(4), "{text}");
    let first = std::fs::read_to_string(home.join("run/sluiced.lock")).expect("a pid");
    assert!(text.contains(first.trim()), "{text}");
    // Nobody else can take or keep the lock.
    let lock = home.join("run/sluiced.lock");
    let (_attacker, opened) =
        Local::start(Who::attacker(), || usize::from(std::fs::File::options().write(true).open(&lock).is_ok()));
    assert_eq!(opened, 0, "another user can write to the lock");
    daemon.goes_on();
}

/// pins under the daemon's name, made beforehand, in a file system of kernel objects that everybody may write to.
#[test]
fn pins_of_somebody_else_are_neither_used_nor_removed() {
    let Some(_turn) = turn() else { return };
    let pins = Path::new("/sys/fs/bpf");
    let instance = format!("a{:x}", std::process::id() & 0xff_ffff);
    let name = format!("sluice{instance}");
    let own = pins.join(&name);
    if std::fs::create_dir(&own).is_err() {
        return sluice_skip::skip!(Kernel, "no bpffs at {}", pins.display());
    }
    let made = Removed(own.clone());
    chown(&own, Some(ATTACKER), None).expect("root gives it away");
    allow(&own, 0o777);
    once(Who::attacker(), || std::fs::create_dir(own.join("theirs")).expect("made"));
    let home = dir();
    let more = format!("mode = \"active\"\n[node]\ninstance = \"{instance}\"\n");
    let file = home.path().join("sluiced.toml");
    let text = format!(
        "{}run_dir = \"{}\"\nstate_dir = \"{}\"\nname = \"h0\"\n[log]\nformat = \"json\"\n[peer]\nlisten = []\n[http]\nlisten = []\n",
        more,
        home.path().join("run").display(),
        home.path().join("state").display()
    );
    std::fs::write(&file, text).expect("written");
    let log = std::fs::File::create(home.path().join("log")).expect("a file");
    let mut command = std::process::Command::new(crate::programs::binaries().daemon().expect("built"));
    let mut child =
        command.arg("--config").arg(&file).stdout(std::process::Stdio::null()).stderr(log).spawn().expect("runs");
    let said = || std::fs::read_to_string(home.path().join("log")).unwrap_or_default();
    until("it says what it makes of them", || {
        said().contains(&name) || child.try_wait().expect("waited for").is_some()
    });
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM);
    let _ = child.wait();
    let text = said();
    assert!(text.contains(&name) && text.contains("65534"), "nothing names the pins of another user: {text}");
    assert!(own.join("theirs").exists(), "what is not its own was removed");
    drop(made);
}

struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.0.join("theirs"));
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
