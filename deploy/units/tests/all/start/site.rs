//! Hosts of a fabric on which the packages are installed: a root each, the shipped configuration, the units' services.

use std::io::{Error, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use sluice_schedule::{Bytes, Rate};
use sluice_testbed::fabric::layout::MANAGEMENT_NETWORK;
use sluice_testbed::fabric::{Fabric, FabricSpec, NetNs};
use sluice_testbed::run::Binaries;
use sluice_testbed::run::daemons::topology_json;
use sluice_units::manager::{Root, Service};
use sluice_units::unit::Unit;

use super::PATIENCE;
use crate::shipped;

const LAUNCHER: &str = env!("CARGO_BIN_EXE_sluice-unit");
/// What hosts and switch must agree on, and that no time service disciplines this machine's clock.
const COMMON: &str = "cluster = \"units\"\n";

/// A host with `sluiced`.
pub struct Host {
    /// Its root.
    pub root: Root,
    /// `sluiced.service`.
    pub service: Service,
    /// Its place in the fabric.
    at: usize,
    instance: String,
    fabric: Rc<Fabric>,
}

/// Everything that runs; dropping it ends it.
pub struct Site {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// `sluice-switch`, where there is one.
    pub switch: Option<Service>,
    /// The network.
    pub fabric: Rc<Fabric>,
    /// `sluice-job` and the daemons.
    pub programs: Binaries,
    /// Roots, job files, logs.
    pub dir: tempfile::TempDir,
}

impl Site {
    /// Two hosts in `active`, and `sluice-switch` for the switch between them. `split`: do the daemons give their privileges to
    /// helpers?
    pub fn start(split: bool) -> Site {
        let mut site = Site::build();
        site.switch = Some(site.start_switch());
        for at in 0..2 {
            let host = Host::install(&site, at, &[]);
            let text = site.active(&host);
            host.write("etc/sluice/sluiced.d/10-test.toml", &text);
            host.write("etc/sluice/sluiced.d/15-split.toml", &format!("[privilege]\nsplit = {split}\n"));
            site.hosts.push(host);
        }
        site.hosts.iter_mut().for_each(Host::start);
        site
    }

    /// The switch without hosts.
    pub fn only_switch() -> Site {
        let mut site = Site::build();
        site.switch = Some(site.start_switch());
        site
    }

    /// One host that looks only, with a short watchdog.
    pub fn quiet() -> Site {
        let mut site = Site::build();
        let short = site.dir.path().join("watchdog.conf");
        std::fs::write(&short, "[Service]\nWatchdogSec=2s\n").expect("written");
        let mut host = Host::install(&site, 0, &[short]);
        let text = format!("[node]\ninstance = {:?}\n{}", host.instance, "[enforce]\nbackend = \"none\"\n");
        host.write("etc/sluice/sluiced.d/10-test.toml", &text);
        host.start();
        site.hosts.push(host);
        site
    }

    fn build() -> Site {
        let programs = Binaries::find().and_then(|programs| programs.daemon().and(programs.switch()).map(|_| programs));
        let programs = programs.expect("`cargo build --bins` builds them");
        let fabric = Fabric::build(FabricSpec::star(2, Rate::mbps(200), Bytes(250_000))).expect("a fabric");
        let dir = tempfile::tempdir().expect("a directory");
        Site { hosts: Vec::new(), switch: None, fabric: Rc::new(fabric), programs, dir }
    }

    /// What makes the shipped configuration one of this cluster, on one kernel with others.
    fn active(&self, host: &Host) -> String {
        let (node, fabric) = (&self.fabric.hosts[host.at], &self.fabric);
        let device = fabric.layout.links.iter().find(|link| link.from.node == host.at).expect("a card");
        let cgroup = fabric.cgroups.jobs(host.at).path().display().to_string();
        format!(
            "unauthenticated = true\nmode = \"active\"\ntopology = \"/etc/sluice/topology.json\"\n\
             [node]\nname = {:?}\n{COMMON}instance = {:?}\n[clock]\nrequire_sync = false\n[capture]\ncgroups = [{cgroup:?}]\n\
             interfaces = [{:?}]\n[peer]\nlisten = [\"{}:9604\"]\npeers = [\"{MANAGEMENT_NETWORK}\"]\n\
             networks = [\"{MANAGEMENT_NETWORK}\"]\n[[links]]\nname = {:?}\ngbps = 0.2\n\
             [[switches]]\nname = \"s0\"\naddress = \"{}:9604\"\n",
            node.name,
            host.instance,
            device.from.device,
            node.management,
            device.from.device,
            fabric.management_address,
        )
    }

    fn start_switch(&self) -> Service {
        let root = self.root("switch", &self.programs.switch().expect("built"));
        put(&root, "etc/sluice/topology.json", &topology_json(&self.fabric.spec, &self.fabric.layout, false));
        let at = self.fabric.management_address;
        let text = format!(
            "version = 1\nunauthenticated = true\n{COMMON}peers = [\"{MANAGEMENT_NETWORK}\"]\ntopology = \"/etc/sluice/topology.json\"\n\
             [clock]\nrequire_sync = false\n[listen]\ngrpc = \"{at}:9604\"\nhttp = \"127.0.0.1:9606\"\n\
             [[switches]]\nname = \"s0\"\nfrom_topology = true\n"
        );
        put(&root, "etc/sluice/sluice-switch.toml", &text);
        let log = self.dir.path().join("switch.log");
        let unit = shipped("systemd/sluice-switch.service");
        let mut service = Service::new(Path::new(LAUNCHER), (unit, Vec::new()), &root, &log).expect("a service");
        let ns = &self.fabric.management;
        service.start(PATIENCE, |command| spawn(ns, command, None)).unwrap_or_else(|e| panic!("{e}"));
        service
    }

    fn root(&self, name: &str, program: &Path) -> Root {
        let dir = self.dir.path().join(name);
        let tmpfiles = std::fs::read_to_string(shipped("systemd/sluice.tmpfiles.conf")).expect("shipped");
        Root::bare(&dir, &[program, Path::new("/bin/kill")], &tmpfiles).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Ends all services in order, and undoes what they left in the kernel, of which nothing may be left.
    pub fn end(mut self) {
        for host in &mut self.hosts {
            if host.service.runs() {
                host.stop();
                host.after();
            }
            host.clean(&self.programs);
        }
        if let Some(mut switch) = self.switch.take() {
            assert!(switch.stop().unwrap_or_else(|e| panic!("{e}")).success());
        }
    }
}

impl Host {
    /// A host as it is after the installation, with the pages on a file system of their own.
    fn install(site: &Site, at: usize, drop_ins: &[PathBuf]) -> Host {
        let name = &site.fabric.hosts[at].name;
        let root = site.root(name, &site.programs.daemon().expect("built"));
        put(&root, "etc/sluice/sluiced.toml", &std::fs::read_to_string(shipped("sluiced.toml")).expect("shipped"));
        put(&root, "etc/sluice/topology.json", &topology_json(&site.fabric.spec, &site.fabric.layout, false));
        let unit = Unit::read(&shipped("systemd/run-sluice-progress.mount"), &[]).expect("shipped");
        let (inside, ids) = (root.clone(), root.clone());
        // In a mount namespace of the host's own: it is gone with the test, however that ends.
        let mounted = site.fabric.hosts[at].ns.run(move || {
            unshare(CloneFlags::CLONE_NEWNS).map_err(|e| e.to_string())?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(|e| e.to_string())?;
            sluice_units::mount_unit(&unit, &inside.dir, |file, name| ids.id(file, name)).map_err(|e| e.to_string())
        });
        mounted.expect("no panic").expect("the unit is mounted");
        let (owner, instance) = (root.id("passwd", "sluice").expect("a user"), instance());
        // As tmpfiles.d makes that of the instance without a name.
        let pins = Path::new("/sys/fs/bpf").join(format!("sluice{instance}"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&pins).expect("bpffs is mounted");
        chown(&pins, Some(owner), Some(owner)).expect("owned");
        let log = site.dir.path().join(format!("{name}.log"));
        let files = (shipped("systemd/sluiced.service"), drop_ins.to_vec());
        let service = Service::new(Path::new(LAUNCHER), files, &root, &log).expect("a service");
        Host { root, service, at, instance, fabric: site.fabric.clone() }
    }

    /// Writes a file of its root.
    pub fn write(&self, path: &str, text: &str) {
        put(&self.root, path, text);
    }

    /// Starts the service and waits until it is ready.
    pub fn start(&mut self) {
        let node = &self.fabric.hosts[self.at];
        let procs = self.fabric.cgroups.daemon(self.at).procs().ok();
        self.service.start(PATIENCE, |command| spawn(&node.ns, command, procs)).unwrap_or_else(|e| panic!("{e}"));
    }

    /// Stops the service in order; what its unit does afterwards is left to [`Host::after`].
    pub fn stop(&mut self) {
        let status = self.service.stop().unwrap_or_else(|e| panic!("{e}"));
        assert!(status.success(), "{status}");
    }

    /// What the unit does once the service has ended.
    pub fn after(&mut self) {
        let after = self.run_all("ExecStopPost");
        assert!(after.success(), "{after}: {}", std::fs::read_to_string(&self.service.log).unwrap_or_default());
    }

    /// What `systemctl reload` does.
    pub fn reload(&mut self) -> ExitStatus {
        self.run_all("ExecReload")
    }

    fn run_all(&self, directive: &str) -> ExitStatus {
        let ns = &self.fabric.hosts[self.at].ns;
        self.service.run_all(directive, |command| spawn(ns, command, None)).unwrap_or_else(|e| panic!("{e}"))
    }

    /// What the daemon says of itself; nothing while it does not answer.
    pub fn snapshot(&self) -> Value {
        let text = self.ask("GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
    }

    /// The answer to a command.
    pub fn post(&self, route: &str, body: &str) -> String {
        let length = body.len();
        let head = format!("POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        self.ask(&format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")).unwrap_or_default()
    }

    fn ask(&self, request: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.root.at("/run/sluice/sluiced.sock")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }

    /// `sluiced cleanup`, by root, as the package does when it is removed.
    fn clean(&self, programs: &Binaries) {
        let mut command = Command::new(programs.daemon().expect("built"));
        command.arg("cleanup").arg("--config").arg(self.root.at("/etc/sluice/clean.toml"));
        let run = self.root.at("/run/sluice").display().to_string();
        self.write("etc/sluice/clean.toml", &format!("[node]\nrun_dir = {run:?}\ninstance = {:?}\n", self.instance));
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = spawn(&self.fabric.hosts[self.at].ns, command, None).expect("it starts");
        let said = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{text}");
        let pins = Path::new("/sys/fs/bpf").join(format!("sluice{}", self.instance));
        assert!(!pins.exists(), "{}: {text}", pins.display());
        let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("/proc");
        assert!(!names.contains(&self.instance), "{names}: {text}");
    }
}

/// Of each host another one, for tests run beside each other. Pins of runs that were killed are removed by the next run of a testbed,
/// which knows its own names by this form.
fn instance() -> String {
    static HOSTS: AtomicUsize = AtomicUsize::new(0);
    let at = HOSTS.fetch_add(1, Ordering::Relaxed);
    let (mut n, mut digits) = (std::process::id(), Vec::new());
    while n > 0 {
        digits.push(char::from_digit(n % 36, 36).expect("a digit"));
        n /= 36;
    }
    format!("t{}{at:0>2}", digits.into_iter().rev().collect::<String>())
}

fn put(root: &Root, path: &str, text: &str) {
    let at = root.at(path);
    std::fs::create_dir_all(at.parent().expect("a directory")).expect("made");
    std::fs::write(at, text).expect("written");
}

/// Runs a command in a namespace, and in a cgroup.
pub fn spawn(ns: &NetNs, command: Command, procs: Option<std::os::fd::OwnedFd>) -> std::io::Result<Child> {
    ns.spawn(command, procs).map_err(Error::other)
}
