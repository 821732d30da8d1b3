//! What `sluice top` understands.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sluice_schedule::Nanos;
use sluice_wire::text::parse_duration;

#[derive(Clone, Debug, ClapArgs)]
pub struct TopArgs {
    /// Print one frame and end (also when stdout is not a terminal)
    #[arg(long)]
    pub once: bool,
    /// Frames per second
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub hz: u8,
    /// Begin with this job selected
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Play a file instead: a trace of `sluice timeline`, or a recording of a daemon (record.file); ? shows the keys
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Begin so long after the file's beginning
    #[arg(long, requires = "replay", default_value = "0s", value_parser = parse_duration, value_name = "TIME")]
    pub at: Nanos,
}
