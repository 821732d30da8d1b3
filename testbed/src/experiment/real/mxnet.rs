//! Command lines of an MXNet job with parameter servers, as dmlc's trackers would make them: a scheduler, as many servers
//! as workers, each on a host of its own; the scheduler shares the first server's.

use std::path::PathBuf;
use std::process::Command;

use super::Settings;
use super::command::{Files, workload_dirs};
use super::fault::{Library, Preload};
use crate::fabric::Fabric;
use crate::run::RunError;

/// Arrays of more floats than this are divided among all servers, so that each has the same to do.
const DIVIDED: &str = "100000";

/// Python with MXNet: `SLUICE_MXNET_PYTHON`, or the one that `cargo xtask setup --workloads` makes.
///
/// # Errors
/// A sentence that says how to get it.
pub fn mxnet_python() -> Result<PathBuf, RunError> {
    let named = std::env::var_os("SLUICE_MXNET_PYTHON").map(PathBuf::from);
    let made = workload_dirs().into_iter().map(|dir| dir.join("mxnet/bin/python"));
    let missing = "MXNet is not here: `cargo xtask setup --workloads` installs it where Python 3.11 is (or name a \
                   Python that has it, SLUICE_MXNET_PYTHON)";
    named.into_iter().chain(made).find(|path| path.exists()).ok_or_else(|| RunError::Plan(missing.into()))
}

/// The scheduler, the servers, the workers: each with its host.
pub(super) fn mxnet(
    fabric: &Fabric,
    settings: &Settings,
    files: &Files<'_>,
    job: usize,
    library: &Library,
) -> Vec<(usize, Command)> {
    let count = settings.ranks;
    let servers = (0..count).map(|host| ("server", host));
    let workers = (count..2 * count).map(|host| ("worker", host));
    let node = |(role, host): (&str, usize)| {
        let device = fabric.layout.links.iter().find(|link| link.from.node == host).map(|link| &link.from.device);
        let mut command = Command::new(files.root);
        command
            .args(files.words(settings, job))
            .env("PYTHONUNBUFFERED", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("MXNET_KVSTORE_BIGARRAY_BOUND", DIVIDED)
            .env("DMLC_ROLE", role)
            .env("DMLC_PS_ROOT_URI", fabric.hosts[0].address.to_string())
            .env("DMLC_PS_ROOT_PORT", (9_100 + job).to_string())
            .env("DMLC_NUM_SERVER", count.to_string())
            .env("DMLC_NUM_WORKER", count.to_string())
            .env("DMLC_INTERFACE", device.map_or("", String::as_str));
        if let Some(Preload { library, pages }) = library.of(host, (role, host) == ("worker", count)) {
            command.env("LD_PRELOAD", library).env("SLUICE_SHM_DIR", pages);
        }
        (host, command)
    };
    std::iter::once(("scheduler", 0)).chain(servers).chain(workers).map(node).collect()
}
