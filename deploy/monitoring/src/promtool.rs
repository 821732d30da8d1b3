//! Where Prometheus' own programs are: in the path, or unpacked below the target directory by `cargo xtask setup`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `cargo xtask setup` unpacks the Debian package, below the target directory.
const UNPACKED: &str = "prometheus/root/usr/bin";

/// A program of the package `prometheus`: `promtool` or `prometheus`.
///
/// # Errors
/// Says that it is not here and what to do.
pub fn find(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // A test lies some folders below the target directory.
    if let Ok(here) = std::env::current_exe() {
        places.extend(here.ancestors().map(|above| above.join(UNPACKED)));
    }
    let found = places.into_iter().map(|place| place.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| format!("no {program}; `cargo xtask setup` unpacks it"))
}

/// What promtool says of a page of metrics.
///
/// # Errors
/// Its complaints, or why it could not be asked.
pub fn check_metrics(program: &Path, page: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
    // It reads everything before it says anything.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(page.as_bytes()));
    let output = child.wait_with_output().map_err(|e| format!("{}: {e}", program.display()))?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let whole = matches!(written, Some(Ok(())));
    if output.status.success() && whole { Ok(()) } else { Err(format!("promtool check metrics: {said}")) }
}

/// An expression in which Grafana's variables have values; all clusters are chosen.
pub fn with_values(expr: &str, interval: &str, instance: &str, job_id: &str) -> String {
    let pairs = [
        ("$__rate_interval", interval),
        ("$__interval", interval),
        ("$__range", interval),
        ("$cluster", ".*"),
        ("$instance", instance),
        ("$job_id", job_id),
    ];
    pairs.iter().fold(expr.to_owned(), |expr, (name, value)| expr.replace(name, value))
}
