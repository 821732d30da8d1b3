//! A host with a root of its own: what runs in it, and the service manager that its maintainer scripts speak to.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use sluice_testbed::fabric::{Fabric, NetNs};
use sluice_units::manager::{Root, Service};
use sluice_units::unit::Unit;

use crate::{Result, step};

/// Where `systemctl` of the root leaves what it is asked.
const DESK: &str = "/run/units-manager";
/// What is enabled is a matter of files, and left to systemd's own; all else it writes down, waits for the answer and ends with
/// it.
const SYSTEMCTL: &str = r#"#!/bin/sh
d=/run/units-manager
case " $* " in
*" is-enabled "* | *" preset "* | *" enable "* | *" disable "* | *" mask "* | *" unmask "*)
    SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl.offline "$@"
    ;;
esac
echo "$@" >$d/.$$ && mv $d/.$$ $d/$$.ask
while [ ! -e $d/$$.done ]; do sleep 0.005; done
status=$(cat $d/$$.done)
rm -f $d/$$.done
exit "$status"
"#;
/// A service is ready within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Host 0 of a fabric, with a root.
pub struct Machine {
    /// Its root.
    pub root: Root,
    fabric: Arc<Fabric>,
    /// The longest time from a stop to the word that it is ready again, of all restarts.
    pub longest_restart: Arc<Mutex<Duration>>,
    over: Arc<AtomicBool>,
    manager: Option<JoinHandle<()>>,
}

impl Machine {
    /// Unpacks a fresh root, and makes it that of the fabric's first host.
    pub fn new(archive: &Path, at: &Path, fabric: &Arc<Fabric>) -> Result<Machine> {
        if at.exists() {
            fs::remove_dir_all(at).map_err(step(at.display()))?;
        }
        fs::create_dir_all(at).map_err(step(at.display()))?;
        let unpacked =
            Command::new("tar").arg("-xpf").arg(archive).arg("-C").arg(at).args(["--numeric-owner"]).status();
        if !unpacked.map_err(step("tar"))?.success() {
            return Err(format!("{} cannot be unpacked", archive.display()));
        }
        let root = Root { dir: at.to_owned(), bare: false };
        for dir in [DESK, "/run/systemd/system"] {
            fs::create_dir_all(root.at(dir)).map_err(step(dir))?;
        }
        let systemctl = root.at("/usr/bin/systemctl");
        fs::rename(&systemctl, root.at("/usr/bin/systemctl.offline")).map_err(step("systemctl"))?;
        fs::write(&systemctl, SYSTEMCTL).map_err(step("systemctl"))?;
        fs::set_permissions(&systemctl, Permissions::from_mode(0o755)).map_err(step("systemctl"))?;
        let inside = root.clone();
        let entered = fabric.hosts[0].ns.run(move || -> nix::Result<()> {
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
            for dir in ["/proc", "/sys", "/dev"] {
                mount(Some(dir), &inside.at(dir), None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?;
            }
            Ok(())
        });
        entered.map_err(step("the host"))?.map_err(step("mounts"))?;
        let mut machine = Machine {
            root,
            fabric: fabric.clone(),
            longest_restart: Arc::default(),
            over: Arc::default(),
            manager: None,
        };
        let mut manager = Manager {
            root: machine.root.clone(),
            fabric: fabric.clone(),
            services: Vec::new(),
            longest_restart: machine.longest_restart.clone(),
        };
        let over = machine.over.clone();
        machine.manager = Some(std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                manager.serve();
                std::thread::sleep(Duration::from_millis(2));
            }
        }));
        Ok(machine)
    }

    fn ns(&self) -> &NetNs {
        &self.fabric.hosts[0].ns
    }

    /// Runs something on the thread that has the host's namespaces, outside of its root.
    pub fn inside<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> Result<R> {
        self.ns().run(task).map_err(|e| e.to_string())
    }

    /// What an operator types; what it says, or why it failed. Printed as it is typed.
    pub fn types(&self, line: &str) -> Result<String> {
        println!("  # {line}");
        self.runs(line)
    }

    /// The same without a word.
    pub fn runs(&self, line: &str) -> Result<String> {
        let (status, said) = self.tries(line)?;
        if status.success() { Ok(said) } else { Err(format!("`{line}` ended with {status}:\n{said}")) }
    }

    /// The same, whatever its status.
    pub fn tries(&self, line: &str) -> Result<(ExitStatus, String)> {
        let mut command = Command::new("chroot");
        command.arg(&self.root.dir).args(["/bin/sh", "-c", &format!("exec 2>&1; {line}")]);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = self.ns().spawn(command, None).map_err(|e| e.to_string())?;
        let done = child.wait_with_output().map_err(step(line))?;
        Ok((done.status, String::from_utf8_lossy(&done.stdout).into_owned()))
    }

    /// Puts a file into the root.
    pub fn put(&self, from: &Path, to: &str) -> Result<()> {
        fs::copy(from, self.root.at(to)).map(drop).map_err(step(from.display()))
    }

    /// What the services said.
    pub fn log(&self) -> String {
        fs::read_to_string(log(&self.root)).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(manager) = self.manager.take() {
            // A manager that panicked has said so.
            drop(manager.join());
        }
        // Where a story ended early, so that the next one finds the kernel as it was. After a purge there is no such program.
        drop(self.tries("test ! -x /usr/bin/sluiced || sluiced cleanup --force"));
    }
}

/// Beside the root, so that it is no trace in it.
fn log(root: &Root) -> PathBuf {
    root.dir.with_extension("log")
}

/// Does what `systemctl` is asked.
struct Manager {
    root: Root,
    fabric: Arc<Fabric>,
    services: Vec<(String, Service)>,
    longest_restart: Arc<Mutex<Duration>>,
}

impl Manager {
    fn serve(&mut self) {
        // A manager takes what its services say.
        for (_, service) in &mut self.services {
            while service.hear(Duration::from_millis(1)).is_some() {}
        }
        let Ok(entries) = fs::read_dir(self.root.at(DESK)) else { return };
        let asked = |path: &PathBuf| path.extension().is_some_and(|end| end == "ask");
        for path in entries.flatten().map(|entry| entry.path()).filter(asked) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            // One that is gone was answered.
            drop(fs::remove_file(&path));
            let status = match self.answer(&text) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("    systemctl {}: {why}", text.trim());
                    1
                }
            };
            let answer = path.with_extension("part");
            let written = fs::write(&answer, status.to_string());
            if let Err(why) = written.and_then(|()| fs::rename(&answer, path.with_extension("done"))) {
                eprintln!("    systemctl {}: {why}", text.trim());
            }
        }
    }

    fn answer(&mut self, text: &str) -> Result<()> {
        let mut words = text.split_whitespace().filter(|word| !word.starts_with('-'));
        let verb = words.next().unwrap_or_default();
        for unit in words {
            let unit = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
            match (verb, self.services.iter().position(|(name, _)| *name == unit)) {
                ("start" | "stop", _) if unit.ends_with(".mount") => self.mount(&unit, verb == "start")?,
                ("start", None) | ("restart", None) => self.start(&unit)?,
                ("stop", Some(at)) => self.stop(at)?,
                ("restart" | "try-restart", Some(at)) => {
                    let began = Instant::now();
                    self.stop(at)?;
                    self.start(&unit)?;
                    let mut longest = self.longest_restart.lock().map_err(step("restarts"))?;
                    *longest = longest.max(began.elapsed());
                }
                ("reload", Some(at)) => {
                    let ns = &self.fabric.hosts[0].ns;
                    let spawn = |command| ns.spawn(command, None).map_err(std::io::Error::other);
                    let status = self.services[at].1.run_all("ExecReload", spawn).map_err(|e| e.to_string())?;
                    if !status.success() {
                        return Err(format!("{unit}: the reload ended with {status}"));
                    }
                }
                ("is-active", None) => return Err("inactive".into()),
                // Enabling is deb-systemd-helper's; the rest asks for nothing that is there.
                _ => {}
            }
        }
        Ok(())
    }

    fn files(&self, unit: &str) -> (PathBuf, Vec<PathBuf>) {
        let dir = self.root.at("/etc/systemd/system").join(format!("{unit}.d"));
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut drop_ins: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        drop_ins.sort();
        (self.root.at("/lib/systemd/system").join(unit), drop_ins)
    }

    fn start(&mut self, unit: &str) -> Result<()> {
        let own = std::env::current_exe().map_err(step("this program"))?;
        let launcher = own.parent().and_then(Path::parent).map(|dir| dir.join("sluice-unit")).ok_or("no launcher")?;
        let files = self.files(unit);
        let service = Service::new(&launcher, files, &self.root, &log(&self.root));
        let mut service = service.map_err(|e| e.to_string())?;
        let ns = &self.fabric.hosts[0].ns;
        let spawn = |command| ns.spawn(command, None).map_err(std::io::Error::other);
        service.start(PATIENCE, spawn).map_err(|e| e.to_string())?;
        self.services.push((unit.to_owned(), service));
        Ok(())
    }

    fn stop(&mut self, at: usize) -> Result<()> {
        let (unit, mut service) = self.services.remove(at);
        let status = service.stop().map_err(|e| e.to_string())?;
        let ns = &self.fabric.hosts[0].ns;
        let spawn = |command| ns.spawn(command, None).map_err(std::io::Error::other);
        service.run_all("ExecStopPost", spawn).map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("{unit} ended with {status}")) }
    }

    fn mount(&self, unit: &str, start: bool) -> Result<()> {
        let read = Unit::read(&self.files(unit).0, &[]).map_err(|e| e.to_string())?;
        let root = self.root.clone();
        let done = self.fabric.hosts[0].ns.run(move || {
            let at = read.all("Mount", "Where").last().map(|at| root.at(at)).ok_or("no Where=")?;
            let there = fs::read_to_string("/proc/thread-self/mountinfo").map_err(|e| e.to_string())?;
            let there = there.contains(&format!(" {} ", at.display()));
            match (start, there) {
                (true, false) => sluice_units::mount_unit(&read, &root.dir, |file, name| root.id(file, name))
                    .map(drop)
                    .map_err(|e| e.to_string()),
                (false, true) => umount2(&at, MntFlags::empty()).map_err(|e| format!("{}: {e}", at.display())),
                _ => Ok(()),
            }
        });
        done.map_err(|e| e.to_string())?
    }
}
