//! What `sluice doctor` understands.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Clone, Debug, ClapArgs)]
pub struct DoctorArgs {
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Put right what can be without harm: sysctls, directories, mounts; asks before
    #[arg(long)]
    pub fix: bool,
    /// With --fix: do not ask
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// Instead: everything of Sluice on this host, in the kernel and on disks; "nothing" after a removal
    #[arg(long, conflicts_with_all = ["fix", "report"])]
    pub traces: bool,
    /// Configuration that is judged, and by whose ports, links, clock, directories and switches is looked; none: /etc/sluice/sluiced.toml
    #[arg(long, env = "SLUICE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}
