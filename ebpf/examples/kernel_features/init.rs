//! The first process of a machine that has nothing but this program, the daemon's, `sluice` and `ip`: mounts, modules, the
//! loopback interface; then every part of the matrix in a process of its own, so that one that fails takes none with it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use serde_json::Value;

use super::{holder, row};

/// What is mounted where.
const MOUNTS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("bpf", "/sys/fs/bpf"),
    ("cgroup2", "/sys/fs/cgroup"),
];
/// Modules in the order in which they are loaded, a path a line.
const MODULES: &str = "/modules/order";
/// On the kernel's command line: only whether a machine comes up is asked.
const TRIAL: &str = "sluice_trial";
/// One part of the matrix takes no longer, translated.
const PATIENCE: Duration = Duration::from_secs(150);

/// Never returns: the machine ends with it.
pub fn run() -> ! {
    for (kind, at) in MOUNTS {
        let mounted = fs::create_dir_all(at).map_err(|e| e.to_string()).and_then(|()| {
            mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>).map_err(|e| e.to_string())
        });
        if let Err(why) = mounted {
            row(&format!("machine: mounting {at}"), &format!("no: {why}"));
        }
    }
    // The first line: a machine has come up.
    row("machine: up", "yes");
    if fs::read_to_string("/proc/cmdline").unwrap_or_default().split_whitespace().any(|word| word == TRIAL) {
        end();
    }
    for module in fs::read_to_string(MODULES).unwrap_or_default().lines() {
        if let Err(why) = load(Path::new(module)) {
            row(&format!("machine: module {module}"), &format!("no: {why}"));
        }
    }
    let _ = fs::create_dir_all("/run/sluice/progress");
    within("ip", &["link", "set", "lo", "up"], PATIENCE);
    let own = "/proc/self/exe";
    within(own, &["kernel"], PATIENCE);
    for tier in holder::TIERS {
        if within(own, &["tier", tier.name()], PATIENCE).is_none() {
            row(&super::of(tier, "the whole of it"), "no: it did not end well");
        }
    }
    within(own, &["found"], PATIENCE);
    within(own, &["daemon"], PATIENCE);
    forecasts();
    row("machine: done", "yes");
    end()
}

/// Ends the machine: whoever runs it takes its restart for its end.
fn end() -> ! {
    // SAFETY: both take no pointer; the second does not return where it works.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_AUTOBOOT);
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn load(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let none: &CStr = c"";
    // SAFETY: finit_module reads a string that lives until it returns; the descriptor is open.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), none.as_ptr(), 0) };
    let error = std::io::Error::last_os_error();
    if result == 0 || error.raw_os_error() == Some(libc::EEXIST) { Ok(()) } else { Err(error.to_string()) }
}

/// Runs a program; what it printed, if it ended well within this time. What it says goes to the console.
fn within(program: &str, args: &[&str], time: Duration) -> Option<()> {
    let child = Command::new(program).args(args).stdin(Stdio::null()).spawn();
    let mut child = child.map_err(|why| row(&format!("machine: {program}"), &format!("no: {why}"))).ok()?;
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success().then_some(()),
            Ok(None) if began.elapsed() < time => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// What those say beforehand who tell an operator what works.
pub fn forecasts() {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_str::<Value>(&text).map_err(|e| format!("{program} {}: {e}: {text} {why}", args.join(" ")))
    };
    match said("sluice", &["doctor", "--json"]) {
        Ok(doctor) => row("forecast of `sluice doctor`", &of_doctor(&doctor)),
        Err(why) => row("forecast of `sluice doctor`", &format!("none: {why}")),
    }
    match said("sluiced", &["probe"]) {
        Ok(probe) => {
            row("forecast of `sluiced probe`", probe["backend"].as_str().unwrap_or("none told"));
            for backend in probe["backends"].as_array().into_iter().flatten() {
                let works = if backend["works"].as_bool() == Some(true) { "yes" } else { "no" };
                row(&format!("forecast of `sluiced probe`, {}", backend["name"].as_str().unwrap_or("?")), works);
            }
        }
        Err(why) => row("forecast of `sluiced probe`", &format!("none: {why}")),
    }
}

/// The tier that the doctor says works.
fn of_doctor(doctor: &Value) -> String {
    let mut checks = doctor["checks"].as_array().into_iter().flatten();
    let found = checks.rfind(|check| check["id"] == "datapath" || check["id"] == "cgroup");
    let Some(check) = found else { return "nothing of the data path".into() };
    let (state, text) = (check["state"].as_str().unwrap_or_default(), check["found"].as_str().unwrap_or_default());
    match (check["id"].as_str(), state) {
        (Some("datapath"), "ok") => "struct_ops".into(),
        (Some("datapath"), "warn") => {
            let words = text.strip_prefix("only ").and_then(|rest| rest.split_once(" works here"));
            words.map_or_else(|| format!("not understood: {text}"), |(tier, _)| tier.to_owned())
        }
        (Some("datapath"), "fail") => "none".into(),
        _ => format!("not tried: {text}"),
    }
}
