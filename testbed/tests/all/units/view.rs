//! A service in the view of the file system that its unit gives it: systemd's sandbox settings, imitated.
//!
//! A thread with network and mount namespaces of its own builds a bare system on a tmpfs (the host's libraries, the
//! program, its configuration, what tmpfiles.d makes), makes read-only and hides what the unit says, and starts the
//! program there as the unit's user with the unit's capabilities. Nothing of it is on disk: it is gone with the thread,
//! also when the test is killed. A setting that changes the view and is not imitated fails the test.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sluice_testbed::fabric::NetNs;

/// Where the bare system is built before it becomes `/`; only this namespace sees it.
const ROOT: &str = "/mnt";
/// Where systemd listens for what services say.
const NOTIFY: &str = "/run/systemd/notify";
/// The user and group of the service: nobody's number on any machine.
const USER: u32 = 61_234;
/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Settings that change what a service sees and that this file imitates.
const IMITATED: [&str; 16] = [
    "ProtectSystem",
    "ReadWritePaths",
    "StateDirectory",
    "ProtectHome",
    "PrivateTmp",
    "PrivateDevices",
    "ProtectControlGroups",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProcSubset",
    "DynamicUser",
    "User",
    "Group",
    "UMask",
    "LimitRTPRIO",
    "LimitRTTIME",
];
/// Settings that leave the view of the file system alone, or that no mount can imitate.
const BESIDE: [&str; 35] = [
    "Type",
    "ExecStart",
    "ExecReload",
    "ExecStopPost",
    "Restart",
    "RestartSec",
    "RestartPreventExitStatus",
    "WatchdogSec",
    "TimeoutStopSec",
    "Nice",
    "OOMScoreAdjust",
    "CPUQuota",
    "MemoryMax",
    "TasksMax",
    "LimitNOFILE",
    "LimitMEMLOCK",
    "AmbientCapabilities",
    "CapabilityBoundingSet",
    "NoNewPrivileges",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectHostname",
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "RestrictSUIDSGID",
    "RestrictNamespaces",
    "RestrictAddressFamilies",
    "RemoveIPC",
    "KeyringMode",
    "SystemCallArchitectures",
    "SystemCallFilter",
    "SystemCallErrorNumber",
    "PrivateUsers",
    "RuntimeMaxSec",
    "Environment",
];

/// The `[Service]` section of a unit file.
#[derive(Clone, Debug)]
pub struct Unit(BTreeMap<String, Vec<String>>);

impl Unit {
    /// Reads a unit file.
    pub fn read(path: &Path) -> Unit {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (mut section, mut settings) = ("", BTreeMap::<String, Vec<String>>::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
            if line.starts_with('[') {
                section = line;
            } else if section == "[Service]" {
                let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", path.display()));
                assert!(IMITATED.contains(&key) || BESIDE.contains(&key), "{}: {key} is not imitated", path.display());
                settings.entry(key.into()).or_default().push(value.into());
            }
        }
        Unit(settings)
    }

    /// Every value of a setting, in order.
    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    fn words(&self, key: &str) -> impl Iterator<Item = &str> {
        self.all(key).iter().flat_map(|value| value.split_whitespace())
    }

    /// The limits on real-time threads, as prlimit takes them.
    fn limits(&self) -> Vec<String> {
        let time = |text: &String| {
            let (soft, hard) = text.split_once(':').expect("a soft and a hard limit");
            let soft: u64 = soft.strip_suffix("ms").and_then(|ms| ms.parse().ok()).expect("milliseconds");
            assert_eq!(hard, "infinity", "at a hard limit the kernel kills the process");
            format!("--rttime={}:unlimited", soft * 1_000)
        };
        let mut limits: Vec<String> = self.all("LimitRTTIME").iter().map(time).collect();
        if may_raise_limits() {
            limits.extend(self.all("LimitRTPRIO").iter().map(|priority| format!("--rtprio={priority}")));
        }
        limits
    }

    fn yes(&self, key: &str) -> bool {
        self.all(key).last().is_some_and(|value| value == "yes")
    }
}

/// What is installed beside the unit.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The program; it is found where `ExecStart` says.
    pub program: PathBuf,
    /// The configuration file, found where `--config` says.
    pub config: PathBuf,
    /// Lines of tmpfiles.d.
    pub tmpfiles: String,
}

/// A running imitation.
pub struct View {
    ns: NetNs,
    unit: Unit,
    /// Where the service manager listens.
    pub manager: UnixDatagram,
}

impl View {
    /// Builds the view of a unit.
    pub fn build(unit: &Unit, installed: &Installed) -> View {
        let ns = NetNs::create("unit").expect("namespaces");
        let (inside, installed) = (unit.clone(), installed.clone());
        let manager = ns.run(move || enter(&inside, &installed)).expect("the view is built");
        manager.set_read_timeout(Some(PATIENCE)).expect("set");
        View { ns, unit: unit.clone(), manager }
    }

    /// Runs `task` on the thread that has this view, outside the sandbox's user and capabilities.
    pub fn run<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> R {
        self.ns.run(task).expect("no panic in the view")
    }

    /// Writes a file of settings where the daemon keeps those of its own, readable for it.
    pub fn keep(&self, name: &'static str, text: &'static str) {
        self.run(move || {
            let dir = Path::new("/var/lib/sluice/sluiced.d");
            make(dir, 0o755);
            fs::write(dir.join(name), text).expect("written");
        });
    }

    /// Starts a command line of the unit as systemd would; what it says goes to `log`.
    pub fn start(&self, line: &str, log: &Path) -> Child {
        // The log is outside of the view.
        let out = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = Command::new("/usr/bin/prlimit");
        command.args(self.unit.limits()).arg("/usr/bin/setpriv");
        // Where nobody may raise a limit, a capability stands for the one that the unit raises.
        let stands_for = if may_raise_limits() { "" } else { ",+sys_nice" };
        let capabilities = |key: &str| {
            let words =
                self.unit.words(key).map(|word| format!(",+{}", word.trim_start_matches("CAP_").to_lowercase()));
            format!("-all{}{stands_for}", words.collect::<String>())
        };
        let (ambient, bounding) = (capabilities("AmbientCapabilities"), capabilities("CapabilityBoundingSet"));
        command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups", "--no-new-privs"]);
        command.args(["--inh-caps", &ambient, "--ambient-caps", &ambient, "--bounding-set", &bounding]);
        // A change of user forgets what the keeper of the namespace has set.
        command.args(["--pdeathsig", "KILL", "--"]).args(line.split_whitespace());
        command.env_clear().env("NOTIFY_SOCKET", NOTIFY).stdin(Stdio::null());
        command.stdout(out.try_clone().expect("a log")).stderr(out);
        self.ns.spawn(command, None).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// Status and body of a request over a Unix socket in this view.
    pub fn ask(&self, socket: &'static str, request: String) -> (u16, String) {
        self.run(move || exchange(UnixStream::connect(socket).expect("the socket answers"), &request))
    }

    /// Status and body of a request over TCP on loopback in this view.
    pub fn ask_tcp(&self, port: u16, request: String) -> (u16, String) {
        self.run(move || exchange(TcpStream::connect(("127.0.0.1", port)).expect("the port answers"), &request))
    }
}

fn exchange(mut stream: impl std::io::Read + std::io::Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
}

/// Gives this thread the view; returns the socket of the service manager, which stands outside of the sandbox.
fn enter(unit: &Unit, installed: &Installed) -> UnixDatagram {
    loopback_up();
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    set_flags("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    install(unit, installed);
    nix::unistd::chroot(ROOT).expect("the new root");
    nix::unistd::chdir("/").expect("the new root"); // The thread's own: its file system attributes are unshared.
    let manager = UnixDatagram::bind(NOTIFY).expect("a socket of the service manager");
    fs::set_permissions(NOTIFY, Permissions::from_mode(0o777)).expect("open to all");
    sandbox(unit);
    manager
}

/// The bare system of a host on which the package was installed.
fn install(unit: &Unit, installed: &Installed) {
    // Opened before anything hides it.
    let program = File::open(&installed.program).expect("the program is built");
    let config = fs::read(&installed.config).expect("the configuration is shipped");
    mount(Some("tmpfs"), ROOT, Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).expect("a tmpfs");
    for dir in
        ["etc", "usr/bin", "var/lib", "var/tmp", "run/systemd", "run/user", "tmp", "home", "root", "proc", "sys", "dev"]
    {
        fs::create_dir_all(inside(dir)).expect("made");
    }
    for name in ["bin", "sbin", "lib", "lib32", "lib64"] {
        let at = Path::new("/").join(name);
        match fs::read_link(&at) {
            Ok(target) => symlink(target, inside(name)).expect("linked"),
            Err(_) if at.is_dir() => bind(&at, &inside(name)),
            Err(_) => {}
        }
    }
    for entry in fs::read_dir("/usr").expect("a system").flatten().filter(|entry| entry.file_name() != "bin") {
        if entry.path().is_dir() {
            bind(&entry.path(), &inside(Path::new("usr").join(entry.file_name())));
        }
    }
    for dir in ["proc", "sys", "dev"] {
        bind(&Path::new("/").join(dir), &inside(dir));
    }
    let start: Vec<&str> = unit.words("ExecStart").collect();
    copy(program, &inside(start[0]), 0o755);
    for tool in ["setpriv", "prlimit"] {
        let at = Path::new("/usr/bin").join(tool);
        copy(File::open(&at).expect("util-linux is installed"), &inside(&at), 0o755);
    }
    let at = start.iter().position(|word| *word == "--config").expect("the unit names the configuration");
    let file = inside(start[at + 1]);
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    fs::write(&file, config).expect("written");
    for line in installed.tmpfiles.lines().filter(|line| line.starts_with("d /run/")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mode = u32::from_str_radix(words[2], 8).expect("a mode");
        make(&inside(words[1]), mode);
    }
}

/// What systemd does to the view before it starts the program.
fn sandbox(unit: &Unit) {
    assert_eq!(unit.all("ProtectSystem"), ["strict"], "no other form is imitated");
    let mut writable: Vec<PathBuf> =
        unit.words("StateDirectory").map(|name| Path::new("/var/lib").join(name)).collect();
    for dir in &writable {
        make(dir, 0o755);
    }
    for path in unit.words("ReadWritePaths") {
        let (optional, path) = path.strip_prefix('-').map_or((false, path), |path| (true, path));
        if !optional || Path::new(path).exists() {
            writable.push(path.into());
        }
    }
    for path in &writable {
        assert!(path.exists(), "{} is not there: systemd would refuse with 226/NAMESPACE", path.display());
        bind(path, path);
    }
    if unit.yes("PrivateTmp") {
        for dir in ["/tmp", "/var/tmp"] {
            mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some("mode=1777")).expect("a private tmp");
            writable.push(dir.into());
        }
    }
    if unit.yes("ProtectHome") {
        for dir in ["/home", "/root", "/run/user"] {
            mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::MS_RDONLY, Some("mode=0000")).expect("hidden");
        }
    }
    if unit.yes("PrivateDevices") {
        let nodes =
            ["null", "zero", "full", "random", "urandom", "tty"].map(|name| (name, File::open(format!("/dev/{name}"))));
        mount(Some("tmpfs"), "/dev", Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).expect("devices");
        for (name, node) in nodes {
            if let Ok(node) = node {
                copy(node, &Path::new("/dev").join(name), 0o666);
            }
        }
    }
    let (below_api, below_writable) = (
        |at: &Path| ["/proc", "/sys", "/dev"].iter().any(|api| at.starts_with(api)),
        |at: &Path| writable.iter().any(|path| at.starts_with(path)),
    );
    for at in mounts() {
        let tunables = at.starts_with("/sys") && unit.yes("ProtectKernelTunables");
        let groups = at.starts_with("/sys/fs/cgroup") && unit.yes("ProtectControlGroups");
        if tunables || groups || !(below_api(&at) || below_writable(&at)) {
            set_flags(&at, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY);
        }
    }
    if unit.all("ProtectProc") == ["invisible"] && unit.all("ProcSubset") == ["pid"] {
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), Some("hidepid=invisible,subset=pid"))
            .expect("/proc");
    } else {
        assert!(
            unit.all("ProtectProc").is_empty() && unit.all("ProcSubset").is_empty(),
            "only both together are imitated"
        );
    }
}

/// Every mount of this view, parents first.
fn mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo").expect("a list of mounts");
    text.lines().filter_map(|line| Some(PathBuf::from(line.split_whitespace().nth(4)?))).collect()
}

fn inside(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

/// A directory of the service's user; one that exists is left as it is.
fn make(path: &Path, mode: u32) {
    if !path.exists() {
        fs::create_dir_all(path).expect("made");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        chown(path, Some(USER), Some(USER)).expect("owned");
    }
}

/// Shows the open file at another place as well; a device stays one.
fn copy(file: File, to: &Path, mode: u32) {
    use std::os::fd::AsRawFd as _;
    fs::create_dir_all(to.parent().expect("a directory")).expect("made");
    File::create(to).expect("made").set_permissions(Permissions::from_mode(mode)).expect("a mode");
    bind(Path::new(&format!("/proc/thread-self/fd/{}", file.as_raw_fd())), to);
}

fn bind(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("made");
    }
    let what = format!("{} at {}", from.display(), to.display());
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
}

fn set_flags(path: impl AsRef<Path>, flags: MsFlags) {
    let path = path.as_ref();
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// CAP_SYS_RESOURCE, which root of some machines lacks.
fn may_raise_limits() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").expect("/proc");
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("capabilities");
    u64::from_str_radix(set.trim(), 16).expect("a set") & (1 << 24) != 0
}

fn loopback_up() {
    let done = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("iproute2 is installed");
    assert!(done.success(), "the loopback interface does not come up");
}
