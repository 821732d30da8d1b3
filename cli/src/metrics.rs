//! `sluice metrics`: what the daemon tells Prometheus, on stdout or as a file for node_exporter's textfile collector.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// Families that are ours: node_exporter has those of a process of its own, and refuses a file that repeats them.
const OURS: &str = "sluice_";
/// Says, in a file, whether the daemon answered.
const UP: &str = "sluice_up";

/// What `sluice metrics` takes.
#[derive(Clone, Debug, ClapArgs)]
pub struct MetricsArgs {
    /// Write to this file instead, in one step, for node_exporter's textfile collector; with `sluice_up` 0 and nothing else
    /// when the daemon does not answer
    #[arg(long, value_name = "FILE.prom")]
    pub textfile: Option<PathBuf>,
    /// Only families of jobs: rounds, bytes, progress, stalls
    #[arg(long)]
    pub jobs: bool,
}

pub fn run(global: &Global, args: &MetricsArgs) -> Result<(), Failure> {
    let prefix = if args.jobs { "sluice_job" } else { OURS };
    let answer = Client::new(global)?.get("/metrics");
    let Some(file) = &args.textfile else {
        return output::print(&families(&String::from_utf8_lossy(&answer?), prefix));
    };
    if file.extension().is_none_or(|extension| extension != "prom") {
        return Err(Failure::input(format!("{}: the collector reads files that end in .prom only", file.display())));
    }
    let text = match &answer {
        Ok(page) => up(true) + &families(&String::from_utf8_lossy(page), prefix),
        Err(_) => up(false),
    };
    replace(file, &text).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    answer.map(drop)
}

fn up(up: bool) -> String {
    format!("# HELP {UP} 1 if sluiced answered when this was written.\n# TYPE {UP} gauge\n{UP} {}\n", u8::from(up))
}

/// The families whose name begins so, with their headers.
fn families(page: &str, prefix: &str) -> String {
    let name = |line: &str| -> bool {
        let rest = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        rest.starts_with(prefix)
    };
    page.lines().filter(|line| name(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Puts a file in the place of the one before, so that the collector reads one or the other whole.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    // Not ".prom": the collector does not look at it.
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut out = options.write(true).create_new(true).mode(0o644).open(&temporary)?;
        out.write_all(text.as_bytes())?;
        // Others read it, whatever the umask is.
        out.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&temporary, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP process_open_fds Open.\n# TYPE process_open_fds gauge\nprocess_open_fds 7\n\
        # HELP sluice_mode State set.\n# TYPE sluice_mode gauge\nsluice_mode{mode=\"active\"} 1\n\
        # HELP sluice_job_rounds_total Rounds finished.\n# TYPE sluice_job_rounds_total counter\nsluice_job_rounds_total{job_id=\"a\"} 5\n\
        # EOF\n";

    #[test]
    fn only_our_families_with_their_headers() {
        let ours = families(PAGE, OURS);
        assert!(!ours.contains("process_") && !ours.contains("EOF") && ours.lines().count() == 6, "{ours}");
        assert_eq!(families(PAGE, "sluice_job").lines().count(), 3);
        assert!(families(PAGE, "sluice_job").ends_with("sluice_job_rounds_total{job_id=\"a\"} 5\n"));
    }

    #[test]
    fn a_file_is_replaced_in_one_step_and_nothing_else_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("sluice.prom");
        replace(&file, "old\n").expect("written");
        replace(&file, &up(false)).expect("written");
        assert!(fs::read_to_string(&file).expect("there").ends_with("sluice_up 0\n"));
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1);
        replace(&dir.path().join("absent/sluice.prom"), "x").expect_err("no such directory");
    }
}
