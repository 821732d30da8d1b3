//! Brain and helper as processes: what each is by `/proc`, what is refused, hostile words to the helper, and ends of both at any
//! time. Needs root; flows under a split daemon are the testbed's business (`testbed/tests/all/privileges.rs`).

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};
use serde_json::Value;
use sluice_skip::skip;
use sluiced::privilege::line::{DESK, End};
use sluiced::privilege::message::{BYTES, Changed, Numbers, PageName, Reply, Request, Sysctl};
use sluiced::privilege::rows;

const PATIENCE: Duration = Duration::from_secs(30);
/// BPF, PERFMON, NET_ADMIN, SYS_ADMIN and DAC_READ_SEARCH; and SYS_PTRACE.
const HELPERS: u64 = 1 << 39 | 1 << 38 | 1 << 12 | 1 << 21 | 1 << 2;
const PTRACE: u64 = 1 << 19;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whom the brain runs as here.
fn user() -> User {
    let find = |name| User::from_name(name).expect("users are known");
    find("sluice").or_else(|| find("nobody")).expect("nobody is there")
}

/// A directory that the brain may use, with a configuration.
fn place(extra: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("set");
    for name in ["run", "state"] {
        std::fs::create_dir(dir.path().join(name)).expect("made");
        let user = user();
        chown(&dir.path().join(name), Some(user.uid), Some(user.gid)).expect("given");
    }
    let file = dir.path().join("sluiced.toml");
    let at = |name| dir.path().join(name).display().to_string();
    let text = format!(
        "{extra}\n[node]\nname = \"h0\"\ninstance = \"pt{:06}\"\nrun_dir = \"{}\"\nstate_dir = \"{}\"\n[privilege]\nsplit = true\n[http]\nlisten = []\n[peer]\nlisten = []\n",
        std::process::id() % 1_000_000,
        at("run"),
        at("state")
    );
    std::fs::write(&file, text).expect("written");
    (dir, file)
}

fn program(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
    command.arg("--config").arg(config).env_remove("SLUICE_LOG").env_remove("NOTIFY_SOCKET");
    command
}

fn number(status: &Value, field: &str) -> u64 {
    let text = status[field].as_str().unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{field}: {text:?} in {status}"))
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}: not in 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes whose command line names this file.
fn processes_of(config: &Path) -> Vec<u32> {
    let of = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let name = config.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| String::from_utf8_lossy(&of(*pid)).contains(&name)).collect()
}

#[test]
fn the_brain_has_nothing_and_the_helper_what_the_page_says() {
    if !is_root() {
        return skip!(Privilege, "needs root to give something up");
    }
    for (extra, capabilities) in [("", HELPERS | PTRACE), ("[capture]\nenviron = false", HELPERS)] {
        let (_dir, config) = place(extra);
        let output = program(&config).arg("privileges").output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
        let uid = user().uid.as_raw().to_string();
        let brain = &seen["brain"];
        let uids: Vec<&str> = brain["Uid"].as_str().unwrap_or_default().split_whitespace().collect();
        assert_eq!(uids, [uid.as_str(); 4], "{seen:#}");
        for field in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(number(brain, field), 0, "{field} of {seen:#}");
        }
        let helper = &seen["helper"];
        for field in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(number(helper, field), capabilities, "{field} of {seen:#}");
        }
        assert_eq!(helper["Uid"].as_str().map(|uids| uids.starts_with("0\t0\t0\t0")), Some(true), "{seen:#}");
        for process in [brain, helper] {
            assert_eq!((&process["NoNewPrivs"], &process["Seccomp"]), (&"1".into(), &"2".into()), "{seen:#}");
        }
        let tried = seen["tried_in_the_brain"].as_object().expect("tried");
        assert!(tried.len() >= 12, "{seen:#}");
        for (call, result) in tried {
            assert!(result.as_str().is_some_and(|text| text.contains("EPERM")), "{call}: {result}");
        }
        assert!(output.status.success() && seen["all_refused"] == true, "{seen:#}");
        // What was refused is named, once.
        for name in ["bpf", "setns", "ptrace", "execve", "unshare", "capset"] {
            let line = format!("({name}) is refused in the brain");
            assert_eq!(errors.matches(&line).count(), 1, "{name}: {errors}");
        }
        // Whoever is left is nobody: the helper ends with the brain.
        wait_until("the helper ends", || processes_of(&config).is_empty());
    }
}

/// The helper alone, with this test in the brain's place.
struct Helper {
    child: Child,
    deciding: End,
    looking: End,
    config: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Helper {
    fn start() -> Helper {
        let (dir, config) = place("");
        let ([deciding, far], [looking, other]) = (End::pair().expect("a line"), End::pair().expect("a line"));
        let mut numbers = Vec::new();
        for fd in [&far, &other].iter().flat_map(|end| end.descriptors()) {
            // Other tests that start something meanwhile lend it these for a moment too; their ends do not matter here.
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited");
            numbers.push(fd.as_raw_fd().to_string());
        }
        let mut command = program(&config);
        command.arg("helper").arg("--lines").arg(numbers.join(",")).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        drop((far, other));
        Helper { child, deciding, looking, config, _dir: dir }
    }

    /// Says these bytes and reads the answer.
    fn say(end: &End, bytes: &[u8; BYTES]) -> Reply {
        end.send(bytes, &[]).expect("said");
        let answer = end.receive(true).expect("received").expect("it lives");
        Reply::decode(&answer.bytes).expect("an answer").0
    }

    fn ask(end: &End, request: &Request) -> Reply {
        Helper::say(end, &request.encode(1))
    }

    /// Ends it as a brain that is gone does; what it said.
    fn end(mut self) -> (bool, String) {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let [deciding, _] = End::pair().expect("a line");
        let [looking, _] = End::pair().expect("a line");
        drop((std::mem::replace(&mut self.deciding, deciding), std::mem::replace(&mut self.looking, looking)));
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("text");
        (self.child.wait().expect("it ends").success(), text)
    }
}

#[test]
fn whatever_the_brain_says_the_helper_refuses_counts_and_goes_on() {
    if !is_root() {
        return skip!(Privilege, "needs root to have something to keep");
    }
    let helper = Helper::start();
    let (deciding, looking) = (&helper.deciding, &helper.looking);
    for end in [deciding, looking] {
        assert_eq!(Helper::ask(end, &Request::Hello), Reply::Done);
    }
    let refused = |errno| Reply::Refused(errno);
    // No message, on either line: of nonsense, of another version, of another kind, an answer.
    let mut nonsense = [[0; BYTES], [0xff; BYTES], Reply::Done.encode(1), Request::Hello.encode(1)];
    nonsense[3][0] = 9;
    for bytes in &nonsense {
        for end in [deciding, looking] {
            assert_eq!(Helper::say(end, bytes), refused(libc::EPROTO));
        }
    }
    // Descriptors that come with a word are nobody's.
    let file = std::fs::File::open("/dev/null").expect("there");
    let fds = [std::os::fd::AsFd::as_fd(&file); 3];
    deciding.send(&Request::Hello.encode(2), &fds).expect("said");
    let answer = deciding.receive(true).expect("received").expect("it lives");
    assert_eq!(Reply::decode(&answer.bytes), Ok((Reply::Done, 2)));
    // The other line's business.
    for request in [Request::Reclaim, Request::Close, Request::Capture { pid: 0, count: 1 }] {
        assert_eq!(Helper::ask(looking, &request), refused(libc::EPERM));
    }
    assert_eq!(Helper::ask(deciding, &Request::SetSysctls), refused(libc::EPERM));
    // Nothing is open; counts that do not fit; processes that are none, or nobody's job in a namespace of theirs.
    assert_eq!(Helper::ask(deciding, &Request::Reclaim), refused(libc::EBADF));
    for count in [0, 4097, u32::MAX] {
        assert_eq!(Helper::ask(deciding, &Request::Capture { pid: 0, count }), refused(libc::EINVAL));
    }
    assert_eq!(Helper::ask(looking, &Request::Diag { pid: u32::MAX }), refused(libc::ESRCH));
    let mut stranger = Command::new("unshare");
    stranger.args(["--net", "sleep", "60"]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut stranger = stranger.spawn().expect("unshare (util-linux)");
    let inode = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    wait_until("a namespace of its own", || inode(stranger.id()) != inode(std::process::id()));
    let sleeps =
        |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "sleep");
    wait_until("it has become sleep", || sleeps(stranger.id()));
    assert_eq!(Helper::ask(looking, &Request::Diag { pid: stranger.id() }), refused(libc::EPERM));
    assert_eq!(Helper::ask(deciding, &Request::Capture { pid: stranger.id(), count: 1 }), refused(libc::EPERM));
    // One whose environment names a job may be looked into, and nothing else of its environment is told.
    let mut job = Command::new("unshare");
    job.args(["--net", "sleep", "60"]).env("SLUICE_JOB_ID", "j").env("SECRET", "no");
    let mut job = job.spawn().expect("unshare");
    wait_until("a namespace of its own", || inode(job.id()) != inode(std::process::id()));
    // A process that is becoming another program has no environment for a moment.
    wait_until("its environment", || {
        sleeps(job.id()) && std::fs::read(format!("/proc/{}/environ", job.id())).is_ok_and(|text| !text.is_empty())
    });
    assert_eq!(Helper::ask(looking, &Request::Diag { pid: job.id() }), Reply::Descriptor);
    let Reply::Written(length) = Helper::ask(looking, &Request::Environ { pid: job.id() }) else {
        panic!("it may be read");
    };
    assert_eq!(looking.take(length as usize).expect("read"), b"SLUICE_JOB_ID=j");
    for child in [&mut stranger, &mut job] {
        child.kill().expect("it lives");
        child.wait().expect("ended");
    }
    // A page is a name in one directory, and of a page's kind; links are not followed.
    let page = |name: &[u8]| Helper::ask(deciding, &Request::Page(PageName::new(name).expect("a name")));
    let progress = helper.config.with_file_name("run").join("progress");
    std::fs::create_dir(&progress).expect("made");
    assert_eq!(page(b"none.sp1"), refused(libc::ENOENT));
    std::fs::write(progress.join("short.sp1"), "x").expect("written");
    std::os::unix::fs::symlink("/etc/shadow", progress.join("link.sp1")).expect("linked");
    nix::unistd::mkfifo(&progress.join("fifo.sp1"), nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("made");
    assert_eq!((page(b"short.sp1"), page(b"fifo.sp1")), (refused(libc::EBADMSG), refused(libc::EBADMSG)));
    assert_eq!(page(b"link.sp1"), refused(libc::ELOOP));
    std::fs::write(progress.join("page.sp1"), [0; 4096]).expect("written");
    assert_eq!(page(b"page.sp1"), Reply::Descriptor);
    // A sysctl that was not set here becomes nothing that no kernel has.
    let numbers = |text| Numbers::parse(text).expect("numbers");
    for (which, old) in
        [(Sysctl::TsoRttLog, "900"), (Sysctl::TsoRttLog, "1 2"), (Sysctl::Wmem, "1 1 1"), (Sysctl::Wmem, "4096 1")]
    {
        let changed = Changed { which, old: numbers(old), new: numbers("7") };
        assert_eq!(Helper::ask(looking, &Request::RestoreSysctl(changed)), refused(libc::EINVAL));
    }
    // Bounds that are none.
    for (floor, ceiling) in [(0, 1 << 30), (1 << 30, 1 << 20), (0, 0)] {
        let open = Request::Open { floor, ceiling, longest: u64::MAX, loss_guard: 50_000 };
        assert_eq!(Helper::ask(deciding, &open), refused(libc::EINVAL));
    }
    // It is there still, is no larger than before, and has said what it refused.
    for end in [deciding, looking] {
        assert_eq!(Helper::ask(end, &Request::Hello), Reply::Done);
    }
    let (success, said) = helper.end();
    assert!(success, "{said}");
    assert!(said.contains("helper-refused") && said.contains("\"count\":16"), "counted: {said}");
    assert!(!said.contains("is refused in the helper") && !said.contains("panic"), "{said}");
}

/// Any bytes as a message, in any order, on both lines.
#[test]
fn a_thousand_words_of_nonsense_leave_the_helper_as_it_was() {
    if !is_root() {
        return skip!(Privilege, "needs root to have something to keep");
    }
    let helper = Helper::start();
    assert_eq!(Helper::ask(&helper.deciding, &Request::Hello), Reply::Done);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for turn in 0..1000 {
        let mut bytes = [0; BYTES];
        // Half of them are messages but for a few bytes.
        if turn % 2 == 0 {
            bytes = Request::Capture { pid: 0, count: (random() % 5000) as u32 }.encode(turn);
            bytes[1] = (random() % 16) as u8;
            if bytes[1] == 7 || bytes[1] == 2 {
                continue; // Those would change this machine.
            }
        } else {
            bytes.iter_mut().for_each(|byte| *byte = random() as u8);
        }
        let end = if random() % 2 == 0 { &helper.deciding } else { &helper.looking };
        end.put(&vec![random() as u8; (random() % DESK as u64) as usize]).expect("a desk");
        assert!(!matches!(Helper::say(end, &bytes), Reply::Opened(_) | Reply::Changed { .. }));
    }
    let row = rows::wanted(&[0; rows::WANTED_BYTES]);
    assert_eq!(row.len(), 1);
    let (success, said) = helper.end();
    assert!(success && !said.contains("panic"), "{said}");
}

/// What of this machine could be left: processes of the two, and pins.
fn left(config: &Path) -> (Vec<u32>, bool) {
    let pins = format!("/sys/fs/bpf/sluicept{:06}", std::process::id() % 1_000_000);
    (processes_of(config), Path::new(&pins).exists())
}

/// Promises: P-1
#[test]
fn whenever_the_start_is_cut_short_nothing_is_left() {
    if !is_root() {
        return skip!(Privilege, "needs root to split");
    }
    let mut lived = 0;
    for micros in (0..80_000).step_by(4_000) {
        let (_dir, config) = place("");
        let mut brain = program(&config).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(micros));
        lived += usize::from(processes_of(&config).len() > 1);
        brain.kill().expect("it lives");
        brain.wait().expect("ended");
        wait_until("nothing is left", || left(&config) == (Vec::new(), false));
    }
    assert!(lived > 0, "no brain had a helper when it was killed");
}

#[test]
fn either_ends_with_the_other() {
    if !is_root() {
        return skip!(Privilege, "needs root to split");
    }
    for victim in ["brain", "helper", "both"] {
        let (_dir, config) = place("");
        let mut brain = program(&config).stderr(Stdio::piped()).spawn().expect("it starts");
        let socket = config.with_file_name("run").join("sluiced.sock");
        wait_until("it runs", || socket.exists());
        let helper: Vec<u32> = processes_of(&config).into_iter().filter(|pid| *pid != brain.id()).collect();
        let [helper] = helper[..] else { panic!("{helper:?}") };
        if victim != "helper" {
            brain.kill().expect("it lives");
        }
        if victim != "brain" {
            kill(Pid::from_raw(helper as i32), Signal::SIGKILL).expect("it lives");
        }
        let status = brain.wait().expect("it ends");
        if victim == "helper" {
            let mut said = String::new();
            brain.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            assert_eq!(status.code(), Some(5), "{said}");
            assert!(said.contains("helper-ended"), "{said}");
            assert!(!said.contains("is refused in the brain"), "{said}");
        }
        wait_until("nothing is left", || left(&config) == (Vec::new(), false));
    }
}
