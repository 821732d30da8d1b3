//! What `sluice bugreport` understands.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Clone, Debug, ClapArgs)]
pub struct BugreportArgs {
    /// Where to write, a .tar.gz; none: sluice-bugreport-SECONDS.tar.gz here
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Leave addresses and host names as they are
    #[arg(long)]
    pub no_redact: bool,
    /// Configuration that is told where no daemon answers; none: /etc/sluice/sluiced.toml
    #[arg(long, env = "SLUICE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}
