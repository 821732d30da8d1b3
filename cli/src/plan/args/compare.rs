//! What `sluice plan compare` understands.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::plan::form::PlanFabricArgs;

#[derive(Clone, Debug, ClapArgs)]
pub struct CompareArgs {
    /// The plans, of one collective on one topology; `-` is stdin
    #[arg(value_name = "PLAN", required = true)]
    pub plans: Vec<PathBuf>,
    /// The sizes of the data: what each participant ends with (all-gather), owns (all-to-all), else the vector or the root's
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SIZE,…",
        default_value = "1kB,10kB,100kB,1MB,10MB,100MB,1GB,10GB"
    )]
    pub sizes: Vec<String>,
    /// Also draw time against size into this file, both axes logarithmic; `-` is stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub fabric: PlanFabricArgs,
}
