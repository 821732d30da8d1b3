//! Command lines of stock jobs, as torchrun and mpirun would make them, in the hosts of a fabric.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Settings;
use crate::fabric::Fabric;
use crate::run::RunError;

/// Where `cargo xtask setup --workloads` unpacks: `SLUICE_WORKLOADS`, else beside the directory of this program.
///
/// # Errors
/// A sentence that says how to get them.
pub fn workloads() -> Result<PathBuf, RunError> {
    let root = workload_dirs().into_iter().map(|dir| dir.join("root")).find(|root| root.join(TORCH).exists());
    let missing =
        "PyTorch is not here: `cargo xtask setup --workloads` unpacks it (or name its place, SLUICE_WORKLOADS)";
    root.ok_or_else(|| RunError::Plan(missing.into()))
}

/// Where workloads may lie, the likeliest first.
pub(super) fn workload_dirs() -> Vec<PathBuf> {
    let named = std::env::var_os("SLUICE_WORKLOADS").map(PathBuf::from);
    let beside = std::env::current_exe().ok();
    let beside = beside.iter().flat_map(|exe| exe.ancestors().skip(2).take(2).map(|dir| dir.join("workloads")));
    named.into_iter().chain(beside).collect()
}

/// A file that shows that PyTorch is there.
const TORCH: &str = "usr/lib/python3/dist-packages/torch/__init__.py";
/// Where Debian's libraries lie.
const LIBRARIES: [&str; 7] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/openmpi/lib",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/blas",
    "usr/lib/x86_64-linux-gnu/lapack",
    "usr/lib/x86_64-linux-gnu/pmix2/lib",
];

/// Sets what programs unpacked below `root` need to find their parts.
pub(super) fn set_places(command: &mut Command, root: &Path) {
    let all = LIBRARIES.map(|part| root.join(part).display().to_string()).join(":");
    let modules = root.join("usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3");
    command
        .env("PYTHONPATH", root.join("usr/lib/python3/dist-packages"))
        .env("PYTHONUNBUFFERED", "1")
        .env("LD_LIBRARY_PATH", all)
        .env("OPAL_PREFIX", root.join("usr"))
        .env("OPAL_LIBDIR", root.join("usr/lib/x86_64-linux-gnu"))
        .env("OMPI_MCA_mca_base_component_path", modules);
}

/// Python of the system, or the unpacked one.
fn python(root: &Path) -> PathBuf {
    let unpacked = root.join("usr/bin/python3.11");
    if unpacked.exists() { unpacked } else { PathBuf::from("/usr/bin/python3") }
}

pub(super) struct Files<'a> {
    pub(super) root: &'a Path,
    pub(super) script: PathBuf,
    pub(super) dir: &'a Path,
}

impl Files<'_> {
    /// The script's words on a command line.
    pub(super) fn words(&self, settings: &Settings, job: usize) -> Vec<String> {
        let script = self.script.display().to_string();
        let (iterations, load) = (settings.iterations.to_string(), settings.load_ms.to_string());
        let (megabytes, seed) = (settings.megabytes.to_string(), (job + 1).to_string());
        let words = [
            script.as_str(),
            "--iterations",
            &iterations,
            "--megabytes",
            &megabytes,
            "--load-ms",
            &load,
            "--seed",
            &seed,
        ];
        words.map(str::to_owned).to_vec()
    }
}

/// One process per host, with the environment that torchrun would give it.
pub(super) fn ddp(fabric: &Fabric, settings: &Settings, files: &Files<'_>, job: usize) -> Vec<(usize, Command)> {
    let rank = |host: usize| {
        let device = fabric.layout.links.iter().find(|link| link.from.node == host).map(|link| &link.from.device);
        let mut command = Command::new(python(files.root));
        command
            .args(files.words(settings, job))
            .env("RANK", host.to_string())
            .env("WORLD_SIZE", settings.ranks.to_string())
            .env("MASTER_ADDR", fabric.hosts[0].address.to_string())
            .env("MASTER_PORT", (29_500 + job).to_string())
            .env("GLOO_SOCKET_IFNAME", device.map_or("", String::as_str));
        (host, command)
    };
    (0..settings.ranks).map(rank).collect()
}

/// `mpirun` on the first host. Its remote shell is a script that enters the other host's namespace and cgroup; every host
/// has a host name of its own, so that Open MPI does not take them for one.
pub(super) fn mpi(fabric: &Fabric, settings: &Settings, files: &Files<'_>) -> Result<Command, RunError> {
    let mut agent = String::from("#!/bin/sh\nhost=$1; shift\ncase $host in\n");
    for (i, host) in fabric.hosts.iter().enumerate() {
        let (procs, tid) = (fabric.cgroups.jobs(i).path().join("cgroup.procs"), host.ns.tid());
        agent.push_str(&format!("{}) net=/proc/{tid}/ns/net; procs={} ;;\n", host.name, procs.display()));
    }
    agent.push_str(
        "esac\necho $$ > $procs\n\
         exec nsenter --net=$net unshare --uts sh -c 'hostname \"$1\"; shift; exec sh -c \"$*\"' agent \"$host\" \"$@\"\n",
    );
    let path = files.dir.join("agent.sh");
    std::fs::write(&path, agent).map_err(RunError::io("writing mpirun's remote shell"))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).map_err(RunError::io("making mpirun's remote shell executable"))?;
    let hosts: Vec<String> = fabric.hosts.iter().map(|host| format!("{}:1", host.name)).collect();
    let data = format!("{}/16", fabric.hosts[0].address);
    let (agent, hosts, ranks) = (path.display().to_string(), hosts.join(","), settings.ranks.to_string());
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname \"$1\"; shift; exec \"$@\"", "mpirun", &fabric.hosts[0].name]);
    command.arg(files.root.join("usr/bin/orterun"));
    command.args(["--allow-run-as-root", "-np", &ranks, "--map-by", "node", "-H", &hosts]);
    for (key, value) in [
        ("plm_rsh_agent", agent.as_str()),
        ("btl", "tcp,self"),
        ("pml", "ob1"),
        // All hosts of a fabric share this machine's cores: who waits must not keep others from them.
        ("mpi_yield_when_idle", "1"),
        ("oob_tcp_if_include", "10.255.0.0/16"),
        ("btl_tcp_if_include", data.as_str()),
        // A ring: the one of the algorithms that large vectors get.
        ("coll_tuned_use_dynamic_rules", "1"),
        ("coll_tuned_allreduce_algorithm", "4"),
    ] {
        command.args(["--mca", key, value]);
    }
    command.args(["-x", "LD_LIBRARY_PATH", "-x", "OPAL_PREFIX"]).arg(python(files.root));
    command.args(files.words(settings, 0));
    Ok(command)
}
